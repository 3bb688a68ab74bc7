"""What a daemon without any delay of its own would show: the P99 of watches whose events all arrive at once.

Two ticks a second leave an interval of about half a second for each event, and a watch with few events has few
intervals. So the estimate of one watch has an error that no faster daemon removes. Here it is computed for latencies
of one constant, with the estimator of the product.
"""

import numpy as np

from watchslo.latency.bins import Bins
from watchslo.latency.estimate import QUANTILES, Estimation, TickSpacing, solve
from watchslo.latency.tally import Tally, tally
from watchslo.model import FloatArray

WINDOW_SECONDS = 60.0
LATENCY_SECONDS = 0.0003  # as the apiserver of the benchmark states it
TICK_GAP_SECONDS = (0.25, 0.75)
ROUND_TRIP_SECONDS = 0.002


def p99_without_delay(watches: int, events: float, seed: int = 0) -> FloatArray:
    """Return the estimated P99 in seconds, of shape (watches,), if each watch gets `events` in a minute on average."""
    random = np.random.default_rng(seed)
    sent = random.uniform(*TICK_GAP_SECONDS, int(2 * WINDOW_SECONDS / TICK_GAP_SECONDS[0])).cumsum()
    bins = Bins()

    def minute() -> Tally:
        committed = sent[1] + random.uniform(0, WINDOW_SECONDS, max(1, random.poisson(events)))
        following = np.searchsorted(sent + ROUND_TRIP_SECONDS / 2, committed)
        received = committed + LATENCY_SECONDS
        lower = np.maximum(0.0, received - sent[following] - ROUND_TRIP_SECONDS)
        upper = received - sent[following - 1]
        return tally(bins, lower, upper, lower, upper)

    ticks = TickSpacing(ROUND_TRIP_SECONDS, sum(TICK_GAP_SECONDS) / 2)
    estimations = [Estimation((minute(),), bins.uniform, ticks) for _ in range(watches)]
    solve(estimations)
    return np.array([one.figures[QUANTILES.index(0.99)][1] for one in estimations])
