"""Where a watch begins that reads the past again, and how much of the past it delivered."""

from collections.abc import Sequence

from watchslo.monitor.apiservers.oldest_revision import find_oldest
from watchslo.monitor.protocol.watch_identity import WatchIdentity
from watchslo.snapshot import ReplayReading
from watchslo.watch.failure import Action, Failure
from watchslo.watch.headroom import replay_start

TRIES = 3  # of a search that fails for a reason that may be over soon; then the watch begins now
TRANSIENT = (Action.RETRY, Action.REAUTHENTICATE)


class Replay:
    """The past of one watch: from which revision it is read again.

    Events up to the revision that was the newest when the watch began are of the past.
    """

    def __init__(self, identity: WatchIdentity) -> None:
        self._identity = identity
        self._events = 0
        self._newest = 0
        self._obstacle: str | None = None
        self._found = 0  # searches that found a revision
        self._failed = 0

    async def find(self, known: int | None) -> int | Failure:
        """Return the revision to watch from: the oldest in reach, or the newest one if that cannot be found.

        `known` is a revision that expired, if there was one: the watch begins after it. The failure is that of a
        request that is worth another try.
        """
        client, resource, namespace = self._identity.apiserver.client, self._identity.resource, self._identity.probed_in
        now = await client.read_nothing(resource, namespace, "list")
        if isinstance(now, Failure):
            return now
        self._newest = now.revision
        found = await find_oldest(client, resource, namespace, lambda: self._newest, _at_once)
        if isinstance(found, Failure):
            self._failed += 1
            if found.action in TRANSIENT and self._failed < TRIES:
                return found
            self._obstacle = found.message
            return now.revision
        self._obstacle = None
        begin = replay_start(found.oldest, now.revision, self._found)
        self._found += 1
        return begin if known is None else min(max(begin, known + 1), now.revision)

    def count(self, revisions: Sequence[int]) -> None:
        """Count the events of the past among the revisions of a batch."""
        self._events += sum(revision <= self._newest for revision in revisions)

    @property
    def reading(self) -> ReplayReading:
        return ReplayReading(self._events, self._obstacle)


async def _at_once() -> None:
    """Send the next request of a search without a pause: there are at most ten, before the watch opens."""
