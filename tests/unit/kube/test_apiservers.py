"""How many apiservers an address stands for, as the service `kubernetes` has it."""

import json

import pytest

from tests.unit.kube.conftest import Server, answer
from watchslo.kube.apiservers import SLICES, count_apiservers
from watchslo.kube.client import Client


def slices(*parts: tuple[str, list[list[str]] | None]) -> bytes:
    items = [
        {"addressType": kind, "endpoints": None if found is None else [{"addresses": of_one} for of_one in found]}
        for kind, found in parts
    ]
    return answer(json.dumps({"items": items}).encode())


@pytest.mark.parametrize(
    ("said", "number"),
    [
        (slices(("IPv4", [["10.0.0.1"]])), 1),
        (slices(("IPv4", [["10.0.0.1"], ["10.0.0.2"]]), ("IPv4", [["10.0.0.2"], ["10.0.0.3"]])), 3),
        (slices(("IPv4", [["10.0.0.1"]]), ("IPv6", [["::1"]])), 1),
        (slices(("IPv4", None)), None),
        (answer(b'{"items": [{}]}'), None),
        (answer(b"{}", "403 Forbidden"), None),
    ],
)
async def test_are_counted_where_they_can_be(server: Server, client: Client, said: bytes, number: int | None) -> None:
    server.script = [said]
    assert await count_apiservers(client) == number
    assert f"GET {SLICES} " in server.requests[0]
