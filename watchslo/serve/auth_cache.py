"""A cache of the apiserver's access decisions: for how long they hold, and how many reviews may be requested.

Reviews cost the apiserver requests, so decisions are cached and unknown clients cannot cause many reviews. While
reviews fail, recently allowed clients stay allowed: metrics are needed most while the apiserver has problems. Times are
monotonic seconds.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, replace
from enum import Enum

ALLOWED_SECONDS = 60.0  # a revoked token can still read for this long
DENIED_SECONDS = 10.0  # a permission that was just granted takes effect after this
TRUSTED_SECONDS = 900.0  # after the last review that allowed it, while reviews fail
RETRY_SECONDS = 10.0  # between two failing reviews of a client that is still trusted
MOST = 1024  # decisions; unknown clients add one a second at most and theirs are evicted first
REVIEWS_PER_SECOND = 1.0  # of clients that are not known as allowed
BURST = 10.0  # reviews at once after a quiet time: several scrapers may start together


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


def key_of(token: str, path: str) -> bytes:
    """Return the key of a token and a path: a digest, because tokens are never stored."""
    return hashlib.sha256(f"{token}\0{path}".encode()).digest()


class AccessDecisions:
    """Decisions by `key_of`; the least recently used one is evicted first."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, _CachedDecision] = OrderedDict()
        self._spare = BURST
        self._counted = 0.0

    def __len__(self) -> int:
        return len(self._known)

    def in_force(self, key: bytes, now: float) -> AccessDecision | None:
        """Return the decision that holds now; None if a review is needed."""
        known = self._known.get(key)
        if known is None or now >= known.until:
            return None
        self._known.move_to_end(key)
        return known.decision

    def may_review(self, key: bytes, now: float) -> bool:
        """Return True if a review may be requested now, and count it; trusted clients are never limited."""
        known = self._known.get(key)
        if known is not None and known.is_trusted(now):
            return True
        self._spare = min(BURST, self._spare + (now - self._counted) * REVIEWS_PER_SECOND)
        self._counted = now
        if self._spare < 1.0:
            return False
        self._spare -= 1.0
        return True

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
