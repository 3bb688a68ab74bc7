"""The section of a night: its tables, and its place in docs/faults.md."""

from tests.lab import documents, night_section
from tests.lab.expected import ExpectedAlert, OnCall
from tests.lab.figures import Episode, EpisodeFigures, figures
from tests.lab.profiles import ProfileFigures
from tests.lab.statements import AlertsStatement, FiringAlert, Record, Statement

FACTS = {"scrape": 5, "date": "2026-01-02", "versions": "watchslo 1, etcd 2", "minutes": 30.0}
STALLED = FiringAlert("KubeWatchStalled")


def played() -> EpisodeFigures:
    expected = OnCall(frozenset({"down"}), alerts=(ExpectedAlert(frozenset({"KubeWatchStalled"}), 0.0),))
    page = (Statement(99.0, "good"), Statement(112.0, "down", "2 of 3\n| closed"), Statement(207.0, "good"))
    alerts = (
        AlertsStatement(170.0, frozenset({STALLED}), frozenset()),
        AlertsStatement(230.0, frozenset(), frozenset()),
    )
    return figures(Record({"page": page}, alerts), Episode("cut", "nothing passes", expected, 100.0, 200.0, 300.0))


def test_row_has_the_seconds_of_each_reader_and_what_was_wrong() -> None:
    *_, row = night_section.night_table([played()]).splitlines()
    assert row == (
        "| **cut**: nothing passes | 100 s | down; KubeWatchStalled | 12, -, - s / 7, -, - s "
        "| KubeWatchStalled: 70 s / 30 s (inhibited: KubeWatchStalled) | Alertmanager did not raise KubeWatchStalled |"
    )


def test_row_of_a_profile_has_each_verdict_with_its_share() -> None:
    found = ProfileFigures(
        "node",
        2,
        1000,
        {"good": 0.9, "no_data": 0.1},
        {"no_data": "Cannot tell."},
        frozenset({"KubeWatchDown"}),
        frozenset(),
    )
    *_, row = night_section.profiles_table([found]).splitlines()
    assert row == "| node | 2 | 1,000 | 90.0% | no_data 10.0%: Cannot tell. | KubeWatchDown | none |"
    assert list(found.missed()) == ["no_data was said in 10.0% of the healthy time: Cannot tell."]


def test_section_is_replaced_and_can_be_taken_out_again() -> None:
    page = "# Faults\n\ntext\n"
    once = documents.with_night(page, night_section.render([played()], [], FACTS))
    assert documents.night_of(once).count("**cut**") == 1
    assert "every 5 s" in once
    assert "2026-01-02: watchslo 1, etcd 2" in once
    assert documents.with_night(once, "other") == documents.with_night(page, "other")
    assert documents.without_night(once) == page == documents.without_night(page)
    assert documents.night_of(page) == ""


def test_fault_matrix_keeps_the_section_and_does_not_read_it() -> None:
    text = documents.PATH.read_text()
    night = documents.with_night(text, night_section.render([played()], [], FACTS))
    assert documents.promised(night) == documents.promised(text)
    assert documents.night_of(documents.HEAD + documents.night_of(night)) == documents.night_of(night)
