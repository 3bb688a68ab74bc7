from hypothesis import given
from hypothesis import strategies as st

from watchslo.watch.backoff import Backoff


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
