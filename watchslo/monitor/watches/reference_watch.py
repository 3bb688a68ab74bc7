"""A watch of whole objects next to a small one: it shows how much later clients that need these get events."""

import time
from collections.abc import Callable

import structlog

from watchslo.kube.representation import Representation
from watchslo.monitor.protocol.driver import Driver
from watchslo.monitor.protocol.watch_identity import WatchIdentity
from watchslo.monitor.tasks.failure_log import FailureLog
from watchslo.monitor.watches.watch_statistics import WatchStatistics
from watchslo.snapshot import ReferenceReading
from watchslo.watch.failure import Reason
from watchslo.watch.machine import Machine
from watchslo.watch.messages import Batch, Fact, Hasten, ListFailed, Reopen, Reset, WatchClosed, WatchOpened
from watchslo.watch.strategy import TAIL
from watchslo.watch.transitions import State


class ReferenceWatch:
    """Runs the watch of whole objects of one watch, and passes what it delivers to the `statistics` of that.

    It asks for protobuf and falls back to plain JSON, has the same selectors, and lists nothing. Its failures are
    logged; they are no failures of the watch itself.
    """

    def __init__(self, identity: WatchIdentity, statistics: WatchStatistics, random: Callable[[], float]) -> None:
        self._identity = identity
        self._statistics = statistics
        self._random = random
        self._events = self._bytes = 0
        self._halted = False
        self._driver = self._new_driver(Representation.PROTOBUF)
        log = structlog.get_logger().bind(
            watch=identity.label, resource=identity.resource.key, apiserver=identity.apiserver.name
        )
        self._failures = FailureLog(log)

    async def run(self) -> None:
        """Watch until halted; after a crash it may be run again."""
        if self._halted:
            return
        try:
            await self._driver.run()
        except Exception:
            self._driver = self._new_driver(self._driver.representation)
            raise

    def halt(self, reason: Reason) -> None:
        """Close the watch; `run` returns."""
        self._halted = True
        self._driver.halt(reason)

    def reopen(self, reason: Reason) -> None:
        """Close the watch if it is open, and resume it."""
        self._driver.feed(Reopen(reason))

    def hasten(self) -> None:
        """Try soon what waits because the apiserver did not answer: it answers again."""
        self._driver.feed(Hasten())

    def start_over(self) -> None:
        """Forget every revision: the storage was restored to an earlier state."""
        self._driver.feed(Reset())

    def reading(self) -> ReferenceReading:
        """Return everything that is shown of it."""
        delays = self._statistics.reference
        assert delays is not None
        is_up = self._driver.machine.state is State.WATCHING
        return ReferenceReading(
            up=is_up,
            representation=self._driver.representation,
            events=self._events,
            bytes=self._bytes,
            unmeasured={reason.value: count for reason, count in delays.without.items()},
            withheld=delays.withheld if is_up else 0.0,
            failure=self._failures.now.message if self._failures.now else None,
        )

    def _new_driver(self, representation: Representation) -> Driver:
        return Driver(
            Machine(TAIL, self._identity.config.page_size, self._random),
            self._identity.apiserver.client,
            self._identity.target,
            representation,
            emit=self._emit,
            note=self._note,
            heard=self._hear,
        )

    def _hear(self, size: int) -> None:
        self._bytes += size

    def _emit(self, batch: Batch) -> None:
        self._events += len(batch.revisions)
        self._statistics.record_reference(batch)

    def _note(self, fact: Fact) -> None:
        match fact:
            case WatchOpened():
                assert self._statistics.reference is not None
                self._statistics.reference.full.opened = time.monotonic()
                self._failures.resolve()
            case WatchClosed(failure) | ListFailed(failure):
                self._failures.record("reference_closed", failure)
