"""A report as one HTML file: without scripts, and without anything that would have to be loaded."""

from itertools import count

from watchslo.report.answer import answer, heading
from watchslo.report.chart import curve_svg, strip_svg
from watchslo.report.incident import IncidentReport
from watchslo.report.sections import sections
from watchslo.templates import template
from watchslo.timeline.verdict import SIGNS

LEGEND = "The worst verdict of each minute. Tall red: bad. Yellow: undecided. Short green: good. Gap: no verdict."
SHORT = 24  # characters: shorter cells are not wrapped


def as_html(report: IncidentReport) -> str:
    """Return the whole file."""
    found, numbers = answer(report), count(1)
    return template("report.html").render(
        title=heading(report),
        level=found.level,
        verdict=found.text,
        facts=found.facts,
        sections=sections(report),
        name=lambda: f"part{next(numbers)}",
        curve=lambda name, chart: curve_svg(
            name, chart.title, chart.summary, chart.curve, chart.minutes, report.period
        ),
        strip=lambda name, minutes: strip_svg(name, minutes, report.period),
        legend=LEGEND,
        short=SHORT,
        signs=SIGNS,
    )
