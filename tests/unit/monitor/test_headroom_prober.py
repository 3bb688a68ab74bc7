"""The headroom prober against caches in memory: what it finds, how often it probes, and what it logs."""

import asyncio
import contextlib
import json
import math
import random
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from tests.unit.monitor.cluster import ANSWER_SECONDS, COMPACTED, CONFIGMAPS, EVENTS, NODES, PODS, Log, Watch, line
from watchslo.kube.client import NOTHING, OnSent, Page, Selectors
from watchslo.kube.representation import Representation
from watchslo.model import Interval, Reading, Resource
from watchslo.monitor.headroom_prober import (
    CONFIRM_SECONDS,
    FIRST_SECONDS,
    INTERVAL_SECONDS,
    KEPT_SECONDS,
    LIST_SECONDS,
    LOOK_SECONDS,
    REFUSED_SECONDS,
    RETRY_CAP_SECONDS,
    SHORT_INTERVAL_SECONDS,
    HeadroomProber,
)
from watchslo.monitor.oldest_revision import OVERTIME_SECONDS, WATCH_SECONDS, Found, find_oldest, try_revision
from watchslo.snapshot import HeadroomReading
from watchslo.watch.failure import ENDED, Failure, Reason, because
from watchslo.watch.headroom import FIRST, OPENS, Accepted, TooOld
from watchslo.watch.lines import LineTooLong
from watchslo.watch.messages import ListRequest, WatchRequest
from watchslo.watch.missing_right import AGAIN_SECONDS

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
        self.streams = [FakeWatch(self, resource) for resource in resources]
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
        assert (kind, namespace, selectors, request.bookmarks) == ("history", "default", NOTHING, False)
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
        return "history" if self.mute else f"too old resource version: {revision} ({self.oldest})"

    async def read_nothing(self, resource: Resource, namespace: str, kind: str, at: int) -> Reading | Failure:
        assert (namespace, kind) == ("default", "history")
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


def error(code: int, reason: str, message: str) -> bytes:
    status = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


class At:
    """A headroom prober that runs."""

    def __init__(self, caches: Caches, seed: int = 1, budget: float = 5.0) -> None:
        self.caches = caches
        self.budget = budget
        self._prober = caches.prober = HeadroomProber(
            lambda: cast("Any", caches.streams), caches.apiserver, lambda: self.budget, random.Random(seed).random
        )

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._prober.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert not self._task.done()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        assert not self.caches.open


def reading(caches: Caches, number: int = 0) -> HeadroomReading:
    found = caches.streams[number].headroom
    assert found is not None
    return found


async def pause() -> None:
    """Do not wait."""


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


@pytest.mark.parametrize("rate", [1.0, 50.0, 400.0])
@pytest.mark.parametrize("window", [80.0, 128.0])
async def test_headroom_without_a_named_revision_is_found_by_ten_watches(rate: float, window: float) -> None:
    caches = Caches(PODS, rate=rate, window=window)
    caches.mute = True
    async with At(caches):
        await asyncio.sleep(WELCOME_SECONDS + 20.0)
    assert len(caches.opens) <= OPENS
    assert reading(caches).seconds.lower + 0.2 == pytest.approx(window, rel=0.1)
    assert reading(caches).revisions == pytest.approx(window * rate, rel=0.1)


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


async def test_silent_watch_means_complete_headroom() -> None:
    caches = Caches(PODS)
    caches.last = 1, caches.revision()
    async with At(caches):
        await asyncio.sleep(WELCOME_SECONDS)
    found = reading(caches)
    assert (found.oldest, found.complete, found.fits) == (1, True, True)
    assert found.seconds == Interval(600.0, math.inf)


async def test_undated_headroom_is_counted_in_revisions(log: Log) -> None:
    caches = Caches(PODS)
    caches.streams[0].memory = math.inf
    async with At(caches):
        await asyncio.sleep(WELCOME_SECONDS)
    assert not log.events
    assert reading(caches).seconds == Interval(0.0, math.inf)
    assert reading(caches).revisions == pytest.approx(WINDOW_SECONDS * caches.rate, abs=2)
    assert reading(caches).fits is None


