"""The headroom prober against caches in memory: what it finds, how often it probes, and what it logs."""

import asyncio
import contextlib
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from tests.unit.monitor.cluster import ANSWER_SECONDS, COMPACTED, EVENTS, PODS, RESOURCES, Watch, error, line
from tests.unit.monitor.scene import CallScene, Play, counts
from watchslo.kube.call import NOTHING, OnSent, Page, Selectors
from watchslo.kube.representation import Representation
from watchslo.model import Interval, Reading, Resource
from watchslo.monitor.apiservers.oldest_revision import (
    OVERTIME_SECONDS,
    WATCH_SECONDS,
    Found,
    find_oldest,
    try_revision,
)
from watchslo.monitor.checks.headroom_prober import HeadroomProber
from watchslo.snapshot import HeadroomReading
from watchslo.watch.failure import ENDED, Failure, Reason, because
from watchslo.watch.headroom import FIRST, OPENS, Accepted, TooOld
from watchslo.watch.lines import DEFAULT_LIMIT_BYTES
from watchslo.watch.messages import ListRequest, WatchRequest

HOUR_SECONDS = 3600.0
BEGAN = 1_000_000  # the first revision
WELCOME_SECONDS = 30.0  # within which a busy resource has a reading
WINDOW_SECONDS = 100.0


class FakeWatch:
    """A watch of a busy resource, all parts in one; `memory` is how far back its clock reaches, in seconds."""

    def __init__(self, caches: "Caches", resource: Resource) -> None:
        self.identity = self.session = self.statistics = self
        self.pages: list[Page] = []
        self.observe_list = self.pages.append
        self.resource = resource
        self.cached = resource.usually_cached
        self.namespace: str | None = None
        self.probed_in = "default"
        self.up = True
        self.event_rate = 50.0
        self.list_seconds: float | None = None
        self.memory = 600.0
        self.known = True
        self._caches = caches

    @property
    def revision(self) -> int | None:
        return self._caches.revision() if self.known else None

    @property
    def headroom(self) -> HeadroomReading | None:
        assert self._caches.prober is not None
        return self._caches.prober.headroom(self.resource)

    @property
    def newest_event(self) -> int | None:
        return self._caches.revision() if self._caches.last is None else self._caches.last[1]

    def commit_bounds(self, revision: int, now: float) -> Interval | None:
        age = now - self._caches.committed(revision)
        if not self.known or math.isinf(self.memory):
            return None
        return Interval(age - 0.2, age + 0.2) if age < self.memory else Interval(self.memory, math.inf)


