"""Faults of stored revisions and watch caches, over real HTTP."""

import pytest

from tests.unit.sim.api import CONFIGMAPS, Api, Simulate
from watchslo.sim import cluster
from watchslo.sim.faults import FAULTS

EVENTS = "/api/v1/namespaces/default/events"


async def resumed(api: Api, collection: str, revision: int, seconds: int = 1) -> list[str]:
    """Return the types of the events of a short watch that resumes at a revision."""
    watch = await api.watch(f"{collection}?watch=1&timeoutSeconds={seconds}&resourceVersion={revision}")
    return await watch.rest()


async def switch(api: Api, name: str, *, on: bool = True) -> None:
    await api.control("faults", {"name": name, "on": on})


@pytest.mark.parametrize("collection", [CONFIGMAPS, EVENTS])
async def test_stale_close_fault_ends_resumed_watches_cleanly_and_empty(simulate: Simulate, collection: str) -> None:
    api = await simulate()
    revision = await api.configmap("a", collection)
    watch = await api.watch(f"{collection}?watch=1&resourceVersion={revision}")
    await switch(api, "stale-close")
    assert await watch.rest() == []
    for _ in range(2):
        assert await resumed(api, collection, revision, seconds=300) == []
    fresh = await api.watch(f"{collection}?watch=1&resourceVersion={await api.newest(collection)}")
    added = await api.configmap("b", collection)
    assert await fresh.revision() == added
    await switch(api, "stale-close", on=False)
    assert await resumed(api, collection, revision) == ["ERROR"]


async def test_short_history_fault_limits_the_window(simulate: Simulate) -> None:
    api = await simulate()
    start = await api.configmap("a")
    for serial in range(15):
        await api.touch(f"{CONFIGMAPS}/a", str(serial))
    await switch(api, "short-history")
    assert await resumed(api, CONFIGMAPS, start) == ["MODIFIED"] * 15
    for serial in range(15, 30):
        await api.touch(f"{CONFIGMAPS}/a", str(serial))
    assert await resumed(api, CONFIGMAPS, start) == ["ERROR"]
    await switch(api, "short-history", on=False)
    newest = await api.newest()
    for serial in range(30, 60):
        await api.touch(f"{CONFIGMAPS}/a", str(serial))
    assert await resumed(api, CONFIGMAPS, newest) == ["MODIFIED"] * 30


async def test_compacted_continue_token_offers_an_inconsistent_one(simulate: Simulate) -> None:
    api = await simulate()
    for name in "abc":
        await api.configmap(name)
    first = await api.get(f"{CONFIGMAPS}?limit=2")
    for serial in range(FAULTS["compacted"].window + 1):
        await api.touch(f"{CONFIGMAPS}/a", str(serial))
    await switch(api, "compacted")
    expired = await api.get(f"{CONFIGMAPS}?limit=2&continue={first.json['metadata']['continue']}")
    assert (expired.code, expired.json["reason"]) == (410, "Expired")
    rest = await api.get(f"{CONFIGMAPS}?limit=2&continue={expired.json['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in rest.json["items"]] == ["c"]
    assert rest.revision > first.revision


async def test_restored_storage_reuses_revisions_already_seen(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_RESTORE_COMMITS", 3)
    api = await simulate(initialization=0.01)
    kept = await api.configmap("a")
    for name in "bc":
        await api.configmap(name)
    seen = await api.touch(f"{CONFIGMAPS}/a", "1")
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={seen}")
    await switch(api, "restored")
    assert await watch.rest() == []
    listed = await api.served(CONFIGMAPS)
    assert [item["metadata"]["name"] for item in listed.json["items"]] == ["a"]
    assert listed.revision == kept
    silent = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={seen}")
    again = [await api.configmap(name) for name in "bcde"]
    assert again[:3] == [kept + 1, kept + 2, seen]
    assert await silent.revision() == seen + 1  # the server waits for a future revision, it does not refuse it
    await switch(api, "restored", on=False)


async def test_restore_stops_at_the_initial_revision(simulate: Simulate) -> None:
    api = await simulate(initialization=0.01, identity=False)
    initial = await api.newest("/api/v1/namespaces")
    await api.configmap("a")
    await switch(api, "restored")
    listed = await api.served(CONFIGMAPS)
    assert (listed.revision, listed.json["items"]) == (initial, [])
