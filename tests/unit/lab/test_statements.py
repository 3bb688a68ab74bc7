"""How verdicts are read from status documents and headlines."""

from pathlib import Path

import pytest

from tests.lab.statements import (
    DISTRUSTED,
    NO_ANSWER,
    UNKNOWN_WORD,
    trusted,
    verdict_exposed,
    word_in_status,
    word_in_text,
)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("All 45 watches are within 1 s.", "good"),
        ("pods is within 1 s.", "good"),
        ("No watch is late. (4 within 1 s, 41 idle)", "good"),
        ("All 3 watches are idle (proven by audits).", "good"),
        ("configmaps: late since 03:14; pods: no events delivered since 03:15", "stalled"),
        ("configmaps: late since 03:14", "late"),
        ("15 of 45 watches cannot be kept open since 03:14", "down"),
        ("No watch is proven late, but pods cannot be judged.", "undecided"),
        ("Cannot tell: no watch has had enough events lately.", "no_data"),
        ("Cannot tell: the clock has not ticked since 03:14.", "clock_stopped"),
        ("Cannot tell yet: not every watch has been opened, or a clock does not tick.", "starting"),
        ("Cannot tell: paused by the configuration.", "paused"),
        ("None of the 3 apiservers answers since 03:14; pods: late since 03:15", "unresponsive"),
        ("10.0.0.7:6443 answers nothing since 03:14", "unresponsive"),
        ("Cannot tell: watchslo itself could not keep up in the last minute.", "monitor_problem"),
        ("No watch is proven late, but a cause of lateness is active: bandwidth.", "cause"),
        ("2 of 2 watches connected, nothing proven late or lost in the last hour.", "good"),
        ("A sentence without a meaning.", UNKNOWN_WORD),
    ],
)
def test_headline_states_its_verdict(text: str, word: str) -> None:
    assert word_in_text(text) == word


def test_status_has_the_word_and_its_text_and_no_verdict_at_the_start() -> None:
    verdict = {"verdict": "late", "level": "bad", "text": "pods: late since 03:14"}
    assert word_in_status({"verdict": verdict}) == ("late", verdict["text"])
    assert word_in_status({"verdict": None}) == ("starting", "")


def test_good_verdict_next_to_a_problem_of_watchslo_is_distrusted() -> None:
    verdict = {"verdict": "good", "level": "good", "text": "All 45 watches are within 1 s."}
    problem = {"level": "bad", "text": "No: watchslo itself has a problem: Configuration."}
    status = {"verdict": verdict, "trust": problem}
    assert word_in_status(status) == (DISTRUSTED, f"{verdict['text']} {problem['text']}")
    assert word_in_status(status | {"trust": {"level": "good", "text": "Yes: all self checks pass."}})[0] == "good"
    assert trusted("late", problem["text"]) == "late"


def test_exposition_has_the_verdict_whose_value_is_one() -> None:
    exposition = (Path(__file__).parents[2] / "golden" / "metrics-basic.txt").read_text()
    true = [line for line in exposition.splitlines() if line.startswith("watchslo_verdict{") and line.endswith(" 1.0")]
    word = verdict_exposed(exposition)
    assert true == [f'watchslo_verdict{{verdict="{word}"}} 1.0']
    assert verdict_exposed(exposition.replace(f"{true[0]}\n", "")) == NO_ANSWER
