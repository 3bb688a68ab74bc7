"""Decides whether more ticks would decide something: whether a watch meets its objective, or why it is late."""

from collections.abc import Iterable

from watchslo.snapshot import (
    BurstReason,
    BurstWish,
    Cause,
    CauseReading,
    Confidence,
    WatchReading,
    WindowVerdict,
)

LONGEST_SECONDS = 120.0  # of a burst: longer windows are decided by their newest part, or not at all
RESOLVED_GAPS = 2.0  # distance of the estimate from the threshold, in gaps of a burst, at which its bounds decide


def burst_wish(watches: Iterable[WatchReading], causes: Iterable[CauseReading], gap: float) -> BurstWish | None:
    """Return what the watches of one clock wish, first for one that is late; None if a burst would decide nothing.

    `gap` is the mean seconds between two ticks of a burst.
    """
    known = [cause for cause in causes if cause.cause is not Cause.UNKNOWN and cause.confidence is not Confidence.LOW]
    found: BurstWish | None = None
    for watch in watches:
        reason = _reason(watch, gap, is_explained=any(_is_about(cause, watch) for cause in known))
        if reason and (found is None or found.reason is not BurstReason.LATE):
            found = BurstWish(reason, min(watch.track.objective.window, LONGEST_SECONDS))
    return found


def _reason(watch: WatchReading, gap: float, *, is_explained: bool) -> BurstReason | None:
    """Return why a burst would help to judge a watch, whose lateness may be explained already; None if it would not."""
    objective, judged = watch.track.objective, watch.track.judged
    if judged is None or judged.events < max(1, objective.min_events):
        return None
    estimate = next(quantile.estimate for quantile in judged.quantiles if quantile.q == objective.quantile)
    if estimate > objective.threshold and not is_explained:
        return BurstReason.LATE
    is_decidable = abs(estimate - objective.threshold) >= RESOLVED_GAPS * gap
    return BurstReason.STRADDLES if is_decidable and watch.track.verdict is WindowVerdict.UNDECIDED else None


def _is_about(cause: CauseReading, watch: WatchReading) -> bool:
    return cause.apiserver in (None, watch.apiserver) and cause.watch in (None, watch.watch)
