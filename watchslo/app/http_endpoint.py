"""Reads documents of an HTTP server that is no apiserver: a daemon, a Prometheus or an Alertmanager."""

import errno
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import aiohttp

from watchslo.errors import ConfigError, ConnectError
from watchslo.kube.credentials import clean_token, read_text, tls_context

ANSWER_SECONDS = 5.0
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


class HttpEndpoint:
    """The server of a `kind` at a URL; open it as a context."""

    def __init__(self, url: str, credentials: DaemonCredentials, kind: str = "a daemon") -> None:
        """Read the credentials; raise WatchsloError if the URL or the credentials cannot be used."""
        self.place = _address(url, kind)
        self._credentials = credentials
        self._program = kind.partition(" ")[2]
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

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> tuple[int, bytes]:
        """Return the status and the body of an answer; raise ConnectError if there is none. No redirect is followed."""
        self._refresh_token()
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        try:
            async with self._session.get(
                self.place + path, params=query, headers=headers, allow_redirects=False
            ) as answer:
                return answer.status, await answer.read()
        except (aiohttp.ClientError, OSError) as error:  # timeouts are OSErrors too
            raise ConnectError(explain(error, self._program)) from None

    def _refresh_token(self) -> None:
        """Read the token again, because tokens are rotated. A pipe can be read only once: its token is kept."""
        if file := self._credentials.token_file:
            text = read_text(str(file))
            if text.strip() or not self._token:
                self._token = clean_token(text, str(file))


def _address(url: str, kind: str) -> str:
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


def explain(error: Exception, program: str = "daemon") -> str:
    """Return why a request had no answer, with the remedy."""
    match error:
        case TimeoutError():
            return f"no answer within {ANSWER_SECONDS:g} s"
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
