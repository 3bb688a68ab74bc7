"""The end of the daemon: in time whatever hangs, with a last evaluation, and at once for who insists."""

import contextlib
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.control_plane import ControlPlane
from tests.support.daemon import Daemon, config_file

STOP_SECONDS = 5.0
GRACE_SECONDS = 0.3
SPARE_SECONDS = 5.0  # for a machine that has other things to do
REQUEST = b"GET /metrics HTTP/1.1\r\nHost: watchslo\r\n\r\n"


@pytest.fixture
def daemon(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Daemon]:
    config = config_file(tmp_path, watch=[{"resource": "configmaps"}])
    with Daemon(tmp_path, "--config", config, "--kubeconfig", control_plane.kubeconfig()) as daemon:
        yield daemon


@contextlib.contextmanager
def connected(daemon: Daemon, said: bytes) -> Iterator[None]:
    """A client that says something and then neither reads nor goes."""
    parts = urlsplit(daemon.url)
    with socket.create_connection((str(parts.hostname), int(parts.port or 0))) as client:
        client.settimeout(0)
        client.send(said)
        yield


def test_ends_in_time_with_clients_that_hang(daemon: Daemon) -> None:
    daemon.until_ready()
    with connected(daemon, b""), connected(daemon, REQUEST[:-2]), connected(daemon, REQUEST * 1000):
        time.sleep(GRACE_SECONDS)  # the last of them has its answers waiting now
        daemon.process.signal(signal.SIGTERM)
        assert daemon.process.wait(STOP_SECONDS + SPARE_SECONDS) == 0
    assert [entry["level"] for entry in daemon.log("stopped")] == ["info"]


def test_ctrl_c_is_no_failure_even_while_it_starts(daemon: Daemon) -> None:
    daemon.process.signal(signal.SIGINT)
    assert daemon.process.wait(STOP_SECONDS + SPARE_SECONDS) == 0
    assert len(daemon.log("stopped")) == 1


def test_ends_at_once_when_told_twice(daemon: Daemon) -> None:
    """By two signals that are not one another, so that both arrive, and so soon that the end has hardly begun."""
    with connected(daemon, REQUEST * 1000):
        daemon.process.signal(signal.SIGTERM)
        daemon.process.signal(signal.SIGINT)
        assert daemon.process.wait(STOP_SECONDS + SPARE_SECONDS) == 130
    assert daemon.log("stopped") == []
