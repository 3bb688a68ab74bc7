import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.loop import JumpingLoop
from watchslo.kube.limiter import RESUME_BURST_SECONDS, SHARES, FairQueue, Limiter, Limiters, RequestClass, TokenBucket

TICK, OTHER, AUDIT, PROBE, RESUME = RequestClass
ROUNDING_SECONDS = 1e-6


@given(
    rate=st.floats(0.1, 1000),
    burst=st.just(0.0) | st.floats(0, 1),
    gaps=st.lists(st.floats(0, 0.1), max_size=200) | st.lists(st.floats(0, 10), max_size=200),
)
def test_bucket_permits_at_most_a_burst_more_than_the_rate(rate: float, burst: float, gaps: list[float]) -> None:
    """Without a burst, it permits one request at a time."""
    bucket, now, taken = TokenBucket(rate, burst), 0.0, []
    for gap in gaps:
        now += gap
        if bucket.take(now) == 0.0:
            taken.append(now)
    for (first, since), (last, until) in itertools.combinations(enumerate(taken), 2):
        assert last - first + 1 <= bucket.burst + rate * (until - since) + 1e-6


@given(rate=st.floats(0.1, 1000), start=st.floats(0, 1e6))
def test_bucket_permits_a_request_after_its_wait(rate: float, start: float) -> None:
    bucket = TokenBucket(rate)
    assert bucket.take(start) == 0.0
    wait = bucket.take(start)
    assert 0 < wait <= 1 / rate + 1e-9
    assert bucket.take(start + wait * (1 + 1e-6) + 1e-9) == 0.0


def test_bucket_with_a_burst_is_not_full_when_a_late_request_leaves() -> None:
    bucket = TokenBucket(10.0, burst_seconds=0.3)
    assert bucket.take(100.0) == 0.0
    bucket.left(105.0)
    assert [bucket.take(105.0) for _ in range(3)] == [0.0, 0.0, pytest.approx(0.1)]


class TestFairQueue:
    @given(
        classes=st.sets(st.sampled_from(list(SHARES)), min_size=1),
        before=st.lists(st.sampled_from(list(SHARES)), max_size=50),
    )
    def test_waiting_classes_are_served_by_their_shares(
        self, classes: set[RequestClass], before: list[RequestClass]
    ) -> None:
        """Whatever was served before: no class saves a claim, and none owes anything."""
        queue: FairQueue[RequestClass] = FairQueue(SHARES)
        for of in before:
            queue.add(of, of)
            queue.take()
        for of in [*classes] * 400:
            queue.add(of, of)
        served, together = Counter(queue.take() for _ in range(400)), sum(SHARES[of] for of in classes)
        for of in classes:
            assert served[of] == pytest.approx(400 * SHARES[of] / together, abs=len(SHARES) + 1)

    @given(backlog=st.lists(st.sampled_from([OTHER, AUDIT, PROBE]), min_size=60, max_size=200))
    def test_tick_that_comes_seldom_is_next(self, backlog: list[RequestClass]) -> None:
        queue: FairQueue[RequestClass] = FairQueue(SHARES)
        for of in backlog:
            queue.add(of, of)
        for _ in range(10):
            for _ in range(5):  # a fifth of the requests are ticks
                queue.take()
            queue.add(TICK, TICK)
            assert queue.take() is TICK

    def test_items_of_one_class_keep_their_order(self) -> None:
        queue: FairQueue[int] = FairQueue({OTHER: 1.0})
        for number in (1, 2, 3):
            queue.add(OTHER, number)
        queue.remove(OTHER, 2)
        queue.remove(OTHER, 4)
        assert [queue.take(), queue.take(), bool(queue)] == [1, 3, False]


def limited(rate: float, resumes: float | None = None) -> Limiter:
    """Return a limiter of the time of the loop, which jumps."""
    return Limiter(rate, resumes, asyncio.get_running_loop().time)


async def sent(limiter: Limiter, of: RequestClass, count: int = 1) -> list[float]:
    """Request so often at once, and return the seconds after which each request was sent."""
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def ask() -> float:
        await limiter.acquire(of)
        return loop.time() - began

    return await asyncio.gather(*(ask() for _ in range(count)))


def most_within(seconds: float, times: Sequence[float]) -> int:
    """Return the largest number of requests in so many seconds."""
    return max(sum(time <= later <= time + seconds for later in times) for time in times)


async def test_limiter_resumes_300_watches_within_3_s_but_not_at_once() -> None:
    limiter = limited(10.0, 150.0)
    times = await sent(limiter, RESUME, 300)
    assert max(times) < 2.0
    assert most_within(0.1, times) <= 150 * (0.1 + RESUME_BURST_SECONDS) + 1


async def test_limiter_resumes_no_slower_while_the_loop_is_busy() -> None:
    """Handshakes block the loop for 20 ms at a time."""
    limiter = limited(10.0, 150.0)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)

    async def block() -> None:
        while True:
            await asyncio.sleep(0.001)
            loop._clock.now += 0.02

    busy = asyncio.create_task(block())
    assert max(await sent(limiter, RESUME, 300)) < 2.2
    busy.cancel()


