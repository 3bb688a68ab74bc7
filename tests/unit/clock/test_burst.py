"""Bursts: their budget in any hour, and what begins and ends them."""

from hypothesis import given
from hypothesis import strategies as st

from watchslo.clock.burst import HOLD_SECONDS, HOUR_SECONDS, Burst, BurstBudget
from watchslo.snapshot import BurstReason, BurstWish

LATE, STRADDLES = BurstWish(BurstReason.LATE, 60.0), BurstWish(BurstReason.STRADDLES, 60.0)


def burst(ticks_per_hour: float = 3600.0) -> Burst:
    return Burst(BurstBudget(10.0, ticks_per_hour))


def test_gaps_are_shorter_for_as_long_as_wished() -> None:
    made = burst()
    assert made.shortening(2.0, 0.0) == 1.0
    assert made.begin(LATE, 0.0)
    assert made.shortening(2.0, 59.9) == 0.2
    assert made.shortening(20.0, 59.9) == 1.0, "more ticks than in a burst are not fewer"
    assert made.shortening(2.0, 60.0) == 1.0
    assert made.begun == {"late": 1}


def test_active_burst_is_not_begun_again() -> None:
    made = burst()
    assert made.begin(STRADDLES, 0.0)
    assert not made.begin(LATE, 59.0)
    assert made.begin(LATE, 60.0)


def test_half_of_the_budget_is_kept_for_what_is_late() -> None:
    made = burst()
    began = [made.begin(STRADDLES, 60.0 * number) for number in range(10)]
    assert began == [True] * 3 + [False] * 7
    assert [made.begin(LATE, 600 + 60.0 * number) for number in range(4)] == [True] * 3 + [False]
    assert made.begun == {"straddles": 3, "late": 3}


def test_budget_returns_after_an_hour() -> None:
    made = burst(600.0)
    assert made.begin(LATE, 0.0)
    assert not made.begin(LATE, 60.0 + HOUR_SECONDS)
    assert made.begin(LATE, 61.0 + HOUR_SECONDS)


def test_no_budget_turns_bursts_off() -> None:
    assert not burst(0.0).begin(LATE, 0.0)


def test_clocks_share_the_budget() -> None:
    budget = BurstBudget(10.0, 800.0)
    assert Burst(budget).begin(LATE, 0.0)
    assert not Burst(budget).begin(LATE, 0.0)


def test_active_bursts_share_the_rate() -> None:
    budget = BurstBudget(10.0, 3600.0)
    made, other = Burst(budget), Burst(budget)
    assert made.begin(STRADDLES, 0.0)
    assert (made.rate(0.0), other.rate(0.0)) == (10.0, 5.0), "the other one would share it"
    assert other.begin(STRADDLES, 30.0)
    assert made.shortening(2.0, 30.0) == other.shortening(2.0, 30.0) == 2.0 / 5.0
    assert made.shortening(8.0, 30.0) == 1.0, "a share is no limit of the usual ticks"
    assert other.rate(60.0) == 10.0, "the first one is over"


def test_share_of_a_failed_burst_returns() -> None:
    budget = BurstBudget(10.0, 3600.0)
    made, other = Burst(budget), Burst(budget)
    assert made.begin(LATE, 0.0)
    assert other.begin(LATE, 0.0)
    made.failed(None, 1.0)
    assert other.shortening(2.0, 1.0) == 0.2


def test_lower_rate_slows_down_an_active_burst_and_costs_less_of_the_budget() -> None:
    budget = BurstBudget(10.0, 800.0)
    made, other = Burst(budget), Burst(budget)
    assert made.begin(LATE, 0.0)
    assert not other.begin(LATE, 0.0)
    budget.limit(4.0)
    assert made.shortening(2.0, 0.0) == 0.5
    assert other.begin(LATE, 0.0)


def test_failed_tick_ends_it_and_delays_the_next_one() -> None:
    made = burst()
    assert made.begin(LATE, 0.0)
    made.failed(None, 1.0)
    assert not made.is_active(1.0)
    assert not made.begin(LATE, 1.0 + HOLD_SECONDS - 0.1)
    assert made.begin(LATE, 1.0 + HOLD_SECONDS)
    made.failed(300.0, 70.0)
    made.failed(None, 71.0)
    assert not made.begin(LATE, 369.0)


@given(
    ticks_per_hour=st.integers(0, 3000),
    calls=st.lists(
        st.tuples(st.floats(0, 600), st.sampled_from(BurstReason), st.floats(1, 120), st.integers(0, 2000)), max_size=60
    ),
)
def test_budget_is_exceeded_in_no_hour(ticks_per_hour: int, calls: list[tuple[float, BurstReason, float, int]]) -> None:
    made, now, sent = burst(ticks_per_hour), 0.0, list[tuple[float, int]]()
    for gap, reason, seconds, ticks in calls:
        now += gap
        made.begin(BurstWish(reason, seconds), now)
        before = made.ticks
        for _ in range(ticks):
            made.sent(now)
        sent.append((now, made.ticks - before))
    for began, _ in sent:
        assert sum(ticks for at, ticks in sent if began <= at < began + HOUR_SECONDS) <= ticks_per_hour
