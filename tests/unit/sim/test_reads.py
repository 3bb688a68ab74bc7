"""Lists, pages, revisions, writes and discovery, over real HTTP."""

import time
from typing import Any

import pytest

from tests.unit.sim.api import CONFIGMAPS, Answer, Simulate
from watchslo.errors import ConfigError
from watchslo.sim import discovery, resource_server
from watchslo.sim.cluster import CommitTimes

EVENTS = "/api/v1/namespaces/default/events"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def names(answer: Answer) -> list[str]:
    return [item["metadata"]["name"] for item in answer.json["items"]]


async def test_all_lists_share_one_revision(simulate: Simulate) -> None:
    api = await simulate()
    for number in range(3):
        await api.configmap(f"c{number}")
    newest = await api.configmap("e", EVENTS)
    for collection in (CONFIGMAPS, EVENTS, "/api/v1/nodes", "/api/v1/namespaces/nowhere/pods"):
        assert await api.newest(collection) == newest


async def test_second_etcd_has_its_own_revisions(simulate: Simulate) -> None:
    api = await simulate(second_etcd=["events"])
    for number in range(20):
        await api.configmap(f"c{number}")
    assert await api.configmap("e", EVENTS) == await api.newest(EVENTS) == 2
    assert await api.newest() > 20


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("collection", [CONFIGMAPS, EVENTS])
async def test_commit_times_order_reads_and_commits(simulate: Simulate, collection: str, *, reads: bool) -> None:
    api = await simulate(commit_times=CommitTimes(offset=60.0, reads=reads))
    began = time.time_ns() + 60 * 10**9
    first = await api.configmap("a", collection)
    read, again = await api.newest(collection), await api.newest(collection)
    second = await api.configmap("b", collection)
    assert began < first <= read <= again < second < time.time_ns() + 60 * 10**9
    assert (first < read < again) if reads else (first == read == again)
    exact = await api.get(f"{collection}?resourceVersion={first}&resourceVersionMatch=Exact")
    assert (names(exact), exact.revision) == (["a"], first)


async def test_list_at_any_revision_may_be_stale(simulate: Simulate) -> None:
    api = await simulate()
    secrets = "/api/v1/secrets"
    before = (await api.get(f"{secrets}?resourceVersion=0")).revision
    newest = await api.configmap("a")
    assert (await api.get(f"{secrets}?resourceVersion=0")).revision == before < newest
    assert (await api.get(f"{secrets}?resourceVersion={before}")).revision == before
    assert (await api.get(secrets)).revision == newest
    assert (await api.get(f"{secrets}?resourceVersion=0")).revision == newest


@pytest.mark.parametrize("collection", [CONFIGMAPS, EVENTS])
async def test_pages_show_one_revision(simulate: Simulate, collection: str) -> None:
    api = await simulate()
    for number in range(5):
        await api.configmap(f"c{number}", collection)
    first = await api.get(f"{collection}?limit=2", METADATA_LIST)
    token = first.json["metadata"]["continue"]
    assert (names(first), first.json["metadata"]["remainingItemCount"]) == (["c0", "c1"], 3)
    await api.configmap("c25", collection)
    second = await api.get(f"{collection}?limit=2&continue={token}", METADATA_LIST)
    last = await api.get(f"{collection}?limit=2&continue={second.json['metadata']['continue']}", METADATA_LIST)
    assert (names(second), names(last)) == (["c2", "c3"], ["c4"])
    assert first.revision == second.revision == last.revision
    assert "continue" not in last.json["metadata"]


async def test_cached_list_at_any_revision_ignores_the_limit(simulate: Simulate) -> None:
    api = await simulate()
    for number in range(5):
        await api.configmap(f"c{number}")
        await api.configmap(f"e{number}", EVENTS)
    assert len(names(await api.get(f"{CONFIGMAPS}?limit=2&resourceVersion=0"))) == 5
    assert len(names(await api.get(f"{EVENTS}?limit=2&resourceVersion=0"))) == 2


async def test_list_at_an_exact_revision_shows_the_past(simulate: Simulate) -> None:
    api = await simulate()
    past = await api.configmap("a")
    await api.configmap("b")
    for collection in (CONFIGMAPS, "/api/v1/configmaps"):
        listed = await api.get(f"{collection}?resourceVersion={past}&resourceVersionMatch=Exact")
        assert (names(listed), listed.revision) == (["a"], past)
    assert names(await api.get(f"{CONFIGMAPS}?resourceVersion={past}&limit=9")) == ["a"]
    assert names(await api.get(f"{CONFIGMAPS}?resourceVersion={past}&resourceVersionMatch=NotOlderThan")) == ["a", "b"]