async def test_limiter_sends_ticks_at_once_while_300_watches_resume() -> None:
    limiter = limited(10.0, 150.0)
    resumed = asyncio.create_task(sent(limiter, RESUME, 300))
    while not resumed.done():
        assert await sent(limiter, TICK) == pytest.approx([0.0])
        await asyncio.sleep(0.5)


async def test_limiter_lets_a_tick_wait_for_one_permit_at_most() -> None:
    limiter = limited(10.0)
    others = [asyncio.create_task(sent(limiter, of, 100)) for of in (OTHER, AUDIT, PROBE)]
    for _ in range(20):
        await asyncio.sleep(0.43)
        [waited] = await sent(limiter, TICK)
        assert waited <= 0.1 + ROUNDING_SECONDS
    for task in others:
        task.cancel()


async def test_limiter_starves_no_class() -> None:
    """Ticks of many clocks and thousands of lists wait: each class gets its share of 10 requests per second."""
    limiter = limited(10.0)
    counts = Counter[RequestClass]()

    async def ask(of: RequestClass) -> None:
        while True:
            await limiter.acquire(of)
            counts[of] += 1

    tasks = [asyncio.create_task(ask(of)) for of in SHARES for _ in range(5)]
    await asyncio.sleep(100.0)
    for task in tasks:
        task.cancel()
    assert {of: counts[of] / 1000 for of in SHARES} == pytest.approx(SHARES, abs=0.005)


async def test_cancelled_request_does_not_count() -> None:
    limiter = limited(10.0)
    await limiter.acquire(OTHER)
    impatient = asyncio.create_task(limiter.acquire(OTHER))
    patient = asyncio.create_task(sent(limiter, OTHER))
    await asyncio.sleep(0.05)
    impatient.cancel()
    with pytest.raises(asyncio.CancelledError):
        await impatient
    assert await patient == pytest.approx([0.1])


async def test_request_that_is_cancelled_as_its_turn_comes_delays_no_other_for_long() -> None:
    limiter = limited(10.0)
    await limiter.acquire(OTHER)
    impatient = asyncio.create_task(limiter.acquire(OTHER))
    await asyncio.sleep(0)
    patient = asyncio.create_task(sent(limiter, OTHER))
    loop, admit = asyncio.get_running_loop(), limiter._others._admit
    until = loop.time() + 0.05

    def cancel_and_admit() -> None:
        if loop.time() > until:
            impatient.cancel()
        admit()

    limiter._others._admit = cancel_and_admit  # type: ignore[method-assign]
    limiter.limit(10.0)
    assert await patient == pytest.approx([0.2], abs=1e-5)


async def test_late_request_keeps_its_distance_to_the_next() -> None:
    """The event loop may be busy between the permission and its use; two requests must not be sent together."""
    limiter = limited(10.0)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    clock, admit = loop._clock, limiter._others._admit

    def admit_and_lag() -> None:
        admit()
        clock.now += 0.3

    await limiter.acquire(OTHER)
    limiter._others._admit = admit_and_lag  # type: ignore[method-assign]
    first, second = await sent(limiter, OTHER, 2)
    assert first >= 0.3
    assert second - first >= 0.1 - ROUNDING_SECONDS


async def test_limit_can_be_raised_while_requests_wait() -> None:
    limiter = limited(0.001)
    await limiter.acquire(OTHER)
    waiting = asyncio.create_task(sent(limiter, OTHER))
    await asyncio.sleep(1.0)
    limiter.limit(1000.0)
    assert await waiting == pytest.approx([1.0], abs=0.002)


async def test_each_apiserver_has_a_rate_of_its_own() -> None:
    limiters = Limiters(10.0, 2.0, asyncio.get_running_loop().time)
    a, b = limiters.of("a"), limiters.of("b")
    assert limiters.of("a") is a
    for times in await asyncio.gather(sent(a, OTHER, 11), sent(b, OTHER, 11)):
        assert times == pytest.approx([0.1 * number for number in range(11)], abs=1e-4)


async def test_requests_that_open_a_watch_again_share_one_rate() -> None:
    limiters = Limiters(10.0, 2.0, asyncio.get_running_loop().time)
    a, b = limiters.of("a"), limiters.of("b")
    times = await asyncio.gather(sent(a, RESUME, 2), sent(b, RESUME, 2))
    assert max(itertools.chain(*times)) == pytest.approx(1.5, abs=1e-4)


async def test_new_limits_apply_to_all_apiservers() -> None:
    limiters = Limiters(10.0, 2.0, asyncio.get_running_loop().time)
    a = limiters.of("a")
    limiters.limit(100.0, 200.0)
    for limiter in (a, limiters.of("b")):
        assert (await sent(limiter, OTHER, 11))[-1] == pytest.approx(0.1, abs=1e-4)
        assert (await sent(limiter, RESUME, 21))[-1] <= 0.1
