"""A server of an application on a real socket, and a client of it."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import aiohttp
from starlette.types import ASGIApp

from watchslo.config.sections.server import ServerLimitsConfig
from watchslo.config.values import Listen
from watchslo.serve.server import StatusServer, listen


@asynccontextmanager
async def served(
    app: ASGIApp, address: str = "127.0.0.1", hosts: Iterable[str] = ()
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a running server that listens on an address."""
    listener = listen(Listen(address, 0))
    server = StatusServer(app, listener, ServerLimitsConfig(), hosts=hosts)
    server.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{listener.getsockname()[1]}/") as client:
            yield client
    finally:
        await server.stop()
