"""Where each stream's revisions belong: to one main domain, or to a clock of their own."""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial

import structlog

from watchslo.clock.domain import PROBE_SPACING_SECONDS, Membership, TickChoice, TickPlan
from watchslo.config import ClockConfig
from watchslo.latency.track import DOMAIN
from watchslo.model import Reading, Resource
from watchslo.monitor.apiserver import Apiserver
from watchslo.monitor.crew import Crew
from watchslo.monitor.stream import Stream
from watchslo.monitor.ticker import Pace
from watchslo.monitor.timekeeper import Dated, Timekeeper
from watchslo.monitor.trouble import Trouble
from watchslo.watch.backoff import Backoff
from watchslo.watch.failure import Action, Failure

MAIN = "main"
CHOICE_GAP_SECONDS = 0.25  # all else waits for the choice
NOTHING_READABLE_SECONDS = 30.0


class Homes:
    """Chooses what the main domain ticks on, keeps all clocks ticking, and finds every stream the domain it belongs to.

    Streams are dated by the main domain unless their probes contradict it; then by a clock that ticks on their own
    resource, until their probes agree with the main one again. `candidates` may be ticked on, the best first.
    """

    def __init__(
        self,
        apiserver: Apiserver,
        crew: Crew,
        clock: ClockConfig,
        candidates: Sequence[Resource],
        random: Callable[[], float],
    ) -> None:
        self._apiserver = apiserver
        self._crew = crew
        self._clock = clock
        self._candidates = tuple(candidates)
        self._random = random
        self._log = structlog.get_logger()
        self._trouble = Trouble(self._log.bind(domain=MAIN))
        self._streams: dict[int, Stream] = {}
        self._own: dict[str, Timekeeper] = {}
        self.main = self._timekeeper(MAIN)
        crew.hire(("ticks", MAIN), self._tick_main)

    @property
    def timekeepers(self) -> tuple[Timekeeper, ...]:
        return (self.main, *self._own.values())

    @property
    def not_ticking(self) -> str | None:
        """Why the main clock does not tick, in a sentence, or nothing."""
        if self.main.domain.clock.latest is None:
            latest = self._trouble.latest
            return latest.message if latest else "What to tick on is being chosen."
        return self.main.ticker.failure.message if self.main.ticker.failure else None

    def admit(self, stream: Stream) -> None:
        """Takes in a stream of the main domain, and begins to probe whether it is one."""
        self._streams[stream.number] = stream
        self.main.attach(stream)
        self._crew.hire(("probes", stream.number), partial(self._probe, stream))

    async def release(self, stream: Stream) -> None:
        del self._streams[stream.number]
        stream.home.detach(stream)
        await self._crew.dismiss(("probes", stream.number))
        await self._close_empty()

    async def close(self) -> None:
        """Stops all clocks, once all streams are released."""
        assert not self._streams
        await self._crew.dismiss(("ticks", MAIN))

    # Ticks

    def _timekeeper(self, name: str) -> Timekeeper:
        return Timekeeper(name, self._read, Pace(self._clock.interval, self._random), self._on_foreign, self._on_reset)

    async def _read(self, resource: Resource, kind: str = "tick", namespace: str | None = None) -> Reading | Failure:
        return await self._apiserver.client.read_nothing(resource, namespace or self._clock.namespace, kind)

    async def _tick_main(self) -> None:
        while True:
            plan = await self._choose()
            if not plan.resources:
                await asyncio.sleep(NOTHING_READABLE_SECONDS)
                continue
            self.main.blind = plan.blind
            self._log.info("ticking", domain=MAIN, on=[resource.key for resource in plan.resources], blind=plan.blind)
            await self.main.ticker.run(plan.resources)

    async def _choose(self) -> TickPlan:
        """Finds out what to tick on, however long it takes."""
        choice, backoff = TickChoice(self._candidates), Backoff(self._random)
        while resource := choice.next:
            match await self._read(resource):
                case Reading() as reading:
                    self._trouble.over()
                    choice.observe(reading)
                    await asyncio.sleep(CHOICE_GAP_SECONDS * (0.5 + self._random()))
                case Failure(action=Action.WAIT) as failure:
                    self._trouble.happened("tick_failed", failure, on=resource.key)
                    choice.pass_over(resource)
                case failure:
                    self._trouble.happened("tick_failed", failure, on=resource.key)
                    await asyncio.sleep(backoff.next(time.monotonic(), failure.retry_after))
        assert choice.plan is not None
        return choice.plan

    def _on_reset(self, home: Timekeeper) -> None:
        """The storage went back: no revision means what it meant, and perhaps the resources part."""
        self._log.warning("domain_reset", domain=home.domain.name, streams=len(home.streams))
        for stream in home.streams.values():
            stream.track.drop(DOMAIN)
            self._streams[stream.number].start_over()
        if home is self.main:
            home.ticker.stop()

    # Membership

    async def _probe(self, stream: Stream) -> None:
        """Probes until it is known where a stream belongs, and again whenever its watch is renewed."""
        backoff = Backoff(self._random)
        while True:
            if stream.home.membership(stream.resource) is Membership.PENDING:
                await asyncio.sleep(PROBE_SPACING_SECONDS * (1 + 0.5 * self._random()))
            else:
                await stream.renewed.wait()
                stream.renewed.clear()
            match await self._read(stream.resource, "probe", stream.watch.namespace):
                case Reading() as reading:
                    for home in {self.main, stream.home}:
                        home.domain.probe(stream.resource.key, reading)
                case failure:
                    await asyncio.sleep(backoff.next(time.monotonic(), failure.retry_after))
            if stream.home is not self.main and self.main.membership(stream.resource) is Membership.MEMBER:
                self._move(stream, self.main)
                await self._close_empty()

    def _on_foreign(self, home: Timekeeper, dated: Dated) -> None:
        if home is self.main:
            stream = self._streams[dated.number]
            self._move(stream, self._own_home(stream.resource))

    def _move(self, stream: Stream, home: Timekeeper) -> None:
        self._log.warning("domain_changed", watch=stream.label, domain=home.domain.name)
        stream.track.drop(DOMAIN)
        stream.home.detach(stream)
        stream.home = home
        home.attach(stream)

    def _own_home(self, resource: Resource) -> Timekeeper:
        """A clock that ticks on the resource itself, and so is blind to the lag of its cache."""
        if resource.key not in self._own:
            home = self._own[resource.key] = self._timekeeper(resource.key)
            home.blind = True
            self._crew.hire(("ticks", resource.key), partial(self._tick_own, home, resource))
        return self._own[resource.key]

    async def _tick_own(self, home: Timekeeper, resource: Resource) -> None:
        while True:
            await home.ticker.run([resource])
            await asyncio.sleep(NOTHING_READABLE_SECONDS)

    async def _close_empty(self) -> None:
        for key in [key for key, home in self._own.items() if not home.streams]:
            del self._own[key]
            await self._crew.dismiss(("ticks", key))
