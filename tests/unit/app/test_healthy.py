import contextlib
import re
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.background import ServerThread
from tests.support.certs import Authority
from watchslo.app import healthy as module
from watchslo.app.healthy import NotHealthyError, healthy
from watchslo.errors import ConfigError


class Answering(BaseHTTPRequestHandler):
    """Gives the same answer to every health check."""

    code, text = 200, b"ok\n"

    def do_GET(self) -> None:
        found = self.path == "/healthz"
        self.send_response(self.code if found else 404)
        self.end_headers()
        self.wfile.write(self.text if found else b"")

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


class Ill(Answering):
    code, text = 503, b"the last heartbeat was 7.0 s ago\n"


class Garbled(Answering):
    def do_GET(self) -> None:
        self.wfile.write(b"this is no HTTP\r\n")


class Mute(Answering):
    """Accepts the request and never answers it."""

    def do_GET(self) -> None:
        self.rfile.read(1)


@contextlib.contextmanager
def daemon(kind: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port of a server at 127.0.0.1."""
    server = HTTPServer(("127.0.0.1", 0), kind)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    with ServerThread(server):
        yield server.server_address[1]


def config(folder: Path, listen: str) -> Path:
    path = folder / "watchslo.yaml"
    path.write_text(f'server: {{listen: "{listen}"}}')
    return path


def test_healthy_daemon_answers_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # a closed port
    with daemon(Answering) as port:
        url = f"http://127.0.0.1:{port}"
        assert healthy(None, url) == healthy(None, f"{url}/") == f"{url}: ok"


def test_daemon_certificate_is_not_verified(tmp_path: Path) -> None:
    pair = Authority(tmp_path / "certs").server("other", ("watchslo.invalid",))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)
    with daemon(Answering, tls) as port:
        assert healthy(None, f"https://127.0.0.1:{port}") == f"https://127.0.0.1:{port}: ok"


def test_unhealthy_daemon_raises_with_its_reason() -> None:
    with daemon(Ill) as port, pytest.raises(NotHealthyError) as said:
        healthy(None, f"http://127.0.0.1:{port}")
    assert str(said.value) == f"http://127.0.0.1:{port}: HTTP 503, the last heartbeat was 7.0 s ago; see its log"


@pytest.mark.parametrize(
    ("kind", "seconds", "message"), [(Garbled, 60.0, "badstatusline"), (Mute, 0.2, "no answer within 0.2 s")]
)
def test_invalid_or_missing_answer_raises(
    kind: type[BaseHTTPRequestHandler], seconds: float, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_SECONDS", seconds)
    with (
        daemon(kind) as port,
        pytest.raises(NotHealthyError, match=f":{port}: {message}; start `watchslo run`, or pass"),
    ):
        healthy(None, f"http://127.0.0.1:{port}")


def test_refused_connection_raises() -> None:
    with daemon(Answering) as port:
        url = f"http://127.0.0.1:{port}"
    with pytest.raises(NotHealthyError, match=re.escape(f"{url}: connection refused; start")):
        healthy(None, url)


@pytest.mark.parametrize("listen", ["0.0.0.0:{}", ":{}", "127.0.0.1:{}", "localhost:{}"])
def test_address_comes_from_configuration(listen: str, tmp_path: Path) -> None:
    with daemon(Answering) as port:
        assert healthy(config(tmp_path, listen.format(port)), None).endswith(f":{port}: ok")


def test_configuration_with_port_0_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"server\.listen: port 0 is any free port; .* --url$"):
        healthy(config(tmp_path, "127.0.0.1:0"), None)


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:9477", "file:///etc/hostname", "http://", "http://[::1", "http://a:70000", "http://a:0"]
)
def test_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=rf"^--url: {re.escape(url)} is not a URL; write for example http"):
        healthy(None, url)


def test_default_url_is_that_of_the_daemon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "watchslo.yaml"
    path.write_text("paused: true")
    with daemon(Answering) as port:
        monkeypatch.setattr(module, "DEFAULT_URL", f"http://127.0.0.1:{port}")
        assert healthy(None, None) == f"http://127.0.0.1:{port}: ok"
    assert module._address(path) == "http://127.0.0.1:9477"