async def test_cache_that_drops_nothing_is_complete() -> None:
    caches = Caches(PODS, window=math.inf)
    caches.restart()
    async with At(caches):
        await asyncio.sleep(WELCOME_SECONDS)
        assert not reading(caches).complete, "one look cannot tell"
        await asyncio.sleep(max(INTERVAL_SECONDS) + 10.0)
        assert reading(caches).complete


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ([error(410, "Expired", "too old resource version: 7 (236)")], TooOld(236)),
        ([error(410, "Expired", "gone")], TooOld(None)),
        ([error(429, "TooManyRequests", "later")], Reason.THROTTLED),
        ([error(500, "InternalError", "etcd"), because(Reason.FORCED)], Reason.SERVER_ERROR),
        ([ENDED], Reason.FORCED),
        ([b"garbage\n", line("MODIFIED", 9), because(Reason.RESET)], Reason.RESET),
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


async def test_try_revision_fails_on_an_endless_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def overflow(*_: object) -> bytes:
        raise LineTooLong(1)

    monkeypatch.setattr("watchslo.watch.lines.LineSplitter.feed", overflow)
    caches = Caches()
    caches.said = [b"x"]
    found = await try_revision(cast("Any", caches), PODS, "default", 7)
    assert isinstance(found, Failure)
    assert found.reason is Reason.OVERSIZE


async def test_find_oldest_fails_if_everything_is_refused() -> None:
    caches = Caches()
    caches.said = [error(410, "Expired", "gone")]
    found = await find_oldest(cast("Any", caches), PODS, "default", caches.revision, pause)
    assert isinstance(found, Failure)
    assert found.reason is Reason.EXPIRED


@pytest.mark.parametrize("behind", [1, 30, 1_000, 300_000])
async def test_storage_is_searched_by_lists(behind: int) -> None:
    """A watch from a revision that etcd still has would make it read all changes since."""
    caches = Caches()
    newest = caches.revision()
    caches.compacted = newest - behind
    found = await find_oldest(cast("Any", caches), EVENTS, "default", lambda: newest, pause)
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


# Lists


async def test_measured_list_replaces_the_estimate() -> None:
    caches = Caches(PODS, PODS)
    caches.streams[0].list_seconds, caches.streams[1].list_seconds = 12.0, 14.0
    async with At(caches):
        await asyncio.sleep(WELCOME_SECONDS)
    assert (reading(caches).list_seconds, reading(caches).list_measured) == (14.0, True)
    assert not caches.pages


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({"objects": 0}, 0.1),
        ({"objects": 500}, 0.1),
        ({"objects": 501}, 0.2),
        ({"remaining": False}, None),
        ({"page_failure": because(Reason.FORBIDDEN)}, None),
    ],
    ids=["none", "a page", "one more", "not counted", "refused"],
)
async def test_list_duration_is_estimated_by_one_page(changes: dict[str, Any], seconds: float | None, log: Log) -> None:
    caches = Caches(PODS)
    vars(caches).update(changes)
    async with At(caches):
        await asyncio.sleep(WELCOME_SECONDS)
    assert reading(caches).list_seconds == (seconds and pytest.approx(seconds))
    assert reading(caches).fits is (True if seconds else None)
    assert not log.events


async def test_lists_are_estimated_rarely_in_the_watched_namespaces() -> None:
    caches = Caches(PODS, PODS, NODES)
    caches.streams[0].namespace, caches.streams[1].namespace = "b", "a"
    async with At(caches):
        await asyncio.sleep(HOUR_SECONDS)
    assert {(of.key, namespace) for _, of, namespace in caches.pages} == {("pods", "a"), ("nodes", None)}
    assert 2 * 4 <= len(caches.pages) <= 2 * (HOUR_SECONDS / LIST_SECONDS + 1)


# Short headroom


async def test_longer_list_is_probed_at_once(log: Log) -> None:
    caches = Caches(PODS)
    caches.streams[0].list_seconds = 20.0
    async with At(caches):
        await asyncio.sleep(WELCOME_SECONDS)
        caches.streams[0].list_seconds = 21.0
        await asyncio.sleep(WELCOME_SECONDS)
        assert len(caches.opens) == 1, "as good as before"
        caches.streams[0].list_seconds = 150.0
        await asyncio.sleep(CONFIRM_SECONDS + 3 * LOOK_SECONDS + 1.0)
        assert log.events == ["history_short"]
        assert caches.opens[2][0] - caches.opens[1][0] >= CONFIRM_SECONDS


