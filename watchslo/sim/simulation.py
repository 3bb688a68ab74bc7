"""Starts and stops a complete simulation: cluster, HTTP server, control API and workload."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from aiohttp import web

from watchslo.sim.cluster import Cluster
from watchslo.sim.control import ControlApi, SimConfig
from watchslo.sim.identity import renew_identity_lease
from watchslo.sim.process import listen
from watchslo.sim.server import SimServer
from watchslo.sim.workload import Workload

_MAX_BODY_BYTES = 8 << 20
"""Limit of a request body, and so of one object."""


@asynccontextmanager
async def simulated(
    config: SimConfig, seed: int, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Run a simulated cluster inside the context, and yield its URL.

    Raises:
        ConfigError: for an invalid configuration.
        OSError: if the server cannot listen on the address.
    """
    random = Random(seed)  # noqa: S311 - reproducible, not used for cryptography
    cluster = Cluster(config.cluster, random)
    workload = Workload(cluster, random)
    server = SimServer(cluster, random)
    control = ControlApi(cluster, server, workload)
    runner = await listen(_application(server, control), host, port, tls)
    try:
        await control.start(config)
        async with _identity_lease(cluster):
            yield f"{'https' if tls else 'http'}://{host}:{runner.addresses[0][1]}"
    finally:
        await workload.stop()
        cluster.stop()
        await runner.cleanup()


@asynccontextmanager
async def _identity_lease(cluster: Cluster) -> AsyncIterator[None]:
    renewing = asyncio.create_task(renew_identity_lease(cluster))
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.wait([renewing])


def _application(server: SimServer, control: ControlApi) -> web.Application:
    application = web.Application(client_max_size=_MAX_BODY_BYTES)
    application.add_routes(control.routes())
    application.router.add_route("*", "/{path:.*}", server.handle)
    application.on_response_prepare.append(server.set_headers)
    return application
