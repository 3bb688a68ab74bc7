"""The order of findings, the exit code, the summary and the JSON."""

from collections.abc import Callable

from tests.conftest import GOLDEN
from tests.support.transcripts import replay
from watchslo.app.doctor.findings import (
    document,
    exit_code,
    good,
    problem,
    summary,
    unchecked,
    warning,
    worst_first,
)

GOOD = good("ticks", "Fine.")
OTHER = good("rights", "Fine too.")
UNKNOWN = unchecked("monitor", "Not known.")
LIMIT = warning("version", "Other.", "Update.")
FAULT = problem("rights", "Missing.", "Grant.")


def test_worst_first_keeps_the_order_of_equals() -> None:
    assert worst_first([GOOD, UNKNOWN, OTHER, FAULT, LIMIT]) == [FAULT, LIMIT, UNKNOWN, GOOD, OTHER]


LEVELS = {"good": GOOD, "unchecked": UNKNOWN, "warning": LIMIT, "problem": FAULT}


def said_of(words: str) -> str:
    """Return the summary and the exit code of findings of these levels."""
    findings = [LEVELS[word] for word in words.split() if word != "nothing"]
    return f"{summary(findings)} (exit code {exit_code(findings)})"


def test_summaries_match_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("doctor/summaries.txt", replay((GOLDEN / "doctor/summaries.txt").read_text(), lambda _: said_of))


def test_document_has_all_fields() -> None:
    assert document([FAULT, UNKNOWN]) == {
        "apiVersion": "v1",
        "exitCode": 1,
        "summary": "Not right: 1 problem, 1 not checked.",
        "findings": [
            {"level": "problem", "subject": "rights", "text": "Missing.", "remedy": "Grant."},
            {"level": "unchecked", "subject": "monitor", "text": "Not known.", "remedy": None},
        ],
    }
