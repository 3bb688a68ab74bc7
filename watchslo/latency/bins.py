"""The bins of latencies: a fine logarithmic grid, with an edge at each `le` and each threshold.

The grid is that of Prometheus native histograms, schema 3: eight bins for each doubling, so each edge is 9% above the
previous one. Each `le` and each threshold is itself an edge, so no figure about it needs interpolation.
"""

from collections.abc import Iterable

import numpy as np

from watchslo.model import FloatArray, IntArray

LES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""The `le` edges of every histogram, in seconds; configured thresholds are added."""

BINS_A_DOUBLING = 8
FINEST_DOUBLING, COARSEST_DOUBLING = -10, 7  # from 2^-10 s, the schema's edge nearest to 1 ms, to 128 s
SHORTEST_EDGE_DISTANCE = 0.03  # a grid edge closer than this to a required edge is dropped: their bin would be narrow
NATIVE_SCHEMA = 3  # of Prometheus' native histograms: bucket n ends at 2^(n / BINS_A_DOUBLING)
NATIVE_ZERO_THRESHOLD = 2.0**FINEST_DOUBLING  # seconds; shorter latencies are not divided further
NATIVE_FIRST = FINEST_DOUBLING * BINS_A_DOUBLING + 1  # index of the bucket that begins there


class Bins:
    """The bins of one process: bin k is (edges[k], edges[k + 1]] in seconds. The edges go from 0 to infinity.

    `les` are the edges that histograms show, positive and finite; `le_cuts` are their indexes in `edges`. `midpoints`
    has the middle of each bin. `uniform` is the distribution with the same mass in each bin; hundreds of searches start
    from it, so it is read-only.

    The upper edges of native buckets are the whole grid, from `NATIVE_ZERO_THRESHOLD` on. Each is `native_shares` of
    the way through bin `native_bins`: 0 unless the grid edge was dropped.
    """

    def __init__(self, les: Iterable[float] = LES) -> None:
        self.les: tuple[float, ...] = tuple(sorted(set(les)))
        wanted = np.array(self.les)
        steps = np.arange(FINEST_DOUBLING * BINS_A_DOUBLING, COARSEST_DOUBLING * BINS_A_DOUBLING + 1)
        grid = np.exp2(steps / BINS_A_DOUBLING)
        crowded = (np.abs(grid[:, None] / wanted - 1) < SHORTEST_EDGE_DISTANCE).any(axis=1)
        self.edges: FloatArray = np.concatenate(([0.0], np.union1d(grid[~crowded], wanted), [np.inf]))
        self.le_cuts: IntArray = np.searchsorted(self.edges, wanted)
        self.count = len(self.edges) - 1
        # The open bin counts with its lower edge, which is all that is certain.
        self.midpoints: FloatArray = np.append((self.edges[:-2] + self.edges[1:-1]) / 2, self.edges[-2])
        self.uniform: FloatArray = np.full(self.count, 1 / self.count)
        self.uniform.flags.writeable = False
        self.native_bins: IntArray = np.searchsorted(self.edges, grid, side="right") - 1
        lower, upper = self.edges[self.native_bins], self.edges[self.native_bins + 1]
        self.native_shares: FloatArray = (grid - lower) / (upper - lower)

    def edge(self, seconds: float) -> int:
        """Return the index of an edge: of one in `les`."""
        index = int(np.searchsorted(self.edges, seconds))
        assert self.edges[index] == seconds, f"{seconds} is no edge"
        return index

    def cover(self, lower: FloatArray, upper: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the narrowest bins [i, j) that cover each interval: edges[i] <= lower, upper <= edges[j], and i < j.

        Negative ends count as 0: a latency is never negative, but the difference of two clocks may be.
        """
        i = np.clip(np.searchsorted(self.edges, lower, side="right") - 1, 0, self.count - 1)
        j = np.searchsorted(self.edges, upper)
        return i, np.maximum(i + 1, j)
