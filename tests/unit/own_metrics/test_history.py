"""What changed between two pages of one process."""

from dataclasses import replace

import pytest

from tests.unit.own_metrics.pages import STARTED, histogram, page, started
from watchslo.own_metrics import history
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


class TestPageHistory:
    def test_reading_is_none_before_the_first_page(self) -> None:
        assert PageHistory().reading(100.0) is None

    def test_one_page_has_no_figures(self) -> None:
        pages = PageHistory()
        pages.add(page(started()), 1000)
        found = pages.reading(101.0)
        assert found is not None
        assert (found.processes, found.size, found.recent, found.minute) == (1, 1000, None, None)

    def test_recent_is_since_the_page_before_and_minute_since_a_minute(self) -> None:
        pages = PageHistory()
        for number in range(8):
            pages.add(page(started(), f"{CPU} {number}\n", at=100.0 + 15 * number), 1000)
        found = pages.reading(210.0)
        assert found is not None
        assert found.recent is not None
        assert found.minute is not None
        assert (found.recent.seconds, found.minute.seconds) == (15.0, 60.0)

    def test_old_figures_are_not_shown(self) -> None:
        pages = PageHistory()
        pages.add(page(started()), 1000)
        assert pages.reading(100.0 + history.STALE_SECONDS) is not None
        assert pages.reading(101.0 + history.STALE_SECONDS) is None

    def test_processes_behind_one_address_are_not_mixed(self) -> None:
        pages = PageHistory()
        for number in range(4):
            first = number % 2 == 0
            text = f"{CPU} {number if first else 1000 + number}\n"
            pages.add(page(started(STARTED + first), text, at=100.0 + 15 * number), 1000)
        found = pages.reading(150.0)
        assert found is not None
        assert found.recent is not None
        assert (found.processes, found.recent.seconds) == (2, 30.0)
        assert found.recent.cpu == pytest.approx(2 / 30)

    def test_restarted_process_begins_again(self) -> None:
        pages = PageHistory()
        pages.add(page(started(), f"{CPU} 50\n"), 1000)
        pages.add(page(started(STARTED + 9), f"{CPU} 1\n", at=115.0), 1000)
        found = pages.reading(116.0)
        assert found is not None
        assert (found.processes, found.recent) == (2, None)
        for at in (130.0, 145.0, 160.0, 175.0):
            pages.add(page(started(STARTED + 9), f"{CPU} 1\n", at=at), 1000)
        found = pages.reading(176.0)
        assert found is not None
        assert found.processes == 1

    def test_page_without_start_is_an_obstacle(self) -> None:
        pages = PageHistory()
        pages.add(page(f"{CPU} 50\n"), 1000)
        found = pages.reading(101.0)
        assert found is not None
        assert found.obstacle == history.NO_START

    def test_only_few_processes_are_kept(self) -> None:
        pages = PageHistory()
        for number in range(30):
            pages.add(page(started(STARTED + number), at=100.0 + number), 1000)
        assert len(pages._pages) == history.MOST_PROCESSES
        assert STARTED + 29 in pages._pages


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
