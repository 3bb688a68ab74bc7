"""Measures the events of all watches of one domain, once a later tick vouches for them.

Theory of operation
===================

`record` appends the events of a watch to the pending events of the domain. While the membership of its source is
pending, `hold` keeps them apart; the first tick after it is known seals them before all others. A tick seals the whole
seconds before it was sent: `seal` measures their events, in slices, with a few numpy passes over the events of all
watches together. What an event becomes:

1. `domain` if it is newer than the tick, and so are all events of its watch and second: the watch belongs elsewhere.
   `pending` if it was held for `UNSEALED_SECONDS`, or there was no room for it.
2. `before_clock` if the ticks cannot date it.
3. `tainted` if this process may have read it more than `LATE_SECONDS` late, or this process stood still in between.
4. `own_queue` if it may have been committed while a request to open its watch waited that long in this process, or
   while this identity could not open it.
5. Otherwise a sample. The delay that this process may have added, by reading late or by such a wait after the commit,
   is taken from the lower ends of its bounds, so that they hold of the cluster alone. The upper end contains it.
   At an apiserver that polls its storage, an event that waited for a poll is dated as `watchslo.latency.polling` says.

Samples are counted by watch, block and bins; the next evaluation takes these counts.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import floor

import numpy as np

from watchslo.clock.cache import CacheClock
from watchslo.clock.domain import Domain, Membership
from watchslo.clock.revision import Origins
from watchslo.clock.storage_kind import ApiserverStorage
from watchslo.latency.bins import Bins
from watchslo.latency.compared import Comparison
from watchslo.latency.estimate import Estimation
from watchslo.latency.excess import RecentArrivals
from watchslo.latency.own_delay import LATE_SECONDS, OwnDelays
from watchslo.latency.pending import Arrivals, HeldEvents, PendingEvents, SampleCounts
from watchslo.latency.polling import PollDetector, at_any_time
from watchslo.latency.queue_waits import QueueWaits, queue_delays
from watchslo.latency.tally import Slot
from watchslo.latency.track import BEFORE_CLOCK, DOMAIN, OWN_QUEUE, PENDING, TAINTED, UNSEALED, Track
from watchslo.model import BoolArray, Bounds, FloatArray, IntArray, Reading, Source
from watchslo.monitor.protocol.watch_identity import WatchIdentity
from watchslo.snapshot import StorageKind

SLICE_EVENTS, SLICE_WATCHES = 4096, 64  # measured at a time, in a millisecond or less
MOST_SAMPLES = 262_144  # that wait for the evaluation to be compared between apiservers: 6 MiB
UNSEALED_SECONDS = 600.0  # the clock keeps its evidence as long


@dataclass(slots=True)
class _SealedWatch:
    """A watch, the track that takes its samples, when its requests waited in this process, and its last samples.

    The latter are kept only if watches of several apiservers can be compared.
    """

    identity: WatchIdentity
    track: Track
    queue_waits: QueueWaits
    arrivals: RecentArrivals = field(default_factory=RecentArrivals)


class Sealer:
    """The events of the watches of one domain between their arrival and the next evaluation.

    `cache_clock` returns the clock of a source's watch cache while that cache is probed, and `storage_of` what is known
    of the storage of an apiserver.
    """

    def __init__(
        self,
        domain: Domain,
        bins: Bins,
        own_delays: OwnDelays,
        cache_clock: Callable[[Source], CacheClock | None],
        storage_of: Callable[[str], ApiserverStorage],
    ) -> None:
        self.comparisons: dict[str, Comparison] = {}  # of apiservers with attached watches
        self._domain = domain
        self._bins = bins
        self._own_delays = own_delays
        self._cache_clock = cache_clock
        self._storage_of = storage_of
        self._detectors: dict[str, PollDetector] = {}  # of apiservers that have watches and may poll
        self._watches: dict[int, _SealedWatch] = {}
        self._pending = PendingEvents()
        self._held = HeldEvents()
        self._sealed = self._collected_until = -np.inf
        self._held_since: dict[int, float] = {}  # at the last collection
        self._samples = SampleCounts(bins)
        self._slots: dict[int, list[Slot]] = {}
        self._arrived: list[Arrivals] = []  # samples to compare between apiservers, since the last evaluation
        self._collected: Iterator[None] = iter(())
        self._compared = SampleCounts(bins), SampleCounts(bins)  # by all ticks, and by those of the own apiserver

    @property
    def is_kine(self) -> bool:
        """Whether an apiserver of the attached watches keeps its objects in kine, or polls its storage as kine does."""
        names = {watch.identity.apiserver.name for watch in self._watches.values()}
        return any(self.polls(name) or self._storage_of(name).kind is StorageKind.KINE for name in names)

    def polls(self, apiserver: str) -> bool:
        """Return whether an apiserver finds the commits of other servers by a poll of its storage."""
        detector = self._detectors.get(apiserver)
        is_found = detector is not None and detector.polls and self._may_poll(apiserver)
        return is_found or self._storage_of(apiserver).polls

    def _may_poll(self, apiserver: str) -> bool:
        """Return False if an apiserver cannot share a database that it polls, or its revisions are no counts."""
        return self._storage_of(apiserver).may_poll and self._domain.counts

    def attach(self, identity: WatchIdentity, track: Track, queue_waits: QueueWaits) -> None:
        """Take in the events of a watch from now on; if it is attached already, `track` replaces its track."""
        self._collect()
        self.take(identity.number)
        self._watches[identity.number] = _SealedWatch(identity, track, queue_waits)

    def detach(self, number: int) -> list[Slot]:
        """Forget a watch; return its samples since the last evaluation. What is not sealed is unmeasured."""
        self.drop(number)
        self._collect()
        slots = self.take(number)
        del self._watches[number]
        return slots

    def record(self, number: int, received: float, revisions: list[int]) -> None:
        """Add live events of a watch that arrived together; their revisions fit in 64 bits."""
        if not self._pending.add(number, received, revisions):
            self._watches[number].track.unmeasured(UNSEALED, len(revisions))

    def hold(self, number: int, received: float, revisions: list[int]) -> None:
        """Add such events of a watch of which it is not known yet whether the clock can date it."""
        if not self._held.add(number, received, revisions):
            self._watches[number].track.unmeasured(PENDING, len(revisions))

    def drop(self, number: int) -> None:
        """Give up what is not sealed of a watch: it belongs to another sequence."""
        self._watches[number].track.unmeasured(DOMAIN, self._pending.drop(number) + self._held.drop(number))

    def forget_apiserver(self, name: str) -> None:
        """Forget an apiserver, and what was sealed for all comparisons since the last evaluation."""
        self._detectors.pop(name, None)
        if self.comparisons.pop(name, None) is not None:
            for counts in self._compared:  # by the position of the comparison, which changes now
                counts.take()

    # Sealing

    def seal(self, tick: Reading, *, several: bool, blind: bool) -> Iterator[tuple[int, ...]]:
        """Measure the events of the whole seconds before a tick was sent, slice by slice.

        Each item has the numbers of the watches whose events prove to be of another sequence; their sources are
        expelled. A `blind` clock ticks on one cached resource only. `several` says whether it ticks
        through several apiservers: then events are also compared with the ticks of their own apiserver.
        """
        second = floor(min(tick.sent, self._own_delays.known_until))
        if not self._may_poll(tick.apiserver):
            self._detectors.pop(tick.apiserver, None)
        elif detector := self._detectors.get(tick.apiserver):
            detector.tick(tick)
        self._expel_held(second, tick)
        while len(arrivals := self._next_slice(second)):
            yield self._seal_slice(arrivals, tick, several=several, blind=blind)
        self._sealed = max(self._sealed, second)
        for detector in self._detectors.values():
            detector.judge(second)

    def _expel_held(self, second: float, tick: Reading) -> None:
        """Expel the sources of held events that are newer than a tick sent later; they are then reported as sealed."""
        for number in self._held.watches:
            revision = self._held.newest_before(number, second)
            if revision is not None and revision > tick.revision:
                self._domain.expel(self._watches[number].identity.source)

    def _next_slice(self, second: float) -> Arrivals:
        """Return events to seal: first the held ones of watches that are not pending any more."""
        parts: list[Arrivals] = []
        room = SLICE_EVENTS
        for number in self._held.watches:
            if not room or len(parts) == SLICE_WATCHES:
                break
            if self._domain.membership(self._watches[number].identity.source) is not Membership.PENDING:
                if len(part := self._held.take_before(number, second, room)):
                    parts.append(part)
                room -= len(part)
        return Arrivals.by_time(parts) if parts else self._pending.take_before(second, SLICE_EVENTS, SLICE_WATCHES)

    def _seal_slice(self, arrivals: Arrivals, tick: Reading, *, several: bool, blind: bool) -> tuple[int, ...]:
        numbers, index = np.unique(arrivals.watches, return_inverse=True)
        watches = [self._watches[number] for number in numbers.tolist()]
        foreign = _of_another_sequence(arrivals, index, tick)
        violators = np.unique(index[foreign]).tolist()
        for at in violators:
            self._domain.expel(watches[at].identity.source)
        members = [self._domain.membership(watch.identity.source) is not Membership.FOREIGN for watch in watches]
        foreign |= ~np.array(members)[index]
        _count(DOMAIN, watches, index[foreign])
        arrivals, index = arrivals.at(~foreign), index[~foreign]
        if len(arrivals):
            self._measure(arrivals, index, watches, several=several, blind=blind)
        return tuple(int(numbers[at]) for at in violators)

    def _measure(
        self, arrivals: Arrivals, index: IntArray, watches: list[_SealedWatch], *, several: bool, blind: bool
    ) -> None:
        """Measure by all ticks except those on the watched cache, and count the samples."""
        clock, received = self._domain.clock, arrivals.received
        sources = [watch.identity.source for watch in watches]
        cached = [watch.identity.cached and (several or not blind) for watch in watches]
        origins = Origins(index, sources, cached)
        clock.learn(arrivals.revisions, received)
        measured = clock.measure(arrivals.revisions, received, origins)
        own_delays = self._own_delays.of(received)
        queued, waited = queue_delays([watch.queue_waits for watch in watches], index, received, measured)
        good = self._usable(arrivals, index, watches, measured, own_delays, queued)
        own_delays += waited
        polled, during, spread = self._judge_storages(received, index, watches)
        bounds = at_any_time(measured, arrivals.revisions, polled, during) if polled.any() else measured
        latency = bounds.less(own_delays).committed_later(spread)
        self._samples.add(arrivals.watches[good], received[good], latency.at(good), singly=clock.offset is not None)
        if several:
            others = Origins(index, sources, [False] * len(sources)) if blind else origins
            alone = clock.measure(arrivals.revisions, received, others, alone=True).less(own_delays)
            self._compare(received, index, watches, latency, alone, good & alone.measurable)
        if len(self.comparisons) > 1:
            self._arrived.append(arrivals.at(good))
            if sum(map(len, self._arrived)) > MOST_SAMPLES:
                self._collect()
        own_delays[queued] = np.inf
        usable = replace(bounds, measurable=good)
        for at, watch in enumerate(watches):
            cache = self._cache_clock(watch.identity.source)
            if cache is not None or watch.track.measures_creation:
                of = index == at
                if of.any():
                    watch.track.seal(received[of], arrivals.revisions[of], usable.at(of), own_delays[of], cache)

    def _judge_storages(
        self, received: FloatArray, index: IntArray, watches: list[_SealedWatch]
    ) -> tuple[BoolArray, BoolArray, float]:
        """Return which events are of an apiserver that polls, which of these arrived while a tick through it was asked.

        Also return how much later than a tick commits may be, at most. The arrivals are evidence for whether their
        apiserver polls, unless its storage is known to be etcd.
        """
        names = [watch.identity.apiserver.name for watch in watches]
        polled, during = np.zeros((2, len(received)), dtype=bool)
        for name in {*names}:
            if self._may_poll(name):
                of = np.array([other == name for other in names])[index]
                detector = self._detectors.setdefault(name, PollDetector())
                detector.arrived(received[of])
                if self.polls(name):
                    polled |= of
                    during |= of & detector.during_ticks(received)
        return polled, during, max(self._storage_of(name).commit_spread for name in {*names})

    def _usable(
        self,
        arrivals: Arrivals,
        index: IntArray,
        watches: list[_SealedWatch],
        bounds: Bounds,
        own_delays: FloatArray,
        queued: BoolArray,
    ) -> BoolArray:
        """Return which events are samples; count the others by their reasons."""
        committed = arrivals.received - bounds.upper
        left = np.ones(len(arrivals), dtype=bool)
        for reason, excluded in (
            (BEFORE_CLOCK, ~bounds.measurable),
            (TAINTED, (own_delays > LATE_SECONDS) | self._own_delays.span_stop(committed, arrivals.received)),
            (OWN_QUEUE, queued),
        ):
            _count(reason, watches, index[excluded & left])
            left &= ~excluded
        return left

    def _compare(
        self,
        received: FloatArray,
        index: IntArray,
        watches: list[_SealedWatch],
        combined: Bounds,
        alone: Bounds,
        known: BoolArray,
    ) -> None:
        """Count the events that both can measure, by their apiserver."""
        names = [watch.identity.apiserver.name for watch in watches]
        for name in names:
            if name not in self.comparisons:
                self.comparisons[name] = Comparison(self._bins)
        rows = {name: row for row, name in enumerate(self.comparisons)}
        of = np.array([rows[name] for name in names])[index][known]
        for counts, bounds in zip(self._compared, (combined, alone), strict=True):
            counts.add(of, received[known], bounds.at(known))

    # Evaluation

    def arrivals(self, number: int) -> RecentArrivals:
        """Return the last samples of a watch; none unless watches of several apiservers are attached."""
        watch = self._watches.get(number)
        return watch.arrivals if watch else RecentArrivals()

    def update(self, now: float, gap: float) -> list[Estimation]:
        """Give up what was not sealed in time; return the estimations of comparisons that are due.

        `gap` is the mean gap between ticks, in seconds.
        """
        overdue = self._pending.take_before(now - UNSEALED_SECONDS)
        for number, count in zip(*np.unique(overdue.watches, return_counts=True), strict=True):
            self._watches[int(number)].track.unmeasured(UNSEALED, int(count))
        for number in self._held.watches:
            count = len(self._held.take_before(number, now - UNSEALED_SECONDS))
            self._watches[number].track.unmeasured(PENDING, count)
        combined, alone = (counts.take() for counts in self._compared)
        return [
            due
            for row, comparison in enumerate(self.comparisons.values())
            for due in comparison.update(now, combined.get(row, []), alone.get(row, []), gap)
        ]

    def publish(self) -> None:
        """Update the comparisons, once their estimations are solved."""
        for comparison in self.comparisons.values():
            comparison.publish()

    def sealed(self, number: int) -> float:
        """Return until when (monotonic seconds) all events of a watch were sealed; `take` returns their samples."""
        return min(self._collected_until, self._held_since.get(number, np.inf))

    def take(self, number: int) -> list[Slot]:
        """Remove and return the samples of a watch that were collected."""
        self._finish_collection()
        return self._slots.pop(number, [])

    def collect(self) -> Generator[None, None, None]:
        """Collect what was sealed since the last evaluation for `take` and `arrivals`, and pause after each watch."""
        self._finish_collection()
        self._collected = self._collection(self._samples.take_each(), self._arrived)
        self._collected_until, self._held_since = self._sealed, self._held.oldest()
        self._arrived = []
        yield from self._collected  # `take` may finish it during a pause

    def _collection(self, samples: Iterator[tuple[int, Slot]], arrived: Sequence[Arrivals]) -> Iterator[None]:
        """Hand slots and arrivals to their watches, if these are still attached."""
        for number, slot in samples:
            if number in self._watches:
                self._slots.setdefault(number, []).append(slot)
            yield
        for number, arrivals in Arrivals.of_each(arrived):
            if number in self._watches:
                self._watches[number].arrivals.add(arrivals.revisions, arrivals.received)
            yield

    def _finish_collection(self) -> None:
        for _ in self._collected:
            pass

    def _collect(self) -> None:
        for _ in self.collect():
            pass


def _of_another_sequence(arrivals: Arrivals, index: IntArray, tick: Reading) -> BoolArray:
    """Return which events were in the same watch and second as one that is newer than a tick sent later."""
    newer = arrivals.revisions > tick.revision
    if not newer.any():
        return newer
    groups = np.floor(arrivals.received).astype(np.int64) * (int(index.max()) + 1) + index
    return np.isin(groups, groups[newer])


def _count(reason: str, watches: list[_SealedWatch], index: IntArray) -> None:
    """Count unmeasured events of these watches, whose positions are in `index`."""
    if len(index):
        for watch, count in zip(watches, np.bincount(index, minlength=len(watches)).tolist(), strict=True):
            if count:
                watch.track.unmeasured(reason, count)
