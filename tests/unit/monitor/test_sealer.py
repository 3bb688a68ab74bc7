"""The sealer: which events of several watches become samples, and which do not, by a real revision clock."""

import math
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import GOLDEN
from tests.support.transcripts import Step, calls, replay, shown, value
from tests.unit.latency.one_watch import GAP, identity
from watchslo.clock.domain import PROBES_NEEDED, Domain
from watchslo.clock.storage_kind import ApiserverStorage
from watchslo.latency.bins import Bins
from watchslo.latency.estimate import TickSpacing, solve
from watchslo.latency.objective import Objective
from watchslo.latency.own_delay import OwnDelays
from watchslo.latency.queue_waits import WAITS, QueueWaits
from watchslo.latency.track import Track
from watchslo.model import Reading
from watchslo.monitor.clocks.sealer import Sealer
from watchslo.snapshot import StorageKind, TrackReading

BINS = Bins()
ROUND_TRIP = 0.002
LIMITS = {
    "SLICE_EVENTS": "watchslo.monitor.clocks.sealer",
    "SLICE_WATCHES": "watchslo.monitor.clocks.sealer",
    "MOST_SAMPLES": "watchslo.monitor.clocks.sealer",
    "PENDING_EVENTS": "watchslo.latency.pending",
    "HELD_EVENTS": "watchslo.latency.pending",
}


class Watches:
    """Watches of one domain by number, ticks, and the outcome of events.

    The clock ticks every half second with a revision of 100 times the time: an event committed at t has revision
    100 * t. `one` is the only apiserver that ticks, unless a tick names another.
    """

    def __init__(self, *watches: Any, blind: bool = False, several: bool = False) -> None:
        self.own_delays = OwnDelays()
        self.domain = Domain("main")
        self.storage = ApiserverStorage()
        self.cache: Any = None
        self.sealer = Sealer(self.domain, BINS, self.own_delays, lambda _: self.cache, lambda _: self.storage)
        self.tracks: dict[int, Track] = {}
        self.waits: dict[int, QueueWaits] = {}
        self.now = 100.0
        self._named = {"several": several, "blind": blind}
        self.tick(0.0)
        for watch in watches:
            self.add(watch)

    def add(self, watch: Any) -> None:
        self.tracks[watch.number] = Track(BINS, Objective(min_events=1), self.now, self.own_delays)
        self.waits[watch.number] = QueueWaits()
        self.sealer.attach(watch, self.tracks[watch.number], self.waits[watch.number])
        self.domain.attach(watch.number, watch.source)
        self.prove(watch)

    def prove(self, watch: Any) -> None:
        """Let the source of a watch become a member, without sealing."""
        for _ in range(PROBES_NEEDED + 1):
            self.domain.probe(
                Reading(watch.source[1], self.now, self.now + 0.001, int(100 * self.now), watch.source[0])
            )
            self.tick(0.6)

    def tick(self, after: float, *, apiserver: str = "one", on: str = "events") -> Reading:
        """Tick after so many seconds, without sealing."""
        self.now += after
        made = Reading(on, self.now, self.now + ROUND_TRIP, int(100 * self.now), apiserver)
        self.domain.tick(made)
        return made

    def ticks(self, seconds: float) -> None:
        for _ in range(round(2 * seconds)):
            self.seal(self.tick(0.5))

    def slices(self, tick: Reading) -> list[list[int]]:
        """Seal; return the foreign watches by slice."""
        return [[*found] for found in self.sealer.seal(tick, **self._named)]

    def seal(self, tick: Reading) -> list[int]:
        return [number for found in self.slices(tick) for number in found]

    def deliver(self, number: int, committed: float, latency: float, *more: float) -> None:
        """Deliver events that were committed then, all of them so long after the first commit."""
        revisions = [math.ceil(100 * at) for at in (committed, *more)]
        self.sealer.record(number, committed + latency, revisions)

    def readings(self) -> dict[int, TrackReading]:
        deque(self.sealer.collect(), maxlen=0)
        solve(self.sealer.update(self.now, GAP))
        self.sealer.publish()
        for number, track in self.tracks.items():
            slots, times = self.sealer.take(number), self.domain.clock.times.between
            solve(track.update(self.now, slots, self.sealer.sealed(number), TickSpacing(ROUND_TRIP, GAP), times))
            track.publish()
        return {number: track.reading() for number, track in self.tracks.items()}

    def outcome(self, number: int) -> dict[str, int]:
        """Return the number of samples and of unmeasured events of a watch, by reason."""
        reading = self.readings()[number]
        counts = {"sample": reading.timespan.total, **reading.unmeasured}
        return {reason: count for reason, count in counts.items() if count}


