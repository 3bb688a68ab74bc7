import re
from dataclasses import fields
from itertools import product
from pathlib import Path

import pytest

from watchslo.snapshot import OverallVerdict
from watchslo.timeline.verdict import TABLE, Facts, Level, decide, level_of

NAMES = [field.name for field in fields(Facts)]
ALL = [Facts(**dict(zip(NAMES, values, strict=True))) for values in product((False, True), repeat=len(NAMES))]
OUTAGES = {
    *(OverallVerdict.UNRESPONSIVE, OverallVerdict.STORAGE_SILENT),
    *(OverallVerdict.STALLED, OverallVerdict.LATE, OverallVerdict.DOWN),
}


def test_headline_is_green_only_if_nothing_speaks_against_it() -> None:
    """Of all combinations of facts, one is green: some watches are well, and nothing else is known."""
    assert [facts for facts in ALL if decide(facts)[1] is Level.GOOD] == [Facts(well=True)]


def test_headline_is_bad_for_outages_only() -> None:
    for facts in ALL:
        verdict, level = decide(facts)
        closed_for_us_alone = verdict is OverallVerdict.DOWN and not facts.down
        assert (level is Level.BAD) == (verdict in OUTAGES and not closed_for_us_alone), facts
        assert (level is Level.GOOD) == (verdict is OverallVerdict.GOOD), facts


def test_silence_of_an_apiserver_is_its_outage_whatever_else_is_known() -> None:
    for facts in ALL:
        if facts.unresponsive and not facts.paused:
            assert decide(facts)[0] is OverallVerdict.UNRESPONSIVE, facts


def test_stopped_clock_is_our_problem_only_while_this_process_is_late() -> None:
    for facts in ALL:
        if facts.clocks_stopped and not facts.unresponsive and not facts.paused:
            of_storage = OverallVerdict.STORAGE_SILENT if facts.storage_silent else OverallVerdict.CLOCK_STOPPED
            assert decide(facts)[0] is (OverallVerdict.MONITOR_PROBLEM if facts.overloaded else of_storage), facts


@pytest.mark.parametrize("row", TABLE, ids=lambda row: "+".join(row[0]) or "nothing")
def test_each_row_decides_for_its_own_facts(row: tuple[tuple[str, ...], OverallVerdict, Level]) -> None:
    names, verdict, level = row
    assert decide(Facts(**dict.fromkeys(names, True))) == (verdict, level)


def test_each_verdict_has_a_row() -> None:
    assert {verdict for _, verdict, _ in TABLE} == {*OverallVerdict}


def test_documented_table_is_this_one() -> None:
    page = Path(__file__).parents[3] / "docs" / "concepts" / "verdict.md"
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([\w ,]*?) ?\|", page.read_text(), re.MULTILINE)
    documented = [
        (verdict, level, frozenset(re.sub(" ", "_", fact.strip()) for fact in facts.split(",") if fact.strip()))
        for verdict, level, facts in rows
    ]
    assert documented == [(verdict.value, level.value, frozenset(names)) for names, verdict, level in TABLE]


def test_level_of_a_newer_version_is_unknown() -> None:
    assert [level_of(text) for text in ("good", "bad", "splendid")] == [Level.GOOD, Level.BAD, Level.UNKNOWN]
