"""Findings as text, for golden transcripts."""

from collections.abc import Iterable, Mapping

from tests.support.transcripts import of_states
from watchslo.app.doctor.findings import DeploymentFinding, FindingLevel


def findings_transcript(states: Mapping[str, Iterable[DeploymentFinding]]) -> str:
    """Return the findings of each state, with their remedies; a problem or a warning always has one."""
    return of_states({name: [_line(finding) for finding in findings] for name, findings in states.items()})


def _line(finding: DeploymentFinding) -> str:
    assert finding.remedy or finding.level in (FindingLevel.UNCHECKED, FindingLevel.GOOD), finding.text
    remedy = f"\n  remedy: {finding.remedy}" if finding.remedy else ""
    return f"{finding.level}: {finding.subject}: {finding.text}{remedy}"
