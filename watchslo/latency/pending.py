"""The events of many watches between their arrival and their evaluation, as columns.

An event is *held* while it is not known whether the clock can date its watch. Then it is *pending* until a tick seals
the second in which it arrived. Then it is measured, and only counts of bins remain of it. So the memory of held and
pending events is bounded by their number, and that of samples by the number of bins.
"""

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from watchslo.latency.bins import Bins
from watchslo.latency.tail import Tail
from watchslo.latency.tally import BLOCK_SECONDS, Slot, Tally, small, sum_by_key, tally_keys
from watchslo.model import BoolArray, Bounds, FloatArray, IntArray

PENDING_EVENTS = 1_048_576  # of a domain, in 24 MiB
HELD_EVENTS = 262_144  # of a domain, in 4 MiB
COUNTED_KEYS = 262_144  # above this number, counts of the same key are added up before the next evaluation

# One sort key of 63 bits: the row, the block and the key of a tally.
_KEY_BITS = 20  # for 1,023 edges
_BLOCK_BITS = 20  # blocks of 60 days
_NEWEST_BLOCK = 2**_BLOCK_BITS - 1


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """n events in the order of their arrival: the numbers of their watches, arrival times and revisions."""

    watches: IntArray
    received: FloatArray
    revisions: IntArray

    def __len__(self) -> int:
        return len(self.received)

    def at(self, chosen: BoolArray | IntArray | slice) -> "Arrivals":
        """Return some of the events, chosen by a mask, by their positions or by a slice."""
        return Arrivals(self.watches[chosen], self.received[chosen], self.revisions[chosen])

    @staticmethod
    def by_time(parts: Sequence["Arrivals"]) -> "Arrivals":
        """Return the events of at least one part in the order of their arrival."""
        joined = _joined(parts)
        return joined.at(np.argsort(joined.received, kind="stable"))

    @staticmethod
    def of_each(parts: Sequence["Arrivals"]) -> Iterator[tuple[int, "Arrivals"]]:
        """Return the numbers of the watches in these parts, which follow in time, with the events of each."""
        if not parts:
            return
        joined = _joined(parts)
        ordered = joined.at(np.argsort(joined.watches, kind="stable"))
        numbers, firsts = np.unique(ordered.watches, return_index=True)
        spans = pairwise([*firsts.tolist(), len(ordered)])
        for number, (first, end) in zip(numbers.tolist(), spans, strict=True):
            yield number, ordered.at(slice(first, end))


def _joined(parts: Sequence[Arrivals]) -> Arrivals:
    watches = np.concatenate([part.watches for part in parts])
    received = np.concatenate([part.received for part in parts])
    revisions = np.concatenate([part.revisions for part in parts])
    return Arrivals(watches, received, revisions)


class PendingEvents:
    """The events that no tick has sealed yet, at most `PENDING_EVENTS`."""

    def __init__(self) -> None:
        self._watches = array("q")
        self._received = array("d")
        self._revisions = array("q")

    def __len__(self) -> int:
        return len(self._received)

    def add(self, watch: int, received: float, revisions: Sequence[int]) -> bool:
        """Add events of a watch that arrived together, in the order of time; return False if there is no room."""
        count = len(revisions)
        if len(self._received) + count > PENDING_EVENTS:
            return False
        self._revisions.extend(array("q", revisions))
        self._watches.extend((watch,) * count)
        self._received.extend((received,) * count)
        return True

    def take_before(self, time: float, limit: int = PENDING_EVENTS, watches: int = PENDING_EVENTS) -> Arrivals:
        """Remove and return the first events that arrived before `time`, at most `limit`.

        If they are of more than so many `watches`, those of the other watches stay.
        """
        count = min(limit, bisect_left(self._received, time))
        columns: tuple[array[Any], ...] = self._watches, self._received, self._revisions
        first = [np.array(column[:count]) for column in columns]
        taken = first[0] <= np.unique(first[0])[:watches].max(initial=0)
        for column, values in zip(columns, first, strict=True):
            column[:count] = array(column.typecode, values[~taken].tobytes())
        return Arrivals(*(values[taken] for values in first))

    def drop(self, watch: int) -> int:
        """Remove all events of a watch; return their number."""
        kept = np.frombuffer(self._watches, np.int64) != watch
        dropped = len(kept) - int(np.count_nonzero(kept))
        if dropped:
            self._watches = array("q", np.frombuffer(self._watches, np.int64)[kept].tobytes())
            self._received = array("d", np.frombuffer(self._received)[kept].tobytes())
            self._revisions = array("q", np.frombuffer(self._revisions, np.int64)[kept].tobytes())
        return dropped


class _HeldWatch:
    """The held events of one watch, in the order of their arrival."""

    def __init__(self) -> None:
        self.received = array("d")
        self.revisions = array("q")

    def take(self, watch: int, count: int) -> Arrivals:
        """Remove and return the first events."""
        received, revisions = np.array(self.received[:count]), np.array(self.revisions[:count])
        del self.received[:count], self.revisions[:count]
        return Arrivals(np.full(len(received), watch), received, revisions)


