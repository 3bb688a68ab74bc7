"""A simulated cluster with all that belongs to it, listening: as a process runs it, or a test."""

import ssl
from random import Random
from types import TracebackType
from typing import Self

from aiohttp import web

from watchslo.sim.cluster import Cluster
from watchslo.sim.control import Config, Control
from watchslo.sim.process import listen
from watchslo.sim.server import Server
from watchslo.sim.workload import Workload


class Simulation:
    """Simulates from `async with` on until its end."""

    def __init__(
        self, config: Config, seed: int, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.url = ""
        self._config = config
        self._random = Random(seed)  # noqa: S311 - chance that can be repeated
        self._host, self._port, self._tls = host, port, tls

    async def __aenter__(self) -> Self:
        """Start.

        Raises:
            ConfigError: for a configuration that cannot be simulated.
            OSError: for an address that cannot be listened on.
        """
        self._cluster = Cluster(self._config.cluster, self._random)
        self._workload = Workload(self._cluster, self._random)
        server = Server(self._cluster, self._random)
        control = Control(self._cluster, server, self._workload)
        self._runner = await listen(_application(server, control), self._host, self._port, self._tls)
        scheme, (address, *_) = "https" if self._tls else "http", self._runner.addresses
        self.url = f"{scheme}://{self._host}:{address[1]}"
        await control.start(self._config)
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._workload.stop()
        self._cluster.stop()
        await self._runner.cleanup()


def _application(server: Server, control: Control) -> web.Application:
    application = web.Application(client_max_size=LARGEST_BODY)
    application.add_routes(control.routes())
    application.router.add_route("*", "/{path:.*}", server.handle)
    application.on_response_prepare.append(server.stamp)
    return application


LARGEST_BODY = 8 << 20
"""Bytes of one object, at most."""
