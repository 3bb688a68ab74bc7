"""One watch that runs: its parts, each with one owner of its state."""

from dataclasses import dataclass, field

from watchslo.monitor.protocol.desired import DesiredWatch
from watchslo.monitor.protocol.watch_identity import WatchIdentity
from watchslo.monitor.watches.reference_watch import ReferenceWatch
from watchslo.monitor.watches.second_watch import SecondWatch
from watchslo.monitor.watches.watch_session import WatchSession
from watchslo.monitor.watches.watch_statistics import WatchStatistics
from watchslo.watch.failure import Reason


@dataclass(frozen=True, slots=True, eq=False)
class MonitoredWatch:
    """The parts of one watch; a reload replaces this value where only `desired` changes.

    `desired` is what the configuration asks for now, `session` the protocol, `statistics` the latencies, `reference`
    the watch of whole objects next to it, if there is one. `others` are more of these, which the `ReactionSet` adds and
    removes; they survive a reload. What audits, cache probes and headroom probes find is kept
    by the objects that run them.
    """

    identity: WatchIdentity
    desired: DesiredWatch
    session: WatchSession
    statistics: WatchStatistics
    reference: ReferenceWatch | None = None
    others: list[SecondWatch] = field(default_factory=list)

    def halt(self, reason: Reason) -> None:
        """Close the watch, and those of whole objects."""
        for watch in self._all:
            watch.halt(reason)

    def reopen(self, reason: Reason) -> None:
        """Replace the connections of the watch, and of those of whole objects."""
        for watch in self._all:
            watch.reopen(reason)

    def hasten(self) -> None:
        """Open the watch soon, and those of whole objects, if they wait because the apiserver did not answer."""
        for watch in self._all:
            watch.hasten()

    def start_over(self) -> None:
        """Begin again from the present revision: earlier ones mean something else now."""
        for watch in self._all:
            watch.start_over()
        self.statistics.drop_unsealed()  # also what the old watches had received and not delivered yet

    @property
    def _all(self) -> tuple[WatchSession | SecondWatch, ...]:
        reference = () if self.reference is None else (self.reference,)
        return (self.session, *reference, *self.others)

    def down_for(self, now: float) -> float | None:
        """Return for how many seconds clients can receive nothing on such a watch; None if they can.

        It is down while other clients cannot open it either, and while its apiserver answers nothing.
        """
        silent_for = self.identity.apiserver.unresponsive_for(now)
        known = [seconds for seconds in (self.session.down_for(now), silent_for) if seconds is not None]
        return max(known, default=None)
