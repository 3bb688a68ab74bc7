"""A report as one HTML file: without scripts, and without anything that would have to be loaded."""

from collections.abc import Iterator
from html import escape
from importlib.resources import files
from itertools import count
from string import Template

from watchslo.report.answer import answer, heading
from watchslo.report.chart import curve_svg, strip_svg
from watchslo.report.incident import IncidentReport
from watchslo.report.sections import ReportChart, ReportSection, ReportTable, sections
from watchslo.timeline.verdict import SIGNS

_PAGE = Template(files(__package__).joinpath("report.html").read_text())
_STYLE = files(__package__).joinpath("report.css").read_text()
LEGEND = "The worst verdict of each minute. Tall red: bad. Yellow: undecided. Short green: good. Gap: no verdict."
SHORT = 24  # characters: shorter cells are not wrapped


def as_html(report: IncidentReport) -> str:
    """Return the whole file."""
    found = answer(report)
    names = (f"part{number}" for number in count(1))
    return _PAGE.substitute(
        sign=SIGNS[found.level],
        title=escape(heading(report)),
        style=_STYLE.strip(),
        level=found.level,
        verdict=escape(found.text),
        facts="\n".join(f"<div><dt>{escape(label)}<dd>{escape(text)}</div>" for label, text in found.facts),
        sections="\n".join(_section(section, report, names) for section in sections(report)),
    )


def _section(section: ReportSection, report: IncidentReport, names: Iterator[str]) -> str:
    name = next(names)
    parts = [f'<section aria-labelledby="{name}">', f'<h2 id="{name}">{escape(section.title)}</h2>']
    if section.strip:
        parts.append(strip_svg(next(names), section.strip, report.period))
        parts.append(f'<p class="quiet">{LEGEND}</p>')
    if len(section.sentences) == 1:
        parts.append(f'<p class="quiet">{escape(section.sentences[0])}</p>')
    elif section.sentences:
        parts.append(f"<ul>{''.join(f'<li>{escape(one)}' for one in section.sentences)}</ul>")
    if section.table:
        parts.append(_table(section.table, wide=True))
    parts.extend(_chart(chart, report, next(names)) for chart in section.charts)
    return "\n".join([*parts, "</section>"])


def _chart(chart: ReportChart, report: IncidentReport, name: str) -> str:
    svg = curve_svg(name, chart.title, chart.summary, chart.curve, chart.minutes, report.period)
    caption = f'<div class="caption"><h3>{escape(chart.title)}</h3><p class="quiet">{escape(chart.summary)}</p></div>'
    return f'<div class="chart">{caption}\n{svg}\n{_table(chart.table, wide=False)}</div>'


def _table(table: ReportTable, *, wide: bool) -> str:
    head = "".join(
        f'<th scope="col"{_class(column, text, table)}>{escape(text)}' for column, text in enumerate(table.headings)
    )
    rows = "\n".join(_row(row, table) for row in table.rows)
    more = f'<p class="quiet">{escape(table.left_out)}</p>' if table.left_out else ""
    body = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>"
    text = f"<table><caption>{escape(table.caption)}</caption>\n{body}</table>"
    if not wide:
        return text + more
    return f'<div class="wide" role="region" aria-label="{escape(table.caption)}" tabindex="0">\n{text}\n</div>{more}'


def _row(row: tuple[str, ...], table: ReportTable) -> str:
    first, *others = row
    cells = "".join(f"<td{_class(column, text, table)}>{escape(text)}" for column, text in enumerate(others, 1))
    return f'<tr><th scope="row"{_class(0, first, table)}>{escape(first)}</th>{cells}</tr>'


def _class(column: int, text: str, table: ReportTable) -> str:
    if column in table.numbers:
        return ' class="number"'
    return ' class="short"' if len(text) <= SHORT else ' class="text"'
