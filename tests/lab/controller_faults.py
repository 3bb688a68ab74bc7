"""`python -m tests.lab.controller_faults` delays controllers, and prints what watchslo makes of it.

A real controller manager, scheduler and kwok act on a deployment that is rolled out while a fault lasts. Each fault has
a control plane of its own. The exit code is 1 if a controller is named that is not at fault, or none that is.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tests.lab.first_seen import Seen, look, own_plane, play_all
from tests.support.assets import controllers
from tests.support.controllers import Controllers
from tests.support.daemon import Daemon, Proxy, config_file
from tests.support.process import Process
from watchslo.snapshot import Cause

WATCHED = ["pods", "endpointslices.discovery.k8s.io", "deployments.apps", "replicasets.apps"]
SETTLED_SECONDS = 20.0
DELAY = "constant 2s"
SHORT = {"scheduled": "1s", "started": "1s", "routed": "1s", "observed": "5s"}


@dataclass(frozen=True)
class ControllerFault:
    """A fault: `paused` is the process that stops, `delayed` whose connection a proxy delays, `flags` the manager's."""

    name: str
    named: frozenset[str]
    paused: str = ""
    delayed: str = ""
    flags: tuple[str, ...] = ()


FAULTS = (
    ControllerFault("none", frozenset()),
    ControllerFault("scheduler stopped", frozenset({"pods"}), paused="scheduler"),
    ControllerFault("controller manager stopped", frozenset({"deployments.apps"}), paused="manager"),
    ControllerFault(
        "one request a second", frozenset({"replicasets.apps"}), flags=("--kube-api-qps=1", "--kube-api-burst=1")
    ),
    ControllerFault("2 s before the controllers", frozenset(WATCHED), delayed="controllers"),
    ControllerFault("2 s before watchslo", frozenset(), delayed="watchslo"),
)


def main() -> int:
    return play_all(FAULTS, play, is_right)


def is_right(fault: ControllerFault, seen: Seen) -> bool:
    named = {cause["watch"] for cause in seen.status["causes"] if cause["cause"] == Cause.CONTROLLER_SLOW}
    return bool(named & fault.named) if fault.named else not named


def play(fault: ControllerFault, stack: ExitStack) -> Seen:
    """Return what is seen while a deployment is rolled out under a fault."""
    folder, plane = own_plane(stack)
    proxy = stack.enter_context(Proxy(folder, "proxy", plane.url))
    direct, delayed = plane.kubeconfig(), plane.kubeconfig("delayed", server=proxy.url)
    links = dict.fromkeys(("controllers", "watchslo"), direct) | ({fault.delayed: delayed} if fault.delayed else {})
    half = Controllers(folder, controllers(os.environ), plane, links["controllers"])
    half.manager.command += fault.flags
    stack.enter_context(half)
    half.expose()
    reactions = {"resources": WATCHED, "thresholds": SHORT if fault.delayed else {}}
    config = config_file(folder, watch=[{"resource": name} for name in WATCHED], reactions=reactions)
    daemon = stack.enter_context(Daemon(folder, "--config", config, "--kubeconfig", links["watchslo"]))
    daemon.until_ready()
    time.sleep(SETTLED_SECONDS)
    if fault.delayed:
        proxy.control({"law": DELAY}, "")
    return look(daemon, rolled_out(half, getattr(half, fault.paused) if fault.paused else None), said)


@contextlib.contextmanager
def rolled_out(half: Controllers, paused: Process | None) -> Iterator[None]:
    """Roll the deployment out, while a process stands still."""
    with paused.paused() if paused else contextlib.nullcontext():
        half.roll_out("1")
        yield


def said(status: dict[str, Any]) -> Iterator[str]:
    """Yield which steps are pending or slow."""
    for reaction in status["reactions"]:
        yield from (
            f"{what}: {reaction['resource']} {reaction['step']}" for what in ("pending", "slow") if reaction[what]
        )


if __name__ == "__main__":
    sys.exit(main())
