"""The order of findings, the exit code, the summary and the JSON."""

import pytest

from watchslo.app.doctor.findings import (
    ALL_WELL,
    PROBLEM_FOUND,
    DeploymentFinding,
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


@pytest.mark.parametrize(
    ("findings", "code", "text"),
    [
        ([GOOD, OTHER], ALL_WELL, "No problem found: 2 good."),
        ([GOOD, LIMIT, UNKNOWN], ALL_WELL, "No problem found: 1 good, 1 warning, 1 not checked."),
        ([GOOD, FAULT, LIMIT, LIMIT, UNKNOWN], PROBLEM_FOUND, "Not right: 1 problem, 2 warnings, 1 not checked."),
        ([FAULT], PROBLEM_FOUND, "Not right: 1 problem."),
        ([UNKNOWN], ALL_WELL, "Nothing was proven to be right: 1 not checked."),
        ([], ALL_WELL, "Nothing was proven to be right: nothing was checked."),
    ],
)
def test_summary_and_exit_code(findings: list[DeploymentFinding], code: int, text: str) -> None:
    assert (exit_code(findings), summary(findings)) == (code, text)


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
