"""A report as Markdown, for wikis and issues: the same tables, and curves as rows of blocks."""

import math
import re
from collections.abc import Iterator, Sequence

from watchslo.report.answer import answer, heading
from watchslo.report.incident import IncidentReport, LatencyCurve, ReportPeriod, highest_point
from watchslo.report.sections import ReportSection, ReportTable, sections
from watchslo.timeline.day import Minute
from watchslo.timeline.verdict import SIGNS

BLOCKS = "▁▂▃▄▅▆▇█"
MARKS = {Minute.BAD: "█", Minute.UNDECIDED: "▄", Minute.GOOD: "▁", Minute.NO_DATA: "·"}
NAMES = {Minute.BAD: "bad", Minute.UNDECIDED: "undecided", Minute.GOOD: "good", Minute.NO_DATA: "no verdict"}
LEGEND = ", ".join(f"{MARKS[verdict]} {name}" for verdict, name in NAMES.items())
COLUMNS = 60  # characters of a row of blocks
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!])")


def as_markdown(report: IncidentReport) -> str:
    """Return the whole text."""
    found = answer(report)
    paragraphs = [
        f"# {SIGNS[found.level]} {escaped(found.text)}",
        escaped(heading(report)),
        "\n".join(f"- **{label}**: {escaped(text)}" for label, text in found.facts),
        *(text for section in sections(report) for text in _section(section, report.period)),
    ]
    return "\n\n".join(paragraphs) + "\n"


def escaped(text: str) -> str:
    """Return the text without meaning as markup, in one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _section(section: ReportSection, period: ReportPeriod) -> Iterator[str]:
    """Yield the paragraphs of a section."""
    yield f"## {escaped(section.title)}"
    if section.strip:
        yield f"`{_strip(section.strip)}`\none sign for {_per(period)}: {LEGEND}"
    if len(section.sentences) > 1:
        yield "\n".join(f"- {escaped(sentence)}" for sentence in section.sentences)
    else:
        yield from map(escaped, section.sentences)
    if section.table:
        yield from _table(section.table)
    for chart in section.charts:
        yield f"### {escaped(chart.title)}"
        yield f"{escaped(chart.summary)}\n`{_sparkline(chart.curve, period)}`"
        yield from _table(chart.table)


def _table(table: ReportTable) -> Iterator[str]:
    marks = ["--:" if column in table.numbers else "---" for column in range(len(table.headings))]
    yield "\n".join([_row(table.headings), f"| {' | '.join(marks)} |", *map(_row, table.rows)])
    if table.left_out:
        yield escaped(table.left_out)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(escaped, cells))} |"


# --- rows of blocks ---------------------------------------------------------------------------------------------------


def _signs(period: ReportPeriod) -> int:
    """Return how many minutes one sign stands for."""
    return -(-period.minutes // COLUMNS)


def _per(period: ReportPeriod) -> str:
    minutes = _signs(period)
    return "each minute" if minutes == 1 else f"{minutes} minutes (the worst)"


def _strip(minutes: tuple[Minute, ...]) -> str:
    length = -(-len(minutes) // COLUMNS)
    return "".join(MARKS[max(minutes[first : first + length])] for first in range(0, len(minutes), length))


def _sparkline(curve: LatencyCurve, period: ReportPeriod) -> str:
    """Return the highest figures of each column, on a logarithmic scale from the lowest to the highest."""
    length = _signs(period)
    columns = []
    for first in range(0, period.minutes, length):
        points = curve.between(period.begin_of(first), period.begin_of(first + length))
        shown = highest_point(0.0, [*points]) if points else None
        height = None if shown is None else shown.lower if shown.estimate is None else shown.estimate
        columns.append(math.log(height) if height else None)
    known = [height for height in columns if height is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    return "".join(MARKS[Minute.NO_DATA] if height is None else _block(height, low, high) for height in columns)


def _block(height: float, low: float, high: float) -> str:
    return BLOCKS[round((height - low) / (high - low) * (len(BLOCKS) - 1)) if high > low else 0]
