"""A client of the server of a daemon: a scraper, a kubelet, or a client without rights."""

import contextlib
import http.client
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.process import PATIENCE_SECONDS

READ_SECONDS = PATIENCE_SECONDS


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request; the names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    text: str


class Reader:
    """Sends each request to `url` on a new connection; `ca` must have issued the certificate of the server."""

    def __init__(self, url: str, ca: Path | None = None, token: str | None = None) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self.address = parts.hostname, parts.port
        self._tls = ssl.create_default_context(cafile=ca) if ca else None
        self.token = token
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        with self.asking(path, method, **headers) as answer:
            text = answer.read().decode()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, text)

    @contextlib.contextmanager
    def asking(self, path: str, method: str = "GET", **headers: str) -> Iterator[http.client.HTTPResponse]:
        """Open a streamed answer; the head and each part may take `READ_SECONDS`."""
        host, port = self.address
        connection = (
            http.client.HTTPSConnection(host, port, timeout=READ_SECONDS, context=self._tls)
            if self._tls
            else http.client.HTTPConnection(host, port, timeout=READ_SECONDS)
        )
        with contextlib.closing(connection):
            connection.request(method, path, headers=self._headers | headers)
            yield connection.getresponse()

    def status(self, path: str) -> int:
        return self.ask(path).status

    def certificate(self) -> bytes:
        """Return the certificate of the server on a new connection."""
        assert self._tls is not None
        with (
            socket.create_connection(self.address, READ_SECONDS) as plain,
            self._tls.wrap_socket(plain, server_hostname=self.address[0]) as connection,
        ):
            shown = connection.getpeercert(binary_form=True)
        assert shown is not None
        return shown
