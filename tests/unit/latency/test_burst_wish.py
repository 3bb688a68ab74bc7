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


WRONG = stream(2.0, WindowVerdict.BAD)
UNDECIDED = stream(2.0)
NO_QUANTILES = replace(stream(0.4), track=replace(stream(0.4).track, judged=None))
CASES: dict[str, tuple[list[WatchReading], list[CauseReading], BurstWish | None]] = {
    "undecided": ([stream(0.4)], [], STRADDLES),
    "good": ([stream(0.4, WindowVerdict.GOOD)], [], None),
    "too near to be decided": ([stream(0.9)], [], None),
    "bad, but not late": ([stream(1.0, WindowVerdict.BAD)], [], None),
    "late and undecided": ([stream(1.3)], [], LATE),
    "late and bad": ([stream(1.3, WindowVerdict.BAD)], [], LATE),
    "late first": ([stream(0.4), stream(2.0), stream(0.4)], [], LATE),
    "few events": ([stream(2.0, events=99)], [], None),
    "no quantiles": ([NO_QUANTILES], [], None),
    "bad by a known cause": ([WRONG], [cause(WRONG)], None),
    "undecided by a known cause": ([UNDECIDED], [cause(UNDECIDED)], STRADDLES),
    "bad by an uncertain cause": ([WRONG], [cause(WRONG, Confidence.LOW)], LATE),
    "bad by an unknown cause": ([WRONG], [cause(WRONG, kind=Cause.UNKNOWN)], LATE),
    "cause of another watch": ([WRONG], [replace(cause(WRONG), watch="other")], LATE),
    "cause of all watches": ([WRONG], [replace(cause(WRONG), watch=None, apiserver=None)], None),
    "short window": ([stream(0.4, window=30.0)], [], BurstWish(BurstReason.STRADDLES, 30.0)),
    "long window": ([stream(0.4, window=600.0)], [], BurstWish(BurstReason.STRADDLES, LONGEST_SECONDS)),
}


@pytest.mark.parametrize(("watches", "causes", "wish"), CASES.values(), ids=CASES)
def test_wish_needs_a_late_watch_or_a_verdict_that_a_burst_can_decide(
    watches: list[WatchReading], causes: list[CauseReading], wish: BurstWish | None
) -> None:
    assert burst_wish(watches, causes, 0.1) == wish
