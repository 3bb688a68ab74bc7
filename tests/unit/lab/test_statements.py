"""How verdicts are read from status documents and metrics."""

from pathlib import Path

from tests.lab.statements import DISTRUSTED, NO_ANSWER, trusted, verdict_exposed, word_in_status


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