async def test_longer_list_does_not_hurry_a_refusing_apiserver() -> None:
    caches = Caches(PODS)
    caches.streams[0].list_seconds = 20.0
    async with At(caches):
        await asyncio.sleep(WELCOME_SECONDS)
        caches.failure = because(Reason.RESET)
        caches.streams[0].list_seconds = 150.0
        await asyncio.sleep(KEPT_SECONDS / 2)
        assert 2 <= len(caches.opens) <= 5


@pytest.mark.parametrize("seed", range(5))
async def test_short_headroom_is_logged_once_and_its_end_soon(seed: int, log: Log) -> None:
    caches = Caches(PODS)
    caches.streams[0].list_seconds = 150.0
    async with At(caches, seed):
        await asyncio.sleep(600.0)
        assert reading(caches).fits is False
        assert len(caches.opens) <= 3 * 600.0 / (min(SHORT_INTERVAL_SECONDS) + CONFIRM_SECONDS)
        caches.streams[0].list_seconds = 50.0
        await asyncio.sleep(max(SHORT_INTERVAL_SECONDS) + CONFIRM_SECONDS + 5.0)
    about = {"apiserver": "10.0.3.7:6443", "resource": "pods", "seconds": pytest.approx(WINDOW_SECONDS, abs=0.3)}
    assert log.of("history_short") == [{"event": "history_short", **about, "list_seconds": 150.0}]
    (ended,) = log.of("history_long_enough")
    assert (ended["seconds"], ended["list_seconds"]) == (about["seconds"], 50.0)
    assert log.events == ["history_short", "history_long_enough"]


async def test_young_cache_is_not_short_headroom(log: Log) -> None:
    caches = Caches(PODS, window=150.0)
    caches.streams[0].list_seconds = 60.0
    async with At(caches):
        await asyncio.sleep(WELCOME_SECONDS)
        for _ in range(20):
            caches.restart()
            await asyncio.sleep(random.Random(1).uniform(60.0, 600.0))
        assert reading(caches).fits
    assert not log.events


async def test_unchanged_cache_is_not_complete() -> None:
    """A burst has filled the cache; it drops nothing now, because no event is added."""
    caches = Caches(PODS)
    caches.streams[0].list_seconds = 1000.0
    async with At(caches):
        while not caches.opens:  # noqa: ASYNC110 - no event announces it
            await asyncio.sleep(0.1)
        caches.hush()
        for _ in range(10):
            await asyncio.sleep(max(SHORT_INTERVAL_SECONDS) + CONFIRM_SECONDS)
            assert not reading(caches).complete
        assert reading(caches).fits is False


async def test_failed_confirmation_is_repeated(log: Log) -> None:
    caches = Caches(PODS)
    caches.streams[0].list_seconds = 150.0
    async with At(caches):
        while not caches.opens:  # noqa: ASYNC110 - no event announces it
            await asyncio.sleep(0.1)
        caches.failure = because(Reason.RESET)
        await asyncio.sleep(CONFIRM_SECONDS + 10.0)
        caches.failure = None
        await asyncio.sleep(200.0)
        assert reading(caches).fits is False
    assert [revision == 1 for _, _, revision in caches.opens[:5]] == [True, False, True, False, True]
    assert log.events == ["history_unknown", "recovered", "history_short"]


async def test_short_headroom_is_probed_even_without_events(log: Log) -> None:
    caches = Caches(PODS)
    caches.streams[0].list_seconds = 150.0
    async with At(caches):
        await asyncio.sleep(100.0)
        caches.streams[0].event_rate = 0.0
        caches.window = math.inf
        await asyncio.sleep(700.0)
    assert log.events == ["history_short", "history_long_enough"]


# Turns