class Caches:
    """An apiserver: revisions ascend by `rate` a second, and its caches remember those of the last `window` seconds.

    `began` is when its caches did. It may be `mute` about the oldest revision, or refuse at once, with HTTP 410.
    """

    def __init__(self, *resources: Resource, rate: float = 50.0, window: float = WINDOW_SECONDS) -> None:
        self.rate = rate
        self.window = window
        self.zero = time.monotonic() - HOUR_SECONDS
        self.began = self.zero
        self.mute = self.at_once = False
        self.last: tuple[int, int] | None = None  # the oldest and the newest event, once it is quiet
        self.failure: Failure | None = None
        self.failures: dict[Resource, Failure] = {}
        self.said: list[bytes | Failure] | None = None
        self.queue_seconds = 0.0
        self.page_seconds, self.objects = 0.1, 4_000
        self.remaining = True
        self.page_failure: Failure | None = None
        self.opens: list[tuple[float, Resource, int]] = []
        self.compacted: int | None = None  # the oldest revision of the storage, for resources without a cache
        self.lists: list[int] = []  # the exact revisions that were read
        self.pages: list[tuple[float, Resource, str | None]] = []
        self.open = 0
        self.prober: HeadroomProber | None = None
        self.watches = [FakeWatch(self, resource) for resource in resources]
        self.apiserver = cast("Any", SimpleNamespace(name="10.0.3.7:6443", client=self))

    def revision(self, ago: float = 0.0) -> int:
        return BEGAN + math.floor((time.monotonic() - ago - self.zero) * self.rate)

    def committed(self, revision: int) -> float:
        return self.zero + (revision - BEGAN) / self.rate

    @property
    def oldest(self) -> int:
        return self.last[0] if self.last else self.revision(ago=min(self.window, time.monotonic() - self.began))

    def hush(self) -> None:
        """Make all later changes those of other resources."""
        self.last = self.oldest, self.revision()

    def restart(self) -> None:
        self.began = time.monotonic()

    @contextlib.asynccontextmanager
    async def watch(
        self,
        resource: Resource,
        namespace: str | None,
        selectors: Selectors,
        request: WatchRequest,
        representation: Representation,
        *,
        kind: str,
        on_sent: OnSent,
    ) -> AsyncIterator[Watch | Failure]:
        await asyncio.sleep(self.queue_seconds)
        on_sent()
        assert (kind, namespace, selectors, request.bookmarks) == ("headroom", "default", NOTHING, False)
        assert request.timeout == WATCH_SECONDS
        assert request.revision is not None
        self.opens.append((time.monotonic(), resource, request.revision))
        await asyncio.sleep(ANSWER_SECONDS)
        if failure := self.failure or self.failures.get(resource):
            yield failure
            return
        if self.at_once and request.revision < self.oldest:
            yield Failure(*_gone(f"It says: too old resource version: {request.revision} ({self.oldest})"))
            return
        opened = Watch(resource, request.revision, representation)
        self._answer(opened, request.timeout)
        self.open += 1
        try:
            yield opened
        finally:
            self.open -= 1

    def _answer(self, opened: Watch, seconds: float) -> None:
        if self.said is not None:
            for said in self.said:
                opened.send(said)
        elif self.compacted is not None and opened.revision < self.compacted - 1:
            opened.send(error(410, "Expired", COMPACTED))
        elif opened.revision < self.oldest:
            opened.send(error(410, "Expired", self._refusal(opened.revision)))
            opened.send()
        else:
            asyncio.get_running_loop().call_later(seconds, opened.send)

    def _refusal(self, revision: int) -> str:
        return "headroom" if self.mute else f"too old resource version: {revision} ({self.oldest})"

    async def read_nothing(self, resource: Resource, namespace: str, kind: str, at: int) -> Reading | Failure:
        assert (namespace, kind) == ("default", "headroom")
        assert self.compacted is not None
        self.lists.append(at)
        if self.failure:
            return self.failure
        now = time.monotonic()
        return because(Reason.EXPIRED) if at < self.compacted else Reading(resource.key, now, now, at)

    async def list_page(
        self,
        resource: Resource,
        namespace: str | None,
        selectors: Selectors,
        request: ListRequest,
        representation: Representation,
    ) -> Page | Failure:
        assert (selectors, request, representation) == (Selectors(), ListRequest(limit=500), Representation.TABLE)
        sent = time.monotonic()
        self.pages.append((sent, resource, namespace))
        await asyncio.sleep(self.page_seconds)
        left = max(self.objects - 500, 0)
        return self.page_failure or Page(
            self.revision(),
            self.objects - left,
            1000,
            "more" if left else None,
            sent,
            sent + self.page_seconds,
            remaining=left if left and self.remaining else None,
        )


def _gone(message: str) -> tuple[Any, ...]:
    expired = because(Reason.EXPIRED)
    return expired.reason, expired.closed, expired.action, message


class At:
    """A headroom prober that runs."""

    def __init__(self, caches: Caches, seed: int = 1, budget: float = 5.0) -> None:
        self.caches = caches
        self.budget = budget
        self.prober = caches.prober = HeadroomProber(
            lambda: cast("Any", caches.watches), caches.apiserver, lambda: self.budget, random.Random(seed).random
        )

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.prober.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert not self._task.done()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        assert not self.caches.open


def reading(caches: Caches, number: int = 0) -> HeadroomReading:
    found = caches.watches[number].headroom
    assert found is not None
    return found


async def go_on() -> None:
    """Do not wait."""


