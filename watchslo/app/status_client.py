"""Reads the status of daemons over HTTP, and says why one does not answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Self

from watchslo.app.http_endpoint import DaemonCredentials, HttpAnswer, HttpReader
from watchslo.errors import ConnectError

STATUS_PATH, DETAILS_PATH = "/api/v1/status", "/api/v1/watches"
UNREADABLE = "the answer is not from a known version of watchslo; check the URL"
REFUSALS: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: "it requires a valid token; pass one with --token-file",
    HTTPStatus.FORBIDDEN: "this identity may not read the status; grant it the verb get on the path /",
    HTTPStatus.NOT_FOUND: "the server is not a watchslo daemon, or has `server.page: false`; check the URL",
}


class NotFoundError(ConnectError):
    """The server has no such path, or no such watch."""


@dataclass(frozen=True, slots=True)
class DaemonAddress:
    """The URL of a daemon, without a slash at its end; `host` is the name in its certificate if that is another one."""

    url: str
    host: str | None = None


class StatusClient:
    """Reads the status of daemons, with the same credentials for all of them; open it as a context."""

    def __init__(self, credentials: DaemonCredentials) -> None:
        """Read the credentials; raise WatchsloError if they cannot be used."""
        self._reader = HttpReader(credentials)

    async def __aenter__(self) -> Self:
        await self._reader.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._reader.__aexit__()

    async def read(
        self,
        address: DaemonAddress,
        path: str = STATUS_PATH,
        query: Mapping[str, str] | None = None,
        until: bytes | None = None,
    ) -> HttpAnswer:
        """Return the status, or another document; raise ConnectError if there is none now but may be later.

        A document without end is read until it contains `until`. A 404 raises NotFoundError.
        """
        answer = await self._reader.get(address.url + path, query, host=address.host, until=until)
        if answer.status != HTTPStatus.OK:
            error = NotFoundError if answer.status == HTTPStatus.NOT_FOUND else ConnectError
            raise error(REFUSALS.get(answer.status, f"it answers {answer.status}"))
        return answer
