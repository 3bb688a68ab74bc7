"""Discovery, with shortened documents of a real apiserver (1.36)."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.transcripts import of_states
from tests.unit.kube.conftest import PODS, Reply, Server, answer, failed
from watchslo.errors import ConfigError
from watchslo.kube.client import Client
from watchslo.kube.discovery import (
    UNREADABLE,
    AbsentResources,
    Catalogue,
    Discovery,
    GroupVersion,
    aggregated,
    group_versions,
    with_resources,
)
from watchslo.model import Resource
from watchslo.watch.failure import Failure, Reason

ALL = ["create", "delete", "get", "list", "patch", "update", "watch"]
WIDGETS = Resource("example.com", "v1", "widgets", namespaced=True)


def served(plural: str, kind: str, *short: str, namespaced: bool = True, verbs: list[str] = ALL) -> dict[str, Any]:
    return {
        "resource": plural,
        "responseKind": {"group": "", "version": "", "kind": kind},
        "scope": "Namespaced" if namespaced else "Cluster",
        "singularResource": kind.lower(),
        "verbs": verbs,
        **({"shortNames": list(short)} if short else {}),
        "subresources": [{"subresource": "status", "verbs": ["get"]}],
    }


def version(name: str, *resources: dict[str, Any], freshness: str = "Current") -> dict[str, Any]:
    return {"version": name, "resources": list(resources), "freshness": freshness}


def document(**groups: list[dict[str, Any]]) -> bytes:
    items = [
        {"metadata": {"name": name.replace("_", ".")} if name != "core" else {}, "versions": versions}
        for name, versions in groups.items()
    ]
    return json.dumps(
        {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items}
    ).encode()


CORE = document(
    core=[
        version(
            "v1",
            served("bindings", "Binding", verbs=["create"]),
            served("componentstatuses", "ComponentStatus", "cs", namespaced=False, verbs=["get", "list"]),
            served("events", "Event", "ev"),
            served("nodes", "Node", "no", namespaced=False),
            served("pods", "Pod", "po"),
        )
    ]
)
GROUPS = document(
    apps=[version("v1", served("deployments", "Deployment", "deploy"))],
    events_k8s_io=[version("v1", served("events", "Event", "ev"))],
    example_com=[
        version("v1", served("widgets", "Widget")),
        version("v1beta1", served("widgets", "Widget"), served("gadgets", "Gadget")),
    ],
)
CATALOGUE = Catalogue([*aggregated(CORE), *aggregated(GROUPS)])


STALE = Catalogue(aggregated(document(metrics_k8s_io=[version("v1beta1", freshness="Stale")])))
NAMES = (
    *("pods", "pods.v1", "nodes", "deployments", "deployments.apps", "deployments.v1.apps", "events"),
    *("events.events.k8s.io", "widgets.example.com", "widgets.v1beta1.example.com", "gadgets.example.com"),
    *("pod", "po", "Deployment", "podz", "deployments.extensions", "widgets.v2.example.com", "unheardof"),
    "componentstatuses",
)
EXCLUDED = ("events", "pods", "deployments.apps", "widgets.example.com", "events.events.k8s.io", "nothing.example.com")


def resolved(catalogue: Catalogue, name: str) -> str:
    """Return the resource of a name, or why there is none."""
    try:
        found = catalogue.resolve(name)
    except ConfigError as error:
        return str(error)
    return f"{found.plural} of {found.group or 'core'}/{found.version}, {'' if found.namespaced else 'not '}namespaced"


def expanded(catalogue: Catalogue, *exclude: str) -> list[str]:
    return [resource.key for resource in catalogue.expand(exclude)]


def test_resolved_and_expanded_names_match_golden_file(golden: Callable[[str, str], None]) -> None:
    states = {
        **{name: [resolved(CATALOGUE, name)] for name in NAMES},
        "pods.metrics.k8s.io, whose group is stale": [resolved(STALE, "pods.metrics.k8s.io")],
        "all": expanded(CATALOGUE),
        **{f"all except {name}": expanded(CATALOGUE, name) for name in EXCLUDED},
        "all of a server with events of one group": expanded(Catalogue(aggregated(GROUPS))),
    }
    golden("kube/names.txt", of_states(states))


class Apiserver:
    """Answers the paths of discovery with `documents`; each is asked for once, until a failure."""

    def __init__(self, server: Server, client: Client) -> None:
        self._server = server
        self.discovery = Discovery(lambda: client)

    async def refresh(self, documents: Mapping[str, bytes | Reply]) -> Catalogue | Failure:
        self._server.steps = documents
        seen = len(self._server.requests)
        result = await self.discovery.refresh()
        asked = [request.split(" ")[1] for request in self._server.requests[seen:]]
        assert sorted(asked) == sorted(documents) if isinstance(result, Catalogue) else {*asked} <= {*documents}
        return result

    async def catalogue(self, documents: Mapping[str, bytes | Reply]) -> Catalogue:
        result = await self.refresh(documents)
        assert isinstance(result, Catalogue)
        return result


@pytest.fixture
def apiserver(server: Server, client: Client) -> Apiserver:
    return Apiserver(server, client)


def groups_with(widgets: dict[str, Any]) -> bytes:
    return document(apps=[version("v1", served("deployments", "Deployment"))], example_com=[widgets])


class TestRefresh:
    async def test_aggregated(self, apiserver: Apiserver, server: Server) -> None:
        catalogue = await apiserver.catalogue({"/api": answer(CORE), "/apis": answer(GROUPS)})
        assert catalogue.expand() == CATALOGUE.expand()
        assert "as=APIGroupDiscoveryList" in server.requests[0]

    async def test_stale_group_keeps_its_resources(self, apiserver: Apiserver) -> None:
        current = groups_with(version("v1", served("widgets", "Widget")))
        stale = groups_with(version("v1", freshness="Stale"))
        before = await apiserver.catalogue({"/api": answer(CORE), "/apis": answer(stale)})
        assert WIDGETS not in before.expand()
        await apiserver.catalogue({"/api": answer(CORE), "/apis": answer(current)})
        for _ in range(2):
            catalogue = await apiserver.catalogue({"/api": answer(CORE), "/apis": answer(stale)})
            assert WIDGETS in catalogue.expand()
            assert catalogue.stale == ("example.com/v1",)

    async def test_failure_keeps_the_old_catalogue(self, apiserver: Apiserver) -> None:
        old = await apiserver.catalogue({"/api": answer(CORE), "/apis": answer(GROUPS)})
        failure = await failed(apiserver.refresh({"/api": answer(CORE), "/apis": answer(b"", "503 Unavailable")}))
        assert failure.reason is Reason.SERVER_ERROR
        assert apiserver.discovery.catalogue is old

    @pytest.mark.parametrize(
        "body", [b"", b"{}", b"[]", b'{"kind":"APIGroupDiscoveryList","items":7}', b'{"kind":"X","groups":7}']
    )
    async def test_invalid_document_is_garbage(self, apiserver: Apiserver, body: bytes) -> None:
        assert (await failed(apiserver.refresh({"/api": answer(body)}))).reason is Reason.GARBAGE


class TestAbsentResources:
    """Pods and widgets are watched; the watch of widgets is closed, that of pods is open."""

    OPEN = {PODS: True, WIDGETS: False}  # noqa: RUF012 - it is not changed

    def test_watched_resource_is_gone_after_a_minute_if_its_watch_is_closed(self) -> None:
        absent, known, empty = AbsentResources(self.OPEN.copy), CATALOGUE, Catalogue(())
        for now in (0.0, 59.9):
            known = absent.kept(empty, known, now)
            assert {*known.expand()} == {PODS, WIDGETS}
            assert absent
        for now in (60.0, 3600.0):
            known = absent.kept(empty, known, now)
            assert known.expand() == [PODS]

    def test_resource_that_returns_was_never_absent(self) -> None:
        absent, empty = AbsentResources(self.OPEN.copy), Catalogue(())
        absent.kept(empty, CATALOGUE, 0.0)
        assert absent.kept(CATALOGUE, CATALOGUE, 50.0).expand() == CATALOGUE.expand()
        assert not absent
        assert WIDGETS in absent.kept(empty, CATALOGUE, 70.0).expand()

    def test_another_version_takes_the_place_at_once(self) -> None:
        absent = AbsentResources(self.OPEN.copy)
        found = Catalogue(aggregated(groups_with(version("v2", served("widgets", "Widget")))))
        kept = absent.kept(found, CATALOGUE, 0.0)
        assert kept.resolve("widgets.example.com").version == "v2"
        assert kept.resolve("widgets.v1.example.com") == WIDGETS


def listed(*resources: dict[str, Any]) -> bytes:
    return answer(json.dumps({"kind": "APIResourceList", "resources": list(resources)}).encode())


def entry(name: str, kind: str, **other: Any) -> dict[str, Any]:
    return {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": ALL, **other}


UNAGGREGATED = {
    "/api": answer(b'{"kind":"APIVersions","versions":["v1"]}'),
    "/api/v1": listed(entry("pods", "Pod", shortNames=["po"]), entry("pods/status", "Pod", verbs=["get"])),
    "/apis": answer(
        b'{"kind":"APIGroupList","groups":[{"name":"example.com","versions":[{"version":"v1beta1"},{"version":"v1"}],'
        b'"preferredVersion":{"version":"v1"}}]}'
    ),
    "/apis/example.com/v1": listed(entry("widgets", "Widget")),
    "/apis/example.com/v1beta1": listed(entry("widgets", "Widget"), entry("gadgets", "Gadget")),
}


class TestUnaggregated:
    @pytest.mark.parametrize(
        ("odd", "stale", "incomplete"),
        [
            (answer(b"", "503 Service Unavailable"), ("example.com/v1",), []),
            (answer(b'{"resources":"odd"}'), (), ["example.com"]),
        ],
        ids=["no answer", "unreadable"],
    )
    async def test_group_version_without_a_good_answer_keeps_its_resources(
        self, apiserver: Apiserver, odd: bytes, stale: tuple[str, ...], incomplete: list[str]
    ) -> None:
        before = await apiserver.catalogue(UNAGGREGATED)
        catalogue = await apiserver.catalogue(UNAGGREGATED | {"/apis/example.com/v1": odd})
        assert catalogue.expand() == before.expand()
        assert catalogue.stale == stale
        assert [group.name for group in catalogue.incomplete if group.why == UNREADABLE] == incomplete

    def test_preferred_version_comes_first(self) -> None:
        body = UNAGGREGATED["/apis"].partition(b"\r\n\r\n")[2]
        assert group_versions(body) == [GroupVersion("example.com", "v1"), GroupVersion("example.com", "v1beta1")]

    def test_subresources_are_skipped(self) -> None:
        body = UNAGGREGATED["/api/v1"].partition(b"\r\n\r\n")[2]
        assert [offer.resource for offer in with_resources(GroupVersion("", "v1"), body).offers] == [PODS]

    def test_versions_without_a_preferred_one_stay_in_their_order(self) -> None:
        entries = [{"version": "v2"}, {"version": "v1"}]
        groups = [
            {"name": "a", "versions": entries},
            {"name": "b", "versions": entries, "preferredVersion": None},
            {"name": "c", "versions": entries, "preferredVersion": {"groupVersion": "", "version": ""}},
        ]
        body = json.dumps({"kind": "APIGroupList", "groups": groups}).encode()
        assert [version.name for version in group_versions(body)] == ["a/v2", "a/v1", "b/v2", "b/v1", "c/v2", "c/v1"]


class TestNoCoreGroup:
    async def test_server_without_a_core_group_is_discovered(self, apiserver: Apiserver) -> None:
        catalogue = await apiserver.catalogue({"/api": answer(b"", "404 Not Found"), "/apis": answer(GROUPS)})
        assert catalogue.expand() == Catalogue(aggregated(GROUPS)).expand()
        assert not catalogue.incomplete

    async def test_server_without_any_group_is_none(self, apiserver: Apiserver) -> None:
        absent = {"/api": answer(b"", "404 Not Found"), "/apis": answer(b"404 page not found", "404 Not Found")}
        assert (await failed(apiserver.refresh(absent))).reason is Reason.NOT_FOUND


ODD = [
    7,
    "text",
    None,
    [],
    {},
    {"name": None, "resource": "", "version": ""},
    {"name": 4, "resource": ["a"], "version": {}, "metadata": {"name": 4}},
    {
        "name": "odd",
        "resource": "odd",
        "verbs": "get",
        "version": "v9",
        "resources": "odd",
        "metadata": {"name": "odd"},
    },
]
"""Entries of another form than that of any list of discovery, or without the name that they need."""


class TestOddDocuments:
    @pytest.mark.parametrize("verbs", [{"verbs": None}, {}, {"verbs": []}])
    def test_resource_without_verbs_is_not_watchable(self, verbs: dict[str, Any]) -> None:
        odd = {"metadata": {"name": "g"}, "versions": [{"version": "v1", "resources": [{"resource": "x"} | verbs]}]}
        body = json.dumps({"kind": "APIGroupDiscoveryList", "items": [odd]}).encode()
        catalogue = Catalogue([*aggregated(body), *aggregated(GROUPS)])
        assert catalogue.expand() == Catalogue(aggregated(GROUPS)).expand()
        assert not catalogue.incomplete
        with pytest.raises(ConfigError, match="because it supports no verb"):
            catalogue.resolve("x.g")

    def test_null_is_empty_everywhere(self) -> None:
        resource = dict.fromkeys(("scope", "verbs", "singularResource", "shortNames", "responseKind"))
        versions = [
            {"version": "v1", "resources": [{"resource": "x"} | resource], "freshness": None},
            {"version": "v2", "resources": None},
        ]
        items = [{"metadata": {"name": "g"}, "versions": versions}, {"metadata": {"name": "h"}, "versions": None}]
        found = Catalogue(aggregated(json.dumps({"items": items}).encode()))
        assert [version.name for version in found.versions] == ["g/v1", "g/v2"]
        assert not found.incomplete
        assert aggregated(b'{"items":null}') == aggregated(b"{}") == group_versions(b"{}") == []
        nulls = dict.fromkeys(("namespaced", "verbs", "kind", "singularName", "shortNames"))
        listed = with_resources(GroupVersion("g", "v1"), json.dumps({"resources": [{"name": "x"} | nulls]}).encode())
        assert not listed.unreadable
        assert [offer.resource.plural for offer in listed.offers] == ["x"]
        assert with_resources(GroupVersion("g", "v1"), b'{"resources":null}') == GroupVersion("g", "v1")

    @pytest.mark.parametrize(
        ("versions", "kept"),
        [
            ("odd", []),
            ([7], []),
            ([{"version": "v1", "resources": [served("widgets", "Widget"), 7]}], ["widgets"]),
            ([{"version": "v1", "resources": "odd"}, {"version": 2}], []),
            ([{"version": "v1", "resources": [served("a", "A") | {"verbs": "get"}, served("b", "B")]}], ["b"]),
        ],
    )
    def test_odd_group_costs_only_its_odd_entries_and_is_named(self, versions: object, kept: list[str]) -> None:
        items = [*json.loads(GROUPS)["items"], {"metadata": {"name": "odd.example.com"}, "versions": versions}]
        catalogue = Catalogue(aggregated(json.dumps({"items": items}).encode()))
        assert catalogue.expand()[: -len(kept) or None] == Catalogue(aggregated(GROUPS)).expand()
        assert [resource.plural for resource in catalogue.expand()[-len(kept) :] if kept] == kept
        assert [(group.name, group.why) for group in catalogue.incomplete] == [("odd.example.com", UNREADABLE)]

    async def test_group_without_a_name_is_not_the_core_group(self, apiserver: Apiserver) -> None:
        nameless = json.dumps({"kind": "APIGroupDiscoveryList", "items": [{"versions": json.loads(CORE)["items"]}]})
        catalogue = await apiserver.catalogue({"/api": answer(CORE), "/apis": answer(nameless.encode())})
        assert catalogue.expand() == Catalogue(aggregated(CORE)).expand()
        assert [group.name for group in catalogue.incomplete] == ["(without a readable name)"]

    async def test_odd_entry_of_the_core_group_is_named(self, apiserver: Apiserver) -> None:
        core = json.loads(CORE)
        core["items"][0]["versions"][0]["resources"].append(7)
        catalogue = await apiserver.catalogue({"/api": answer(json.dumps(core).encode()), "/apis": answer(GROUPS)})
        assert catalogue.expand() == CATALOGUE.expand()
        assert [group.name for group in catalogue.incomplete] == ["core"]

    @given(st.data())
    def test_odd_entries_anywhere_never_change_what_the_others_give(self, data: st.DataObject) -> None:
        document = json.loads(GROUPS)
        groups = document["items"]
        places = [groups, *(group["versions"] for group in groups)]
        places += [version["resources"] for group in groups for version in group["versions"]]
        for place in places:
            for entry in data.draw(st.lists(st.sampled_from(ODD), max_size=2)):
                place.insert(data.draw(st.integers(0, len(place))), entry)
        found = Catalogue(aggregated(json.dumps(document).encode()))
        ours = [version for version in found.versions if version.offers]
        assert Catalogue(ours).expand() == Catalogue(aggregated(GROUPS)).expand()

    @given(st.data())
    def test_odd_entries_in_single_documents_never_change_what_the_others_give(self, data: st.DataObject) -> None:
        groups = json.loads(UNAGGREGATED["/apis"].partition(b"\r\n\r\n")[2])
        resources = json.loads(UNAGGREGATED["/apis/example.com/v1beta1"].partition(b"\r\n\r\n")[2])
        for place in (groups["groups"], groups["groups"][0]["versions"], resources["resources"]):
            for entry in data.draw(st.lists(st.sampled_from(ODD), max_size=2)):
                place.insert(data.draw(st.integers(0, len(place))), entry)
        found = group_versions(json.dumps(groups).encode())
        assert [one.name for one in found if one.group == "example.com" and one.version in ("v1", "v1beta1")] == [
            "example.com/v1",
            "example.com/v1beta1",
        ]
        listed = with_resources(GroupVersion("g", "v1"), json.dumps(resources).encode())
        assert [offer.resource.plural for offer in listed.offers] == ["widgets", "gadgets"]
