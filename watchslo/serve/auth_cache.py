"""A cache of the apiserver's access decisions: for how long they hold, and how many reviews may be requested.

Reviews cost the apiserver requests, so decisions are cached and unknown clients cannot cause many reviews. While
reviews fail, recently allowed clients stay allowed: metrics are needed most while the apiserver has problems. Times are
monotonic seconds.
"""

import base64
import hashlib
from collections import OrderedDict
from dataclasses import dataclass, replace
from enum import Enum

import msgspec

from watchslo.errors import UNDECODABLE

ALLOWED_SECONDS = 60.0  # a revoked token can still read for this long
DENIED_SECONDS = 10.0  # a permission that was just granted takes effect after this
TRUSTED_SECONDS = 900.0  # after the last review that allowed it, while reviews fail
RETRY_SECONDS = 10.0  # between two failing reviews of a client that is still trusted
MOST = 1024  # decisions; unknown clients add one a second at most and theirs are evicted first
REVIEWS_PER_SECOND = 1.0  # of clients that are not known as allowed
BURST = 15.0  # reviews at once after a quiet time: several scrapers may start together
MOST_COUNTED = 9.0  # reviews that count against an address: it leaves as many to others, and gets the rest
FORGOTTEN_PER_SECOND = 0.05  # of them
MOST_ADDRESSES = 1024  # that are remembered; of a forgotten one, no review counts
LEEWAY_SECONDS = 3600.0  # by which this machine's wall clock may be wrong


class AccessDecision(Enum):
    """The decision on a token and a path; `unknown` if the token is not valid."""

    ALLOWED = "allowed"
    UNKNOWN = "unknown"
    FORBIDDEN = "forbidden"


@dataclass(frozen=True, slots=True)
class _CachedDecision:
    decision: AccessDecision
    reviewed: float
    until: float

    def is_trusted(self, now: float) -> bool:
        """Return True if the decision still holds while reviews fail."""
        return self.decision is AccessDecision.ALLOWED and now < self.reviewed + TRUSTED_SECONDS


@dataclass(slots=True)
class _TimedCount:
    """A number between 0 and a maximum that changes by `rate` per second, as of `counted`."""

    value: float
    rate: float
    most: float
    counted: float

    def at(self, now: float) -> float:
        """Return the number now."""
        elapsed, self.counted = now - self.counted, now
        self.value = max(0.0, min(self.most, self.value + elapsed * self.rate))
        return self.value


class _TokenClaims(msgspec.Struct):
    exp: float | None = None


def is_expired(token: str, wall: float) -> bool:
    """Return whether a token says that it has expired, at a time in Unix seconds; opaque tokens say nothing.

    A JWT has its claims between its dots (RFC 7519).
    """
    _, _, rest = token.partition(".")
    claims, dot, _ = rest.partition(".")
    try:
        expiry = msgspec.json.decode(base64.urlsafe_b64decode(claims + "=="), type=_TokenClaims).exp
    except UNDECODABLE:
        return False
    return bool(dot) and expiry is not None and expiry + LEEWAY_SECONDS < wall


def key_of(token: str, path: str) -> bytes:
    """Return the key of a token and a path: a digest, because tokens are never stored."""
    return hashlib.sha256(f"{token}\0{path}".encode()).digest()


class AccessDecisions:
    """Decisions by `key_of`; the least recently used one is evicted first."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, _CachedDecision] = OrderedDict()
        self._spare = _TimedCount(BURST, REVIEWS_PER_SECOND, BURST, 0.0)
        self._used: OrderedDict[str, _TimedCount] = OrderedDict()  # reviews by address, in the order of their last use

    def __len__(self) -> int:
        return len(self._known)

    def in_force(self, key: bytes, now: float) -> AccessDecision | None:
        """Return the decision that holds now; None if a review is needed."""
        known = self._known.get(key)
        if known is None or now >= known.until:
            return None
        self._known.move_to_end(key)
        return known.decision

    def may_review(self, key: bytes, address: str, now: float) -> bool:
        """Return True if a review for a client may be requested now, and count it.

        What an address has used must be left for others, so that addresses that flood do not lock out new ones.
        Trusted clients are never limited.
        """
        known = self._known.get(key)
        if known is not None and known.is_trusted(now):
            return True
        used = self._used.setdefault(address, _TimedCount(0.0, -FORGOTTEN_PER_SECOND, MOST_COUNTED, now))
        self._used.move_to_end(address)
        if len(self._used) > MOST_ADDRESSES:
            self._used.popitem(last=False)
        if self._spare.at(now) < 1.0 + used.at(now):
            return False
        used.value += 1.0
        self._spare.value -= 1.0
        return True

    def forgive(self, address: str) -> None:
        """Do not count a review against an address: it allowed the client."""
        if used := self._used.get(address):
            used.value = max(0.0, used.value - 1.0)

    def reviewed(self, key: bytes, decision: AccessDecision, now: float) -> None:
        """Store the decision of a review."""
        lasts = ALLOWED_SECONDS if decision is AccessDecision.ALLOWED else DENIED_SECONDS
        self._keep(key, _CachedDecision(decision, now, now + lasts))

    def trusted(self, key: bytes, now: float) -> bool:
        """Return True if the last decision holds after a failed review; it then holds for `RETRY_SECONDS` more."""
        known = self._known.get(key)
        if known is None or not known.is_trusted(now):
            return False
        self._keep(key, replace(known, until=min(now + RETRY_SECONDS, known.reviewed + TRUSTED_SECONDS)))
        return True

    def _keep(self, key: bytes, known: _CachedDecision) -> None:
        self._known[key] = known
        self._known.move_to_end(key)
        if len(self._known) > MOST:
            self._known.popitem(last=False)