async def test_compaction_drops_past_revisions_in_etcd_but_not_in_a_cache(simulate: Simulate) -> None:
    api = await simulate()
    for number in range(4):
        await api.configmap(f"c{number}")
        past = await api.configmap(f"e{number}", EVENTS)
    tokens = {
        collection: (await api.get(f"{collection}?limit=2", METADATA_LIST)).json["metadata"]["continue"]
        for collection in (CONFIGMAPS, EVENTS)
    }
    await api.configmap("c9")
    await api.control("compact")
    exact = f"resourceVersion={past}&resourceVersionMatch=Exact"
    assert (await api.get(f"{CONFIGMAPS}?{exact}")).code == 200
    assert (await api.get(f"{CONFIGMAPS}?limit=2&continue={tokens[CONFIGMAPS]}")).code == 200
    expired = await api.get(f"{EVENTS}?{exact}")
    assert (expired.code, expired.json["reason"]) == (410, "Expired")
    expired = await api.get(f"{EVENTS}?limit=2&continue={tokens[EVENTS]}")
    assert expired.code == 410
    inconsistent = await api.get(f"{EVENTS}?limit=2&continue={expired.json['metadata']['continue']}")
    assert names(inconsistent) == ["e2", "e3"]


async def test_etcd_answers_revisions_that_the_cache_has_dropped(simulate: Simulate) -> None:
    api = await simulate(window=2, initialization=0.0)
    for number in range(5):
        await api.configmap(f"c{number}")
    first = await api.get(f"{CONFIGMAPS}?limit=2", METADATA_LIST)
    token = first.json["metadata"]["continue"]
    for number in range(5, 9):
        await api.configmap(f"c{number}")
    rest = await api.get(f"{CONFIGMAPS}?continue={token}", METADATA_LIST)
    exact = await api.get(f"{CONFIGMAPS}?resourceVersion={first.revision}&resourceVersionMatch=Exact")
    assert (names(rest), names(exact)) == (["c2", "c3", "c4"], ["c0", "c1", "c2", "c3", "c4"])


@pytest.mark.parametrize(("collection", "retry"), [(CONFIGMAPS, 1), (EVENTS, None)])
async def test_list_at_a_future_revision_answers_504(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch, collection: str, retry: int | None
) -> None:
    monkeypatch.setattr(resource_server, "FRESH_TIMEOUT_SECONDS", 0.01)
    api = await simulate()
    answer = await api.get(f"{collection}?resourceVersion=99999999")
    assert (answer.code, answer.json["reason"]) == (504, "Timeout")
    assert answer.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert answer.json["details"].get("retryAfterSeconds") == retry
    assert answer.headers.get("Retry-After") == (None if retry is None else str(retry))


async def test_a_consistent_list_waits_for_its_own_cache_only(simulate: Simulate) -> None:
    api = await simulate()
    await api.control("latency", {"resource": "configmaps", "storage": "constant 60ms"})
    newest = await api.configmap("a")
    slow = [names(await api.get(f"{CONFIGMAPS}?resourceVersion=0")), names(await api.get(CONFIGMAPS))]
    assert slow == [[], ["a"]]
    assert await api.newest("/api/v1/secrets") == newest


async def test_consistent_list_falls_back_to_etcd_while_the_cache_is_frozen(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_server, "FRESH_TIMEOUT_SECONDS", 0.02)
    api = await simulate()
    await api.control("faults", {"name": "frozen-cache", "resource": "configmaps"})
    newest = await api.configmap("a")
    assert (await api.get(CONFIGMAPS)).revision == newest
    assert names(await api.get(f"{CONFIGMAPS}?resourceVersion=0")) == []
    await api.control("faults", {"name": "frozen-cache", "resource": "configmaps", "on": False})
    assert names(await api.get(f"{CONFIGMAPS}?resourceVersion=0")) == ["a"]


