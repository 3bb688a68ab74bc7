"""Whether refusals mean that this identity lacks a right. Pure.

An apiserver that has just started answers 403 to every request for about 0.3 s, until it has read the roles (seen on
1.36). So the first refusal proves nothing. The second one does, if it comes so much later that no apiserver still
starts; an answer in between ends the doubt.
"""

from watchslo.watch.failure import Action, Failure, Reason

AGAIN_SECONDS = 60.0  # from the first refusal until the request is sent again; callers vary it by half at random
PROVEN_SECONDS = 20.0  # between two refusals that prove it: no apiserver starts for so long


class MissingRight:
    """Remembers since when one kind of request is refused, in monotonic seconds."""

    def __init__(self) -> None:
        self._since: float | None = None

    def is_proven(self, failure: Failure, now: float) -> bool:
        """Note a failure, and return True if the request is likely to be refused for long.

        That is so for each failure with `Action.WAIT`, such as a 404, except the first refusals.
        """
        if failure.reason is not Reason.FORBIDDEN:
            return failure.action is Action.WAIT
        if self._since is None:
            self._since = now
        return now - self._since >= PROVEN_SECONDS

    def pause(self, failure: Failure, now: float, seconds: float) -> float:
        """Return the seconds until the request is sent again: `seconds`, or about a minute after the first refusals."""
        return seconds if self.is_proven(failure, now) else AGAIN_SECONDS

    def resolve(self) -> None:
        """Note an answer: the right is there."""
        self._since = None
