"""Which watches wish for more ticks."""

from dataclasses import replace

import pytest

from tests.unit.serve import readings
from watchslo.latency.burst_wish import LONGEST_SECONDS, burst_wish
from watchslo.snapshot import (
    BurstReason,
    BurstWish,
    Cause,
    CauseReading,
    Confidence,
    QuantileReading,
    StreamReading,
    WindowReading,
)

LATE, STRADDLES = BurstWish(BurstReason.LATE, 60.0), BurstWish(BurstReason.STRADDLES, 60.0)


def stream(lower: float, estimate: float, upper: float, *, events: int = 100, window: float = 60.0) -> StreamReading:
    """Return a watch with these bounds of its P99; its threshold is 1 s."""
    found = readings.SNAPSHOT.streams[0]
    objective = replace(found.track.objective, threshold=1.0, min_events=100, quantile=0.99, window=window)
    figures = (
        QuantileReading(0.5, 0.0, 0.001, 0.5, resolved=True),
        QuantileReading(0.99, lower, estimate, upper, resolved=True),
    )
    track = replace(found.track, objective=objective, judged=WindowReading("judged", window, events, figures))
    return replace(found, track=track)


def cause(
    of: StreamReading, confidence: Confidence = Confidence.HIGH, kind: Cause = Cause.CACHE_BEHIND
) -> CauseReading:
    return CauseReading(kind, of.apiserver, of.watch, confidence, 0.0, "", "")


@pytest.mark.parametrize(
    ("bounds", "wish"),
    [
        ((0.0, 0.4, 1.2), STRADDLES),
        ((0.0, 0.4, 1.0), None),
        ((0.0, 0.9, 1.2), None),
        ((0.9, 1.3, 1.5), LATE),
        ((1.0, 1.0, 1.2), None),
    ],
)
def test_wish_needs_bounds_that_a_burst_can_decide(bounds: tuple[float, float, float], wish: BurstWish | None) -> None:
    assert burst_wish([stream(*bounds)], [], 0.1) == wish


def test_late_watch_with_a_known_cause_wishes_only_for_a_verdict() -> None:
    late, certain = stream(1.1, 2.0, 3.0), stream(0.9, 2.0, 3.0)
    assert burst_wish([late], [cause(late)], 0.1) is None
    assert burst_wish([certain], [cause(certain)], 0.1) == STRADDLES
    for unknown in (cause(late, Confidence.LOW), cause(late, kind=Cause.UNKNOWN), replace(cause(late), watch="other")):
        assert burst_wish([late], [unknown], 0.1) == LATE
    assert burst_wish([late], [replace(cause(late), watch=None, apiserver=None)], 0.1) is None


def test_wish_for_what_is_late_comes_first() -> None:
    late, straddles = stream(1.1, 2.0, 3.0), stream(0.0, 0.4, 1.2)
    assert burst_wish([straddles, late, straddles], [], 0.1) == LATE


def test_few_events_wish_for_nothing() -> None:
    assert burst_wish([stream(0.0, 0.4, 1.2, events=99)], [], 0.1) is None


def test_watch_without_quantiles_wishes_for_nothing() -> None:
    made = stream(0.0, 0.4, 1.2)
    assert burst_wish([replace(made, track=replace(made.track, judged=None))], [], 0.1) is None


def test_burst_is_as_long_as_the_window_but_not_for_ever() -> None:
    assert burst_wish([stream(0.0, 0.4, 1.2, window=30.0)], [], 0.1) == BurstWish(BurstReason.STRADDLES, 30.0)
    assert burst_wish([stream(0.0, 0.4, 1.2, window=600.0)], [], 0.1) == BurstWish(
        BurstReason.STRADDLES, LONGEST_SECONDS
    )
