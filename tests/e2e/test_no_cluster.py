"""No way to the cluster: one line says why, `/readyz` repeats it, and the daemon keeps trying, but never hard."""

import contextlib
import socketserver
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.certs import Authority
from tests.support.control_plane import HOST, ControlPlane, Port, write_kubeconfig
from tests.support.daemon import LOOK_SECONDS, Daemon, Simulator, config_file

STOP_SECONDS = 5.0
TRIES_SECONDS = 90.0  # names may take their time to be found missing
PAGE = b"<html><body><h1>It works!</h1></body></html>"


class Page(BaseHTTPRequestHandler):
    """What stands in the way: it answers everything with a page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


class Silence(socketserver.BaseRequestHandler):
    """Takes every connection, and never says a word."""

    def handle(self) -> None:
        while self.request.recv(4096):
            pass


class Quiet(socketserver.ThreadingTCPServer):
    daemon_threads = True


@contextlib.contextmanager
def serving(server: socketserver.TCPServer) -> Iterator[str]:
    """The `host:port` at which a server of this process answers."""
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"{HOST}:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Lost:
    """A daemon that cannot reach its cluster, since when, and what it should say of that."""

    daemon: Daemon
    since: float
    reason: str
    says: str


@pytest.fixture(scope="module")
def port() -> Iterator[Port]:
    """Where nobody listens yet."""
    port = Port()
    yield port
    port.release()


@pytest.fixture(scope="module")
def lost(
    control_plane: ControlPlane, port: Port, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Lost]]:
    """Daemons for all the ways in which a cluster is out of reach, started at once."""
    folder = tmp_path_factory.mktemp("lost")
    missing, stranger = folder / "none", Authority(folder / "authority")
    with contextlib.ExitStack() as stack:
        html = stack.enter_context(serving(ThreadingHTTPServer((HOST, 0), Page)))
        silent = stack.enter_context(serving(Quiet((HOST, 0), Silence)))
        right = {"server": control_plane.url, "certificate-authority": str(control_plane.ca)}
        ways: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
            "nobody": ({"server": f"http://{HOST}:{port.number}"}, {}, "refused", "Connection refused by "),
            "nowhere": ({"server": "https://apiserver.invalid:6443"}, {}, "dns", "does not resolve"),
            "silent": ({"server": f"https://{silent}"}, {}, "unreachable", "No connection to "),
            "page": ({"server": f"http://{html}"}, {}, "garbage", "text/html, and no JSON: this is no apiserver."),
            "plain": ({"server": f"https://{html}"}, {}, "tls", "check that it speaks HTTPS"),
            "stranger": (
                right | {"certificate-authority": str(stranger.ca)},
                {"token": control_plane.token},
                "tls",
                "name the CA of the cluster as certificate-authority.",
            ),
            "badge": (right, {"token": "wrong"}, "unauthorized", "The apiserver does not accept who we are."),
            "nobadge": (right, {"tokenFile": str(missing)}, "credentials", f"{missing}: no such file or directory; "),
        }
        daemons = {}
        for name, (cluster, user, reason, says) in ways.items():
            home = folder / name
            home.mkdir()
            write_kubeconfig(home / "kubeconfig", cluster, user)
            config = config_file(home, watch=[{"resource": "configmaps"}])
            daemon = Daemon(home, "--config", config, "--kubeconfig", home / "kubeconfig")
            daemon.process.start()
            stack.callback(daemon.__exit__)
            daemons[name] = Lost(daemon, time.monotonic(), reason, says)
        for one in daemons.values():
            one.daemon.until_listening()
        yield daemons


def test_goes_on_when_the_cluster_appears(lost: dict[str, Lost], port: Port, tmp_path: Path) -> None:
    daemon = lost["nobody"].daemon
    daemon.until_not_ready(lost["nobody"].says)
    with Simulator(tmp_path, "--port", str(port.number)):
        daemon.until_ready()
        assert [entry["reason"] for entry in daemon.log("discovery_failed")] == ["refused"]
        assert [entry["reason"] for entry in daemon.log("recovered")] == ["refused"]
        daemon.until_measuring("configmaps")


WAYS = ("nowhere", "page", "plain", "stranger", "badge", "nobadge", "silent")


@pytest.mark.parametrize("way", WAYS)
def test_says_why_and_keeps_trying(lost: dict[str, Lost], way: str) -> None:
    one = lost[way]
    one.daemon.until_not_ready(one.says)

    def tries() -> float:
        return one.daemon.scrape().total("watchslo_api_requests_total")

    least = 1 if way == "silent" else 2  # only to give up there takes ten seconds
    one.daemon.process.until(lambda: tries() >= least, TRIES_SECONDS, "another try", LOOK_SECONDS)
    assert tries() <= 3 + (time.monotonic() - one.since), "that is no backoff"
    said = one.daemon.log("discovery_failed")
    assert [(entry["reason"], entry["level"]) for entry in said] == [(one.reason, "warning")]
    assert one.says in said[0]["message"]


@pytest.mark.parametrize("way", [*WAYS, "nobody"])
def test_ends_in_time(lost: dict[str, Lost], way: str) -> None:
    daemon = lost[way].daemon
    began = time.monotonic()
    assert daemon.stop() == 0
    assert time.monotonic() - began < STOP_SECONDS
