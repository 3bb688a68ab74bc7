"""A server on a loopback address answers only to known names; others answer to all."""

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from tests.conftest import GOLDEN
from tests.support.transcripts import AsyncStep, replay_async
from tests.unit.serve.serving import served


async def ok(_: object) -> PlainTextResponse:
    return PlainTextResponse("ok")


async def begin(listener: str) -> AsyncStep:
    """Return a step that asks a server, of an address and with configured names, by a `Host`."""
    address, *hosts = listener.split()
    app = Starlette(routes=[Route("/", ok)])

    async def step(host: str) -> str:
        headers = {} if host == "nothing" else {"Host": host}
        at = "" if address == "all" else address
        async with served(app, at, hosts) as client, client.get("/", headers=headers) as answer:
            return str(answer.status)

    return step


async def test_names_are_answered_as_the_golden_file_says(golden: Callable[[str, str], None]) -> None:
    golden("known-hosts.txt", await replay_async((GOLDEN / "known-hosts.txt").read_text(), begin))
