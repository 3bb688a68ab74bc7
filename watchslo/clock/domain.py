"""Domains: sets of sources whose revisions form one sequence, because one etcd counts them.

A source is a resource of an apiserver. Usually all sources share one domain. But built-in resources can be moved to
other etcds, aggregated APIs have their own storage, and a configured apiserver may belong to another cluster. Only
evidence decides: a source is a member if its revisions repeatedly fit between the ticks.
"""

from collections import deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from enum import StrEnum

from watchslo.clock.revision import RevisionClock
from watchslo.clock.staircase import BEFORE_ALL
from watchslo.clock.storage_kind import KindDetector, StorageSetting
from watchslo.model import Reading, Resource, Source
from watchslo.snapshot import StorageKind

PROBES_NEEDED = 3
MOST_READS = 256  # that wait for the next tick; without ticks, further ones would only repeat them
PROBE_SPACING_SECONDS = 0.5  # so that the sequence has advanced between two probes


class Membership(StrEnum):
    """Whether a resource belongs to a domain: not yet known, yes, or no."""

    PENDING = "pending"
    MEMBER = "member"
    FOREIGN = "foreign"


_PROMOTED = {
    Membership.FOREIGN: Membership.PENDING,
    Membership.PENDING: Membership.MEMBER,
    Membership.MEMBER: Membership.MEMBER,
}


@dataclass(frozen=True, slots=True)
class Horizon:
    """The limit for sealing: an event received before `sent` is foreign if it is newer than `revision`."""

    sent: float
    revision: int


@dataclass(slots=True)
class _Standing:
    """A membership, and the consistent probes towards the next one.

    `counted` is when the last counted probe was sent, in monotonic seconds.
    """

    membership: Membership = Membership.PENDING
    consistent: int = 0
    counted: float = float("-inf")

    def count(self, sent: float) -> None:
        if sent - self.counted < PROBE_SPACING_SECONDS:
            return
        self.counted = sent
        self.consistent += 1
        if self.consistent == PROBES_NEEDED:
            self.membership = _PROMOTED[self.membership]
            self.consistent = 0


