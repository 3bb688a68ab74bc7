"""Charts: where points are drawn, when a line is interrupted, and what a reader without eyes gets."""

import math
import re
from xml.etree import ElementTree as ET

import pytest

from watchslo.report.chart import BOTTOM, COLUMNS, HEIGHT, LEFT, RIGHT, TOP, WIDTH, ChartScale, curve_svg, strip_svg
from watchslo.report.incident import CurvePoint, LatencyCurve, ReportPeriod
from watchslo.timeline.day import Minute

HOUR = ReportPeriod(0.0, 3600.0)
SVG = "{http://www.w3.org/2000/svg}"


def drawn(*points: CurvePoint, threshold: float | None = None, minutes: tuple[Minute, ...] = ()) -> ET.Element:
    curve = LatencyCurve(points, 5.0, threshold=threshold)
    return ET.fromstring(curve_svg("one", 'a "title" <1>', "a summary", curve, minutes, HOUR))


def of(picture: ET.Element, tag: str, kind: str) -> list[ET.Element]:
    return [one for one in picture.iter(tag) if one.get("class") == kind]


def coordinates(element: ET.Element) -> list[tuple[float, float]]:
    pairs = (pair.split(",") for pair in (element.get("points") or "").split())
    return [(float(x), float(y)) for x, y in pairs]


def test_points_lie_on_a_logarithmic_scale() -> None:
    scale = ChartScale(HOUR, 0.001, 1.0)
    assert (scale.x(0.0), scale.x(3600.0)) == (LEFT, WIDTH - RIGHT)
    assert (scale.y(1.0), scale.y(0.001)) == (TOP, HEIGHT - BOTTOM)
    assert scale.y(0.1) - scale.y(1.0) == pytest.approx(scale.y(0.01) - scale.y(0.1))
    assert (scale.y(math.inf), scale.y(0.0)) == (TOP, HEIGHT - BOTTOM)
    assert scale.x(-5.0) == LEFT


def test_line_and_band_follow_the_points() -> None:
    picture = drawn(CurvePoint(0.0, 0.1, 0.05, 0.2), CurvePoint(15.0, 0.2, 0.1, math.inf))
    (line,), (band,) = of(picture, "polyline", "curve"), of(picture, "polygon", "band")
    assert len(coordinates(line)) == 2
    assert len(coordinates(band)) == 4
    assert coordinates(band)[1][1] == TOP, "an infinite bound reaches the upper edge"
    assert all(TOP <= y <= HEIGHT - BOTTOM for _, y in coordinates(band))


def test_missing_points_interrupt_the_line() -> None:
    times = [*range(0, 300, 5), *range(1200, 1500, 5)]
    picture = drawn(*(CurvePoint(at, 0.1, 0.05, 0.2) for at in times))
    assert len(of(picture, "polyline", "curve")) == len(of(picture, "polygon", "band")) == 2


def test_points_without_an_estimate_have_a_band_only() -> None:
    picture = drawn(*(CurvePoint(at, None, 0.0, 0.002) for at in range(0, 100, 5)))
    assert of(picture, "polyline", "curve") == []
    assert len(of(picture, "polygon", "band")) == 1


def test_band_below_the_threshold_is_visible() -> None:
    picture = drawn(*(CurvePoint(at, None, 0.0, 0.6) for at in range(0, 100, 5)), threshold=1.0)
    (band,) = of(picture, "polygon", "band")
    assert min(y for _, y in coordinates(band)) < HEIGHT - BOTTOM


def test_a_single_point_is_a_dot() -> None:
    picture = drawn(CurvePoint(600.0, 0.1, 0.05, 0.2))
    assert len(of(picture, "circle", "curve")) == 1


def test_many_points_become_columns_with_the_highest_of_each() -> None:
    points = [CurvePoint(at, 2.0 if at == 1800 else 0.1, 0.05, 0.2) for at in range(0, 3600, 1)]
    (line,) = of(drawn(*points), "polyline", "curve")
    assert len(coordinates(line)) == COLUMNS
    assert min(y for _, y in coordinates(line)) < 40


@pytest.mark.parametrize(("seconds", "labels"), [(0.1, 3), (0.002, 3), (30.0, 3)])
def test_there_are_enough_labels(seconds: float, labels: int) -> None:
    picture = drawn(CurvePoint(600.0, seconds, seconds / 2, seconds * 2))
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
