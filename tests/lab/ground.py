"""The servers on which faults are made: real control planes, and the simulator. `GROUNDS` is the table."""

import contextlib
import json
import os
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.lab.clients import creating, putting, rolling_out, starting, unread_watch
from tests.support import assets as programs
from tests.support.assets import Assets
from tests.support.control_plane import EVERYTHING_READABLE, ControlPlane, Etcd, override
from tests.support.controllers import Controllers
from tests.support.daemon import Proxy, Simulator
from tests.support.high_availability import HighAvailability, Member, behind
from tests.support.own_network import HOSTS, own_network
from tests.support.process import Process, eventually
from tests.support.writer import StatusError, Writer, crd

PROGRAMS = Path(__file__).with_name("programs")
APISERVERS_NICE, NICEST = 5, 19  # the daemon must not be late because an apiserver is busy
NODES, REPLICAS, SHARE = 100, 60, 0.5  # of a whole control plane, and of the changes that others make
LISTED = 300
"""Config maps that never change: with small pages and few requests per second, a list takes several seconds."""
OVERRIDDEN = "configmaps"
FROZEN = "secrets"
GROUP = "tests.watchslo.invalid"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CUSTOM = f"/apis/{GROUP}/v1/namespaces/default"
SIMULATED = json.dumps(
    {
        "objects": [{"resource": "pods", "count": 1000}],
        "workload": [
            {"resource": "leases.coordination.k8s.io", "rate": 5},
            {"resource": "configmaps", "rate": 5},
            {"resource": "nodes", "rate": 30},
            {"resource": "services", "rate": 2},
        ],
    }
)
"""The configuration of the simulator for alerts: the objects that exist, and the writes of the whole run."""


class Script(Process):
    """A program of this laboratory, which prints a line of JSON when it has started."""

    def __init__(self, folder: Path, name: str, *arguments: str | Path) -> None:
        super().__init__(folder, name, [sys.executable, PROGRAMS / f"{name}.py", *arguments])

    def start(self) -> None:
        super().start()
        self.until(lambda: self.out.endswith("\n"), "begun")

    @property
    def announced(self) -> Any:
        return json.loads(self.out.splitlines()[-1])


@dataclass(slots=True)
class Ground:
    """Servers: either a real control plane or a simulator. `storage` has the links from etcd that one resource has.

    `members` are the apiservers if each has its own link. `url` and `server_name` are for clients.
    """

    plane: ControlPlane | None = None
    simulator: Simulator | None = None
    storage: Mapping[str, Proxy] = field(default_factory=dict)
    members: list[Member] = field(default_factory=list)
    lab: HighAvailability | None = None
    webhook: Script | None = None
    storm_token: str = ""

    def heal(self) -> None:
        """Start the apiservers that were killed, and wait until all are ready."""
        for apiserver in self.plane.apiservers if self.plane else ():
            if apiserver.process.exit_code is not None:
                apiserver.start()
            apiserver.wait_ready()

    def open_writer(self) -> Writer:
        """Return a client of the last apiserver that lives, or of the simulator; it goes past all links."""
        if self.plane is None:
            assert self.simulator is not None
            return Writer(self.simulator.url)
        alive = [apiserver for apiserver in self.plane.apiservers if apiserver.process.exit_code is None]
        return (alive or self.plane.apiservers)[-1].writer(self.plane.token)


def simulated(stack: contextlib.ExitStack, folder: Path, _assets: Assets, *arguments: str) -> Ground:
    return Ground(simulator=stack.enter_context(Simulator(folder, *arguments)))


