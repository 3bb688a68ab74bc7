"""Pushes at intervals: one at a time, few lines in the log, and an end that does not wait for a collector."""

import asyncio
import threading

from tests.support.process import eventually
from tests.unit.monitor.cluster import Log
from watchslo.serve.otlp.push import LEAST_LOG_SECONDS, Pusher, PushLog


class Push:
    """Pushes that fail with `error`, and last until `may`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.may = threading.Event()
        self.may.set()
        self.began = threading.Event()
        self.times = self.at_once = self.most_at_once = 0

    def __call__(self) -> None:
        self.times += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.began.set()
        assert self.may.wait(30)
        self.at_once -= 1
        if self.error:
            raise self.error


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 30)


async def test_push_that_lasts_is_the_only_one() -> None:
    push = Push()
    push.may.clear()
    pusher = Pusher(push, 0.01, lambda: None)
    pusher.start()
    await until(push.began)
    await asyncio.sleep(0.1)
    assert push.times == 1
    push.may.set()
    await pusher.stop()
    assert push.most_at_once == 1


async def test_stop_ends_a_push_under_way() -> None:
    push = Push()
    push.may.clear()
    pusher = Pusher(push, 0.01, push.may.set)
    pusher.start()
    await until(push.began)
    await pusher.stop()
    assert push.at_once == 0


async def test_pushes_continue_after_any_exception(log: Log) -> None:
    push = Push(ValueError("SECRET"))
    pusher = Pusher(push, 0.01, lambda: None)
    pusher.start()
    await asyncio.to_thread(eventually, lambda: push.times >= 3, 30.0, "three pushes")
    await pusher.stop()
    (entry,) = log.of("otlp_failed")
    assert entry["message"].startswith("cannot push metrics: ValueError in ")
    assert "SECRET" not in str(entry)


async def test_push_longer_than_the_interval_is_logged(log: Log) -> None:
    push = Push()
    push.may.clear()
    pusher = Pusher(push, 0.01, lambda: None)
    pusher.start()
    await until(push.began)
    await asyncio.sleep(0.05)
    push.may.set()
    await asyncio.to_thread(eventually, lambda: log.of("otlp_failed"), 30.0, "logged")
    await pusher.stop()
    assert log.of("otlp_failed")[0]["message"] == "a push took longer than `otlp.interval`; raise that"


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
