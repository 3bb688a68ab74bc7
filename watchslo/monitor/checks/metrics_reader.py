"""Reads the metrics that apiservers publish of themselves, every 15 s, in slices."""

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial

import structlog

from watchslo.informer.page import INFORMER_SERIES
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.tasks.failure_log import FailureLog
from watchslo.monitor.tasks.slices import WorkSlices
from watchslo.monitor.tasks.task_supervisor import contain
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.own_metrics.families import LINES
from watchslo.own_metrics.history import PageHistory
from watchslo.own_metrics.line_filter import MOST_KEPT_BYTES, LineFilter
from watchslo.own_metrics.page import MetricsPage, parse_page
from watchslo.snapshot import ApiserverMetricsReading
from watchslo.watch.failure import Action, Failure, Reason, because
from watchslo.watch.missing_right import MissingRight

OF_INFORMERS = tuple(INFORMER_SERIES)
WANTED = frozenset((*LINES, *INFORMER_SERIES))
READ_SECONDS = 15.0
FIRST_SECONDS = 5.0  # within which an apiserver is read first: instances do not all ask at once
LOOK_SECONDS = 1.0
REFUSED_SECONDS = 300.0  # until an apiserver is asked again that refuses
TakeInformers = Callable[[str, Iterable[bytes], float, float], object]
"""Takes the name of an apiserver and what its page says of its informers; when it was asked for, and complete."""
GARBLED = "{} lines of the page of the metrics could not be read, and are left out."
UNKNOWN_PAGE = "The page of the metrics has none of the families that a kube-apiserver has."
LONG_LINES = f"More than {MOST_KEPT_BYTES // 2**20} MiB of the page are of the families that are read."


@dataclass(slots=True)
class _MetricsState:
    """What is known of one apiserver: when it is read next, in monotonic seconds, and its last pages."""

    due: float
    failures: FailureLog
    pages: PageHistory = field(default_factory=PageHistory)
    right: MissingRight = field(default_factory=MissingRight)
    is_reading: bool = False


class MetricsReader:
    """Reads `/metrics` of each of the apiservers; it owns their last pages, and `reading` returns what they show.

    What they say of their own informers is passed to `take_informers`.
    """

    def __init__(
        self,
        apiservers: Callable[[], Iterable[Apiserver]],
        watches: Callable[[], Iterable[MonitoredWatch]],
        take_informers: TakeInformers,
        random: Callable[[], float],
    ) -> None:
        self._take_informers = take_informers
        self._apiservers = apiservers
        self._watches = watches
        self._random = random
        self._states: dict[Apiserver, _MetricsState] = {}
        self._log = structlog.get_logger()

    def reading(self, apiserver: Apiserver) -> ApiserverMetricsReading | None:
        """Return what its metrics show; None if they are not read."""
        state = self._states.get(apiserver)
        if state is None:
            return None
        newest = state.pages.reading(time.monotonic()) or ApiserverMetricsReading()
        known = max(newest.processes, apiserver.peers or 0, 2 * apiserver.mixed)  # one connection reaches one of them
        failure = state.failures.now
        return replace(newest, processes=known, obstacle=failure.message if failure else newest.obstacle)

    async def run(self) -> None:
        """Read until cancelled."""
        try:
            async with asyncio.TaskGroup() as requests:
                while True:
                    await asyncio.sleep(LOOK_SECONDS)
                    self._look(time.monotonic(), requests)
        finally:
            self._states = {}

    def _look(self, now: float, requests: asyncio.TaskGroup) -> None:
        """Forget the apiservers that have left, and read those that are due."""
        known, self._states = self._states, {}
        for apiserver in self._apiservers():
            state = self._states[apiserver] = known.get(apiserver) or self._new_state(apiserver, now)
            if now >= state.due and not state.is_reading:
                state.due, state.is_reading = max(now, state.due + READ_SECONDS), True
                read = partial(self._read, apiserver, state)
                requests.create_task(contain(("metrics_page", apiserver.name), read))

    def _new_state(self, apiserver: Apiserver, now: float) -> _MetricsState:
        return _MetricsState(now + self._random() * FIRST_SECONDS, FailureLog(self._log.bind(apiserver=apiserver.name)))

    async def _read(self, apiserver: Apiserver, state: _MetricsState) -> None:
        try:
            failure = await self._read_page(apiserver, state.pages)
        finally:
            state.is_reading = False
        if failure is None:
            state.failures.resolve()
            state.right.resolve()
            return
        state.failures.record("metrics_page_failed", failure)
        if failure.action is Action.WAIT:
            now = time.monotonic()
            state.due = now + state.right.pause(failure, now, REFUSED_SECONDS)

    async def _read_page(self, apiserver: Apiserver, pages: PageHistory) -> Failure | None:
        """Read a page and keep what it says; return what is wrong with it."""
        kept, slices, began = LineFilter(WANTED), WorkSlices(), time.monotonic()

        async def take(piece: bytes) -> None:
            kept.feed(piece)
            await slices.pause()

        failure = await apiserver.client.read_metrics(take)
        if failure is not None:
            return failure
        kept.finish()
        ended = time.monotonic()
        of_informers = [line for line in kept.lines if line.startswith(OF_INFORMERS)]
        self._take_informers(apiserver.name, of_informers, began, ended)
        lines = [line for line in kept.lines if not line.startswith(OF_INFORMERS)]
        resources = {watch.identity.resource.key for watch in self._watches()}
        page = await slices.run(parse_page(lines, resources, ended, time.time()))
        pages.add(page, kept.size)
        return _flaw(page, kept)


def _flaw(page: MetricsPage, kept: LineFilter) -> Failure | None:
    """Return what is wrong with a page, or None."""
    if kept.is_over:
        message = LONG_LINES
    elif not page.values:
        message = UNKNOWN_PAGE
    elif page.garbled:
        message = GARBLED.format(page.garbled)
    else:
        return None
    return replace(because(Reason.GARBAGE), message=message)
