"""Watches, over real HTTP."""

import json
import time
from datetime import datetime
from email.utils import parsedate_to_datetime

import pytest

from tests.unit.sim.api import CONFIGMAPS, Api, Simulate
from watchslo.sim import cluster, resource_server, watch_connection

EVENTS = "/api/v1/namespaces/default/events"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
CRD = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True}],
    },
}


@pytest.mark.parametrize("collection", [CONFIGMAPS, EVENTS])
@pytest.mark.parametrize("accept", ["application/json", METADATA, TABLE])
async def test_watch_resumes_and_continues_live(simulate: Simulate, collection: str, accept: str) -> None:
    api = await simulate()
    start = await api.newest()
    missed = await api.configmap("a", collection)
    watch = await api.watch(f"{collection}?watch=1&resourceVersion={start}&includeObject=None", accept)
    assert await watch.revision() == missed
    live = [await api.touch(f"{collection}/a", "1"), await api.touch(f"{collection}/a", "2")]
    await api.write("DELETE", f"{collection}/a")
    events = [await watch.event() for _ in range(3)]
    assert [kind for kind, _ in events] == ["MODIFIED", "MODIFIED", "DELETED"]
    assert [int(obj["metadata"]["resourceVersion"]) for _, obj in events] == [*live, live[-1] + 1]


async def test_only_the_first_event_of_a_table_has_columns(simulate: Simulate) -> None:
    api = await simulate()
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}", TABLE)
    await api.configmap("a")
    await api.configmap("b")
    assert [bool((await watch.event())[1]["columnDefinitions"]) for _ in "ab"] == [True, False]


async def test_watch_with_selector_adds_and_deletes(simulate: Simulate) -> None:
    api = await simulate()
    start = await api.newest()
    query = f"watch=1&resourceVersion={start}&labelSelector=app%3Dx"
    watch = await api.watch(f"{CONFIGMAPS}?{query}", METADATA)
    await api.configmap("a", app="y")
    began = await api.touch(f"{CONFIGMAPS}/a", "1", app="x")
    ceased = await api.touch(f"{CONFIGMAPS}/a", "2", app="y")
    events = [await watch.event(), await watch.event()]
    assert [kind for kind, _ in events] == ["ADDED", "DELETED"]
    assert [int(obj["metadata"]["resourceVersion"]) for _, obj in events] == [began, ceased]
    assert [obj["metadata"]["labels"]["app"] for _, obj in events] == ["x", "x"]


async def test_watch_without_a_revision_starts_with_current_objects(simulate: Simulate) -> None:
    api = await simulate()
    there = await api.configmap("a")
    await api.configmap("other", "/api/v1/namespaces/kube-system/configmaps")
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&allowWatchBookmarks=true", METADATA)
    kind, obj = await watch.event()
    assert (kind, obj["metadata"]["resourceVersion"]) == ("ADDED", str(there))
    kind, obj = await watch.event()
    assert (kind, obj["metadata"]["annotations"]) == ("BOOKMARK", {"k8s.io/initial-events-end": "true"})
    assert int(obj["metadata"]["resourceVersion"]) == await api.newest()


@pytest.mark.parametrize("resource", ["configmaps", "events"])
async def test_send_initial_events_true_or_false_is_honoured(simulate: Simulate, resource: str) -> None:
    api = await simulate()
    await api.control("objects", {"resource": resource, "count": 450})  # more than one portion
    collection = f"/api/v1/namespaces/default/{resource}"
    query = "watch=1&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents="
    streamed = await api.watch(f"{collection}?{query}true", TABLE)
    assert [(await streamed.event())[0] for _ in range(451)] == ["ADDED"] * 450 + ["BOOKMARK"]
    without = await api.watch(f"{collection}?{query}false", TABLE)
    assert await api.configmap("a", collection) == await streamed.revision() == await without.revision()


async def test_initial_events_without_the_feature_gate_answer_422(simulate: Simulate) -> None:
    api = await simulate(watch_list=False)
    query = "watch=1&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true"
    answer = await api.get(f"{CONFIGMAPS}?{query}")
    assert (answer.code, answer.json["reason"]) == (422, "Invalid")
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == ["sendInitialEvents"]


