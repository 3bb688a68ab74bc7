"""How many independent events a window has: events behind one delay say little more than one of them.

Events that were committed and delayed together have the same cut interval. Independent ones have the same interval by
chance only. So the number of distinct intervals in each block shows how many independent events there were.
"""

import numpy as np

from watchslo.latency.cuts import Cuts
from watchslo.model import FloatArray, IntArray

BY_CHANCE = 0.95  # share of the expected number of distinct intervals: with less, events are not independent
HALVINGS = 12  # of the logarithm of the number: to 1% of 100,000 events


def independent_events(cuts: Cuts, n: IntArray, blocks: IntArray, distinct: IntArray) -> FloatArray:
    """Return how many independent events would have as many distinct intervals: at least 1 and at most n (W,).

    The n events of each row of the cuts arrived in so many `blocks` (W,) and have `distinct` intervals (W,), which
    are counted in each block by itself. Intervals are occupied as boxes are by balls: x balls that fall into the box k
    of a block at the rate x * masses[k] / blocks occupy blocks * (1 - exp(-rate)) of the boxes k.
    """
    found = n.astype(np.float64)
    fewer = distinct < BY_CHANCE * _occupied(cuts, found, blocks)
    if not fewer.any():
        return found
    some, most = cuts.of(fewer), np.log(found[fewer])
    least: FloatArray = np.zeros(len(most))
    for _ in range(HALVINGS):
        middle = (least + most) / 2
        is_less = _occupied(some, np.exp(middle), blocks[fewer]) < distinct[fewer]
        least, most = np.where(is_less, middle, least), np.where(is_less, most, middle)
    found[fewer] = np.exp(most)
    return found


def _occupied(cuts: Cuts, n: FloatArray, blocks: IntArray) -> FloatArray:
    """Return the expected number of distinct intervals of n independent events in so many blocks (W,)."""
    rates = (n / blocks)[cuts.rows] * cuts.masses
    starts = cuts.rows.searchsorted(range(len(n)))
    share: FloatArray = np.add.reduceat(-np.expm1(-rates), starts)
    return blocks * share
