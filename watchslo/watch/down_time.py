"""Since when a watch has been down: closed, for a reason that keeps its other clients from the resource as well."""

from watchslo.watch.failure import Failure

OWN_WAIT_SECONDS = 0.15  # a request that waited longer in this process says nothing about the apiserver until then


class DownTime:
    """The down time of one watch; times are monotonic seconds.

    It begins when a watch ends or cannot be opened, and ends when it is open. Time in which the next request waits for
    its turn in this process is no down time, and neither is what was before.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        self._queued: int | None = None

    def seconds(self, now: float) -> float | None:
        """Return for how long the watch has been down; None if it is not."""
        return None if self._since is None or self._queued is not None else now - self._since

    def failed(self, failure: Failure, now: float) -> None:
        """Begin, unless the failure concerns this process alone: then nothing is known about other clients."""
        self._queued = None
        if not failure.concerns_clients:
            self._since = None
        elif self._since is None:
            self._since = now

    def requested(self, op: int) -> None:
        """Note that the list or the watch is requested again."""
        self._queued = op

    def sent(self, op: int, requested: float, now: float) -> None:
        """Note that a request was sent, after it waited since `requested` in this process."""
        if op != self._queued:
            return
        self._queued = None
        if self._since is not None and now - requested > OWN_WAIT_SECONDS:
            self._since = now

    def end(self) -> None:
        """End: the watch is open, or no longer wanted."""
        self._since = self._queued = None
