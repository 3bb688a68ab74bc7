"""What is printed about several clusters."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.serve import readings
from watchslo.api.status import QuantileStatus
from watchslo.app.fleet import FleetRow, draw_fleet, worst_first, worst_level
from watchslo.app.table import plain_console
from watchslo.app.terminal import Line, view_of
from watchslo.timeline.condition import Condition
from watchslo.timeline.verdict import Level

LINE = next(iter(view_of(readings.SNAPSHOT).lines))


def line(name: str, p99: float | None, condition: str = Condition.WITHIN, **other: Any) -> Line:
    figure = QuantileStatus(q=0.99, lower=0.0, estimate=p99, upper=2.0, resolved=True, resolution=0.001, rough=False)
    given: dict[str, Any] = {"quantile": 0.99, "threshold": 1.0, "quantiles": {0.99: figure}} | other
    return replace(LINE, watch=name, apiserver="service", condition=condition, **given)


def row(context: str, level: Level = Level.GOOD, *lines: Line) -> FleetRow:
    return FleetRow(context, level, lines, None)


@pytest.mark.parametrize(
    ("worst", "others"),
    [
        (line("slow", 0.5), [line("fast", 0.1)]),
        (line("endless", None), [line("slow", 0.9)]),
        (line("of-a-low-threshold", 0.1, threshold=0.2), [line("slow", 0.4)]),
        (line("late", 1.5, Condition.LATE), [line("undecided", 1.6, Condition.UNDECIDED)]),
        (line("stalled", 0.1, Condition.STALLED), [line("late", 1.5, Condition.LATE)]),
        (line("closed", None, Condition.CLOSED, quantiles={}), [line("slow", 0.9)]),
        (line("fast", 0.1), [line("idle", None, Condition.IDLE, quantiles={}), line("of-a-newer", 0.01, "asleep")]),
    ],
)
def test_worst_watch_is_in_a_bad_condition_or_nearest_to_its_threshold(worst: Line, others: list[Line]) -> None:
    assert row("a", Level.GOOD, *others, worst).worst == worst


def test_cluster_without_watches_has_no_worst() -> None:
    assert row("a").worst is None


def test_bad_is_worse_than_unknown_and_unknown_than_good() -> None:
    rows = [row("d"), row("c", Level.UNKNOWN), row("b", Level.BAD), row("a")]
    assert [each.context for each in worst_first(rows)] == ["b", "c", "a", "d"]
    assert [worst_level(rows[:count]) for count in (1, 2, 3)] == [Level.GOOD, Level.UNKNOWN, Level.BAD]


def test_table_names_the_quantile_and_hides_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row("prod\x1b[2J", Level.GOOD, line("pods", 0.25)), row("gone", Level.UNKNOWN)]
    plain_console().print(draw_fleet(rows))
    head, *shown = capsys.readouterr().out.splitlines()
    assert head.split() == ["CLUSTER", "VERDICT", "WORST", "WATCH", "P99", "BOUNDS"]
    assert [text.split() for text in shown] == [
        ["prod?[2J", "good", "pods", "250", "ms", "proven", "0", "ms", "to", "2", "s"],
        ["gone", "unknown", *"–––"],  # noqa: RUF001 - what stands for an absent figure
    ]
