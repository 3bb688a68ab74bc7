"""Refusals of an apiserver, and how watchslo classifies them."""

import time

import pytest

from tests.contract.backend import real
from tests.contract.cluster import CONFIGMAPS, NODES, SECRETS, Author, Cluster, client_of
from tests.contract.watch import EVERYTHING, Watch, now, starting
from watchslo.kube.call import Page
from watchslo.kube.client import Client
from watchslo.kube.credentials import Access
from watchslo.kube.representation import Representation
from watchslo.kube.watch_response import WatchResponse
from watchslo.model import Reading, Resource
from watchslo.watch.failure import Action, Failure, Reason
from watchslo.watch.messages import GaveUp, ListRequest, WatchRequest
from watchslo.watch.transitions import State

UNKNOWN_GROUP = Resource("nowhere.invalid", "v1", "things", namespaced=True)
UNKNOWN_RESOURCE = Resource("", "v1", "things", namespaced=True)
UNLISTABLE = Resource("authentication.k8s.io", "v1", "tokenreviews", namespaced=False)
UNWATCHABLE = Resource("", "v1", "componentstatuses", namespaced=False)
UNKNOWN_TOKEN = (("Authorization", "Bearer unknown"),)


async def listed(client: Client, resource: Resource) -> Page | Failure:
    return await client.list_page(resource, None, EVERYTHING, ListRequest(absent_name=True), Representation.TABLE)


async def watched(client: Client, resource: Resource, revision: int = 1) -> WatchResponse | Failure:
    async with client.watch(resource, None, EVERYTHING, WatchRequest(revision, 1), Representation.TABLE) as answer:
        return answer


@pytest.mark.parametrize("resource", [UNKNOWN_GROUP, UNKNOWN_RESOURCE], ids=["group", "resource"])
async def test_unserved_resource_is_not_found(client: Client, resource: Resource) -> None:
    for answer in (await listed(client, resource), await watched(client, resource)):
        assert isinstance(answer, Failure)
        assert (answer.status, answer.reason) == (404, Reason.NOT_FOUND)


async def test_unserved_path_is_refused_in_plain_text(client: Client) -> None:
    answer = await listed(client, UNKNOWN_GROUP)
    assert isinstance(answer, Failure)
    assert answer.message.endswith("It says: 404 page not found")


@real("in a simulated cluster, all resources can be listed and watched")
async def test_resource_without_the_verb_is_not_allowed(client: Client) -> None:
    for answer in (await listed(client, UNLISTABLE), await watched(client, UNWATCHABLE)):
        assert isinstance(answer, Failure)
        assert (answer.status, answer.reason) == (405, Reason.NOT_WATCHABLE)


async def test_reader_without_rights_is_forbidden(client: Client, cluster: Cluster) -> None:
    revision = await now(client)
    async with cluster.without_rights(SECRETS) as access, client_of(access) as confined:
        for answer, verb in (
            (await listed(confined, SECRETS), "list"),
            (await watched(confined, SECRETS, revision), "watch"),
        ):
            assert isinstance(answer, Failure)
            assert (answer.status, answer.reason) == (403, Reason.FORBIDDEN)
            assert f'cannot {verb} resource "secrets"' in answer.message
        assert isinstance(await listed(confined, NODES), Page)


async def test_unknown_token_is_unauthorized_and_the_next_token_is_tried(cluster: Cluster) -> None:
    access = cluster.access()
    stranger = Access(access.url, UNKNOWN_TOKEN, access.tls)
    async with client_of(stranger, access) as client:
        refused = await client.read_nothing(CONFIGMAPS, "default", "tick")
        assert isinstance(refused, Failure)
        assert (refused.status, refused.reason, refused.action) == (401, Reason.UNAUTHORIZED, Action.REAUTHENTICATE)
        assert isinstance(await client.read_nothing(CONFIGMAPS, "default", "tick"), Reading)


async def test_unknown_token_opens_no_watch(cluster: Cluster) -> None:
    access = cluster.access()
    async with client_of(Access(access.url, UNKNOWN_TOKEN, access.tls)) as stranger:
        answer = await watched(stranger, CONFIGMAPS)
    assert isinstance(answer, Failure)
    assert (answer.status, answer.reason) == (401, Reason.UNAUTHORIZED)


async def test_watch_of_an_unserved_resource_waits_for_it(client: Client) -> None:
    watch = Watch(client, UNKNOWN_GROUP)
    async with starting(watch):
        await watch.until_state(State.AWAY)
    assert {fact.failure.reason for fact in watch.said(GaveUp)} == {Reason.NOT_FOUND}


async def test_every_answer_has_the_time_of_the_apiserver(
    client: Client, dates: list[tuple[float, float, float]], any_author: Author
) -> None:
    began = int(time.time())
    await listed(client, any_author.resource)
    await listed(client, UNKNOWN_GROUP)
    await watched(client, any_author.resource, await now(client))
    assert len(dates) == client.requests.total()
    wall = time.time() - time.monotonic()  # both clocks are of this machine, and are not set during the test
    for date, sent, answered in dates:
        assert date.is_integer()
        assert began <= date <= time.time()
        assert sent + wall - 1.0 < date <= answered + wall
