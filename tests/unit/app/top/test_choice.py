from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from tests.unit.app.top.fake_source import VIEW
from watchslo.app.top.choice import BY_CONDITION, BY_NAME, Choice, Link, clock
from watchslo.timeline.condition import Condition

EVENTS, P50, P99, BOUNDS = 1, 2, 3, 4


def names(choice: Choice) -> list[str]:
    shown = (
        replace(line, watch=watch, condition=condition, events=events, quantiles=quantiles if late else {})
        for line in VIEW.lines[:1]
        for watch, condition, events, late in (
            ("a", Condition.WITHIN, 20, 0.2),
            ("b", Condition.LATE, 30, 2.0),
            ("c", Condition.IDLE, 0, None),
            ("d", Condition.LATE, 10, 3.0),
        )
        for quantiles in [{q: changed(one, estimate=late or 0.0) for q, one in line.quantiles.items()}]
    )
    return [line.watch for line in choice.of(list(shown))]


def test_default_order_is_that_of_the_page_with_unknown_conditions_first() -> None:
    shuffled = ["within", "stalled", "idle", "frozen by a newer daemon", "undecided", "closed", "few events", "late"]
    lines = [replace(VIEW.lines[0], watch=condition, condition=condition) for condition in shuffled]
    assert [one.watch for one in Choice().of(lines)] == [
        "frozen by a newer daemon",
        *(str(condition) for condition in Condition if condition in shuffled),
    ]


@pytest.mark.parametrize(
    ("column", "largest_first"),
    [(EVENTS, "badc"), (P50, "dbac"), (P99, "dbac"), (BY_CONDITION, "dbac")],
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


@pytest.mark.parametrize(("wanted", "shown"), [("", "dbac"), ("B", "b"), ("late", "db"), ("idl", "c"), ("x", "")])
def test_filter_matches_names_and_conditions(wanted: str, shown: str) -> None:
    assert "".join(names(Choice().containing(wanted))) == shown


def test_link_keeps_time_of_first_failure() -> None:
    seen = replace(VIEW, at_wall=990.0)
    link = Link().failed("the connection is refused", 1000.0).failed("no answer within 5 s", 1060.0)
    assert link.status(seen, 1061.0) == (
        f"Disconnected since {clock(1000.0)} (61 seconds): no answer within 5 s. Figures are from {clock(990.0)}."
    )
    assert link.status(None, 1001.0) == f"Disconnected since {clock(1000.0)} (1 second): no answer within 5 s."
    assert Link().status(seen, 1061.0) == ""
