"""The watch of whole objects next to a watch, against a cluster in memory."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tests.unit.monitor.cluster import Cluster, Log, Watch, because_of, line
from tests.unit.monitor.inside import running
from tests.unit.monitor.test_watch_session import ERROR_410, Parts
from watchslo.config.model import Config
from watchslo.kube.representation import Representation
from watchslo.monitor.reference_watch import ReferenceWatch
from watchslo.snapshot import Hop, HopReading, ReferenceReading
from watchslo.watch.failure import Reason
from watchslo.watch.messages import Batch

SETTLED_SECONDS = 1.0


class Pair:
    """A watch of pods and that of their whole objects, whose connections are `small` and `full`."""

    def __init__(self) -> None:
        self.parts = Parts(reference=True)
        self.reference = ReferenceWatch(self.parts.watch.identity, self.parts.statistics, lambda: 0.5)
        self.small: Watch
        self.full: Watch

    async def find(self, cluster: Cluster) -> None:
        self.small, self.full = sorted(cluster.open_watches(), key=_is_whole)

    def reading(self) -> ReferenceReading:
        self.parts.evaluate()
        return self.reference.reading()

    def hop(self) -> HopReading | None:
        self.parts.evaluate()
        hops = self.parts.reading().track.hops
        return next((hop for hop in hops if hop.hop is Hop.ENCODING_TO_CLIENT), None)

    def without(self) -> dict[str, int]:
        self.parts.evaluate()
        return {reason: count for reason, count in self.reading().unmeasured.items() if count}


def _is_whole(watch: Watch) -> bool:
    return watch.representation in (Representation.PROTOBUF, Representation.PLAIN)


@asynccontextmanager
async def open_pair(cluster: Cluster) -> AsyncIterator[Pair]:
    pair = Pair()
    tasks = [asyncio.create_task(run()) for run in (pair.parts.session.run, pair.reference.run)]
    await asyncio.sleep(0.1)
    try:
        await pair.find(cluster)
        yield pair
        pair.parts.session.halt(Reason.SHUTDOWN)
        pair.reference.halt(Reason.SHUTDOWN)
        async with asyncio.timeout(0.1):
            await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert not cluster.open_watches()


async def beating(pair: Pair, seconds: float) -> None:
    """Wait, with heartbeats."""
    for _ in range(round(seconds / 0.05)):
        await asyncio.sleep(0.05)
        pair.parts.lag.beat(asyncio.get_running_loop().time(), None, 0.0)


async def deliver(pair: Pair, send: Callable[[], None]) -> None:
    send()
    await beating(pair, 0.05)


class TestReferenceWatch:
    """Each test has a cluster of its own, and time passes as fast as the test asks for."""

    async def test_delay_of_whole_objects_is_a_hop(self, cluster: Cluster) -> None:
        async with open_pair(cluster) as pair:
            assert pair.full.representation is Representation.PROTOBUF
            assert pair.full.revision == pair.small.revision
            for revision in range(1001, 1031):
                await deliver(pair, lambda revision=revision: pair.small.send(line("MODIFIED", revision)))  # type: ignore[misc]
                await beating(pair, 0.5)
                await deliver(pair, lambda revision=revision: pair.full.send(line("MODIFIED", revision)))  # type: ignore[misc]
            await beating(pair, SETTLED_SECONDS)
            hop = pair.hop()
            assert hop is not None
            assert hop.histogram.total == 30
            assert 0.5 <= hop.histogram.sum / 30 <= 0.7
            reading = pair.reading()
            assert (reading.up, reading.representation, reading.events, reading.failure) == (True, "protobuf", 30, None)
            assert reading.bytes > 30 * 50
            assert pair.without() == {}
            assert reading.withheld == 0.0
            assert pair.parts.session.counters.events["MODIFIED"] == 30  # not those of the reference

    async def test_whole_object_that_is_missing_is_withheld(self, cluster: Cluster) -> None:
        async with open_pair(cluster) as pair:
            await deliver(pair, lambda: pair.small.send(line("ADDED", 1001)))
            await beating(pair, 3.0)
            assert pair.hop() is None
            assert 3.0 <= pair.reading().withheld <= 3.2

    async def test_event_that_arrives_while_this_process_is_late_is_no_sample(self, cluster: Cluster) -> None:
        async with open_pair(cluster) as pair:
            await beating(pair, 0.1)
            pair.small.send(line("ADDED", 1001))
            await beating(pair, 0.05)
            await asyncio.sleep(0.5)  # no heartbeat
            pair.full.send(line("ADDED", 1001))
            await asyncio.sleep(0.01)
            await beating(pair, SETTLED_SECONDS)
            assert pair.without() == {"tainted": 1}
            assert pair.hop() is None

    async def test_event_between_two_connections_is_no_sample(self, cluster: Cluster) -> None:
        async with open_pair(cluster) as pair:
            pair.full.send()
            await beating(pair, 0.05)
            await deliver(pair, lambda: pair.small.send(line("ADDED", 1001)))
            await beating(pair, 3.0)
            await pair.find(cluster)
            await deliver(pair, lambda: pair.full.send(line("ADDED", 1001)))
            await beating(pair, SETTLED_SECONDS)
            assert pair.without() == {"reopened": 1}
            assert pair.hop() is None

    async def test_resource_without_protobuf_is_watched_as_plain_objects(self, cluster: Cluster) -> None:
        cluster.failures["list", "pods"] = because_of(Reason.NOT_ACCEPTABLE)
        parts = Parts(reference=True)
        reference = ReferenceWatch(parts.watch.identity, parts.statistics, lambda: 0.5)
        task = asyncio.create_task(reference.run())
        await asyncio.sleep(0.1)
        cluster.failures.clear()
        await asyncio.sleep(20.0)
        (full,) = cluster.open_watches()
        assert full.representation == reference.reading().representation == "plain"
        reference.halt(Reason.SHUTDOWN)
        await task
        await reference.run()  # it is over

    async def test_failure_is_logged_and_shown_until_the_watch_is_open(self, cluster: Cluster, log: Log) -> None:
        async with open_pair(cluster) as pair:
            cluster.failures["list", "*"] = because_of(Reason.FORBIDDEN)
            cluster.failures["watch", "*"] = because_of(Reason.FORBIDDEN)
            pair.full.send()
            await beating(pair, 5.0)
            reading = pair.reading()
            assert not reading.up
            assert reading.failure is not None
            assert (reading.withheld, pair.parts.session.up) == (0.0, True)
            assert log.of("reference_closed")
            cluster.failures.clear()
            await beating(pair, 120.0)
            assert pair.reading().failure is None

    async def test_restored_storage_makes_it_begin_again(self, cluster: Cluster) -> None:
        async with open_pair(cluster) as pair:
            await deliver(pair, lambda: pair.small.send(line("ADDED", 1001)))
            cluster.revision = 50
            pair.parts.session.start_over()
            pair.reference.start_over()
            pair.parts.statistics.drop_unsealed()
            await beating(pair, 30.0)
            await pair.find(cluster)
            assert pair.full.revision == pair.small.revision == 50
            assert pair.reading().withheld == 0.0

    async def test_expired_revision_is_listed_again(self, cluster: Cluster) -> None:
        async with open_pair(cluster) as pair:
            cluster.revision = 2000
            pair.full.send(ERROR_410)
            await beating(pair, 30.0)
            await pair.find(cluster)
            assert pair.full.revision == 2000

    async def test_reopened_watch_resumes(self, cluster: Cluster) -> None:
        async with open_pair(cluster) as pair:
            await deliver(pair, lambda: pair.full.send(line("ADDED", 1001)))
            first = pair.full
            pair.reference.reopen(Reason.ROTATED)
            await beating(pair, 1.0)
            await pair.find(cluster)
            assert pair.full is not first
            assert pair.full.revision == 1001

    async def test_crash_is_followed_by_a_new_watch(self, cluster: Cluster) -> None:
        pair = Pair()
        pair.parts.statistics.record_reference = _crash  # type: ignore[method-assign]
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


def referencing(*, on: bool = True) -> Config:
    return Config.model_validate({"watch": [{"resource": "pods", "creation": False, "reference": on}]})


class TestMonitor:
    """The whole monitor, with a watch of pods that has a reference."""

    async def test_both_connections_are_replaced_after_a_suspend(self, cluster: Cluster) -> None:
        async with running(referencing()) as run:
            before = cluster.open_watches()
            run.supervisor.lag.broken.set()
            await asyncio.sleep(5)
            after = cluster.open_watches()
        assert len(before) == len(after) == 2
        assert not any(one is other for one in before for other in after)
