"""Lines of informers are read one by one."""

import pytest

from watchslo.informer import page as page_module
from watchslo.informer.page import INFORMER_SERIES, InformerKey, InformerPage, parse_informers
from watchslo.own_metrics.line_filter import LineFilter

LABELS = 'group="",name="kube-controller-manager",resource="pods",version="v1"'
PODS = InformerKey("kube-controller-manager", "", "v1", "pods")
PAGE = f"""# HELP informer_queued_items [ALPHA] Number of items currently queued in the FIFO.
# TYPE informer_queued_items gauge
informer_queued_items{{{LABELS}}} 3
# HELP informer_processing_latency_seconds [ALPHA] Time taken to process events after popping from the queue.
informer_processing_latency_seconds_count{{{LABELS}}} 17
# TYPE informer_store_resource_version gauge
informer_store_resource_version{{{LABELS}}} 1.234567e+06
go_goroutines 12
"""


def parsed(text: str) -> InformerPage:
    kept = LineFilter(INFORMER_SERIES)
    kept.feed(text.encode())
    kept.finish()
    return parse_informers(kept.lines, 100.0, 100.5)


def test_page_has_store_and_queue_of_each_informer() -> None:
    assert parsed(PAGE) == InformerPage(100.0, 100.5, {PODS: 1_234_567}, {PODS: 3})


@pytest.mark.parametrize(
    "line",
    [
        "informer_store_resource_version 5",
        'informer_store_resource_version{name="a"} 5',
        f"informer_store_resource_version{{{LABELS}}}",
        f"informer_store_resource_version{{{LABELS}}} NaN",
        f"informer_store_resource_version{{{LABELS}}} 1.5",
        f"informer_store_resource_version{{{LABELS}}} -1",
        f"informer_store_resource_version{{{LABELS}}} 1e300",
        f'informer_store_resource_version{{resource="{"x" * 254}"}} 5',
        'informer_store_resource_version{resource="é"} 5',
        "informer_store_resource_version{",
    ],
)
def test_odd_line_is_counted_and_costs_no_other(line: str) -> None:
    found = parsed(f"{line}\n{PAGE}")
    assert found.garbled == 1
    assert found.stores == {PODS: 1_234_567}


def test_series_beyond_the_limit_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "MOST_INFORMERS", 2)
    lines = "".join(f'informer_queued_items{{resource="r{number}"}} 1\n' for number in range(5))
    found = parsed(lines)
    assert (len(found.queued), found.left_out) == (2, 3)
