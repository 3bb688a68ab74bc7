"""The ticks of a schedule that has a reserve."""

import itertools
from bisect import bisect_right
from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchslo.clock.burst import Burst, BurstBudget
from watchslo.clock.reserve import MOST_SAVED, SAVING, TickReserve
from watchslo.clock.tick_schedule import JITTER, TickSchedule

GAP = 30.0
ROUND_TRIP_SECONDS = 0.002
START = 1000.0


def ticks(
    events: Iterable[float], seconds: float, *, reserve: TickReserve | None, fails: bool = False, seed: int = 1
) -> list[float]:
    """Return when a schedule sends ticks, if events are received at these times after `START`."""
    schedule = TickSchedule(Random(seed).random, Burst(BurstBudget(10.0, 0.0)), reserve)
    now, sent, coming = START, list[float](), [*(START + event for event in sorted(events)), float("inf")]
    while True:
        schedule.allow({"a": GAP}, now)
        planned = schedule.next()
        assert planned is not None
        now = max(now, min(planned[0], coming[0]))
        if now >= START + seconds:
            return sent
        if coming[0] < planned[0]:
            schedule.follow(coming.pop(0))
            continue
        schedule.sent("a", now)
        sent.append(now - START)
        if fails:
            schedule.failed("a", now, None, now + ROUND_TRIP_SECONDS)
        else:
            schedule.answered("a", now, now + ROUND_TRIP_SECONDS)


class TestSchedule:
    def test_tick_follows_an_event_at_once_and_the_next_one_after_the_spacing(self) -> None:
        sent = ticks([100.0, 100.01], 103.0, reserve=TickReserve(1.0))
        assert [time for time in sent if time >= 100.0] == [100.0, pytest.approx(101.0, abs=JITTER + 0.01)]

    def test_usual_ticks_start_again_after_a_tick_that_followed(self) -> None:
        sent = ticks([100.0], 1000.0, reserve=TickReserve(1.0))
        after = next(time for time in sent if time > 100.0)
        assert after - 100.0 >= (1 - JITTER) * GAP

    def test_without_events_the_gaps_are_the_usual_ones(self) -> None:
        assert len(ticks([], 600 * GAP, reserve=TickReserve(1.0))) == pytest.approx(600, rel=0.03)

    def test_without_reserve_no_tick_follows_an_event(self) -> None:
        assert ticks(range(50, 500), 600.0, reserve=None) == ticks([], 600.0, reserve=None)

    def test_constant_events_cost_no_more_ticks_than_the_gap_permits(self) -> None:
        sent = ticks((number / 2 for number in range(7200)), 3600.0, reserve=TickReserve(1.0))
        assert len(sent) <= MOST_SAVED + 3600 / GAP
        assert max(after - before for before, after in itertools.pairwise(sent)) <= SAVING * GAP * (1 + JITTER)

    def test_no_tick_follows_an_event_while_ticks_fail(self) -> None:
        sent = ticks(range(1, 600), 600.0, reserve=TickReserve(1.0), fails=True)
        assert min(after - before for before, after in itertools.pairwise(sent)) >= GAP

    @given(
        events=st.lists(st.floats(0, 3000), max_size=200),
        seed=st.integers(0, 2**32),
    )
    def test_price_is_exceeded_in_no_span(self, events: list[float], seed: int) -> None:
        sent = ticks(events, 3600.0, reserve=TickReserve(1.0), seed=seed)
        for seconds in (1.0, 10.0, 60.0, 600.0):
            most = max(bisect_right(sent, time + seconds) - at for at, time in enumerate(sent))
            assert most <= MOST_SAVED + seconds / GAP + 1e-6
