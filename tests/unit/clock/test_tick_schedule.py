"""The times of ticks, by a clock that jumps from tick to tick."""

import itertools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchslo.clock.burst import Burst, BurstBudget
from watchslo.clock.tick_schedule import AT_ONCE, MOST_AHEAD, SLOW_SECONDS, TickSchedule
from watchslo.snapshot import BurstReason, BurstWish

ROUND_TRIP_SECONDS = 0.002
START = 1000.0


def no_burst() -> Burst:
    return Burst(BurstBudget(10.0, 0.0))


class Driven:
    """A schedule whose ticks are sent in time; `answer` says what happens to the tick of an apiserver, if anything."""

    def __init__(self, gaps: Mapping[str, float], seed: int = 1) -> None:
        self.schedule = TickSchedule(Random(seed).random, no_burst())
        self.schedule.allow(gaps, START)
        self.sent: list[tuple[float, str]] = []
        self.now = START
        self.answer: Callable[[str, float], None] = self.answered

    def answered(self, apiserver: str, sent: float) -> None:
        self.schedule.answered(apiserver, sent, sent + ROUND_TRIP_SECONDS)

    def run(self, seconds: float) -> None:
        """Send all ticks of so many seconds."""
        until = self.now + seconds
        while (planned := self.schedule.next()) is not None and planned[0] < until:
            self.now, apiserver = max(self.now, planned[0]), planned[1]
            self.sent.append((self.now, apiserver))
            self.schedule.sent(apiserver, self.now)
            self.answer(apiserver, self.now)
        self.now = until

    def times(self, apiserver: str | None = None) -> list[float]:
        return [sent for sent, name in self.sent if apiserver in (None, name)]

    def gaps(self, apiserver: str | None = None) -> list[float]:
        return [after - before for before, after in itertools.pairwise(self.times(apiserver))]


def most_within(seconds: float, times: list[float]) -> int:
    return max(bisect_right(times, time + seconds) - at for at, time in enumerate(times))


def test_no_apiserver_gets_no_tick() -> None:
    schedule = TickSchedule(Random(1).random, no_burst())
    assert schedule.next() is None
    assert schedule.mean_gap == float("inf")


def test_first_tick_is_sent_at_once() -> None:
    schedule = TickSchedule(Random(1).random, no_burst())
    schedule.allow({"a": 0.5}, START)
    assert schedule.next() == (-float("inf"), "a")


def test_gaps_are_random_by_a_quarter_to_either_side() -> None:
    driven = Driven({"a": 0.5})
    driven.run(600)
    gaps = driven.gaps()
    assert min(gaps) == pytest.approx(0.375, abs=0.01)
    assert max(gaps) == pytest.approx(0.625, abs=0.01)
    assert sum(gaps) / len(gaps) == pytest.approx(0.5, rel=0.03)


def test_apiservers_are_visited_in_turn_at_their_own_rates() -> None:
    driven = Driven({"a": 0.5, "b": 0.5, "c": 5.0})
    driven.run(600)
    assert driven.schedule.mean_gap == pytest.approx(1 / 4.2)
    for name, count in (("a", 1200), ("b", 1200), ("c", 120)):
        assert len(driven.times(name)) == pytest.approx(count, rel=0.04)


@given(
    gaps=st.dictionaries(st.sampled_from("abc"), st.sampled_from([0.05, 0.5, 5.0]), min_size=1),
    seed=st.integers(0, 2**32),
    fates=st.lists(st.sampled_from(["answered", "failed", "slow", "lost"]), min_size=1, max_size=20),
)
def test_rate_per_apiserver_is_never_exceeded(gaps: dict[str, float], seed: int, fates: list[str]) -> None:
    driven, turns = Driven(gaps, seed), itertools.cycle(fates)

    def answer(apiserver: str, sent: float) -> None:
        match next(turns):
            case "answered":
                driven.answered(apiserver, sent)
            case "failed":
                driven.schedule.failed(apiserver, sent, None, sent + ROUND_TRIP_SECONDS)
            case "slow":
                driven.schedule.answered(apiserver, sent, sent + 2 * SLOW_SECONDS)

    driven.answer = answer
    driven.run(60)
    for name, gap in gaps.items():
        times = driven.times(name)
        for seconds in (0.0, 1.0, 10.0):
            assert not times or most_within(seconds, times) <= MOST_AHEAD + 1 + seconds / gap + 1e-6


