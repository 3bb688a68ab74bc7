"""A storage whose revisions are commit times, as on GKE: the monitor finds that out and dates each event by itself."""

import time
from dataclasses import dataclass

import pytest

from tests.unit.monitor.cluster import CONFIGMAPS, PODS, Cluster
from tests.unit.monitor.inside import config, keep_writing, running
from watchslo.model import Resource
from watchslo.snapshot import QuantileReading, StorageKind, WatchReading

LATE_SECONDS = 0.3
THRESHOLD_SECONDS = 0.4


@dataclass
class StorageClock:
    """The storage's clock minus the local one, in seconds."""

    ahead: float = 1_753_647_547.040015

    def revision(self, oldest: int) -> int:
        return max(oldest + 1, round(1e9 * (self.ahead + time.monotonic())))


@pytest.fixture(autouse=True)
def storage_clock(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> StorageClock:
    """Make each revision of the cluster the time of its commit; its caches are late."""
    clock, write = StorageClock(), cluster.write

    def at_that_time(resource: Resource, type_: str = "MODIFIED", created: str | None = None) -> int:
        cluster.revision = clock.revision(cluster.revision) - 1
        return write(resource, type_, created)

    cluster.late = LATE_SECONDS
    cluster.revision = clock.revision(0)
    monkeypatch.setattr(cluster, "write", at_that_time)
    return clock


def quantile(stream: WatchReading, q: float) -> QuantileReading:
    return next(one for one in stream.track.windows[0].quantiles if one.q == q)


async def test_each_event_is_dated_to_milliseconds(cluster: Cluster) -> None:
    async with running(config("configmaps", "pods")) as run:
        await keep_writing(cluster, CONFIGMAPS, PODS, seconds=30)
        unmeasured = run.stream("pods").track.unmeasured
        await keep_writing(cluster, CONFIGMAPS, PODS, seconds=80)
        for name in ("configmaps", "pods"):
            for q in (0.5, 0.99):
                found = quantile(run.stream(name), q)
                assert found.lower <= LATE_SECONDS <= found.upper
                assert found.upper - found.lower < 0.2 * LATE_SECONDS, "a bin and the offset"
            for q in (0.99, 0.999, 1.0):
                found = quantile(run.stream(name), q)
                assert found.lower <= found.estimate <= found.upper
                assert found.upper - found.lower < 0.05 * LATE_SECONDS, "the offset alone: a bin is 9% wide"
        assert run.stream("pods").track.unmeasured == unmeasured
        (domain,) = run.snapshot().domains
        assert domain.resets == 0


@pytest.mark.parametrize("step", [-0.15, 0.15])
async def test_storage_clock_that_is_set_gives_no_wrong_verdict(
    cluster: Cluster, storage_clock: StorageClock, step: float
) -> None:
    async with running(config("configmaps", "pods", objective={"threshold": "400ms"})) as run:
        await keep_writing(cluster, CONFIGMAPS, PODS, seconds=60)
        storage_clock.ahead += step
        for _ in range(10):
            await keep_writing(cluster, CONFIGMAPS, PODS, seconds=10)
            found = quantile(run.stream("pods"), 0.99)
            assert found.lower <= LATE_SECONDS <= found.upper
        assert found.upper < THRESHOLD_SECONDS
        assert run.stream("pods").track.objective.verdicts["beyond"] == 0


async def test_nothing_is_counted_in_revisions(cluster: Cluster) -> None:
    async with running(config("configmaps", "pods")) as run:
        await keep_writing(cluster, CONFIGMAPS, PODS, seconds=30)
        snapshot = run.snapshot()
        assert [domain.kind for domain in snapshot.domains] == [StorageKind.TIMESTAMP]
        assert [stream.gaps.revisions for stream in snapshot.watches] == [None, None]
        assert [one.time_travel.revisions for one in snapshot.apiservers] == [None]
        assert snapshot.domains[0].resolution is not None
