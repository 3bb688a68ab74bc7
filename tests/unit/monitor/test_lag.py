import asyncio
import contextlib

import pytest

from watchslo.monitor.lag import BEAT_SECONDS, LATE_SECONDS, SATURATED_BEATS, Lag, keep_beating


class Beats:
    """A lag and its heartbeats."""

    def __init__(self) -> None:
        self.lag = Lag(100.0, 0.0)
        self.now = 100.0
        self.cpu = 0.0

    def beat(self, gap: float = BEAT_SECONDS, cpu: float = 0.0) -> None:
        self.now += gap
        self.cpu += cpu
        self.lag.beat(self.now, self.cpu)

    def tainted(self) -> bool:
        return self.lag.tainted(self.now + 0.01)


@pytest.fixture
def beats() -> Beats:
    return Beats()


def test_timely_beats_taint_nothing(beats: Beats) -> None:
    for _ in range(100):
        beats.beat(cpu=0.04)
    assert not beats.tainted()
    assert beats.lag.tainted_seconds == 0
    assert beats.lag.reading().counts[0] == 100
    assert beats.lag.last_beat == beats.now


def test_arrival_long_after_a_beat_is_tainted(beats: Beats) -> None:
    beats.beat()
    assert not beats.lag.tainted(beats.now + LATE_SECONDS - 0.001)
    assert beats.lag.tainted(beats.now + LATE_SECONDS + 0.001)


def test_arrivals_are_tainted_from_a_late_beat_to_a_timely_one(beats: Beats) -> None:
    beats.beat(0.4)
    assert beats.tainted()
    beats.beat()
    assert not beats.tainted()
    assert beats.lag.tainted_seconds == pytest.approx(0.4)


def test_arrivals_are_tainted_until_the_backlog_is_read(beats: Beats) -> None:
    beats.beat(0.4)
    for _ in range(5):
        beats.beat(cpu=0.049)
        assert beats.tainted()
    beats.beat(cpu=0.03)
    assert not beats.tainted()


def test_arrivals_are_tainted_without_idle_time(beats: Beats) -> None:
    for _ in range(SATURATED_BEATS - 1):
        beats.beat(0.1, cpu=0.1)
    assert not beats.tainted()
    beats.beat(0.1, cpu=0.1)
    assert beats.tainted()
    beats.beat()
    assert not beats.tainted()


async def test_time_before_the_first_beat_is_not_lag() -> None:
    lag = Lag(0.0, 0.0)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(10):
            await keep_beating(lag)
    assert lag.tainted_seconds == 0
    assert lag.reading().total in (199, 200)
    assert lag.last_beat == pytest.approx(1010, abs=0.051)
