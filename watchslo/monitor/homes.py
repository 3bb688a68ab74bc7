"""Where each stream's revisions belong: to one main domain, or to a clock of their own."""

import asyncio
import time
from collections.abc import Callable
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
EVENTS = Resource("", "v1", "events", namespaced=True)
CANDIDATES = 12  # more of them would make the choice long, and hardly better
FAILURES_EACH = 3  # of one candidate, then the others are tried
SILENT_SECONDS = 10.0  # one lost tick widens an interval, and makes nobody unready
CHOICE_GAP_SECONDS = 0.25  # all else waits for the choice


class Homes:
    """Chooses what the main domain ticks on, keeps all clocks ticking, and finds every stream the domain it belongs to.

    Streams are dated by the main domain unless their probes contradict it; then by a clock that ticks on their own
    resource, until their probes agree with the main one again.
    """

    def __init__(self, apiserver: Apiserver, crew: Crew, clock: ClockConfig, random: Callable[[], float]) -> None:
        self._apiserver = apiserver
        self._crew = crew
        self._clock = clock
        self._random = random
        self._log = structlog.get_logger()
        self._streams: dict[int, Stream] = {}
        self._own: dict[str, Timekeeper] = {}
        self.main = self._timekeeper(MAIN, clock.namespace)
        crew.hire(("ticks", MAIN), self._tick_main)

    @property
    def timekeepers(self) -> tuple[Timekeeper, ...]:
        return (self.main, *self._own.values())

    @property
    def not_ticking(self) -> str | None:
        """Why the main clock has not ticked for a while, in a sentence, or nothing."""
        latest = self.main.domain.clock.latest
        if latest and time.monotonic() - latest.answered < SILENT_SECONDS:
            return None
        if self.main.trouble.now:
            return self.main.trouble.now.message
        return None if self.main.ticking else "What to tick on is being chosen."

    def admit(self, stream: Stream) -> None:
        """Takes in a stream of the main domain, which is probed whenever its watch opens."""
        self._streams[stream.number] = stream
        self.main.attach(stream)
        self._crew.hire(("probes", stream.number), partial(self._keep_probing, stream))

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

    def _timekeeper(self, name: str, namespace: str) -> Timekeeper:
        read = partial(self._read, kind="tick", namespace=namespace)
        trouble = Trouble(self._log.bind(domain=name))
        return Timekeeper(
            name, read, Pace(self._clock.interval, self._random), trouble, self._on_foreign, self._on_reset
        )

    async def _read(self, resource: Resource, *, kind: str, namespace: str) -> Reading | Failure:
        return await self._apiserver.client.read_nothing(resource, namespace, kind)

    async def _tick_main(self) -> None:
        backoff = Backoff(self._random)
        while True:
            plan = await self._choose()
            self._use(plan)
            await self.main.ticker.run(plan.resources)
            await asyncio.sleep(backoff.next(time.monotonic()))

    def _use(self, plan: TickPlan) -> None:
        self.main.blind = plan.blind
        if plan.resources != self.main.ticker.resources:
            keys = [resource.key for resource in plan.resources]
            self._log.info("ticking", domain=MAIN, on=keys, blind=plan.blind)

    async def _choose(self) -> TickPlan:
        """Finds out what to tick on; one candidate that fails, or may not be read, is none."""
        choice, backoff, failures = TickChoice(self._candidates()), Backoff(self._random), 0
        while resource := choice.next:
            match await self._read(resource, kind="tick", namespace=self._clock.namespace):
                case Reading() as reading:
                    failures = 0
                    self.main.trouble.over()
                    choice.observe(reading)
                    await asyncio.sleep(CHOICE_GAP_SECONDS * (0.5 + self._random()))
                case failure:
                    failures += 1
                    self.main.trouble.happened("tick_failed", failure, on=resource.key)
                    if failure.action is Action.WAIT or failures == FAILURES_EACH:
                        failures = 0
                        choice.pass_over(resource)
                    if failure.action is not Action.WAIT:
                        await asyncio.sleep(backoff.next(time.monotonic(), failure.retry_after))
        assert choice.plan is not None
        return choice.plan

    def _candidates(self) -> list[Resource]:
        """What may be ticked on: first what is known to be readable, then what can be read in one namespace."""
        streams = sorted(self._streams.values(), key=lambda stream: (not stream.up, not stream.resource.namespaced))
        return [*dict.fromkeys((EVENTS, *(stream.resource for stream in streams)))][:CANDIDATES]

    def _on_reset(self, home: Timekeeper) -> None:
        """The storage went back: no revision means what it meant, and perhaps the resources part."""
        self._log.warning("domain_reset", domain=home.domain.name, streams=len(home.streams))
        for number in home.streams:
            stream = self._streams[number]
            stream.track.drop(DOMAIN)
            stream.start_over()
        if home is self.main:
            home.ticker.stop()

    # Membership

    async def _keep_probing(self, stream: Stream) -> None:
        """Probes a stream whenever it is renewed, and until it is known where it belongs."""
        backoff = Backoff(self._random)
        while True:
            await stream.renewed.wait()
            stream.renewed.clear()
            await self._probe(stream, {self.main, stream.home}, backoff)
            while pending := self._pending(stream):
                await asyncio.sleep(PROBE_SPACING_SECONDS * (1 + 0.5 * self._random()))
                await self._probe(stream, pending, backoff)

    def _pending(self, stream: Stream) -> set[Timekeeper]:
        homes = {self.main, stream.home}
        return {home for home in homes if home.membership(stream.resource) is Membership.PENDING}

    async def _probe(self, stream: Stream, homes: set[Timekeeper], backoff: Backoff) -> None:
        """Reads the revision of a stream's resource, if there are ticks to compare it with."""
        if not any(home.ticking for home in homes):
            return
        match await self._read(stream.resource, kind="probe", namespace=stream.nudged_in):
            case Reading() as reading:
                for home in homes:
                    home.domain.probe(stream.resource.key, reading)
            case failure:
                await asyncio.sleep(backoff.next(time.monotonic(), failure.retry_after))
        if stream.home is not self.main and self.main.membership(stream.resource) is Membership.MEMBER:
            self._move(stream, self.main)
            await self._close_empty()

    def _on_foreign(self, home: Timekeeper, dated: Dated) -> None:
        if home is self.main:
            stream = self._streams[dated.number]
            self._move(stream, self._own_home(stream))

    def _move(self, stream: Stream, home: Timekeeper) -> None:
        self._log.warning("domain_changed", watch=stream.label, domain=home.domain.name)
        stream.track.drop(DOMAIN)
        stream.home.detach(stream)
        stream.home = home
        home.attach(stream)
        stream.renewed.set()

    def _own_home(self, stream: Stream) -> Timekeeper:
        """A clock that ticks on the stream's own resource, and so is blind to the lag of its cache."""
        key = stream.resource.key
        if key not in self._own:
            home = self._own[key] = self._timekeeper(key, stream.nudged_in)
            home.blind = True
            self._crew.hire(("ticks", key), partial(self._tick_own, home, stream.resource))
        return self._own[key]

    async def _tick_own(self, home: Timekeeper, resource: Resource) -> None:
        backoff = Backoff(self._random)
        while True:
            await home.ticker.run([resource])
            await asyncio.sleep(backoff.next(time.monotonic()))

    async def _close_empty(self) -> None:
        for key in [key for key, home in self._own.items() if not home.streams]:
            del self._own[key]
            await self._crew.dismiss(("ticks", key))
