"""Faults that break the guarantees of watches, over real HTTP."""

import asyncio
import time
from typing import Any

import pytest

from tests.unit.sim.api import CONFIGMAPS, Api, Simulate, Watch
from watchslo.sim import faults

EVENTS = "/api/v1/namespaces/default/events"


async def switch(api: Api, name: str, *, on: bool = True) -> None:
    await api.control("faults", {"name": name, "on": on})


async def edits(api: Api, since: float = 0.0) -> Any:
    return (await api.get(f"/sim/edits?since={since}")).json["edits"]


async def write(api: Api) -> int:
    """Write five times, which makes the events of the test below; return the revision before the first write."""
    before = await api.configmap("a") - 1
    await api.configmap("b")
    await api.touch(f"{CONFIGMAPS}/a", "1")
    await api.write("DELETE", f"{CONFIGMAPS}/b")
    await api.touch(f"{CONFIGMAPS}/a", "2")
    return before


async def received(watch: Watch, count: int, before: int) -> str:
    """Return the next lines as initials of their types with how far their revisions are above `before`."""
    lines = [await watch.event() for _ in range(count)]
    return " ".join(f"{kind[0]}{int(obj['metadata']['resourceVersion']) - before}" for kind, obj in lines)


@pytest.mark.parametrize(
    ("name", "seen", "wrong"),
    [
        ("lost-event", "A2 M3 D4 M5", 1),
        ("lost-delete", "A1 A2 M3 M5", 4),
        ("duplicate-event", "A1 A1 A2 M3 D4 M5", 1),
        ("swapped-events", "A2 A1 M3 D4 M5", 1),
        ("wrong-type", "A1 A2 A3 D4 M5", 3),
        ("early-bookmark", "B1 A1 A2 M3 D4 M5", 1),
        ("backward-bookmark", "A1 B1 B0 A2 M3 D4 M5", 0),
    ],
)
async def test_fault_edits_the_next_events_of_one_watch(simulate: Simulate, name: str, seen: str, wrong: int) -> None:
    api = await simulate()
    path = f"{CONFIGMAPS}?watch=1&allowWatchBookmarks=true&resourceVersion={await api.newest()}"
    unlucky, lucky = await api.watch(path), await api.watch(path)
    streams = (await api.state())["resources"]["configmaps"]["streams"]
    began = time.monotonic()
    await switch(api, name)
    before = await write(api)
    assert await received(unlucky, seen.count(" ") + 1, before) == seen
    assert await received(lucky, 5, before) == "A1 A2 M3 D4 M5"
    edited = await edits(api)
    (at,) = edited.pop("at")
    assert began <= at <= time.monotonic()
    assert edited == {
        "resource": ["configmaps"],
        "stream": [min(streams)],
        "fault": [name],
        "revision": [before + wrong],
    }
    assert (await edits(api, at))["revision"] == []


async def test_fault_repeats_until_it_is_switched_off(simulate: Simulate) -> None:
    name = "duplicate-event"
    api = await simulate()
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")
    await switch(api, name)
    written = [await api.configmap("a")]
    while len((await edits(api))["revision"]) < 3:
        await asyncio.sleep(faults.FAULTS[name].every / 2)
        written.append(await api.touch(f"{CONFIGMAPS}/a", str(len(written))))
    await switch(api, name, on=False)
    written.append(await api.configmap("last"))
    wrong = (await edits(api))["revision"]
    seen = [await watch.revision() for _ in range(len(written) + len(wrong))]
    assert seen == sorted([*written, *wrong])
    assert written[-1] not in wrong


async def test_switched_off_fault_edits_nothing_and_sends_what_it_withholds(simulate: Simulate) -> None:
    api = await simulate()
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")
    await switch(api, "swapped-events")
    first = await api.configmap("a")
    await switch(api, "swapped-events", on=False)
    assert await watch.revision() == first
    for name in ("lost-event", "skipped-resume"):
        await switch(api, name)
    idle = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={first}")
    for name in ("lost-event", "skipped-resume"):
        await switch(api, name, on=False)
    second = await api.configmap("b")
    assert await watch.revision() == await idle.revision() == second
    assert (await edits(api))["revision"] == []


async def test_tables_without_objects_are_withheld_from_watches(simulate: Simulate) -> None:
    api = await simulate()
    start = await api.newest()
    await switch(api, "withheld-tables")
    before = await api.configmap("a")
    table, path = "application/json;as=Table;g=meta.k8s.io;v=v1", f"{CONFIGMAPS}?watch=1&resourceVersion={start}"
    without = await api.watch(f"{path}&includeObject=None", table)
    line = asyncio.create_task(without.line())
    whole = [await api.watch(path, table), await api.watch(path)]
    after = await api.configmap("b")
    for watch in whole:
        assert [await watch.revision(), await watch.revision()] == [before, after]
    assert not line.done()
    line.cancel()


async def test_bookmark_faults_affect_only_watches_with_bookmarks(simulate: Simulate) -> None:
    api = await simulate()
    newest = await api.newest()
    without = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={newest}")
    uncached = await api.watch(f"{EVENTS}?watch=1&allowWatchBookmarks=true&resourceVersion={newest}")
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&allowWatchBookmarks=true&resourceVersion={newest}")
    await switch(api, "early-bookmark")
    added, event = await api.configmap("a"), await api.configmap("e", EVENTS)
    assert [(await without.event())[0], (await uncached.event())[0]] == ["ADDED", "ADDED"]
    assert await received(watch, 2, added) == "B0 A0"
    assert event not in (await edits(api))["revision"]


@pytest.mark.parametrize("collection", [CONFIGMAPS, EVENTS])
async def test_skipped_resume_loses_the_first_event_of_each_resumed_watch(simulate: Simulate, collection: str) -> None:
    api = await simulate()
    start = await api.newest(collection)
    await api.configmap("a", collection)
    await switch(api, "skipped-resume")
    watches = [await api.watch(f"{collection}?watch=1&resourceVersion={start + back}") for back in (0, 1)]
    fresh = await api.watch(f"{collection}?watch=1")
    for name in "bc":
        await api.configmap(name, collection)
    assert [await received(watch, 1, start) for watch in watches] == ["A2", "A3"]
    assert await received(fresh, 3, start) == "A1 A2 A3"
    edited = await edits(api)
    assert edited["revision"] == [start + 1, start + 2]
    assert edited["fault"] == ["skipped-resume"] * 2
