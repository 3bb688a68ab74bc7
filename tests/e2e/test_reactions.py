"""How fast do controllers react? A real controller manager, scheduler and kwok act; one of them stops."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.assets import controllers
from tests.support.control_plane import ControlPlane
from tests.support.controllers import Controllers
from tests.support.daemon import LENIENT_OBJECTIVE, LOOK_SECONDS, Daemon, config_file

WATCHED = ["pods", "endpointslices.discovery.k8s.io", "deployments.apps", "replicasets.apps"]
REPLICAS = 20


@pytest.fixture
def half(tmp_path: Path, plane: ControlPlane) -> Iterator[Controllers]:
    """The controllers, and a deployment that a service selects."""
    with Controllers(tmp_path, controllers(os.environ), plane, plane.kubeconfig(), replicas=REPLICAS) as half:
        half.expose()
        yield half


@pytest.fixture
def config(tmp_path: Path) -> Path:
    reactions = {"resources": WATCHED, "thresholds": {"scheduled": "2s"}}
    watch = [{"resource": name} for name in WATCHED]
    return config_file(tmp_path, watch=watch, reactions=reactions, objective=LENIENT_OBJECTIVE)


@pytest.fixture
def daemon(tmp_path: Path, plane: ControlPlane, config: Path, half: Controllers) -> Iterator[Daemon]:
    assert half.manager.running
    with Daemon(tmp_path, "--config", config, "--kubeconfig", plane.kubeconfig()) as daemon:
        daemon.until_ready()
        yield daemon


def reactions(daemon: Daemon) -> dict[str, Any]:
    """Return what the status says of each step: of a resource and step such as `pods scheduled`."""
    return {f"{one['resource']} {one['step']}": one for one in daemon.status()["reactions"]}


def until(daemon: Daemon, condition: Callable[[dict[str, Any]], object], what: str) -> dict[str, Any]:
    """Wait until a condition holds for the reactions, and return them."""

    def found() -> dict[str, Any] | None:
        known = reactions(daemon)
        return known if condition(known) else None

    return daemon.process.until(found, what, LOOK_SECONDS)


def count(reaction: Any) -> int:
    """Return how many reactions are samples, or are known to be none."""
    found: int = reaction["events"] + sum(reaction["unmeasured"].values())
    return found


def test_rollout_has_a_reaction_of_every_controller(half: Controllers, daemon: Daemon) -> None:
    half.roll_out("1")
    known = until(
        daemon,
        lambda known: (
            count(known["pods scheduled"]) >= REPLICAS
            and count(known["pods started"]) >= REPLICAS
            and count(known["endpointslices routed"]) >= REPLICAS
            and count(known["deployments observed"]) >= 1
            and count(known["replicasets observed"]) >= 2
        ),
        "all have reacted",
    )
    assert count(known["pods scheduled"]) == REPLICAS, "each new pod is scheduled once"
    assert known["pods scheduled"]["responsible"] == "the scheduler"
    for reaction in known.values():
        for quantile in reaction["quantiles"]:
            assert quantile["lower"] <= quantile["estimate"] <= quantile["upper"]
    metrics = daemon.scrape()
    assert metrics.total("watchslo_reaction_seconds_count", step="scheduled") + metrics.total(
        "watchslo_reaction_unmeasured_total", step="scheduled"
    ) == count(known["pods scheduled"])


def test_stopped_controller_shows_as_pending_and_the_watches_stay_good(half: Controllers, daemon: Daemon) -> None:
    with half.manager.paused():
        half.roll_out("1")
        known = until(daemon, lambda known: known["deployments observed"]["pending"], "the deployment waits")
        assert known["pods scheduled"]["pending"] == 0, "the scheduler has nothing to do"
    until(daemon, lambda known: count(known["deployments observed"]) == 1, "it has reacted")
    with half.scheduler.paused():
        half.roll_out("2")
        until(daemon, lambda known: known["pods scheduled"]["pending"], "pods wait for the scheduler")
        until(daemon, lambda known: known["pods scheduled"]["slow"], "it has not acted for longer than its threshold")
    until(daemon, lambda known: known["pods scheduled"]["pending"] == 0, "they are scheduled")
