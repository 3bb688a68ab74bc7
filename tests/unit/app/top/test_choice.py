from dataclasses import replace

import pytest

from tests.unit.app.top.fake_source import VIEW
from watchslo.app.top.choice import BY_NAME, BY_VERDICT, Choice, Link, clock
from watchslo.timeline.condition import WatchVerdict

EVENTS, P50, P99, BOUNDS = 1, 2, 3, 4


def names(choice: Choice) -> list[str]:
    shown = (
        replace(line, watch=watch, verdict=verdict, events=events, quantiles=quantiles if late else {})
        for line in VIEW.lines[:1]
        for watch, verdict, events, late in (
            ("a", WatchVerdict.WITHIN, 20, 0.2),
            ("b", WatchVerdict.BEYOND, 30, 2.0),
            ("c", WatchVerdict.NOT_MEASURED, 0, None),
            ("d", WatchVerdict.BEYOND, 10, 3.0),
        )
        for quantiles in [{q: replace(one, estimate=late or 0.0) for q, one in line.quantiles.items()}]
    )
    return [line.watch for line in choice.of(list(shown))]


def test_default_order_shows_closed_and_stalled_before_healthy() -> None:
    line = replace(VIEW.lines[0], up=True, stalled_for=None)
    lines = [
        replace(line, watch="healthy", verdict=WatchVerdict.WITHIN),
        replace(line, watch="closed", verdict=WatchVerdict.NOT_MEASURED, up=False),
        replace(line, watch="stalled", verdict=WatchVerdict.WITHIN, stalled_for=40.0),
        replace(line, watch="late", verdict=WatchVerdict.BEYOND),
        replace(line, watch="few", verdict=WatchVerdict.FEW_EVENTS),
        replace(line, watch="undecided", verdict=WatchVerdict.UNDECIDED),
    ]
    shown = [one.watch for one in Choice().of(lines)]
    assert (shown[0], set(shown[1:3])) == ("late", {"closed", "stalled"})
    assert shown[3:] == ["undecided", "few", "healthy"]


@pytest.mark.parametrize(
    ("column", "largest_first"),
    [(EVENTS, "badc"), (P50, "dbac"), (P99, "dbac"), (BY_VERDICT, "dbac")],
)
def test_sort_by_column_shows_largest_first(column: int, largest_first: str) -> None:
    other = Choice(column=BY_NAME)
    assert "".join(names(other.sorted_by(column))) == largest_first


def test_lines_without_sort_key_come_last_in_both_orders() -> None:
    upwards = Choice().sorted_by(P99).sorted_by(P99)
    assert names(upwards) == ["a", "b", "d", "c"]
    assert names(Choice().sorted_by(BOUNDS))[-1] == "c"


def test_names_sort_from_a_and_same_column_reverses() -> None:
    by_name = Choice().sorted_by(BY_NAME)
    assert names(by_name) == ["a", "b", "c", "d"]
    assert names(by_name.sorted_by(BY_NAME)) == ["d", "c", "b", "a"]


@pytest.mark.parametrize(("wanted", "shown"), [("", "dbac"), ("B", "db"), ("beyond", "db"), ("not m", "c"), ("x", "")])
def test_filter_matches_names_and_verdicts(wanted: str, shown: str) -> None:
    assert "".join(names(Choice().containing(wanted))) == shown


def test_link_keeps_time_of_first_failure() -> None:
    seen = replace(VIEW, at_wall=990.0)
    link = Link().failed("the connection is refused", 1000.0).failed("no answer within 5 s", 1060.0)
    assert link.status(seen, 1061.0) == (
        f"Disconnected since {clock(1000.0)} (61 seconds): no answer within 5 s. Figures are from {clock(990.0)}."
    )
    assert link.status(None, 1001.0) == f"Disconnected since {clock(1000.0)} (1 second): no answer within 5 s."
    assert Link().status(seen, 1061.0) == ""
