"""Whether the daemon measures what it should, and if not, why."""

import time
from collections.abc import Iterator
from enum import Enum, auto

from watchslo.kube.credentials import CredentialSource
from watchslo.monitor.apiservers.discovery_loop import DiscoveryLoop
from watchslo.monitor.assignment.clock_assignment import ClockAssignment
from watchslo.monitor.reconciler import Reconciler
from watchslo.monitor.watch_set import WatchSet
from watchslo.snapshot import IncompleteGroup
from watchslo.timeline.condition import placed
from watchslo.watch.failure import Reason

NEED_THE_USER = frozenset({Reason.UNAUTHORIZED, Reason.FORBIDDEN, Reason.CREDENTIALS, Reason.TLS})
"""Reasons of failures that waiting is unlikely to end."""


class StartState(Enum):
    """What the start of a monitor waits for."""

    LOGIN = auto()  # an exec plugin, which may wait for its user
    UNREACHABLE = auto()  # the cluster, which has never answered what it serves
    REFUSED = auto()  # the user: everything is refused, or the credentials cannot be used
    OPENING = auto()  # the clock, or a watch that is not open and measured yet
    DONE = auto()


class Readiness:
    """Answers from the state of the other parts; it owns no state and changes nothing."""

    def __init__(
        self, reconciler: Reconciler, discovery: DiscoveryLoop, watches: WatchSet, credentials: CredentialSource
    ) -> None:
        self._reconciler = reconciler
        self._discovery = discovery
        self._watches = watches
        self._credentials = credentials

    @property
    def start(self) -> StartState:
        """What the start waits for, if it does."""
        if self._discovery.catalogue is None and self._credentials.awaited:
            return StartState.LOGIN
        if self._discovery.catalogue is None and (failure := self._discovery.failure):
            return StartState.REFUSED if failure.reason in NEED_THE_USER else StartState.UNREACHABLE
        watches = self._watches.all
        if any(watch.session.up and not watch.statistics.measured for watch in watches):
            return StartState.OPENING
        if not any(self.not_ready()):
            return StartState.DONE
        failures = [None if watch.session.up else watch.session.last_failure for watch in watches]
        refused = failures and all(failure and failure.reason in NEED_THE_USER for failure in failures)
        return StartState.REFUSED if refused else StartState.OPENING

    @property
    def incomplete_groups(self) -> tuple[IncompleteGroup, ...]:
        """The API groups that discovery could not read completely; they may have more to measure."""
        return self._discovery.incomplete

    @property
    def missing(self) -> tuple[str, ...]:
        """Which configured resources the cluster does not serve, in sentences."""
        return self._reconciler.desired.missing

    def not_ready(self) -> Iterator[str]:
        """Yield the reasons why the daemon is not ready, in sentences; none if it is ready."""
        reconciler, assignment, failure = self._reconciler, self._watches.assignment, self._discovery.failure
        if reconciler.config.paused:
            yield "Watching is paused."
        elif reconciler.begins_in > 0.0:
            yield f"The first request waits for {reconciler.begins_in:.0f} s more, as `startDelay` says."
        elif self._discovery.catalogue is None or not reconciler.is_tried:
            yield self._credentials.awaited or (failure.message if failure else "The cluster is being discovered.")
        elif assignment is None:
            if not reconciler.desired.elsewhere:  # else the other shards have all watches
                yield "The cluster serves nothing of what is configured."
                yield from (f"{missing[0].upper()}{missing[1:]}." for missing in reconciler.desired.missing)
        else:
            yield from self._not_running(assignment)

    def _not_running(self, assignment: ClockAssignment) -> Iterator[str]:
        if assignment.not_ticking:
            yield f"The revision clock does not tick: {assignment.not_ticking}"
        watches, now = self._watches.all, time.monotonic()
        opened = {watch.identity.label for watch in watches if watch.session.started}
        for watch in watches:
            label, session = watch.identity.label, watch.session
            if not session.started and not (session.failure and label in opened):  # another apiserver has it
                where = placed(label, watch.identity.apiserver.name)
                yield f"{where} has not been opened yet: {session.obstacle(now)}"
