"""Which ticks contradict the two inequalities of the revision clock, by what is known of each commit. Pure.

A tick with revision R, sent at s and answered at e, is to prove that every change up to R was committed before e, and
every newer one after s. When a change was committed is known within bounds, so a tick is counted only if it is wrong
wherever between its bounds each commit lies.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tests.support.writer import Write

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TickRecord:
    """A consistent list of nothing: when it was sent and answered (monotonic seconds), and its revision."""

    sent: float
    answered: float
    revision: int


@dataclass(frozen=True, slots=True, eq=False)
class CommitBounds:
    """The earliest and latest time at which each change became visible to readers, by ascending revision."""

    revisions: NDArray[np.int64]
    first: Floats
    last: Floats

    @classmethod
    def of(cls, writes: Iterable[Write], sighted: Mapping[int, float], committed: Mapping[int, float]) -> Self:
        """Return the bounds of these writes.

        A change is visible when its write is answered and when a watch delivered it (`sighted`). It is not visible
        before its write was sent, nor before the storage `committed` it, if the storage says when.
        """
        rows = sorted(
            (
                write.revision,
                max(write.before, committed.get(write.revision, write.before)),
                min(write.after, sighted.get(write.revision, write.after)),
            )
            for write in writes
            if write.revision is not None
        )
        revisions, first, last = zip(*rows, strict=True)
        return cls(np.array(revisions, dtype=np.int64), np.array(first), np.array(last))


@dataclass(frozen=True, slots=True)
class Contradictions:
    """How many of some observations contradict a statement, and by how many seconds at most."""

    count: int
    worst: float

    @classmethod
    def of(cls, excess: Floats) -> Self:
        """Return those with a positive excess."""
        beyond = excess[excess > 0.0]
        return cls(len(beyond), float(beyond.max(initial=0.0)))

    def __str__(self) -> str:
        return f"{self.count:,}, up to {1e3 * self.worst:.1f} ms" if self.count else "0"


def included_too_early(commits: CommitBounds, ticks: Sequence[TickRecord]) -> Contradictions:
    """Return the ticks with a change up to their revision that was not yet committed when they were answered."""
    latest = np.concatenate(([-np.inf], np.maximum.accumulate(commits.first)))
    covered = np.searchsorted(commits.revisions, [tick.revision for tick in ticks], side="right")
    return Contradictions.of(latest[covered] - np.array([tick.answered for tick in ticks]))


def missing_too_late(commits: CommitBounds, ticks: Sequence[TickRecord]) -> Contradictions:
    """Return the ticks without a change that was already committed when they were sent."""
    earliest = np.concatenate((np.minimum.accumulate(commits.last[::-1])[::-1], [np.inf]))
    covered = np.searchsorted(commits.revisions, [tick.revision for tick in ticks], side="right")
    return Contradictions.of(np.array([tick.sent for tick in ticks]) - earliest[covered])


def out_of_order(commits: CommitBounds, committed: Mapping[int, float]) -> Contradictions:
    """Return the changes that were committed before a change with a lower revision.

    Where the storage says when it committed them, these times are compared, else the bounds.
    """
    first = np.array([committed.get(revision, at) for revision, at in _pairs(commits.revisions, commits.first)])
    last = np.array([committed.get(revision, at) for revision, at in _pairs(commits.revisions, commits.last)])
    return Contradictions.of(np.maximum.accumulate(first) - last)


def latencies(commits: CommitBounds, arrivals: Mapping[int, float], revisions: Iterable[int]) -> Floats:
    """Return how long after their earliest possible commit these changes arrived on a watch that delivered them."""
    first = dict(_pairs(commits.revisions, commits.first))
    return np.array([arrivals[revision] - first[revision] for revision in revisions if revision in arrivals])


def _pairs(revisions: NDArray[np.int64], at: Floats) -> Iterable[tuple[int, float]]:
    return zip(revisions.tolist(), at.tolist(), strict=True)