async def test_old_version_answers_consistent_lists_from_etcd(simulate: Simulate) -> None:
    api = await simulate(version="1.30")
    await api.control("faults", {"name": "frozen-cache"})
    past = await api.configmap("a")
    assert names(await api.get(CONFIGMAPS)) == ["a"]
    future = await api.get(f"{CONFIGMAPS}?resourceVersion=99999999&limit=1")
    assert (future.code, "future revision" in future.json["message"]) == (500, True)
    future = await api.get(f"{CONFIGMAPS}?resourceVersion=99999999&resourceVersionMatch=NotOlderThan&limit=1")
    assert (future.code, future.headers.get("Retry-After")) == (504, None)
    assert (await api.get(f"{CONFIGMAPS}?resourceVersion=abc")).code == 500
    assert (await api.get(f"{CONFIGMAPS}?resourceVersion=abc&limit=1")).code == 400
    await api.control("compact")
    await api.configmap("b")
    await api.control("compact")
    assert (await api.get(f"{CONFIGMAPS}?resourceVersion={past}&resourceVersionMatch=Exact")).code == 410


async def test_version_1_33_answers_consistent_lists_from_the_cache_but_pages_from_etcd(simulate: Simulate) -> None:
    api = await simulate(version="1.33")
    for name in "abc":
        await api.configmap(name)
    first = await api.get(f"{CONFIGMAPS}?limit=2")
    await api.control("latency", {"resource": "configmaps", "storage": "constant 0.3s"})
    newest = await api.configmap("d")
    began = time.monotonic()
    assert (await api.get(CONFIGMAPS)).revision == newest
    assert time.monotonic() - began > 0.2
    await api.control("compact")
    assert (await api.get(f"{CONFIGMAPS}?continue={first.json['metadata']['continue']}")).code == 410


