"""A report in a few lines, short enough for one message in a chat."""

from watchslo.report.answer import answer, heading
from watchslo.report.incident import IncidentReport
from watchslo.report.unknown import NOTHING_MISSING, unknowns
from watchslo.timeline.verdict import SIGNS

MOST_CHARACTERS = 1900  # a message of Slack or Discord may have 2,000
LINE_CHARACTERS = 420
MOST_UNKNOWN = 2


def as_brief(report: IncidentReport) -> str:
    """Return the answer and its facts, one a line, in at most `MOST_CHARACTERS`."""
    found = answer(report)
    lines = [
        f"{SIGNS[found.level]} {found.text}",
        *(f"{label}: {text}" for label, text in found.facts),
        *(f"Not known: {text}" for text in unknowns(report)[:MOST_UNKNOWN] if text != NOTHING_MISSING),
        heading(report),
    ]
    return _within("\n".join(_within(line, LINE_CHARACTERS) for line in lines), MOST_CHARACTERS) + "\n"


def _within(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
