"""A server on a loopback address answers only to known names; others answer to all."""

from collections.abc import Iterable

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tests.unit.serve.serving import served


async def ok(_: object) -> PlainTextResponse:
    return PlainTextResponse("ok")


async def status(address: str, host: str | None, hosts: Iterable[str] = ()) -> int:
    """Return the status of an answer of a server that listens on an address, to a request with this `Host`."""
    app = Starlette(routes=[Route("/", ok)])
    headers = {} if host is None else {"Host": host}
    async with served(app, address, hosts) as client, client.get("/", headers=headers) as answer:
        return answer.status


@pytest.mark.parametrize("host", [None, "localhost", "LOCALHOST:9477", "127.0.0.1:9477", "127.1.2.3", "[::1]:80"])
async def test_names_of_this_machine_are_answered(host: str | None) -> None:
    assert await status("127.0.0.1", host) == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9477", "localhost.evil.example", "10.0.0.1", "[", "a b"]
)
async def test_other_names_are_refused_on_loopback(host: str) -> None:
    assert await status("127.0.0.1", host) == 421


async def test_configured_names_are_answered() -> None:
    assert await status("127.0.0.1", "slo.example:443", hosts=["SLO.example"]) == 200
    assert await status("127.0.0.1", "evil.example", hosts=["slo.example"]) == 421


async def test_other_addresses_answer_to_all_names() -> None:
    assert await status("", "watchslo.monitoring.svc") == 200
