"""Draws a dashboard in the layout of Grafana, with the data of a Prometheus.

Only the panel types of the watchslo dashboards are supported.
"""

import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from tools.dashboards.queries import Json, all_values, fill
from tools.pictures.prometheus import Prometheus, Range, Series
from tools.pictures.units import write

DPI = 100
COLUMNS = 24
COLUMN_INCHES = 0.7
ROW_INCHES = 0.36
HEAD_INCHES = 0.55
GAP_INCHES = 0.06

PAPER, CANVAS, TEXT, FAINT, GRID = "#111217", "#181b1f", "#ccccdc", "#8e8e99", "#2c3036"
COLOURS = {"green": "#73bf69", "yellow": "#f2cc0c", "orange": "#ff9830", "red": "#f2495c", "text": TEXT}
PALETTE = (
    *("#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9", "#705da0", "#37872d", "#fade2a"),
    *("#447ebc", "#c15c17", "#890f02", "#0a437c", "#6d1f62", "#584477", "#b7dbab", "#f4d598", "#70dbed", "#f9934e"),
)
LEGEND = re.compile(r"\{\{(\w+)\}\}")
LEGEND_CHARACTERS_AN_INCH = 15
TEXT_CHARACTERS_AN_INCH = 17
LEGEND_LINES = 3
TABLE_LINES = 9
LABEL_WIDTH = 1.6  # relative to a column of values
MINUTES = (1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440)
MOST_TICKS = 6
SMALL, NORMAL, LARGE = 7.0, 9.0, 19.0  # points


@dataclass(frozen=True, slots=True)
class DrawnSeries:
    """A series of a panel with its legend, the index of its query, and its colour."""

    name: str
    target: int
    series: Series
    colour: str


