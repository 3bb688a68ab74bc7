"""What changed between two pages of one process."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.conftest import GOLDEN
from tests.support.transcripts import calls, replay, shown
from tests.unit.own_metrics.pages import STARTED, histogram, page, started
from watchslo.own_metrics.history import PageHistory, figures
from watchslo.snapshot import ApiserverFigures, HistogramReading, ResourceFigures

CPU = "process_cpu_seconds_total"
LISTED = "apiserver_storage_list_returned_objects_total"
FROM_CACHE = "apiserver_cache_list_returned_objects_total"
DISPATCH = "apiserver_watch_events_dispatch_duration_seconds"


def change(before: str, after: str, seconds: float = 15.0) -> ApiserverFigures:
    found = figures(page(started(), before), page(started(), after, at=100.0 + seconds))
    assert found is not None
    return found


def test_counters_are_subtracted_and_gauges_are_not() -> None:
    inflight = "apiserver_current_inflight_requests"
    rejected = "apiserver_flowcontrol_rejected_requests_total"
    queued = "apiserver_flowcontrol_current_inqueue_requests"
    found = change(
        f"{CPU} 3\n{rejected} 5\n{inflight} 40\n{queued} 7\n", f"{CPU} 33\n{rejected} 9\n{inflight} 4\n{queued} 2\n"
    )
    assert found == ApiserverFigures(1_700_000_100.0, 15.0, rejected=4, inflight=4, queued=2, cpu=2.0)


def test_page_without_a_figure_says_nothing_of_it() -> None:
    assert change("", "") == ApiserverFigures(1_700_000_100.0, 15.0)


def test_histogram_has_the_observations_in_between() -> None:
    name = "etcd_request_duration_seconds"
    before, after = (
        histogram(name, "", counts, total=total) for counts, total in (((1, 1, 1, 2), 1.0), ((4, 5, 5, 7), 3.0))
    )
    assert change(before, after).etcd == HistogramReading((0.005, 0.1, 1.0), (3, 4, 4, 5), 2.0)
    assert change("", before).etcd == HistogramReading((0.005, 0.1, 1.0), (1, 1, 1, 2), 1.0)
    assert change(before, before).etcd is None


def test_objects_of_lists_and_initial_events_are_summed() -> None:
    before = f'{LISTED}{{resource="pods"}} 10\n{FROM_CACHE}{{resource="pods"}} 5\n'
    after = f'{LISTED}{{resource="pods"}} 30\n{FROM_CACHE}{{resource="pods"}} 9\napiserver_init_events_total 7\n'
    assert change(before, after).listed == 20 + 4 + 7


def test_lists_from_the_cache_count_once_if_two_families_have_them() -> None:
    """As in 1.37."""
    before = f'{LISTED}{{storage="etcd"}} 1\n{LISTED}{{storage="watchcache"}} 2\n{FROM_CACHE} 2\n'
    after = f'{LISTED}{{storage="etcd"}} 2\n{LISTED}{{storage="watchcache"}} 12\n{FROM_CACHE} 12\n'
    assert change(before, after).listed == 11


def test_lists_from_the_cache_alone_are_counted() -> None:
    assert change(f"{FROM_CACHE} 2\n", f"{FROM_CACHE} 5\n").listed == 3


def test_advance_of_a_watch_cache_is_counted_in_its_last_digits() -> None:
    gauge = "apiserver_watch_cache_resource_version"
    before = f'{gauge}{{resource="pods"}} 9.99999999999998e+14\n{gauge}{{resource="deployments.apps"}} 40\n'
    after = f'{gauge}{{resource="pods"}} 5\n{gauge}{{resource="deployments.apps"}} 40\n'
    found = change(before, after).resources
    assert (found["pods"].advanced, found["deployments.apps"].advanced) == (7, 0)
    assert change("", after).resources["pods"].advanced is None


def test_figures_of_each_resource() -> None:
    received = "apiserver_watch_cache_events_received_total"
    before = f'{received}{{resource="pods"}} 4\n'
    after = (
        f'{received}{{resource="pods"}} 9\n'
        'apiserver_terminated_watchers_total{resource="pods",reason="unresponsive"} 2\n'
        'apiserver_watch_cache_stalled_watchers{resource="deployments.apps"} 1\n'
        + histogram(DISPATCH, 'resource="pods",stage="total"', (1, 2, 3, 4))
    )
    assert change(before, after).resources == {
        "deployments.apps": ResourceFigures(parked=1),
        "pods": ResourceFigures(
            received=5, terminated=2, dispatch={"total": HistogramReading((0.005, 0.1, 1.0), (1, 2, 3, 4), 1.5)}
        ),
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{CPU} 5\n", f"{CPU} 4\n"),
        (
            histogram("etcd_request_duration_seconds", "", (2, 2, 2, 2)),
            histogram("etcd_request_duration_seconds", "", (1, 2, 3, 4)),
        ),
        (
            histogram("etcd_request_duration_seconds", "", (0, 5, 5, 5)),
            histogram("etcd_request_duration_seconds", "", (4, 5, 9, 9)),
        ),
        (
            histogram("etcd_request_duration_seconds", "", (2, 2, 2, 2)),
            histogram("etcd_request_duration_seconds", "", (2, 2, 2, 2), edges=("0.1", "0.2", "0.3")),
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


def test_sum_that_falls_by_rounding_is_zero() -> None:
    name = "etcd_request_duration_seconds"
    before, after = (
        page(started(), histogram(name, "", (1, 1, 1, 1), total=1.0)),
        page(started(), histogram(name, "", (2, 2, 2, 2), total=0.999), at=115.0),
    )
    found = figures(before, replace(after))
    assert found is not None
    assert found.etcd is not None
    assert found.etcd.sum == 0.0
