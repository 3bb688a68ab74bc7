"""Reads documents of an HTTP server that is no apiserver: a daemon, a Prometheus or an Alertmanager."""

import contextlib
import errno
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import aiohttp

from watchslo.errors import ConfigError, ConnectError
from watchslo.kube.credentials import clean_token, read_text, tls_context
from watchslo.kube.network_failure import redirect_target

ANSWER_SECONDS = 5.0
LONGEST_BODY_BYTES = 64 * 2**20  # the status of 900 watches has 8 MB
PIECE_BYTES = 2**16
_EXAMPLES = {  # of URLs, by the kind of server
    "a daemon": "http://127.0.0.1:9477",
    "a Prometheus": "http://127.0.0.1:9090",
    "an Alertmanager": "http://127.0.0.1:9093",
}


@dataclass(frozen=True, slots=True)
class DaemonCredentials:
    """The token for a server, and the CA that its certificate must be signed by."""

    token_file: Path | None = None
    ca_file: Path | None = None
    insecure: bool = False


NO_CREDENTIALS = DaemonCredentials()


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer as it was received, and the server's time when it sent it, in Unix seconds; None if it does not say."""

    status: int
    body: bytes
    sent_wall: float | None


class HttpReader:
    """Reads documents of any server, with the same credentials for all of them; open it as a context."""

    def __init__(self, credentials: DaemonCredentials, seconds: float | None = None) -> None:
        """Read the credentials; raise WatchsloError if they cannot be used. An answer may take so many seconds."""
        self._credentials = credentials
        self._seconds = ANSWER_SECONDS if seconds is None else seconds
        ca_file = str(credentials.ca_file) if credentials.ca_file else None
        self._context = tls_context(ca_file, verify=not credentials.insecure)
        self._token = ""
        self._refresh_token()

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._context), timeout=aiohttp.ClientTimeout(total=self._seconds)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get(
        self,
        url: str,
        query: Mapping[str, str] | None = None,
        *,
        host: str | None = None,
        program: str = "daemon",
        until: bytes | None = None,
    ) -> HttpAnswer:
        """Return an answer; raise ConnectError if there is none. No redirect is followed.

        `host` is the name in the server's certificate if the URL has another one, `program` what is expected to run. An
        answer without end is read until it contains `until`.
        """
        self._refresh_token()
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        if host:
            headers["Host"] = host
        try:
            async with self._session.get(
                url, params=query, headers=headers, allow_redirects=False, server_hostname=host
            ) as answer:
                if target := redirect_target(answer):
                    raise ConnectError(
                        f"it redirects to {target} ({answer.status}); a proxy may want a login, or the URL has changed"
                    )
                return HttpAnswer(answer.status, await _body(answer, until), _date(answer))
        except (aiohttp.ClientError, OSError) as error:  # timeouts are OSErrors too
            raise ConnectError(explain(error, program, self._seconds)) from None

    def _refresh_token(self) -> None:
        """Read the token again, because tokens are rotated. A pipe can be read only once: its token is kept."""
        if file := self._credentials.token_file:
            text = read_text(str(file))
            if text.strip() or not self._token:
                self._token = clean_token(text, str(file))


class HttpEndpoint:
    """The server of a `kind` at a URL; open it as a context."""

    def __init__(
        self, url: str, credentials: DaemonCredentials, kind: str = "a daemon", seconds: float | None = None
    ) -> None:
        """Read the credentials; raise WatchsloError if the URL or the credentials cannot be used."""
        self.place = address_of(url, kind)
        self._program = kind.partition(" ")[2]
        self._reader = HttpReader(credentials, seconds)

    async def __aenter__(self) -> Self:
        await self._reader.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._reader.__aexit__()

    async def get(
        self, path: str, query: Mapping[str, str] | None = None, until: bytes | None = None
    ) -> tuple[int, bytes]:
        """Return the status and the body of an answer; raise ConnectError if there is none. No redirect is followed.

        An answer without end is read until it contains `until`.
        """
        answer = await self._reader.get(self.place + path, query, program=self._program, until=until)
        return answer.status, answer.body


async def _body(answer: aiohttp.ClientResponse, until: bytes | None = None) -> bytes:
    """Return the body, or its beginning until it contains `until`; raise ConnectError if it is too long."""
    pieces, size, end = [], 0, b""
    async for piece in answer.content.iter_chunked(PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if until is not None:
            end = end[-len(until) :] + piece
            if until in end:
                break
        if size > LONGEST_BODY_BYTES:
            raise ConnectError(f"its answer is longer than {LONGEST_BODY_BYTES // 2**20} MiB; check the URL")
    return b"".join(pieces)


def _date(answer: aiohttp.ClientResponse) -> float | None:
    with contextlib.suppress(ValueError):
        return parsedate_to_datetime(answer.headers.get("Date", "")).timestamp()
    return None


def address_of(url: str, kind: str = "a daemon") -> str:
    """Return scheme, host and path of a URL; `127.0.0.1:9477` means http."""
    whole = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(whole)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise ConfigError(f"{url} is not the URL of {kind}; write for example {_EXAMPLES[kind]}")
    if parts.username is not None or parts.query or parts.fragment:
        raise ConfigError(f"the URL contains more than an address; write for example {_EXAMPLES[kind]}")
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")


def explain(error: Exception, program: str = "daemon", seconds: float = ANSWER_SECONDS) -> str:
    """Return why a request had no answer, with the remedy."""
    match error:
        case TimeoutError():
            return f"no answer within {seconds:g} s"
        case aiohttp.ClientSSLError():
            return _untrusted(error)
        case aiohttp.ClientConnectorDNSError():
            return "its name does not resolve; check the URL"
        case aiohttp.ClientConnectorError() if error.os_error.errno == errno.ECONNREFUSED:
            return f"the connection is refused; check that the {program} runs"
        case OSError(errno=int(number)):
            return f"the connection fails: {os.strerror(number).lower()}"
        case _:
            return "the connection was cut, or the server does not speak HTTP"


def _untrusted(error: aiohttp.ClientSSLError) -> str:
    cause = getattr(error, "certificate_error", None)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted ({cause.verify_message}); pass its CA with --ca-file"
    return "it does not speak TLS; write http:// instead of https://"
