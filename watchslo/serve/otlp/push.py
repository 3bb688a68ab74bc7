"""Pushes metrics at intervals, in a thread of its own: no collector delays the measurement or an answer."""

import asyncio
import math
import threading
import time
from collections.abc import Callable

import structlog

from watchslo.errors import error_location
from watchslo.serve.otlp.failure import PushError

GRACE_SECONDS = 2.0  # for a push under way at shutdown, which takes five seconds at most
LEAST_LOG_SECONDS = 60.0  # between two lines on failures


class Pusher:
    """Calls `push` in each `interval`, until stopped; `cancel` ends a push under way.

    One push at a time: intervals that pass during it are left out, so nothing waits. Counters are cumulative, so the
    next push has what a failed one had.
    """

    def __init__(self, push: Callable[[], None], interval: float, cancel: Callable[[], None]) -> None:
        self._push = push
        self._interval = interval
        self._cancel = cancel
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._log = PushLog()

    def start(self) -> None:
        """Start the thread; the first push is after an interval."""
        self._thread.start()

    async def stop(self) -> None:
        """End the thread; a push that does not end in time is abandoned."""
        self._stopped.set()
        await asyncio.to_thread(self._cancel)
        await asyncio.to_thread(self._thread.join, GRACE_SECONDS)

    def _run(self) -> None:
        wait = self._interval
        while not self._stopped.wait(wait):
            began = time.monotonic()
            failure = self._failure()
            lasted = time.monotonic() - began
            if not failure and lasted > self._interval:
                failure = "a push took longer than `otlp.interval`; raise that"
            if not self._stopped.is_set():
                self._log.record(failure, time.monotonic())
            wait = self._interval - lasted % self._interval

    def _failure(self) -> str:
        """Push, and return why it failed; empty if it did not."""
        try:
            self._push()
        except PushError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - the measurement continues whatever a library raises
            return f"cannot push metrics: {error_location(error)}; report this"
        return ""


class PushLog:
    """Logs each reason once until a push succeeds, and at most one line a minute."""

    def __init__(self) -> None:
        self._logged: set[str] = set()
        self._failures = 0
        self._last = -math.inf

    def record(self, failure: str, now: float) -> None:
        """Record the result of a push at a monotonic time; `failure` is empty if it succeeded."""
        log = structlog.get_logger()
        if not failure:
            if self._logged:
                log.info("otlp_recovered", failures=self._failures)
            self._logged, self._failures = set(), 0
            return
        self._failures += 1
        if failure not in self._logged and now - self._last >= LEAST_LOG_SECONDS:
            self._logged.add(failure)
            self._last = now
            log.warning("otlp_failed", message=failure, failures=self._failures)
