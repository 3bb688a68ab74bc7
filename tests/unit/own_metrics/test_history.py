"""What changed between two pages of one process."""

from collections.abc import Callable
from dataclasses import fields

import pytest

from tests.conftest import GOLDEN
from tests.support.transcripts import calls, of_states, replay, shown
from tests.unit.own_metrics.pages import STARTED, histogram, page, started
from watchslo.own_metrics.history import PageHistory, figures
from watchslo.snapshot import ApiserverFigures

CPU = "process_cpu_seconds_total"
LISTED = "apiserver_storage_list_returned_objects_total"
FROM_CACHE = "apiserver_cache_list_returned_objects_total"
DISPATCH = "apiserver_watch_events_dispatch_duration_seconds"
ETCD = "etcd_request_duration_seconds"
CACHE_REVISION = "apiserver_watch_cache_resource_version"
RECEIVED = "apiserver_watch_cache_events_received_total"
INFLIGHT = "apiserver_current_inflight_requests"
REJECTED = "apiserver_flowcontrol_rejected_requests_total"
QUEUED = "apiserver_flowcontrol_current_inqueue_requests"


def change(before: str, after: str, seconds: float = 15.0) -> ApiserverFigures:
    found = figures(page(started(), before), page(started(), after, at=100.0 + seconds))
    assert found is not None
    return found


ONE, TWO = ((1, 1, 1, 2), 1.0), ((4, 5, 5, 7), 3.0)
ETCD_BEFORE, ETCD_AFTER, ETCD_ROUNDED = (
    histogram(ETCD, "", counts, total=total) for counts, total in (ONE, TWO, ((2, 2, 2, 3), 0.999))
)
ADVANCED = f'{CACHE_REVISION}{{resource="pods"}} 5\n{CACHE_REVISION}{{resource="deployments.apps"}} 40\n'
CHANGES = {
    "counters are subtracted and gauges are not": (
        f"{CPU} 3\n{REJECTED} 5\n{INFLIGHT} 40\n{QUEUED} 7\n",
        f"{CPU} 33\n{REJECTED} 9\n{INFLIGHT} 4\n{QUEUED} 2\n",
    ),
    "nothing": ("", ""),
    "histograms have the observations in between": (ETCD_BEFORE, ETCD_AFTER),
    "histogram that begins": ("", ETCD_BEFORE),
    "histogram without an observation": (ETCD_BEFORE, ETCD_BEFORE),
    "sum that falls by rounding": (ETCD_BEFORE, ETCD_ROUNDED),
    "objects of lists and initial events are summed": (
        f'{LISTED}{{resource="pods"}} 10\n{FROM_CACHE}{{resource="pods"}} 5\n',
        f'{LISTED}{{resource="pods"}} 30\n{FROM_CACHE}{{resource="pods"}} 9\napiserver_init_events_total 7\n',
    ),
    "in 1.37, two families have the lists from the cache": (
        f'{LISTED}{{storage="etcd"}} 1\n{LISTED}{{storage="watchcache"}} 2\n{FROM_CACHE} 2\n',
        f'{LISTED}{{storage="etcd"}} 2\n{LISTED}{{storage="watchcache"}} 12\n{FROM_CACHE} 12\n',
    ),
    "lists from the cache alone": (f"{FROM_CACHE} 2\n", f"{FROM_CACHE} 5\n"),
    "the advance of a watch cache is counted in its last digits": (
        ADVANCED.replace(" 5\n", " 9.99999999999998e+14\n"),
        ADVANCED,
    ),
    "revision of a watch cache that begins": ("", ADVANCED),
    "figures of each resource": (
        f'{RECEIVED}{{resource="pods"}} 4\n',
        f'{RECEIVED}{{resource="pods"}} 9\n'
        'apiserver_terminated_watchers_total{resource="pods",reason="unresponsive"} 2\n'
        'apiserver_watch_cache_stalled_watchers{resource="deployments.apps"} 1\n'
        + histogram(DISPATCH, 'resource="pods",stage="total"', (1, 2, 3, 4)),
    ),
}


def lines_of(found: object) -> list[str]:
    """Return the fields that are not as by default, one in a line."""
    return [
        f"{field.name}: {shown(value)}"
        for field in fields(found)  # type: ignore[arg-type]
        if (value := getattr(found, field.name)) != field.default and value != {}
    ]


def test_changes_match_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("metrics-changes.txt", of_states({name: lines_of(change(*pages)) for name, pages in CHANGES.items()}))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{CPU} 5\n", f"{CPU} 4\n"),
        (histogram(ETCD, "", (2, 2, 2, 2)), histogram(ETCD, "", (1, 2, 3, 4))),
        (histogram(ETCD, "", (0, 5, 5, 5)), histogram(ETCD, "", (4, 5, 9, 9))),
        (
            histogram(ETCD, "", (2, 2, 2, 2)),
            histogram(ETCD, "", (2, 2, 2, 2), edges=("0.1", "0.2", "0.3")),
        ),
    ],
    ids=["counter fell", "bucket fell", "buckets fell out of order", "other buckets"],
)
def test_pages_of_two_processes_are_never_subtracted(before: str, after: str) -> None:
    newer = page(started(), after, at=115.0)
    assert figures(page(started(), before), newer) is None
    assert figures(page(started(STARTED + 0.01), after), newer) is None
    assert figures(page(after), newer) is None


def test_two_pages_of_one_moment_have_no_figures() -> None:
    assert figures(page(started()), page(started())) is None


class Pages:
    """A history of pages that are read at given times."""

    def __init__(self) -> None:
        self._pages = PageHistory()

    def add(self, at: float, cpu: int, process: float = 0.0) -> None:
        """Read the page of a process that started so many seconds later than the first."""
        self._pages.add(page(started(STARTED + process), f"{CPU} {cpu}\n", at=at), 1000)

    def add_without_start(self, at: float) -> None:
        self._pages.add(page(f"{CPU} 50\n", at=at), 1000)

    def reading(self, at: float) -> str:
        found = self._pages.reading(at)
        if found is None:
            return "none"
        said = [f"{found.processes} processes, {found.size} bytes", found.obstacle or ""]
        for name, change in (("recent", found.recent), ("minute", found.minute)):
            said.append(f"{name}: {change.seconds:g} s, CPU {shown(change.cpu)}" if change else "")
        return "; ".join(filter(None, said))

    def kept(self) -> str:
        """Return when the processes whose pages are kept have started."""
        starts = [start - STARTED for start in self._pages._pages]
        return f"{len(starts)}, from {min(starts):g} to {max(starts):g}"


def test_history_is_what_its_transcripts_say(golden: Callable[[str, str], None]) -> None:
    golden("page-history.txt", replay((GOLDEN / "page-history.txt").read_text(), lambda _: calls(Pages())))
