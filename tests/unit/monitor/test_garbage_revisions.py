"""Garbage in watches, and revisions that no storage has: they stop neither a watch nor the clock."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.garbled import garbled, may_be_an_event
from tests.unit.monitor.cluster import GONE, PODS, START_REVISION, Cluster, Door, line
from tests.unit.monitor.inside import Running, config, keep_writing, running
from watchslo.config.model import Config
from watchslo.kube.call import Page
from watchslo.model import Resource
from watchslo.snapshot import WatchReading
from watchslo.watch.failure import Failure

LARGEST = 2**63 - 1
FAR_AHEAD = 10**12  # of a counter: as much as a busy cluster writes in years
RECOVERED_SECONDS = 30.0


def garbage(type_: str, revision: int) -> bytes:
    metadata = {"resourceVersion": str(revision), "creationTimestamp": None}
    return json.dumps({"type": type_, "object": {"metadata": metadata}}).encode() + b"\n"


def measured(stream: WatchReading) -> int:
    """Return the number of samples so far."""
    return stream.track.timespan.total


async def check_recovered(run: Running) -> tuple[WatchReading, WatchReading]:
    """Check that the watch of pods is measured again; return its readings before and after ten seconds."""
    await asyncio.sleep(RECOVERED_SECONDS)
    before = run.stream("pods")
    await asyncio.sleep(10)
    after = run.stream("pods")
    assert after.membership == "member"
    assert measured(after) - measured(before) == pytest.approx(100, abs=20), "ten a second are written"
    check_no_reset(run)
    return before, after


def check_no_reset(run: Running) -> None:
    assert [domain.resets for domain in run.snapshot().domains if domain.resets] == []


@pytest.mark.parametrize("revision", [FAR_AHEAD, LARGEST])
@pytest.mark.parametrize("type_", ["MODIFIED", "BOOKMARK"])
async def test_watch_continues_after_one_impossible_revision(cluster: Cluster, type_: str, revision: int) -> None:
    async with running(config("pods", "nodes")) as run, asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(keep_writing(cluster, PODS, seconds=200))
        await asyncio.sleep(20)
        cluster.send(PODS, garbage(type_, revision))
        await check_recovered(run)
        writing.cancel()


@pytest.mark.parametrize("strategy", ["tail", "paged", "parallel"])
@pytest.mark.parametrize("later", [False, True], ids=["first", "later"])
async def test_watch_starts_over_after_a_list_of_a_revision_far_ahead(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, strategy: str, *, later: bool
) -> None:
    cluster.catches_up = True
    answered, left = Door.list_page, [] if later else [FAR_AHEAD]

    async def list_page(door: Door, resource: Resource, *arguments: Any, **options: Any) -> Page | Failure:
        page = await answered(door, resource, *arguments, **options)
        assert isinstance(page, Page)
        return replace(page, revision=left.pop()) if left and resource == PODS else page

    monkeypatch.setattr(Door, "list_page", list_page)
    watches = [{"resource": "pods", "list": strategy}, {"resource": "nodes"}]
    async with running(Config.model_validate({"watch": watches})) as run, asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(keep_writing(cluster, PODS, seconds=200))
        if later:
            left.append(FAR_AHEAD)
            cluster.send(PODS, GONE)
        before, after = await check_recovered(run)
        writing.cancel()
        assert not left
        assert after.guarantees.violations == before.guarantees.violations


@settings(
    max_examples=6,
    phases=[Phase.explicit, Phase.generate],  # to shrink the lines would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(lines=st.lists(garbled(line("MODIFIED", START_REVISION).rstrip()), min_size=20, max_size=20))
async def test_garbled_lines_are_neither_late_nor_violations(cluster: Cluster, lines: list[bytes]) -> None:
    """The deliveries of two apiservers are compared, and one of them sends such lines."""
    cluster.announce("10.0.0.1", "10.0.0.2")
    addresses = ["https://10.0.0.1", "https://10.0.0.2"]
    async with running(config("pods", kubernetes={"apiservers": addresses})) as run:
        await keep_writing(cluster, PODS, seconds=5)
        for bad in lines:
            if b"\n" not in bad and not may_be_an_event(bad):
                cluster.open_watches(PODS)[1].send(bad + b"\n")
            await keep_writing(cluster, PODS, seconds=0.5)
        await keep_writing(cluster, PODS, seconds=10)
        for stream in run.snapshot().watches:
            assert stream.membership == "member"
            assert not any(stream.guarantees.violations.values())
            assert measured(stream) >= 143
            assert stream.track.objective.verdicts["beyond"] == 0
        check_no_reset(run)
