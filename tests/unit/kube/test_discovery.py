"""Discovery, with shortened documents of a real apiserver (1.36)."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.kube.conftest import Server, answer
from watchslo.errors import ConfigError
from watchslo.kube.client import Client
from watchslo.kube.discovery import Catalogue, Discovery, aggregated, group_versions, offers
from watchslo.model import Resource
from watchslo.watch.failure import Failure, Reason

ALL = ["create", "delete", "get", "list", "patch", "update", "watch"]
PODS = Resource("", "v1", "pods", namespaced=True)
NODES = Resource("", "v1", "nodes", namespaced=False)
EVENTS = Resource("", "v1", "events", namespaced=True)
DEPLOYMENTS = Resource("apps", "v1", "deployments", namespaced=True)
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


class TestNames:
    @pytest.mark.parametrize(
        ("name", "resource"),
        [
            ("pods", PODS),
            ("pods.v1", PODS),
            ("nodes", NODES),
            ("deployments", DEPLOYMENTS),
            ("deployments.apps", DEPLOYMENTS),
            ("deployments.v1.apps", DEPLOYMENTS),
            ("events", EVENTS),
            ("events.events.k8s.io", Resource("events.k8s.io", "v1", "events", namespaced=True)),
            ("widgets.example.com", WIDGETS),
            ("widgets.v1beta1.example.com", Resource("example.com", "v1beta1", "widgets", namespaced=True)),
            ("gadgets.example.com", Resource("example.com", "v1beta1", "gadgets", namespaced=True)),
        ],
    )
    def test_resolve(self, name: str, resource: Resource) -> None:
        assert CATALOGUE.resolve(name) == resource

    @pytest.mark.parametrize(
        ("name", "remedy"),
        [
            ("pod", "did you mean pods?"),
            ("po", "did you mean pods?"),
            ("Deployment", "did you mean deployments.apps?"),
            ("podz", "did you mean pods?"),
            ("deployments.extensions", "did you mean deployments.apps?"),
            ("widgets.v2.example.com", "did you mean widgets.example.com?"),
            ("unheardof", "look for it in `kubectl api-resources`"),
        ],
    )
    def test_unknown_name_has_a_remedy(self, name: str, remedy: str) -> None:
        with pytest.raises(ConfigError) as caught:
            CATALOGUE.resolve(name)
        assert str(caught.value) == f"the apiserver serves no resource {name}; {remedy}"

    def test_unwatchable_resource_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="cannot be listed and watched, because it only supports get, list"):
            CATALOGUE.resolve("componentstatuses")

    def test_unknown_name_may_be_in_a_stale_group(self) -> None:
        catalogue = Catalogue(aggregated(document(metrics_k8s_io=[version("v1beta1", freshness="Stale")])))
        with pytest.raises(ConfigError, match=r"it may be in metrics\.k8s\.io/v1beta1, which does not answer now"):
            catalogue.resolve("pods.metrics.k8s.io")


class TestExpansion:
    def test_every_key_can_be_set(self) -> None:
        assert [resource.key for resource in CATALOGUE.expand()] == [
            "events",
            "nodes",
            "pods",
            "deployments.apps",
            "widgets.example.com",
            "gadgets.example.com",
        ]

    def test_preferred_version(self) -> None:
        assert WIDGETS in CATALOGUE.expand()

    @pytest.mark.parametrize("name", ["events", "pods", "deployments.apps", "widgets.example.com"])
    def test_exclusion(self, name: str) -> None:
        assert {resource.key for resource in CATALOGUE.expand()} - {
            resource.key for resource in CATALOGUE.expand([name])
        } == {name}

    def test_exclusion_of_one_group_only(self) -> None:
        assert EVENTS in CATALOGUE.expand(["events.events.k8s.io"])

    def test_exclusion_of_an_unknown_name_is_ignored(self) -> None:
        assert CATALOGUE.expand(["nothing.example.com"]) == CATALOGUE.expand()

    def test_events_are_watched_once(self) -> None:
        alone = Catalogue(aggregated(GROUPS))
        assert "events.events.k8s.io" in [resource.key for resource in alone.expand()]


class Apiserver:
    """Answers the paths of discovery with `documents`, in any order."""

    def __init__(self, server: Server, client: Client) -> None:
        self._server = server
        self.discovery = Discovery(lambda: client)

    async def refresh(self, documents: Mapping[str, bytes]) -> Catalogue | Failure:
        self._server.script = [documents[path] for path in documents]
        seen = len(self._server.requests)
        result = await self.discovery.refresh()
        assert [request.split(" ")[1] for request in self._server.requests[seen:]] == list(documents)[
            : len(self._server.requests) - seen
        ]
        return result

    async def catalogue(self, documents: Mapping[str, bytes]) -> Catalogue:
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

    async def test_refresh_finds_new_and_deleted_resources(self, apiserver: Apiserver) -> None:
        before = await apiserver.catalogue({"/api": answer(CORE), "/apis": answer(document())})
        after = await apiserver.catalogue({"/api": answer(CORE), "/apis": answer(GROUPS)})
        assert WIDGETS in set(after.expand()) - set(before.expand())
        again = await apiserver.catalogue({"/api": answer(CORE), "/apis": answer(document())})
        assert again.expand() == before.expand()

    async def test_stale_group_keeps_its_resources(self, apiserver: Apiserver) -> None:
        current = groups_with(version("v1", served("widgets", "Widget")))
        stale = groups_with(version("v1", freshness="Stale"))
        await apiserver.catalogue({"/api": answer(CORE), "/apis": answer(current)})
        for _ in range(2):
            catalogue = await apiserver.catalogue({"/api": answer(CORE), "/apis": answer(stale)})
            assert WIDGETS in catalogue.expand()
            assert catalogue.stale == ("example.com/v1",)

    async def test_group_stale_from_the_start_has_no_resources(self, apiserver: Apiserver) -> None:
        stale = groups_with(version("v1", freshness="Stale"))
        catalogue = await apiserver.catalogue({"/api": answer(CORE), "/apis": answer(stale)})
        assert WIDGETS not in catalogue.expand()

    async def test_failure_keeps_the_old_catalogue(self, apiserver: Apiserver) -> None:
        old = await apiserver.catalogue({"/api": answer(CORE), "/apis": answer(GROUPS)})
        failure = await apiserver.refresh({"/api": answer(CORE), "/apis": answer(b"", "503 Unavailable")})
        assert isinstance(failure, Failure)
        assert failure.reason is Reason.SERVER_ERROR
        assert apiserver.discovery.catalogue is old

    @pytest.mark.parametrize(
        "body", [b"", b"{}", b"[]", b'{"kind":"APIGroupDiscoveryList"}', b'{"kind":"X","groups":7}']
    )
    async def test_invalid_document_is_garbage(self, apiserver: Apiserver, body: bytes) -> None:
        failure = await apiserver.refresh({"/api": answer(body)})
        assert isinstance(failure, Failure)
        assert failure.reason is Reason.GARBAGE


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
    async def test_refresh(self, apiserver: Apiserver) -> None:
        catalogue = await apiserver.catalogue(UNAGGREGATED)
        assert catalogue.expand() == [
            PODS,
            WIDGETS,
            Resource("example.com", "v1beta1", "gadgets", namespaced=True),
        ]

    async def test_group_without_an_answer_is_stale(self, apiserver: Apiserver) -> None:
        before = await apiserver.catalogue(UNAGGREGATED)
        silent = UNAGGREGATED | {"/apis/example.com/v1": answer(b"", "503 Service Unavailable")}
        catalogue = await apiserver.catalogue(silent)
        assert catalogue.expand() == before.expand()
        assert catalogue.stale == ("example.com/v1",)

    def test_preferred_version_comes_first(self) -> None:
        body = UNAGGREGATED["/apis"].partition(b"\r\n\r\n")[2]
        assert group_versions(body) == [("example.com", "v1"), ("example.com", "v1beta1")]

    def test_subresources_are_skipped(self) -> None:
        body = UNAGGREGATED["/api/v1"].partition(b"\r\n\r\n")[2]
        assert [offer.resource for offer in offers("", "v1", body)] == [PODS]
