"""Failures in the log: reported once when they begin, counted while they last, and reported again when they end."""

import time
from typing import Any

from watchslo.snapshot import FailureReading
from watchslo.watch.failure import CloseClass, Failure

USUAL = (CloseClass.DEADLINE, CloseClass.OWN)


class FailureLog:
    """The failures of one thing, for example of one watch; `log` carries the fields that identify it.

    `latest` is the last failure, whether it is resolved or not. `now` is the last failure of a series that is not
    resolved yet, or None.
    """

    def __init__(self, log: Any) -> None:
        self.latest: FailureReading | None = None
        self._log = log
        self._logged: set[str] = set()
        self._times = 0
        self._since = 0.0

    @property
    def now(self) -> FailureReading | None:
        return self.latest if self._times else None

    def record(self, event: str, failure: Failure, **facts: object) -> None:
        """Record a failure; log it unless the same reason was logged since the last `resolve`.

        A usual end of a watch (its deadline, or one of our own closes) is not a failure and goes to the debug log.
        """
        if failure.closed in USUAL:
            self._log.debug(event, reason=failure.reason.value, **facts)
            return
        self.latest = FailureReading(failure.reason, failure.message, time.time())
        if not self._times:
            self._since = time.monotonic()
        self._times += 1
        if failure.reason not in self._logged:
            self._logged.add(failure.reason)
            self._log.warning(event, reason=failure.reason.value, message=failure.message, **facts)

    def resolve(self) -> None:
        """Record that it works again; log `recovered` if it had failed."""
        if self.now:
            lasted = round(time.monotonic() - self._since, 3)
            self._log.info("recovered", reason=self.now.reason, failures=self._times, after_s=lasted)
        self._logged.clear()
        self._times = 0
