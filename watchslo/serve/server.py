"""The HTTP server, in a thread of its own, so that no client delays the measurement."""

import asyncio
import errno
import socket
import threading
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

import structlog
import uvicorn
import uvloop
from starlette.types import ASGIApp

from watchslo.config.sections.server import ServerLimitsConfig
from watchslo.config.values import Listen
from watchslo.errors import ServeError, error_location
from watchslo.serve.acceptor import Acceptor
from watchslo.serve.known_hosts import KnownHosts, listens_on_loopback
from watchslo.serve.tls import Certificate
from watchslo.serve.uvicorn_overrides import ClientConnection, EmbeddedServer

GRACE_SECONDS = 2  # for answers under way at shutdown, which takes five seconds at most
BACKLOG = 1024  # connections that may wait in the kernel
CERTIFICATE_SECONDS = 5.0  # between two checks of the certificate's files
ALL_ADDRESSES = {"", "::", "0.0.0.0"}  # noqa: S104 - recognised here, chosen by the user

_REMEDIES = {
    errno.EADDRINUSE: "the port is already in use; choose another one with --listen",
    errno.EACCES: "ports below 1024 need a privilege; choose another one with --listen",
    errno.EADDRNOTAVAIL: "this machine has no such address; choose another one with --listen",
}

# --- the socket ------------------------------------------------------------------------------------------------------


def listen(address: Listen) -> socket.socket:
    """Open a listening socket: port 0 takes a free port; an empty host and `::` mean all addresses of both families.

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
    """Return the URL of the page for a browser on this machine."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://{_joined('127.0.0.1' if host in ALL_ADDRESSES else host, port)}/"


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# --- the server ------------------------------------------------------------------------------------------------------


class StatusServer:
    """Serves an application on a listening socket, in a thread, until stopped.

    If `limits.connections` are open, the next one replaces the least needed connection, of the client with the most if
    it has more than its share. `hosts` are names by which clients address it if it listens on a loopback address.
    """

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        limits: ServerLimitsConfig,
        certificate: Certificate | None = None,
        hosts: Iterable[str] = (),
    ) -> None:
        config = uvicorn.Config(
            KnownHosts(app, hosts) if listens_on_loopback(listener) else app,
            http=ClientConnection,
            lifespan="off",
            log_config=None,
            log_level="error",  # errors of clients do not belong in our log
            access_log=False,
            ws="none",
            proxy_headers=False,
            server_header=False,
            headers=[("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")],
            timeout_keep_alive=round(limits.idle_timeout),
            timeout_graceful_shutdown=GRACE_SECONDS,
            h11_max_incomplete_event_size=limits.max_header,
        )
        self.uvicorn = EmbeddedServer(config, self._background)
        self.acceptor = Acceptor(self.uvicorn, listener, limits, certificate)
        self._listener = listener
        self._certificate = certificate
        self._thread = threading.Thread(target=self._run, name="serve", daemon=True)
        self._failure: BaseException | None = None
        self._log = structlog.get_logger()

    def start(self) -> None:
        """Start the thread that serves."""
        self._thread.start()

    async def stop(self) -> None:
        """Stop serving; raises the exception that ended the thread, if there was one."""
        self.uvicorn.should_exit = True
        await asyncio.to_thread(self._thread.join)
        if self._failure:
            raise self._failure

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self.uvicorn.serve([self._listener]))
        except Exception as error:  # noqa: BLE001 - `stop` raises it
            self._log.error("server_failed", error=error_location(error))
            self._failure = error

    def _background(self) -> Sequence[Coroutine[Any, Any, None]]:
        refresh = [self._refresh(self._certificate)] if self._certificate else []
        return [self.acceptor.run(), self.acceptor.serve_in_turns(), self.acceptor.enforce_timeouts(), *refresh]

    async def _refresh(self, certificate: Certificate) -> None:
        """Follow the certificate's files; an unusable pair is logged once and the previous one stays in force."""
        logged = ""
        while True:
            await asyncio.sleep(CERTIFICATE_SECONDS)
            try:
                if certificate.refresh():
                    self._log.info("certificate_renewed")
                logged = ""
            except ServeError as error:
                if str(error) != logged:
                    logged = str(error)
                    self._log.error("certificate_refused", message=logged)
