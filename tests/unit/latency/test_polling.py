"""Polled storages: whether ticks bring events forward is found out, and latencies are then right all the same."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.unit.latency.truth import BINS, bounds, solved, tally_of
from watchslo.clock.burst import Burst, BurstBudget
from watchslo.clock.revision import RevisionClock
from watchslo.clock.tick_schedule import TickSchedule
from watchslo.latency.polling import GOLDEN, KEPT_SECONDS, WAKE_SECONDS, PollDetector, at_any_time
from watchslo.model import Bounds, FloatArray, IntArray, Reading

SECONDS = 120.0
POLL_SECONDS = 1.0
ROUND_TRIP = 0.004
FIRST = 1000


@dataclass
class Servers:
    """Two minutes of writes through two servers, ticks through the own one, and what it delivers.

    `own` and `other` are writes a second through the own and the other server, `late` how much later everything
    arrives, and `gap` the mean gap between ticks.
    """

    own: float = 0.0
    other: float = 0.0
    polls: bool = True
    late: float = 0.0
    gap: float = 0.5
    seed: int = 1

    def __post_init__(self) -> None:
        random = np.random.default_rng(self.seed)
        gaps = self.gap * random.uniform(0.75, 1.25, int(2 * SECONDS / self.gap))
        ticks = 1.0 + np.cumsum(gaps)
        ticks = ticks[ticks < SECONDS]
        is_own = np.repeat([True, False], [random.poisson(rate * SECONDS) for rate in (self.own, self.other)])
        committed = random.uniform(0, SECONDS, len(is_own))
        order = np.argsort(committed)
        committed, is_own = committed[order], is_own[order]
        found = committed
        if self.polls:
            polled = np.arange(0.3, SECONDS + 2 * POLL_SECONDS, POLL_SECONDS)
            starts = np.sort(np.concatenate((polled, ticks + ROUND_TRIP / 2, committed[is_own])))
            found = starts[starts.searchsorted(committed)]
        received = found + 0.001 + random.exponential(0.002, len(found)) + self.late
        self.received: FloatArray = np.maximum.accumulate(received)
        self.latency = self.received - committed
        self.revisions: IntArray = FIRST + np.arange(len(committed))
        newest = FIRST - 1 + committed.searchsorted(ticks + ROUND_TRIP / 4)
        self.ticks = [
            Reading("events", sent, sent + ROUND_TRIP, revision)
            for sent, revision in zip(ticks.tolist(), newest.tolist(), strict=True)
        ]

    def detector(self) -> PollDetector:
        detector = PollDetector()
        for second in range(1, int(SECONDS) + 1):
            for tick in self.ticks:
                if second - 1 <= tick.sent < second:
                    detector.tick(tick)
            of = self.received[(self.received >= second - 1) & (self.received < second)]
            for part in np.array_split(of, 2):
                if len(part):
                    detector.arrived(part)
            detector.judge(second)
        return detector

    def bounds(self) -> Bounds:
        clock = RevisionClock()
        for tick in self.ticks:
            clock.tick(tick)
        return clock.measure(self.revisions, self.received)

    def spread(self, measured: Bounds) -> Bounds:
        """Return the bounds as at an apiserver that is known to poll."""
        spans = np.array([(tick.sent, tick.answered) for tick in self.ticks])
        last = spans[:, 0].searchsorted(self.received) - 1
        during = (last >= 0) & (self.received <= spans[last, 1])
        return at_any_time(measured, self.revisions, np.ones(len(during), dtype=bool), during)

    def compare(self, found: Bounds) -> tuple[float, float, float]:
        """Return the estimated P50 and P99 divided by the true ones, and the true P99, of the last minute."""
        last = (self.received > SECONDS - 60.0) & found.measurable
        p50, p99 = (solved(tally_of(found.at(last)), BINS.uniform, q=q).figures[-1][1] for q in (0.5, 0.99))
        true = np.quantile(self.latency[last], (0.5, 0.99))
        return p50 / true[0], p99 / true[1], true[1]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("own", "other"), [(0, 2), (0, 20), (0, 200), (2, 20)])
def test_polls_are_found_within_two_minutes(own: float, other: float, seed: int) -> None:
    detector = Servers(own, other, seed=seed).detector()
    after, before = detector.ticks_with_events
    assert detector.polls
    assert after > 5 * before


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rate", [0, 2, 20, 200])
@pytest.mark.parametrize("late", [0.0, 0.5])
def test_other_storages_do_not_poll(rate: float, late: float, seed: int) -> None:
    assert not Servers(rate, rate, polls=False, late=late, seed=seed).detector().polls


def held_alike(seed: int, period: float, stop: float, rate: float, seconds: float = 600.0) -> PollDetector:
    """Return what sees stalls of an apiserver without polls: they hold its answers, and `rate` events a second, alike.

    A stall of `stop` seconds begins every `period` seconds: about so, or exactly if the period is short.
    """
    random, jitter = np.random.default_rng(seed), 0.3 if period > 1.0 else 0.0
    starts = np.cumsum(period * random.uniform(1 - jitter, 1 + jitter, int(1.1 * seconds / period)))
    ends = starts + stop * random.uniform(1 - jitter, 1 + jitter, len(starts))

    def passed(times: FloatArray) -> FloatArray:
        last = np.maximum(starts.searchsorted(times, side="right") - 1, 0)
        return np.where((times >= starts[last]) & (times < ends[last]), ends[last], times)

    committed = np.sort(random.uniform(0, seconds, random.poisson(rate * seconds)))
    received = np.maximum.accumulate(passed(committed + 0.002) + random.uniform(0.0003, 0.002, len(committed)))
    schedule, now = TickSchedule(random.random, Burst(BurstBudget(10.0, 0.0))), 0.0
    ticks = []
    while now < seconds:
        schedule.allow({"a": 0.5}, now)
        schedule.sent("a", now)
        answered = float(passed(np.array([now + 0.0005]))[0]) + 0.001 + random.exponential(0.0005)
        schedule.answered("a", now, answered)
        ticks.append(Reading("events", now, answered, 1))
        now = max(answered, (schedule.next() or (0.0, ""))[0])
    detector = PollDetector()
    for tick in ticks:
        second = np.floor(tick.sent)
        detector.tick(tick)
        if len(arrived := received[received < second]):
            detector.arrived(arrived)
            received = received[len(arrived) :]
        detector.judge(second)
    return detector


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("period", "stop", "rate"), [(2.0, 0.5, 5), (3.0, 1.0, 2), (3.0, 1.0, 5), (0.1, 0.08, 20)])
def test_stalls_that_hold_ticks_and_events_alike_are_no_polls(
    period: float, stop: float, rate: float, seed: int
) -> None:
    assert not held_alike(seed, period, stop, rate).polls


def test_finding_ends_when_the_evidence_speaks_against_it() -> None:
    servers, later = Servers(other=20), Servers(other=20, polls=False)
    detector = servers.detector()
    assert detector.polls
    for tick in later.ticks:
        detector.tick(replace(tick, sent=tick.sent + SECONDS, answered=tick.answered + SECONDS))
    detector.arrived(later.received + SECONDS)
    detector.judge(2 * SECONDS)
    assert not detector.polls


def test_own_writes_alone_wait_for_no_poll() -> None:
    assert not Servers(own=40).detector().polls


def test_polling_stays_known() -> None:
    """A delay on the way hides it, and its storage stays the same."""
    detector = Servers(other=20).detector()
    later = np.arange(SECONDS + 1, SECONDS + 2 * KEPT_SECONDS, 0.01)
    detector.arrived(later)
    for sent in np.arange(SECONDS + 1, SECONDS + 2 * KEPT_SECONDS, 0.5).tolist():
        detector.tick(Reading("events", sent, sent + ROUND_TRIP, 1))
    detector.judge(SECONDS + 2 * KEPT_SECONDS)
    assert detector.ticks_with_events == (0, 0)
    assert detector.polls


def test_tick_is_judged_once_all_its_arrivals_are_known() -> None:
    detector = PollDetector()
    detector.tick(Reading("events", 1.0, 1.0 + ROUND_TRIP, 1))
    detector.judge(1.0)
    detector.arrived(np.array([1.01]))
    detector.judge(1.0 + ROUND_TRIP + WAKE_SECONDS / 2)
    assert detector.ticks_with_events == (0, 0)
    detector.judge(1.0 + ROUND_TRIP + WAKE_SECONDS)
    assert detector.ticks_with_events == (1, 0)


@pytest.mark.parametrize("late", [0.0, 0.5])
@pytest.mark.parametrize(("own", "other"), [(0, 20), (0, 200), (2, 20)])
def test_events_that_waited_for_a_poll_are_measured_right(own: float, other: float, late: float) -> None:
    """The estimate alone finds hardly any wait."""
    servers = Servers(own, other, late=late)
    measured = servers.bounds()
    _, before, true = servers.compare(measured)
    assert before * true < late + 0.25 * (true - late) + 0.05
    p50, p99, _ = servers.compare(servers.spread(measured))
    assert p50 == pytest.approx(1.0, abs=0.45)
    assert p99 == pytest.approx(1.0, abs=0.2)  # own writes shorten the waits of others between ticks


def test_arrivals_during_ticks_are_known_for_half_a_minute() -> None:
    detector = PollDetector()
    assert not detector.during_ticks(np.array([1.0])).any()
    for sent in (1.0, 3.0, 2.0):
        detector.tick(Reading("events", sent, sent + 0.1, 1))
    arrivals = np.array([0.9, 1.05, 1.2, 2.05, 2.5, 3.1, 3.2])
    assert detector.during_ticks(arrivals).tolist() == [False, True, False, True, False, True, False]
    detector.tick(Reading("events", 32.0, 32.1, 1))
    assert detector.during_ticks(arrivals).tolist() == [False, False, False, True, False, True, False]


def test_only_events_that_waited_get_an_instant() -> None:
    """Of these six, one is of another apiserver, one arrived before any tick that shows it, and one has no end.

    The last interval is wider than polls are apart, so what held the event held ticks as well.
    """
    given = bounds((0.1, 0.5), (0.1, 0.5), (0.0, 0.5), (0.1, np.inf), (0.0, 0.5), (0.1, 1.2))
    polled, during = np.array([True, False, True, True, True, True]), np.array([False, True, False, True, True, True])
    found = at_any_time(given, np.full(6, 7), polled, during)
    share = 7 * GOLDEN % 1.0
    assert found.lower.tolist() == pytest.approx([0.1 + 0.4 * share, 0.1, 0.0, 0.1, 0.5 * share, 0.1])
    assert found.upper.tolist() == pytest.approx([0.1 + 0.4 * share, 0.5, 0.5, np.inf, 0.5 * share, 1.2])
    assert (found.proven == given.proven).all()
    assert (found.proven_upper == given.proven_upper).all()


def test_instants_of_successive_revisions_are_spread_evenly() -> None:
    given = bounds(*[(1e-9, 1.0)] * 100)
    found = at_any_time(given, np.arange(5_000, 5_100), *np.ones((2, 100), dtype=bool))
    assert np.abs(np.sort(found.lower) - np.linspace(0, 1, 100)).max() < 0.02


def test_instant_does_not_narrow_what_is_proven() -> None:
    counted = tally_of(at_any_time(bounds((0.3, 1.2)), np.array([0]), np.array([True]), np.array([False])))
    assert (counted.within(BINS.edge(1.0)), counted.beyond(BINS.edge(0.5))) == (0, 0)