class HeldEvents:
    """The events of watches of which it is not known yet whether the clock can date them, at most `HELD_EVENTS`."""

    def __init__(self) -> None:
        self._of: dict[int, _HeldWatch] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def watches(self) -> tuple[int, ...]:
        """The numbers of the watches that have held events."""
        return tuple(self._of)

    def add(self, watch: int, received: float, revisions: Sequence[int]) -> bool:
        """Add events of a watch that arrived together, in the order of time; return False if there is no room."""
        count = len(revisions)
        if self._count + count > HELD_EVENTS:
            return False
        held = self._of.setdefault(watch, _HeldWatch())
        held.revisions.extend(array("q", revisions))
        held.received.extend((received,) * count)
        self._count += count
        return True

    def oldest(self) -> dict[int, float]:
        """Return when the oldest event of each watch arrived."""
        return {watch: held.received[0] for watch, held in self._of.items()}

    def newest_before(self, watch: int, time: float) -> int | None:
        """Return the revision of the last event of a watch that arrived before `time`; None without one."""
        held = self._of[watch]
        count = bisect_left(held.received, time)
        return held.revisions[count - 1] if count else None

    def take_before(self, watch: int, time: float, limit: int = HELD_EVENTS) -> Arrivals:
        """Remove and return the first events of a watch that arrived before `time`, at most `limit`."""
        held = self._of[watch]
        taken = held.take(watch, min(limit, bisect_left(held.received, time)))
        self._count -= len(taken)
        if not held.received:
            del self._of[watch]
        return taken

    def drop(self, watch: int) -> int:
        """Remove all events of a watch; return their number."""
        held = self._of.pop(watch, None)
        dropped = len(held.received) if held else 0
        self._count -= dropped
        return dropped


class SampleCounts:
    """The counts of samples since the last evaluation, by row, block and key of a tally.

    A row is whatever the caller counts separately, such as a watch, and is less than 2^23.
    """

    def __init__(self, bins: Bins) -> None:
        self._bins = bins
        self._base = 0
        self._keys: list[NDArray[np.integer]] = []
        self._counts: list[NDArray[np.integer]] = []
        self._tails: dict[int, Tail] = {}  # by row and block
        self._singly = False  # whether all samples are in them
        self._size = 0
        self._sum_above = COUNTED_KEYS

    def add(self, rows: IntArray, received: FloatArray, bounds: Bounds, *, singly: bool = False) -> None:
        """Count n samples, whose bounds are all measurable.

        If all samples until they are taken are known `singly`, the longest of each block are kept.
        """
        if not len(rows):
            return
        blocks = np.floor(received / BLOCK_SECONDS).astype(np.int64)
        if not self._size:
            self._base = int(blocks.min()) - _NEWEST_BLOCK // 2
            self._singly = True
        self._singly &= singly
        blocks = rows << _BLOCK_BITS | np.clip(blocks - self._base, 0, _NEWEST_BLOCK)
        if self._singly:
            self._add_tails(blocks, bounds)
        slots = blocks << _KEY_BITS
        ends = bounds.lower, bounds.upper, bounds.proven, bounds.proven_upper
        keys = np.concatenate((slots, slots, slots)) | tally_keys(self._bins, *ends)
        self._put(*np.unique(keys, return_counts=True))
        if self._size > self._sum_above:
            summed = self._sum()
            self._clear()
            self._put(*summed)
            self._sum_above = max(COUNTED_KEYS, 2 * self._size)  # else each further sample would sum them again

    def take(self) -> dict[int, list[Slot]]:
        """Remove and return all counts: the tallies of each row by block."""
        taken: defaultdict[int, list[Slot]] = defaultdict(list)
        for row, slot in self.take_each():
            taken[row].append(slot)
        return taken

    def take_each(self) -> Iterator[tuple[int, Slot]]:
        """Remove all counts at once; return the rows with the tallies of their blocks, each made when it is asked."""
        if not self._size:
            return iter(())
        keys, counts = self._sum()
        tails, self._tails = self._tails if self._singly else {}, {}
        self._clear()
        self._sum_above = COUNTED_KEYS
        slots = keys >> _KEY_BITS
        firsts = np.flatnonzero(np.concatenate(([True], slots[1:] != slots[:-1])))
        ends = [*firsts[1:].tolist(), len(keys)]
        keys &= 2**_KEY_BITS - 1
        n = np.add.reduceat(np.where(keys < len(self._bins.edges) ** 2, counts, 0), firsts)  # cuts, not proven ends
        keys, counts = small(self._bins, keys, counts)
        slots = slots[firsts]
        rows, tail_of = (slots >> _BLOCK_BITS).tolist(), [tails.get(slot) for slot in slots.tolist()]
        times = ((self._base + (slots & _NEWEST_BLOCK)) * BLOCK_SECONDS).tolist()
        return (
            (row, (time, Tally(self._bins, keys[first:end], counts[first:end], events, tail)))
            for row, time, first, end, events, tail in zip(
                rows, times, firsts.tolist(), ends, n.tolist(), tail_of, strict=True
            )
        )

    def _add_tails(self, blocks: IntArray, bounds: Bounds) -> None:
        order = blocks.argsort(kind="stable")
        found, firsts = np.unique(blocks[order], return_index=True)
        parts = (np.split(ends[order], firsts[1:]) for ends in (bounds.proven, bounds.proven_upper))
        for block, lower, upper in zip(found.tolist(), *parts, strict=True):
            tail, known = Tail.of(lower, upper), self._tails.get(block)
            self._tails[block] = Tail.joined((known, tail)).cut() if known else tail

    def _put(self, keys: NDArray[np.integer], counts: NDArray[np.integer]) -> None:
        self._keys.append(keys)
        self._counts.append(counts)
        self._size += len(keys)

    def _sum(self) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        return sum_by_key(np.concatenate(self._keys), np.concatenate(self._counts))

    def _clear(self) -> None:
        self._keys.clear()
        self._counts.clear()
        self._size = 0
