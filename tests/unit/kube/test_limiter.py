import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchslo.kube.limiter import Limiter, Priority, TokenBucket


@given(rate=st.floats(0.1, 1000), gaps=st.lists(st.floats(0, 10), max_size=200))
def test_bucket_never_exceeds_the_rate(rate: float, gaps: list[float]) -> None:
    bucket, now, taken = TokenBucket(rate), 0.0, []
    for gap in gaps:
        now += gap
        if bucket.take(now) == 0.0:
            taken.append(now)
    spacing = 1 / rate - 1e-9 * max(now, 1)
    assert all(later - earlier >= spacing for earlier, later in itertools.pairwise(taken))


@given(rate=st.floats(0.1, 1000), start=st.floats(0, 1e6))
def test_bucket_permits_a_request_after_its_wait(rate: float, start: float) -> None:
    bucket = TokenBucket(rate)
    assert bucket.take(start) == 0.0
    wait = bucket.take(start)
    assert 0 < wait <= 1 / rate + 1e-9
    assert bucket.take(start + wait * (1 + 1e-6) + 1e-9) == 0.0


class Clock:
    """A clock that changes only if a test sets it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_limiter_admits_ticks_first() -> None:
    clock, order = Clock(), []
    limiter = Limiter(1000.0, clock)
    await limiter.acquire(Priority.OTHER)

    async def ask(name: str, priority: Priority) -> None:
        await limiter.acquire(priority)
        order.append(name)

    async with asyncio.TaskGroup() as tasks:
        for name in ("list", "watch"):
            tasks.create_task(ask(name, Priority.OTHER))
        tasks.create_task(ask("tick", Priority.TICK))
        await settled()
        assert order == []
        while len(order) < 3:
            clock.now += 0.001
            await asyncio.sleep(0.001)
    assert order == ["tick", "list", "watch"]


async def test_cancelled_request_does_not_count() -> None:
    clock = Clock()
    limiter = Limiter(1000.0, clock)
    await limiter.acquire(Priority.OTHER)
    impatient = asyncio.create_task(limiter.acquire(Priority.OTHER))
    patient = asyncio.create_task(limiter.acquire(Priority.OTHER))
    await settled()
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    clock.now += 0.001001
    await asyncio.wait_for(patient, 5)


async def test_late_request_keeps_its_distance_to_the_next() -> None:
    """The event loop may be busy between the permission and its use; two requests must not be sent together."""
    clock, gone = Clock(), []
    limiter = Limiter(1000.0, clock)
    await limiter.acquire(Priority.OTHER)

    async def ask() -> None:
        await limiter.acquire(Priority.OTHER)
        gone.append(clock.now)

    def lag() -> None:
        """Run between the permission and its use."""
        clock.now += 0.3

    taken = limiter._bucket.take

    def take(now: float) -> float:
        wait = taken(now)
        if not wait:
            asyncio.get_running_loop().call_soon(lag)
        return wait

    limiter._bucket.take = take  # type: ignore[method-assign]
    async with asyncio.TaskGroup() as tasks:
        for _ in range(2):
            tasks.create_task(ask())
        await settled()
        while len(gone) < 2:
            clock.now += 0.0001
            await asyncio.sleep(0.0001)
    assert gone[0] >= 100.3
    assert gone[1] - gone[0] >= 0.301


async def test_limit_can_be_raised_while_requests_wait() -> None:
    clock = Clock()
    limiter = Limiter(0.001, clock)
    await limiter.acquire(Priority.OTHER)
    limiter.limit(1000.0)
    clock.now += 0.002
    await asyncio.wait_for(limiter.acquire(Priority.OTHER), 5)
