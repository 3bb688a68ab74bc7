"""Whether an apiserver sends anything while it is asked. Pure.

An apiserver that was stopped, or whose network was cut, keeps its connections open for long: its watches look idle.
What tells the difference is that requests have no answer either. Only time in which this process was prompt counts, so
that its own delays are never the apiserver's silence.
"""

SUSPECT_SECONDS = 3.0  # a request that needs no storage is then sent: an apiserver with a slow etcd still answers it
UNRESPONSIVE_SECONDS = 10.0  # the longest that a consistent read takes is half of it


class Responsiveness:
    """Remembers since when an apiserver has sent nothing although it was asked; times are monotonic seconds.

    `since` is when the first unanswered request was sent, once that is `UNRESPONSIVE_SECONDS` ago; else None. `refuses`
    says that nothing was received since a connection was refused.
    """

    def __init__(self) -> None:
        self.since: float | None = None
        self.refuses = False
        self._asked: float | None = None

    def asked(self, now: float) -> None:
        """Note that a request was sent."""
        if self._asked is None:
            self._asked = now

    def heard(self, at: float) -> None:
        """Note that anything was received: an answer with any status, or a part of one."""
        if self._asked is not None and at >= self._asked:
            self._asked = self.since = None
            self.refuses = False

    def refused(self) -> None:
        """Note that a connection was refused: its process has ended, and nothing is withheld."""
        self.refuses = True

    def silence(self, now: float) -> float:
        """Return for how many seconds requests have had no answer; 0 if none waits for one."""
        return 0.0 if self._asked is None else now - self._asked

    def look(self, now: float, late_seconds: float) -> None:
        """Decide whether it is unresponsive; this process was late for `late_seconds` since the last look."""
        if self._asked is None:
            return
        self._asked = min(now, self._asked + late_seconds)
        self.since = self._asked if now - self._asked >= UNRESPONSIVE_SECONDS else None

    def unresponsive_for(self, now: float) -> float | None:
        """Return for how many seconds the apiserver has been unresponsive; None if it is not."""
        return None if self.since is None else now - self.since