def real(
    stack: contextlib.ExitStack,
    folder: Path,
    assets: Assets,
    *,
    apiservers: int = 1,
    overrides: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> Ground:
    """Start a control plane; each of `overrides` has its own link from etcd."""
    etcd = stack.enter_context(Etcd(folder, assets.etcd))
    storage = {name: stack.enter_context(Proxy(folder, f"storage-of-{name}", etcd.url)) for name in overrides}
    flags = [*flags, *(override(f"/{name}", proxy.url) for name, proxy in storage.items())]
    plane = ControlPlane(folder, assets.kube_apiserver, etcd, apiservers=apiservers, flags=flags)
    return Ground(stack.enter_context(plane), storage=storage)


def linked(stack: contextlib.ExitStack, folder: Path, assets: Assets) -> Ground:
    """Start an apiserver that streams no lists and serves two custom resources."""
    ground = real(stack, folder, assets, overrides=(FROZEN,), flags=("--feature-gates=WatchList=false",))
    with ground.open_writer() as writer:
        for plural, kind in (("gadgets", "Gadget"), ("gizmos", "Gizmo")):
            writer.create(CRDS, crd(plural, kind))
            eventually(partial(_is_served, writer, f"{CUSTOM}/{plural}"), f"{plural} are served")
    return ground


def busy(stack: contextlib.ExitStack, folder: Path, assets: Assets) -> Ground:
    """Start an apiserver with clients of all kinds, so that every figure of its own has a value."""
    ground = real(stack, folder, assets, overrides=(OVERRIDDEN, FROZEN))
    assert ground.plane is not None
    stack.enter_context(unread_watch(ground.plane))
    for client in (putting(ground.plane.etcd), creating(ground.plane), starting(ground.plane)):
        stack.enter_context(client)
    return ground


def three(stack: contextlib.ExitStack, folder: Path, assets: Assets) -> Ground:
    """Start three apiservers with links of their own, sixty changes a second, and a webhook that is not registered."""
    lab = HighAvailability(folder, assets, overrides=(f"/{OVERRIDDEN}",))
    return _of(lab, stack, folder)


def whole(stack: contextlib.ExitStack, folder: Path, assets: Assets) -> Ground:
    """Start a whole control plane in a network of its own: three etcd members, three apiservers that announce
    themselves, and controllers that roll out a deployment again and again."""
    stack.enter_context(own_network(*HOSTS, *map(behind, HOSTS)))
    lab = HighAvailability(folder, assets, overrides=(f"/{OVERRIDDEN}",), hosts=HOSTS, etcd_members=len(HOSTS))
    ground = _of(lab, stack, folder, SHARE)
    kubeconfig = lab.kubeconfig("controllers", server=lab.members[0].apiserver.url)
    found = programs.controllers(os.environ, assets.minor)
    half = stack.enter_context(Controllers(folder, found, lab.plane, kubeconfig, nodes=NODES, replicas=REPLICAS))
    stack.enter_context(rolling_out(half))
    with lab.plane.writer() as writer:
        writer.create(CRDS, crd("gadgets", "Gadget"))
    return ground


def _of(lab: HighAvailability, stack: contextlib.ExitStack, folder: Path, share: float = 1.0) -> Ground:
    stack.enter_context(lab)
    nice = min(NICEST, os.getpriority(os.PRIO_PROCESS, 0) + APISERVERS_NICE)
    for member in lab.members:
        os.setpriority(os.PRIO_PGRP, member.apiserver.process.pid, nice)
    for number in range(LISTED):
        put(lab.etcd, "ConfigMap", "default", f"listed-{number}")
    pair = lab.plane.authority.server("webhook")
    webhook = stack.enter_context(Script(folder, "webhook", pair.certificate, pair.key))
    stack.enter_context(traffic(folder, lab, share))
    storage = {name.strip("/"): proxy for name, proxy in lab.overrides.items()}
    storm_token = lab.plane.service_account("storm", EVERYTHING_READABLE)
    return Ground(lab.plane, None, storage, lab.members, lab, webhook, storm_token)


def traffic(folder: Path, lab: HighAvailability, share: float = 1.0) -> Script:
    """Return a program that makes about sixty changes a second, or a share of that."""
    settings = {
        "etcd": lab.etcd.url,
        "apiservers": [member.apiserver.url for member in lab.members],
        "ca": str(lab.plane.ca),
        "token": lab.plane.token,
        "share": share,
    }
    return Script(folder, "traffic", json.dumps(settings))


GROUNDS: Mapping[str, Callable[[contextlib.ExitStack, Path, Assets], Ground]] = {
    "hurt": partial(real, apiservers=2),
    "linked": linked,
    "busy": busy,
    "quiet": real,
    "three": three,
    "whole": whole,
    "simulated": simulated,
    "simulated-busy": lambda stack, folder, assets: simulated(stack, folder, assets, "--config", SIMULATED),
}
"""How the servers of each name are started. Faults of `hurt`, `three` and `whole` may start processes."""


def put(etcd: Etcd, kind: str, namespace: str, name: str, **fields: Any) -> None:
    """Write an object to etcd, past all apiservers."""
    metadata = {"name": name, "namespace": namespace, "uid": str(uuid.uuid4())}
    body = {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}
    etcd.put(f"/registry/{kind.lower()}s/{namespace}/{name}", body)


def _is_served(writer: Writer, collection: str) -> bool:
    try:
        writer.revision(collection)
    except StatusError:
        return False
    return True
