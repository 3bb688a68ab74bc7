"""The HTTP server: metrics, health, status and a page, all from the newest snapshot."""

import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse

from watchslo import __version__
from watchslo.config import Listen
from watchslo.errors import ServeError
from watchslo.serve import api, page, status
from watchslo.serve import feed as feeding
from watchslo.serve.exposition import MetricsEncoder, negotiate
from watchslo.serve.feed import Feed
from watchslo.serve.rendering import Document, Renderer
from watchslo.snapshot import Snapshot

STALE_HEARTBEAT_SECONDS = 5.0  # a hundred beats missed: what still answers here measures nothing any more
GRACE_SECONDS = 2  # for answers under way at shutdown, which has five seconds in all
BACKLOG = 128
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


def url(listener: socket.socket) -> str:
    """Where a browser on this machine finds the page."""
    host, port = listener.getsockname()[:2]
    return f"http://{_joined('127.0.0.1' if host in ALL_ADDRESSES else host, port)}/"


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# --- what is answered ------------------------------------------------------------------------------------------------


def create_app(
    latest: Callable[[], Snapshot], heartbeat: Callable[[], float], metrics: MetricsEncoder, feed: Feed
) -> FastAPI:
    """The application: `latest` gives the newest snapshot, `heartbeat` the seconds since the loop last beat.

    `feed` tells what was, and what changes.
    """
    app = FastAPI(title="watchslo", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    renderer = Renderer()

    async def newest() -> Snapshot:
        return latest()

    async def scrape(request: Request) -> Response:
        form = negotiate(_header(request, "accept"), _header(request, "accept-encoding"))
        document = await renderer.render(latest(), form, lambda snapshot: metrics.encode(snapshot, form))
        return _response(document)

    async def healthz() -> PlainTextResponse:
        """Whether the event loop turns."""
        age = heartbeat()
        if age > STALE_HEARTBEAT_SECONDS:
            return PlainTextResponse(f"the last heartbeat was {age:.1f} s ago\n", 503)
        return PlainTextResponse("ok\n")

    async def readyz() -> PlainTextResponse:
        """Whether every stream that can run has started once and the clock ticks; if not, why, one reason a line."""
        reasons = latest().monitor.not_ready
        if reasons:
            return PlainTextResponse("".join(f"{reason}\n" for reason in reasons), 503)
        return PlainTextResponse("ok\n")

    async def read_status() -> Response:
        """Everything watchslo knows at this moment."""
        return _response(await renderer.render(latest(), status, status.encode))

    unready = {503: {"description": "Not so; the text says why."}}
    _route(app, "/metrics", scrape, include_in_schema=False)
    _route(app, "/healthz", healthz, responses=unready, response_class=PlainTextResponse)
    _route(app, "/readyz", readyz, responses=unready, response_class=PlainTextResponse)
    _route(app, "/api/v1/status", read_status, response_model=status.Status)
    for route in (*page.routes(newest, feed), *api.routes(feed), *feeding.routes(feed)):
        _route(app, route.path, route.endpoint, **route.documented)
    app.openapi()  # made now, because later it would hold up the loop
    return app


def _route(app: FastAPI, path: str, endpoint: Callable[..., Any], **documented: Any) -> None:
    """GET, and HEAD undocumented: the server leaves out the body."""
    app.add_api_route(path, endpoint, methods=["GET"], **documented)
    app.add_api_route(path, endpoint, methods=["HEAD"], include_in_schema=False)


def _header(request: Request, name: str) -> str:
    return ",".join(request.headers.getlist(name))


def _response(document: Document) -> Response:
    return Response(document.body, media_type=document.content_type, headers=dict(document.headers))


# --- the server ------------------------------------------------------------------------------------------------------


class Server(uvicorn.Server):
    """Serves an application on an open socket until stopped; signals are left to the process."""

    def __init__(self, app: FastAPI, listener: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="off",
                log_config=None,
                access_log=False,
                ws="none",
                proxy_headers=False,
                server_header=False,
                headers=[("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")],
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        self._listener = listener

    async def run_until_stopped(self) -> None:
        await self.serve([self._listener])

    def stop(self) -> None:
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
