"""Revisions that no storage has: one of them stops neither a watch nor the clock."""

import asyncio
import json

import pytest

from tests.unit.monitor.cluster import PODS, Cluster
from tests.unit.monitor.inside import config, keep_writing, running
from watchslo.snapshot import StreamReading

LARGEST = 2**63 - 1
FAR_AHEAD = 10**12  # of a counter: as much as a busy cluster writes in years
RECOVERED_SECONDS = 60.0


def garbage(type_: str, revision: int) -> bytes:
    metadata = {"resourceVersion": str(revision), "creationTimestamp": None}
    return json.dumps({"type": type_, "object": {"metadata": metadata}}).encode() + b"\n"


def measured(stream: StreamReading) -> int:
    """Return the number of samples so far."""
    return stream.track.timespan.total


@pytest.mark.parametrize("revision", [FAR_AHEAD, LARGEST])
@pytest.mark.parametrize("type_", ["MODIFIED", "BOOKMARK"])
async def test_watch_continues_after_one_impossible_revision(cluster: Cluster, type_: str, revision: int) -> None:
    async with running(config("pods", "nodes")) as run, asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(keep_writing(cluster, PODS, seconds=200))
        await asyncio.sleep(20)
        cluster.send(PODS, garbage(type_, revision))
        await asyncio.sleep(RECOVERED_SECONDS)
        before = measured(run.stream("pods"))
        await asyncio.sleep(30)
        after = measured(run.stream("pods"))
        writing.cancel()
        assert run.stream("pods").membership == "member"
        assert after - before == pytest.approx(300, abs=60), "ten a second are written"
        assert [domain.resets for domain in run.snapshot().domains if domain.resets] == []