class DrivenWatches:
    """Watches that are driven by text; a time as `+0.3` is so many seconds from now."""

    def __init__(self, beginning: str, patches: pytest.MonkeyPatch) -> None:
        words = beginning.split()
        made = [_identity(word) for word in words if word[0].isdecimal()]
        self.watches = Watches(*made, blind="blind" in words, several="several" in words)
        self.sealer, self.domain = self.watches.sealer, self.watches.domain
        self.own_delays, self._patches = self.watches.own_delays, patches
        self.ticks, self.deliver, self.tracks = self.watches.ticks, self.watches.deliver, self.watches.tracks
        self.forget_apiserver = self.sealer.forget_apiserver
        self._collection = self.sealer.collect()

    def read(self, word: str) -> Any:
        return self.watches.now + float(word) if word[0] in "+-" else value(word)

    def limit(self, name: str, most: int) -> None:
        self._patches.setattr(f"{LIMITS[name]}.{name}", most)

    def attach(self, watch: str) -> None:
        """Attach a watch that shares the statistics of the first one and is not proven."""
        made = _identity(watch)
        self.sealer.attach(made, self.tracks[1], self.watches.waits.setdefault(made.number, QueueWaits()))
        self.domain.attach(made.number, made.source)

    def add(self, watch: str) -> None:
        self.watches.add(_identity(watch))

    def prove(self, watch: str) -> None:
        self.watches.prove(_identity(watch))

    def expel(self, resource: str) -> None:
        self.domain.expel(("one", resource))

    def retain(self, resource: str) -> None:
        self.domain.retain({("one", resource)})

    def membership(self, resource: str) -> str:
        return self.domain.membership(("one", resource)).value

    def tick(self, after: float, on: str = "events", apiserver: str = "one") -> None:
        self.watches.tick(after, on=on, apiserver=apiserver)

    def tick_at_a_second(self) -> None:
        self.watches.tick(math.ceil(self.watches.now) - self.watches.now)

    def seal(self, after: float = 2.0) -> list[int]:
        """Return the watches that are found to be foreign."""
        return self.watches.seal(self.watches.tick(after))

    def slices(self) -> int:
        return len(self.watches.slices(self.watches.tick(2.0)))

    def wait(self, seconds: float) -> None:
        self.watches.now += seconds

    def record(self, number: int, received: float, revision: int) -> None:
        self.sealer.record(number, received, [revision])

    def hold(self, number: int, committed: float, latency: float = 0.01, revision: int | None = None) -> None:
        self.sealer.hold(number, committed + latency, [revision or math.ceil(100 * committed)])

    def held(self) -> int:
        return len(self.sealer._held)

    def drop(self, number: int) -> None:
        self.sealer.drop(number)

    def leave(self, number: int) -> int:
        """Detach a watch; return how many of its samples were not collected."""
        return sum(part.n for _, part in self.sealer.detach(number))

    def late_reads(self, since: float, begin: float, end: float) -> None:
        self.own_delays.add_late_reads(begin, end, since)

    def known_until(self, moment: float) -> None:
        self.own_delays.known_until = moment

    def stop(self, begin: float, end: float) -> None:
        self.own_delays.add_stop(begin, end)

    def queue(self, number: int, begin: float, end: float) -> None:
        self.watches.waits[number].add(begin, end)

    def storage(self, kind: str, **facts: Any) -> None:
        self.watches.storage = ApiserverStorage(StorageKind(kind), **facts)

    def cache(self, begin: float, end: float) -> None:
        """Let a probed cache have received each event so many seconds before it arrived."""
        self.watches.cache = SimpleNamespace(
            median_round_trip=0.001, locate=lambda _, received: (received - begin, received - end)
        )

    def collect(self) -> int:
        """Return the number of pauses."""
        return sum(1 for _ in self.sealer.collect())

    def begin_collection(self) -> None:
        self._collection = self.sealer.collect()
        next(self._collection)

    def end_collection(self) -> int:
        return sum(1 for _ in self._collection)

    def taken(self, number: int) -> list[int]:
        return [part.n for _, part in self.sealer.take(number)]

    def evaluate(self) -> None:
        self.watches.readings()

    def sealed(self, number: int) -> str:
        return f"{self.sealer.sealed(number) - self.watches.now:+.2f}"

    def arrivals(self, number: int) -> str:
        """Return the revisions and times of arrivals, from now."""
        found, now = self.sealer.arrivals(number), self.watches.now
        pairs = zip(found.revisions.tolist(), found.received.tolist(), strict=True)
        return ", ".join(f"{revision / 100 - now:+.2f}@{at - now:+.2f}" for revision, at in pairs) or "none"

    def outcome(self) -> str:
        return "\n".join(f"{number}: {shown(self.watches.outcome(number))}" for number in self.watches.tracks)

    def verdicts(self, number: int) -> dict[str, int]:
        return dict(self.watches.readings()[number].objective.verdicts)

    def p50(self, number: int) -> str:
        found = self.watches.readings()[number].windows[0].quantiles[0]
        return f"{found.lower:.2g} {found.estimate:.2g} {found.upper:.2g}"

    def hops(self, number: int) -> list[int]:
        return [hop.histogram.total for hop in self.watches.readings()[number].hops]

    def compared(self) -> dict[str, int]:
        return {name: one.combined.events for name, one in self.sealer.comparisons.items()}

    def polls(self) -> str:
        return f"{self.sealer.polls('one')}, kine {self.sealer.is_kine}"

    def deliver_at_ticks(self, seconds: float) -> None:
        """Commit each event just after a tick, and deliver it just after the next one, as kine does."""
        for _ in range(round(2 * seconds)):
            self.ticks(0.5)
            self.deliver(1, self.watches.now - 0.37, 0.38)

    def deliver_before_ticks(self, count: int) -> None:
        for _ in range(count):
            self.ticks(0.5)
            self.deliver(1, self.watches.now - 0.01, 0.292)

    def deliver_each_half_second(self, number: int, count: int) -> None:
        at = self.watches.now
        for half in range(1, count + 1):
            self.deliver(number, at + half / 2, 0.001)


