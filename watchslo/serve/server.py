"""The server: sockets, connections and certificates, in a thread of its own, so that no reader delays what measures."""

import asyncio
import errno
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import structlog
import uvicorn
import uvloop
from fastapi import FastAPI

from watchslo.config import Listen, ServerLimitsConfig
from watchslo.errors import ServeError, whereabouts
from watchslo.serve.connection import ARRIVAL_SECONDS, Visitor, least_needed
from watchslo.serve.tls import Certificate

GRACE_SECONDS = 2  # for answers under way at shutdown, which has five seconds in all
BACKLOG = 1024  # connections that may wait in the kernel
PACE_SECONDS = 0.001  # between two of them: a thousand at once would keep the interpreter from what measures
FULL_SECONDS = 0.05  # before another look for room, where every connection is being answered
EXHAUSTED_SECONDS = 0.5  # after a connection that the kernel could not give us
LOOK_SECONDS = 0.25  # between two looks at who is too slow
CERTIFICATE_SECONDS = 5.0  # between two looks at its files
ALL_ADDRESSES = {"", "::", "0.0.0.0"}  # noqa: S104 - recognised here, chosen by the user

_REMEDIES = {
    errno.EADDRINUSE: "the port is already in use; choose another one with --listen",
    errno.EACCES: "ports below 1024 need a privilege; choose another one with --listen",
    errno.EADDRNOTAVAIL: "this machine has no such address; choose another one with --listen",
}

# --- the socket ------------------------------------------------------------------------------------------------------


def listen(address: Listen) -> socket.socket:
    """An open socket: port 0 takes a free one; an empty host and `::` mean all addresses, of both families.

    Raises ServeError, which names the address and the remedy.
    """
    host, port = address
    try:
        if host in ("", "::") and socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)
        family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        why = _REMEDIES.get(error.errno or 0, f"{error.strerror}; choose another address with --listen")
        raise ServeError(f"cannot listen on {_joined(host, port)}: {why}") from error


def url(listener: socket.socket, scheme: str = "http") -> str:
    """Where a browser on this machine finds the page."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://{_joined('127.0.0.1' if host in ALL_ADDRESSES else host, port)}/"


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# --- the server ------------------------------------------------------------------------------------------------------


class Server(uvicorn.Server):
    """Serves an application on an open socket until stopped; signals are left to the process.

    Where `limits.connections` are open, who is needed least makes room for the next one.
    """

    def __init__(
        self,
        app: FastAPI,
        listener: socket.socket,
        limits: ServerLimitsConfig,
        certificate: Certificate | None = None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Visitor,
                lifespan="off",
                log_config=None,
                log_level="error",  # what strangers do wrong is not for our log
                access_log=False,
                ws="none",
                proxy_headers=False,
                server_header=False,
                headers=[("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")],
                timeout_keep_alive=round(limits.idle_timeout),
                timeout_graceful_shutdown=GRACE_SECONDS,
                h11_max_incomplete_event_size=limits.max_header,
            )
        )
        self._listener = listener
        self._limits = limits
        self._certificate = certificate
        self._arriving: dict[asyncio.Task[None], float] = {}  # in the order in which they came, and since when
        self._thread = threading.Thread(target=self._run, name="serve", daemon=True)
        self._failure: BaseException | None = None
        self._log = structlog.get_logger()

    def start(self) -> None:
        """Begins to serve, beside the caller."""
        self._thread.start()

    async def stop(self) -> None:
        """Ends it; raises what it failed of, if it did."""
        self.should_exit = True
        await asyncio.to_thread(self._thread.join)
        if self._failure:
            raise self._failure

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self.serve([self._listener]))
        except Exception as error:  # noqa: BLE001 - `stop` raises it
            self._log.error("server_failed", error=whereabouts(error))
            self._failure = error

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Instead of uvicorn's own, which accepts as many at once as there are."""
        assert sockets == [self._listener]
        await self.lifespan.startup()
        self._listener.settimeout(0)
        self.servers = []
        works = [self._accept(), self._look()]
        if self._certificate:
            works.append(self._refresh(self._certificate))
        self._works = [asyncio.create_task(work) for work in works]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        tasks = [*self._works, *self._arriving]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        for work in self._works:
            if work.done():  # by a mistake of ours
                work.result()
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    # Who comes in

    async def _accept(self) -> None:
        is_exhausted = False
        while True:
            try:
                connected = await self._accepted()
            except OSError as error:  # too many open files, most likely
                if not is_exhausted:
                    self._log.warning("accepting_failed", error=error.strerror)
                is_exhausted = True
                await asyncio.sleep(EXHAUSTED_SECONDS)
                continue
            is_exhausted = False
            await self._room(connected)
            task = asyncio.create_task(self._welcome(connected))
            self._arriving[task] = asyncio.get_running_loop().time()
            task.add_done_callback(self._arriving.pop)
            await asyncio.sleep(PACE_SECONDS)

    async def _accepted(self) -> socket.socket:
        return (await asyncio.get_running_loop().sock_accept(self._listener))[0]

    async def _room(self, connected: socket.socket) -> None:
        """Returns when what was accepted may come in."""
        try:
            while not self._has_room():  # noqa: ASYNC110 - answers end at many places
                await asyncio.sleep(FULL_SECONDS)
        except asyncio.CancelledError:
            connected.close()
            raise

    def _has_room(self) -> bool:
        """Whether another one may come in; if need be, one is dropped for it."""
        visitors = self._visitors
        if len(visitors) + len(self._arriving) < self._limits.connections:
            return True
        now = asyncio.get_running_loop().time()
        if dropped := least_needed(visitors, now, self._limits.request_timeout):
            dropped.drop()
            return True
        first, since = next(iter(self._arriving.items()), (None, now))
        if first and now - since > ARRIVAL_SECONDS:
            first.cancel()
            return True
        return False

    async def _welcome(self, connected: socket.socket) -> None:
        """Makes a connection of what was accepted; TLS has as long as a request."""
        tls: dict[str, Any] = {}
        if self._certificate:
            patience = self._limits.request_timeout
            tls = {"ssl": self._certificate.context, "ssl_handshake_timeout": patience, "ssl_shutdown_timeout": 1.0}
        try:
            with suppress(OSError):  # it went away, or does not speak TLS
                await asyncio.get_running_loop().connect_accepted_socket(self._visitor, connected, **tls)
        finally:
            connected.detach()  # uvloop has it, and may have closed it: the descriptor may be somebody else's by now

    def _visitor(self) -> Visitor:
        return Visitor(self.config, self.server_state, self.lifespan.state)

    @property
    def _visitors(self) -> list[Visitor]:
        return [visitor for visitor in self.server_state.connections if isinstance(visitor, Visitor)]

    # Who stays

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = asyncio.get_running_loop().time()
            for visitor in self._visitors:
                visitor.look(now, self._limits.request_timeout)

    async def _refresh(self, certificate: Certificate) -> None:
        """Follows the certificate; one that cannot be used is said once, and the one before it stays in force."""
        said = ""
        while True:
            await asyncio.sleep(CERTIFICATE_SECONDS)
            try:
                if certificate.refresh():
                    self._log.info("certificate_renewed")
                said = ""
            except ServeError as error:
                if str(error) != said:
                    said = str(error)
                    self._log.error("certificate_refused", message=said)