@dataclass(frozen=True, slots=True)
class View:
    """The data of a picture: the source, the range, and the values of Grafana's variables."""

    prometheus: Prometheus
    span: Range
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle of the picture, in inches from its upper left corner."""

    left: float
    top: float
    width: float
    height: float

    def inner(self, left: float, top: float, right: float, bottom: float) -> "Box":
        return Box(self.left + left, self.top + top, self.width - left - right, self.height - top - bottom)


def draw(
    dashboard: Json, prometheus: Prometheus, span: Range, rate_interval: float, selected: Mapping[str, str]
) -> Figure:
    """Draw a dashboard over a range; `selected` sets values of its variables."""
    own = {"__rate_interval": f"{rate_interval:.0f}s", "__range": f"{span.end - span.start:.0f}s"}
    view = View(prometheus, span, all_values(dashboard) | own | dict(selected))
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
    size = COLUMNS * COLUMN_INCHES, rows * ROW_INCHES + HEAD_INCHES
    figure = Figure(figsize=size, dpi=DPI, facecolor=PAPER)
    with mpl.rc_context({"font.size": SMALL, "text.color": TEXT, "font.family": "DejaVu Sans"}):
        _write(figure, Box(0.12, 0.1, 0, 0), dashboard["title"], fontsize=14)
        for panel in dashboard["panels"]:
            position = panel["gridPos"]
            box = Box(
                position["x"] * COLUMN_INCHES,
                position["y"] * ROW_INCHES + HEAD_INCHES,
                position["w"] * COLUMN_INCHES,
                position["h"] * ROW_INCHES,
            ).inner(GAP_INCHES, GAP_INCHES, GAP_INCHES, GAP_INCHES)
            _panel(figure, box, panel, view)
    return figure


def _panel(figure: Figure, box: Box, panel: Json, view: View) -> None:
    if panel["type"] == "row":
        _write(figure, box.inner(0.1, 0, 0, 0), f"▾ {panel['title']}", fontsize=11)
        return
    canvas = _axes(figure, box)
    canvas.add_patch(Rectangle((0, 0), 1, 1, facecolor=CANVAS, edgecolor=GRID, transform=canvas.transAxes))
    canvas.set_axis_off()
    if panel["type"] == "text":
        lines = textwrap.wrap(panel["options"]["content"].replace("*", ""), int(box.width * TEXT_CHARACTERS_AN_INCH))
        _write(figure, box.inner(0.1, 0.07, 0, 0), "\n".join(lines), fontsize=SMALL)
        return
    _write(figure, box.inner(0.1, 0.07, 0, 0), panel["title"], fontsize=NORMAL)
    shown = _query(panel, view)
    if shown:
        _KINDS[panel["type"]](figure, box, panel, shown, view.span)
    else:
        canvas.text(0.5, 0.45, "No data", ha="center", va="center", color=FAINT, fontsize=12)


def _query(panel: Json, view: View) -> list[DrawnSeries]:
    """Run the queries of a panel; series without finite values are left out."""
    found: list[DrawnSeries] = []
    for index, target in enumerate(panel["targets"]):
        expr = fill(target["expr"], view.values)
        result = view.prometheus.at(expr, view.span.end) if target["instant"] else view.prometheus.over(expr, view.span)
        for series in result:
            if any(math.isfinite(value) for value in series.values):
                name = _name(target["legendFormat"], series.labels)
                found.append(
                    DrawnSeries(name, index, series, _colour(panel, name) or PALETTE[len(found) % len(PALETTE)])
                )
    return found


def _name(legend: str, labels: Mapping[str, str]) -> str:
    return " ".join(LEGEND.sub(lambda match: labels.get(match[1], ""), legend).split())


# --- panel types ------------------------------------------------------------------------------------------------------


def _number(figure: Figure, box: Box, panel: Json, shown: Sequence[DrawnSeries], span: Range) -> None:
    series = shown[0].series
    last = next(value for value in reversed(series.values) if math.isfinite(value))
    colour = _threshold(panel, last)
    spark = _axes(figure, box.inner(0.02, 0.9, 0.02, 0.02))
    spark.set_axis_off()
    spark.fill_between(series.times, series.values, color=colour, alpha=0.25, linewidth=0)
    spark.plot(series.times, series.values, color=colour, linewidth=0.8)
    spark.set_xlim(span.start, span.end)
    middle = box.inner(0, 0.62, 0, 0)
    _write(
        figure,
        Box(middle.left + middle.width / 2, middle.top, 0, 0),
        write(last, _unit(panel)),
        fontsize=LARGE,
        color=colour,
        ha="center",
        va="center",
    )


def _graph(figure: Figure, box: Box, panel: Json, shown: Sequence[DrawnSeries], span: Range) -> None:
    axes = _plot(figure, box, panel, span, legend_rows=_legend(figure, box, shown))
    if "stacking" in panel["fieldConfig"]["defaults"]["custom"]:
        _stacked(axes, shown, span)
    else:
        for drawn in shown:
            times, values = _with_gaps(drawn.series, span)
            marker = "o" if len(drawn.series.values) == 1 else None
            axes.plot(times, values, color=drawn.colour, linewidth=1.0, marker=marker, markersize=3)
    values = [value for drawn in shown for _, value in _finite(drawn.series)]
    low, high = axes.get_ylim()
    high = high if max(values) > 0 or min(values) < 0 else 1.0
    axes.set_ylim(low if min(values) < 0 else 0.0, high)
    if panel["fieldConfig"]["defaults"]["custom"]["thresholdsStyle"]["mode"] == "dashed":
        for step in _steps(panel)[1:]:
            if step["value"] < high:
                axes.axhline(step["value"], color=COLOURS[step["color"]], linewidth=0.8, linestyle=(0, (6, 6)))


def _stacked(axes: Axes, shown: Sequence[DrawnSeries], span: Range) -> None:
    points = round((span.end - span.start) / span.step) + 1
    times = [span.start + index * span.step for index in range(points)]
    floor = [0.0] * points
    for drawn in shown:
        known = {round((time - span.start) / span.step): value for time, value in _finite(drawn.series)}
        top = [below + known.get(index, 0.0) for index, below in enumerate(floor)]
        axes.fill_between(times, floor, top, color=drawn.colour, alpha=0.5, linewidth=0)
        if any(known.values()):
            axes.plot(times, top, color=drawn.colour, linewidth=0.7)
        floor = top


def _heatmap(figure: Figure, box: Box, panel: Json, shown: Sequence[DrawnSeries], span: Range) -> None:
    """Draw a heatmap; buckets of Prometheus are cumulative, so each one is reduced by the next smaller one."""
    ordered = sorted(shown, key=lambda drawn: float(drawn.series.labels["le"]))
    points = round((span.end - span.start) / span.step) + 1
    grid, below = [], [0.0] * points
    for drawn in ordered:
        known = {round((time - span.start) / span.step): value for time, value in _finite(drawn.series)}
        upto = [known.get(index, 0.0) for index in range(points)]
        grid.append([max(value - less, 0.0) or math.nan for value, less in zip(upto, below, strict=True)])
        below = upto
    axes = _plot(figure, box, panel, span, legend_rows=0)
    edges = [span.start + (index - 0.5) * span.step for index in range(points + 1)]
    most = max((value for line in grid for value in line if not math.isnan(value)), default=1.0)
    axes.pcolormesh(edges, range(len(grid) + 1), grid, cmap="inferno", norm=LogNorm(min(0.1, most / 10), most))
    axes.set_yticks(range(1, len(ordered) + 1))
    axes.set_yticklabels([write(float(drawn.series.labels["le"]), _unit(panel)) for drawn in ordered])
    axes.set_xlim(span.start, span.end)
    axes.grid(visible=False)


def _table(figure: Figure, box: Box, panel: Json, shown: Sequence[DrawnSeries], _: Range) -> None:
    """Draw a table with one row per set of labels, sorted by the first column, descending."""
    columns = [target["legendFormat"] for target in panel["targets"]]
    labels = sorted({label for drawn in shown for label in drawn.series.labels})
    units = [_unit_of_column(panel, column) for column in columns]
    lines: dict[tuple[str, ...], dict[int, float]] = {}
    for drawn in shown:
        key = tuple(drawn.series.labels.get(label, "") for label in labels)
        lines.setdefault(key, {})[drawn.target] = drawn.series.values[0]
    ordered = sorted(lines.items(), key=lambda line: -line[1].get(0, -math.inf))[:TABLE_LINES]
    texts = [
        [*key, *(write(found[index], units[index]) if index in found else "" for index in range(len(columns)))]
        for key, found in ordered
    ]
    width = (box.width - 0.2) / (LABEL_WIDTH * len(labels) + len(columns))
    for row, cells in enumerate([[*labels, *columns], *texts]):
        for column, cell in enumerate(cells):
            first = row > 0 and column == len(labels)
            colour = _threshold(panel, ordered[row - 1][1].get(0, 0.0)) if first else (FAINT if row == 0 else TEXT)
            left = width * (LABEL_WIDTH * min(column, len(labels)) + max(column - len(labels), 0))
            at = Box(box.left + 0.1 + left, box.top + 0.4 + row * 0.235, 0, 0)
            _write(figure, at, cell, fontsize=8, color=colour)


_KINDS: dict[str, Callable[[Figure, Box, Json, Sequence[DrawnSeries], Range], None]] = {
    "stat": _number,
    "timeseries": _graph,
    "heatmap": _heatmap,
    "table": _table,
}


# --- helpers ----------------------------------------------------------------------------------------------------------


def _axes(figure: Figure, box: Box) -> Axes:
    width, height = figure.get_size_inches()
    return figure.add_axes(
        (box.left / width, 1 - (box.top + box.height) / height, box.width / width, box.height / height)
    )


def _write(figure: Figure, box: Box, text: str, **style: Any) -> None:
    width, height = figure.get_size_inches()
    style = {"ha": "left", "va": "top", "color": TEXT} | style
    figure.text(box.left / width, 1 - box.top / height, text, **style)


def _plot(figure: Figure, box: Box, panel: Json, span: Range, legend_rows: int) -> Axes:
    axes = _axes(figure, box.inner(0.62, 0.36, 0.12, 0.28 + 0.15 * legend_rows))
    axes.set_facecolor(CANVAS)
    axes.grid(color=GRID, linewidth=0.5)
    axes.tick_params(colors=FAINT, length=0, labelsize=SMALL)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlim(span.start, span.end)
    axes.xaxis.set_major_locator(MultipleLocator(_minutes_between(span) * 60))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda time, _: f"{datetime.fromtimestamp(time, UTC):%H:%M}"))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 1.5, 3, 6, 10] if _unit(panel) == "s" else None))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: write(value, _unit(panel))))
    return axes


def _minutes_between(span: Range) -> int:
    minutes = (span.end - span.start) / 60
    return next((step for step in MINUTES if minutes / step <= MOST_TICKS), MINUTES[-1])


def _legend(figure: Figure, box: Box, shown: Sequence[DrawnSeries]) -> int:
    """Write the legend below the graph in at most LEGEND_LINES lines; returns the number of lines."""
    room = int((box.width - 0.3) * LEGEND_CHARACTERS_AN_INCH)
    lines: list[list[DrawnSeries]] = [[]]
    used = 0
    for drawn in shown:
        if used + len(drawn.name) + 4 > room and lines[-1]:
            lines.append([])
            used = 0
        lines[-1].append(drawn)
        used += len(drawn.name) + 4
    kept = lines[:LEGEND_LINES]
    for number, line in enumerate(kept):
        left = box.left + 0.15
        top = box.top + box.height - 0.17 * (len(kept) - number)
        for drawn in line:
            _write(figure, Box(left, top, 0, 0), "━", fontsize=SMALL, color=drawn.colour)
            _write(figure, Box(left + 0.14, top, 0, 0), drawn.name, fontsize=SMALL)
            left += (len(drawn.name) + 4) / LEGEND_CHARACTERS_AN_INCH
    hidden = sum(len(line) for line in lines[LEGEND_LINES:])
    if hidden:
        end = Box(box.left + box.width - 0.1, box.top + box.height - 0.17, 0, 0)
        _write(figure, end, f"and {hidden} more", fontsize=SMALL, color=FAINT, ha="right")
    return len(kept)


def _finite(series: Series) -> list[tuple[float, float]]:
    return [(time, value) for time, value in zip(series.times, series.values, strict=True) if math.isfinite(value)]


def _with_gaps(series: Series, span: Range) -> tuple[list[float], list[float]]:
    """Return the points of a series, with a NaN where points are missing."""
    points = _finite(series)
    times, values = [points[0][0]], [points[0][1]]
    for (before, _), (time, value) in pairwise(points):
        if time - before > 1.5 * span.step:
            times.append(before + span.step)
            values.append(math.nan)
        times.append(time)
        values.append(value)
    return times, values


def _unit(panel: Json) -> str:
    unit: str = panel["fieldConfig"]["defaults"]["unit"]
    return unit


def _unit_of_column(panel: Json, column: str) -> str:
    return _override(panel, column, "unit") or _unit(panel)


def _colour(panel: Json, name: str) -> str | None:
    fixed = _override(panel, name, "color")
    return COLOURS[fixed["fixedColor"]] if fixed else None


def _override(panel: Json, name: str, what: str) -> Any:
    """Return the override of a panel for one series, or None."""
    changes = [
        change["value"]
        for override in panel["fieldConfig"]["overrides"]
        if override["matcher"]["options"] == name
        for change in override["properties"]
        if change["id"] == what
    ]
    return changes[0] if changes else None


def _steps(panel: Json) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    return steps


def _threshold(panel: Json, value: float) -> str:
    colour = _steps(panel)[0]["color"]
    for step in _steps(panel)[1:]:
        if value >= step["value"]:
            colour = step["color"]
    return COLOURS[colour]
