"""Probes the headroom of busy resources: how far back a watch may begin before 410, and whether a list takes longer.

Each resource is probed every few minutes at random times, because a short headroom stays short for a while.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import structlog

from watchslo.kube.call import Page, Selectors
from watchslo.kube.client import Client
from watchslo.kube.representation import Representation
from watchslo.model import Interval, Resource
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.apiservers.oldest_revision import Found, find_oldest, try_revision
from watchslo.monitor.tasks.failure_log import FailureLog
from watchslo.monitor.tasks.slices import WorkSlices
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.snapshot import HeadroomReading
from watchslo.watch.backoff import Backoff
from watchslo.watch.failure import Action, Failure, Reason
from watchslo.watch.headroom import Accepted, estimate_list
from watchslo.watch.messages import ListRequest
from watchslo.watch.missing_right import MissingRight
from watchslo.watch.strategy import PAGE_SIZE

BUSY_EVENTS = 1.0  # per second; of resources with fewer events a cache holds at least 100 s
LOOK_SECONDS = 2.0  # between two checks which resource is due
FIRST_SECONDS = 25.0  # within which a resource that has become busy is probed first
INTERVAL_SECONDS = 180.0, 300.0
SHORT_INTERVAL_SECONDS = 15.0, 25.0  # while lists do not fit, so that the end of that is seen soon
LONGER = 1.1  # times the expected duration of a list: the headroom is then probed at once
CONFIRM_SECONDS = 10.0  # within which a busy resource drops its oldest event, if it drops any
REFUSED_SECONDS = 3600.0  # until a resource that may not be watched, or does not exist, is tried again
RETRY_BASE_SECONDS = 60.0
RETRY_CAP_SECONDS = 1800.0
RETRY_RESET_SECONDS = 600.0
LIST_SECONDS = 600.0  # for so long an estimate of the list duration is used
KEPT_SECONDS = 900.0  # a reading older than this is not shown


@dataclass(slots=True)
class _ResourceState:
    """What is known of one resource.

    `due` is when it is probed next. `doubted` is the oldest revision of a headroom that seems too short, until it is
    known whether the cache really drops events or is merely young. `event` was the newest event at the last probe: a
    cache to which nothing is added drops nothing. `read` is when the reading was made; `listed` is when a list was last
    estimated, and its seconds.
    """

    due: float
    failures: FailureLog
    retries: Backoff
    right: MissingRight = field(default_factory=MissingRight)
    reading: HeadroomReading | None = None
    read: float = -math.inf
    doubted: int | None = None
    event: int | None = None
    short: bool = False
    listed: tuple[float, float | None] = field(default=(-math.inf, None))


class HeadroomProber:
    """Probes the headroom of the resources of one apiserver, one request after the other.

    It owns what it finds of each resource; `headroom` returns that. `budget` returns how many requests it may send per
    second; 0 turns probes off.
    """

    def __init__(
        self,
        watches: Callable[[], Iterable[MonitoredWatch]],
        apiserver: Apiserver,
        budget: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self._watches = watches
        self._apiserver = apiserver
        self._budget = budget
        self._random = random
        self._states: dict[Resource, _ResourceState] = {}
        self._not_before = -math.inf  # the apiserver asked for no requests until then
        self._asked = -math.inf
        self._log = structlog.get_logger().bind(apiserver=apiserver.name)

    def headroom(self, resource: Resource) -> HeadroomReading | None:
        """Return the headroom of a resource; None if it is unknown or its reading is too old."""
        known = self._states.get(resource)
        return known.reading if known and time.monotonic() - known.read < KEPT_SECONDS else None

    async def run(self) -> None:
        """Probe until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS * (0.5 + self._random()))
            groups = self._groups()
            self._states = {resource: known for resource, known in self._states.items() if resource in groups}
            if self._budget() and (resource := await self._next(groups)):
                await self._examine(resource, groups[resource])

    # Which resource is next

    def _groups(self) -> dict[Resource, list[MonitoredWatch]]:
        """Return the watches by resource: those of one resource share a cache and its headroom."""
        groups: dict[Resource, list[MonitoredWatch]] = {}
        for watch in self._watches():
            if watch.identity.cached:
                groups.setdefault(watch.identity.resource, []).append(watch)
        return groups

    async def _next(self, groups: dict[Resource, list[MonitoredWatch]]) -> Resource | None:
        """Return the busy resource that has been due for the longest time; they are looked at in slices."""
        now, slices, due = time.monotonic(), WorkSlices(), list[Resource]()
        if now < self._not_before:
            return None
        for resource, watches in groups.items():
            if self._is_busy(resource, watches):
                if resource not in self._states:
                    self._states[resource] = self._new_state(resource, now)
                elif _may_not_fit(self._states[resource], watches):
                    self._states[resource].due = now
                if self._states[resource].due <= now:
                    due.append(resource)
            await slices.pause()
        return min(due, key=lambda resource: self._states[resource].due, default=None)

    def _is_busy(self, resource: Resource, watches: Sequence[MonitoredWatch]) -> bool:
        """Return True also if the headroom was reported as short: it is probed until that is over."""
        known = self._states.get(resource)
        open_ones = [watch for watch in watches if watch.session.up and watch.session.revision is not None]
        is_busy = any(watch.statistics.event_rate >= BUSY_EVENTS for watch in open_ones)
        return is_busy or bool(open_ones and known and known.short)

    def _new_state(self, resource: Resource, now: float) -> _ResourceState:
        return _ResourceState(
            due=now + FIRST_SECONDS * self._random(),
            failures=FailureLog(self._log.bind(resource=resource.key)),
            retries=Backoff(self._random, RETRY_BASE_SECONDS, RETRY_CAP_SECONDS, RETRY_RESET_SECONDS),
        )

    # One probe

    async def _examine(self, resource: Resource, watches: Sequence[MonitoredWatch]) -> None:
        known = self._states[resource]
        found = await self._ask(known, resource, watches)
        now = time.monotonic()
        if isinstance(found, Failure):
            self._put_off(known, found, now)
            return
        known.failures.resolve()
        known.right.resolve()
        seconds, measured = await self._list_seconds(known, resource, watches)
        reading = HeadroomReading(
            oldest=found.oldest,
            revisions=found.revisions,
            seconds=_age(watches, found),
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
        self._log_change(known, resource)

    async def _ask(
        self, known: _ResourceState, resource: Resource, watches: Sequence[MonitoredWatch]
    ) -> Found | Failure:
        """Return the oldest revision; a doubted headroom is complete if it still begins at the same revision."""
        namespace, client = watches[0].identity.probed_in, self._apiserver.client
        still_there = False
        if known.doubted is not None:
            await self._pause()
            outcome = await try_revision(client, resource, namespace, known.doubted)
            if isinstance(outcome, Failure):
                return outcome
            still_there = outcome == Accepted()
        found = await find_oldest(client, resource, namespace, lambda: _newest(watches), self._pause)
        if isinstance(found, Failure):
            return found
        unmoved = known.reading is not None and known.reading.oldest == found.oldest
        before, known.event = known.event, _newest_event(watches)
        keeps_all = (still_there or unmoved) and known.event != before
        return Found(found.oldest, found.revisions, found.at, found.complete or keeps_all)

    async def _pause(self) -> None:
        """Wait until the budget allows one more request."""
        while not (budget := self._budget()):  # noqa: ASYNC110 - a reload changes it without an event
            await asyncio.sleep(LOOK_SECONDS)
        await asyncio.sleep(self._asked + 1.0 / budget - time.monotonic())
        self._asked = time.monotonic()

    async def _list_seconds(
        self, known: _ResourceState, resource: Resource, watches: Sequence[MonitoredWatch]
    ) -> tuple[float | None, bool]:
        """Return how long a full list takes and whether that was measured; else it is estimated by one page."""
        if (measured := _measured(watches)) is not None:
            return measured, True
        estimated, seconds = known.listed
        if time.monotonic() - estimated >= LIST_SECONDS:
            await self._pause()
            seconds = await list_estimate(
                self._apiserver.client, resource, _widest(watches), watches[0].statistics.observe_list
            )
            known.listed = time.monotonic(), seconds
        return seconds, False

    def _put_off(self, known: _ResourceState, failure: Failure, now: float) -> None:
        """Try again later; after a 429 the apiserver gets no probes of other resources either."""
        known.doubted = None
        known.failures.record("headroom_unknown", failure)
        if failure.action is Action.WAIT:
            known.due = now + known.right.pause(failure, now, REFUSED_SECONDS) * (0.5 + self._random())
            return
        wait = known.retries.next(now, failure.retry_after)
        known.due = now + wait
        if failure.reason is Reason.THROTTLED:
            self._not_before = known.due

    def _log_change(self, known: _ResourceState, resource: Resource) -> None:
        """Log when lists begin, or cease, to take longer than the headroom; an unknown result changes nothing."""
        reading = known.reading
        assert reading is not None
        if reading.fits is not known.short:
            return
        known.short = not reading.fits
        lists = round(reading.list_seconds, 3) if reading.list_seconds is not None else None
        log = self._log.bind(resource=resource.key, list_seconds=lists)
        if known.short:
            log.warning("headroom_short", seconds=round(reading.seconds.upper, 3))
        else:
            log.info("headroom_long_enough", seconds=round(reading.seconds.lower, 3), complete=reading.complete)


async def list_estimate(
    client: Client, resource: Resource, namespace: str | None, listed: Callable[[Page], object]
) -> float | None:
    """Return the estimated seconds of a full list, by its first page; None if the page does not show it.

    `listed` gets the page.
    """
    request = ListRequest(limit=PAGE_SIZE)
    page = await client.list_page(resource, namespace, Selectors(), request, Representation.TABLE)
    if isinstance(page, Failure):
        return None
    listed(page)
    if page.continue_token is None:
        return page.answered - page.sent
    return None if page.remaining is None else estimate_list(page.answered - page.sent, page.remaining)


def _measured(watches: Sequence[MonitoredWatch]) -> float | None:
    lists = (watch.session.list_seconds for watch in watches)
    return max((seconds for seconds in lists if seconds is not None), default=None)


def _may_not_fit(known: _ResourceState, watches: Sequence[MonitoredWatch]) -> bool:
    """Return True if a list took longer than expected, and no probe has been made or has failed since."""
    measured, reading = _measured(watches), known.reading
    if measured is None or reading is None or reading.list_seconds is None:
        return False
    return measured > LONGER * reading.list_seconds and known.doubted is None and not known.failures.now


def _newest(watches: Sequence[MonitoredWatch]) -> int:
    return max(watch.session.revision or 0 for watch in watches)


def _newest_event(watches: Sequence[MonitoredWatch]) -> int | None:
    events = (watch.session.newest_event for watch in watches)
    return max((revision for revision in events if revision is not None), default=None)


def _widest(watches: Sequence[MonitoredWatch]) -> str | None:
    """Return the namespace to list in: None for all namespaces if one of the watches covers all."""
    namespaces = {watch.identity.namespace for watch in watches}
    return None if None in namespaces else min(namespace for namespace in namespaces if namespace is not None)


def _age(watches: Sequence[MonitoredWatch], found: Found) -> Interval:
    """Return how long ago the oldest revision was committed, by the first clock that dates it."""
    for watch in watches:
        if bounds := watch.statistics.commit_bounds(found.oldest, found.at):
            return bounds
    return Interval(0.0, math.inf)
