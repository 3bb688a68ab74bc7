"""The watch of whole objects next to a watch, against a cluster in memory."""

import asyncio

from tests.unit.monitor.cluster import Cluster, line
from tests.unit.monitor.scene import Play, shown
from tests.unit.monitor.test_watch_session import SAID, Parts, PartsScene
from watchslo.kube.representation import Representation
from watchslo.monitor.watches.reference_watch import ReferenceWatch
from watchslo.monitor.watches.watch_session import WatchSession
from watchslo.snapshot import Hop
from watchslo.watch.failure import Reason
from watchslo.watch.messages import Batch

WHOLE = (Representation.PROTOBUF, Representation.PLAIN)


class Pair:
    """A watch of pods and that of their whole objects."""

    def __init__(self) -> None:
        self.parts = Parts(reference=True)
        self.reference = ReferenceWatch(self.parts.watch.identity, self.parts.statistics, lambda: 0.5)


class ReferenceScene(PartsScene):
    """A pair of watches; what happens to one of them begins with `small` or `full`."""

    def __init__(self, _: str) -> None:
        super().__init__()
        self._pair = self.now(Pair)

    @property
    def _sessions(self) -> tuple[WatchSession, ReferenceWatch]:
        return self._pair.parts.session, self._pair.reference

    async def _shut_down(self) -> None:
        await super()._shut_down()
        await self._pair.reference.run()  # it is over

    async def _wait(self, seconds: float) -> None:
        """Wait, with heartbeats."""
        for _ in range(round(seconds / 0.05)):
            await super()._wait(0.05)
            self._pair.parts.lag.beat(asyncio.get_running_loop().time(), None, 0.0)

    async def hang(self, seconds: float) -> None:
        """Wait without a heartbeat."""
        await asyncio.sleep(seconds)

    async def deliver(self, first: int, last: int) -> None:
        """Deliver events to both watches, half a second later to that of whole objects."""
        for revision in range(first, last + 1):
            for which, seconds in (("small", 0.55), ("full", 0.05)):
                self.send(which, revision)
                await self._wait(seconds)

    def send(self, which: str, what: int | str) -> None:
        """Send a change of this revision, or what is named in `SAID`."""
        for watch in self._cluster.open_watches():
            if (watch.representation in WHOLE) == (which == "full"):
                watch.send(SAID.get(str(what)) or line("MODIFIED", int(what)))

    def reopen(self) -> None:
        self._pair.reference.reopen(Reason.ROTATED)

    def restore(self, revision: int) -> None:
        """Restore the storage, and begin again."""
        self._cluster.revision = revision
        for one in self._sessions:
            one.start_over()
        self._pair.parts.statistics.drop_unsealed()

    def watches(self) -> list[str]:
        return [f"{watch.representation} from {watch.revision}" for watch in self._cluster.open_watches()]

    def _state(self) -> dict[str, str]:
        parts = self._pair.parts
        parts.evaluate()
        found = self._pair.reference.reading()
        hop = next((hop for hop in parts.reading().track.hops if hop.hop is Hop.ENCODING_TO_CLIENT), None)
        said = {
            "small": f"{parts.session.state}, {parts.session.counters.events['MODIFIED']} events",
            "full": f"{'up' if found.up else 'down'}, {found.representation}, {found.events} events",
            "bytes": str(found.bytes),
            "without": shown(found.unmeasured),
            "withheld": f"{found.withheld:.1f} s",
            "failure": found.failure or "none",
        }
        return said | ({"hop": f"{hop.histogram.total} of {hop.histogram.sum:.1f} s"} if hop else {})


def test_pair_does_what_its_transcripts_say(play: Play) -> None:
    play("reference-watch.txt", ReferenceScene)


async def test_crash_is_followed_by_a_new_watch(cluster: Cluster) -> None:
    pair = Pair()
    pair.parts.statistics.record_reference_watch = _crash  # type: ignore[method-assign]
    task = asyncio.create_task(pair.reference.run())
    await asyncio.sleep(0.1)
    cluster.open_watches()[0].send(line("ADDED", 1001))
    await asyncio.sleep(0.1)
    assert isinstance(task.exception(), ExceptionGroup)
    again = asyncio.create_task(pair.reference.run())
    await asyncio.sleep(0.1)
    assert len(cluster.open_watches()) == 1
    pair.reference.halt(Reason.SHUTDOWN)
    await again


def _crash(batch: Batch) -> None:
    raise ZeroDivisionError(batch)
