"""How old is the cache of a client? A real program, whose connection is held up, exports how far it has come."""

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.assets import Assets
from tests.support.control_plane import ControlPlane, Etcd, Port
from tests.support.daemon import LOOK_SECONDS, Daemon, Proxy, config_file, outside
from tests.support.process import Process
from tests.support.writer import Write, configmap

CLIENTS = Path(__file__).parents[2] / "docs" / "concepts" / "clients.md"
SHOWN = re.compile(r"<!-- program -->\n```python\n(?P<program>.*?)```", re.DOTALL)
SHOWN_PORT = "9090"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
SERVICES = "/api/v1/namespaces/default/services"
NAME = "my-program"
READS = 3


@pytest.fixture
def plane(tmp_path: Path, assets: Assets) -> Iterator[ControlPlane]:
    with Etcd(tmp_path, assets.etcd) as etcd, ControlPlane(tmp_path, assets.kube_apiserver, etcd) as plane:
        yield plane


@pytest.fixture
def link(tmp_path: Path, plane: ControlPlane) -> Iterator[Proxy]:
    """The way of the program to the apiserver."""
    with Proxy(tmp_path, "link", plane.url) as link:
        yield link


@pytest.fixture
def port() -> Iterator[int]:
    reserved = Port()
    yield reserved.number
    reserved.release()


@pytest.fixture
def program(tmp_path: Path, plane: ControlPlane, link: Proxy, port: int) -> Iterator[Process]:
    """The program that the documentation shows."""
    shown = SHOWN.search(CLIENTS.read_text())
    assert shown is not None
    path = tmp_path / "program.py"
    path.write_text(shown["program"].replace(SHOWN_PORT, str(port)))
    kubeconfig = plane.kubeconfig("program", server=link.url)
    process = Process(tmp_path, "program", [sys.executable, path], outside(KUBECONFIG=str(kubeconfig)))
    process.start()
    yield process
    process.stop()


@pytest.fixture
def daemon(tmp_path: Path, plane: ControlPlane, program: Process, port: int) -> Iterator[Daemon]:
    clients = [{"name": NAME, "url": f"http://127.0.0.1:{port}/metrics"}]
    watches = [{"resource": "configmaps"}, {"resource": "services"}]
    config = config_file(tmp_path, watch=watches, clients=clients)
    with Daemon(tmp_path, "--config", config, "--kubeconfig", plane.kubeconfig()) as daemon:
        daemon.until_measuring("configmaps")
        assert program.running
        yield daemon


def reads(daemon: Daemon, verdict: str) -> float:
    return daemon.scrape().total("watchslo_informer_reads_total", client=NAME, verdict=verdict)


def until(daemon: Daemon, condition: Callable[[dict[str, Any]], object], what: str) -> dict[str, Any]:
    """Wait until a condition holds for what is said of the program's cache, and return that."""

    def found() -> dict[str, Any] | None:
        (client,) = daemon.status()["clients"]
        return next((informer for informer in client["informers"] if condition(informer)), None)

    return daemon.process.until(found, what, LOOK_SECONDS)


def until_current(daemon: Daemon) -> None:
    until(daemon, lambda said: said["verdict"] == "current" and said["staleness"]["upper"] == 0.0, "current")


def test_cache_is_stale_while_its_connection_is_held_up(plane: ControlPlane, link: Proxy, daemon: Daemon) -> None:
    with plane.writer() as writer:
        writer.create(CONFIGMAPS, configmap("first"))
        until_current(daemon)
        with link.fault("hole-to-client"):
            write: Write = writer.create(CONFIGMAPS, configmap("second"))
            stale = until(daemon, lambda said: said["verdict"] == "stale", "stale")
            longest = time.monotonic() - write.before
            lower = stale["staleness"]["lower"]
            assert 1.0 < lower <= stale["staleness"]["upper"]
            assert lower <= longest, "proven, however slow the machine is"
            until(daemon, lambda said: said["verdict"] == "stale" and said["staleness"]["lower"] > lower, "more stale")
        until_current(daemon)


def test_cache_of_a_quiet_resource_is_never_stale(plane: ControlPlane, daemon: Daemon) -> None:
    with plane.writer() as writer:
        writer.create(CONFIGMAPS, configmap("only"))
        until_current(daemon)
        least = reads(daemon, "current") + READS
        names = iter(range(1000))

        def written() -> bool:
            """Let the storage advance by changes of other resources."""
            spec = {"ports": [{"port": 80}]}
            writer.create(SERVICES, {"metadata": {"name": f"service-{next(names)}"}, "spec": spec})
            return reads(daemon, "current") >= least

        daemon.process.until(written, "read again", LOOK_SECONDS)
    assert reads(daemon, "stale") == 0
    assert daemon.scrape().value("watchslo_informer_staleness_seconds", client=NAME, bound="upper") == 0.0


def test_program_that_ends_is_reported_once_with_the_remedy(program: Process, daemon: Daemon) -> None:
    until(daemon, lambda said: said["staleness"], "read")
    program.stop()
    failed = daemon.until_said("client_page_failed")
    assert failed["client"] == NAME
    assert "refuses the connection" in failed["message"]
    before = reads(daemon, "unknown")
    daemon.process.until(lambda: reads(daemon, "unknown") > before, "tried again", LOOK_SECONDS)
    assert len(daemon.log("client_page_failed")) == 1
