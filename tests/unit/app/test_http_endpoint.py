"""The parts of an HTTP endpoint that `watchslo top` does not use: queries, and servers of other kinds."""

import socket

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from watchslo.app.http_endpoint import DaemonCredentials, HttpEndpoint
from watchslo.errors import ConfigError, ConnectError


async def test_get_returns_status_and_body_and_escapes_the_query() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=422, text=request.query["query"])

    app = web.Application()
    app.router.add_get("/prefix/api/v1/query", answer)
    async with (
        TestServer(app) as server,
        HttpEndpoint(f"{server.make_url('/prefix')}/", DaemonCredentials(), "a Prometheus") as endpoint,
    ):
        asked = await endpoint.get("/api/v1/query", {"query": 'up{job=~"a+b&c"}'})
    assert asked == (422, b'up{job=~"a+b&c"}')


def test_url_error_names_the_kind_of_server() -> None:
    with pytest.raises(ConfigError, match=r"^ftp://x is not the URL of an Alertmanager; .*:9093$"):
        HttpEndpoint("ftp://x", DaemonCredentials(), "an Alertmanager")


async def test_refused_connection_names_the_program() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    async with HttpEndpoint(f"127.0.0.1:{free}", DaemonCredentials(), "a Prometheus") as endpoint:
        with pytest.raises(ConnectError, match=r"^the connection is refused; check that the Prometheus runs$"):
            await endpoint.get("/")
