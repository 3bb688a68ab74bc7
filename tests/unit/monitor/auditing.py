"""An auditor, and a cluster in memory that remembers its commits: its caches can be stopped, its watches be stuck."""

import asyncio
import contextlib
import math
import random
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Self, cast

import structlog
import yaml

from tests.unit.monitor.cluster import GONE, PODS, RESOURCES, START_REVISION, Cluster, Watch, line, nowhere
from tests.unit.monitor.scene import Scene, counts, pause, shown
from watchslo.kube.call import OnSent, Selectors, request_class
from watchslo.kube.limiter import Limiter
from watchslo.kube.representation import Representation
from watchslo.model import Interval, Reading, Resource
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.checks.auditor import Auditor
from watchslo.monitor.protocol.guarantee_record import GuaranteeRecord
from watchslo.snapshot import Guarantee, ReadUse
from watchslo.watch.audit import NUDGE_SECONDS, AuditResult, Delivered, Health
from watchslo.watch.failure import Failure, Reason, because
from watchslo.watch.messages import WatchRequest
from watchslo.watch.selection import Selection

HOUR_SECONDS = 3600.0
REOPENING_SECONDS = 1.0


class FakeWatch:
    """A watch, all parts in one: what is committed arrives at once, unless it is `stuck`.

    Reopening ends that, unless it is `hopeless`.
    """

    def __init__(self, number: int, resource: Resource, revision: int) -> None:
        self.identity = self.session = self.statistics = self.deliveries = self
        self.reads: list[Reading] = []
        self.sighted: list[int] = []
        self.number = number
        self.label = f"watch-{number}"
        self.resource = resource
        self.cached = resource.usually_cached
        self.namespace: str | None = None
        self.probed_in = "default"
        self.replay = False
        self.selectors = Selectors()
        self.selection: Selection | None = None
        self.threshold = 1.0
        self.representation = Representation.TABLE
        self.ticked: Callable[[float], int | None] = lambda _: None
        self.measured = self.counts = True
        self.marked: int | None = None
        self.up = True
        self.complete_until = -math.inf  # when everything was committed that it has for certain
        self.revision: int | None = revision
        self.newest_event: int | None = None
        self.last_heard = time.monotonic()
        self.stuck = False
        self.hopeless = False
        self.backlog: list[int] = []
        self.committed: dict[int, float] = {}
        self.reopened: list[float] = []
        self.delivered = Delivered()
        self.delivered.begin(revision)
        self.auditor: Auditor | None = None
        self.guarantees = GuaranteeRecord(structlog.get_logger(), Guarantee)

    @property
    def violated(self) -> dict[str, int]:
        """The violations by guarantee."""
        return {name: count for name, count in self.guarantees.reading(0).violations.items() if count}

    def observe(self, reading: Reading, _: ReadUse) -> None:
        self.reads.append(reading)

    def oldest_ticked(self, since: float) -> int | None:
        return self.ticked(since)

    def sight(self, _: float, revision: int) -> None:
        self.sighted.append(revision)

    @property
    def health(self) -> Health:
        assert self.auditor is not None
        return self.auditor.health(cast("Any", self))

    def commit(self, revision: int) -> None:
        self.committed[revision] = time.monotonic()
        self.backlog.append(revision)
        if self.up and not self.stuck:
            self.deliver()

    def deliver(self) -> None:
        batch, self.backlog = self.backlog, []
        if batch:
            self.delivered.extend(batch)
            self.revision = self.newest_event = batch[-1]
            self.last_heard = time.monotonic()

    @property
    def bookmark(self) -> int | None:
        """The revision of the newest bookmark, as a session has it."""
        return self.marked

    def mark(self, revision: int) -> None:
        """Bring a bookmark."""
        self.revision = self.marked = revision
        self.last_heard = time.monotonic()

    def ages(self, revisions: Sequence[int], now: float) -> Sequence[float]:
        return [now - self.committed[revision] for revision in revisions]

    def ask_for_metadata(self) -> None:
        """Begin again in another form, from the present."""
        self.representation = Representation.METADATA
        self.stuck = False
        self.revision = max([self.revision or 0, *self.backlog])
        self.backlog.clear()
        self.delivered.begin(self.revision)

    def commit_bounds(self, revision: int, now: float) -> Interval:
        assert revision == (self.revision or 0) + 1
        return Interval(0.0, now - self.complete_until)

    def reopen(self, reason: Reason) -> None:
        assert reason is Reason.STALLED
        self.reopened.append(time.monotonic())
        self.close()
        asyncio.get_running_loop().call_later(REOPENING_SECONDS, self.open)

    def close(self) -> None:
        self.up = False

    def open(self) -> None:
        self.up, self.stuck = True, self.hopeless
        self.last_heard = time.monotonic()
        self.delivered.begin(self.revision or 0)
        if not self.stuck:
            self.deliver()

    def release(self) -> None:
        """Deliver what was withheld."""
        self.stuck = self.hopeless = False
        self.deliver()

    @property
    def said(self) -> str:
        """What audits found of the watch, and what followed."""
        verdict = self.health.verdict
        facts = [
            verdict.value if verdict else "not audited",
            "stall lasts" if self.stalled else "",
            f"{self.health.stalls} stalls" if self.health.stalls else "",
            f"reopened {len(self.reopened)} times" if self.reopened else "",
            *(f"{count} not {guarantee}" for guarantee, count in self.violated.items()),
            "metadata" if self.representation is Representation.METADATA else "",
        ]
        return ", ".join(filter(None, facts))

    @property
    def stalled(self) -> bool:
        return self.health.stalled_for(time.monotonic(), self.revision) is not None


