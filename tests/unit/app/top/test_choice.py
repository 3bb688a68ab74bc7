from dataclasses import replace

import pytest

from tests.unit.app.top.told import VIEW
from watchslo.app.top.choice import BY_NAME, BY_VERDICT, Choice, Link, clock
from watchslo.history.judgement import Verdict

EVENTS, P50, P99, BOUNDS = 1, 2, 3, 4


def names(choice: Choice) -> list[str]:
    shown = (
        replace(line, watch=watch, verdict=verdict, events=events, quantiles=quantiles if late else {})
        for line in VIEW.lines[:1]
        for watch, verdict, events, late in (
            ("a", Verdict.WITHIN, 20, 0.2),
            ("b", Verdict.BEYOND, 30, 2.0),
            ("c", Verdict.NOT_MEASURED, 0, None),
            ("d", Verdict.BEYOND, 10, 3.0),
        )
        for quantiles in [{q: replace(one, estimate=late or 0.0) for q, one in line.quantiles.items()}]
    )
    return [line.watch for line in choice.of(list(shown))]


def test_what_brings_no_events_is_worse_than_what_is_well() -> None:
    (line, *_) = VIEW.lines
    lines = [
        replace(line, watch="well", verdict=Verdict.WITHIN),
        replace(line, watch="closed", verdict=Verdict.NOT_MEASURED, up=False),
        replace(line, watch="stalled", verdict=Verdict.WITHIN, stalled_for=40.0),
        replace(line, watch="late", verdict=Verdict.BEYOND),
    ]
    shown = [one.watch for one in Choice().of(lines)]
    assert (shown[0], shown[-1], set(shown[1:3])) == ("late", "well", {"closed", "stalled"})


@pytest.mark.parametrize(
    ("column", "largest_first"),
    [(EVENTS, "badc"), (P50, "dbac"), (P99, "dbac"), (BY_VERDICT, "dbac")],
)
def test_sorting_by_a_column_shows_its_largest_first(column: int, largest_first: str) -> None:
    other = Choice(column=BY_NAME)
    assert "".join(names(other.sorted_by(column))) == largest_first


def test_what_has_nothing_to_sort_by_stands_at_the_end_either_way() -> None:
    upwards = Choice().sorted_by(P99).sorted_by(P99)
    assert names(upwards) == ["a", "b", "d", "c"]
    assert names(Choice().sorted_by(BOUNDS))[-1] == "c"


def test_names_begin_at_a_and_the_same_key_turns_them_round() -> None:
    by_name = Choice().sorted_by(BY_NAME)
    assert names(by_name) == ["a", "b", "c", "d"]
    assert names(by_name.sorted_by(BY_NAME)) == ["d", "c", "b", "a"]


@pytest.mark.parametrize(("wanted", "shown"), [("", "dbac"), ("B", "db"), ("beyond", "db"), ("not m", "c"), ("x", "")])
def test_a_filter_looks_at_names_and_verdicts(wanted: str, shown: str) -> None:
    assert "".join(names(Choice().containing(wanted))) == shown


def test_an_outage_begins_with_its_first_failure() -> None:
    seen = replace(VIEW, at_wall=990.0)
    link = Link().failed("nobody listens there", 1000.0).failed("no answer within 5 s", 1060.0)
    assert link.says(seen, 1061.0) == (
        f"Disconnected since {clock(1000.0)} (61 seconds): no answer within 5 s. What is shown is of {clock(990.0)}."
    )
    assert link.says(None, 1001.0) == f"Disconnected since {clock(1000.0)} (1 second): no answer within 5 s."
    assert Link().says(seen, 1061.0) == ""
