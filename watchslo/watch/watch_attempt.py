"""One request for a watch, from the moment at which it is due until the watch ends."""

from dataclasses import dataclass, field

from watchslo.watch.guarantees import ReceivedPosition
from watchslo.watch.messages import WatchRequest

DEADLINE_SLACK_SECONDS = 1.0  # a watch that closes this close to its timeout has run its full time
HEALTHY_SECONDS = 10.0  # a watch that lived for this long is resumed at once, and proves its revision good


@dataclass(slots=True)
class WatchAttempt:
    """One request for a watch and what it has brought so far; the next request replaces it.

    It was `requested` at that time, and `sent` when it had waited for its turn in this process.
    `position` is how far its events and bookmarks have got. `heard` says that it brought an event or a bookmark,
    `garbled` that it brought lines that were neither.
    """

    op: int
    request: WatchRequest
    requested: float
    sent: float | None = None
    opened: float | None = None
    position: ReceivedPosition = field(default_factory=ReceivedPosition)
    heard: bool = False
    garbled: bool = False

    def opening_for(self, now: float) -> float:
        """Return the seconds since the request was sent, or since it waits for its turn."""
        return now - (self.requested if self.sent is None else self.sent)

    def lived(self, now: float) -> float | None:
        """Return the seconds since the watch opened, or None if it never did."""
        return None if self.opened is None else now - self.opened

    def has_run_out(self, lived: float) -> bool:
        """Return True if a watch that lived for so long has run its full time."""
        return lived >= self.request.timeout - DEADLINE_SLACK_SECONDS


def is_healthy(lived: float | None) -> bool:
    """Return True if a watch that lived for so long proves that its revision is good."""
    return lived is not None and lived >= HEALTHY_SECONDS