async def test_watch_at_an_unparsable_revision_answers_500(simulate: Simulate) -> None:
    api = await simulate()
    assert (await api.get(f"{CONFIGMAPS}?watch=1&resourceVersion=abc")).code == 500


@pytest.mark.parametrize("accept", ["application/json", METADATA, TABLE])
async def test_watch_below_the_window_ends_with_410(simulate: Simulate, accept: str) -> None:
    api = await simulate(window=3)
    for number in range(8):
        newest = await api.configmap(f"c{number}")
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion=5", accept)
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"too old resource version: 5 ({newest - 3})",
        "reason": "Expired",
        "code": 410,
    }
    assert await watch.event() == ("ERROR", status)
    assert await watch.line() == b""
    assert await (await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={newest - 3}", accept)).revision() > newest - 3


async def test_compaction_ends_watches_of_events_only(simulate: Simulate) -> None:
    api = await simulate()
    past = await api.newest()
    for number in range(3):
        await api.configmap(f"c{number}")
        await api.configmap(f"e{number}", EVENTS)
    await api.control("compact")
    kind, status = await (await api.watch(f"{EVENTS}?watch=1&resourceVersion={past}")).event()
    assert (kind, status["code"]) == ("ERROR", 410)
    assert await (await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={past}")).revision() == past + 1


async def test_restart_ends_watches_and_drops_windows(simulate: Simulate) -> None:
    api = await simulate(initialization=0.05)
    start = await api.newest()
    past = await api.configmap("a")
    newest = await api.configmap("b")
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={newest}&allowWatchBookmarks=true")
    await api.control("restart")
    assert await watch.rest() == []
    unready = await api.get(f"{CONFIGMAPS}?watch=1&resourceVersion={newest}")
    assert (unready.code, unready.headers["Retry-After"]) == (429, "1")
    assert unready.json["message"] == "storage is (re)initializing"
    assert (await api.get(CONFIGMAPS)).code == 429
    assert (await api.get(f"{CONFIGMAPS}?limit=1")).code == 200
    while (await api.get(CONFIGMAPS)).code == 429:
        pass
    for revision in (start, past):
        kind, status = await (await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={revision}")).event()
        assert (kind, status["code"]) == ("ERROR", 410)
    again = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={newest}")
    assert await api.configmap("c") == await again.revision()


async def test_old_version_lets_watches_wait_until_it_is_ready(simulate: Simulate) -> None:
    api = await simulate(version="1.30", initialization=0.05)
    newest = await api.configmap("a")
    await api.control("restart")
    assert (await api.get(CONFIGMAPS)).code == 200
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={newest}")
    assert await api.configmap("b") == await watch.revision()


async def test_watch_at_a_future_revision_is_silent_until_it_is_reached(simulate: Simulate) -> None:
    api = await simulate()
    newest = await api.newest()
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={newest + 2}")
    for name in "abc":
        last = await api.configmap(name)
    assert await watch.revision() == last == newest + 3


async def test_initial_events_at_a_future_revision_answer_504(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_server, "FRESH_TIMEOUT_SECONDS", 0.01)
    api = await simulate()
    query = "watch=1&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&resourceVersion=99999"
    for collection in (CONFIGMAPS, EVENTS):
        kind, status = await (await api.watch(f"{collection}?{query}")).event()
        assert (kind, status["code"], status["reason"]) == ("ERROR", 504, "Timeout")


async def test_bookmarks_are_sent_at_intervals_and_before_the_deadline(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_connection, "BOOKMARK_INTERVAL_SECONDS", 0.3)
    monkeypatch.setattr(watch_connection, "BOOKMARK_LEAD_SECONDS", 0.2)
    api = await simulate()
    query = f"watch=1&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion={await api.newest()}"
    idle = await api.watch(f"/api/v1/secrets?{query}")
    uncached = await api.watch(f"{EVENTS}?{query}")
    busy = await api.watch(f"{CONFIGMAPS}?{query}")
    await api.configmap("a")
    assert await busy.rest() == ["ADDED", "BOOKMARK", "BOOKMARK", "BOOKMARK"]
    assert await idle.rest() == []
    assert await uncached.rest() == []


async def test_streamed_list_is_soon_followed_by_a_bookmark(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_connection, "BOOKMARK_AFTER_LIST_SECONDS", 0.5)
    api = await simulate()
    query = "watch=1&allowWatchBookmarks=true&timeoutSeconds=60&resourceVersionMatch=NotOlderThan&sendInitialEvents="
    streamed, idle = [await api.watch(f"/api/v1/{one}?{query}true") for one in ("configmaps", "secrets")]
    without = await api.watch(f"{CONFIGMAPS}?{query}false")
    _, end = await streamed.event()
    newest = await api.configmap("a")
    assert (await streamed.event())[0] == "ADDED"
    kind, obj = await streamed.event()
    assert (kind, obj["metadata"]["resourceVersion"]) == ("BOOKMARK", str(newest))
    assert "annotations" in end["metadata"]
    assert "annotations" not in obj["metadata"]
    await api.control("restart", {})
    assert await without.rest() == ["ADDED"]
    assert await idle.rest() == ["BOOKMARK"]


async def test_a_consistent_read_lets_an_idle_resource_send_bookmarks(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_connection, "BOOKMARK_LEAD_SECONDS", 0.8)
    api = await simulate()
    query = f"watch=1&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion={await api.newest()}"
    newest = await api.configmap("a")
    assert await api.newest("/api/v1/secrets") == newest
    watch = await api.watch(f"/api/v1/secrets?{query}", TABLE)
    nothing_new = await api.watch(f"/api/v1/secrets?{query.rpartition('=')[0]}={newest}", TABLE)
    kind, obj = await watch.event()
    assert (kind, obj["metadata"]["resourceVersion"]) == ("BOOKMARK", str(newest))
    assert obj["rows"][0]["cells"] == ["", "", 0, "<unknown>"]
    assert await nothing_new.rest() == []


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
    assert commit + 0.05 <= send <= received
    assert truth["sends"]["stream"] == (await api.state())["resources"]["configmaps"]["streams"]


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
    assert (send - commit >= 0.3) is is_late
    assert send - commit >= 0.02


async def test_watch_and_list_are_sent_as_protobuf(simulate: Simulate) -> None:
    api = await simulate()
    accept = "application/vnd.kubernetes.protobuf"
    start = await api.newest()
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={start}", accept)
    assert watch.response.headers["Content-Type"] == f"{accept};stream=watch"
    await api.configmap("a")
    length = int.from_bytes(await watch.response.content.readexactly(4))
    frame = await watch.response.content.readexactly(length)
    assert frame.startswith(b"\x0a\x05ADDED\x12")
    assert b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12" in frame
    await api.control("faults", {"name": "expired"})
    length = int.from_bytes(await watch.response.content.readexactly(4))
    frame = await watch.response.content.readexactly(length)
    assert frame.startswith(b"\x0a\x05ERROR\x12")
    assert b"\x12\x06Status" in frame
    listed = await api.get(CONFIGMAPS, accept)
    assert listed.headers["Content-Type"] == accept
    refused = await api.get(f"{CONFIGMAPS}?resourceVersion=7a", accept)
    assert (refused.code, refused.headers["Content-Type"]) == (400, accept)


async def test_watch_of_a_slow_client_is_closed_without_an_error_event(simulate: Simulate) -> None:
    api = await simulate(backlog=100_000)
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")
    writes = 0
    while (await api.state())["resources"]["configmaps"]["streams"]:  # until the buffers of both sockets are full
        annotations = {"long": "x" * 900_000}
        await api.write("POST", CONFIGMAPS, {"metadata": {"name": f"c{writes}", "annotations": annotations}})
        writes += 1
    assert (await watch.response.content.read()).count(b"\n") == writes


async def test_watch_of_a_disconnected_client_is_removed(simulate: Simulate) -> None:
    api = await simulate()
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")
    assert len((await api.state())["resources"]["configmaps"]["streams"]) == 1
    watch.response.close()
    while (await api.state())["resources"]["configmaps"]["streams"]:
        pass


async def test_clock_offset_shifts_dates_and_timestamps(simulate: Simulate) -> None:
    api = await simulate(clock_offset=-7200.0)
    answer = await api.get(CONFIGMAPS)
    assert parsedate_to_datetime(answer.headers["Date"]).timestamp() == pytest.approx(time.time() - 7200, abs=60)
    await api.control("faults", {"name": "clock-step"})
    created = await api.write("POST", CONFIGMAPS, {"metadata": {"name": "a"}})
    stamp = datetime.fromisoformat(created.json["metadata"]["creationTimestamp"])
    for at in (parsedate_to_datetime(created.headers["Date"]), stamp):
        assert at.timestamp() == pytest.approx(time.time() - 3600, abs=60)


async def ready(api: Api, path: str) -> int:
    """Repeat the request while it answers 404 or 429; return the final code."""
    while (code := (await api.get(path)).code) in (404, 429):
        pass
    return code


async def test_custom_resource_follows_its_definition(simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_REPLACED_LINGER_SECONDS", 0.05)
    api = await simulate()
    assert (await api.get(WIDGETS)).text == "404 page not found\n"
    assert (await api.write("POST", CRDS, CRD)).code == 201
    assert await ready(api, WIDGETS) == 200
    assert (await api.get("/apis/example.com/v1")).json["resources"][0]["name"] == "widgets"
    past = await api.configmap("w1", WIDGETS)
    watch = await api.watch(f"{WIDGETS}?watch=1&resourceVersion={past}")
    schema = {"spec": {"names": {"shortNames": ["wd"]}}}
    changed = await api.write("PATCH", f"{CRDS}/widgets.example.com", schema, "application/merge-patch+json")
    assert changed.json["metadata"]["generation"] == 2
    assert (await api.get(WIDGETS)).code == 429
    assert await watch.rest() == []
    assert await ready(api, WIDGETS) == 200
    kind, status = await (await api.watch(f"{WIDGETS}?watch=1&resourceVersion={past}")).event()
    assert (kind, status["code"]) == ("ERROR", 410)
    watch = await api.watch(f"{WIDGETS}?watch=1&resourceVersion={await api.newest(WIDGETS)}")
    assert (await api.write("DELETE", f"{CRDS}/widgets.example.com")).code == 200
    assert await watch.rest() == ["DELETED"]
    assert (await api.get(WIDGETS)).text == "404 page not found\n"


async def test_definition_deleted_before_establishment_is_harmless(
    simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_ESTABLISH_SECONDS", 0.1)
    api = await simulate()
    await api.write("POST", CRDS, CRD)
    await api.write("DELETE", f"{CRDS}/widgets.example.com")
    await api.write("POST", CRDS, CRD)
    assert await ready(api, WIDGETS) == 200
    watch = await api.watch(f"{WIDGETS}?watch=1&resourceVersion={await api.newest(WIDGETS)}")
    assert await api.configmap("w1", WIDGETS) == await watch.revision()
    assert await api.configmap("w2", WIDGETS) == await watch.revision()


@pytest.mark.parametrize(("name", "code"), [("gadgets.example.com", 422), ("widgets.example.com", 400)])
async def test_invalid_definition_is_refused(simulate: Simulate, name: str, code: int) -> None:
    api = await simulate()
    spec = CRD["spec"] if code == 422 else {}
    assert (await api.write("POST", CRDS, {"metadata": {"name": name}, "spec": spec})).code == code


async def test_watch_line_is_a_json_document(simulate: Simulate) -> None:
    api = await simulate()
    watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")
    await api.configmap("a")
    line = await watch.line()
    assert line.endswith(b"}}\n")
    assert json.loads(line)["object"]["kind"] == "ConfigMap"
