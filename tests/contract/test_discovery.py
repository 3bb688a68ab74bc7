"""Discovery: the resources that an apiserver announces, and those that it serves."""

import pytest

from tests.contract.backend import Backend, real
from tests.contract.cluster import CONFIGMAPS, EVENTS, LEASES, NODES, PODS, Author, Cluster, connection
from tests.contract.watch import Event, Watch, watching
from watchslo.errors import ConfigError
from watchslo.kube.call import LIST_SECONDS
from watchslo.kube.client import Client
from watchslo.kube.discovery import Catalogue, Discovery
from watchslo.kube.limiter import Limiter
from watchslo.model import Resource
from watchslo.watch.failure import Failure
from watchslo.watch.messages import Violated

EVENTS_TWIN = Resource("events.k8s.io", "v1", "events", namespaced=True)
UNWATCHABLE = {"componentstatuses", "tokenreviews.authentication.k8s.io", "configmaps/status", "pods/status"}


async def discovered(client: Client) -> Catalogue:
    """Return the served resources without those of other tests, which may be in deletion."""
    found = await Discovery(lambda: client).refresh()
    assert isinstance(found, Catalogue), found
    return Catalogue(version for version in found.versions if not version.group.endswith(".watchslo.invalid"))


class Unaggregated(Client):
    """A client without aggregated discovery."""

    async def document(self, path: str, accept: str = "", seconds: float = LIST_SECONDS) -> bytes | Failure:  # noqa: ARG002 - the accepted type is ignored on purpose
        return await super().document(path, seconds=seconds)


async def test_version_of_backend(client: Client, backend: Backend) -> None:
    version = await client.version()
    assert isinstance(version, str)
    assert version.startswith(backend.version)


async def test_discovery_takes_two_requests(client: Client) -> None:
    await discovered(client)
    assert client.requests == {("discovery", "200"): 2}


@real("a simulated apiserver serves aggregated discovery only")
async def test_single_discovery_documents_agree_with_aggregated_ones(client: Client, cluster: Cluster) -> None:
    aggregated = await discovered(client)
    async with Unaggregated(connection(cluster.access()), Limiter(1e6), lambda *_: None) as unaggregated:
        one_by_one = await discovered(unaggregated)
        assert unaggregated.requests.total() >= 2 + len(one_by_one.versions)
    assert {version.name: set(version.offers) for version in one_by_one.versions} == {
        version.name: set(version.offers) for version in aggregated.versions
    }
    assert set(one_by_one.expand()) == set(aggregated.expand())
    assert not aggregated.incomplete
    assert not one_by_one.incomplete


async def test_star_expands_to_every_watchable_resource_once(client: Client) -> None:
    resources = (await discovered(client)).expand()
    assert {CONFIGMAPS, EVENTS, LEASES, NODES, PODS} < set(resources)
    assert EVENTS_TWIN not in resources
    assert UNWATCHABLE.isdisjoint(resource.key for resource in resources)
    assert len({resource.key for resource in resources}) == len(resources)


async def test_all_resources_of_star_can_be_watched_at_once(
    client: Client, author: Author, event_author: Author
) -> None:
    resources = (await discovered(client)).expand()
    watches = {resource: Watch(client, resource) for resource in resources}
    async with watching(*watches.values()):
        assert client.requests["list", "200"] == client.requests["watch", "200"] == len(resources)
        created = {one.resource: await one.create("object") for one in (author, event_author)}
        for resource, revision in created.items():
            await watches[resource].until_seen(revision)
    for resource, revision in created.items():
        assert Event("ADDED", revision) in watches[resource].events
    assert not any(watch.said(Violated) for watch in watches.values())


@real("in a simulated cluster, all resources can be listed and watched")
async def test_resource_names_resolve_as_in_kubectl(client: Client) -> None:
    catalogue = await discovered(client)
    assert catalogue.resolve("configmaps") == CONFIGMAPS
    assert catalogue.resolve("leases.coordination.k8s.io") == LEASES
    assert catalogue.resolve("leases.v1.coordination.k8s.io") == LEASES
    assert catalogue.resolve("events") == EVENTS
    with pytest.raises(ConfigError, match="did you mean pods"):
        catalogue.resolve("po")
    with pytest.raises(ConfigError, match="cannot be listed and watched"):
        catalogue.resolve("componentstatuses")
