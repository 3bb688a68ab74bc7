"""Charts as SVG without scripts: a quantile with its bounds over time, and the verdict on each minute.

The colours are those of the surrounding page, by classes. A title and a description say what is drawn.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from watchslo.report.incident import BadSpan, CurvePoint, LatencyCurve, ReportPeriod, highest_point, spans_of
from watchslo.report.wording import clock
from watchslo.timeline.day import Minute
from watchslo.timeline.format import duration

WIDTH, HEIGHT = 720, 230
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 10, 26
STRIP_HEIGHT = 56
COLUMNS = 240  # more points are combined: the highest of each column is drawn
SHORTEST_SECONDS = 0.001  # shown; shorter latencies lie on the lower edge
HEADROOM = 1.4  # above the highest figure
LATER_STEPS = 3.5  # without a point: the line is interrupted
MOST_TIMES = 8
GAP = 0.5  # pixels between two minutes
INTERVALS = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 14400)  # seconds between two times on the axis
BARS = {Minute.BAD: ("bad", 1.0), Minute.UNDECIDED: ("unsure", 0.7), Minute.GOOD: ("good", 0.35)}
"""The class of each bar, and its height: a colour alone would not be accessible."""


@dataclass(frozen=True, slots=True)
class ChartScale:
    """Maps times and seconds to coordinates; seconds are logarithmic between `low` and `high`."""

    period: ReportPeriod
    low: float
    high: float

    def x(self, at_wall: float) -> float:
        part = (at_wall - self.period.since_wall) / self.period.seconds
        return LEFT + (WIDTH - LEFT - RIGHT) * min(1.0, max(0.0, part))

    def y(self, seconds: float) -> float:
        inside = min(self.high, max(self.low, seconds))
        part = math.log(inside / self.low) / math.log(self.high / self.low)
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * part


def curve_svg(
    name: str, title: str, summary: str, curve: LatencyCurve, minutes: tuple[Minute, ...], period: ReportPeriod
) -> str:
    """Return the chart of a curve; bad minutes are shaded. `name` is an id that is unique in the page."""
    points = _columns(curve, period)
    scale = _scale(points, curve, period)
    bottom = HEIGHT - BOTTOM
    parts = [
        *_shade(spans_of(minutes, period) if minutes else (), scale),
        *_grid(scale),
        *_times(scale, bottom),
        *(_band(run, scale) for run in _runs(points, curve, period)),
        *(_line(run, scale) for run in _runs([point for point in points if point.estimate is not None], curve, period)),
    ]
    if curve.threshold is not None:
        y = scale.y(curve.threshold)
        parts.append(f'<line class="threshold" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        label = f"threshold {duration(curve.threshold)}"
        parts.append(
            f'<text class="threshold" x="{WIDTH - RIGHT - 4}" y="{y - 4:.1f}" text-anchor="end">{label}</text>'
        )
    return _svg(name, HEIGHT, title, f"{summary}. Shaded: bad minutes. Times are UTC.", parts)


def strip_svg(name: str, minutes: Sequence[Minute], period: ReportPeriod) -> str:
    """Return a bar for each minute of the period."""
    scale, bottom = ChartScale(period, 1.0, 2.0), STRIP_HEIGHT - BOTTOM
    parts, first = [], 0
    for verdict, run in _bars(minutes):
        if bar := BARS.get(verdict):
            kind, height = bar
            left, right = (scale.x(period.begin_of(minute)) for minute in (first, first + run))
            tall = height * (bottom - 2)
            parts.append(_rect(kind, left, bottom - tall, max(0.5, right - left - (run == 1) * GAP), tall))
        first += run
    counts = ", ".join(
        f"{minutes.count(verdict)} {text}"
        for verdict, text in (
            (Minute.BAD, "bad"),
            (Minute.UNDECIDED, "undecided"),
            (Minute.GOOD, "good"),
            (Minute.NO_DATA, "without a verdict"),
        )
    )
    return _svg(
        name,
        STRIP_HEIGHT,
        "The worst verdict of each minute",
        f"Minutes: {counts}. Tall: bad. Medium: undecided. Short: good. Gap: no verdict.",
        [*parts, *_times(scale, bottom)],
    )


def _bars(minutes: Sequence[Minute]) -> Iterator[tuple[Minute, int]]:
    """Yield the verdict of each bar, and for how many minutes it stands: of a long period, equal ones are combined."""
    if len(minutes) <= COLUMNS:
        yield from ((minute, 1) for minute in minutes)
    else:
        yield from ((verdict, len([*run])) for verdict, run in groupby(minutes))


def _svg(name: str, height: int, title: str, description: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>'
        f"{''.join(parts)}</svg>"
    )


# --- figures ----------------------------------------------------------------------------------------------------------


def _columns(curve: LatencyCurve, period: ReportPeriod) -> list[CurvePoint]:
    """Return at most `COLUMNS` points: of the points in one column, the highest."""
    width = max(curve.step, period.seconds / COLUMNS)
    columns: dict[int, list[CurvePoint]] = {}
    for point in curve.points:
        columns.setdefault(math.floor((point.at_wall - period.since_wall) / width), []).append(point)
    return [highest_point(points[-1].at_wall, points) for _, points in sorted(columns.items())]


def _runs(points: Sequence[CurvePoint], curve: LatencyCurve, period: ReportPeriod) -> Iterator[list[CurvePoint]]:
    """Yield the points between two interruptions."""
    longest = LATER_STEPS * max(curve.step, period.seconds / COLUMNS)
    run: list[CurvePoint] = []
    for point in points:
        if run and point.at_wall - run[-1].at_wall > longest:
            yield run
            run = []
        run.append(point)
    if run:
        yield run


def _scale(points: Sequence[CurvePoint], curve: LatencyCurve, period: ReportPeriod) -> ChartScale:
    figures = [curve.threshold] if curve.threshold else []
    figures += [point.estimate for point in points if point.estimate]
    bounds = [point.lower or point.upper for point in points if point.estimate is None]
    lowest = min([*figures, *(bound for bound in bounds if math.isfinite(bound))], default=1.0)
    highest = max(
        [
            *figures,
            *(point.lower for point in points),
            *(point.upper for point in points if math.isfinite(point.upper)),
        ],
        default=1.0,
    )
    low = max(SHORTEST_SECONDS, 10.0 ** math.floor(math.log10(max(SHORTEST_SECONDS, lowest))))
    return ChartScale(period, low, max(highest * HEADROOM, 10.0 * low))


# --- parts of a chart -------------------------------------------------------------------------------------------------


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def _shade(spans: Sequence[BadSpan], scale: ChartScale) -> Iterator[str]:
    for bad in spans:
        left, right = scale.x(bad.since_wall), scale.x(bad.until_wall)
        yield _rect("badtime", left, TOP, max(1.0, right - left), HEIGHT - BOTTOM - TOP)


def _grid(scale: ChartScale) -> Iterator[str]:
    """Yield a line and a label for each power of ten, or more if there would be fewer than three."""
    exponents = range(math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high)) + 1)
    shown = [exponent for exponent in exponents if 10.0**exponent <= scale.high]
    factors = (1.0,) if len(shown) > 2 else (1.0, 2.0, 5.0)  # noqa: PLR2004
    for seconds in (factor * 10.0**exponent for exponent in exponents for factor in factors):
        if scale.low * 0.999 <= seconds <= scale.high:
            y = scale.y(seconds)
            yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{duration(seconds)}</text>'


def _times(scale: ChartScale, bottom: int) -> Iterator[str]:
    """Yield the axis of time: a line, and a mark at each full interval."""
    period = scale.period
    interval = next((seconds for seconds in INTERVALS if period.seconds / seconds <= MOST_TIMES), INTERVALS[-1])
    yield f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>'
    first = math.ceil(period.since_wall / interval)
    for number in range(first, math.floor(period.until_wall / interval) + 1):
        x = scale.x(number * interval)
        yield f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4}"/>'
        anchor = "end" if x > WIDTH - RIGHT - 18 else "middle"
        yield f'<text x="{x:.1f}" y="{bottom + 17}" text-anchor="{anchor}">{clock(number * interval)}</text>'


def _band(run: Sequence[CurvePoint], scale: ChartScale) -> str:
    upper = [f"{scale.x(point.at_wall):.1f},{scale.y(point.upper):.1f}" for point in run]
    lower = [f"{scale.x(point.at_wall):.1f},{scale.y(point.lower):.1f}" for point in reversed(run)]
    return f'<polygon class="band" points="{" ".join([*upper, *lower])}"/>'


def _line(run: Sequence[CurvePoint], scale: ChartScale) -> str:
    points = " ".join(f"{scale.x(point.at_wall):.1f},{scale.y(point.estimate or 0.0):.1f}" for point in run)
    if len(run) == 1:
        x, _, y = points.partition(",")
        return f'<circle class="curve" cx="{x}" cy="{y}" r="1.5"/>'
    return f'<polyline class="curve" points="{points}"/>'
