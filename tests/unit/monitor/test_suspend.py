"""The machine is suspended for hours: the monotonic clock stands still, and the cluster continues."""

import asyncio

import pytest

from tests.unit.monitor.cluster import NODES, PODS, Cluster, line
from tests.unit.monitor.inside import Running, config, keep_writing, running
from watchslo.snapshot import WatchReading

BACKLOG = 300  # events while the machine is suspended


def unwell(stream: WatchReading) -> dict[str, object]:
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


def counts(stream: WatchReading) -> dict[str, int]:
    return {"sample": stream.track.timespan.total} | {k: v for k, v in stream.track.unmeasured.items() if v}


async def settle(run: Running, cluster: Cluster) -> None:
    await keep_writing(cluster, NODES, seconds=30, gap=0.5)
    assert run.snapshot().causes == ()


async def test_backlog_that_comes_some_seconds_later_is_tainted(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(config("pods", "nodes")) as run:
        await keep_writing(cluster, PODS, seconds=30)
        await asyncio.sleep(1)
        missed = [cluster.revision + number for number in range(1, BACKLOG + 1)]
        cluster.revision += BACKLOG
        monkeypatch.setattr("watchslo.monitor.tasks.lag.suspended_seconds", lambda: 0.9)
        await asyncio.sleep(3)
        for revision in missed:
            cluster.send(PODS, line("MODIFIED", revision))
        await keep_writing(cluster, PODS, seconds=30)
        await settle(run, cluster)
        assert counts(run.stream("pods")) == {"sample": 600, "tainted": BACKLOG}
        assert unwell(run.stream("pods")) == {}