class Past(Cluster):
    """A cluster that remembers its commits; its caches can be stopped."""

    def __init__(self, *resources: Resource) -> None:
        super().__init__()
        self.streams = [FakeWatch(number, resource, self.revision) for number, resource in enumerate(resources, 1)]
        self.stopped: dict[str, int] = {}  # caches, and the last revision that they received
        self.changes: dict[str, list[int]] = {}
        self.forms: set[Representation] = set(Representation)
        self.asked_forms: list[Representation] = []
        self.withheld_forms: set[Representation] = set()  # those whose events a proxy withholds from second watches
        self.since: list[int] = []  # how many revisions in the past each audit began
        self.past_seconds: list[float] = []  # and how many seconds, by the oldest change that it shows
        self.times: list[float] = []  # of all changes
        self.said: bytes | None = None  # the answer to audits, instead of the events
        self.silent = False  # audits are never answered
        self.compacted = 0  # an audit from an older revision gets a 410, which does not say from where to watch
        self.slow = 0  # the number of nudges that will be slow
        self.ticking = True
        self.apiserver = Apiserver("service", nowhere(), Limiter(1000))
        self.apiserver.client = cast("Any", self)
        self.apiserver.version = self.git_version

    def commit(self, resource: Resource = PODS) -> int:
        self.revision += 1
        self.times.append(time.monotonic())
        self.changes.setdefault(resource.key, []).append(self.revision)
        if resource.key not in self.stopped:
            self.tell(resource, self.revision)
        return self.revision

    def _note_start(self, after: int) -> None:
        self.since.append(self.revision - after)
        later = self.times[after - START_REVISION :]
        self.past_seconds.append(time.monotonic() - later[0] if later else 0.0)

    def ticked(self, since: float) -> int | None:
        """Return the oldest revision of the ticks sent since then, if there were two every second."""
        return START_REVISION + bisect_left(self.times, since)

    def lose(self) -> int:
        """Make a change that the first watch never delivers, and return its revision."""
        self.commit()
        return self.streams[0].delivered._revisions.pop()

    def shown(self, resource: Resource, after: int) -> Sequence[int]:
        """Return the changes after a revision that an audit sees."""
        return [revision for revision in self.changes.get(resource.key, ()) if revision > after]

    def lines(self, revisions: Sequence[int], _selectors: Selectors) -> bytes:
        """Return the events of these revisions, as a watch with these selectors sends them."""
        return b"".join(line("MODIFIED", revision) for revision in revisions)

    def tell(self, resource: Resource, revision: int) -> None:
        for stream in self.streams:
            if stream.resource == resource:
                stream.commit(revision)
        self.send(resource, line("MODIFIED", revision))

    def freeze(self, resource: Resource) -> None:
        self.stopped[resource.key] = self.revision

    def thaw(self, resource: Resource) -> None:
        since = self.stopped.pop(resource.key)
        for revision in self.changes.get(resource.key, ()):
            if revision > since:
                self.tell(resource, revision)

    def ticks(self) -> list[Reading]:
        now = time.monotonic()
        return [Reading("events", now - 0.3, now - 0.29, self.revision)] if self.ticking else []

    async def read_nothing(
        self, resource: Resource, namespace: str, kind: str, at: int | None = None
    ) -> Reading | Failure:
        assert (kind, namespace, at) == ("nudge", "default", None)
        if resource.key in self.stopped:
            self.asked.append((time.monotonic(), kind, resource.key))
            await asyncio.sleep(NUDGE_SECONDS)
            return because(Reason.TIMEOUT)
        sent = time.monotonic()
        if self.slow:
            self.slow -= 1
            await asyncio.sleep(3.5)
        answer = await super().read_nothing(resource, namespace, kind)
        return (
            Reading(answer.resource, sent, answer.answered, answer.revision) if isinstance(answer, Reading) else answer
        )

    @contextlib.asynccontextmanager
    async def watch(
        self,
        resource: Resource,
        namespace: str | None,
        selectors: Selectors,
        request: WatchRequest,
        representation: Representation,
        *,
        kind: str = "watch",
        resumes: bool = False,
        on_sent: OnSent = lambda: None,
    ) -> AsyncIterator[Watch | Failure]:
        assert not resumes
        await self.wait_for_turn(request_class(kind), on_sent)
        assert (kind, request.bookmarks, request.timeout) == ("audit", False, 2)
        assert request.revision is not None
        self.asked_forms.append(representation)
        self._note_start(request.revision)
        failure = await self._answer("audit", resource.key, namespace)
        if representation not in self.forms:
            failure = because(Reason.NOT_ACCEPTABLE)
        if failure:
            yield failure
            return
        opened = Watch(resource, request.revision, representation)
        if representation not in self.withheld_forms:
            self.watches.append(opened)
        if not self.silent:
            asyncio.get_running_loop().call_later(request.timeout, opened.send)
            past = () if representation in self.withheld_forms else self.shown(resource, request.revision)
            if request.revision < self.compacted:
                opened.send(GONE)
            elif self.said is not None:
                opened.send(self.said)
            elif past and resource.key not in self.stopped:
                opened.send(self.lines(past, selectors))
        try:
            yield opened
        finally:
            opened.open = False


