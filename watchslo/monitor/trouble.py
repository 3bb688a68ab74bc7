"""Trouble in the log: said once when it begins, counted while it lasts, and said again when it ends."""

import time
from typing import Any

from watchslo.snapshot import FailureReading
from watchslo.watch.failure import CloseClass, Failure

USUAL = (CloseClass.DEADLINE, CloseClass.OWN)


class Trouble:
    """The failures of one thing, e.g. of a stream; `log` is bound to what it is.

    `latest` is the last one that ever was, `now` the last one of a trouble that lasts.
    """

    def __init__(self, log: Any) -> None:
        self.latest: FailureReading | None = None
        self._log = log
        self._said: set[str] = set()
        self._times = 0
        self._since = 0.0

    @property
    def now(self) -> FailureReading | None:
        return self.latest if self._times else None

    def happened(self, event: str, failure: Failure, **facts: object) -> None:
        """Something failed: it is said unless it has been said of this trouble."""
        if failure.closed in USUAL:
            self._log.debug(event, reason=failure.reason.value, **facts)
            return
        self.latest = FailureReading(failure.reason, failure.message, time.time())
        if not self._times:
            self._since = time.monotonic()
        self._times += 1
        if failure.reason not in self._said:
            self._said.add(failure.reason)
            self._log.warning(event, reason=failure.reason.value, message=failure.message, **facts)

    def over(self) -> None:
        """It works again."""
        if self.now:
            lasted = round(time.monotonic() - self._since, 3)
            self._log.info("recovered", reason=self.now.reason, failures=self._times, after_s=lasted)
        self._said.clear()
        self._times = 0
