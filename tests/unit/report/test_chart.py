"""Charts: where points are drawn, when a line is interrupted, and what a reader without eyes gets."""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from xml.etree import ElementTree as ET

import pytest

from tests.support.transcripts import of_states
from watchslo.report.chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, ChartScale, curve_svg, strip_svg
from watchslo.report.incident import CurvePoint, LatencyCurve, ReportPeriod
from watchslo.timeline.day import Minute

HOUR = ReportPeriod(0.0, 3600.0)
SVG = "{http://www.w3.org/2000/svg}"


def drawn(*points: CurvePoint, threshold: float | None = None) -> str:
    return curve_svg("one", "a title", "a summary", LatencyCurve(points, 5.0, threshold=threshold), (), HOUR)


def each(times: Iterable[int], estimate: float | None, lower: float, upper: float) -> list[CurvePoint]:
    return [CurvePoint(at, estimate, lower, upper) for at in times]


CHARTS = {
    "two points, of which one has no upper bound": drawn(
        CurvePoint(0.0, 0.1, 0.05, 0.2), CurvePoint(15.0, 0.2, 0.1, math.inf)
    ),
    "no points for a quarter of an hour": drawn(*each([*range(0, 300, 5), *range(1200, 1500, 5)], 0.1, 0.05, 0.2)),
    "points without an estimate": drawn(*each(range(0, 100, 5), None, 0.0, 0.002)),
    "points without an estimate, below a threshold": drawn(*each(range(0, 100, 5), None, 0.0, 0.6), threshold=1.0),
    "a single point": drawn(CurvePoint(600.0, 0.1, 0.05, 0.2)),
    "a point each second, and one that is higher": drawn(
        *each(range(1800), 0.1, 0.05, 0.2), CurvePoint(1800, 2.0, 0.05, 0.2), *each(range(1801, 3600), 0.1, 0.05, 0.2)
    ),
}


def lines(svg: str) -> Iterator[str]:
    """Yield what is drawn, except for the grid and the axes: of many points, where they lie."""
    for element in ET.fromstring(svg):
        kind = f"{element.tag.rpartition('}')[2]} {element.get('class')}"
        if points := [tuple(map(float, pair.split(","))) for pair in (element.get("points") or "").split()]:
            x, y = zip(*points, strict=True)
            yield f"{kind}: {len(points)} points, x {min(x):g} to {max(x):g}, y {min(y):g} to {max(y):g}"
        elif element.get("class") not in (None, "grid", "axis"):
            place = (f"{name} {value}" for name, value in element.items() if name not in ("class", "text-anchor"))
            yield f"{kind}: {', '.join(place)}"


def test_charts_match_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("report-charts.txt", of_states({name: lines(chart) for name, chart in CHARTS.items()}))


def test_points_lie_on_a_logarithmic_scale() -> None:
    scale = ChartScale(HOUR, 0.001, 1.0)
    assert (scale.x(0.0), scale.x(3600.0)) == (LEFT, WIDTH - RIGHT)
    assert (scale.y(1.0), scale.y(0.001)) == (TOP, HEIGHT - BOTTOM)
    assert scale.y(0.1) - scale.y(1.0) == pytest.approx(scale.y(0.01) - scale.y(0.1))
    assert (scale.y(math.inf), scale.y(0.0)) == (TOP, HEIGHT - BOTTOM)
    assert scale.x(-5.0) == LEFT


@pytest.mark.parametrize(("seconds", "labels"), [(0.1, 3), (0.002, 3), (30.0, 3)])
def test_there_are_enough_labels(seconds: float, labels: int) -> None:
    picture = ET.fromstring(drawn(CurvePoint(600.0, seconds, seconds / 2, seconds * 2)))
    shown = [one.text or "" for one in picture.iter("text") if re.search(r" m?s$", one.text or "")]
    assert len(shown) >= labels
    assert len(shown) == len({*shown})


def test_strip_has_bars_of_different_heights() -> None:
    minutes = (Minute.BAD, Minute.UNDECIDED, Minute.GOOD, Minute.NO_DATA)
    picture = ET.fromstring(strip_svg("two", minutes, ReportPeriod(0.0, 240.0)))
    heights = [float(one.get("height") or 0) for one in picture.iter("rect")]
    assert heights == sorted(heights, reverse=True)
    assert [one.get("class") for one in picture.iter("rect")] == ["bad", "unsure", "good"]
    (text,) = [one.text for one in picture.iter("desc")]
    assert text is not None
    assert text.startswith("Minutes: 1 bad, 1 undecided, 1 good, 1 without a verdict.")


def test_equal_minutes_of_a_long_period_are_one_bar() -> None:
    minutes = (Minute.GOOD,) * 700 + (Minute.BAD,) * 40 + (Minute.NO_DATA,) * 100 + (Minute.GOOD,) * 600
    picture = ET.fromstring(strip_svg("two", minutes, ReportPeriod(0.0, 86400.0)))
    bars = [(float(one.get("x") or 0), float(one.get("width") or 0)) for one in picture.iter("rect")]
    assert len(bars) == 3
    assert bars[0][0] + bars[0][1] == pytest.approx(bars[1][0], abs=0.2)
    assert bars[2][0] + bars[2][1] == pytest.approx(WIDTH - RIGHT, abs=0.2)