def _identity(word: Any) -> Any:
    number, resource, apiserver, *_ = [*str(word).split(":"), "", ""]
    return identity(int(number), apiserver or "one", resource or "pods")


def test_sealer_does_what_its_transcripts_say(
    golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(beginning: str) -> Step:
        monkeypatch.undo()
        driven = DrivenWatches(beginning, monkeypatch)
        return calls(driven, driven.read)

    golden("sealer.txt", replay((GOLDEN / "sealer.txt").read_text(), begin))


@pytest.mark.parametrize("block", [0.01, 0.045, 0.1, 0.145])
def test_own_delay_widens_the_interval_and_costs_no_sample(block: float) -> None:
    """Events that are 1 ms late; in one of 20 seconds, the loop stands still, and reads them after that."""
    watches = Watches(identity(1))
    for second in range(20):
        begin = watches.now + 0.25
        for event in range(50):
            committed, late = begin + event / 100, 0.001
            if second % 5 == 0 and committed + late < begin + block:
                watches.deliver(1, committed, begin + block - committed)
            else:
                watches.deliver(1, committed, late)
        if second % 5 == 0:
            watches.own_delays.add_late_reads(begin + block, begin + block + 0.0001, since=begin)
        watches.ticks(1)
    watches.ticks(2)
    assert watches.outcome(1) == {"sample": 1000}
    (window, *_) = watches.tracks[1].reading().windows
    assert window.quantiles[2].estimate < 0.004
    assert window.quantiles[2].lower < 0.002
    assert watches.tracks[1].reading().objective.verdicts["beyond"] == 0


def test_comparison_is_of_each_apiserver() -> None:
    """The ticks of `two` are 0.3 s late, so its own ticks hide that its events are as late."""
    watches = Watches(identity(1), identity(2, "two"), several=True)
    for _ in range(60):
        at = watches.now
        watches.deliver(1, at + 0.24, 0.001)
        watches.deliver(2, at + 0.24, 0.301)
        watches.tick(0.25)
        watches.domain.tick(Reading("events", at + 0.25, at + 0.552, int(100 * (at + 0.55)), "two"))
        watches.seal(watches.tick(0.75))
    watches.readings()
    one, two = (watches.sealer.comparisons[name] for name in ("one", "two"))
    assert one.combined.events == one.alone.events > 50
    assert two.combined.events > 50
    assert two.combined.quantiles[0].estimate > 0.25
    assert two.alone.quantiles[0].lower == 0


def test_queue_waits_keep_the_newest() -> None:
    waits = QueueWaits()
    for number in range(2 * WAITS):
        waits.add(float(number), number + 0.5)
    assert len(waits) == WAITS
    assert waits.wait(WAITS - 1) == (WAITS, WAITS + 0.5)
