"""The figures of a night, from statements that are made up."""

from collections.abc import Callable
from dataclasses import fields
from math import inf
from pathlib import Path

import pytest

from tests.lab.expected import ExpectedAlert, OnCall
from tests.lab.figures import (
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

STALLED = FiringAlert("KubeWatchStalled", "a:1")
ELSEWHERE = FiringAlert("KubeWatchStalled", "b:1")
BURN = FiringAlert("KubeWatchLatencyBudgetBurn", "a:1")
ABSENT = FiringAlert("WatchsloAbsent")
FORBIDDEN = FiringAlert("WatchsloForbidden")
EXPECTED = OnCall(
    frozenset({"down", "stalled"}),
    0.0,
    "",
    (
        ExpectedAlert(frozenset({"KubeWatchStalled", "KubeWatchDown"}), 60.0),
        ExpectedAlert(frozenset({"WatchsloAbsent"}), inf),
    ),
    frozenset({"KubeWatchLatencyBudgetBurn"}),
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


ALERTS = {"stalled": STALLED, "elsewhere": ELSEWHERE, "burn": BURN, "absent": ABSENT, "forbidden": FORBIDDEN}
QUIET = OnCall(frozenset({"down"}))
SILENCED = OnCall(frozenset({"down"}), silenced=frozenset({"KubeWatchStalled"}))


def firing(beginning: str) -> Step:
    """Return the figures of `time:alert,alert ...` during a fault: the usual one, or `next START after END`."""
    fault, before, silent = episode(), list[Episode](), False
    match beginning.split():
        case ["next", start, "after", end]:
            fault, before = episode(float(start), 800.0, 900.0, expected=QUIET), [episode(ended=float(end))]
        case ["silenced", where]:
            fault, silent = episode(expected=SILENCED), where == "Prometheus"

    def step(text: str) -> str:
        words = [one.partition(":") for one in text.split()]
        seen = [(float(at), frozenset(ALERTS[name] for name in names.split(",") if name)) for at, _, names in words]
        found = alert_figures(seen, fault, before, silent=silent)
        return " ".join(f"{field.name}={_shown(getattr(found, field.name))}" for field in fields(found))

    return step


def _shown(value: object) -> str:
    if isinstance(value, frozenset):
        return ",".join(sorted(name for name, alert in ALERTS.items() if alert in value)) or "nothing"
    return shown(value)


def test_alerts_have_the_figures_of_the_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("lab-alerts.txt", replay((GOLDEN / "lab-alerts.txt").read_text(), firing))


def test_alert_is_required_only_of_a_fault_that_lasts_long_enough() -> None:
    assert [sorted(alert.names) for alert in required(episode())] == [["KubeWatchDown", "KubeWatchStalled"]]
    assert required(episode(ended=159.0)) == ()


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
        "Prometheus did not raise KubeWatchDown or KubeWatchStalled",
        "Prometheus raised KubeWatchStalled b:1",
        "Alertmanager did not raise KubeWatchDown or KubeWatchStalled",
    ]


@pytest.mark.parametrize(("words", "expected"), [([], {}), (["late", "good", "good"], {"good": 2 / 3, "late": 1 / 3})])
def test_shares_begin_with_the_most_frequent(words: list[str], expected: dict[str, float]) -> None:
    found = shares(said(*((float(at), word) for at, word in enumerate(words))))
    assert list(found.items()) == list(expected.items())
