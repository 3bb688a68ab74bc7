"""Every answer that is no JSON of the expected form, or too long, ends in a value."""

import pytest

from tests.unit.kube.conftest import ASKS, Known, Server, answer, failed, tick
from watchslo.kube.apiservers import count_apiservers
from watchslo.kube.client import Client
from watchslo.model import Reading
from watchslo.watch.failure import Failure, Reason

DEEP = 20_000

BODIES = {
    "cut": b'{"metadata":{"resourceVersion":"4',
    "of another shape": b"[1, 2]",
    "not UTF-8": b'{"metadata":{"resourceVersion":"4\xff"},"items":[{"spec":{"renewTime":"\xff"}}],"gitVersion":"\xff",'
    b'"kind":"\xff","status":{"authenticated":"\xff"}}',
    "nested deeply": b'{"unknown":' + b"[" * DEEP + b"]" * DEEP + b"}",
}


KINDS = (
    *("tick", "cache probe", "list", "list with objects", "version", "addresses", "leases", "discovery"),
    *("token review", "access review"),
)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("kind", KINDS)
async def test_undecodable_answer_is_garbage(server: Server, client: Client, kind: str, body: bytes) -> None:
    server.script = [answer(body)]
    assert (await failed(ASKS[kind](client))).reason is Reason.GARBAGE


@pytest.mark.parametrize(
    "date",
    [
        ["Date: Mon, 1 Jan 99999999999999999999 00:00:00 GMT"],
        ["Date: Mon, 1 Jan 2026 00:00:00 +99999999"],
        ["Date: yesterday"],
        ["Date: \xff"],
        [],
    ],
)
async def test_invalid_or_missing_date_is_ignored(
    server: Server, client: Client, known: Known, date: list[str]
) -> None:
    server.script = [answer(b'{"metadata":{"resourceVersion":"42"}}', "200 OK", *date)]
    assert isinstance(await tick(client), Reading)
    assert not known.dates


@pytest.mark.parametrize("times", ['"0001-01-01T00:00:00Z"', '"2026-01-01T00:00:00"', '"9999-12-31T23:59:59-12:00"'])
async def test_leases_with_any_time_are_counted_or_garbage(server: Server, client: Client, times: str) -> None:
    leases = f'{{"items":[{{"spec":{{"renewTime":{times}}}}},{{"spec":{{"renewTime":"2026-01-01T00:00:00Z"}}}}]}}'
    server.script = [answer(leases.encode())]
    found = await count_apiservers(client)
    assert found == 1 or (isinstance(found, Failure) and found.reason is Reason.GARBAGE)
