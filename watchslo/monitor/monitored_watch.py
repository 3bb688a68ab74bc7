"""One watch that runs: its parts, each with one owner of its state."""

from dataclasses import dataclass

from watchslo.monitor.desired import DesiredWatch
from watchslo.monitor.watch_identity import WatchIdentity
from watchslo.monitor.watch_session import WatchSession
from watchslo.monitor.watch_statistics import WatchStatistics


@dataclass(frozen=True, slots=True, eq=False)
class MonitoredWatch:
    """The parts of one watch; a reload replaces this value where only `desired` changes.

    `desired` is what the configuration asks for now, `session` the protocol, `statistics` the latencies. What audits,
    cache probes and headroom probes find is kept by the objects that run them.
    """

    identity: WatchIdentity
    desired: DesiredWatch
    session: WatchSession
    statistics: WatchStatistics

    def down_for(self, now: float) -> float | None:
        """Return for how many seconds clients can receive nothing on such a watch; None if they can.

        It is down while other clients cannot open it either, and while its apiserver answers nothing.
        """
        silent_for = self.identity.apiserver.unresponsive_for(now)
        known = [seconds for seconds in (self.session.down_for(now), silent_for) if seconds is not None]
        return max(known, default=None)
