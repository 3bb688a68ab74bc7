"""The machine is suspended for hours: the monotonic clock stands still, and the cluster continues."""

import asyncio

import pytest

from tests.unit.monitor.cluster import NODES, PODS, Cluster, Log, line
from tests.unit.monitor.inside import Running, config, keep_writing, running
from watchslo.model import Resource
from watchslo.snapshot import StreamReading
from watchslo.watch.failure import Reason

HOURS = 5 * 3600.0
BACKLOG = 300  # events of the hours


class Machine:
    """A machine that can be suspended; then its connections hang, or what was sent comes at once."""

    def __init__(self, cluster: Cluster) -> None:
        self.suspended = 0.0
        self.cluster = cluster

    def suspend(self, seconds: float = HOURS) -> None:
        self.suspended += seconds

    def suspend_with_dead_connections(self) -> None:
        """The peers have given up the connections; no packet says so."""
        for watch in self.cluster.open_watches():
            watch.queue = asyncio.Queue()
        self.suspend()
        for _ in range(BACKLOG):
            self.cluster.write(PODS)


@pytest.fixture
def machine(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(cluster)
    monkeypatch.setattr("watchslo.monitor.lag.suspended_seconds", lambda: made.suspended)
    return made


def resend(cluster: Cluster, resource: Resource) -> None:
    """Send the newly opened watches of a resource all events since the revisions that they have asked for."""
    for watch in cluster.open_watches(resource):
        for of, revision, event in cluster.history:
            if of == resource and revision > watch.revision:
                watch.send(event)


def unwell(stream: StreamReading) -> dict[str, object]:
    """Return everything that says that the watch was late, stalled or wrong."""
    audit, verdicts = stream.audit, stream.track.objective.verdicts
    found = {
        "beyond": verdicts["beyond"],
        "bad": stream.track.objective.windows["bad"],
        "stalls": audit.stalls,
        "stalled_for": audit.stalled_for,
        "violations": sum(stream.guarantees.violations.values()),
        "closed": {pair: count for pair, count in stream.outcomes.closed.items() if pair[0] != "own"},
    }
    return {name: value for name, value in found.items() if value}


def counts(stream: StreamReading) -> dict[str, int]:
    return {"sample": stream.track.timespan.total} | {k: v for k, v in stream.track.unmeasured.items() if v}


async def settle(run: Running, cluster: Cluster) -> None:
    await keep_writing(cluster, NODES, seconds=30, gap=0.5)
    assert run.snapshot().causes == ()


class TestBacklog:
    async def test_before_the_first_heartbeat_is_tainted(self, cluster: Cluster, machine: Machine) -> None:
        async with running(config("pods", "nodes")) as run:
            await keep_writing(cluster, PODS, seconds=30)
            await asyncio.sleep(0.52)
            machine.suspend()
            for _ in range(BACKLOG):
                cluster.write(PODS)
            await asyncio.sleep(5)
            await keep_writing(cluster, PODS, seconds=30)
            await settle(run, cluster)
            assert unwell(run.stream("pods")) == {}
            assert counts(run.stream("pods")) == {"sample": 600, "tainted": BACKLOG}

    async def test_some_seconds_later_is_tainted(self, cluster: Cluster, machine: Machine) -> None:
        async with running(config("pods", "nodes")) as run:
            await keep_writing(cluster, PODS, seconds=30)
            await asyncio.sleep(1)
            missed = [cluster.revision + number for number in range(1, BACKLOG + 1)]
            cluster.revision += BACKLOG
            machine.suspend(0.9)
            await asyncio.sleep(3)
            for revision in missed:
                cluster.send(PODS, line("MODIFIED", revision))
            await keep_writing(cluster, PODS, seconds=30)
            await settle(run, cluster)
            assert counts(run.stream("pods")) == {"sample": 600, "tainted": BACKLOG}
            assert unwell(run.stream("pods")) == {}


class TestDeadConnections:
    async def test_are_replaced_and_no_stall_is_reported(self, cluster: Cluster, machine: Machine, log: Log) -> None:
        async with running(config("pods", "nodes")) as run:
            await keep_writing(cluster, PODS, NODES, seconds=30)
            old = cluster.open_watches()
            machine.suspend_with_dead_connections()
            await asyncio.sleep(0.2)
            assert not any(watch.open for watch in old)
            resend(cluster, PODS)
            await keep_writing(cluster, PODS, NODES, seconds=30)
            await settle(run, cluster)
            for label in ("pods", "nodes"):
                assert unwell(run.stream(label)) == {}
                assert run.stream(label).outcomes.closed["own", "suspended"] == 1
            assert BACKLOG <= counts(run.stream("pods"))["tainted"] <= BACKLOG + 10
            assert counts(run.stream("pods"))["sample"] >= 594
            assert not log.of("watch_stalled")
            assert len(log.of("suspended")) == 1
            assert cluster.hung_up == 1

    async def test_that_are_replaced_late_are_not_the_fault_of_the_apiserver(
        self, cluster: Cluster, machine: Machine
    ) -> None:
        """Some requests fail for ten seconds after a suspend; what happens until then comes late."""
        async with running(config("pods", "nodes")) as run:
            await keep_writing(cluster, PODS, NODES, seconds=30)
            machine.suspend_with_dead_connections()
            cluster.fail(Reason.UNREACHABLE, "watch")
            await keep_writing(cluster, PODS, seconds=10)
            cluster.fail(None, "watch")
            await asyncio.sleep(10)
            assert cluster.open_watches(PODS)
            resend(cluster, PODS)
            await keep_writing(cluster, PODS, NODES, seconds=30)
            await settle(run, cluster)
            assert run.stream("pods").track.objective.verdicts["beyond"] == 0
            assert run.stream("pods").track.objective.windows["bad"] == 0
            assert run.stream("pods").track.unmeasured["own_queue"] > 80


async def test_short_suspend_keeps_the_connections(cluster: Cluster, machine: Machine) -> None:
    async with running(config("pods")) as run:
        (open_one,) = cluster.open_watches()
        machine.suspend(0.5)
        await asyncio.sleep(10)
        assert cluster.open_watches() == [open_one]
        assert run.snapshot().monitor.tainted_seconds == 0.0


async def test_suspend_judges_no_window_and_is_no_overload(cluster: Cluster, machine: Machine) -> None:
    async with running(config("pods")) as run:
        before = run.stream("pods").track.objective.windows["no_data"]
        await keep_writing(cluster, PODS, seconds=80)
        machine.suspend()
        await keep_writing(cluster, PODS, seconds=80)
        await asyncio.sleep(20)
        windows = run.stream("pods").track.objective.windows
        assert windows["bad"] == 0
        assert windows["good"] >= 2
        assert windows["no_data"] == before + 1
        assert run.snapshot().monitor.tainted_seconds == 0.0
