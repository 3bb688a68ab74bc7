"""Trouble in the log: said once when it begins, counted while it lasts, and said again when it ends."""

import time
from typing import Any

from watchslo.snapshot import FailureReading
from watchslo.watch.failure import CloseClass, Failure

USUAL = (CloseClass.DEADLINE, CloseClass.OWN)


class Trouble:
    """The failures of one thing, e.g. of a stream; `log` is bound to what it is."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._latest: FailureReading | None = None
        self._reason: str | None = None
        self._times = 0
        self._since = 0.0

    @property
    def latest(self) -> FailureReading | None:
        return self._latest

    def happened(self, event: str, failure: Failure, **facts: object) -> None:
        """Something failed: it is said if it is not what failed before."""
        if failure.closed in USUAL:
            self._log.debug(event, reason=failure.reason.value, **facts)
            return
        self._latest = FailureReading(failure.reason, failure.message, time.time())
        if self._reason is None:
            self._since = time.monotonic()
        self._times += 1
        if failure.reason != self._reason:
            self._reason = failure.reason
            self._log.warning(event, reason=failure.reason.value, message=failure.message, **facts)

    def over(self) -> None:
        """It works again."""
        if self._reason is not None:
            lasted = round(time.monotonic() - self._since, 3)
            self._log.info("recovered", reason=self._reason, failures=self._times, after_s=lasted)
        self._reason = None
        self._times = 0
