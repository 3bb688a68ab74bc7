"""What an apiserver says it serves, and what it serves."""

import pytest

from tests.contract.backend import Backend
from tests.contract.cluster import CONFIGMAPS, EVENTS, LEASES, NODES, PODS, Author, Cluster, connection
from tests.contract.watch import Event, Watch, watching
from watchslo.errors import ConfigError
from watchslo.kube.client import Client
from watchslo.kube.discovery import Catalogue, Discovery
from watchslo.kube.limiter import Limiter
from watchslo.model import Resource
from watchslo.watch.failure import Failure
from watchslo.watch.messages import OutOfOrder

pytestmark = pytest.mark.patient

EVENTS_TWIN = Resource("events.k8s.io", "v1", "events", namespaced=True)
UNWATCHABLE = {"componentstatuses", "tokenreviews.authentication.k8s.io", "configmaps/status", "pods/status"}


async def discovered(client: Client) -> Catalogue:
    """What is served, but for what other tests have defined, which may be on its way out."""
    found = await Discovery(lambda: client).refresh()
    assert isinstance(found, Catalogue), found
    return Catalogue(version for version in found.versions if not version.group.endswith(".watchslo.invalid"))


class OldFashioned(Client):
    """Does not know aggregated discovery."""

    async def document(self, path: str, accept: str = "") -> bytes | Failure:  # noqa: ARG002 - that is the point
        return await super().document(path)


async def test_version_is_told(client: Client, backend: Backend) -> None:
    version = await client.version()
    assert isinstance(version, str)
    assert version.startswith(backend.version)


async def test_discovery_takes_two_documents(client: Client) -> None:
    await discovered(client)
    assert client.requests == {("discovery", "200"): 2}


async def test_documents_one_by_one_say_what_the_aggregated_ones_say(client: Client, cluster: Cluster) -> None:
    aggregated = await discovered(client)
    async with OldFashioned(connection(cluster.access()), Limiter(1e6), lambda *_: None) as old_fashioned:
        one_by_one = await discovered(old_fashioned)
        assert old_fashioned.requests.total() >= 2 + len(one_by_one.versions)
    assert {version.name: set(version.offers) for version in one_by_one.versions} == {
        version.name: set(version.offers) for version in aggregated.versions
    }
    assert set(one_by_one.expand()) == set(aggregated.expand())
    assert not aggregated.stale


async def test_star_is_everything_that_can_be_listed_and_watched_but_no_twin(client: Client) -> None:
    resources = (await discovered(client)).expand()
    assert {CONFIGMAPS, EVENTS, LEASES, NODES, PODS} < set(resources)
    assert EVENTS_TWIN not in resources
    assert UNWATCHABLE.isdisjoint(resource.key for resource in resources)
    assert len({resource.key for resource in resources}) == len(resources)


async def test_everything_that_star_stands_for_can_be_watched_at_once(
    client: Client, author: Author, reporter: Author
) -> None:
    resources = (await discovered(client)).expand()
    watches = {resource: Watch(client, resource) for resource in resources}
    async with watching(*watches.values()):
        assert client.requests["list", "200"] == client.requests["watch", "200"] == len(resources)
        created = {one.resource: await one.create("object") for one in (author, reporter)}
        for resource, revision in created.items():
            await watches[resource].until_seen(revision)
    for resource, revision in created.items():
        assert Event("ADDED", revision) in watches[resource].events
    assert not any(watch.said(OutOfOrder) for watch in watches.values())


async def test_names_are_resolved_as_kubectl_takes_them(client: Client) -> None:
    catalogue = await discovered(client)
    assert catalogue.resolve("configmaps") == CONFIGMAPS
    assert catalogue.resolve("leases.coordination.k8s.io") == LEASES
    assert catalogue.resolve("leases.v1.coordination.k8s.io") == LEASES
    assert catalogue.resolve("events") == EVENTS
    with pytest.raises(ConfigError, match="did you mean pods"):
        catalogue.resolve("po")
    with pytest.raises(ConfigError, match="cannot be listed and watched"):
        catalogue.resolve("componentstatuses")
