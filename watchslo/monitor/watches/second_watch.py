"""A second watch of a resource, of whole objects, next to a watch that is measured."""

from collections.abc import Callable

import structlog

from watchslo.kube.representation import Representation
from watchslo.monitor.protocol.driver import Driver
from watchslo.monitor.protocol.watch_identity import WatchIdentity
from watchslo.monitor.tasks.failure_log import FailureLog
from watchslo.snapshot import FailureReading
from watchslo.watch.decode import FRAME, FrameDecoder, Frames
from watchslo.watch.failure import Reason
from watchslo.watch.machine import Machine
from watchslo.watch.messages import Batch, Fact, Hasten, ListFailed, Reopen, Reset, WatchClosed, WatchOpened
from watchslo.watch.strategy import TAIL, Strategy
from watchslo.watch.transitions import State


class SecondWatch:
    """Runs a watch with the target of another one; by default it lists nothing.

    `emit` gets its live events, `note` its facts, and `seen` each chunk that `decoder` has decoded, with the time of
    its arrival. Failures are logged as `event`; they are no failures of the watch that is measured.
    """

    def __init__(
        self,
        identity: WatchIdentity,
        representation: Representation,
        random: Callable[[], float],
        event: str,
        *,
        emit: Callable[[Batch], None] = lambda _: None,
        note: Callable[[Fact], None] = lambda _: None,
        seen: Callable[[float, Frames], None] | None = None,
        decoder: FrameDecoder = FRAME,
        strategy: Strategy = TAIL,
    ) -> None:
        self.bytes = 0
        self._identity = identity
        self._random = random
        self._event = event
        self._emit = emit
        self._note = note
        self._seen = seen
        self._decoder = decoder
        self._strategy = strategy
        self._halted = False
        self._driver = self._new_driver(representation)
        log = structlog.get_logger().bind(
            watch=identity.label, resource=identity.resource.key, apiserver=identity.apiserver.name
        )
        self._failures = FailureLog(log)

    @property
    def is_open(self) -> bool:
        return self._driver.machine.state is State.WATCHING

    @property
    def representation(self) -> Representation:
        return self._driver.representation

    @property
    def failure(self) -> FailureReading | None:
        """What is wrong now; None while nothing is."""
        return self._failures.now

    async def run(self) -> None:
        """Watch until halted; after a crash it may be run again, at the present revision."""
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

    def _new_driver(self, representation: Representation) -> Driver:
        apiserver = self._identity.apiserver
        return Driver(
            Machine(self._strategy, self._identity.config.page_size, self._random, streaming=apiserver.streamed_lists),
            apiserver.client,
            self._identity.target,
            representation,
            emit=self._emit,
            note=self._take_fact,
            heard=self._hear,
            seen=self._seen,
            decoder=self._decoder,
        )

    def _hear(self, size: int) -> None:
        self.bytes += size

    def _take_fact(self, fact: Fact) -> None:
        match fact:
            case WatchOpened():
                self._failures.resolve()
            case WatchClosed(failure) | ListFailed(failure):
                self._failures.record(self._event, failure)
        self._note(fact)
