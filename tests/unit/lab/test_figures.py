"""The figures of a night, from statements that are made up."""

from collections.abc import Callable
from math import inf
from pathlib import Path

import pytest

from tests.lab.expected import ExpectedAlert, OnCall
from tests.lab.figures import (
    AlertFigures,
    Episode,
    alert_figures,
    figures,
    required,
    shares,
    verdict_figures,
)
from tests.lab.statements import DISTRUSTED, NO_ANSWER, AlertsStatement, FiringAlert, Record, Statement
from tests.support.transcripts import Step, replay, shown

GOLDEN = Path(__file__).parents[2] / "golden"

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


EXPECTED_VERDICTS = {
    "down or stalled": EXPECTED,
    "good": OnCall(frozenset({"good"})),
    "down, good is tolerated": OnCall(frozenset({"down"}), tolerated=frozenset({"good"})),
    "down, no answer is tolerated": OnCall(frozenset({"down"}), tolerated=frozenset({NO_ANSWER})),
}
WORDS = {"no-answer": NO_ANSWER, "distrusted": DISTRUSTED}


def judged(beginning: str) -> Step:
    """Return the figures of `time:word ...` during a fault from 100 s to 200 s, or to another end."""
    expected, _, ended = beginning.partition(" until ")
    fault = episode(ended=float(ended or 200.0), expected=EXPECTED_VERDICTS[expected])

    def step(text: str) -> str:
        statements = (one.split(":") for one in text.split())
        return shown(verdict_figures(said(*((float(at), WORDS.get(word, word)) for at, word in statements)), fault))

    return step


def test_verdicts_have_the_figures_of_the_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("lab-verdicts.txt", replay((GOLDEN / "lab-verdicts.txt").read_text(), judged))


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