class HeadroomScene(CallScene):
    """A headroom prober; a transcript begins with the watched resources, and a budget if any."""

    def __init__(self, beginning: str) -> None:
        super().__init__()
        resources, _, budget = beginning.partition(", budget ")
        self._caches = Caches(*(RESOURCES[key] for key in resources.split()))
        self._watches = [*self._caches.watches]
        self._at = At(self._caches, budget=float(budget or 5.0))
        self._looked = 0

    async def _run(self) -> None:
        await self._at.prober.run()

    def budget(self, requests: float) -> None:
        self._at.budget = requests

    def caches(self, fact: str, value: Any) -> None:
        setattr(self._caches, fact, value)

    def watch(self, number: int, fact: str, value: Any) -> None:
        setattr(self._watches[number - 1], fact, value)

    def restart(self) -> None:
        self._caches.restart()

    def hush(self) -> None:
        self._caches.hush()

    def remove(self, number: int) -> None:
        self._caches.watches.remove(self._watches[number - 1])

    def add(self, number: int) -> None:
        self._caches.watches.append(self._watches[number - 1])

    def fail(self, what: str, reason: str, after: float | None = None) -> None:
        """Refuse pages, all watches, or those of a resource."""
        failure = because(Reason(reason), retry_after=after)
        if what == "pages":
            self._caches.page_failure = failure
        elif what == "all":
            self._caches.failure = failure
        else:
            self._caches.failures[RESOURCES[what]] = failure

    def allow(self) -> None:
        self._caches.failure = None
        self._caches.failures.clear()

    async def until_asked(self) -> None:
        """Let time pass until the next watch of the prober."""
        asked = len(self._caches.opens)
        while len(self._caches.opens) == asked:
            await self._wait(0.1)

    def asked(self) -> str:
        """Return how many watches each resource had since the last look, and how far apart they were."""
        opens, self._looked = self._caches.opens[self._looked :], len(self._caches.opens)
        keys = sorted({of.key for _, of, _ in opens})
        said = []
        for name in [*keys, *["all"][: len(keys) - 1]]:
            times = [at for at, of, _ in opens if name in ("all", of.key)]
            gaps = [later - sooner for sooner, later in pairwise(times)]
            apart = f", {min(gaps):.0f} to {max(gaps):.0f} s apart" if gaps else ""
            said.append(f"{len(times)} of {name}{apart}")
        return "\n".join(said) or "none"

    def _state(self) -> dict[str, str]:
        pages = Counter(f"{of.key} in {namespace or 'all'}" for _, of, namespace in self._caches.pages)
        watches = {f"watch {number}": _said(watch.headroom) for number, watch in enumerate(self._watches, 1)}
        return {"pages": counts(pages)} | watches


def _said(found: HeadroomReading | None) -> str:
    if found is None:
        return "unknown"
    reach = f"{found.revisions or 0:.0f} revisions"
    seconds = f"{found.seconds.lower:.1f} to {found.seconds.upper:.1f} s"
    list_seconds = "unknown" if found.list_seconds is None else f"{found.list_seconds:.3g} s"
    facts = {"complete": found.complete, "fits": found.fits, "does not fit": found.fits is False}
    how = "measured" if found.list_measured else "estimated"
    return ", ".join([reach, seconds, f"list {list_seconds} {how}", *(name for name in facts if facts[name])])


def test_prober_does_what_its_transcripts_say(play: Play) -> None:
    play("headroom.txt", HeadroomScene)


# Results


@pytest.mark.parametrize("at_once", [False, True])
async def test_single_refused_watch_shows_the_headroom(at_once: bool) -> None:  # noqa: FBT001
    caches = Caches(PODS)
    caches.at_once = at_once
    async with At(caches):
        await asyncio.sleep(WELCOME_SECONDS)
    found = reading(caches)
    assert [revision for _, _, revision in caches.opens] == [1]
    asked, _, _ = caches.opens[0]
    assert found.oldest == pytest.approx(BEGAN + (asked - caches.zero - WINDOW_SECONDS) * caches.rate, abs=2)
    assert found.revisions == pytest.approx(WINDOW_SECONDS * caches.rate, abs=2)
    assert found.seconds.lower <= WINDOW_SECONDS <= found.seconds.upper
    assert found.seconds.width == pytest.approx(0.4)
    assert (found.complete, found.fits) == (False, True)
    assert found.list_seconds == pytest.approx(0.8)
    assert not found.list_measured
    assert found.probed_wall == pytest.approx(time.time(), abs=WELCOME_SECONDS)


