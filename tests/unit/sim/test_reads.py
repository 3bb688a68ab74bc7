"""Reads, writes and refusals, over real HTTP; `tests/contract` has all that apiservers have in common."""

import time
from typing import Any

import pytest

from tests.unit.sim.api import CONFIGMAPS, CRD, CRDS, Answer, Simulate
from watchslo.errors import ConfigError
from watchslo.sim import discovery
from watchslo.sim.cluster import CommitTimes

EVENTS = "/api/v1/namespaces/default/events"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def names(answer: Answer) -> list[str]:
    return [item["metadata"]["name"] for item in answer.json["items"]]


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("collection", [CONFIGMAPS, EVENTS])
async def test_commit_times_order_reads_and_commits(simulate: Simulate, collection: str, *, reads: bool) -> None:
    api = await simulate(commit_times=CommitTimes(offset=60.0, reads=reads))
    began = (time.time() + 60) * 1e9
    first = await api.configmap("a", collection)
    read, again = await api.newest(collection), await api.newest(collection)
    second = await api.configmap("b", collection)
    assert began < first <= read <= again < second < (time.time() + 60) * 1e9
    assert (first < read < again) if reads else (first == read == again)
    exact = await api.get(f"{collection}?resourceVersion={first}&resourceVersionMatch=Exact")
    assert (names(exact), exact.revision) == (["a"], first)


async def test_list_at_an_exact_revision_shows_the_past(simulate: Simulate) -> None:
    api = await simulate()
    past = await api.configmap("a")
    await api.configmap("b")
    for collection in (CONFIGMAPS, "/api/v1/configmaps"):
        listed = await api.get(f"{collection}?resourceVersion={past}&resourceVersionMatch=Exact")
        assert (names(listed), listed.revision) == (["a"], past)
    assert names(await api.get(f"{CONFIGMAPS}?resourceVersion={past}&limit=9")) == ["a"]
    assert names(await api.get(f"{CONFIGMAPS}?resourceVersion={past}&resourceVersionMatch=NotOlderThan")) == ["a", "b"]


async def test_etcd_answers_revisions_that_the_cache_has_dropped(simulate: Simulate) -> None:
    api = await simulate(window=2, initialization=0.0)
    for number in range(5):
        await api.configmap(f"c{number}")
    first = await api.get(f"{CONFIGMAPS}?limit=2", METADATA_LIST)
    token = first.json["metadata"]["continue"]
    assert (names(first), first.json["metadata"]["remainingItemCount"]) == (["c0", "c1"], 3)
    for number in range(5, 9):
        await api.configmap(f"c{number}")
    rest = await api.get(f"{CONFIGMAPS}?continue={token}", METADATA_LIST)
    exact = await api.get(f"{CONFIGMAPS}?resourceVersion={first.revision}&resourceVersionMatch=Exact")
    assert (names(rest), names(exact)) == (["c2", "c3", "c4"], ["c0", "c1", "c2", "c3", "c4"])


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
        ("POST", CRDS, CRD | {"metadata": {"name": "gadgets.example.com"}}, 422, "Invalid"),
        ("POST", CRDS, CRD | {"spec": {}}, 400, "BadRequest"),
        ("POST", "/api/v1/pods", {}, 405, "MethodNotAllowed"),
        ("PUT", "/api/v1/pods", {}, 405, "MethodNotAllowed"),
        ("PUT", f"{CONFIGMAPS}/there", {"metadata": {"resourceVersion": "1"}}, 409, "Conflict"),
        ("PATCH", f"{CONFIGMAPS}/there", {}, 415, "UnsupportedMediaType"),
        ("GET", f"{CONFIGMAPS}/absent", None, 404, "NotFound"),
        ("GET", "/apis/apps/v9/deployments", None, 404, "NotFound"),
        ("GET", "/api/v1/pods/a", None, 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/nodes", None, 404, "NotFound"),
        ("GET", f"{CONFIGMAPS}/there/log", None, 404, "NotFound"),
        ("GET", "/api/v1/componentstatuses?watch=1", None, 405, "MethodNotAllowed"),
        ("GET", "/apis/authentication.k8s.io/v1/tokenreviews", None, 405, "MethodNotAllowed"),
        ("GET", f"{CONFIGMAPS}?limit=abc", None, 400, "BadRequest"),
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


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("resourceVersion=99999999&limit=1", 500),
        ("resourceVersion=99999999&resourceVersionMatch=NotOlderThan&limit=1", 504),
        ("resourceVersion=abc&limit=1", 400),
    ],
)
async def test_version_1_30_refuses_pages_of_future_and_invalid_revisions(
    simulate: Simulate, query: str, code: int
) -> None:
    api = await simulate(version="1.30")
    assert (await api.get(f"{CONFIGMAPS}?{query}")).code == code


@pytest.mark.parametrize(
    ("path", "accept", "code", "text"),
    [
        ("/readyz", "", 200, "ok"),
        ("/livez", "", 200, "ok"),
        ("/healthz", "", 200, "ok"),
        ("/version", "", 200, '"gitVersion":"v1.36.3"'),
        ("/apis/apps/v1", "", 200, '"name":"deployments/status"'),
        ("/nope", "", 404, "404 page not found\n"),
        ("/apis/foo.example.com/v1/bars", "", 404, "404 page not found\n"),
        ("/apis/foo.example.com", "", 404, "404 page not found\n"),
        ("/api/v9", "", 404, "404 page not found\n"),
        ("/api", "", 200, '"versions":["v1"]'),
        ("/api", discovery.AGGREGATED.format("v2"), 200, '"metadata":{}'),
        ("/apis", discovery.AGGREGATED.format("v2") + ",application/json", 200, "APIGroupDiscoveryList"),
        ("/apis", "text/html", 406, ""),
        ("/apis/apps", "", 200, '"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}'),
    ],
)
async def test_paths_other_than_resources_are_answered(
    simulate: Simulate, path: str, accept: str, code: int, text: str
) -> None:
    api = await simulate()
    answer = await api.get(path, accept)
    assert answer.code == code
    assert text in answer.text


async def test_create_refuses_a_body_of_another_content_type(simulate: Simulate) -> None:
    api = await simulate()
    assert (await api.write("POST", CONFIGMAPS, {}, "application/yaml")).code == 415


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
