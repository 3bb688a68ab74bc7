"""Where each stream's revisions belong: to one main domain, or to a clock of their own."""

import asyncio
import time
from collections.abc import Callable, Hashable
from functools import partial

import structlog

from watchslo.clock.domain import PROBE_SPACING_SECONDS, Membership, TickChoice, TickPlan
from watchslo.config import ClockConfig
from watchslo.latency.bins import Bins
from watchslo.latency.track import DOMAIN
from watchslo.model import Reading, Resource
from watchslo.monitor.apiserver import Apiserver
from watchslo.monitor.crew import Crew
from watchslo.monitor.stream import Stream
from watchslo.monitor.ticker import Ticker
from watchslo.monitor.timekeeper import Dated, Timekeeper
from watchslo.watch.backoff import Backoff
from watchslo.watch.failure import Action, Failure

MAIN = "main"
EVENTS = Resource("", "v1", "events", namespaced=True)
CANDIDATES = 12  # more of them would make the choice long, and hardly better
FAILURES_EACH = 3  # of one candidate, then the others are tried
SILENT_SECONDS = 10.0  # one lost tick widens an interval, and makes nobody unready
SILENT_TICKS = 5  # where they are seldom
CHOICE_GAP_SECONDS = 0.25  # all else waits for the choice


class Homes:
    """Chooses what the main domain ticks on, keeps all clocks ticking, and finds every stream the domain it belongs to.

    The main domain ticks through every apiserver that has joined. Streams are dated by it unless their probes
    contradict it; then by a clock that ticks on their own resource, until their probes agree with the main one again.
    """

    def __init__(self, crew: Crew, clock: ClockConfig, bins: Bins, random: Callable[[], float]) -> None:
        self._crew = crew
        self._clock = clock
        self._bins = bins
        self._random = random
        self._log = structlog.get_logger()
        self._apiservers: dict[str, Apiserver] = {}
        self._streams: dict[int, Stream] = {}
        self._own: dict[str, Timekeeper] = {}
        self._plan: TickPlan | None = None
        self._told: TickPlan | None = None
        self._planned = asyncio.Event()
        self._plan_needed = asyncio.Event()
        self._plan_needed.set()
        self.main = self._timekeeper(MAIN)
        crew.hire(("ticks", MAIN), self._keep_choosing)

    @property
    def timekeepers(self) -> tuple[Timekeeper, ...]:
        return (self.main, *self._own.values())

    @property
    def not_ticking(self) -> str | None:
        """Why the main clock has not ticked for a while, in a sentence, or nothing."""
        latest = self.main.domain.clock.latest
        if latest and time.monotonic() - latest.answered < max(SILENT_SECONDS, SILENT_TICKS * self._clock.interval):
            return None
        for ticker in self.main.tickers.values():
            if ticker.trouble.now:
                return ticker.trouble.now.message
        return (
            "No tick is answered that is known to be of its storage."
            if self.main.ticking
            else "What to tick on is being chosen."
        )

    # Who is there

    def join(self, apiserver: Apiserver) -> None:
        """Ticks through one more apiserver."""
        self._apiservers[apiserver.name] = apiserver
        ticker = self.main.join(apiserver.name, partial(self._tick, apiserver))
        self._crew.hire(("ticks", MAIN, apiserver.name), partial(self._tick_main, ticker))

    async def leave(self, apiserver: Apiserver) -> None:
        """Ticks no more through an apiserver whose streams are all released."""
        del self._apiservers[apiserver.name]
        await self._crew.dismiss(("ticks", MAIN, apiserver.name))
        self.main.leave(apiserver.name)

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
        """Stops the main clock, once all streams are released and all apiservers have left."""
        assert not self._streams
        await self._crew.dismiss(("ticks", MAIN))

    # Ticks

    def _timekeeper(self, name: str) -> Timekeeper:
        return Timekeeper(
            name, self._bins, self._clock.interval, self._random, self._log, self._on_foreign, self._on_reset
        )

    async def _tick(self, apiserver: Apiserver, resource: Resource) -> Reading | Failure:
        """One tick of the main clock; what that ticks on is said when it is true."""
        answer = await _read(apiserver, resource, kind="tick", namespace=self._clock.namespace)
        if isinstance(answer, Reading) and self._plan and self._told != self._plan and resource in self._plan.resources:
            self._told = self._plan
            keys = [resource.key for resource in self._plan.resources]
            self._log.info("ticking", domain=MAIN, on=keys, blind=self._plan.blind)
        return answer

    async def _tick_main(self, ticker: Ticker) -> None:
        """Ticks on what is planned; there has to be a new plan once that can be read no more through any apiserver."""
        backoff = Backoff(self._random)
        while True:
            await self._planned.wait()
            assert self._plan is not None
            await ticker.run(self._plan.resources)
            if not any(other.trouble.now is None for other in self.main.tickers.values()):
                self._plan_anew()
            await asyncio.sleep(backoff.next(time.monotonic()))

    def _plan_anew(self) -> None:
        self._planned.clear()
        self._plan_needed.set()

    async def _keep_choosing(self) -> None:
        backoff = Backoff(self._random)
        while True:
            await self._plan_needed.wait()
            self._plan_needed.clear()
            plan = await self._choose()
            self.main.blind = plan.blind
            self._plan = plan
            self._planned.set()
            await asyncio.sleep(backoff.next(time.monotonic()))

    async def _choose(self) -> TickPlan:
        """Finds out what to tick on; one candidate that fails, or may not be read, is none."""
        choice, backoff, failures, turn = TickChoice(self._candidates()), Backoff(self._random), 0, 0
        while resource := choice.next:
            if not self._apiservers:  # all of them are being replaced
                await asyncio.sleep(CHOICE_GAP_SECONDS)
                continue
            apiserver = [*self._apiservers.values()][turn % len(self._apiservers)]
            trouble = self.main.tickers[apiserver.name].trouble
            match await _read(apiserver, resource, kind="tick", namespace=self._clock.namespace):
                case Reading() as reading:
                    failures = 0
                    trouble.over()
                    choice.observe(reading)
                    await asyncio.sleep(CHOICE_GAP_SECONDS * (0.5 + self._random()))
                case failure:
                    trouble.happened("tick_failed", failure, on=resource.key)
                    turn += 1
                    failures += 1
                    if failure.action is Action.WAIT or failures == FAILURES_EACH * len(self._apiservers):
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
            self._plan_anew()
            for ticker in home.tickers.values():
                ticker.stop()

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
                if not all(home.domain.is_judging(stream.source) for home in pending):
                    await self._probe(stream, pending, backoff)

    def _pending(self, stream: Stream) -> set[Timekeeper]:
        homes = {self.main, stream.home}
        return {home for home in homes if home.domain.membership(stream.source) is Membership.PENDING}

    async def _probe(self, stream: Stream, homes: set[Timekeeper], backoff: Backoff) -> None:
        """Reads the revision of a stream's resource, if there are ticks to compare it with."""
        if not any(home.ticking for home in homes):
            return
        match await _read(stream.apiserver, stream.resource, kind="probe", namespace=stream.nudged_in):
            case Reading() as reading:
                for home in homes:
                    home.domain.probe(reading)
            case failure:
                await asyncio.sleep(backoff.next(time.monotonic(), failure.retry_after))
        is_member = self.main.domain.membership(stream.source) is Membership.MEMBER
        if stream.home is not self.main and is_member:
            self._move(stream, self.main)
            await self._close_empty()

    def _on_foreign(self, home: Timekeeper, dated: Dated) -> None:
        if home is self.main:
            stream = self._streams[dated.number]
            self._move(stream, self._own_home(stream))

    def _move(self, stream: Stream, home: Timekeeper) -> None:
        self._log.warning(
            "domain_changed", watch=stream.label, apiserver=stream.apiserver.name, domain=home.domain.name
        )
        stream.track.drop(DOMAIN)
        stream.home.detach(stream)
        stream.home = home
        home.attach(stream)
        stream.renewed.set()

    def _own_home(self, stream: Stream) -> Timekeeper:
        """A clock that ticks on the stream's own resource, through every apiserver that has such a stream.

        With one apiserver it is blind to the lag of its cache.
        """
        key, apiserver = stream.resource.key, stream.apiserver
        if key not in self._own:
            self._own[key] = self._timekeeper(key)
            self._own[key].blind = True
        home = self._own[key]
        if apiserver.name not in home.tickers:
            read = partial(_read, apiserver, kind="tick", namespace=stream.nudged_in)
            ticker = home.join(apiserver.name, read)
            self._crew.hire(("ticks", key, apiserver.name), partial(self._tick_own, ticker, stream.resource))
        return home

    async def _tick_own(self, ticker: Ticker, resource: Resource) -> None:
        backoff = Backoff(self._random)
        while True:
            await ticker.run([resource])
            await asyncio.sleep(backoff.next(time.monotonic()))

    async def _close_empty(self) -> None:
        """Stops the clocks that nobody needs, and the tickers of apiservers that have no stream there any more."""
        idle: list[Hashable] = []
        for key, home in list(self._own.items()):
            needed = {self._streams[number].apiserver.name for number in home.streams}
            for name in set(home.tickers) - needed:
                home.leave(name)
                idle.append(("ticks", key, name))
            if not home.tickers:
                del self._own[key]
        await self._crew.dismiss(*idle)  # last: while it waits, others come here too


async def _read(apiserver: Apiserver, resource: Resource, *, kind: str, namespace: str) -> Reading | Failure:
    return await apiserver.client.read_nothing(resource, namespace, kind)
