"""Finds out how long a client of one apiserver may be away before its revision expires, and whether a list still fits.

That is asked of busy resources only, every few minutes, at random: a history that is short stays so for a while.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from watchslo.kube.client import NOTHING, Client, Selectors
from watchslo.kube.client import Stream as Connection
from watchslo.kube.representation import Representation
from watchslo.model import Interval, Resource
from watchslo.monitor.apiserver import Apiserver
from watchslo.monitor.trouble import Trouble
from watchslo.snapshot import HistoryReading
from watchslo.watch.backoff import Backoff
from watchslo.watch.decode import Error, decode
from watchslo.watch.failure import ENDED, Action, Failure, Reason, because, classify_stream_error
from watchslo.watch.history import Accepted, Outcome, Search, TooOld, estimate_list, parse_oldest
from watchslo.watch.lines import LineSplitter, LineTooLong
from watchslo.watch.messages import ListRequest, WatchRequest
from watchslo.watch.strategy import PAGE_SIZE

WATCH_SECONDS = 1  # whole ones, as the apiserver takes them; a refusal comes a few milliseconds after the headers
OVERTIME_SECONDS = 5.0
SILENT_SECONDS = 0.5  # a watch that ended cleanly before that was neither refused nor accepted

BUSY_EVENTS = 1.0  # a second; of what changes more seldom, a cache holds at least 100 s
LOOK_SECONDS = 2.0  # between two looks at who is due
FIRST_SECONDS = 25.0  # within which a resource that has become busy has its turn
INTERVAL_SECONDS = 180.0, 300.0
SHORT_INTERVAL_SECONDS = 15.0, 25.0  # while lists do not fit: its end is to be seen soon
LONGER = 1.1  # times what a list was thought to take: whether it still fits is asked at once
CONFIRM_SECONDS = 10.0  # in which a busy resource drops its oldest change, if it drops any
REFUSED_SECONDS = 3600.0  # until what may not be watched, or is not there, is asked for again
RETRY_BASE_SECONDS = 60.0
RETRY_CAP_SECONDS = 1800.0
RETRY_RESET_SECONDS = 600.0
LIST_SECONDS = 600.0  # for so long a list is thought to take as long as it did
KEPT_SECONDS = 900.0  # then a reading is history itself


class Remembered(Protocol):
    """What a historian needs of a stream.

    `nudged_in` is the namespace in which its resource is to be read, `namespace` the one it watches; `newest_event` is
    the revision of its newest event, `event_rate` its events a second over the last minutes. `list_seconds` is how long
    the last full list took, if one was made in the last ten minutes. The historian sets `history`.
    """

    resource: Resource
    history: HistoryReading | None

    @property
    def namespace(self) -> str | None: ...
    @property
    def nudged_in(self) -> str: ...
    @property
    def up(self) -> bool: ...
    @property
    def revision(self) -> int | None: ...
    @property
    def newest_event(self) -> int | None: ...
    @property
    def event_rate(self) -> float: ...
    @property
    def list_seconds(self) -> float | None: ...
    def commit_bounds(self, revision: int, now: float) -> Interval | None:
        """How long before `now` a revision was committed, in seconds; None where no clock tells."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """The oldest revision that a watch may begin from, at that monotonic time.

    `revisions` is how far the newest one was ahead of it; `complete` whether nothing had ever been dropped.
    """

    oldest: int
    revisions: int
    at: float
    complete: bool


Pause = Callable[[], Awaitable[None]]
"""Returns when one more request may be sent."""


async def find_oldest(
    client: Client, resource: Resource, namespace: str, newest: Callable[[], int], pause: Pause
) -> Found | Failure:
    """Opens watches of nothing until it is known how far back one may begin; `newest` is a revision that is not old."""
    search, found = Search(newest()), None
    while (revision := search.next) is not None:
        await pause()
        at, ahead, before = time.monotonic(), newest(), search.oldest
        outcome = await try_revision(client, resource, namespace, revision)
        if isinstance(outcome, Failure):
            return outcome
        search.observe(revision, outcome)
        if search.oldest is not None and search.oldest != before:
            found = Found(search.oldest, max(ahead - search.oldest, 0), at, search.complete)
    return found or because(Reason.EXPIRED)


async def try_revision(client: Client, resource: Resource, namespace: str, revision: int) -> Outcome | Failure:
    """Opens a watch of nothing and reads it to its end: is that revision too old?"""
    request = WatchRequest(revision, WATCH_SECONDS, bookmarks=False)
    try:
        async with (
            asyncio.timeout(WATCH_SECONDS + OVERTIME_SECONDS),
            client.watch(resource, namespace, NOTHING, request, Representation.PLAIN, kind="history") as opened,
        ):
            if isinstance(opened, Failure):
                return TooOld(parse_oldest(opened.message)) if opened.reason is Reason.EXPIRED else opened
            return await _read(opened)
    except TimeoutError:
        return because(Reason.TIMEOUT)


async def _read(connection: Connection) -> Outcome | Failure:
    """Only an ERROR tells anything: no object has that name."""
    lines, opened = LineSplitter(), time.monotonic()
    while not isinstance(arrived := await connection.read(), Failure):
        try:
            events = decode(lines.feed(arrived[1])).events
        except LineTooLong:
            return because(Reason.OVERSIZE)
        for event in events:
            if isinstance(event, Error):
                failure = classify_stream_error(event.object)
                return TooOld(parse_oldest(event.object.message)) if failure.reason is Reason.EXPIRED else failure
    lasted = time.monotonic() - opened
    return Accepted() if arrived is ENDED and lasted >= SILENT_SECONDS else arrived


@dataclass(slots=True)
class _Subject:
    """What is known of one resource.

    `due` is when it is asked about next; `doubted` the oldest revision of a history that seems short, until it is known
    whether the cache really drops anything or is merely young; `event` is the newest one when it was last asked about:
    a cache to which nothing is added drops nothing. `read` is when the reading was made, `listed` when a
    list was last estimated, and at how many seconds.
    """

    due: float
    trouble: Trouble
    retries: Backoff
    reading: HistoryReading | None = None
    read: float = -math.inf
    doubted: int | None = None
    event: int | None = None
    short: bool = False
    listed: tuple[float, float | None] = field(default=(-math.inf, None))


class Historian:
    """Asks one apiserver about the histories of its streams' resources, one request after the other.

    `budget` is how many requests a second that may be; none at zero.
    """

    def __init__(
        self,
        streams: Callable[[], Iterable[Remembered]],
        apiserver: Apiserver,
        budget: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self._streams = streams
        self._apiserver = apiserver
        self._budget = budget
        self._random = random
        self._subjects: dict[Resource, _Subject] = {}
        self._not_before = -math.inf  # the apiserver asked to be left alone until then
        self._asked = -math.inf
        self._log = structlog.get_logger().bind(apiserver=apiserver.name)

    async def run(self) -> None:
        """Goes on until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS * (0.5 + self._random()))
            groups = self._groups()
            self._show(groups)
            if self._budget() and (resource := self._next(groups)):
                await self._examine(resource, groups[resource])

    # Whose turn it is

    def _groups(self) -> dict[Resource, list[Remembered]]:
        """The streams by their resource: one cache holds the history of them all."""
        groups: dict[Resource, list[Remembered]] = {}
        for stream in self._streams():
            if stream.resource.cached:
                groups.setdefault(stream.resource, []).append(stream)
        return groups

    def _show(self, groups: dict[Resource, list[Remembered]]) -> None:
        """Gives each stream the reading of its resource. What nobody watches any more is forgotten."""
        now = time.monotonic()
        self._subjects = {resource: known for resource, known in self._subjects.items() if resource in groups}
        for resource, streams in groups.items():
            known = self._subjects.get(resource)
            fresh = known is not None and now - known.read < KEPT_SECONDS
            for stream in streams:
                stream.history = known.reading if known and fresh else None

    def _next(self, groups: dict[Resource, list[Remembered]]) -> Resource | None:
        """Whoever has been due for longest."""
        now = time.monotonic()
        if now < self._not_before:
            return None
        eligible = [resource for resource, streams in groups.items() if self._busy(resource, streams)]
        for resource in eligible:
            if resource not in self._subjects:
                self._subjects[resource] = self._welcome(resource, now)
            elif _may_fit_no_more(self._subjects[resource], groups[resource]):
                self._subjects[resource].due = now
        due = [one for one in eligible if self._subjects[one].due <= now]
        return min(due, key=lambda one: self._subjects[one].due, default=None)

    def _busy(self, resource: Resource, streams: Sequence[Remembered]) -> bool:
        """A history that was said to be short is looked at until that is over."""
        known = self._subjects.get(resource)
        open_ones = [stream for stream in streams if stream.up and stream.revision is not None]
        busy = any(stream.event_rate >= BUSY_EVENTS for stream in open_ones)
        return busy or bool(open_ones and known and known.short)

    def _welcome(self, resource: Resource, now: float) -> _Subject:
        return _Subject(
            due=now + FIRST_SECONDS * self._random(),
            trouble=Trouble(self._log.bind(resource=resource.key)),
            retries=Backoff(self._random, RETRY_BASE_SECONDS, RETRY_CAP_SECONDS, RETRY_RESET_SECONDS),
        )

    # One look at a history

    async def _examine(self, resource: Resource, streams: Sequence[Remembered]) -> None:
        known = self._subjects[resource]
        found = await self._ask(known, resource, streams)
        now = time.monotonic()
        if isinstance(found, Failure):
            self._put_off(known, found, now)
            return
        known.trouble.over()
        seconds, measured = await self._list_seconds(known, resource, streams)
        reading = HistoryReading(
            oldest=found.oldest,
            revisions=found.revisions,
            seconds=_age(streams, found),
            complete=found.complete,
            list_seconds=seconds,
            list_measured=measured,
            probed_wall=time.time() - (time.monotonic() - found.at),
        )
        if reading.fits is False and known.doubted is None:
            known.doubted, known.due = found.oldest, now + CONFIRM_SECONDS
            return
        known.doubted, known.reading, known.read = None, reading, now
        shortest, longest = SHORT_INTERVAL_SECONDS if reading.fits is False else INTERVAL_SECONDS
        known.due = now + shortest + (longest - shortest) * self._random()
        self._tell(known, resource)

    async def _ask(self, known: _Subject, resource: Resource, streams: Sequence[Remembered]) -> Found | Failure:
        """Where history begins. A doubted one is complete if it still begins where it did."""
        namespace, client = streams[0].nudged_in, self._apiserver.client
        still_there = False
        if known.doubted is not None:
            await self._pause()
            outcome = await try_revision(client, resource, namespace, known.doubted)
            if isinstance(outcome, Failure):
                return outcome
            still_there = outcome == Accepted()
        found = await find_oldest(client, resource, namespace, lambda: _newest(streams), self._pause)
        if isinstance(found, Failure):
            return found
        unmoved = known.reading is not None and known.reading.oldest == found.oldest
        before, known.event = known.event, _newest_event(streams)
        keeps_all = (still_there or unmoved) and known.event != before
        return Found(found.oldest, found.revisions, found.at, found.complete or keeps_all)

    async def _pause(self) -> None:
        """Keeps to the budget."""
        while not (budget := self._budget()):  # noqa: ASYNC110 - a reload changes it, and tells nobody
            await asyncio.sleep(LOOK_SECONDS)
        await asyncio.sleep(self._asked + 1.0 / budget - time.monotonic())
        self._asked = time.monotonic()

    async def _list_seconds(
        self, known: _Subject, resource: Resource, streams: Sequence[Remembered]
    ) -> tuple[float | None, bool]:
        """How long a full list takes, and whether that was measured; else one page tells."""
        if (measured := _measured(streams)) is not None:
            return measured, True
        estimated, seconds = known.listed
        if time.monotonic() - estimated >= LIST_SECONDS:
            await self._pause()
            seconds = await list_estimate(self._apiserver.client, resource, _widest(streams))
            known.listed = time.monotonic(), seconds
        return seconds, False

    def _put_off(self, known: _Subject, failure: Failure, now: float) -> None:
        """Who may not ask, asks seldom; an apiserver that is too busy is asked about nothing else either."""
        known.doubted = None
        known.trouble.happened("history_unknown", failure)
        if failure.action is Action.WAIT:
            known.due = now + REFUSED_SECONDS * (0.5 + self._random())
            return
        wait = known.retries.next(now, failure.retry_after)
        known.due = now + wait
        if failure.reason is Reason.THROTTLED:
            self._not_before = known.due

    def _tell(self, known: _Subject, resource: Resource) -> None:
        """Says when lists begin, or cease, to outlast the history. What nobody knows changes nothing."""
        reading = known.reading
        assert reading is not None
        if reading.fits is not known.short:
            return
        known.short = not reading.fits
        lists = round(reading.list_seconds, 3) if reading.list_seconds is not None else None
        log = self._log.bind(resource=resource.key, list_seconds=lists)
        if known.short:
            log.warning("history_short", seconds=round(reading.seconds.upper, 3))
        else:
            log.info("history_long_enough", seconds=round(reading.seconds.lower, 3), complete=reading.complete)