class Domain:
    """A revision clock and the sources that belong to it.

    Three consistent probes half a second apart promote a source, from pending to member or from foreign to pending. One
    contradiction, or one violation, makes it foreign. Watches are numbered by the caller and attached to their source.
    Only members add sightings; a source that is no longer a member loses its sightings.

    Bounds: `MOST_READS` waiting reads, a standing and a waiting probe for each source that was probed and that the
    caller still retains, and one source and one bookmark for each attached watch. `storage` is as configured.
    """

    def __init__(self, name: str, storage: StorageSetting = "auto") -> None:
        self.name = name
        self.clock = RevisionClock()
        self.resets = 0
        self.contradicted = 0  # reads that were dropped
        self._detector = KindDetector(storage)
        self._reads: deque[Reading] = deque(maxlen=MOST_READS)
        self._standings: dict[Source, _Standing] = {}
        self._waiting: dict[Source, Reading] = {}
        self._streams: dict[int, Source] = {}
        self._marks: dict[int, tuple[float, int]] = {}  # the last bookmark of each watch that no tick has judged

    @property
    def kind(self) -> StorageKind:
        """What its revisions are, by the configuration or by its ticks, which show no difference to kine."""
        return self._detector.kind

    @property
    def counts(self) -> bool:
        """Whether the difference of two revisions is a number of changes; it is assumed before the first tick."""
        return self.kind in (StorageKind.SEQUENCE, StorageKind.KINE) or self.clock.newest is None

    @property
    def horizon(self) -> Horizon | None:
        """The limit for sealing that the latest tick allows, or None before the first tick."""
        latest = self.clock.latest
        return Horizon(latest.sent, latest.revision) if latest else None

    def tick(self, reading: Reading) -> bool:
        """Add a tick; return False if it went backwards.

        Then etcd was restored: all evidence is dropped, the clock begins with this tick, and every resource is pending
        again.
        """
        backwards = self.goes_backwards(reading)
        if backwards:
            self._reset()
        self._detector.observe(reading)
        self.clock.use_times(is_known=self.kind is StorageKind.TIMESTAMP)
        for stream in {*self.clock.tick(reading), *self._judge_marks(reading)}:
            self.expel(self._streams[stream])
        self._judge_probes(reading.sent)
        self._judge_reads(reading.sent)
        return not backwards

    def goes_backwards(self, reading: Reading) -> bool:
        """Return True if an older read, which ended before this one was sent, had a newer revision."""
        return reading.revision < self.clock.newest_before(reading.sent)

    def probe(self, reading: Reading) -> None:
        """Add a probe, a consistent read of a source. It is judged by the first tick sent after its answer.

        A probe is ignored if no tick ended before it, or if another probe of the source waits for its tick.
        """
        if self.clock.newest_before(reading.sent) > BEFORE_ALL:
            self._waiting.setdefault(reading.source, reading)

    def observe(self, reading: Reading) -> bool:
        """Add a consistent read that is no tick; return False if its source is not a member.

        It is evidence as soon as the ticks around it agree. It can contradict them only if the storage was restored,
        which is for the ticks to find out: then it is dropped.
        """
        if self.membership(reading.source) is not Membership.MEMBER:
            return False
        self._reads.append(reading)
        return True

    def is_judging(self, source: Source) -> bool:
        """Return True if a probe of the source waits for its tick: another probe would be ignored."""
        return source in self._waiting

    def membership(self, source: Source) -> Membership:
        standing = self._standings.get(source)
        return standing.membership if standing else Membership.PENDING

    @property
    def foreign(self) -> set[Source]:
        """The sources that are known not to belong here."""
        return {source for source, standing in self._standings.items() if standing.membership is Membership.FOREIGN}

    def expel(self, source: Source) -> None:
        """Make a source foreign, because it had a revision that this domain did not have."""
        self._standings[source] = _Standing(Membership.FOREIGN)
        self._waiting.pop(source, None)
        for stream, watched in self._streams.items():
            if watched == source:
                self.clock.forget(stream)

    def retain(self, sources: Container[Source]) -> None:
        """Forget all sources except these, which have watches or are ticked on."""
        self._standings = {source: standing for source, standing in self._standings.items() if source in sources}
        self._waiting = {source: probe for source, probe in self._waiting.items() if source in sources}

    def attach(self, stream: int, source: Source) -> None:
        """Add a watch of a source; the caller's number must be unique in this domain."""
        self._streams[stream] = source

    def detach(self, stream: int) -> None:
        """Remove a watch and its sightings."""
        del self._streams[stream]
        self._marks.pop(stream, None)
        self.clock.forget(stream)

    def sight(self, received: float, revision: int, stream: int) -> bool:
        """Add a sighting: the newest revision that a watch received; return False if it is not a member.

        A watch that was detached is none: its audit may still be reading.
        """
        source = self._streams.get(stream)
        if source is None or self.membership(source) is not Membership.MEMBER:
            return False
        self.clock.sight(received, revision, stream)
        return True

    def mark(self, received: float, revision: int, stream: int) -> None:
        """Add a bookmark of a watch: unlike an event, nothing else shows that it is beyond the storage."""
        if self.sight(received, revision, stream):
            self._marks[stream] = received, revision

    def _judge_marks(self, tick: Reading) -> list[int]:
        """Return the watches whose last bookmark is newer than a tick sent later."""
        judged = {stream: revision for stream, (received, revision) in self._marks.items() if received < tick.sent}
        for stream in judged:
            del self._marks[stream]
        return [stream for stream, revision in judged.items() if revision > tick.revision]

    def _judge_probes(self, sent: float) -> None:
        ripe = {source: probe for source, probe in self._waiting.items() if probe.answered < sent}
        for source, probe in ripe.items():
            del self._waiting[source]
            if self._agrees(probe):
                self._standings.setdefault(source, _Standing()).count(probe.sent)
            else:
                self.expel(source)

    def _judge_reads(self, sent: float) -> None:
        waiting = [*self._reads]
        self._reads.clear()
        for read in waiting:
            if read.answered >= sent:
                self._reads.append(read)
            elif self._agrees(read):
                self.clock.add_read(read)
            else:
                self.contradicted += 1

    def _agrees(self, reading: Reading) -> bool:
        """Return True if a read lies between the ticks before and after it."""
        oldest, newest = self.clock.newest_before(reading.sent), self.clock.oldest_after(reading.answered)
        return oldest <= reading.revision <= newest

    def _reset(self) -> None:
        self.resets += 1
        self._reads.clear()
        self.clock.clear()
        self._standings.clear()
        self._waiting.clear()
        self._marks.clear()