def test_refusal_slows_one_apiserver_only() -> None:
    driven = Driven({"a": 0.5, "b": 0.5})

    def answer(apiserver: str, sent: float) -> None:
        if apiserver == "a":
            driven.schedule.failed("a", sent, None, sent + ROUND_TRIP_SECONDS)
        else:
            driven.answered(apiserver, sent)

    driven.answer = answer
    driven.run(300)
    assert len(driven.times("a")) < 40
    assert len(driven.times("b")) == pytest.approx(600, rel=0.04)
    assert max(driven.gaps("b")) <= 0.626
    assert driven.schedule.mean_gap == 0.5
    driven.answer = driven.answered
    driven.run(60)
    driven.sent.clear()
    driven.run(300)
    assert len(driven.times("a")) == pytest.approx(600, rel=0.04)


def test_lone_apiserver_keeps_its_mean_gap_while_it_fails() -> None:
    driven = Driven({"a": 0.5})
    driven.answer = lambda apiserver, sent: driven.schedule.failed(apiserver, sent, None, sent)
    driven.run(60)
    assert driven.schedule.mean_gap == 0.5
    assert driven.gaps()[-1] >= 5.0


def test_retry_after_is_obeyed_and_the_others_keep_their_rate() -> None:
    driven = Driven({"a": 0.5, "b": 0.5})
    driven.run(1)
    until = defaultdict[str, float](float)

    def answer(apiserver: str, sent: float) -> None:
        assert sent >= until[apiserver]
        if apiserver == "a":
            until["a"] = sent + 30.0
            driven.schedule.failed("a", sent, 30.0, sent)
        else:
            driven.answered(apiserver, sent)

    driven.answer = answer
    driven.run(300)
    assert 8 <= len(driven.times("a")) <= 13
    assert len(driven.times("b")) == pytest.approx(600, rel=0.04)


def test_lone_apiserver_is_asked_again_when_retry_after_ends() -> None:
    driven = Driven({"a": 0.5})
    driven.schedule.sent("a", START)
    driven.schedule.failed("a", START, 30.0, START)
    assert driven.schedule.next() == (START + 30.0, "a")


def test_slow_apiserver_is_not_visited_before_its_answer() -> None:
    driven = Driven({"a": 0.5, "b": 0.5})
    driven.answer = lambda apiserver, sent: driven.answered(apiserver, sent) if apiserver == "b" else None
    driven.run(20)
    assert len(driven.times("a")) == AT_ONCE, "none is answered"
    assert min(driven.gaps("a")) >= SLOW_SECONDS - 1e-9
    assert len(driven.times("b")) == pytest.approx(40, abs=4)


def test_schedule_waits_for_an_answer_if_too_many_are_missing() -> None:
    driven = Driven({"a": 0.5})
    driven.answer = lambda *_: None
    driven.run(60)
    assert driven.schedule.next() is None
    driven.answered("a", driven.sent[0][0])
    planned = driven.schedule.next()
    assert planned is not None
    assert planned[0] <= driven.now


def test_pause_is_not_made_up_for() -> None:
    """After a suspend, no train of missed ticks is sent."""
    driven = Driven({"a": 0.5})
    driven.run(10)
    driven.now += 3600
    driven.sent.clear()
    driven.run(10)
    assert len(driven.sent) <= 22 + MOST_AHEAD


def test_apiserver_that_left_is_forgotten() -> None:
    driven = Driven({"a": 0.5, "b": 0.5})
    driven.run(5)
    driven.schedule.allow({"b": 0.5}, driven.now)
    driven.schedule.answered("a", driven.now, driven.now)
    driven.schedule.failed("a", driven.now, 30.0, driven.now)
    driven.sent.clear()
    driven.run(5)
    assert {name for _, name in driven.sent} == {"b"}


