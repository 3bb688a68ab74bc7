"""The figures of a night, from statements that are made up."""

from math import inf

import pytest

from tests.lab.expected import ExpectedAlert, OnCall
from tests.lab.figures import (
    AlertFigures,
    Episode,
    VerdictFigures,
    alert_figures,
    figures,
    required,
    shares,
    verdict_figures,
)
from tests.lab.statements import DISTRUSTED, NO_ANSWER, AlertsStatement, FiringAlert, Record, Statement

STALLED = FiringAlert("WatchStalled", "a:1")
ELSEWHERE = FiringAlert("WatchStalled", "b:1")
BURN = FiringAlert("WatchLatencyBudgetBurn", "a:1")
ABSENT = FiringAlert("WatchsloAbsent")
EXPECTED = OnCall(
    frozenset({"down", "stalled"}),
    0.0,
    "",
    (ExpectedAlert(frozenset({"WatchStalled", "WatchDown"}), 60.0), ExpectedAlert(frozenset({"WatchsloAbsent"}), inf)),
    frozenset({"WatchLatencyBudgetBurn"}),
)


def episode(began: float = 100.0, ended: float = 200.0, until: float = 300.0, **keys: object) -> Episode:
    return Episode("made up", "", keys.get("expected", EXPECTED), began, ended, until, frozenset({"a:1"}))  # type: ignore[arg-type]


def said(*statements: tuple[float, str]) -> list[Statement]:
    return [Statement(at, word, f"{word} at {at:g}") for at, word in statements]


def test_verdict_that_is_right_in_time_has_no_other_figures() -> None:
    shown = said((99.0, "good"), (105.0, "good"), (112.0, "down"), (190.0, "stalled"), (209.0, "good"), (290.0, "good"))
    assert verdict_figures(shown, episode()) == VerdictFigures("good", 12.0, "down at 112", 9.0)


def test_verdict_that_never_changes_is_neither_right_nor_over() -> None:
    shown = said((99.0, "good"), (110.0, "good"), (205.0, "good"))
    assert verdict_figures(shown, episode()) == VerdictFigures("good", None, "", 5.0, good_seconds=70.0)


def test_good_after_the_right_verdict_is_a_false_recovery_even_within_thirty_seconds() -> None:
    shown = said((99.0, "good"), (105.0, "down"), (110.0, "good"), (118.0, "down"), (201.0, "good"))
    assert verdict_figures(shown, episode()).good_seconds == 8.0


def test_good_is_counted_from_thirty_seconds_after_the_beginning() -> None:
    shown = said((99.0, "good"), (101.0, "good"), (140.0, "down"), (201.0, "good"))
    assert verdict_figures(shown, episode()).good_seconds == 10.0


def test_good_is_no_fault_where_it_is_right() -> None:
    expected = OnCall(frozenset({"good"}))
    shown = said((99.0, "good"), (101.0, "good"), (201.0, "good"))
    assert verdict_figures(shown, episode(expected=expected)) == VerdictFigures("good", 1.0, "good at 101", 1.0)


def test_other_verdicts_are_counted_with_their_seconds_and_without_the_one_before() -> None:
    shown = said(
        (90.0, "late"), (101.0, "late"), (103.0, "no_data"), (110.0, "down"), (120.0, "no_data"), (130.0, "down")
    )
    assert verdict_figures(shown, episode()).otherwise == {"no_data": 17.0}


def test_tolerated_good_between_two_outages_is_not_counted() -> None:
    expected = OnCall(frozenset({"down"}), tolerated=frozenset({"good"}))
    shown = said((99.0, "good"), (105.0, "down"), (110.0, "good"), (150.0, "down"), (201.0, "good"))
    assert verdict_figures(shown, episode(expected=expected)) == VerdictFigures("good", 5.0, "down at 105", 1.0)


def test_tolerated_verdict_is_neither_right_nor_wrong() -> None:
    expected = OnCall(frozenset({"down"}), tolerated=frozenset({NO_ANSWER}))
    shown = said((99.0, "good"), (110.0, NO_ANSWER), (120.0, "down"), (201.0, "good"))
    found = verdict_figures(shown, episode(expected=expected))
    assert (found.right_after, found.otherwise) == (20.0, {})


def test_distrusted_verdict_is_neither_wrong_nor_a_relapse() -> None:
    shown = said(
        (99.0, "good"), (110.0, DISTRUSTED), (120.0, "down"), (201.0, DISTRUSTED), (205.0, "good"), (210.0, DISTRUSTED)
    )
    assert verdict_figures(shown, episode()) == VerdictFigures("good", 20.0, "down at 120", 1.0)


def test_relapse_after_the_end_delays_the_recovery() -> None:
    shown = said((110.0, "down"), (205.0, "good"), (220.0, "down"), (240.0, "good"))
    found = verdict_figures(shown, episode())
    assert (found.recovered_after, found.relapses, found.before) == (40.0, 1, NO_ANSWER)


