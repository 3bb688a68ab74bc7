"""Which clock dates which watch, and what the clocks tick on: everything but the cluster is real."""

import asyncio

import pytest

from tests.unit.monitor.cluster import CONFIGMAPS, PODS, Cluster, line
from tests.unit.monitor.inside import config, keep_writing, running
from watchslo.monitor.checks.auditor import Auditor


async def test_second_that_proves_a_watch_foreign_is_unmeasured(cluster: Cluster) -> None:
    """Seconds lie between the probe and that tick: no event received in them may be sealed."""
    made = config("pods", "configmaps", clock={"interval": "4s"}, mode="node")
    async with asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(keep_writing(cluster, CONFIGMAPS, seconds=1e6))
        async with running(made, start=60) as run:
            assert (run.stream("pods").domain, run.stream("pods").membership) == ("main", "member")
            cluster.revisions["pods"] = cluster.revision - 60
            cluster.send(PODS)
            for _ in range(100):
                cluster.send(PODS, line("MODIFIED", cluster.revision))
                await asyncio.sleep(0.1)
            assert run.stream("pods").domain != "main"
            await asyncio.sleep(10)
            assert run.stream("pods").track.timespan.total == 0
        writing.cancel()


async def test_restored_storage_lets_audits_forget_its_revisions(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: list[str] = []
    monkeypatch.setattr(Auditor, "forget_revisions", lambda _, watch: forgotten.append(watch.identity.label))
    async with running(config("pods", "nodes")):
        cluster.revision = 50
        await asyncio.sleep(30)
    assert forgotten == ["pods", "nodes"]