def test_ticks_that_prove_nothing_are_sent_aside() -> None:
    driven = Driven({})
    driven.schedule.allow({"a": 0.5, "foreign": 5.0}, START, aside={"foreign"})
    driven.run(600)
    assert driven.schedule.mean_gap == 0.5
    assert max(driven.gaps("a")) <= 0.626
    assert len(driven.times("foreign")) == pytest.approx(120, rel=0.05)


class TestReads:
    def reading(self, driven: Driven, seconds: float, reads: float) -> list[float]:
        """Let random reads happen, so many a second; return the times of all ticks and reads."""
        random, times, until = Random(7), list[float](), driven.now + seconds
        while driven.now < until:
            driven.run(random.expovariate(reads))
            driven.schedule.read(driven.now)
            times.append(driven.now)
        return sorted((*times, *driven.times()))

    @pytest.mark.parametrize(("reads", "upper"), [(0.5, 0.7), (1.33, 0.62), (3.5, 0.53)])
    def test_train_restarts_at_reads_and_keeps_its_rate(self, reads: float, upper: float) -> None:
        driven = Driven({"a": 0.5})
        times = self.reading(driven, 600, reads)
        assert len(driven.times()) == pytest.approx(1200, rel=0.03)
        gaps = sorted(after - before for before, after in itertools.pairwise(times))
        assert gaps[int(0.99 * len(gaps))] < upper

    def test_read_delays_the_next_tick(self) -> None:
        driven = Driven({"a": 0.5})
        driven.run(0.01)
        before = driven.schedule.next()
        driven.schedule.read(START + 0.2)
        after = driven.schedule.next()
        assert before is not None
        assert after is not None
        assert after[0] > before[0] - 0.5
        assert START + 0.2 + 0.2 <= after[0] <= START + 0.75

    def test_frequent_reads_starve_no_tick(self) -> None:
        driven = Driven({"a": 0.5})
        for _ in range(2000):
            driven.run(0.05)
            driven.schedule.read(driven.now)
        assert max(driven.gaps()) <= 0.626 + 0.05
        assert len(driven.times()) <= 217

    @pytest.mark.parametrize("reads", [0.1, 10.0])
    def test_ticks_through_each_apiserver_are_never_far_apart(self, reads: float) -> None:
        driven = Driven({"a": 0.5, "b": 0.5, "c": 0.5})
        self.reading(driven, 100, reads)
        assert max(max(driven.gaps(name)) for name in "abc") <= 1.4 * 0.5

    def test_older_read_does_not_restart_the_train(self) -> None:
        driven = Driven({"a": 0.5})
        driven.run(5)
        before = driven.schedule.next()
        driven.schedule.read(driven.times()[-1] - 0.1)
        after = driven.schedule.next()
        assert before is not None
        assert after is not None
        assert after[0] <= before[0]


def test_only_the_base_train_of_a_burst_cuts() -> None:
    """In a burst of ten ticks a second, those that cut are half a second apart, as without it."""
    burst, cuts, ticks, now = Burst(BurstBudget(10.0, 10_000.0)), list[float](), 0, START
    schedule = TickSchedule(Random(1).random, burst)
    assert burst.begin(BurstWish(BurstReason.LATE, 120.0), START)
    while now < START + 120:
        schedule.allow({"a": 0.5}, now)
        cuts += [now] if schedule.sent("a", now) else []
        schedule.answered("a", now, now + ROUND_TRIP_SECONDS)
        schedule.allow({"a": 0.5}, now)
        now, ticks = (schedule.next() or (0.0, ""))[0], ticks + 1
    gaps = [after - before for before, after in itertools.pairwise(cuts)]
    assert ticks > 1000
    assert sum(gaps) / len(gaps) == pytest.approx(0.5, rel=0.03)
    assert min(gaps) > 0.25
