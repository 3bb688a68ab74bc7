"""How old is the cache of a client? A real program, whose connection is held up, exports how far it has come."""

import contextlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.assets import CONTROLLERS_OF, KUBE_APISERVER, controllers
from tests.support.control_plane import ControlPlane, Port
from tests.support.controllers import DEPLOYMENTS
from tests.support.daemon import LOOK_SECONDS, Daemon, Proxy, config_file, outside
from tests.support.process import Process
from tests.support.writer import Write, configmap

CLIENTS = Path(__file__).parents[2] / "docs" / "concepts" / "clients.md"
SHOWN = re.compile(r"<!-- program -->\n```python\n(?P<program>.*?)```", re.DOTALL)
SHOWN_PORT = "9090"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
SERVICES = "/api/v1/namespaces/default/services"
NAME = "my-program"
MANAGER = "kube-controller-manager"
APISERVER = "kube-apiserver/service"
READS = 3


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


@contextlib.contextmanager
def controller_manager(folder: Path, minor: str, plane: ControlPlane, url: str, port: int) -> Iterator[None]:
    """Run a controller manager of this version, or of the current one, whose informers get everything through a URL.

    It reviews the tokens of its readers elsewhere: otherwise its page would fail while that way is blocked.
    """
    programs = controllers(os.environ, minor if minor in CONTROLLERS_OF else KUBE_APISERVER.pins)
    connected = [f"--kubeconfig={plane.kubeconfig(MANAGER, server=url)}"]
    connected += [f"--{kind}-kubeconfig={plane.kubeconfig()}" for kind in ("authentication", "authorization")]
    served = ["--bind-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={folder / 'manager'}"]
    alone = ["--leader-elect=false", "--controllers=*,-serviceaccount-token-controller"]
    signing = f"--service-account-private-key-file={plane.signing_key}"
    process = Process(folder, MANAGER, [programs.controller_manager, *connected, *served, *alone, signing])
    process.start()
    try:
        yield
    finally:
        process.kill()


def until_known(daemon: Daemon, name: str, condition: Callable[[dict[str, str]], object], what: str) -> None:
    """Wait until a condition holds for the verdicts on the caches of a client, by resource."""

    def holds() -> bool:
        said = next((client for client in daemon.status()["clients"] if client["client"] == name), None)
        verdicts = {one["resource"]: one["verdict"] for one in said["informers"]} if said else {}
        return bool(condition(verdicts))

    daemon.process.until(holds, f"{name}: {what}", LOOK_SECONDS)


def are_current(*resources: str) -> Callable[[dict[str, str]], bool]:
    return lambda verdicts: all(verdicts.get(resource) == "current" for resource in resources)


@pytest.mark.version("1.36")
def test_caches_of_the_control_plane_are_known_since_1_37(
    control_planes: Callable[[str], ControlPlane], minor: str, tmp_path: Path, port: int
) -> None:
    plane = control_planes(minor)
    watches = [{"resource": name} for name in ("pods", "deployments.apps", "ingressclasses.networking.k8s.io")]
    url = f"https://127.0.0.1:{port}/metrics"
    manager = {"name": MANAGER, "url": url, "authorization": "kubernetes", "insecureSkipVerify": True}
    config = config_file(tmp_path, watch=watches, clients=[manager], kubernetes={"apiserverMetrics": True})
    with (
        Proxy(tmp_path, "link", plane.url) as link,
        controller_manager(tmp_path, minor, plane, link.url, port),
        Daemon(tmp_path, "--config", config, "--kubeconfig", plane.kubeconfig()) as daemon,
        plane.writer() as writer,
    ):
        if minor != "1.37":
            assert "from 1.37 on" in daemon.until_said("client_page_failed", reason="garbage")["message"]
            assert [client["client"] for client in daemon.status()["clients"]] == [MANAGER]
            return
        until_known(daemon, APISERVER, are_current("pods"), "current")
        until_known(daemon, MANAGER, are_current("pods", "deployments", "ingressclasses"), "current")
        with link.fault("hole-to-client"):
            labels = {"app": "late"}
            template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "none"}]}}
            spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
            writer.create(DEPLOYMENTS, {"metadata": {"name": "late"}, "spec": spec})
            until_known(daemon, MANAGER, lambda verdicts: verdicts.get("deployments") == "stale", "stale")
        until_known(daemon, MANAGER, are_current("pods", "deployments"), "current again")
