"""The budget of bursts holds in any hour."""

from hypothesis import given
from hypothesis import strategies as st

from watchslo.clock.burst import HOUR_SECONDS, Burst, BurstBudget
from watchslo.snapshot import BurstReason, BurstWish


@given(
    ticks_per_hour=st.integers(0, 3000),
    calls=st.lists(
        st.tuples(st.floats(0, 600), st.sampled_from(BurstReason), st.floats(1, 120), st.integers(0, 2000)), max_size=60
    ),
)
def test_budget_is_exceeded_in_no_hour(ticks_per_hour: int, calls: list[tuple[float, BurstReason, float, int]]) -> None:
    made, now, sent = Burst(BurstBudget(10.0, ticks_per_hour)), 0.0, list[tuple[float, int]]()
    for gap, reason, seconds, ticks in calls:
        now += gap
        made.begin(BurstWish(reason, seconds), now)
        before = made.ticks
        for _ in range(ticks):
            made.sent(now)
        sent.append((now, made.ticks - before))
    for began, _ in sent:
        assert sum(ticks for at, ticks in sent if began <= at < began + HOUR_SECONDS) <= ticks_per_hour