@pytest.mark.parametrize("seed", range(20))
async def test_busy_resource_is_probed_soon_and_then_every_few_minutes(seed: int) -> None:
    caches = Caches(PODS, NODES, CONFIGMAPS)
    async with At(caches, seed):
        await asyncio.sleep(FIRST_SECONDS + 2 * LOOK_SECONDS + 2.0)
        assert all(stream.headroom for stream in caches.streams)
        await asyncio.sleep(HOUR_SECONDS)
    for stream in caches.streams:
        times = [at for at, of, _ in caches.opens if of == stream.resource]
        gaps = [later - sooner for sooner, later in pairwise(times)]
        assert min(INTERVAL_SECONDS) <= min(gaps)
        assert max(gaps) <= max(INTERVAL_SECONDS) + 10.0
        assert max(gaps) - min(gaps) > 30.0, "they are jittered"


async def test_only_busy_cached_open_resources_are_probed() -> None:
    caches = Caches(PODS, NODES, CONFIGMAPS, EVENTS)
    idle, closed, unknown, _ = caches.streams
    idle.event_rate, closed.up, unknown.known = 0.9, False, False
    async with At(caches):
        await asyncio.sleep(HOUR_SECONDS)
        assert not caches.opens
        idle.event_rate = 1.0
        await asyncio.sleep(WELCOME_SECONDS)
        assert {of for _, of, _ in caches.opens} == {PODS}


async def test_watches_of_one_resource_share_a_reading() -> None:
    caches = Caches(PODS, PODS)
    caches.streams[1].event_rate = 0.0
    async with At(caches):
        await asyncio.sleep(WELCOME_SECONDS)
        assert caches.streams[0].headroom is caches.streams[1].headroom is not None
        caches.streams.append(FakeWatch(caches, PODS))
        await asyncio.sleep(2 * LOOK_SECONDS)
        assert caches.streams[2].headroom
    assert len(caches.opens) == 1


async def test_old_reading_is_not_shown() -> None:
    caches = Caches(PODS)
    async with At(caches):
        await asyncio.sleep(WELCOME_SECONDS)
        caches.streams[0].event_rate = 0.0
        await asyncio.sleep(KEPT_SECONDS / 2)
        assert caches.streams[0].headroom
        await asyncio.sleep(KEPT_SECONDS / 2)
        assert caches.streams[0].headroom is None


async def test_resources_without_watches_are_forgotten() -> None:
    caches = Caches(PODS, NODES)
    caches.mute = True
    async with At(caches):
        while not caches.opens:  # noqa: ASYNC110 - no event announces it
            await asyncio.sleep(0.1)
        caches.streams.clear()
        await asyncio.sleep(60.0)
        count = len(caches.opens)
        await asyncio.sleep(HOUR_SECONDS)
        assert len(caches.opens) == count <= OPENS


async def test_returning_resource_is_probed_again() -> None:
    caches = Caches(PODS)
    async with At(caches):
        await asyncio.sleep(WELCOME_SECONDS)
        (stream,) = caches.streams
        caches.streams.clear()
        await asyncio.sleep(WELCOME_SECONDS)
        stream.up = False
        caches.streams.append(stream)
        await asyncio.sleep(WELCOME_SECONDS)
        assert stream.headroom is None
        stream.up = True
        await asyncio.sleep(WELCOME_SECONDS)
    assert reading(caches).fits


async def test_each_apiserver_has_its_own_readings() -> None:
    first, second = Caches(PODS), Caches(PODS, window=50.0)
    async with At(first), At(second):
        await asyncio.sleep(WELCOME_SECONDS)
    assert reading(first).seconds.lower == pytest.approx(WINDOW_SECONDS, abs=0.5)
    assert reading(second).seconds.lower == pytest.approx(50.0, abs=0.5)


@pytest.mark.parametrize("seed", range(5))
async def test_cancelled_prober_leaves_no_watch_open(seed: int) -> None:
    caches = Caches(PODS)
    caches.mute = True
    async with At(caches, seed):
        await asyncio.sleep(random.Random(seed).uniform(0.0, WELCOME_SECONDS))


# The budget