def test_first_right_verdict_after_the_end_of_a_short_fault_is_no_relapse() -> None:
    shown = said((99.0, "good"), (111.0, "good"), (116.0, "good"), (120.0, "down"), (140.0, "good"))
    found = verdict_figures(shown, episode(ended=115.0))
    assert (found.right_after, found.recovered_after, found.relapses) == (20.0, 25.0, 0)


def test_verdict_that_is_not_good_at_the_next_fault_has_not_recovered() -> None:
    shown = said((110.0, "down"), (205.0, "good"), (290.0, "down"), (310.0, "good"))
    assert verdict_figures(shown, episode()).recovered_after is None


def test_short_fault_may_be_noticed_after_its_end_but_not_after_the_next_begins() -> None:
    assert verdict_figures(said((99.0, "good"), (104.0, "down")), episode(ended=101.0)).right_after == 4.0
    assert verdict_figures(said((99.0, "good"), (304.0, "down")), episode(ended=101.0)).right_after is None


def firing(*statements: tuple[float, set[FiringAlert]]) -> list[tuple[float, frozenset[FiringAlert]]]:
    return [(at, frozenset(alerts)) for at, alerts in statements]


def test_expected_alert_is_timed_from_the_beginning_and_from_the_end() -> None:
    shown = firing((99.0, set()), (150.0, {BURN}), (170.0, {BURN, STALLED}), (260.0, {STALLED}), (400.0, set()))
    alerts = frozenset({STALLED, BURN})
    assert alert_figures(shown, episode(), silent=False) == AlertFigures(frozenset(), 70.0, 200.0, alerts, frozenset())


def test_alert_of_another_apiserver_or_of_no_row_is_wrong() -> None:
    shown = firing((99.0, set()), (150.0, {ELSEWHERE, FiringAlert("WatchsloForbidden")}), (200.0, set()))
    found = alert_figures(shown, episode(), silent=False)
    assert found.wrong == {ELSEWHERE, FiringAlert("WatchsloForbidden")}
    assert found.right_after is None


def test_alert_that_an_earlier_fault_allows_may_fire_for_ten_minutes_after_it() -> None:
    shown = firing((699.0, {BURN}))
    quiet = OnCall(frozenset({"down"}))
    soon, late = (Episode("next", "", quiet, began, 800.0, 900.0) for began in (690.0, 699.0))
    assert alert_figures(shown, soon, [episode(ended=100.0)], silent=False).wrong == frozenset()
    assert alert_figures(shown, late, [episode(ended=99.0)], silent=False).wrong == {BURN}


def test_silenced_alert_may_fire_but_not_notify() -> None:
    expected = OnCall(frozenset({"down"}), silenced=frozenset({"WatchStalled"}))
    shown = firing((99.0, set()), (150.0, {STALLED}))
    wrong = [alert_figures(shown, episode(expected=expected), silent=silent).wrong for silent in (True, False)]
    assert wrong == [frozenset(), {STALLED}]


def test_alert_that_fired_before_is_not_of_this_fault() -> None:
    shown = firing((90.0, {ELSEWHERE}), (150.0, {ELSEWHERE}), (160.0, set()))
    assert alert_figures(shown, episode(), silent=False) == AlertFigures(
        frozenset({ELSEWHERE}), None, None, frozenset(), frozenset()
    )


def test_alert_that_fires_to_the_end_of_the_night_is_not_resolved() -> None:
    assert alert_figures(firing((150.0, {STALLED}), (900.0, {STALLED})), episode(), silent=False).resolved_after is None


def test_alert_is_required_only_of_a_fault_that_lasts_long_enough() -> None:
    assert [sorted(alert.names) for alert in required(episode())] == [["WatchDown", "WatchStalled"]]
    assert required(episode(ended=159.0)) == ()
    assert not alert_figures(firing((150.0, {ABSENT})), episode(), silent=False).wrong  # it may fire sooner


def test_everything_missed_is_a_sentence() -> None:
    record = Record(
        {
            "page": tuple(said((99.0, "good"), (140.0, "good"), (150.0, "no_data"), (205.0, "good"), (210.0, "late"))),
            "metric": tuple(said((99.0, NO_ANSWER), (205.0, NO_ANSWER))),
        },
        (AlertsStatement(150.0, frozenset({ELSEWHERE}), frozenset()),),
    )
    found = figures(record, episode())
    assert list(found.verdicts) == ["page"]  # the metric does not exist
    assert list(found.missed()) == [
        "page never said a right verdict",
        "page said good for 10 s during the fault",
        "page said no_data for 50 s",
        "page did not return to good",
        "page left good 1 times after the end",
        "Prometheus did not raise WatchDown or WatchStalled",
        "Prometheus raised WatchStalled b:1",
        "Alertmanager did not raise WatchDown or WatchStalled",
    ]


@pytest.mark.parametrize(("words", "expected"), [([], {}), (["late", "good", "good"], {"good": 2 / 3, "late": 1 / 3})])
def test_shares_begin_with_the_most_frequent(words: list[str], expected: dict[str, float]) -> None:
    found = shares(said(*((float(at), word) for at, word in enumerate(words))))
    assert list(found.items()) == list(expected.items())
