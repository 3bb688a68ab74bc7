"""Pushes at intervals: one at a time, few lines in the log, and an end that does not wait for a collector."""

import threading
import time

import pytest

from tests.unit.monitor.cluster import Log
from watchslo.serve.otlp.push import LEAST_LOG_SECONDS, Pusher, PushLog

INTERVAL_SECONDS = 10.0


class Push:
    """Pushes that last for some seconds of a clock, and fail with `error`; their waits for an interval end at once."""

    def __init__(self, lasts: float = 0.0, error: Exception | None = None) -> None:
        self.now = 0.0
        self.began: list[float] = []
        self._lasts = lasts
        self._error = error

    def __call__(self) -> None:
        self.began.append(self.now)
        self.now += self._lasts
        if self._error:
            raise self._error

    def wait(self, seconds: float) -> bool:
        """Wait for an interval, and say whether to stop: after three pushes."""
        self.now += seconds
        return len(self.began) == 3

    def is_set(self) -> bool:
        return False

    def run(self, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        """Run the thread of a pusher here, and return when the pushes began."""
        pusher = Pusher(self, INTERVAL_SECONDS, lambda: None)
        with monkeypatch.context() as patched:
            patched.setattr(time, "monotonic", lambda: self.now)
            patched.setattr(pusher, "_stopped", self)
            pusher._run()
        return self.began


def test_intervals_that_pass_during_a_push_are_left_out(monkeypatch: pytest.MonkeyPatch, log: Log) -> None:
    assert Push(lasts=25.0).run(monkeypatch) == [10.0, 40.0, 70.0]
    assert [entry["message"] for entry in log.of("otlp_failed")] == [
        "a push took longer than `otlp.interval`; raise that"
    ]


def test_pushes_continue_after_any_exception(monkeypatch: pytest.MonkeyPatch, log: Log) -> None:
    assert Push(error=ValueError("SECRET")).run(monkeypatch) == [10.0, 20.0, 30.0]
    (entry,) = log.of("otlp_failed")
    assert entry["message"].startswith("cannot push metrics: ValueError in ")
    assert "SECRET" not in str(entry)


async def test_stop_ends_a_push_under_way() -> None:
    began, cancelled, ended = threading.Event(), threading.Event(), threading.Event()

    def push() -> None:
        began.set()
        if cancelled.wait(30):
            ended.set()

    pusher = Pusher(push, 0.01, cancelled.set)
    pusher.start()
    assert began.wait(30)
    await pusher.stop()
    assert ended.is_set()


class TestLog:
    def test_reason_is_logged_once_until_a_push_succeeds(self, log: Log) -> None:
        pushes = PushLog()
        for at in range(0, 600, 30):
            pushes.record("refused", at)
        assert [entry["failures"] for entry in log.of("otlp_failed")] == [1]
        pushes.record("", 600)
        assert [entry["failures"] for entry in log.of("otlp_recovered")] == [20]
        pushes.record("refused", 700)
        assert [entry["failures"] for entry in log.of("otlp_failed")] == [1, 1]

    def test_reasons_are_logged_at_most_once_a_minute(self, log: Log) -> None:
        pushes = PushLog()
        pushes.record("one", 0)
        pushes.record("two", LEAST_LOG_SECONDS - 1)
        pushes.record("two", LEAST_LOG_SECONDS)
        assert [(entry["message"], entry["failures"]) for entry in log.of("otlp_failed")] == [("one", 1), ("two", 3)]

    def test_success_without_failure_is_not_logged(self, log: Log) -> None:
        PushLog().record("", 0)
        assert log.events == []
