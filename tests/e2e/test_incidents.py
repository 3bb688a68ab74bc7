"""What happens in the worst nights? A whole control plane, whose three apiservers announce themselves."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.assets import Assets, controllers
from tests.support.control_plane import ControlPlane, Etcd
from tests.support.controllers import Controllers
from tests.support.daemon import LOOK_SECONDS, Daemon, config_file
from tests.support.own_network import HOSTS, own_network

WATCHES = [{"resource": name} for name in ("pods", "configmaps", "services")]
LOOKS = 3
UNRESPONSIVE_SECONDS = 10.0


@pytest.fixture
def plane(tmp_path: Path, assets: Assets) -> Iterator[ControlPlane]:
    """A whole control plane; its controllers ask the third apiserver, which stays."""
    with (
        own_network(*HOSTS),
        Etcd(tmp_path, assets.etcd) as etcd,
        ControlPlane(tmp_path, assets.kube_apiserver, etcd, hosts=HOSTS) as plane,
    ):
        kubeconfig = plane.kubeconfig("controllers", server=plane.apiservers[2].url)
        with Controllers(tmp_path, controllers(os.environ), plane, kubeconfig):
            yield plane


@pytest.fixture
def daemon(tmp_path: Path, plane: ControlPlane) -> Iterator[Daemon]:
    """A daemon that watches each announced apiserver; its kubeconfig names one of them."""
    config = config_file(tmp_path, watch=WATCHES, kubernetes={"apiservers": "each"})
    with Daemon(tmp_path, "--config", config, "--kubeconfig", plane.kubeconfig()) as daemon:
        until(daemon, lambda status: len(members(status)) == len(HOSTS) and is_well(status), "all is well")
        yield daemon


def until(daemon: Daemon, condition: Any, what: str) -> Any:
    """Wait until a condition holds for what the daemon says, and return that."""

    def found() -> Any:
        status = daemon.status()
        return status if condition(status) else None

    return daemon.process.until(found, what, LOOK_SECONDS)


def members(status: Any) -> dict[str, Any]:
    return {one["name"]: one for one in status["apiservers"] if one["watched"]}


def watches_of(apiserver: str, status: Any) -> list[bool]:
    """Return which of its watches are open."""
    return [one["up"] for one in status["watches"] if one["apiserver"] == apiserver]


def is_well(status: Any) -> bool:
    return bool(status["verdict"]) and status["verdict"]["verdict"] == "good"


def test_hung_apiserver_stays_in_the_headline_after_the_others_have_withdrawn_it(
    plane: ControlPlane, daemon: Daemon
) -> None:
    """Its lease ends after 15 s, and the others take its address from the EndpointSlice."""
    hung = urlsplit(plane.apiservers[1].url).netloc
    assert members(daemon.status()).keys() == {urlsplit(one.url).netloc for one in plane.apiservers}
    assert {one["role"] for one in daemon.status()["apiservers"]} == {"member"}, "none is counted twice"
    with plane.apiservers[1].process.paused():
        until(daemon, lambda status: status["verdict"]["verdict"] == "unresponsive", "it is missed")
        until(daemon, lambda status: "has withdrawn it" in status["verdict"]["figures"], "it is withdrawn")
        for _ in range(LOOKS):
            verdict = daemon.status()["verdict"]
            assert (verdict["verdict"], verdict["level"]) == ("unresponsive", "bad")
            assert f"{hung} answers nothing" in verdict["text"]
            assert daemon.scrape().value("watchslo_apiserver_up", apiserver=hung) == 0
    until(daemon, lambda status: is_well(status) and not members(status)[hung]["withdrawn"], "it is back")


def test_stopped_etcd_is_said_to_answer_no_apiserver(plane: ControlPlane, daemon: Daemon) -> None:
    with plane.etcd.process.paused():
        status = until(daemon, lambda status: status["verdict"]["verdict"] == "storage_silent", "it is missed")
        assert status["verdict"]["level"] == "bad"
        assert "nothing can be written" in status["verdict"]["text"]
        assert status["trust"]["level"] != "bad", "the stopped clock is no problem of watchslo"
    until(daemon, is_well, "it is back")


@pytest.mark.long
@pytest.mark.parametrize("away", [8.0, 22.0])
def test_killed_apiserver_refuses_connections_until_it_is_back(
    plane: ControlPlane, daemon: Daemon, away: float
) -> None:
    """Its watches open again soon; the output says how soon."""
    killed = plane.apiservers[1]
    name = urlsplit(killed.url).netloc
    killed.process.kill()
    began = time.monotonic()
    if away > UNRESPONSIVE_SECONDS:
        text = until(daemon, lambda status: status["verdict"]["level"] == "bad", "it is missed")["verdict"]["text"]
        print(f"{text!r} after {time.monotonic() - began:.1f} s")
        assert f"{name} refuses connections" in text
    time.sleep(max(0.0, began + away - time.monotonic()))
    killed.start()
    killed.wait_ready()
    ready = time.monotonic()
    until(daemon, lambda status: watches_of(name, status) == [True] * len(WATCHES), "its watches are open")
    print(f"its watches are open {time.monotonic() - ready:.1f} s after it was ready")
    until(daemon, is_well, "it is back")
    print(f"all is well {time.monotonic() - ready:.1f} s after it was ready")
