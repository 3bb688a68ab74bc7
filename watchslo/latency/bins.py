"""Where latencies are told apart: bins that are narrow where it matters, and edges wherever somebody asks.

The grid is that of Prometheus native histograms, schema 3: eight bins to each doubling, so an edge is 9% above the one
before. Each `le` and each threshold is an edge of its own, so that what is said about it needs no interpolation.
"""

from collections.abc import Iterable

import numpy as np

from watchslo.model import FloatArray, IntArray

LES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""The base of every histogram's `le`, in seconds; configured thresholds come on top."""

BINS_A_DOUBLING = 8
FINEST_DOUBLING, COARSEST_DOUBLING = -10, 7  # from 2^-10 s, the schema's edge next to a millisecond, to 128 s
GIVE_WAY = 0.03  # a grid edge this close to a wanted one would only make a sliver of a bin


class Bins:
    """The bins of one process: bin k is (edges[k], edges[k + 1]], in seconds, and the edges go from 0 to infinity.

    `les` are the edges that histograms show, positive and finite, and `le_cuts` their places among all edges.
    """

    def __init__(self, les: Iterable[float] = LES) -> None:
        self.les: tuple[float, ...] = tuple(sorted(set(les)))
        wanted = np.array(self.les)
        steps = np.arange(FINEST_DOUBLING * BINS_A_DOUBLING, COARSEST_DOUBLING * BINS_A_DOUBLING + 1)
        grid = np.exp2(steps / BINS_A_DOUBLING)
        crowded = (np.abs(grid[:, None] / wanted - 1) < GIVE_WAY).any(axis=1)
        self.edges: FloatArray = np.concatenate(([0.0], np.union1d(grid[~crowded], wanted), [np.inf]))
        self.le_cuts: IntArray = np.searchsorted(self.edges, wanted)
        self.count = len(self.edges) - 1
        # In the open bin nothing is claimed beyond what is certain.
        self.midpoints: FloatArray = np.append((self.edges[:-2] + self.edges[1:-1]) / 2, self.edges[-2])

    def cover(self, lower: FloatArray, upper: FloatArray) -> tuple[IntArray, IntArray]:
        """The narrowest bins [i, j) that hold each interval: edges[i] <= lower, upper <= edges[j], and i < j.

        Ends below 0 are taken for 0: a latency is none, but the difference of two clocks' readings may be.
        """
        i = np.clip(np.searchsorted(self.edges, lower, side="right") - 1, 0, self.count - 1)
        j = np.searchsorted(self.edges, upper)
        return i, np.maximum(i + 1, j)
