"""Why an apiserver closed a watch early and cleanly: it does not say, but what else happened does, a moment later.

No reason here is proven: each is the likeliest one, and its message says so.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from watchslo.watch.failure import Reason

SETTLE_SECONDS = 3.0  # what follows a close is there by then: a watch that was healthy is asked for again at once
TOGETHER_SECONDS = 1.5  # an apiserver that shuts down closes all its watches within this
ALL_SHARE = 0.8  # some of them may have been closed already, for reasons of their own

_GONE = frozenset({Reason.REFUSED, Reason.RESET, Reason.UNREACHABLE})
_DEFINITION_CHANGED = frozenset({Reason.THROTTLED, Reason.EXPIRED})


@dataclass(frozen=True, slots=True)
class Close:
    """One early and clean close of a stream's watch.

    `open_streams` is how many watches the apiserver had open just before; `behind` whether this one's newest event
    was late; `custom` whether the resource is defined by a CRD. `tell` is called, once, with the reason.
    """

    stream: int
    closed: float
    open_streams: int
    behind: bool
    custom: bool
    tell: Callable[[Reason], None]
    followed: set[Reason] = field(default_factory=set)


class Closes:
    """The closes of one apiserver that are not explained yet; times are monotonic seconds."""

    def __init__(self) -> None:
        self._pending: list[Close] = []
        self._ended: list[tuple[float, int]] = []

    def ended(self, now: float, stream: int, reason: Reason) -> None:
        """Notes how another attempt of a stream, or its watch, ended."""
        for close in self._pending:
            if close.stream == stream:
                close.followed.add(reason)
        if reason in _GONE:
            self._ended.append((now, stream))

    def closed(self, close: Close) -> None:
        """Takes in an early and clean close."""
        self._pending.append(close)
        self._ended.append((close.closed, close.stream))

    def settle(self, now: float) -> None:
        """Explains what is old enough."""
        ripe = [close for close in self._pending if now - close.closed >= SETTLE_SECONDS]
        self._pending = self._pending[len(ripe) :]
        for close in ripe:
            close.tell(self._explain(close))
        self._ended = [(ended, stream) for ended, stream in self._ended if now - ended < 2 * SETTLE_SECONDS]

    def give_up(self) -> None:
        """Explains the rest with what is known so far."""
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
        """Whether the watches ended together; of one watch alone that cannot be said."""
        together = {stream for ended, stream in self._ended if abs(ended - close.closed) <= TOGETHER_SECONDS}
        return len(together) > 1 and len(together) >= ALL_SHARE * close.open_streams
