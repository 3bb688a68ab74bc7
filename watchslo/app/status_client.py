"""Reads the status of daemons over HTTP: their addresses, the credentials for them, and why one does not answer."""

import contextlib
import errno
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import aiohttp

from watchslo.errors import ConfigError, ConnectError
from watchslo.kube.credentials import clean_token, read_text, tls_context

PATH = "/api/v1/status"
ANSWER_SECONDS = 5.0
LONGEST_BODY_BYTES = 64 * 2**20  # that of 900 watches has 8 MB
PIECE_BYTES = 2**16
UNREADABLE = "the answer is not from a known version of watchslo; check the URL"


@dataclass(frozen=True, slots=True)
class DaemonCredentials:
    """The token for daemons, and the CA that their certificates must be signed by."""

    token_file: Path | None = None
    ca_file: Path | None = None
    insecure: bool = False


NO_CREDENTIALS = DaemonCredentials()


@dataclass(frozen=True, slots=True)
class DaemonAddress:
    """The URL of a daemon, without a slash at its end; `host` is the name in its certificate if that is another one."""

    url: str
    host: str | None = None


@dataclass(frozen=True, slots=True)
class StatusAnswer:
    """The status of a daemon as it was received, and the daemon's time when it sent it, in Unix seconds."""

    body: bytes
    sent_wall: float | None


class StatusClient:
    """Reads the status of daemons, with the same credentials for all of them."""

    def __init__(self, credentials: DaemonCredentials) -> None:
        """Read the credentials; raise WatchsloError if they cannot be used."""
        self._credentials = credentials
        ca_file = str(credentials.ca_file) if credentials.ca_file else None
        self._context = tls_context(ca_file, verify=not credentials.insecure)
        self._token = ""
        self._refresh_token()

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._context), timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def read(self, address: DaemonAddress) -> StatusAnswer:
        """Return the status; raise ConnectError if there is none now but may be later."""
        self._refresh_token()
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        if address.host:
            headers["Host"] = address.host
        try:
            async with self._session.get(
                address.url + PATH, headers=headers, allow_redirects=False, server_hostname=address.host
            ) as answer:
                body = await _body(answer)
                if answer.status != HTTPStatus.OK:
                    raise ConnectError(_REFUSALS.get(answer.status, f"it answers {answer.status}"))
                return StatusAnswer(body, _date(answer))
        except (aiohttp.ClientError, OSError) as error:  # timeouts are OSErrors too
            raise ConnectError(_failure(error)) from None

    def _refresh_token(self) -> None:
        """Read the token again, because tokens are rotated. A pipe can be read only once: its token is kept."""
        if file := self._credentials.token_file:
            text = read_text(str(file))
            if text.strip() or not self._token:
                self._token = clean_token(text, str(file))


async def _body(answer: aiohttp.ClientResponse) -> bytes:
    """Return the body; raise ConnectError if it is too long."""
    pieces, size = [], 0
    async for piece in answer.content.iter_chunked(PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > LONGEST_BODY_BYTES:
            raise ConnectError(f"its answer is longer than {LONGEST_BODY_BYTES // 2**20} MiB; check the URL")
    return b"".join(pieces)


def _date(answer: aiohttp.ClientResponse) -> float | None:
    with contextlib.suppress(ValueError):
        return parsedate_to_datetime(answer.headers.get("Date", "")).timestamp()
    return None


def address_of(url: str) -> str:
    """Return scheme, host and path of a URL; `127.0.0.1:9477` means http."""
    whole = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(whole)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise ConfigError(f"{url} is not the URL of a daemon; write for example http://127.0.0.1:9477")
    if parts.username is not None or parts.query or parts.fragment:
        raise ConfigError("the URL contains more than an address; write for example http://127.0.0.1:9477")
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")


_REFUSALS: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: "it requires a valid token; pass one with --token-file",
    HTTPStatus.FORBIDDEN: "this identity may not read the status; grant it the verb get on the path /",
    HTTPStatus.NOT_FOUND: "the server is not a watchslo daemon; check the URL",
}


def _failure(error: Exception) -> str:
    match error:
        case TimeoutError():
            return f"no answer within {ANSWER_SECONDS:g} s"
        case aiohttp.ClientSSLError():
            return _untrusted(error)
        case aiohttp.ClientConnectorDNSError():
            return "its name does not resolve; check the URL"
        case aiohttp.ClientConnectorError() if error.os_error.errno == errno.ECONNREFUSED:
            return "the connection is refused; check that the daemon runs"
        case OSError(errno=int(number)):
            return f"the connection fails: {os.strerror(number).lower()}"
        case _:
            return "the connection was cut, or the server does not speak HTTP"


def _untrusted(error: aiohttp.ClientSSLError) -> str:
    cause = getattr(error, "certificate_error", None)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted ({cause.verify_message}); pass its CA with --ca-file"
    return "it does not speak TLS; write http:// instead of https://"
