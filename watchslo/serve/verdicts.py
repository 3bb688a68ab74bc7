"""Who may read what: what an apiserver said of it, and for how long that holds.

Reviews cost the apiserver requests, so verdicts are kept, and strangers cannot make us ask for many. While no review
can be had, whoever was allowed lately stays allowed: metrics are needed most while the apiserver is in trouble.
Times are monotonic seconds.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, replace
from enum import Enum

ALLOWED_SECONDS = 60.0  # also how long a token that was revoked may still read
DENIED_SECONDS = 10.0  # a right that was granted just now is soon seen
TRUSTED_SECONDS = 900.0  # after the last review that allowed it, while no other can be had
RETRY_SECONDS = 10.0  # between two reviews that fail, of one who is trusted meanwhile
MOST = 1024  # verdicts; strangers add one a second, see REVIEWS_PER_SECOND, and theirs are the first to be forgotten
REVIEWS_PER_SECOND = 1.0  # of those who are not known as allowed
BURST = 10.0  # so many at once, after a quiet time: several scrapers may begin together


class Verdict(Enum):
    """What is said to who asks."""

    ALLOWED = "allowed"
    UNKNOWN = "unknown"
    FORBIDDEN = "forbidden"


@dataclass(frozen=True, slots=True)
class _Known:
    verdict: Verdict
    reviewed: float
    until: float

    def is_trusted(self, now: float) -> bool:
        """Whether it still counts where no other review can be had."""
        return self.verdict is Verdict.ALLOWED and now < self.reviewed + TRUSTED_SECONDS


def key_of(token: str, path: str) -> bytes:
    """What stands for a token and a path here: the token itself is kept nowhere."""
    return hashlib.sha256(f"{token}\0{path}".encode()).digest()


class Verdicts:
    """The verdicts in force, by `key_of`; those that nobody asked for the longest are forgotten first."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._spare = BURST
        self._counted = 0.0

    def __len__(self) -> int:
        return len(self._known)

    def in_force(self, key: bytes, now: float) -> Verdict | None:
        """None: a review is needed."""
        known = self._known.get(key)
        if known is None or now >= known.until:
            return None
        self._known.move_to_end(key)
        return known.verdict

    def may_review(self, key: bytes, now: float) -> bool:
        """Whether a review may be asked for, which then counts. Those who were allowed never wait behind strangers."""
        known = self._known.get(key)
        if known is not None and known.is_trusted(now):
            return True
        self._spare = min(BURST, self._spare + (now - self._counted) * REVIEWS_PER_SECOND)
        self._counted = now
        if self._spare < 1.0:
            return False
        self._spare -= 1.0
        return True

    def reviewed(self, key: bytes, verdict: Verdict, now: float) -> None:
        """A review has ended."""
        lasts = ALLOWED_SECONDS if verdict is Verdict.ALLOWED else DENIED_SECONDS
        self._keep(key, _Known(verdict, now, now + lasts))

    def trusted(self, key: bytes, now: float) -> bool:
        """No review could be had: whether the last one still counts, which is then so for some seconds."""
        known = self._known.get(key)
        if known is None or not known.is_trusted(now):
            return False
        self._keep(key, replace(known, until=min(now + RETRY_SECONDS, known.reviewed + TRUSTED_SECONDS)))
        return True

    def _keep(self, key: bytes, known: _Known) -> None:
        self._known[key] = known
        self._known.move_to_end(key)
        if len(self._known) > MOST:
            self._known.popitem(last=False)
