"""How a request ended, and what follows: the same request again, another list, or a wait."""

from dataclasses import dataclass

from watchslo.watch.failure import Action, Failure, Reason
from watchslo.watch.transitions import Trigger
from watchslo.watch.watch_attempt import WatchAttempt, is_healthy

ERRORS_AT_ONE_REVISION = 5  # after so many, the revision itself is the likeliest cause


@dataclass(slots=True)
class Doubts:
    """What speaks against requesting a revision: it expired, or brought errors or empty closes in a row.

    `silent` says that the last streamed list brought nothing for too long.
    """

    silent: bool = False
    expired: int | None = None
    errors: int = 0
    errors_at: int | None = None
    empty_at: int | None = None

    def clean_end(self, watch: WatchAttempt, lived: float, revision: int | None) -> Reason:
        """Return why a watch at this revision ended without an error: the reader of its connection cannot know."""
        if watch.has_run_out(lived):
            return Reason.DEADLINE
        if watch.heard:
            return Reason.FORCED
        if watch.garbled:
            return Reason.GARBAGE
        if is_healthy(lived):
            return Reason.FORCED
        again = self.empty_at == revision
        self.empty_at = revision
        return Reason.EMPTY_CLOSE if again else Reason.FORCED

    def judge(self, failure: Failure, revision: int | None, *, healthy: bool) -> Trigger:
        """Return what follows the failure of a watch at this revision."""
        if healthy or self.errors_at != revision:
            self.errors = 0
            self.errors_at = revision
        if failure.action is Action.RESUME and not healthy:
            self.errors += 1
        return trigger_of(failure, self.errors)


def trigger_of(failure: Failure, errors: int) -> Trigger:
    """Return what follows a failure after so many `errors` at one revision, or in one list."""
    if failure.action is Action.WAIT:
        return Trigger.WAIT
    if failure.action is Action.START_OVER or errors >= ERRORS_AT_ONE_REVISION:
        return Trigger.START_OVER
    return Trigger.RETRY