def cluster_of(*resources: Resource) -> tuple[Past, FakeWatch]:
    """Return a cluster and the watch of the last of these resources."""
    past = Past(*resources)
    return past, past.streams[-1]


class Audits:
    """An auditor that runs."""

    def __init__(
        self,
        past: Past,
        seed: int = 1,
        budget: float = 2.0,
        *,
        replays: bool = False,
        changing: Resource | None = None,
    ) -> None:
        self.past = past
        self._changing = changing  # another resource of the same storage, that changes all the time
        self.budget = budget
        self.is_late = False
        self.replays = replays
        self.auditor = Auditor(
            lambda: cast("Any", past.streams),
            past.apiserver,
            lambda: self.budget,
            past.ticks,
            lambda _: self.is_late,
            lambda: self.replays,
            random.Random(seed).random,
        )
        for stream in past.streams:
            stream.auditor = self.auditor
            self.auditor.add(cast("Any", stream))

    @property
    def verdicts(self) -> Counter[str]:
        return self.past.apiserver.audits

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.auditor.run())
        self._churn = asyncio.create_task(churn(self.past, self._changing)) if self._changing else None
        return self

    async def __aexit__(self, *_: object) -> None:
        assert not self._task.done()
        tasks = [task for task in (self._task, self._churn) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not self.past.open_watches()

    @property
    def found(self) -> set[str]:
        """The results so far."""
        return {verdict for verdict, count in self.verdicts.items() if count}

    async def until(self, *verdicts: AuditResult) -> None:
        """Wait for an audit with one of these results."""
        before = self._count(verdicts)
        await when(lambda: self._count(verdicts) > before)

    def _count(self, verdicts: Sequence[AuditResult]) -> int:
        return sum(self.verdicts[verdict] for verdict in verdicts)


async def when(holds: Callable[[], bool]) -> float:
    """Wait until a condition holds, and return the time."""
    async with asyncio.timeout(HOUR_SECONDS):
        while not holds():  # noqa: ASYNC110 - no event announces this condition
            await asyncio.sleep(0.05)
    return time.monotonic()


async def busy(past: Past, seconds: float, gap: float = 1.0) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        past.commit()
        await asyncio.sleep(gap)


class AuditScene(Scene):
    """An auditor that is driven by text.

    A transcript begins with the watched resources. Then follow `budget 0.5`, `replays` if each event is read a second
    time, and `changing nodes` for another resource of the same storage that changes five times a second.

    - `20 s` lets time pass, `20 s writing` with a change of pods each second.
    - `commit pods` changes one, `lose` does so without an event. `freeze pods` stops a cache, `thaw pods` ends that.
    - `stick pods` withholds events of a watch until it is reopened, `stick pods hopelessly` until `release pods`.
    - `mark pods 7` brings a bookmark of a revision so far ahead.
    - `until audit` lets time pass until the next request of this kind, and `end pods` ends a watch.
    - `undate pods` lets the clock know no ages of changes, and `untick pods` no ticks.
    - `cluster NAME VALUE`, `apiserver NAME VALUE`, `auditor NAME VALUE` and `pods NAME VALUE` set an attribute.
    """

    def __init__(self, beginning: str) -> None:
        super().__init__()
        resources, *options = beginning.split(", ")
        self._past = Past(*map(_resource, resources.split()))
        self._patches.setattr("watchslo.kube.connections.new_session", self._past.session)
        self._watches = {watch.resource.key: watch for watch in self._past.streams}
        for watch in self._past.streams:
            watch.ticked = self._past.ticked
        chosen = {name: value for name, _, value in (option.partition(" ") for option in options)}
        budget = float(chosen.get("budget", 2.0))
        self._audits = Audits(self._past, budget=budget, replays="replays" in chosen)
        self._changing = RESOURCES.get(chosen.get("changing", ""))

    def step(self, text: str) -> str | None:
        match text.split():
            case [seconds, "s"]:
                return self._news(self._wait(pause(float(seconds))))
            case [seconds, "s", "writing"]:
                return self._news(self._wait(busy(self._past, float(seconds))))
            case ["look", what]:
                return self._look(what)
            case ["forget"]:
                self._past.asked.clear()
            case words:
                self._runner.run(self._act(words))
        return None

    def _look(self, what: str) -> str:
        match what:
            case "requests":
                return counts(Counter(kind for _, kind, _ in self._past.asked))
            case "forms":
                return counts(Counter(form.value for form in self._past.asked_forms))
            case "withheld":
                now = time.monotonic()
                found = {key: watch.health.withheld(now, watch.revision) for key, watch in self._watches.items()}
                return shown({key: ", ".join(f"{age:.1f} s" for age in ages) for key, ages in found.items()})
            case "audits":
                return f"{shown(self._audits.verdicts)}, {self._audits.auditor.quiet} quiet"
            case "past":
                since = f"from at most {max(self._past.past_seconds):.0f} s ago"
                return f"{len(self._past.since)} second watches, {since}"
        raise AssertionError(what)

    async def _wait(self, work: Any) -> None:
        if not self._tasks:
            self._begin(self._audits.auditor.run())
            if self._changing is not None:
                self._begin(churn(self._past, self._changing))
        await work

    async def _act(self, words: list[str]) -> None:
        match words:
            case ["until", kind]:
                asked = self._past.count(kind)
                await self._wait(when(lambda: self._past.count(kind) > asked))
            case ["lose"]:
                self._past.lose()
            case [("commit" | "freeze" | "thaw") as verb, key]:
                getattr(self._past, verb)(_resource(key))
            case ["refuse", kind, reason, *retry_after]:
                self._past.fail(Reason(reason), kind, retry_after=float(retry_after[0]) if retry_after else None)
            case ["allow"]:
                self._past.failures.clear()
            case [("cluster" | "apiserver" | "auditor") as of, name, value]:
                parts = {"cluster": self._past, "apiserver": self._past.apiserver, "auditor": self._audits}
                setattr(parts[of], name, yaml.safe_load(value))
            case [key, name, value] if key in self._watches:
                setattr(self._watches[key], name, yaml.safe_load(value))
            case [verb, key, *more]:
                self._change(verb, self._watches[key], *more)

    def _change(self, verb: str, watch: FakeWatch, *more: str) -> None:
        match verb:
            case "close" | "open" | "release":
                getattr(watch, verb)()
            case "stick":
                watch.stuck, watch.hopeless = True, bool(more)
            case "mark":
                watch.mark(self._past.revision + int(more[0]))
            case "end":
                self._past.streams.remove(watch)
            case "undate":
                watch.ages = lambda revisions, _: [0.0] * len(revisions)  # type: ignore[method-assign,assignment]
            case "untick":
                watch.ticked = lambda _: None
            case _:
                raise AssertionError(verb)

    def _state(self) -> dict[str, str]:
        found = " ".join(sorted(self._audits.found)) or "nothing"
        return {"found": found} | {key: watch.said for key, watch in self._watches.items()}


def _resource(key: str) -> Resource:
    return RESOURCES.get(key) or Resource("tests.invalid", "v1", key, namespaced=True)


async def churn(past: Past, resource: Resource) -> None:
    while True:
        past.commit(resource)
        await asyncio.sleep(0.2)
