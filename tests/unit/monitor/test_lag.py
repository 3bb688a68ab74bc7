import asyncio
import contextlib
import gc
import os
import time
from collections.abc import Callable, Coroutine, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from tests.support.loop import JumpingLoop
from tests.unit.monitor.inside import set_clocks
from watchslo.event_loop import Inbox
from watchslo.monitor.lag import BEAT_SECONDS, LATE_SECONDS, Lag, cpu_wait_reader, keep_beating, suspended_seconds


class Beats:
    """A lag and its heartbeats."""

    def __init__(self) -> None:
        self.lag = Lag(100.0)
        self.now = 100.0
        self.waited: float | None = 7.0
        self.suspended = 3600.0
        self.beat()

    def beat(self, gap: float = BEAT_SECONDS, waited: float = 0.0, suspended: float = 0.0) -> None:
        self.now += gap
        self.suspended += suspended
        if self.waited is not None:
            self.waited += waited
        self.lag.beat(self.now, self.waited, self.suspended)

    def own_delay(self, ago: float) -> float:
        """Return the own delay of an arrival so many seconds before the last beat."""
        return float(self.lag.own_delays.of(np.array([self.now - ago]))[0])


@pytest.fixture
def beats() -> Beats:
    return Beats()


def test_timely_beats_taint_nothing(beats: Beats) -> None:
    for _ in range(99):
        beats.beat()
    assert not beats.lag.tainted(beats.now + 0.01)
    assert beats.lag.tainted_seconds == 0
    assert beats.lag.reading().counts[0] == 100
    assert beats.lag.last_beat == beats.lag.own_delays.known_until == beats.now


def test_arrival_long_after_a_beat_is_tainted(beats: Beats) -> None:
    assert not beats.lag.tainted(beats.now + LATE_SECONDS - 0.001)
    assert beats.lag.tainted(beats.now + LATE_SECONDS + 0.001)


def test_time_before_a_late_beat_is_tainted(beats: Beats) -> None:
    beats.beat(0.4)
    assert beats.lag.tainted_seconds == pytest.approx(0.4)
    assert not beats.lag.tainted(beats.now + 0.01)
    beats.beat()
    assert beats.lag.tainted_seconds == pytest.approx(0.4)


def test_wait_for_a_cpu_is_an_own_delay_of_what_arrived_between_two_beats(beats: Beats) -> None:
    beats.beat(0.06, waited=0.012)
    assert beats.own_delay(0.03) == pytest.approx(0.012)
    assert beats.own_delay(0.07) == 0.0
    beats.beat()
    assert beats.own_delay(0.03) == 0.0


def test_wait_for_a_cpu_may_be_unknown(beats: Beats) -> None:
    beats.waited = None
    beats.beat()
    assert beats.own_delay(0.03) == 0.0
    beats.waited = 50.0
    beats.beat()
    assert beats.own_delay(0.03) == 0.0


def test_suspend_between_two_beats_is_noted(beats: Beats) -> None:
    before = beats.now
    beats.beat(suspended=7200.0)
    spans = beats.lag.own_delays.span_stop(np.array([before - 1, beats.now + 1]), np.array([beats.now + 2] * 2))
    assert spans.tolist() == [True, False]
    assert beats.lag.suspended_seconds == pytest.approx(7200)
    assert beats.lag.tainted_seconds == 0.0


@pytest.mark.parametrize(("gap", "stopped"), [(0.9, False), (8.0, True)])
def test_after_a_stop_nothing_is_a_sample_that_may_be_committed_in_it(beats: Beats, gap: float, stopped: bool) -> None:  # noqa: FBT001
    """The apiserver may have closed the watch as too slow; the next one delivers what was committed in that time."""
    began = beats.now
    beats.beat(gap)
    beats.beat()
    committed = np.array([began + gap / 2, beats.now - 0.01])
    assert beats.lag.own_delays.span_stop(committed, committed + 3.0).tolist() == [stopped, False]
    assert not beats.lag.broken.is_set()


