"""What a page says: summed, by resource and by stage, and without what cannot be read."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.transcripts import of_states, shown
from tests.unit.own_metrics.pages import STARTED, histogram, page, started
from watchslo.own_metrics import page as module

DISPATCH = "apiserver_watch_events_dispatch_duration_seconds"


ETCD = "etcd_request_duration_seconds"
RECEIVED = "apiserver_watch_cache_events_received_total"
INFLIGHT = "apiserver_current_inflight_requests"
PAGES = {
    "nothing": "",
    "start of the process": started(),
    "series are summed": f'{INFLIGHT}{{request_kind="mutating"}} 2\n{INFLIGHT}{{request_kind="readOnly"}} 5\n',
    "only watched resources are kept, and named as kubectl does": (
        f'{RECEIVED}{{group="",resource="pods"}} 4\n{RECEIVED}{{group="apps",resource="deployments"}} 3\n'
        f'{RECEIVED}{{group="",resource="nodes"}} 9\n'
    ),
    "before 1.34, the group is within the label of the resource": f'{RECEIVED}{{resource="deployments.apps"}} 3\n',
    "histograms are summed, and lists do not count": (
        histogram(ETCD, 'operation="get",resource="pods"', (1, 2, 3, 4), total=1.0)
        + histogram(ETCD, 'operation="update",resource="nodes"', (10, 10, 10, 10), total=0.25)
        + histogram(ETCD, 'operation="list",resource="pods"', (0, 0, 0, 9), total=90.0)
    ),
    "dispatch is kept by resource and stage": (
        histogram(DISPATCH, 'group="",resource="pods",stage="total"', (1, 2, 3, 4))
        + histogram(DISPATCH, 'group="",resource="pods",stage="storage_to_cache"', (4, 4, 4, 4))
        + histogram(DISPATCH, 'group="",resource="nodes",stage="total"', (4, 4, 4, 4))
    ),
    "a stage that may be a name is not kept": histogram(DISPATCH, 'resource="pods",stage="Alice"', (1, 2, 3, 4)),
    **{
        f"value {value!r}": f'apiserver_init_events_total{{resource="pods"}} {value}\n'
        for value in ("", "NaN", "-1", "+Inf", "1e400", "x", "9007199254740994")
    },
    **{
        f"histogram with the counts {counts}": histogram(ETCD, 'operation="get"', counts)
        for counts in ((3, 2, 3, 4), (1, 2, 3, 2))
    },
    **{
        f"bucket without a total, with the labels {labels}": f"{ETCD}_bucket{{{labels}}} 3\n"
        for labels in ('operation="get",le="1"', 'operation="get"', 'operation="get",le="x"', 'operation="get",le="')
    },
    "braces and quotes are part of a label": f'{RECEIVED}{{other="}}\\" 7,{{",resource="pods"}} 4\n',
    "a timestamp follows the value": "process_cpu_seconds_total 3.5 1700000000000\n",
}


def test_pages_match_golden_file(golden: Callable[[str, str], None]) -> None:
    pages = {name: page(text) for name, text in PAGES.items()}
    found = {
        name: [
            *(f"{' '.join(filter(None, key))}: {shown(value)}" for key, value in read.values.items()),
            *(f"{' '.join(filter(None, key))}: {shown(value)}" for key, value in read.histograms.items()),
            *([f"garbled lines: {read.garbled}"] if read.garbled else []),
        ]
        for name, read in pages.items()
    }
    golden("metrics-pages.txt", of_states(found))
    assert (pages["start of the process"].started, pages["nothing"].started) == (STARTED, None)


def test_histogram_with_more_edges_than_any_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_EDGES", 2)
    found = page(histogram("etcd_request_duration_seconds", "", (1, 2, 3, 4)))
    assert not found.histograms
    assert found.garbled


def test_pauses_are_between_few_lines() -> None:
    lines = [b"process_cpu_seconds_total 1"] * (3 * module.LINES_IN_STEP + 1)
    work = module.parse_page(lines, (), 0.0, 0.0)
    assert len([*work]) == 3


def test_more_series_than_any_apiserver_has_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SERIES", 1)
    found = page("process_cpu_seconds_total 3.5\n", started(), 'apiserver_init_events_total{resource="pods"} 1\n')
    assert len(found.values) == 2
    assert found.garbled == 1


NAMES = ("process_cpu_seconds_total", "etcd_request_duration_seconds_bucket", DISPATCH + "_bucket", DISPATCH + "_sum")


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.text(max_size=40))))
def test_any_text_is_read_without_an_error(lines: list[tuple[str, str]]) -> None:
    page("".join(f"{name}{rest}\n" for name, rest in lines), "".join(f"{name}{{{rest}}} 1\n" for name, rest in lines))
