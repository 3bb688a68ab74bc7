"""The parts of an HTTP endpoint that `watchslo top` does not use: queries, and servers of other kinds."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from watchslo.app.http_endpoint import DaemonCredentials, HttpEndpoint
from watchslo.errors import ConfigError, ConnectError


@asynccontextmanager
async def endpoint_of(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]], **options: Any
) -> AsyncIterator[HttpEndpoint]:
    """Provide an endpoint that answers any request so."""
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with (
        TestServer(app, shutdown_timeout=0.0) as server,
        HttpEndpoint(f"{server.make_url('/prefix')}/", DaemonCredentials(), **options) as endpoint,
    ):
        yield endpoint


async def test_get_returns_status_and_body_and_escapes_the_query() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=422, text=f"{request.path} {request.query['query']}")

    async with endpoint_of(answer) as endpoint:
        asked = await endpoint.get("/api/v1/query", {"query": 'up{job=~"a+b&c"}'})
    assert asked == (422, b'/prefix/api/v1/query up{job=~"a+b&c"}')


async def test_redirect_says_where_it_leads_without_its_query() -> None:
    async def answer(_: web.Request) -> web.Response:
        raise web.HTTPFound("https://sso.test/login?state=secret#x")

    async with endpoint_of(answer) as endpoint:
        with pytest.raises(ConnectError, match=r"^it redirects to https://sso.test/login \(302\); a proxy may want"):
            await endpoint.get("/")


def test_url_error_names_the_kind_of_server() -> None:
    with pytest.raises(ConfigError, match=r"^ftp://x is not the URL of an Alertmanager; .*:9093$"):
        HttpEndpoint("ftp://x", DaemonCredentials(), "an Alertmanager")


async def test_refused_connection_names_the_program() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    async with HttpEndpoint(f"127.0.0.1:{free}", DaemonCredentials(), "a Prometheus") as endpoint:
        with pytest.raises(ConnectError, match=r"^the connection is refused; check that the Prometheus runs$"):
            await endpoint.get("/")


@pytest.mark.parametrize("size", [1000, 3, 4])
async def test_answer_without_end_is_read_until_its_mark(size: int) -> None:
    said = b'retry: 1\n\ndata: {"a": {}}\n\n'

    async def answer(request: web.Request) -> web.StreamResponse:
        endless = web.StreamResponse()
        await endless.prepare(request)
        for begin in range(0, len(said), size):
            await endless.write(said[begin : begin + size])
            await asyncio.sleep(0)
        await asyncio.sleep(60.0)
        return endless

    async with endpoint_of(answer) as endpoint:
        assert await endpoint.get("/", until=b"}\n\n") == (200, said)


async def test_slow_answer_may_have_more_time() -> None:
    async def answer(_: web.Request) -> web.Response:
        await asyncio.sleep(60.0)
        return web.Response()

    async with endpoint_of(answer, seconds=0.05) as endpoint:
        with pytest.raises(ConnectError, match=r"^no answer within 0\.05 s$"):
            await endpoint.get("/")
