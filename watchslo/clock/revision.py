"""The revision clock: when a revision was committed, from the evidence of one revision sequence.

A tick is a consistent read that returned revision R, sent at s and answered at e. Every revision up to R was committed
before e, every later one after s. Hence revision r was committed between

    L(r) = max{s : R < r}   and   U(r) = min{e : R >= r}.

A sighting is an event or bookmark of revision r', received at t': all revisions up to r' were committed before t'. It
counts as soon as a tick that was sent later shows that r' belongs to the same sequence.

Any other consistent read proves the same as a tick. But a read of a cached resource waits for that cache, so it hides
the cache's lag from the events of that resource: it is left out of the *cut* interval, by which their latencies are
estimated, and not of the proven one. So are the extra ticks of bursts: see `tick_schedule.py`. All times are monotonic
seconds; revisions are int64.

If revisions are commit times (`commit_offset.py`), these bounds also tell how far the storage's clock is ahead, and
then each revision narrows its own bounds.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import median_low
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from watchslo.clock.answered import TickTimes
from watchslo.clock.commit_offset import CommitOffset
from watchslo.clock.staircase import AFTER_ALL, BEFORE_ALL, Ends, Starts
from watchslo.model import BoolArray, Bounds, FloatArray, IntArray, Reading, Source

KEPT_SECONDS = 600.0  # later events are known to be at least this late, which is enough for a verdict
TIMES_SECONDS = 1300.0  # of ticks: a window of ten minutes may be judged ten minutes after its end
BUCKETS = 8  # of resources, which may be hundreds: each bucket has the reads of its resources
ROUND_TRIP_SECONDS, ROUND_TRIPS = 60.0, 11  # the span of those of which the median is taken, and the fewest of them
RECENT_TICKS = 5  # three of them are rarely slow by chance

SIGHTING_SPACING_SECONDS = 0.002  # finer evidence would not change any verdict
DENSE_SECONDS = 10.0  # by then nearly all events have arrived: older sightings may be thinned
THINNED_SPACING_SECONDS = 0.05
SIGHTINGS = 20_000  # 10 s every 2 ms and 590 s every 50 ms are 16,800: thinning always makes room for 6 s


@dataclass(frozen=True, slots=True, eq=False)
class Origins:
    """Where n events come from: event k was received from `sources[index[k]]`.

    The ticks on `sources[m]` are ignored for its own events if `left_out[m]`: if the source is cached, its consistent
    reads wait for the very cache whose lag is measured.
    """

    index: IntArray
    sources: Sequence[Source]
    left_out: Sequence[bool]
    _apiservers: NDArray[np.str_] = field(init=False)
    _left_out: Mapping[Source | int, Sequence[int]] = field(init=False)  # positions, by source and by bucket

    def __post_init__(self) -> None:
        left_out = defaultdict[Source | int, list[int]](list)
        for at, is_left_out in enumerate(self.left_out):
            if is_left_out:
                left_out[self.sources[at]].append(at)
                left_out[_bucket(self.sources[at])].append(at)
        object.__setattr__(self, "_apiservers", np.array([apiserver for apiserver, _ in self.sources]))
        object.__setattr__(self, "_left_out", left_out)

    def uses(self, read: Source | int, *, alone: bool) -> BoolArray | None:
        """Return for each event whether the reads of a source or bucket are evidence; None if they are for all events.

        With `alone`, only the ticks of its own apiserver are evidence for an event.
        """
        ignored = self._left_out.get(read, ())
        if not alone and not ignored:
            return None
        used = np.ones(len(self.sources), dtype=bool)
        if alone and not isinstance(read, int):
            used &= self._apiservers == read[0]
        used[list(ignored)] = False
        return used[self.index]


def _bucket(source: Source) -> int:
    return crc32(source[1].encode()) % BUCKETS


class _RoundTrips:
    """The ticks through one apiserver in the last minute, or the last few if they are rare.

    `median` is that of their round trips in seconds: one of them, because a mean of two may never occur. `latest` is
    the tick that was sent last.
    """

    def __init__(self, first: Reading) -> None:
        self._ticks: deque[Reading] = deque()
        self.latest = first
        self._median: float | None = None

    @property
    def median(self) -> float:
        if self._median is None:  # it is read less often than ticks arrive
            self._median = median_low(tick.round_trip for tick in self._ticks)
        return self._median

    def add(self, tick: Reading) -> None:
        self.latest = max(self.latest, tick, key=lambda reading: reading.sent)
        self._ticks.append(tick)
        while len(self._ticks) > ROUND_TRIPS and self._ticks[0].answered < tick.answered - ROUND_TRIP_SECONDS:
            self._ticks.popleft()
        self._median = None

    @property
    def recent(self) -> float:
        """The median round trip of the last `RECENT_TICKS`, in seconds: it shows a change soon."""
        return median_low(tick.round_trip for tick in islice(reversed(self._ticks), RECENT_TICKS))


@dataclass(slots=True)
class _Ticks:
    """The ticks of one source. `first` is the oldest revision ever read: its commit has no lower bound.

    `answered` is the time of the last answer.
    """

    starts: Starts = field(default_factory=Starts)
    ends: Ends = field(default_factory=Ends)
    first: int = AFTER_ALL
    answered: float = -np.inf

    def __bool__(self) -> bool:
        return self.first != AFTER_ALL

    def add(self, reading: Reading) -> None:
        self.starts.add(reading.revision, reading.sent)
        self.ends.add(reading.revision, reading.answered)
        self.first = min(self.first, reading.revision)
        self.answered = max(self.answered, reading.answered)

    def merge(self, other: "_Ticks") -> None:
        self.starts.merge(other.starts)
        self.ends.merge(other.ends)
        self.first = min(self.first, other.first)

    def prune(self, before: float) -> None:
        self.starts.prune(before)
        self.ends.prune(before)


class _Sightings:
    """Sightings, ascending in time and revision: first those that a tick has confirmed, then the unconfirmed ones."""

    def __init__(self) -> None:
        self._received: FloatArray = np.empty(SIGHTINGS)
        self._revisions: IntArray = np.empty(SIGHTINGS, dtype=np.int64)
        self._streams: IntArray = np.empty(SIGHTINGS, dtype=np.int64)
        self._count = 0
        self._confirmed = 0
        self._newest_received = -np.inf
        self._newest_revision = BEFORE_ALL
        self._publish()

    def add(self, received: float, revision: int, stream: int) -> None:
        if revision <= self._newest_revision or received - self._newest_received < SIGHTING_SPACING_SECONDS:
            return
        if self._count == SIGHTINGS:
            self._thin(received)
        self._received[self._count] = received
        self._revisions[self._count] = revision
        self._streams[self._count] = stream
        self._count += 1
        self._newest_received, self._newest_revision = received, revision

    def judge(self, tick: Reading) -> frozenset[int]:
        """Check the sightings received before a tick was sent; return the watches that belong to another sequence.

        Such a watch had a newer revision than a read that was sent later: all its sightings are dropped. The other
        sightings are confirmed.
        """
        seen = int(self._received[: self._count].searchsorted(tick.sent))
        possible = int(self._revisions[: self._count].searchsorted(tick.revision, side="right"))
        violators = frozenset(self._streams[possible:seen].tolist())
        if violators:
            self.forget(violators)
            seen = int(self._received[: self._count].searchsorted(tick.sent))
        self._confirmed = max(self._confirmed, seen)
        self._publish()
        return violators

    def forget(self, streams: frozenset[int]) -> None:
        self._keep(~np.isin(self._streams[: self._count], list(streams)))

    def at(self, revisions: IntArray) -> FloatArray:
        """Return the time by which each revision was certainly committed; infinite without a sighting."""
        return self._proven_times[self._proven_revisions.searchsorted(revisions)]

    def _thin(self, now: float) -> None:
        received = self._received[: self._count]
        spans = received // THINNED_SPACING_SECONDS
        last_of_span = np.append(spans[1:] != spans[:-1], True)
        dense = received >= now - DENSE_SECONDS
        self._keep((received >= now - KEPT_SECONDS) & (dense | last_of_span))

    def _keep(self, kept: NDArray[np.bool_]) -> None:
        count = int(np.count_nonzero(kept))
        for column in (self._received, self._revisions, self._streams):
            column[:count] = column[: self._count][kept]
        self._confirmed = int(np.count_nonzero(kept[: self._confirmed]))
        self._count = count
        self._publish()

    def _publish(self) -> None:
        """Derive the arrays for lookups. They are copies, because the columns change in place."""
        self._proven_revisions = self._revisions[: self._confirmed].copy()
        self._proven_times = np.append(self._received[: self._confirmed], np.inf)
        newest = self._count - 1
        self._newest_received = float(self._received[newest]) if self._count else -np.inf
        self._newest_revision = int(self._revisions[newest]) if self._count else BEFORE_ALL


class RevisionClock:
    """The evidence of one revision sequence, of about the last ten minutes.

    Ticks may overlap, arrive in any order, and come from several apiservers. `latest` is the tick that was sent last.
    `newest` is the newest revision that a tick returned. `interval` is the width of the newest commit interval in
    seconds: from sending the second-last tick to the answer of the last one. `offset` is None unless revisions are
    commit times.

    Bounds: one pair of staircases for each source that was ticked on in the last ten minutes and whose apiserver has
    not left, one pair for all former sources, one for extra ticks, one for the reads of each bucket, and one for
    everything; each has at most the reads of ten minutes. The times of ticks are kept for `TIMES_SECONDS`, and the
    ticks of a minute for each apiserver until it leaves, and at most `SIGHTINGS` sightings.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Drop all evidence, because the revisions started again."""
        self._ticks: dict[Source, _Ticks] = {}
        self._former = _Ticks()
        self._extra = _Ticks()  # those that do not cut
        self._reads = tuple(_Ticks() for _ in range(BUCKETS))  # that are no ticks
        self._all = _Ticks()
        self._sightings = _Sightings()
        self._last_two: list[Reading] = []
        self._round_trips: dict[str, _RoundTrips] = {}
        self.times = TickTimes()
        self.offset: CommitOffset | None = None
        self.newest: int | None = None

    @property
    def latest(self) -> Reading | None:
        return self._last_two[-1] if self._last_two else None

    def latest_of(self, apiserver: str) -> Reading | None:
        """Return the tick that was sent last through one apiserver, if it has not left."""
        trips = self._round_trips.get(apiserver)
        return trips.latest if trips else None

    @property
    def median_round_trip(self) -> float | None:
        """The median round trip of the fastest apiserver, in seconds: shorter latencies are not resolved.

        Each apiserver's median is that of its ticks in the last minute.
        """
        return min((trips.median for trips in self._round_trips.values()), default=None)

    @property
    def resolution(self) -> float | None:
        """How precisely commits are dated at best, in seconds: by ticks, or by revisions that are times."""
        known = self.offset.width if self.offset is not None else None
        return min((width for width in (self.median_round_trip, known) if width is not None), default=None)

    def hidden(self, seconds: float, q: float) -> float:
        """Return the q-quantile of how long ticks hid latencies in the last so many seconds, at most `KEPT_SECONDS`.

        Revisions that are times date commits however long ticks take.
        """
        known = self.offset.width if self.offset is not None else None
        found = self.times.hidden(min(seconds, KEPT_SECONDS)).quantile(q)
        return found if known is None else min(found, known)

    def median_round_trip_of(self, apiserver: str) -> float | None:
        trips = self._round_trips.get(apiserver)
        return trips.median if trips else None

    def recent_round_trip_of(self, apiserver: str) -> float | None:
        """Return the median round trip of its last few ticks, in seconds."""
        trips = self._round_trips.get(apiserver)
        return trips.recent if trips else None

    @property
    def interval(self) -> float | None:
        if len(self._last_two) < 2:  # noqa: PLR2004 - an interval has two ends
            return None
        previous, latest = self._last_two
        return latest.answered - previous.sent

    def tick(self, reading: Reading) -> frozenset[int]:
        """Add a tick; drop the sightings of the watches that it proves to be of another sequence, and return these."""
        ticks = self._ticks.setdefault(reading.source, _Ticks()) if reading.cuts else self._extra
        ticks.add(reading)
        self._all.add(reading)
        expired = reading.answered - KEPT_SECONDS
        self._retire([source for source, ticks in self._ticks.items() if ticks.answered < expired])
        for ticks in (*self._every_ticks, *self._reads, self._all):
            ticks.prune(expired)
        self.times.add(reading)
        self.times.prune(reading.answered - TIMES_SECONDS)
        self._last_two = sorted((*self._last_two, reading), key=lambda tick: tick.sent)[-2:]
        self._round_trips.setdefault(reading.apiserver, _RoundTrips(reading)).add(reading)
        self.newest = reading.revision if self.newest is None else max(self.newest, reading.revision)
        return self._sightings.judge(reading)

    def add_read(self, reading: Reading) -> None:
        """Add a consistent read that is no tick, once a later tick has shown that it belongs to the same sequence."""
        self._reads[_bucket(reading.source)].add(reading)
        self._all.add(reading)

    def sight(self, received: float, revision: int, stream: int) -> None:
        """Add a sighting: `stream` delivered `revision`. This is cheap, and at most one sighting per 2 ms is kept."""
        self._sightings.add(received, revision, stream)

    def forget(self, stream: int) -> None:
        """Drop the sightings of a watch."""
        self._sightings.forget(frozenset((stream,)))

    def newest_before(self, time: float) -> int:
        """Return the newest revision of the ticks that ended before `time`: a read sent then returns at least this."""
        return max(ticks.ends.newest_before(time) for ticks in self._every_ticks)

    def oldest_after(self, time: float) -> int:
        """Return the oldest revision of the ticks sent after `time`: a read answered by then returns at most this."""
        return min(ticks.starts.oldest_after(time) for ticks in self._every_ticks)

    def leave(self, apiserver: str) -> None:
        """Forget an apiserver that is no longer ticked on, except for the evidence of its ticks, which stays valid."""
        self._round_trips.pop(apiserver, None)
        self._retire([source for source in self._ticks if source[0] == apiserver])

    def _retire(self, sources: Sequence[Source]) -> None:
        """Keep the ticks of these sources together with those of all former sources."""
        for source in sources:
            self._former.merge(self._ticks.pop(source))

    def use_times(self, *, is_known: bool) -> None:
        """Begin to learn `offset` once it is known that revisions are commit times; forget it if that is not known."""
        if not is_known:
            self.offset = None
        elif self.offset is None:
            self.offset = CommitOffset()

    def learn(self, revisions: IntArray, received: FloatArray) -> None:
        """Take n events, at least one, as evidence for `offset`, if revisions are commit times."""
        if self.offset is not None:
            since, until = self._proven(revisions, np.full(received.shape, -np.inf), received)
            self.offset.observe(revisions, since, until, float(received.max()))

    @property
    def _every_ticks(self) -> tuple[_Ticks, ...]:
        return (*self._ticks.values(), self._former, self._extra)

    def measure(
        self, revisions: IntArray, received: FloatArray, origins: Origins | None = None, *, alone: bool = False
    ) -> Bounds:
        """Return the latencies of n events from their revisions and arrival times (arrays of length n).

        `origins` says where the events come from, and for which of them the reads of their own source are ignored. With
        `alone`, each event is measured by the ticks of its own apiserver only; that hides a delay which its ticks and
        watches share. An event is measurable if it is newer than the first tick, and neither two reads nor a read and
        its arrival contradict each other. Ticks of former sources are ignored for no event: their watches have ended,
        or the ticks are older than ten minutes.
        """
        former = _Ticks() if alone else self._former
        first = np.full(received.shape, former.first)
        start, end = former.starts.at(revisions), np.minimum(received, former.ends.at(revisions))
        reads: list[tuple[Source | int, _Ticks]] = [*self._ticks.items()]
        if not alone:
            reads += [(bucket, ticks) for bucket, ticks in enumerate(self._reads) if ticks]
        for read, ticks in reads:
            used = origins.uses(read, alone=alone) if origins else None
            chosen = True if used is None else used
            if used is None or used.any():
                np.minimum(first, ticks.first, out=first, where=chosen)
                np.maximum(start, ticks.starts.at(revisions), out=start, where=chosen)
                np.minimum(end, ticks.ends.at(revisions), out=end, where=chosen)
        consistent = start <= end
        start = np.where(consistent, start, -np.inf)
        if self.offset is not None and not alone:
            start, end = self.offset.narrowed(revisions, start, end)
        since, until = (start, end) if alone else self._proven(revisions, start, end)
        return Bounds(
            lower=received - end,
            upper=received - start,
            proven=received - until,
            proven_upper=received - since,
            measurable=consistent & (revisions > first),
        )

    def _proven(self, revisions: IntArray, start: FloatArray, end: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return after and before when revisions were committed, by all evidence, within these cut intervals.

        Evidence that contradicts the cut interval, or itself, proves nothing.
        """
        since = np.maximum(start, self._all.starts.at(revisions))
        until = np.minimum(end, np.minimum(self._all.ends.at(revisions), self._sightings.at(revisions)))
        consistent = since <= until
        return np.where(consistent, since, start), np.where(consistent, until, end)
