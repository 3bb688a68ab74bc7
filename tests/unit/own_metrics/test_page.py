"""What a page says: summed, by resource and by stage, and without what cannot be read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.own_metrics.pages import STARTED, histogram, page, started
from watchslo.own_metrics import page as module
from watchslo.own_metrics.families import Figure
from watchslo.own_metrics.page import FigureKey
from watchslo.snapshot import HistogramReading

DISPATCH = "apiserver_watch_events_dispatch_duration_seconds"


def test_start_of_the_process_is_read() -> None:
    assert page(started()).started == STARTED
    assert page().started is None


def test_values_of_all_series_are_summed() -> None:
    found = page(
        'apiserver_current_inflight_requests{request_kind="mutating"} 2\n'
        'apiserver_current_inflight_requests{request_kind="readOnly"} 5\n'
    )
    assert found.values == {FigureKey(Figure.INFLIGHT): 7.0}


def test_only_watched_resources_are_kept_and_named_as_kubectl_does() -> None:
    name = "apiserver_watch_cache_events_received_total"
    found = page(
        f'{name}{{group="",resource="pods"}} 4\n{name}{{group="apps",resource="deployments"}} 3\n'
        f'{name}{{group="",resource="nodes"}} 9\n'
    )
    assert found.values == {
        FigureKey(Figure.RECEIVED, "pods"): 4.0,
        FigureKey(Figure.RECEIVED, "deployments.apps"): 3.0,
    }


def test_group_within_the_label_of_the_resource_is_the_same_resource() -> None:
    """As before 1.34."""
    found = page('apiserver_watch_cache_events_received_total{resource="deployments.apps"} 3\n')
    assert found.values == {FigureKey(Figure.RECEIVED, "deployments.apps"): 3.0}


def test_histograms_are_summed_and_lists_do_not_count() -> None:
    name = "etcd_request_duration_seconds"
    found = page(
        histogram(name, 'operation="get",resource="pods"', (1, 2, 3, 4), total=1.0),
        histogram(name, 'operation="update",resource="nodes"', (10, 10, 10, 10), total=0.25),
        histogram(name, 'operation="list",resource="pods"', (0, 0, 0, 9), total=90.0),
    )
    assert found.histograms == {FigureKey(Figure.ETCD): HistogramReading((0.005, 0.1, 1.0), (11, 12, 13, 14), 1.25)}


def test_dispatch_is_kept_by_resource_and_stage() -> None:
    found = page(
        histogram(DISPATCH, 'group="",resource="pods",stage="total"', (1, 2, 3, 4)),
        histogram(DISPATCH, 'group="",resource="pods",stage="storage_to_cache"', (4, 4, 4, 4)),
        histogram(DISPATCH, 'group="",resource="nodes",stage="total"', (4, 4, 4, 4)),
    )
    assert {*found.histograms} == {
        FigureKey(Figure.DISPATCH, "pods", "total"),
        FigureKey(Figure.DISPATCH, "pods", "storage_to_cache"),
    }


def test_division_that_may_be_a_name_is_not_kept() -> None:
    assert not page(histogram(DISPATCH, 'resource="pods",stage="Alice"', (1, 2, 3, 4))).histograms


@pytest.mark.parametrize("value", ["", "NaN", "-1", "+Inf", "1e400", "x", "9007199254740994"])
def test_impossible_value_is_garbled(value: str) -> None:
    found = page(started(), f'apiserver_init_events_total{{resource="pods"}} {value}\n')
    assert found.garbled == 1
    assert FigureKey(Figure.INITIAL_EVENTS) not in found.values


@pytest.mark.parametrize("counts", [(3, 2, 3, 4), (1, 2, 3, 2)])
def test_histogram_that_falls_is_garbled(counts: tuple[int, ...]) -> None:
    found = page(histogram("etcd_request_duration_seconds", 'operation="get"', counts))
    assert not found.histograms
    assert found.garbled == 1


def test_histogram_without_total_is_garbled() -> None:
    found = page('etcd_request_duration_seconds_bucket{operation="get",le="1"} 3\n')
    assert not found.histograms
    assert found.garbled == 1


@pytest.mark.parametrize("labels", ['operation="get"', 'operation="get",le="x"', 'operation="get",le="'])
def test_bucket_without_edge_is_garbled(labels: str) -> None:
    found = page(f"etcd_request_duration_seconds_bucket{{{labels}}} 3\n")
    assert found.garbled == 1


def test_histogram_with_more_edges_than_any_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_EDGES", 2)
    found = page(histogram("etcd_request_duration_seconds", "", (1, 2, 3, 4)))
    assert not found.histograms
    assert found.garbled


def test_pauses_are_between_few_lines() -> None:
    lines = [b"process_cpu_seconds_total 1"] * (3 * module.LINES_IN_STEP + 1)
    work = module.parse_page(lines, (), 0.0, 0.0)
    assert len([*work]) == 3


def test_braces_and_quotes_within_a_label_are_part_of_it() -> None:
    found = page('apiserver_watch_cache_events_received_total{other="}\\" 7,{",resource="pods"} 4\n')
    assert found.values == {FigureKey(Figure.RECEIVED, "pods"): 4.0}


def test_value_is_followed_by_a_timestamp() -> None:
    assert page("process_cpu_seconds_total 3.5 1700000000000\n").values == {FigureKey(Figure.CPU): 3.5}


def test_more_series_than_any_apiserver_has_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SERIES", 1)
    found = page("process_cpu_seconds_total 3.5\n", started(), 'apiserver_init_events_total{resource="pods"} 1\n')
    assert len(found.values) == 2
    assert found.garbled == 1


NAMES = ("process_cpu_seconds_total", "etcd_request_duration_seconds_bucket", DISPATCH + "_bucket", DISPATCH + "_sum")


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.text(max_size=40))))
def test_any_text_is_read_without_an_error(lines: list[tuple[str, str]]) -> None:
    page("".join(f"{name}{rest}\n" for name, rest in lines), "".join(f"{name}{{{rest}}} 1\n" for name, rest in lines))