async def test_objects_can_be_created_updated_patched_and_deleted(simulate: Simulate) -> None:
    api = await simulate()
    created = await api.write("POST", CONFIGMAPS, {"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}})
    assert (created.code, created.json["kind"], created.json["apiVersion"]) == (201, "ConfigMap", "v1")
    path = f"{CONFIGMAPS}/a"
    replaced = await api.write("PUT", path, {"metadata": {"name": "a"}, "data": {"k": "w"}})
    assert (replaced.json["data"], replaced.revision) == ({"k": "w"}, created.revision + 1)
    patched = await api.write("PATCH", path, {"data": {"k": None, "l": "m"}}, "application/merge-patch+json")
    assert patched.json["data"] == {"l": "m"}
    assert (await api.get(path)).json == patched.json
    deleted = await api.write("DELETE", path)
    assert (deleted.code, deleted.json["status"]) == (200, "Success")
    assert (await api.get(path)).code == 404
    assert (await api.write("DELETE", path)).code == 404


async def test_delete_returns_a_pod_and_supports_collections(simulate: Simulate) -> None:
    api = await simulate()
    pods = "/api/v1/namespaces/default/pods"
    for name in "abc":
        await api.configmap(name, pods, app=name)
    assert (await api.write("DELETE", f"{pods}/a")).json["kind"] == "Pod"
    assert names(await api.write("DELETE", f"{pods}?labelSelector=app=b")) == ["b"]
    assert names(await api.get(pods)) == ["c"]


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "reason"),
    [
        ("POST", CONFIGMAPS, {"metadata": {"name": "there"}}, 409, "AlreadyExists"),
        ("POST", "/api/v1/namespaces/nowhere/configmaps", {"metadata": {"name": "a"}}, 404, "NotFound"),
        ("POST", CONFIGMAPS, {"metadata": {}}, 422, "Invalid"),
        ("POST", CONFIGMAPS, {"kind": "Pod", "metadata": {"name": "a"}}, 400, "BadRequest"),
        ("POST", CONFIGMAPS, [], 400, "BadRequest"),
        ("POST", "/api/v1/pods", {}, 405, "MethodNotAllowed"),
        ("PUT", "/api/v1/pods", {}, 405, "MethodNotAllowed"),
        ("PUT", f"{CONFIGMAPS}/there", {"metadata": {"resourceVersion": "1"}}, 409, "Conflict"),
        ("PATCH", f"{CONFIGMAPS}/there", {}, 415, "UnsupportedMediaType"),
        ("GET", f"{CONFIGMAPS}/absent", None, 404, "NotFound"),
        ("GET", "/api/v1/gremlins", None, 404, "NotFound"),
        ("GET", "/apis/apps/v9/deployments", None, 404, "NotFound"),
        ("GET", "/api/v1/pods/a", None, 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/nodes", None, 404, "NotFound"),
        ("GET", f"{CONFIGMAPS}/there/log", None, 404, "NotFound"),
        ("GET", "/api/v1/componentstatuses?watch=1", None, 405, "MethodNotAllowed"),
        ("GET", "/apis/authentication.k8s.io/v1/tokenreviews", None, 405, "MethodNotAllowed"),
        ("GET", f"{CONFIGMAPS}?limit=abc", None, 400, "BadRequest"),
        ("GET", f"{CONFIGMAPS}?resourceVersion=abc", None, 400, "BadRequest"),
        ("GET", f"{CONFIGMAPS}?resourceVersionMatch=Exact", None, 422, "Invalid"),
    ],
)
async def test_invalid_requests_are_refused_with_status_and_reason(
    simulate: Simulate, method: str, path: str, body: Any, code: int, reason: str
) -> None:
    api = await simulate()
    await api.configmap("there")
    answer = await api.write(method, path, body)
    assert (answer.code, answer.json["kind"], answer.json["reason"]) == (code, "Status", reason)


async def test_create_refuses_a_body_of_another_content_type(simulate: Simulate) -> None:
    api = await simulate()
    assert (await api.write("POST", CONFIGMAPS, {}, "application/yaml")).code == 415


@pytest.mark.parametrize("path", ["/nope", "/apis/foo.example.com/v1/bars", "/apis/foo.example.com", "/api/v9"])
async def test_unknown_path_answers_404_in_plain_text(simulate: Simulate, path: str) -> None:
    api = await simulate()
    answer = await api.get(path)
    assert (answer.code, answer.text) == (404, "404 page not found\n")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"


async def test_health_and_version_endpoints_answer(simulate: Simulate) -> None:
    api = await simulate()
    for path in ("/readyz", "/livez", "/healthz"):
        assert (await api.get(path)).text == "ok"
    assert (await api.get("/version")).json["gitVersion"] == "v1.36.3"


async def test_aggregated_discovery_equals_stepwise_discovery(simulate: Simulate) -> None:
    api = await simulate()
    steps = {
        f"{entry['name']}.{group['name']}"
        for group in (await api.get("/apis")).json["groups"]
        for entry in (await api.get(f"/apis/{group['preferredVersion']['groupVersion']}")).json["resources"]
        if "/" not in entry["name"]
    }
    answer = await api.get("/apis", discovery.AGGREGATED.format("v2") + ",application/json")
    assert answer.headers["Content-Type"] == discovery.AGGREGATED.format("v2")
    at_once = {
        f"{entry['resource']}.{group['metadata']['name']}"
        for group in answer.json["items"]
        for version in group["versions"]
        for entry in version["resources"]
    }
    assert steps == at_once
    assert (await api.get("/api")).json["versions"] == ["v1"]
    assert (await api.get("/apis/apps")).json["preferredVersion"]["version"] == "v1"
    core = (await api.get("/api", discovery.AGGREGATED.format("v2"))).json["items"]
    assert [group["metadata"] for group in core] == [{}]
    assert (await api.get("/apis", "text/html")).code == 406


async def test_token_is_required_and_can_be_changed(simulate: Simulate) -> None:
    api = await simulate(token="first")
    assert (await api.get("/readyz")).code == 200
    assert (await api.get("/readyz", Authorization="Bearer wrong")).code == 401
    assert (await api.get("/apis")).code == 401
    assert (await api.get("/apis", Authorization="Bearer first")).code == 200
    await api.control("settings", {"token": "second"})
    assert (await api.get("/apis", Authorization="Bearer first")).code == 401
    assert (await api.get("/apis", Authorization="Bearer second")).code == 200


async def test_watch_caches_can_be_switched_on_and_off(simulate: Simulate) -> None:
    api = await simulate(watch_caches={"events": True, "configmaps": False}, initialization=0.0)
    new_events = "/apis/events.k8s.io/v1/namespaces/default/events"
    before = await api.newest(EVENTS)
    newest = await api.configmap("a")
    await api.control("compact")
    await api.control("restart")
    refusals = {}
    for collection in (EVENTS, new_events, CONFIGMAPS):
        watch = await api.watch(f"{collection}?watch=1&resourceVersion=1")
        refusals[collection] = (await watch.event())[1]["message"]
    assert before < newest
    assert refusals == {
        EVENTS: f"too old resource version: 1 ({newest})",
        new_events: f"too old resource version: 1 ({newest})",
        CONFIGMAPS: "The resourceVersion for the provided watch is too old.",
    }


async def test_watch_cache_of_an_unknown_resource_is_refused(simulate: Simulate) -> None:
    with pytest.raises(ConfigError, match="unknown resources: gadgets, widgets"):
        await simulate(watch_caches={"widgets": True, "gadgets": False})
