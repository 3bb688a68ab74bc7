"""`python -m tests.lab.controller_faults` delays controllers, and prints what watchslo makes of it.

A real controller manager, scheduler and kwok act on a deployment that is rolled out while a fault lasts. Each fault has
a control plane of its own. The exit code is 1 if a controller is named that is not at fault, or none that is.
"""

import contextlib
import os
import sys
import tempfile
import time
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.assets import controllers, newest
from tests.support.control_plane import ControlPlane, Etcd
from tests.support.controllers import Controllers
from tests.support.daemon import Daemon, Proxy, config_file
from watchslo.snapshot import Cause

WATCHED = ["pods", "endpointslices.discovery.k8s.io", "deployments.apps", "replicasets.apps"]
SECONDS = 60.0
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


@dataclass
class Seen:
    """When each thing was first said, in seconds after the fault began, and the status at its end."""

    first: dict[str, float]
    status: dict[str, Any]

    @property
    def named(self) -> set[str]:
        return {cause["watch"] for cause in self.status["causes"] if cause["cause"] == Cause.CONTROLLER_SLOW}


def main() -> int:
    """Cause every fault, or those whose names begin with an argument."""
    failed = 0
    for fault in FAULTS:
        if fault.name.startswith(tuple(sys.argv[1:])) or not sys.argv[1:]:
            with ExitStack() as stack:
                seen = play(fault, stack)
            show(fault, seen)
            failed |= not (seen.named & fault.named if fault.named else not seen.named)
    return failed


def play(fault: ControllerFault, stack: ExitStack) -> Seen:
    """Return what is seen while a deployment is rolled out under a fault."""
    folder, assets = Path(stack.enter_context(tempfile.TemporaryDirectory())), newest(os.environ)
    etcd = stack.enter_context(Etcd(folder, assets.etcd))
    plane = stack.enter_context(ControlPlane(folder, assets.kube_apiserver, etcd))
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
    paused = getattr(half, fault.paused).paused() if fault.paused else contextlib.nullcontext()
    return watch(daemon, half, paused)


def watch(daemon: Daemon, half: Controllers, paused: AbstractContextManager[None]) -> Seen:
    """Roll out, and note when something is said first."""
    began, first = time.monotonic(), dict[str, float]()
    with paused:
        half.roll_out("1")
        while (passed := time.monotonic() - began) < SECONDS:
            status = daemon.status()
            said = [f"cause: {cause['cause']} {cause['watch']}" for cause in status["causes"]]
            for reaction in status["reactions"]:
                step = f"{reaction['resource']} {reaction['step']}"
                said += [f"{what}: {step}" for what in ("pending", "slow") if reaction[what]]
            for text in said:
                first.setdefault(text, passed)
            time.sleep(0.5)
        return Seen(first, daemon.status())


def show(fault: ControllerFault, seen: Seen) -> None:
    print(f"\n## {fault.name} (load {os.getloadavg()[0]:.1f})")
    for text, after in seen.first.items():
        print(f"{after:5.1f} s  {text}")
    for reaction in seen.status["reactions"]:
        for quantile in reaction["quantiles"]:
            bounds = f"{quantile['lower']:.3f} to {quantile['upper'] or float('inf'):.3f} s"
            step = f"{reaction['resource']} {reaction['step']}"
            print(f"  {step:32} P{100 * quantile['q']:.0f} {quantile['estimate']:.3f} s, proven {bounds}")
    for cause in seen.status["causes"]:
        print(f"  {cause['cause']}, {cause['confidence']}: {cause['evidence']}")


if __name__ == "__main__":
    sys.exit(main())
