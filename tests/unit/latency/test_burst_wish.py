"""Which watches wish for more ticks."""

from dataclasses import replace
from math import inf

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
    WatchReading,
    WindowReading,
    WindowVerdict,
)

LATE, STRADDLES = BurstWish(BurstReason.LATE, 60.0), BurstWish(BurstReason.STRADDLES, 60.0)


def stream(
    estimate: float,
    verdict: WindowVerdict = WindowVerdict.UNDECIDED,
    *,
    events: int = 100,
    window: float = 60.0,
) -> WatchReading:
    """Return a watch with this estimate of its P99; its threshold is 1 s."""
    found = readings.SNAPSHOT.watches[0]
    objective = replace(found.track.objective, threshold=1.0, min_events=100, quantile=0.99, window=window)
    figures = (
        QuantileReading(0.5, 0.0, 0.001, inf),
        QuantileReading(0.99, 0.0, estimate, inf),
    )
    judged = WindowReading("judged", window, events, figures)
    track = replace(found.track, objective=objective, judged=judged, verdict=verdict)
    return replace(found, track=track)


def cause(of: WatchReading, confidence: Confidence = Confidence.HIGH, kind: Cause = Cause.CACHE_BEHIND) -> CauseReading:
    return CauseReading(kind, of.apiserver, of.watch, confidence, 0.0, "", "")


@pytest.mark.parametrize(
    ("estimate", "verdict", "wish"),
    [
        (0.4, WindowVerdict.UNDECIDED, STRADDLES),
        (0.4, WindowVerdict.GOOD, None),
        (0.9, WindowVerdict.UNDECIDED, None),
        (1.0, WindowVerdict.BAD, None),
        (1.3, WindowVerdict.UNDECIDED, LATE),
        (1.3, WindowVerdict.BAD, LATE),
    ],
)
def test_wish_needs_a_late_watch_or_a_verdict_that_a_burst_can_decide(
    estimate: float, verdict: WindowVerdict, wish: BurstWish | None
) -> None:
    assert burst_wish([stream(estimate, verdict)], [], 0.1) == wish


def test_late_watch_with_a_known_cause_wishes_only_for_a_verdict() -> None:
    late, undecided = stream(2.0, WindowVerdict.BAD), stream(2.0)
    assert burst_wish([late], [cause(late)], 0.1) is None
    assert burst_wish([undecided], [cause(undecided)], 0.1) == STRADDLES
    for unknown in (cause(late, Confidence.LOW), cause(late, kind=Cause.UNKNOWN), replace(cause(late), watch="other")):
        assert burst_wish([late], [unknown], 0.1) == LATE
    assert burst_wish([late], [replace(cause(late), watch=None, apiserver=None)], 0.1) is None


def test_wish_for_what_is_late_comes_first() -> None:
    late, straddles = stream(2.0), stream(0.4)
    assert burst_wish([straddles, late, straddles], [], 0.1) == LATE


def test_few_events_wish_for_nothing() -> None:
    assert burst_wish([stream(2.0, events=99)], [], 0.1) is None


def test_watch_without_quantiles_wishes_for_nothing() -> None:
    made = stream(0.4)
    assert burst_wish([replace(made, track=replace(made.track, judged=None))], [], 0.1) is None


def test_burst_is_as_long_as_the_window_but_not_for_ever() -> None:
    assert burst_wish([stream(0.4, window=30.0)], [], 0.1) == BurstWish(BurstReason.STRADDLES, 30.0)
    assert burst_wish([stream(0.4, window=600.0)], [], 0.1) == BurstWish(BurstReason.STRADDLES, LONGEST_SECONDS)
