"""Texts of a report: times, spans, counts and bounds."""

import math
from datetime import UTC, date, datetime

from watchslo.report.incident import CurvePoint, ReportPeriod
from watchslo.snapshot import Confidence
from watchslo.timeline.figure import between
from watchslo.timeline.format import ABSENT, counted, duration

_RANKS = (None, Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH)
_ABOUT = 0.05  # a sum of increases is no whole number if Prometheus extrapolates


def confidence_rank(confidence: Confidence | None) -> int:
    """Return a number that is higher for more confidence."""
    return _RANKS.index(confidence)


def clock(wall: float) -> str:
    """Return the time of day in UTC, without the time zone: `14:02`."""
    return datetime.fromtimestamp(wall, UTC).strftime("%H:%M")


def at(wall: float) -> str:
    """Return date and time: `2026-03-01 14:02 UTC`."""
    return f"{dated(wall)} UTC"


def span(since_wall: float, until_wall: float, word: str = "and") -> str:
    """Return two times joined by a word, the date only once: `2026-03-01 14:02 and 14:31 UTC`."""
    last = clock(until_wall) if _date(since_wall) == _date(until_wall) else dated(until_wall)
    return f"{dated(since_wall)} {word} {last} UTC"


def times(since_wall: float, until_wall: float | None, period: ReportPeriod) -> str:
    """Return two times of a period, with dates only if the period has several: `from 14:02 to 14:31 UTC`."""
    said = clock if _date(period.since_wall) == _date(period.until_wall) else dated
    since = said(since_wall) if _date(since_wall) == _date(period.since_wall) else dated(since_wall)
    return f"since {since} UTC" if until_wall is None else f"from {since} to {said(until_wall)} UTC"


def dated(wall: float) -> str:
    """Return date and time of day in UTC, without the time zone: `2026-03-01 14:02`."""
    return f"{datetime.fromtimestamp(wall, UTC):%Y-%m-%d %H:%M}"


def _date(wall: float) -> date:
    return datetime.fromtimestamp(wall, UTC).date()


def bounds(point: CurvePoint) -> str:
    """Return the proven bounds of a quantile: `0.9 s to 1.2 s`, `at least 0.9 s`."""
    if math.isinf(point.upper):
        return f"at least {duration(point.lower)}"
    return between(point)


def estimate_of(point: CurvePoint | None) -> str:
    """Return the estimate, or a dash."""
    return ABSENT if point is None or point.estimate is None else duration(point.estimate)


def number(count: float, noun: str) -> str:
    """Return a count with its noun, which may have been extrapolated: `1 event`, `about 4,210 events`."""
    whole = round(count)
    about = "about " if abs(count - whole) > _ABOUT else ""
    return f"{about}{counted(whole, noun)}"


def share(part: float, whole: float) -> str:
    """Return a part as a percentage of the whole: `2.34%`."""
    return f"{100.0 * part / whole:.3g}%" if part < whole else "100%"
