"""Stands before everything that is answered: what is asked, with what body, and by whom."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from watchslo.errors import UnavailableError
from watchslo.serve.verdicts import Verdict

METHODS = ("GET", "HEAD")
LONGEST_BODY_BYTES = 4096  # which nobody reads
LONGEST_TOKEN_CHARACTERS = 8192
RETRY_SECONDS = 1

METRICS, ALL_ELSE = "/metrics", "/"
"""The paths that rights are asked for, whatever is read: Kubernetes lets every account `get` what is below `/api/`."""

Authorize = Callable[[str, str], Awaitable[Verdict]]
"""Whether the bearer of a token may read one of these paths; raises UnavailableError where nobody can say."""


class Gate:
    """Refuses what is no reading at all and, where `authorize` is given, who may not read.

    Only `open_paths` need no token: what is unknown is guarded, too, so that nobody learns what there is.
    """

    def __init__(self, app: ASGIApp, *, open_paths: frozenset[str], authorize: Authorize | None) -> None:
        self._app = app
        self._open_paths = open_paths
        self._authorize = authorize

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        answer = self._app if (refusal := await self._refusal(scope, headers)) is None else refusal
        await answer(scope, receive, send)

    async def _refusal(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        if scope["method"] not in METHODS:
            return _refused(HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": ", ".join(METHODS), "Connection": "close"})
        if _has_large_body(headers):
            return _refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"Connection": "close"})
        if self._authorize is None or scope["path"] in self._open_paths:
            return None
        right = METRICS if scope["path"] == METRICS else ALL_ELSE
        return await self._unauthorized(self._authorize, bearer_token(headers), right)

    async def _unauthorized(self, authorize: Authorize, token: str | None, right: str) -> JSONResponse | None:
        try:
            verdict = Verdict.UNKNOWN if token is None else await authorize(token, right)
        except UnavailableError as error:
            return unavailable(error)
        match verdict:
            case Verdict.ALLOWED:
                return None
            case Verdict.FORBIDDEN:
                return _refused(HTTPStatus.FORBIDDEN)
            case Verdict.UNKNOWN:
                return _refused(HTTPStatus.UNAUTHORIZED, {"WWW-Authenticate": "Bearer"})


async def may_go_on(authorize: Authorize | None, token: str | None) -> bool:
    """Whether somebody who was let in may still read what is not metrics; not while nobody can say.

    To be asked again and again by an answer that lasts: a right may be taken away meanwhile.
    """
    if authorize is None:
        return True
    try:
        return token is not None and await authorize(token, ALL_ELSE) is Verdict.ALLOWED
    except UnavailableError:
        return False


def bearer_token(headers: Headers) -> str | None:
    """The token of a request, if it has one that can be one."""
    said = headers.getlist("authorization")
    scheme, _, token = said[0].partition(" ") if len(said) == 1 else ("", "", "")
    token = token.strip()
    usable = token.isascii() and token.isprintable() and " " not in token
    is_bearer = scheme.lower() == "bearer" and 0 < len(token) <= LONGEST_TOKEN_CHARACTERS
    return token if usable and is_bearer else None


def unavailable(error: Exception) -> JSONResponse:
    """503, and why."""
    return JSONResponse(
        {"detail": str(error)}, HTTPStatus.SERVICE_UNAVAILABLE, headers={"Retry-After": str(RETRY_SECONDS)}
    )


def _has_large_body(headers: Headers) -> bool:
    """A chunked one does not say how large it is."""
    length = headers.get("content-length", "0")
    return "transfer-encoding" in headers or int(length) > LONGEST_BODY_BYTES


def _refused(status: HTTPStatus, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"detail": status.phrase}, status, headers=headers)
