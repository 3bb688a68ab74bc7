import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchslo.watch.backoff import Backoff


def test_delays_double_up_to_the_cap() -> None:
    backoff = Backoff(random=lambda: 0.0)
    now, waits = 1000.0, []
    for _ in range(8):
        waits.append(backoff.next(now))
        now += waits[-1]
    assert waits == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]


def test_each_delay_has_a_random_part() -> None:
    backoff = Backoff(random=lambda: 0.75)
    assert backoff.next(1000.0) == pytest.approx(1.4)
    assert backoff.next(1001.4) == pytest.approx(2.8)


def test_retry_after_is_a_minimum_and_counts_as_a_failure() -> None:
    backoff = Backoff(random=lambda: 0.0)
    assert backoff.next(1000.0, retry_after=10.0) == 10.0
    assert backoff.next(1010.0, retry_after=1.0) == 1.6
    assert backoff.next(1011.6, retry_after=None) == 3.2


def test_equal_retry_after_does_not_synchronise_clients() -> None:
    parts = iter((0.0, 0.1, 0.2))
    waits = [Backoff(random=lambda: next(parts)).next(1000.0, retry_after=1.0) for _ in range(3)]
    assert waits == pytest.approx([1.0, 1.08, 1.16])


@pytest.mark.parametrize(("healthy", "expected"), [(120.0, 1.6), (120.1, 0.8)])
def test_backoff_resets_after_two_healthy_minutes(healthy: float, expected: float) -> None:
    backoff = Backoff(random=lambda: 0.0)
    wait = backoff.next(1000.0, retry_after=200.0)
    assert wait == 200.0
    assert backoff.next(1200.0 + healthy) == expected


def test_base_cap_and_reset_can_be_chosen() -> None:
    backoff = Backoff(random=lambda: 0.0, base=1.0, cap=3.0, reset=5.0)
    assert [backoff.next(1000.0), backoff.next(1001.0), backoff.next(1003.0), backoff.next(1011.1)] == [1, 2, 3, 1]


@given(
    jitters=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=30),
    retry_after=st.none() | st.floats(0, 300),
)
def test_wait_is_at_least_base_and_retry_after(jitters: list[float], retry_after: float | None) -> None:
    numbers = iter(jitters)
    backoff = Backoff(random=lambda: next(numbers))
    now = 0.0
    for _ in jitters:
        wait = backoff.next(now, retry_after)
        assert max(0.8, retry_after or 0.0) <= wait <= max(30.0, retry_after or 0.0) + 30.0
        now += wait