async def test_requests_keep_to_the_budget() -> None:
    caches = Caches(*(Resource("tests.invalid", "v1", f"things{number}", namespaced=True) for number in range(30)))
    caches.mute = True
    async with At(caches, budget=0.5):
        await asyncio.sleep(600.0)
    times = sorted([at for at, _, _ in caches.opens] + [at for at, _, _ in caches.pages])
    assert min(later - sooner for sooner, later in pairwise(times)) >= 2.0 - 1e-6
    assert len(times) > 200


async def test_zero_budget_sends_no_requests(log: Log) -> None:
    caches = Caches(PODS)
    caches.mute = True
    async with At(caches, budget=0.0) as at:
        await asyncio.sleep(HOUR_SECONDS)
        assert not caches.opens
        at.budget = 5.0
        while len(caches.opens) < 3:  # noqa: ASYNC110 - no event announces it
            await asyncio.sleep(0.1)
        at.budget = 0.0
        count = len(caches.opens)
        await asyncio.sleep(60.0)
        assert len(caches.opens) <= count + 1, "not even to the end of a search"
        at.budget = 5.0
        await asyncio.sleep(30.0)
        assert caches.streams[0].headroom
    assert not log.events


# Failures


async def test_forbidden_watch_is_logged_once_and_retried_rarely(log: Log) -> None:
    caches = Caches(PODS, NODES)
    caches.failures[PODS] = because(Reason.FORBIDDEN)
    async with At(caches):
        await asyncio.sleep(6 * HOUR_SECONDS)
        assert len(log.of("history_unknown")) == 1
        first, *times = [at for at, of, _ in caches.opens if of == PODS]
        assert AGAIN_SECONDS / 2 <= times[0] - first <= 1.5 * AGAIN_SECONDS + 10.0
        assert min(later - sooner for sooner, later in pairwise(times)) >= REFUSED_SECONDS / 2
        assert len(times) >= 3
        assert sum(of == NODES for _, of, _ in caches.opens) >= 6 * HOUR_SECONDS / max(INTERVAL_SECONDS) - 5
        caches.failures.clear()
        await asyncio.sleep(1.5 * REFUSED_SECONDS + 10.0)
        assert caches.streams[0].headroom
    assert log.events == ["history_unknown", "recovered"]


async def test_start_of_an_apiserver_puts_a_probe_off_by_a_minute_only() -> None:
    """It refuses everything for a moment."""
    caches = Caches(PODS)
    async with At(caches):
        for _ in range(3):
            caches.failures[PODS] = because(Reason.FORBIDDEN)
            asked = len(caches.opens)
            while len(caches.opens) == asked:  # noqa: ASYNC110 - no event announces this condition
                await asyncio.sleep(0.3)
            caches.failures.clear()
            await asyncio.sleep(1.5 * AGAIN_SECONDS + 30.0)
            assert caches.streams[0].headroom
            assert len(caches.opens) > asked + 1


async def test_throttling_stops_probes_of_all_resources(log: Log) -> None:
    caches = Caches(PODS, NODES, CONFIGMAPS)
    caches.failure = because(Reason.THROTTLED, retry_after=120.0)
    async with At(caches):
        await asyncio.sleep(6 * HOUR_SECONDS)
        times = [at for at, _, _ in caches.opens]
        assert min(later - sooner for sooner, later in pairwise(times)) >= 120.0
        assert len(times) <= 20 + 6 * HOUR_SECONDS / RETRY_CAP_SECONDS
        assert {entry["reason"] for entry in log.of("history_unknown")} == {"throttled"}
        assert len(log.of("history_unknown")) == 3, "once for each resource"
        caches.failure = None
        await asyncio.sleep(2 * RETRY_CAP_SECONDS + WELCOME_SECONDS)
        assert all(stream.headroom for stream in caches.streams)


async def test_other_failures_back_off() -> None:
    caches = Caches(PODS)
    caches.failure = because(Reason.RESET)
    async with At(caches):
        await asyncio.sleep(HOUR_SECONDS)
        times = [at for at, _, _ in caches.opens]
        gaps = [later - sooner for sooner, later in pairwise(times)]
        assert 60.0 <= gaps[0] <= 125.0
        assert gaps[-1] > 4 * gaps[0]
        caches.failure = None
        await asyncio.sleep(2 * RETRY_CAP_SECONDS)
        assert caches.streams[0].headroom
