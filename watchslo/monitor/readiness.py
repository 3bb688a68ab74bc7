"""Whether the daemon measures what it should, and if not, why."""

from collections.abc import Iterator

from watchslo.monitor.clock_assignment import ClockAssignment
from watchslo.monitor.discovery_loop import DiscoveryLoop
from watchslo.monitor.reconciler import Reconciler
from watchslo.monitor.watch_set import WatchSet
from watchslo.timeline.condition import placed


class Readiness:
    """Answers from the state of the other parts; it owns no state and changes nothing."""

    def __init__(self, reconciler: Reconciler, discovery: DiscoveryLoop, watches: WatchSet) -> None:
        self._reconciler = reconciler
        self._discovery = discovery
        self._watches = watches

    @property
    def starting(self) -> bool:
        """Whether a watch has not been opened yet, or is open and not yet measured."""
        return any(self.not_ready()) or any(
            watch.session.up and not watch.statistics.measured for watch in self._watches.all
        )

    @property
    def unreachable(self) -> bool:
        """Whether the cluster has been asked what it serves, and has never answered."""
        return self._discovery.catalogue is None and self._discovery.failure is not None

    def not_ready(self) -> Iterator[str]:
        """Yield the reasons why the daemon is not ready, in sentences; none if it is ready."""
        reconciler, assignment = self._reconciler, self._watches.assignment
        if reconciler.config.paused:
            yield "Watching is paused."
        elif reconciler.begins_in > 0.0:
            yield f"The first request waits for {reconciler.begins_in:.0f} s more, as `startDelay` says."
        elif self._discovery.catalogue is None or not reconciler.is_tried:
            yield f"The cluster is being discovered. {self._discovery.failure or ''}".rstrip()
        elif assignment is None:
            if not reconciler.desired.elsewhere:  # else the other shards have all watches
                yield "The cluster serves nothing of what is configured."
        else:
            yield from self._not_running(assignment)

    def _not_running(self, assignment: ClockAssignment) -> Iterator[str]:
        if assignment.not_ticking:
            yield f"The revision clock does not tick: {assignment.not_ticking}"
        watches = self._watches.all
        opened = {watch.identity.label for watch in watches if watch.session.started}
        for watch in watches:
            label, session = watch.identity.label, watch.session
            if not session.started and not (session.failure and label in opened):  # another apiserver has it
                where = placed(label, watch.identity.apiserver.name)
                yield f"{where} has not been opened yet: {session.failure or session.state}"
