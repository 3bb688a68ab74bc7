"""What a check of the deployment found: the findings, their order, and the exit code. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from watchslo.timeline.format import counted

ALL_WELL, PROBLEM_FOUND = 0, 1
"""Exit codes."""


class FindingLevel(StrEnum):
    """How grave a finding is, the worst first. A problem makes figures or alerts wrong; a warning limits them."""

    PROBLEM = "problem"
    WARNING = "warning"
    UNCHECKED = "not checked"
    GOOD = "good"


@dataclass(frozen=True, slots=True)
class DeploymentFinding:
    """What one check found about a subject: sentences that name no object. Good findings have no remedy."""

    level: FindingLevel
    subject: str
    text: str
    remedy: str = ""


def problem(subject: str, text: str, remedy: str) -> DeploymentFinding:
    """Return a finding that must be fixed."""
    return DeploymentFinding(FindingLevel.PROBLEM, subject, text, remedy)


def warning(subject: str, text: str, remedy: str) -> DeploymentFinding:
    """Return a finding that limits what is measured or shown."""
    return DeploymentFinding(FindingLevel.WARNING, subject, text, remedy)


def unchecked(subject: str, reason: str, remedy: str = "") -> DeploymentFinding:
    """Return a finding that says why a check was not made."""
    return DeploymentFinding(FindingLevel.UNCHECKED, subject, reason, remedy)


def good(subject: str, text: str) -> DeploymentFinding:
    """Return a finding that says what is right."""
    return DeploymentFinding(FindingLevel.GOOD, subject, text)


def worst_first(findings: Iterable[DeploymentFinding]) -> list[DeploymentFinding]:
    """Return the findings by level; those of one level stay in the order of the checks."""
    levels = [*FindingLevel]
    return sorted(findings, key=lambda finding: levels.index(finding.level))


def exit_code(findings: Iterable[DeploymentFinding]) -> int:
    """Return 1 if a problem was found, else 0."""
    found = any(finding.level is FindingLevel.PROBLEM for finding in findings)
    return PROBLEM_FOUND if found else ALL_WELL


def summary(findings: Sequence[DeploymentFinding]) -> str:
    """Return all findings in one sentence."""
    counts = Counter(finding.level for finding in findings)
    problems, warnings, left_out = (
        counts[level] for level in (FindingLevel.PROBLEM, FindingLevel.WARNING, FindingLevel.UNCHECKED)
    )
    limits = [counted(warnings, "warning")] if warnings else []
    limits += [f"{left_out} not checked"] if left_out else []
    if problems:
        return f"Not right: {', '.join([counted(problems, 'problem'), *limits])}."
    if not counts[FindingLevel.GOOD]:
        return f"Nothing was proven to be right: {', '.join(limits) or 'nothing was checked'}."
    return f"No problem found: {', '.join([f'{counts[FindingLevel.GOOD]} good', *limits])}."


def document(findings: Sequence[DeploymentFinding]) -> dict[str, object]:
    """Return the findings for JSON."""
    return {
        "apiVersion": "v1",
        "exitCode": exit_code(findings),
        "summary": summary(findings),
        "findings": [
            {
                "level": "unchecked" if finding.level is FindingLevel.UNCHECKED else finding.level.value,
                "subject": finding.subject,
                "text": finding.text,
                "remedy": finding.remedy or None,
            }
            for finding in findings
        ],
    }
