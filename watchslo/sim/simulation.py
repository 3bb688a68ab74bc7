"""A simulated cluster with all that belongs to it, listening: as a process runs it, or a test."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from aiohttp import web

from watchslo.sim.cluster import Cluster
from watchslo.sim.control import Config, Control
from watchslo.sim.identity import announce
from watchslo.sim.process import listen
from watchslo.sim.server import Server
from watchslo.sim.workload import Workload

_LARGEST_BODY = 8 << 20
"""Bytes of one object, at most."""


@asynccontextmanager
async def simulated(
    config: Config, seed: int, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """The URL of a cluster that lives as long as the context.

    Raises:
        ConfigError: for a configuration that cannot be simulated.
        OSError: for an address that cannot be listened on.
    """
    random = Random(seed)  # noqa: S311 - chance that can be repeated
    cluster = Cluster(config.cluster, random)
    workload = Workload(cluster, random)
    server = Server(cluster, random)
    control = Control(cluster, server, workload)
    runner = await listen(_application(server, control), host, port, tls)
    try:
        await control.start(config)
        async with _announced(cluster) if config.cluster.identity else contextlib.nullcontext():
            yield f"{'https' if tls else 'http'}://{host}:{runner.addresses[0][1]}"
    finally:
        await workload.stop()
        cluster.stop()
        await runner.cleanup()


@asynccontextmanager
async def _announced(cluster: Cluster) -> AsyncIterator[None]:
    announcing = asyncio.create_task(announce(cluster))
    try:
        yield
    finally:
        announcing.cancel()
        await asyncio.wait([announcing])


def _application(server: Server, control: Control) -> web.Application:
    application = web.Application(client_max_size=_LARGEST_BODY)
    application.add_routes(control.routes())
    application.router.add_route("*", "/{path:.*}", server.handle)
    application.on_response_prepare.append(server.stamp)
    return application
