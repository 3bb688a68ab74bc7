"""The sealer: which events of several watches become samples, and which do not, by a real revision clock."""

import math
from collections import deque
from typing import Any

import numpy as np
import pytest

from tests.unit.latency.one_watch import GAP, identity
from watchslo.clock.domain import PROBES_NEEDED, Domain, Membership
from watchslo.clock.storage_kind import ApiserverStorage
from watchslo.latency.bins import Bins
from watchslo.latency.estimate import TickSpacing, solve
from watchslo.latency.objective import Objective
from watchslo.latency.own_delay import OwnDelays
from watchslo.latency.queue_waits import WAITS, QueueWaits
from watchslo.latency.track import Track
from watchslo.model import Reading
from watchslo.monitor import sealer as module
from watchslo.monitor.sealer import Sealer
from watchslo.snapshot import StorageKind, TrackReading

BINS = Bins()
ROUND_TRIP = 0.002


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

    def seal(self, tick: Reading) -> list[int]:
        return [number for found in self.sealer.seal(tick, **self._named) for number in found]

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


@pytest.fixture
def watches() -> Watches:
    return Watches(identity(1), identity(2, resource="nodes"), identity(3, resource="leases"))


class TestCollection:
    @pytest.fixture
    def sealed(self, watches: Watches) -> Watches:
        for number in (1, 2, 3):
            watches.deliver(number, watches.now + 0.3, 0.01)
        watches.ticks(5)
        return watches

    def test_pauses_after_each_watch(self, sealed: Watches) -> None:
        assert sum(1 for _ in sealed.sealer.collect()) == 3
        assert [len(sealed.sealer.take(number)) for number in (1, 2, 3)] == [1, 1, 1]

    def test_leaves_what_is_sealed_later_to_the_next_one(self, sealed: Watches) -> None:
        deque(sealed.sealer.collect(), maxlen=0)
        before = sealed.sealer.sealed(1)
        sealed.deliver(1, sealed.now + 0.3, 0.01)
        sealed.ticks(5)
        assert [part.n for _, part in sealed.sealer.take(1)] == [1]
        assert sealed.sealer.sealed(1) == before
        deque(sealed.sealer.collect(), maxlen=0)
        assert [part.n for _, part in sealed.sealer.take(1)] == [1]
        assert sealed.sealer.sealed(1) > before

    def test_is_finished_if_a_watch_is_taken_during_a_pause(self, sealed: Watches) -> None:
        collection = sealed.sealer.collect()
        next(collection)
        assert [len(sealed.sealer.detach(number)) for number in (3, 2)] == [1, 1]
        assert [*collection] == []
        assert len(sealed.sealer.take(1)) == 1


