"""The rules for words find what they forbid, and nothing else."""

import pytest

from tools.wording.check import LONGEST_SUBJECT, check_subject, check_text, is_checked


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("the watch is told to end", "told"),
        ("self._told = 3", "told"),
        ("Nobody knows", "Nobody"),
        ("what becomes of it", "becomes of"),
        ("who is late", "who"),
        ("apiservers who answer", "who"),
    ],
)
def test_check_text_forbidden_phrase_is_reported_with_line(text: str, phrase: str) -> None:
    (finding,) = check_text(f"fine\n{text}\n")
    assert finding.startswith(f'2: "{phrase}": ')


@pytest.mark.parametrize("text", ["users who read", "people who run clusters", "untold", "the whole", "a goat at home"])
def test_check_text_allowed_words_are_not_reported(text: str) -> None:
    assert list(check_text(text)) == []


@pytest.mark.parametrize("subject", ["clock: reject ticks of foreign domains", "docs, tests: use the term headroom"])
def test_check_subject_area_and_imperative_is_accepted(subject: str) -> None:
    assert check_subject(subject) is None


@pytest.mark.parametrize(
    "subject", ["Draw no table of nothing", "clock: " + "x" * LONGEST_SUBJECT, "clock: do what was told"]
)
def test_check_subject_other_forms_are_refused(subject: str) -> None:
    assert check_subject(subject) is not None


def test_is_checked_generated_and_foreign_files_are_skipped() -> None:
    assert is_checked("watchslo/errors.py")
    assert is_checked("Makefile")
    assert not is_checked("requirements.lock")
    assert not is_checked("tests/golden/status.json")
    assert not is_checked("watchslo/serve/page/static/uplot/uPlot.js")
