"""The section of a night: its tables, and its place in docs/faults.md."""

import contextlib

from tests.lab import documents
from tests.night import section, tables
from tests.night.faults import NightFault
from tests.night.figures import Episode, Expectation, ExpectedAlert, figures
from tests.night.profiles import ProfileFigures
from tests.night.script import Played
from tests.night.statements import AlertsStatement, FiringAlert, Record, Statement

FACTS = {"scrape": 5, "date": "2026-01-02", "versions": "watchslo 1, etcd 2", "minutes": 30.0}
STALLED = FiringAlert("WatchStalled")


def played() -> Played:
    expected = Expectation(frozenset({"down"}), (ExpectedAlert(frozenset({"WatchStalled"}), 0.0),))
    fault = NightFault("cut", "nothing passes", lambda _: contextlib.nullcontext(frozenset()), 100.0, expected)
    page = (Statement(99.0, "good"), Statement(112.0, "down", "2 of 3\n| closed"), Statement(207.0, "good"))
    alerts = (
        AlertsStatement(170.0, frozenset({STALLED}), frozenset()),
        AlertsStatement(230.0, frozenset(), frozenset()),
    )
    return Played(fault, figures(Record({"page": page}, alerts), Episode("cut", expected, 100.0, 200.0, 300.0)))


def test_row_has_the_seconds_of_each_reader_and_what_was_wrong() -> None:
    *_, row = tables.table([played()]).splitlines()
    assert row == (
        "| **cut**: nothing passes | 100 s | down; WatchStalled | 12 s / 7 s | - | - | WatchStalled: 70 s / 30 s "
        "| none | 2 of 3 \\| closed | Alertmanager did not raise WatchStalled |"
    )


def test_row_of_a_profile_has_each_verdict_with_its_share() -> None:
    found = ProfileFigures(
        "node",
        2,
        1000,
        {"good": 0.9, "no_data": 0.1},
        {"no_data": "Cannot tell."},
        frozenset({"WatchDown"}),
        frozenset(),
    )
    *_, row = tables.profiles_table([found]).splitlines()
    assert row == "| node | 2 | 1,000 | 90.0% | no_data 10.0%: Cannot tell. | WatchDown | none |"
    assert list(found.missed()) == ["no_data was said in 10.0% of the healthy time: Cannot tell."]


def test_section_is_replaced_and_can_be_taken_out_again() -> None:
    page = "# Faults\n\ntext\n"
    once = section.placed(page, tables.render([played()], [], FACTS))
    assert section.of(once).count("**cut**") == 1
    assert "every 5 s" in once
    assert "2026-01-02: watchslo 1, etcd 2" in once
    assert section.placed(once, "other") == section.placed(page, "other")
    assert section.without(once) == page == section.without(page)
    assert section.of(page) == ""


def test_fault_matrix_keeps_the_section_and_does_not_read_it() -> None:
    text = documents.PATH.read_text()
    night = section.placed(text, tables.render([played()], [], FACTS))
    assert documents.promised(night) == documents.promised(text)
    assert section.of(documents.HEAD + section.of(night)) == section.of(night)