async def test_oldest_revision_is_dated_by_its_watch() -> None:
    """The later watches must not change its time."""
    caches = Caches()
    caches.mute = True

    async def linger() -> None:
        await asyncio.sleep(3.0)

    found = await find_oldest(cast("Any", caches), PODS, "default", caches.revision, linger)
    assert isinstance(found, Found)
    accepted = next(at for at, _, revision in caches.opens if revision == found.oldest)
    assert found.at == pytest.approx(accepted, abs=0.01)
    assert found.at < caches.opens[-1][0] - 1.0
    assert found.revisions == pytest.approx((found.at - caches.committed(found.oldest)) * caches.rate, abs=2)


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ([error(410, "Expired", "too old resource version: 7 (236)")], TooOld(236)),
        ([error(410, "Expired", "gone")], TooOld(None)),
        ([error(429, "TooManyRequests", "later")], Reason.THROTTLED),
        ([error(500, "InternalError", "etcd"), because(Reason.FORCED)], Reason.SERVER_ERROR),
        ([ENDED], Reason.FORCED),
        ([b"garbage\n", line("MODIFIED", 9), because(Reason.RESET)], Reason.RESET),
        ([b"x" * (DEFAULT_LIMIT_BYTES + 1)], Reason.OVERSIZE),
        ([], Reason.TIMEOUT),
    ],
)
async def test_try_revision_returns_the_outcome(said: list[bytes | Failure], outcome: TooOld | Reason) -> None:
    caches = Caches()
    caches.said = said
    began = time.monotonic()
    found = await try_revision(cast("Any", caches), PODS, "default", 7)
    assert (found.reason if isinstance(found, Failure) else found) == outcome
    assert time.monotonic() - began <= WATCH_SECONDS + OVERTIME_SECONDS


@pytest.mark.parametrize("queue_seconds", [0.0, 60.0])
async def test_try_revision_accepts_a_silent_watch_however_long_its_turn_takes(queue_seconds: float) -> None:
    caches = Caches()
    caches.queue_seconds = queue_seconds
    assert await try_revision(cast("Any", caches), PODS, "default", caches.revision()) == Accepted()


async def test_find_oldest_fails_if_everything_is_refused() -> None:
    caches = Caches()
    caches.said = [error(410, "Expired", "gone")]
    found = await find_oldest(cast("Any", caches), PODS, "default", caches.revision, go_on)
    assert isinstance(found, Failure)
    assert found.reason is Reason.EXPIRED


@pytest.mark.parametrize("behind", [1, 30, 1_000, 300_000])
async def test_storage_is_searched_by_lists(behind: int) -> None:
    """A watch from a revision that etcd still has would make it read all changes since."""
    caches = Caches()
    newest = caches.revision()
    caches.compacted = newest - behind
    found = await find_oldest(cast("Any", caches), EVENTS, "default", lambda: newest, go_on)
    assert isinstance(found, Found)
    assert [revision for _, _, revision in caches.opens] == [FIRST]
    assert len(caches.lists) < OPENS
    assert caches.compacted <= found.oldest <= newest
    assert found.revisions == pytest.approx(behind, rel=0.03, abs=1)
    assert not found.complete


async def test_failed_list_of_a_search_is_its_failure() -> None:
    caches = Caches()
    caches.compacted = caches.revision()

    async def fail() -> None:
        if caches.opens:
            caches.failure = because(Reason.FORBIDDEN)

    found = await find_oldest(cast("Any", caches), EVENTS, "default", caches.revision, fail)
    assert isinstance(found, Failure)
    assert found.reason is Reason.FORBIDDEN


@pytest.mark.parametrize("seed", range(5))
async def test_cancelled_prober_leaves_no_watch_open(seed: int) -> None:
    caches = Caches(PODS)
    caches.mute = True
    async with At(caches, seed):
        await asyncio.sleep(random.Random(seed).uniform(0.0, WELCOME_SECONDS))


async def test_requests_keep_to_the_budget() -> None:
    caches = Caches(*(Resource("tests.invalid", "v1", f"things{number}", namespaced=True) for number in range(30)))
    caches.mute = True
    async with At(caches, budget=0.5):
        await asyncio.sleep(600.0)
    times = sorted([at for at, _, _ in caches.opens] + [at for at, _, _ in caches.pages])
    assert min(later - sooner for sooner, later in pairwise(times)) >= 2.0 - 1e-6
    assert len(times) > 200