@dataclass(frozen=True, slots=True)
class TickPlan:
    """The resources to tick on, in turn; empty if none can be read.

    A `blind` plan ticks on one cached resource only, so it cannot see the lag of that resource's cache.
    """

    resources: tuple[Resource, ...]
    blind: bool


IsCached = Callable[[Resource], bool]
"""Returns whether an apiserver that is ticked on has a watch cache of a resource."""


def plan_ticks(resources: Sequence[Resource], is_cached: IsCached) -> TickPlan:
    """Return the best plan for resources that share their revisions, in order of preference.

    The best choice is one uncached resource, the second best two cached ones, and the last a cached one alone.
    """
    uncached = [resource for resource in resources if not is_cached(resource)]
    chosen = tuple(uncached[:1] or resources[:2])
    return TickPlan(chosen, blind=len(chosen) == 1 and is_cached(chosen[0]))


class TickChoice:
    """Chooses the resources that the ticks of a domain read, among `candidates` in order of preference.

    The best choice is an uncached resource (usually events) that shares its revisions with a cached one. Then come two
    cached resources that share theirs, two uncached ones, and the first candidate alone. Pairs are tried one after the
    other: read `next` and pass the reading to `observe`, a few times per second, until `plan` is set.
    """

    def __init__(self, candidates: Sequence[Resource], is_cached: IsCached) -> None:
        self._is_cached = is_cached
        self._alive = sorted(candidates, key=is_cached, reverse=True)
        self._pairs = [
            (anchor, partner)
            for position, anchor in enumerate(self._alive, start=1)
            for partner in sorted(self._alive[position:], key=is_cached)
        ]
        self._shared: TickPlan | None = None
        self._start_pair()

    @property
    def next(self) -> Resource | None:
        """The resource to read now, or None if the choice is made."""
        return None if self.plan else self._pairs[0][self._reads % 2]

    @property
    def plan(self) -> TickPlan | None:
        if self._shared or self._pairs:
            return self._shared
        return plan_ticks(self._alive[:1], self._is_cached)

    def observe(self, reading: Reading) -> None:
        """Add the reading of `next`."""
        anchor, partner = self._pairs[0]
        forwards = True
        if self._reads % 2 == 0:
            forwards = self._domain.tick(reading)
        else:
            self._domain.probe(reading)
        self._reads += 1
        membership = self._domain.membership((reading.apiserver, partner.key))
        if membership is Membership.MEMBER:
            self._shared = plan_ticks((anchor, partner), self._is_cached)
        elif membership is Membership.FOREIGN or not forwards:
            self._pairs.pop(0)
            self._start_pair()

    def pass_over(self, resource: Resource) -> None:
        """Remove a candidate that cannot be read."""
        self._alive.remove(resource)
        self._pairs = [pair for pair in self._pairs if resource not in pair]
        self._start_pair()

    def _start_pair(self) -> None:
        self._domain = Domain("candidates")
        self._reads = 0
