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

from tests.conftest import GOLDEN
from tests.support.loop import JumpingLoop
from tests.support.transcripts import calls, replay
from tests.unit.monitor.inside import set_clocks
from watchslo.event_loop import Inbox
from watchslo.monitor.tasks.lag import BEAT_SECONDS, Lag, cpu_wait_reader, keep_beating, suspended_seconds


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

    def beats(self, count: int) -> None:
        for _ in range(count):
            self.beat()

    def tainted(self, later: float) -> bool:
        """Return whether an arrival so many seconds after the last beat is tainted."""
        return self.lag.tainted(self.now + later)

    def spans_stop(self, ago: float, until: float) -> bool:
        """Return whether what was committed so many seconds before the last beat, and arrives later, spans a stop."""
        return bool(self.lag.own_delays.span_stop(np.array([self.now - ago]), np.array([self.now + until]))[0])

    def unknown(self) -> None:
        """Let the wait for a CPU be unknown."""
        self.waited = None

    def known(self, waited: float) -> None:
        self.waited = waited

    def figures(self) -> str:
        lag = self.lag
        assert lag.last_beat == lag.own_delays.known_until == self.now
        broken = ", broken" if lag.broken.is_set() else ""
        return (
            f"tainted {lag.tainted_seconds:.2f} s, suspended {lag.suspended_seconds:.2f} s, "
            f"{lag.reading().counts[0]} of {lag.reading().total} beats in time{broken}"
        )


def test_lag_is_what_its_transcripts_say(golden: Callable[[str, str], None]) -> None:
    golden("lag.txt", replay((GOLDEN / "lag.txt").read_text(), lambda _: calls(Beats())))


def test_clocks_between_which_this_process_was_stopped_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monotonic, since_boot = iter([10.0, 13.0, 13.0, 13.001]), iter([112.9, 113.0])
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: next(monotonic))
        patched.setattr(time, "clock_gettime", lambda _: next(since_boot))
        suspended = suspended_seconds()
    assert suspended == 100.0


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
        self.selector = SimpleNamespace(listeners=[])


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.Runner]:
    monkeypatch.setattr("watchslo.monitor.tasks.lag.TimedEventLoop", FakeTimedLoop)
    with asyncio.Runner(loop_factory=FakeTimedLoop) as runner, monkeypatch.context() as patched:
        set_clocks(runner.get_loop(), patched)
        yield runner


async def beat_during(lag: Lag, work: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    beating = asyncio.create_task(keep_beating(lag))
    await asyncio.sleep(0)
    await work(asyncio.get_running_loop())
    beating.cancel()


def test_late_reads_of_the_loop_are_noted_by_every_monitor_in_it(timed: asyncio.Runner) -> None:
    """What is read after a callback that blocked for 30 ms may have arrived while it ran, whatever the callback did."""
    lags = [Lag(0.0), Lag(0.0)]

    async def block(loop: Any) -> None:
        read = loop.time()
        for note_reads in loop.selector.listeners:
            note_reads(read, read + 0.001, read - 0.03)
        await asyncio.sleep(BEAT_SECONDS)
        assert [lag.own_delays.of(np.array([read]))[0] for lag in lags] == pytest.approx([0.03, 0.03])

    timed.run(beat_during(lags[0], lambda _: beat_during(lags[1], block)))


def test_monitor_that_ended_listens_to_the_loop_no_more(timed: asyncio.Runner) -> None:
    async def work() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BEAT_SECONDS):
                await keep_beating(Lag(0.0))
        loop: Any = asyncio.get_running_loop()
        assert loop.selector.listeners == []

    timed.run(work())


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
