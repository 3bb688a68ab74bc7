"""Who shares a revision sequence? A domain is the set of sources, resources of apiservers, of which one etcd counts.

Usually that is all of them; built-in resources can be moved to other etcds, aggregated APIs have their own, and what is
said to be an apiserver of this cluster may be one of another. Only evidence tells: a source belongs where its revisions
fit between the ticks, again and again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from watchslo.clock.revision import RevisionClock
from watchslo.clock.staircase import BEFORE_ALL
from watchslo.model import Reading, Resource, Source

PROBES_NEEDED = 3
PROBE_SPACING_SECONDS = 0.5  # so that the sequence has moved on between two probes


class Membership(StrEnum):
    """What is known of a resource's revisions: not enough, that they are the domain's, that they are another's."""

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
    """What was received before `sent` is no newer than `revision`, or is not of this domain."""

    sent: float
    revision: int


@dataclass(slots=True)
class _Standing:
    """A membership, and the consistent probes towards the next one; `counted` is when the last of them was sent."""

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

    Three consistent probes half a second apart promote a source, from pending to member or from foreign back to
    pending; one contradiction, or a violation, makes it foreign. Streams are numbered by the caller and attached to
    their source; sightings are taken from members alone and go when they are members no more.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.clock = RevisionClock()
        self.resets = 0
        self._standings: dict[Source, _Standing] = {}
        self._waiting: dict[Source, Reading] = {}
        self._streams: dict[int, Source] = {}

    @property
    def horizon(self) -> Horizon | None:
        """What the tick sent last allows to seal."""
        latest = self.clock.latest
        return Horizon(latest.sent, latest.revision) if latest else None

    def tick(self, reading: Reading) -> bool:
        """Takes in a tick; false if it went backwards: an older read, ended before it was sent, had a newer revision.

        Then etcd was restored. All that was known is void: the clock begins with this tick, and every resource is
        pending again.
        """
        backwards = reading.revision < self.clock.newest_before(reading.sent)
        if backwards:
            self._reset()
        for stream in self.clock.tick(reading):
            self.expel(self._streams[stream])
        self._judge_probes(reading.sent)
        return not backwards

    def probe(self, reading: Reading) -> None:
        """Takes in a consistent read of a source, judged once a tick was sent after its answer.

        One without a tick before it cannot be judged, and one waits at a time: others are ignored.
        """
        if self.clock.newest_before(reading.sent) > BEFORE_ALL:
            self._waiting.setdefault(reading.source, reading)

    def is_judging(self, source: Source) -> bool:
        """Whether a probe waits for the tick that judges it: until then another one would be ignored."""
        return source in self._waiting

    def membership(self, source: Source) -> Membership:
        standing = self._standings.get(source)
        return standing.membership if standing else Membership.PENDING

    def expel(self, source: Source) -> None:
        """Makes a source foreign: it was caught with a revision that this domain did not have."""
        self._standings[source] = _Standing(Membership.FOREIGN)
        self._waiting.pop(source, None)
        for stream, watched in self._streams.items():
            if watched == source:
                self.clock.forget(stream)

    def attach(self, stream: int, source: Source) -> None:
        """Announces a stream of a source; its number is the caller's, unique in this domain."""
        self._streams[stream] = source

    def detach(self, stream: int) -> None:
        """Takes leave of a stream: nobody vouches for its sightings any more."""
        del self._streams[stream]
        self.clock.forget(stream)

    def sight(self, received: float, revision: int, stream: int) -> bool:
        """Notes the newest revision of what an attached stream received; false if it is no member, and not believed."""
        if self.membership(self._streams[stream]) is not Membership.MEMBER:
            return False
        self.clock.sight(received, revision, stream)
        return True

    def _judge_probes(self, sent: float) -> None:
        ripe = {source: probe for source, probe in self._waiting.items() if probe.answered < sent}
        for source, probe in ripe.items():
            del self._waiting[source]
            oldest, newest = self.clock.newest_before(probe.sent), self.clock.oldest_after(probe.answered)
            if oldest <= probe.revision <= newest:
                self._standings.setdefault(source, _Standing()).count(probe.sent)
            else:
                self.expel(source)

    def _reset(self) -> None:
        self.resets += 1
        self.clock.clear()
        self._standings.clear()
        self._waiting.clear()


@dataclass(frozen=True, slots=True)
class TickPlan:
    """What to tick on, in turn; nothing if nothing can be read. A blind plan cannot see the lag of its own cache."""

    resources: tuple[Resource, ...]
    blind: bool


class TickChoice:
    """Chooses what the ticks of a domain read, among `candidates` in order of preference.

    Best is an uncached resource (events) that shares its revisions with a cached one; else two cached ones that share
    theirs; else the first candidate alone. Pairs are tried one after the other: read `next`, hand the reading to
    `observe`, a few times a second, until `plan` is there.
    """

    def __init__(self, candidates: Sequence[Resource]) -> None:
        cached = [resource for resource in candidates if resource.cached]
        uncached = [resource for resource in candidates if not resource.cached]
        self._alive = [*cached, *uncached]
        self._pairs = [
            (anchor, partner)
            for position, anchor in enumerate(cached, start=1)
            for partner in (*uncached, *cached[position:])
        ]
        self._shared: TickPlan | None = None
        self._start_pair()

    @property
    def next(self) -> Resource | None:
        """What to read now, or nothing if the choice is made."""
        return None if self.plan else self._pairs[0][self._reads % 2]

    @property
    def plan(self) -> TickPlan | None:
        if self._shared or self._pairs:
            return self._shared
        alone = tuple(self._alive[:1])
        return TickPlan(alone, blind=any(resource.cached for resource in alone))

    def observe(self, reading: Reading) -> None:
        """Takes in the reading of `next`."""
        anchor, partner = self._pairs[0]
        forwards = True
        if self._reads % 2 == 0:
            forwards = self._domain.tick(reading)
        else:
            self._domain.probe(reading)
        self._reads += 1
        membership = self._domain.membership((reading.apiserver, partner.key))
        if membership is Membership.MEMBER:
            self._shared = TickPlan((anchor, partner) if partner.cached else (partner,), blind=False)
        elif membership is Membership.FOREIGN or not forwards:
            self._pairs.pop(0)
            self._start_pair()

    def pass_over(self, resource: Resource) -> None:
        """Takes out a candidate that cannot be read."""
        self._alive.remove(resource)
        self._pairs = [pair for pair in self._pairs if resource not in pair]
        self._start_pair()

    def _start_pair(self) -> None:
        self._domain = Domain("candidates")
        self._reads = 0