def test_only_a_suspend_of_more_than_a_second_breaks_connections(beats: Beats) -> None:
    beats.beat(suspended=0.9)
    assert not beats.lag.broken.is_set()
    beats.beat(suspended=1.1)
    assert beats.lag.broken.is_set()
    assert beats.lag.suspended_seconds == pytest.approx(2.0)


def test_clocks_between_which_this_process_was_stopped_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monotonic, since_boot = iter([10.0, 13.0, 13.0, 13.001]), iter([112.9, 113.0])
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: next(monotonic))
        patched.setattr(time, "clock_gettime", lambda _: next(since_boot))
        suspended = suspended_seconds()
    assert suspended == 100.0


def test_clocks_that_differ_by_little_are_no_suspend(beats: Beats) -> None:
    beats.beat(suspended=0.09)
    assert beats.lag.suspended_seconds == 0.0
    assert not beats.lag.own_delays.span_stop(np.array([0.0]), np.array([beats.now + 1])).any()


def test_time_suspended_hardly_changes_while_this_test_runs() -> None:
    assert suspended_seconds() == pytest.approx(suspended_seconds(), abs=0.05)
    assert suspended_seconds() > -0.05


def test_wait_for_a_cpu_grows() -> None:
    """Linux has the figure; other systems and some sandboxes have none."""
    with cpu_wait_reader() as read:
        first, second = read(), read()
    assert (first is None) == (second is None)
    assert first is None or second is None or second >= first >= 0.0


def test_wait_for_a_cpu_is_unknown_without_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "open", Mock(side_effect=FileNotFoundError))
    with cpu_wait_reader() as read:
        assert read() is None


async def test_time_before_the_first_beat_is_not_lag() -> None:
    lag = Lag(0.0)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(10):
            await keep_beating(lag)
    assert lag.tainted_seconds == 0
    assert lag.reading().total in (199, 200)
    assert lag.last_beat == pytest.approx(1010, abs=0.051)


async def test_heartbeat_frees_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if Python itself collects nothing, because as many objects are freed as made."""
    collected: list[int] = []
    monkeypatch.setattr(gc, "collect", collected.append)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(2.5 * BEAT_SECONDS):
            await keep_beating(Lag(0.0))
    assert collected == [0, 0]


class FakeTimedLoop(JumpingLoop):
    """A loop whose time jumps, with those parts of a `TimedEventLoop` that heartbeats use."""

    def __init__(self) -> None:
        super().__init__()
        self.inbox = Inbox()
        self.selector = SimpleNamespace(note_reads=None)


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.Runner]:
    monkeypatch.setattr("watchslo.monitor.lag.TimedEventLoop", FakeTimedLoop)
    with asyncio.Runner(loop_factory=FakeTimedLoop) as runner, monkeypatch.context() as patched:
        set_clocks(runner.get_loop(), patched)
        yield runner


async def beat_during(lag: Lag, work: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    beating = asyncio.create_task(keep_beating(lag))
    await asyncio.sleep(0)
    await work(asyncio.get_running_loop())
    beating.cancel()


def test_late_reads_of_the_loop_are_noted(timed: asyncio.Runner) -> None:
    """What is read after a callback that blocked for 30 ms may have arrived while it ran."""
    lag = Lag(0.0)

    async def block(loop: Any) -> None:
        read = loop.time()
        loop.selector.note_reads(read, read + 0.001, read - 0.03)
        await asyncio.sleep(BEAT_SECONDS)
        assert lag.own_delays.of(np.array([read]))[0] == pytest.approx(0.03)

    timed.run(beat_during(lag, block))


def test_events_are_taken_in_before_the_heartbeat_after_them(timed: asyncio.Runner) -> None:
    """A second is sealed up to the last heartbeat: an event that came later would be missed."""
    lag = Lag(0.0)
    taken: list[tuple[float, float]] = []

    async def receive(loop: Any) -> None:
        for _ in range(20):
            await asyncio.sleep(BEAT_SECONDS / 3)
            loop.inbox.put(lambda at, _: taken.append((at, lag.last_beat)), b"")
        loop.inbox.empty()

    timed.run(beat_during(lag, receive))
    assert len(taken) == 20
    assert all(last_beat <= received for received, last_beat in taken)