async def list_estimate(client: Client, resource: Resource, namespace: str | None) -> float | None:
    """Seconds that a full list would take, by its first page; None where that does not tell."""
    request = ListRequest(limit=PAGE_SIZE)
    page = await client.list_page(resource, namespace, Selectors(), request, Representation.TABLE)
    if isinstance(page, Failure):
        return None
    if page.continue_token is None:
        return page.answered - page.sent
    return None if page.remaining is None else estimate_list(page.answered - page.sent, page.remaining)


def _measured(streams: Sequence[Remembered]) -> float | None:
    return max((stream.list_seconds for stream in streams if stream.list_seconds is not None), default=None)


def _may_fit_no_more(known: _Subject, streams: Sequence[Remembered]) -> bool:
    """Whether a list took longer than it was thought to, and nobody has looked since, nor failed to."""
    measured, reading = _measured(streams), known.reading
    if measured is None or reading is None or reading.list_seconds is None:
        return False
    return measured > LONGER * reading.list_seconds and known.doubted is None and not known.trouble.now


def _newest(streams: Sequence[Remembered]) -> int:
    return max(stream.revision or 0 for stream in streams)


def _newest_event(streams: Sequence[Remembered]) -> int | None:
    return max((stream.newest_event for stream in streams if stream.newest_event is not None), default=None)


def _widest(streams: Sequence[Remembered]) -> str | None:
    """The namespace of those that watch one only."""
    namespaces = {stream.namespace for stream in streams}
    return None if None in namespaces else min(namespace for namespace in namespaces if namespace is not None)


def _age(streams: Sequence[Remembered], found: Found) -> Interval:
    """How long ago the oldest revision was committed, by whichever stream's clock tells."""
    for stream in streams:
        if bounds := stream.commit_bounds(found.oldest, found.at):
            return bounds
    return Interval(0.0, math.inf)
