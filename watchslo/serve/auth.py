"""The access check of every request: its method, the size of its body, its bearer token."""

import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from watchslo.errors import UnavailableError
from watchslo.serve.admission import client_at
from watchslo.serve.auth_cache import AccessDecision

METHODS = ("GET", "HEAD")
LONGEST_BODY_BYTES = 4096  # bodies are ignored
LONGEST_TOKEN_CHARACTERS = 8192
RETRY_SECONDS = 1

METRICS, ALL_ELSE = "/metrics", "/"
"""The two paths that are authorized, whatever is read: Kubernetes lets every account `get` all paths below `/api/`."""

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, section 2.1


class Bearer(NamedTuple):
    """A token, and the address of the client that sent it."""

    token: str
    address: str


Authorize = Callable[[Bearer, str], Awaitable[AccessDecision]]
"""Decides whether a bearer may read one of these paths; raises UnavailableError if that is unknown."""


class AccessControl:
    """Middleware that refuses all methods but GET and HEAD and, with `authorize`, requests without permission.

    Only `open_paths` need no token. Unknown paths need one, too, so that the existing paths are not disclosed.
    """

    def __init__(self, app: ASGIApp, *, open_paths: frozenset[str], authorize: Authorize | None) -> None:
        self._app = app
        self._open_paths = open_paths
        self._authorize = authorize

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        refusal = await self._refusal(scope, headers)
        await (refusal or self._app)(scope, receive, send)

    async def _refusal(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        if scope["method"] not in METHODS:
            return _refused(HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": ", ".join(METHODS), "Connection": "close"})
        if _has_large_body(headers):
            return _refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"Connection": "close"})
        if self._authorize is None or scope["path"] in self._open_paths:
            return None
        authorized_path = METRICS if scope["path"] == METRICS else ALL_ELSE
        return await self._unauthorized(self._authorize, bearer(scope), authorized_path)

    async def _unauthorized(self, authorize: Authorize, sent: Bearer | None, path: str) -> JSONResponse | None:
        try:
            decision = AccessDecision.UNKNOWN if sent is None else await authorize(sent, path)
        except UnavailableError as error:
            return unavailable(error)
        match decision:
            case AccessDecision.ALLOWED:
                return None
            case AccessDecision.FORBIDDEN:
                return _refused(HTTPStatus.FORBIDDEN)
            case AccessDecision.UNKNOWN:
                return _refused(HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": "Bearer"})


async def may_continue(authorize: Authorize | None, sent: Bearer | None) -> bool:
    """Return True if a client may still read everything but metrics; False if that is unknown.

    Long answers call this repeatedly: the permission may be revoked while they last.
    """
    if authorize is None:
        return True
    try:
        return sent is not None and await authorize(sent, ALL_ELSE) is AccessDecision.ALLOWED
    except UnavailableError:
        return False


def bearer(scope: Scope) -> Bearer | None:
    """Return the token and the address of a request; None if there is no token or it is malformed."""
    values = Headers(scope=scope).getlist("authorization")
    scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    token = token.strip()
    usable = scheme.lower() == "bearer" and len(token) <= LONGEST_TOKEN_CHARACTERS and _TOKEN.fullmatch(token)
    return Bearer(token, address_of(scope)) if usable else None


def address_of(scope: Scope) -> str:
    """Return what stands for the address of a client."""
    address, _ = scope.get("client") or ("", 0)
    return client_at(address)


def unavailable(error: Exception) -> JSONResponse:
    """Return a 503 with the reason."""
    return JSONResponse(
        {"detail": str(error)}, HTTPStatus.SERVICE_UNAVAILABLE, headers={"Retry-After": str(RETRY_SECONDS)}
    )


def _has_large_body(headers: Headers) -> bool:
    """Return True for chunked bodies, too: their size is not declared."""
    length = headers.get("content-length", "0")
    return "transfer-encoding" in headers or int(length) > LONGEST_BODY_BYTES


def _refused(status: HTTPStatus, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"detail": status.phrase}, status, headers=headers)
