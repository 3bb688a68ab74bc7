"""A watch of whole objects next to a small one: it shows how much later clients that need these get events."""

import time
from collections.abc import Callable

from watchslo.kube.representation import Representation
from watchslo.monitor.protocol.watch_identity import WatchIdentity
from watchslo.monitor.watches.second_watch import SecondWatch
from watchslo.monitor.watches.watch_statistics import WatchStatistics
from watchslo.snapshot import ReferenceWatchReading
from watchslo.watch.messages import Batch, Fact, WatchOpened


class ReferenceWatch(SecondWatch):
    """Runs the watch of whole objects of one watch, and passes what it delivers to the `statistics` of that.

    It asks for protobuf and falls back to plain JSON.
    """

    def __init__(self, identity: WatchIdentity, statistics: WatchStatistics, random: Callable[[], float]) -> None:
        super().__init__(
            identity,
            Representation.PROTOBUF,
            random,
            "reference_closed",
            emit=self._record,
            note=self._note_opened,
        )
        self._statistics = statistics
        self._events = 0

    def reading(self) -> ReferenceWatchReading:
        """Return everything that is shown of it."""
        delays = self._statistics.reference
        assert delays is not None
        return ReferenceWatchReading(
            up=self.is_open,
            representation=self.representation,
            events=self._events,
            bytes=self.bytes,
            unmeasured={reason.value: count for reason, count in delays.without.items()},
            withheld=delays.withheld if self.is_open else 0.0,
            failure=self.failure.message if self.failure else None,
        )

    def _record(self, batch: Batch) -> None:
        self._events += len(batch.revisions)
        self._statistics.record_reference_watch(batch)

    def _note_opened(self, fact: Fact) -> None:
        if isinstance(fact, WatchOpened):
            assert self._statistics.reference is not None
            self._statistics.reference.full.opened = time.monotonic()
