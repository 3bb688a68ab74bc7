"""Every answer that is no JSON of the expected form, or too long, ends in a value."""

from collections.abc import Awaitable, Callable

import pytest

from tests.unit.kube.conftest import Known, Server, answer
from watchslo.kube.apiservers import alive, count_apiservers, read_addresses
from watchslo.kube.call import LONGEST_NOTHING_BYTES, Selectors
from watchslo.kube.client import NOT_NOTHING, Client
from watchslo.kube.discovery import Discovery
from watchslo.kube.representation import Representation
from watchslo.kube.reviews import ReviewedAccess, may, review
from watchslo.model import Reading, Resource
from watchslo.watch.failure import Failure, Reason
from watchslo.watch.messages import ListRequest

PODS = Resource("", "v1", "pods", namespaced=True)
ACCESS = ReviewedAccess("list", "", "pods")
DEEP = 20_000

BODIES = {
    "cut": b'{"metadata":{"resourceVersion":"4',
    "of another shape": b"[1, 2]",
    "not UTF-8": b'{"metadata":{"resourceVersion":"4\xff"},"items":[{"spec":{"renewTime":"\xff"}}],"gitVersion":"\xff",'
    b'"kind":"\xff","status":{"authenticated":"\xff"}}',
    "nested deeply": b'{"unknown":' + b"[" * DEEP + b"]" * DEEP + b"}",
}


async def list_page(client: Client) -> object:
    return await client.list_page(PODS, None, Selectors(), ListRequest(), Representation.TABLE)


async def list_objects(client: Client) -> object:
    plain = Representation.PLAIN
    return await client.list_page(PODS, None, Selectors(), ListRequest(), plain, with_objects=True)


REQUESTS: dict[str, Callable[[Client], Awaitable[object]]] = {
    "tick": lambda client: client.read_nothing(PODS, "default", "tick"),
    "cache probe": lambda client: client.read_cache(PODS, "default"),
    "list": list_page,
    "list with objects": list_objects,
    "version": lambda client: client.version(),
    "addresses": read_addresses,
    "leases": count_apiservers,
    "discovery": lambda client: Discovery(lambda: client).refresh(),
    "token review": lambda client: review(client, "token", "/metrics"),
    "access review": lambda client: may(client, ACCESS),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("ask", REQUESTS.values(), ids=REQUESTS)
async def test_undecodable_answer_is_garbage(
    server: Server, client: Client, ask: Callable[[Client], Awaitable[object]], body: bytes
) -> None:
    server.script = [answer(body)]
    failure = await ask(client)
    assert isinstance(failure, Failure)
    assert failure.reason is Reason.GARBAGE


@pytest.mark.parametrize(
    "date",
    [
        "Mon, 1 Jan 99999999999999999999 00:00:00 GMT",
        "Mon, 1 Jan 2026 00:00:00 +99999999",
        "yesterday",
        "\xff",
    ],
)
async def test_invalid_date_is_ignored(server: Server, client: Client, known: Known, date: str) -> None:
    server.script = [answer(b'{"metadata":{"resourceVersion":"42"}}', "200 OK", f"Date: {date}")]
    assert isinstance(await client.read_nothing(PODS, "default", "tick"), Reading)
    assert not known.dates


@pytest.mark.parametrize("times", ['"0001-01-01T00:00:00Z"', '"2026-01-01T00:00:00"', '"9999-12-31T23:59:59-12:00"'])
async def test_leases_with_any_time_are_counted_or_garbage(server: Server, client: Client, times: str) -> None:
    leases = f'{{"items":[{{"spec":{{"renewTime":{times}}}}},{{"spec":{{"renewTime":"2026-01-01T00:00:00Z"}}}}]}}'
    server.script = [answer(leases.encode())]
    found = await count_apiservers(client)
    assert found == 1 or (isinstance(found, Failure) and found.reason is Reason.GARBAGE)


def test_no_leases_are_no_apiservers() -> None:
    assert alive([]) is None


async def test_long_answer_to_a_read_of_nothing_is_garbage(server: Server, client: Client) -> None:
    """Many such reads may be under way at once, and each would keep its answer in memory."""
    server.script = [answer(b'{"metadata":{"resourceVersion":"42"},"x":"' + b"x" * LONGEST_NOTHING_BYTES + b'"}')]
    failure = await client.read_nothing(PODS, "default", "tick")
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.message) == (Reason.GARBAGE, NOT_NOTHING)
