"""The longest latencies of a block or a window, one by one, for samples that are known more exactly than by a bin.

If revisions are commit times, each latency is known to milliseconds, and a bin at one second is 90 ms wide. High
quantiles and the maximum are then those of the samples. Only the longest ones are kept: so the memory is bounded, and
where a quantile is not among them, it has the bounds of its bins.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from watchslo.model import FloatArray, Interval

KEPT = 128  # of a block, in 1 KiB: for the P99 of a minute with 12,000 events, if all long ones arrive in one block


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """The longest latencies of some samples in seconds: their proven lower ends and proven upper ends.

    Both descend, so that equal positions need not be of the same sample. All upper ends above `floor` are here.
    """

    lower: NDArray[np.float32]
    upper: NDArray[np.float32]
    floor: float = -np.inf

    @classmethod
    def of(cls, lower: FloatArray, upper: FloatArray) -> "Tail":
        """Return the longest of n latencies; their ends are rounded outward to 32 bits."""
        least = np.nextafter(lower.astype(np.float32), np.float32(-np.inf))
        most = np.nextafter(upper.astype(np.float32), np.float32(np.inf))
        return cls(_descending(least), _descending(most)).cut()

    @staticmethod
    def joined(parts: Sequence["Tail"]) -> "Tail":
        """Return the longest latencies of all samples of at least one part; it is not cut."""
        if len(parts) == 1:
            return parts[0]
        lower, upper = np.concatenate([(part.lower, part.upper) for part in parts], axis=1)
        return Tail(_descending(lower), _descending(upper), max(part.floor for part in parts))

    def cut(self) -> "Tail":
        """Return the longest `KEPT` of them."""
        if len(self.upper) <= KEPT:
            return self
        # Copies: a view would keep everything.
        return Tail(self.lower[:KEPT].copy(), self.upper[:KEPT].copy(), max(self.floor, float(self.upper[KEPT])))

    def bounds(self, rank: int) -> Interval:
        """Return the proven bounds of the longest latency (rank 1), or of the one of this rank.

        It is at least that lower end, and at most that upper end unless one above may be missing.
        """
        if rank > len(self.upper):
            return Interval(0.0, np.inf)
        upper = float(self.upper[rank - 1])
        return Interval(max(0.0, float(self.lower[rank - 1])), upper if upper >= self.floor else np.inf)


def _descending(ends: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.sort(ends)[::-1]
