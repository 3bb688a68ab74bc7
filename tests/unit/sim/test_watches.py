"""Watches, over real HTTP; `tests/contract` has all that apiservers have in common."""

import asyncio
import time
from datetime import datetime
from email.utils import parsedate_to_datetime

import pytest

from tests.unit.sim.api import CONFIGMAPS, RETRY_SECONDS, Simulate

EVENTS = "/api/v1/namespaces/default/events"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@pytest.mark.parametrize("resource", ["configmaps", "events"])
async def test_list_is_streamed_in_portions(simulate: Simulate, resource: str) -> None:
    api = await simulate()
    await api.control("objects", {"resource": resource, "count": 450})  # more than one portion
    collection = f"/api/v1/namespaces/default/{resource}"
    query = "watch=1&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true"
    streamed = await api.watch(f"{collection}?{query}", TABLE)
    assert [(await streamed.event())[0] for _ in range(451)] == ["ADDED"] * 450 + ["BOOKMARK"]
    assert await api.configmap("a", collection) == await streamed.revision()


async def test_bookmarks_are_sent_each_minute_and_two_seconds_before_the_deadline(simulate: Simulate) -> None:
    api = await simulate()
    query = f"watch=1&allowWatchBookmarks=true&timeoutSeconds=130&resourceVersion={await api.newest()}"
    paths = ("/api/v1/secrets", EVENTS, CONFIGMAPS)
    idle, uncached, busy = [await api.watch(f"{path}?{query}") for path in paths]
    await api.configmap("a")
    assert await busy.arrivals() == [("ADDED", 0), ("BOOKMARK", 60), ("BOOKMARK", 120), ("BOOKMARK", 128)]
    assert await idle.rest() == []
    assert await uncached.rest() == []


async def test_events_are_delayed_by_the_law_and_ground_truth_records_it(simulate: Simulate) -> None:
    api = await simulate()
    await api.control("latency", {"resource": "configmaps", "storage": "constant 20ms", "client": "constant 30ms"})
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")
    before = time.monotonic()
    revision = await api.configmap("a")
    committed_by = time.monotonic()
    assert await watch.revision() == revision
    received = time.monotonic()
    truth = (await api.get(f"/sim/truth?resource=configmaps&since={before}")).json
    assert truth["commits"]["revision"] == truth["sends"]["revision"] == [revision]
    (commit,), (send,) = truth["commits"]["at"], truth["sends"]["at"]
    assert before <= commit <= committed_by
    assert commit + 0.05 == pytest.approx(send, abs=0.003)
    assert send <= received


@pytest.mark.parametrize(
    ("accept", "is_late"),
    [
        ("application/json", True),
        ("application/vnd.kubernetes.protobuf", True),
        ("application/json;as=Table;g=meta.k8s.io;v=v1", False),
        ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", False),
    ],
)
async def test_slow_encoding_delays_whole_objects_only(simulate: Simulate, accept: str, *, is_late: bool) -> None:
    api = await simulate()
    await api.control("latency", {"resource": "configmaps", "client": "constant 20ms"})
    await api.control("faults", {"name": "slow-encoding", "law": "constant 300ms"})
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}", accept)
    before = time.monotonic()
    await api.configmap("a")
    await watch.response.content.readany()
    truth = (await api.get(f"/sim/truth?resource=configmaps&since={before}")).json
    (commit,), (send,) = truth["commits"]["at"], truth["sends"]["at"]
    assert send - commit == pytest.approx(0.3 if is_late else 0.02, abs=0.003)  # encoding and sending overlap


async def test_watch_of_a_disconnected_client_is_removed(simulate: Simulate) -> None:
    api = await simulate()
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")
    watch.response.close()
    while True:
        before = time.monotonic()
        await api.configmap(f"at-{before}")
        await asyncio.sleep(RETRY_SECONDS)
        if not (await api.get(f"/sim/truth?resource=configmaps&since={before}")).json["sends"]["revision"]:
            break


async def test_clock_offset_shifts_dates_and_timestamps(simulate: Simulate) -> None:
    api = await simulate(clock_offset=-7200.0)
    answer = await api.get(CONFIGMAPS)
    assert parsedate_to_datetime(answer.headers["Date"]).timestamp() == pytest.approx(time.time() - 7200, abs=1)
    await api.control("faults", {"name": "clock-step"})
    created = await api.write("POST", CONFIGMAPS, {"metadata": {"name": "a"}})
    stamp = datetime.fromisoformat(created.json["metadata"]["creationTimestamp"])
    for at in (parsedate_to_datetime(created.headers["Date"]), stamp):
        assert at.timestamp() == pytest.approx(time.time() - 3600, abs=1)
