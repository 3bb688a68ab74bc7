"""Find the likeliest reason why an apiserver closed a watch early and cleanly.

The apiserver sends no reason. What happens to this and other watches within the next seconds suggests one. None of
these reasons is proven, and their messages say so.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from watchslo.watch.failure import TOO_MANY_REQUESTS, Reason

SETTLE_SECONDS = 3.0  # by then the next request has failed or succeeded: a healthy watch is resumed at once
TOGETHER_SECONDS = 1.5  # an apiserver that shuts down closes all its watches within this
ALL_SHARE = 0.8  # some watches may have closed before, for other reasons

_GONE = frozenset({Reason.REFUSED, Reason.RESET, Reason.UNREACHABLE})
_DEFINITION_CHANGED = TOO_MANY_REQUESTS | {Reason.EXPIRED}


@dataclass(frozen=True, slots=True)
class Close:
    """One early and clean close of a watch.

    `open_streams` is how many watches the apiserver had open just before. `behind` is True if the newest event of this
    watch was late, `custom` if a CRD defines the resource. `tell` is called once, with the reason. `followed` collects
    the reasons for which the next requests of this watch failed.
    """

    stream: int
    closed: float
    open_streams: int
    behind: bool
    custom: bool
    tell: Callable[[Reason], None]
    followed: set[Reason] = field(default_factory=set)


class Closes:
    """The closes of one apiserver that have no reason yet; times are monotonic seconds."""

    def __init__(self) -> None:
        self._pending: list[Close] = []
        self._ended: list[tuple[float, int]] = []

    def ended(self, now: float, stream: int, reason: Reason) -> None:
        """Record why a later request of a watch failed, or why another watch ended."""
        for close in self._pending:
            if close.stream == stream:
                close.followed.add(reason)
        if reason in _GONE:
            self._ended.append((now, stream))

    def closed(self, close: Close) -> None:
        """Add an early and clean close."""
        self._pending.append(close)
        self._ended.append((close.closed, close.stream))

    def settle(self, now: float) -> None:
        """Give a reason to each close that is old enough."""
        ripe = [close for close in self._pending if now - close.closed >= SETTLE_SECONDS]
        self._pending = self._pending[len(ripe) :]
        for close in ripe:
            close.tell(self._explain(close))
        self._ended = [(ended, stream) for ended, stream in self._ended if now - ended < 2 * SETTLE_SECONDS]

    def give_up(self) -> None:
        """Give a reason to all remaining closes, with what is known so far."""
        self.settle(float("inf"))

    def _explain(self, close: Close) -> Reason:
        if close.followed & _GONE or self._all_ended(close):
            return Reason.APISERVER_SHUTDOWN
        if close.custom and Reason.NOT_FOUND in close.followed:
            return Reason.CRD_DELETED
        if close.custom and close.followed & _DEFINITION_CHANGED:
            return Reason.CRD_CHANGED
        return Reason.SLOW_CONSUMER if close.behind else Reason.FORCED

    def _all_ended(self, close: Close) -> bool:
        """Return True if nearly all watches of the apiserver ended together; a single watch cannot show that."""
        together = {stream for ended, stream in self._ended if abs(ended - close.closed) <= TOGETHER_SECONDS}
        return len(together) > 1 and len(together) >= ALL_SHARE * close.open_streams
