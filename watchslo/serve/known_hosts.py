"""The names by which clients may address a server that listens on a loopback address only."""

import ipaddress
import socket
from collections.abc import Iterable
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send


class KnownHosts:
    """Refuses requests to other names than `localhost`, loopback addresses and `hosts`.

    A page of another site could read everything if its name resolved to this address (DNS rebinding): the browser
    takes both for the same site. A client that is no browser may leave out the name.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        names = Headers(scope=scope).getlist("host")
        if all(self._is_known(name) for name in names):
            await self._app(scope, receive, send)
            return
        detail = "This server has another name: ask 127.0.0.1, or add the name to server.hosts in its configuration."
        await JSONResponse({"detail": detail}, HTTPStatus.MISDIRECTED_REQUEST)(scope, receive, send)

    def _is_known(self, name: str) -> bool:
        try:
            host = urlsplit(f"//{name}").hostname or ""
        except ValueError:
            return False
        return not name or host == "localhost" or host in self._hosts or _is_loopback(host)


def listens_on_loopback(listener: socket.socket) -> bool:
    """Return whether only this machine can reach a listening socket."""
    return _is_loopback(listener.getsockname()[0])


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
