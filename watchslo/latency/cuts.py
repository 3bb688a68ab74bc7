"""The cut intervals of several tallies, as the rows of matrices."""

from dataclasses import dataclass

import numpy as np

from watchslo.model import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """m cuts [i, j), by edges, with their share of the events of their row; the numbers of the rows ascend."""

    rows: IntArray
    i: IntArray
    j: IntArray
    masses: FloatArray

    def of(self, chosen: BoolArray) -> "Cuts":
        """Return the cuts of some rows, chosen by a mask of length W, and number these rows again."""
        kept = chosen[self.rows]
        return Cuts((chosen.cumsum() - 1)[self.rows[kept]], self.i[kept], self.j[kept], self.masses[kept])

    def joined(self, other: "Cuts", rows: int) -> "Cuts":
        """Return the cuts of both; the first row of `other` becomes row number `rows`."""
        return Cuts(
            np.concatenate((self.rows, other.rows + rows)),
            np.concatenate((self.i, other.i)),
            np.concatenate((self.j, other.j)),
            np.concatenate((self.masses, other.masses)),
        )


def cumulative(p: FloatArray) -> FloatArray:
    """Return the mass below each edge; p is a distribution, or a matrix with one in each row."""
    below = np.zeros((*p.shape[:-1], p.shape[-1] + 1))
    np.cumsum(p, axis=-1, out=below[..., 1:])
    return below