class TestManyWatches:
    def test_are_measured_together(self, watches: Watches) -> None:
        at = watches.now
        for number, latency in ((1, 0.01), (2, 2.4), (1, 0.02)):
            watches.deliver(number, at + 0.3 + number / 10, latency)
        watches.ticks(5)
        readings = watches.readings()
        assert [readings[number].timespan.total for number in (1, 2, 3)] == [2, 1, 0]
        assert readings[1].objective.verdicts == {"within": 2, "beyond": 0, "uncertain": 0}
        assert readings[2].objective.verdicts == {"within": 0, "beyond": 1, "uncertain": 0}

    def test_are_measured_in_slices(self, watches: Watches, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "SLICE_EVENTS", 10)
        for _ in range(35):
            watches.deliver(1, watches.now + 0.1, 0.01)
        tick = watches.tick(2.0)
        assert len([*watches.sealer.seal(tick, several=False, blind=False)]) == 4
        assert watches.outcome(1) == {"sample": 35}

    def test_are_measured_some_watches_at_a_time(self, watches: Watches, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "SLICE_WATCHES", 2)
        for number in (3, 1, 2, 3):
            watches.deliver(number, watches.now + 0.1, 0.01)
        tick = watches.tick(2.0)
        assert len([*watches.sealer.seal(tick, several=False, blind=False)]) == 2
        assert [watches.outcome(number) for number in (1, 2, 3)] == [{"sample": 1}, {"sample": 1}, {"sample": 2}]

    def test_keep_their_samples_when_one_leaves(self, watches: Watches) -> None:
        watches.deliver(1, watches.now + 0.1, 0.01)
        watches.deliver(2, watches.now + 0.2, 0.01)
        watches.ticks(3)
        watches.deliver(1, watches.now + 0.1, 0.01)
        slots = watches.sealer.detach(1)
        assert sum(part.n for _, part in slots) == 1
        assert watches.tracks[1]._unmeasured["domain"] == 1
        del watches.tracks[1]
        watches.ticks(3)
        assert watches.outcome(2) == {"sample": 1}
        assert watches.sealer.numbers == (2, 3)

    def test_leave_nothing_behind(self) -> None:
        watches = Watches(identity(1))
        for number in range(2, 500):
            watches.sealer.attach(identity(number), watches.tracks[1], QueueWaits())
            watches.deliver(number, watches.now, 0.01)
            watches.ticks(1)
            watches.sealer.detach(number)
        assert watches.sealer.numbers == (1,)
        assert (len(watches.sealer._watches), len(watches.sealer._slots), len(watches.sealer._pending)) == (1, 0, 0)

    def test_that_are_not_sealed_in_ten_minutes_are_given_up(self, watches: Watches) -> None:
        watches.deliver(1, watches.now, 0.01)
        watches.now += 600.0
        assert watches.outcome(1) == {}
        watches.now += 1.0
        assert watches.outcome(1) == {"unsealed": 1}

    def test_have_a_common_bound(self, watches: Watches, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("watchslo.latency.pending.PENDING_EVENTS", 2)
        for number in (1, 2, 1):
            watches.deliver(number, watches.now, 0.01)
        assert watches.outcome(1) == {"unsealed": 1}
        watches.ticks(2)
        assert watches.outcome(1) == {"sample": 1, "unsealed": 1}


class TestArrivals:
    @pytest.mark.parametrize(("other", "kept"), [("two", 2), ("one", 0)])
    def test_are_kept_if_several_apiservers_have_watches(self, other: str, kept: int) -> None:
        watches = Watches(identity(1), identity(2, apiserver=other), several=True)
        for name in ("one", "two"):
            watches.tick(0.1, apiserver=name)
        at = watches.now
        for number in (1, 2):
            watches.deliver(number, at + 0.1, 0.01 * number, at + 0.1)
        watches.ticks(3)
        watches.readings()
        arrivals = [watches.sealer.arrivals(number) for number in (1, 2)]
        assert [len(one.revisions) for one in arrivals] == [kept, kept]
        assert [len(one.received) for one in arrivals] == [kept, kept]

    @pytest.fixture
    def sealed(self) -> Watches:
        """Two watches that have had an event in each of two seconds, which are sealed."""
        watches = Watches(identity(1), identity(2, apiserver="two"), several=True)
        for name in ("one", "two"):
            watches.tick(0.1, apiserver=name)
        for _ in range(2):
            for number in (1, 2):
                watches.deliver(number, watches.now + 0.1, 0.01 * number)
            watches.ticks(3)
        return watches

    def test_are_of_the_watch_in_the_order_of_time(self, sealed: Watches) -> None:
        sealed.readings()
        one, two = (sealed.sealer.arrivals(number) for number in (1, 2))
        assert one.revisions.tolist() == two.revisions.tolist() == sorted(one.revisions)
        assert (two.received - one.received).tolist() == pytest.approx([0.01, 0.01])

    def test_wait_for_the_evaluation_up_to_a_bound(self, sealed: Watches, monkeypatch: pytest.MonkeyPatch) -> None:
        assert not len(sealed.sealer.arrivals(1).revisions)
        monkeypatch.setattr(module, "MOST_SAMPLES", 5)
        for number in (1, 2):
            sealed.deliver(number, sealed.now + 0.1, 0.01)
        sealed.ticks(3)
        assert [len(sealed.sealer.arrivals(number).revisions) for number in (1, 2)] == [3, 3]

    def test_of_a_watch_that_leaves_during_a_pause_are_forgotten(self, sealed: Watches) -> None:
        collection = sealed.sealer.collect()
        next(collection)
        sealed.sealer.detach(1)
        assert [*collection] == []
        assert [len(sealed.sealer.arrivals(number).revisions) for number in (1, 2)] == [0, 2]

    def test_of_a_watch_that_left_are_none(self, watches: Watches) -> None:
        assert not len(watches.sealer.arrivals(99).revisions)


class TestAnotherSequence:
    def test_drops_its_second_and_is_reported(self, watches: Watches) -> None:
        watches.deliver(1, watches.now + 0.1, 0.01)
        watches.sealer.record(2, watches.now + 0.2, [10**9])
        watches.deliver(3, watches.now + 0.3, 0.01)
        assert watches.seal(watches.tick(2.0)) == [2]
        assert [watches.outcome(number) for number in (1, 2, 3)] == [{"sample": 1}, {"domain": 1}, {"sample": 1}]
        assert watches.domain.membership(("one", "nodes")) is Membership.FOREIGN

    def test_is_not_measured_any_more(self, watches: Watches) -> None:
        watches.sealer.record(2, watches.now + 0.2, [10**9])
        watches.seal(watches.tick(2.0))
        watches.deliver(2, watches.now + 0.1, 0.01)
        assert watches.seal(watches.tick(2.0)) == []
        assert watches.outcome(2) == {"domain": 2}


class TestHeld:
    """Events of a watch whose membership becomes known only after a while."""

    PODS = identity(1)

    @pytest.fixture
    def watches(self) -> Watches:
        watches = Watches(identity(2, resource="nodes"))
        watches.add(self.PODS)
        watches.domain.retain({("one", "nodes")})
        return watches

    def hold(self, watches: Watches, committed: float, latency: float = 0.01) -> None:
        watches.sealer.hold(1, committed + latency, [math.ceil(100 * committed)])

    def test_are_measured_as_soon_as_the_membership_is_known(self, watches: Watches) -> None:
        at = watches.now
        self.hold(watches, at + 0.3, 2.4)
        self.hold(watches, at + 2.8)
        watches.deliver(2, at + 2.5, 0.01)
        watches.ticks(5)
        assert [watches.outcome(number) for number in (1, 2)] == [{}, {"sample": 1}]
        watches.prove(self.PODS)
        watches.deliver(1, watches.now + 0.3, 0.01)
        watches.ticks(2)
        assert watches.outcome(1) == {"sample": 3}
        assert watches.tracks[1].reading().objective.verdicts == {"within": 2, "beyond": 1, "uncertain": 0}

    def test_delay_the_verdict_on_their_watch_only(self, watches: Watches) -> None:
        self.hold(watches, watches.now + 0.3)
        received = watches.now + 0.3 + 0.01
        watches.ticks(5)
        watches.readings()
        assert watches.sealer.sealed(1) == received
        assert watches.sealer.sealed(2) == math.floor(watches.now)
        watches.prove(self.PODS)
        watches.ticks(1)
        assert watches.sealer.sealed(1) == received, "their samples are not collected yet"
        watches.readings()
        assert watches.sealer.sealed(1) == math.floor(watches.now)

    def test_are_of_another_sequence_if_one_is_newer_than_a_later_tick(self, watches: Watches) -> None:
        watches.tick(math.ceil(watches.now) - watches.now)
        watches.sealer.hold(1, watches.now + 0.2, [10**9])
        assert watches.seal(watches.tick(0.5)) == [], "its second is not over"
        assert watches.domain.membership(self.PODS.source) is Membership.PENDING
        watches.sealer.hold(1, watches.now + 0.2, [10**9 + 1])
        assert watches.seal(watches.tick(2.0)) == [1]
        assert watches.domain.membership(self.PODS.source) is Membership.FOREIGN
        assert watches.outcome(1) == {"domain": 2}

    def test_are_of_another_sequence_if_their_source_proves_to_be(self, watches: Watches) -> None:
        self.hold(watches, watches.now + 0.3)
        watches.domain.expel(self.PODS.source)
        assert watches.seal(watches.tick(2.0)) == []
        assert watches.outcome(1) == {"domain": 1}

    def test_are_dropped_with_their_watch(self, watches: Watches) -> None:
        self.hold(watches, watches.now)
        watches.sealer.drop(1)
        assert watches.outcome(1) == {"domain": 1}

    def test_are_given_up_after_ten_minutes(self, watches: Watches) -> None:
        self.hold(watches, watches.now, 0.0)
        watches.now += 600.0
        assert watches.outcome(1) == {}
        watches.now += 1.0
        assert watches.outcome(1) == {"pending": 1}

    def test_have_a_bound(self, watches: Watches, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("watchslo.latency.pending.HELD_EVENTS", 2)
        for _ in range(3):
            self.hold(watches, watches.now)
        assert watches.outcome(1) == {"pending": 1}
        watches.prove(self.PODS)
        watches.ticks(2)
        assert watches.outcome(1) == {"sample": 2, "pending": 1}

    @pytest.mark.parametrize(("limit", "slices"), [("SLICE_EVENTS", 3), ("SLICE_WATCHES", 2)])
    def test_are_measured_in_slices(
        self, watches: Watches, limit: str, slices: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, limit, 2)
        others = [identity(number) for number in (3, 4)]
        for other in others:
            watches.sealer.attach(other, watches.tracks[1], QueueWaits())
            watches.domain.attach(other.number, other.source)
        for number in (1, 3, 4, 3, 1):
            watches.sealer.hold(number, watches.now + 0.1, [math.ceil(100 * watches.now)])
        watches.prove(self.PODS)
        assert len([*watches.sealer.seal(watches.tick(2.0), several=False, blind=False)]) == slices
        assert len(watches.sealer._held) == 0


class TestOwnDelay:
    @pytest.mark.parametrize("block", [0.01, 0.045, 0.1, 0.145])
    def test_widens_the_interval_and_costs_no_sample(self, watches: Watches, block: float) -> None:
        """Events that are 1 ms late; in one of 20 seconds, the loop stands still, and reads them after that."""
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

    def test_of_more_than_150_ms_taints(self, watches: Watches) -> None:
        at = watches.now + 0.25
        watches.deliver(1, at, 0.3)
        watches.deliver(1, at, 0.4)
        watches.own_delays.add_late_reads(at + 0.3, at + 0.35, since=at + 0.1)
        watches.ticks(3)
        assert watches.outcome(1) == {"sample": 1, "tainted": 1}

    def test_is_taken_from_the_proven_lower_end(self, watches: Watches) -> None:
        """The event is 1.1 s late by its arrival, but up to 0.14 s of that may be ours."""
        at = watches.now + 0.01
        watches.deliver(2, at, 1.59)
        watches.deliver(1, at, 1.6)
        watches.own_delays.add_late_reads(at + 1.595, at + 1.61, since=at + 1.46)
        watches.ticks(5)
        verdicts = {number: watches.readings()[number].objective.verdicts for number in (1, 2)}
        assert verdicts[2]["beyond"] == 1
        assert verdicts[1] == {"within": 0, "beyond": 0, "uncertain": 1}

    def test_is_waited_for_until_it_is_known(self, watches: Watches) -> None:
        watches.deliver(1, watches.now + 0.2, 0.01)
        watches.own_delays.known_until = math.floor(watches.now) + 0.9
        watches.ticks(3)
        assert watches.outcome(1) == {}
        watches.own_delays.known_until = watches.now
        watches.ticks(1)
        assert watches.outcome(1) == {"sample": 1}

    def test_by_a_suspend_taints_what_spans_it(self, watches: Watches) -> None:
        """The monotonic clock stood still for hours between two heartbeats: what comes then only looks prompt."""
        watches.deliver(1, watches.now + 0.3, 0.3)
        watches.deliver(2, watches.now + 0.1, 0.01)
        watches.own_delays.add_stop(watches.now + 0.4, watches.now + 0.45)
        watches.ticks(2)
        watches.deliver(3, watches.now + 0.3, 0.01)
        watches.ticks(3)
        assert [watches.outcome(number) for number in (1, 2, 3)] == [{"tainted": 1}, {"sample": 1}, {"sample": 1}]


class TestOwnQueue:
    """A watch was cut, and its reopening waited from 1 s to 3 s in this process."""

    @pytest.fixture
    def cut(self, watches: Watches) -> Watches:
        at = watches.now
        for seconds in range(1, 12):
            watches.deliver(2, at + seconds / 2, 0.001)
        for committed in (0.25, 1.5, 2.5, 4.0):
            watches.deliver(1, at + committed, max(0.0, 3.2 - committed) + 0.001)
        watches.waits[1].add(at + 1.0, at + 3.0)
        watches.ticks(6)
        return watches

    def test_excludes_what_was_committed_while_it_lasted(self, cut: Watches) -> None:
        assert cut.outcome(1) == {"sample": 2, "own_queue": 2}

    def test_is_taken_from_the_lower_end_of_what_was_committed_before(self, cut: Watches) -> None:
        """The event is 2.95 s late, but 2 s of that are ours."""
        assert cut.readings()[1].objective.verdicts == {"within": 1, "beyond": 0, "uncertain": 1}

    def test_does_not_excuse_what_is_later_than_the_wait(self, watches: Watches) -> None:
        at = watches.now
        watches.deliver(2, at + 0.01, 0.001, at + 0.02)
        watches.deliver(1, at + 0.015, 6.0)
        watches.waits[1].add(at + 1.0, at + 3.0)
        watches.ticks(8)
        assert watches.readings()[1].objective.verdicts == {"within": 0, "beyond": 1, "uncertain": 0}

    def test_that_was_repeated_excludes_each_wait_and_not_what_lies_between(self, watches: Watches) -> None:
        """The apiserver refused the first request: what was committed until the next one waited is its lateness."""
        at = watches.now
        for seconds in range(1, 16):
            watches.deliver(2, at + seconds / 2, 0.001)
        watches.waits[1].add(at + 1.0, at + 3.0)
        watches.waits[1].add(at + 7.0, at + 8.0)
        for committed in (1.9, 2.0, 4.6, 4.8, 7.5):
            watches.deliver(1, at + committed, 8.2 - committed)
        watches.ticks(12)
        assert watches.outcome(1) == {"sample": 2, "own_queue": 3}
        assert watches.readings()[1].objective.verdicts["beyond"] == 2

    def test_survives_new_statistics_of_the_watch(self, cut: Watches) -> None:
        cut.sealer.attach(identity(1), cut.tracks[1], cut.waits[1])
        cut.deliver(1, cut.now - 4.5, 4.6)
        cut.ticks(2)
        assert cut.outcome(1)["own_queue"] == 3

    def test_keeps_the_newest_waits(self) -> None:
        waits = QueueWaits()
        for number in range(2 * WAITS):
            waits.add(float(number), number + 0.5)
        assert len(waits) == WAITS
        assert waits.wait(WAITS - 1) == (WAITS, WAITS + 0.5)

    def test_of_less_than_a_millisecond_is_ignored(self, watches: Watches) -> None:
        at = watches.now
        watches.waits[1].add(at + 1.0, at + 1.0009)
        watches.deliver(1, at + 1.0005, 0.1)
        watches.ticks(3)
        assert watches.outcome(1) == {"sample": 1}


class TestComparison:
    @pytest.fixture
    def watches(self) -> Watches:
        return Watches(identity(1), identity(2, "two"), several=True)

    def test_is_of_each_apiserver(self, watches: Watches) -> None:
        """The ticks of `two` are 0.3 s late, so its own ticks hide that its events are as late."""
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

    def test_of_an_apiserver_that_left_is_forgotten(self, watches: Watches) -> None:
        watches.deliver(1, watches.now + 0.1, 0.001)
        watches.ticks(2)
        assert [*watches.sealer.comparisons] == ["one"]
        watches.deliver(2, watches.now + 0.1, 0.001)
        watches.ticks(2)
        watches.sealer.forget_apiserver("one")
        watches.sealer.forget_apiserver("one")
        assert [*watches.sealer.comparisons] == ["two"]
        watches.readings()
        assert watches.sealer.comparisons["two"].combined.events == 0, "it does not get the events of the former one"
        watches.sealer.forget_apiserver("two")
        assert watches.sealer.comparisons == {}
        watches.deliver(2, watches.now + 0.1, 0.001)
        watches.ticks(2)
        watches.readings()
        assert [*watches.sealer.comparisons] == ["two"]

    def test_does_not_get_the_events_of_an_apiserver_that_left(self, watches: Watches) -> None:
        """`two` does not tick, so it has no event to compare."""
        watches.deliver(1, watches.now + 0.1, 0.001)
        watches.ticks(2)
        watches.sealer.forget_apiserver("one")
        watches.deliver(2, watches.now + 0.1, 0.001)
        watches.ticks(2)
        watches.readings()
        assert {name: one.combined.events for name, one in watches.sealer.comparisons.items()} == {"two": 0}

    def test_of_a_thousand_apiservers_that_came_and_went_leaves_nothing(self) -> None:
        watches = Watches(identity(1), several=True)
        for number in range(2, 1002):
            watches.sealer.attach(identity(number, f"apiserver-{number}"), watches.tracks[1], QueueWaits())
            watches.deliver(number, watches.now, 0.01)
            watches.seal(watches.tick(2.0))
            watches.sealer.detach(number)
            watches.sealer.forget_apiserver(f"apiserver-{number}")
        assert watches.sealer.comparisons == {}


class TestPolledStorage:
    """Each event waits for the next tick, as with kine and writes through another server."""

    def deliver_at_ticks(self, watches: Watches, seconds: float) -> None:
        for _ in range(round(2 * seconds)):
            watches.seal(watches.tick(0.5))
            watches.deliver(1, watches.now - 0.37, 0.38)  # committed 0.38 s before it arrives, just after the tick

    def test_estimate_has_the_waits_once_polls_are_found(self, watches: Watches) -> None:
        self.deliver_at_ticks(watches, 60)
        assert watches.sealer.polls("one")
        assert watches.sealer.is_kine
        self.deliver_at_ticks(watches, 70)
        watches.ticks(3)
        p50 = watches.readings()[1].windows[0].quantiles[0]
        assert p50.lower < 0.02
        assert 0.15 < p50.estimate < 0.35
        assert 0.37 < p50.upper < 0.6

    def test_polls_of_etcd_are_not_looked_for(self, watches: Watches) -> None:
        watches.storage = ApiserverStorage(StorageKind.SEQUENCE, may_poll=False)
        self.deliver_at_ticks(watches, 130)
        assert not watches.sealer.polls("one")
        assert not watches.sealer.is_kine
        assert watches.readings()[1].windows[0].quantiles[0].estimate < 0.1

    def test_polls_are_forgotten_with_the_apiserver(self, watches: Watches) -> None:
        self.deliver_at_ticks(watches, 60)
        watches.sealer.forget_apiserver("one")
        assert not watches.sealer.polls("one")

    def test_several_servers_with_kine_poll(self, watches: Watches) -> None:
        watches.storage = ApiserverStorage(StorageKind.KINE, polls=True)
        assert watches.sealer.polls("one")

    @pytest.mark.parametrize(("spread", "lower"), [(0.0, 0.273), (0.1, 0.177)])
    def test_commits_that_are_visible_late_loosen_the_lower_bound(
        self, watches: Watches, spread: float, lower: float
    ) -> None:
        """The tick that shows the commit is answered 0.28 s before the event arrives."""
        watches.storage = ApiserverStorage(StorageKind.KINE, commit_spread=spread)
        for _ in range(20):
            watches.ticks(0.5)
            watches.deliver(1, watches.now - 0.01, 0.292)
        watches.ticks(3)
        assert watches.readings()[1].windows[0].quantiles[0].lower == pytest.approx(lower, rel=0.03)


class TestOwnCache:
    """Ticks on pods wait for the cache of pods, so they prove, but do not cut, unless there is no other evidence."""

    def test_ticks_on_it_only_prove(self) -> None:
        watches = Watches(identity(1), identity(2, resource="nodes"))
        at = watches.now
        watches.deliver(1, at + 0.1, 0.001)
        watches.deliver(2, at + 0.1, 0.001)
        pods_tick = watches.tick(0.05, on="pods")
        assert pods_tick.revision < 100 * (at + 0.1)
        watches.ticks(3)
        one, two = (watches.readings()[number].windows[0].quantiles[0] for number in (1, 2))
        assert one.upper == two.upper
        assert one.estimate > two.estimate

    def test_ticks_on_it_are_used_by_a_blind_clock(self) -> None:
        watches = Watches(identity(1), blind=True)
        watches.deliver(1, watches.now + 0.1, 0.001)
        watches.tick(0.05, on="pods")
        watches.ticks(3)
        assert watches.readings()[1].windows[0].quantiles[0].upper < 0.07


def test_counts_beyond_and_late_by_the_cache_need_the_events(watches: Watches) -> None:
    """A watch whose cache is probed gets its hops."""

    class Cache:
        median_round_trip = 0.001

        def locate(self, _: Any, received: Any) -> tuple[Any, Any]:
            return received - 0.02, received - 0.01

    watches.cache = Cache()
    watches.deliver(1, watches.now + 0.3, 0.5)
    watches.ticks(3)
    reading = watches.readings()[1]
    assert [hop.histogram.total for hop in reading.hops] == [1, 1]
    assert np.isfinite(reading.timespan.sum)
