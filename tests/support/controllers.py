"""The other half of a control plane: controller manager, scheduler, and kwok, which plays the kubelets of all nodes.

    with ControlPlane(...) as plane, Controllers(folder, assets.controllers(env), plane, plane.kubeconfig()) as half:
        half.roll_out("1")      # the pods of the deployment are replaced, scheduled and started

None of them elects a leader: there is one of each, and it must outlive an apiserver that hangs.
"""

import os
from pathlib import Path
from typing import Any

from tests.support.assets import ControllerAssets
from tests.support.control_plane import ControlPlane
from tests.support.process import Process, Started
from tests.support.writer import Writer

STAGES = Path(__file__).with_name("kwok_stages.yaml")
NODES = "/api/v1/nodes"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SERVICES = "/api/v1/namespaces/default/services"
NAME = "rolled-out"
ROOM = {"cpu": "32", "memory": "256Gi", "pods": "110"}
LEASE_SECONDS = 40
NICER, NICEST = 10, 19  # the daemon must not be late because of them


class Controllers(Started):
    """Runs them against the server of a kubeconfig, with so many nodes, and a deployment of so many replicas.

    `stages` is the file by which kwok plays the kubelets.
    """

    def __init__(
        self,
        folder: Path,
        programs: ControllerAssets,
        plane: ControlPlane,
        kubeconfig: Path,
        *,
        nodes: int = 20,
        replicas: int = 20,
        stages: Path = STAGES,
    ) -> None:
        self._plane = plane
        self._nodes = nodes
        self._replicas = replicas
        connected = [f"--{kind}={kubeconfig}" for kind in ("kubeconfig", "authentication-kubeconfig")]
        connected += [f"--authorization-kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0"]
        manager = [
            "--controllers=*,-serviceaccount-token-controller",
            f"--service-account-private-key-file={plane.signing_key}",
        ]
        kubelets = ["--manage-all-nodes=true", f"--node-lease-duration-seconds={LEASE_SECONDS}", f"--config={stages}"]
        self.manager = Process(folder, "controller-manager", [programs.controller_manager, *connected, *manager])
        self.scheduler = Process(folder, "scheduler", [programs.scheduler, *connected])
        self.kubelets = Process(folder, "kwok", [programs.kwok, f"--kubeconfig={kubeconfig}", *kubelets])

    def start(self) -> None:
        """Start all, and wait until the deployment is available."""
        nice = min(NICEST, os.getpriority(os.PRIO_PROCESS, 0) + NICER)
        for process in (self.manager, self.scheduler, self.kubelets):
            process.start()
            os.setpriority(os.PRIO_PGRP, process.pid, nice)
        with self._plane.writer() as writer:
            for number in range(self._nodes):
                writer.create(NODES, _node(f"node-{number}"))
            writer.create(DEPLOYMENTS, deployment(NAME, self._replicas))
            self.manager.until(lambda: self._available(writer), "the deployment is available", 1.0)

    def close(self) -> None:
        for process in (self.kubelets, self.scheduler, self.manager):
            process.kill()

    def roll_out(self, version: str) -> None:
        """Replace all pods of the deployment, some at a time."""
        with self._plane.writer() as writer:
            writer.patch(f"{DEPLOYMENTS}/{NAME}", restarted(version))

    def expose(self) -> None:
        """Create a service that routes to the pods of the deployment."""
        with self._plane.writer() as writer:
            writer.create(SERVICES, service(NAME))

    def _available(self, writer: Writer) -> bool:
        status = writer.get(f"{DEPLOYMENTS}/{NAME}").get("status", {})
        return bool(status.get("availableReplicas") == self._replicas)


def _node(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"allocatable": ROOM, "capacity": ROOM}}


def deployment(name: str, replicas: int) -> dict[str, Any]:
    """Return a deployment of so many pods."""
    labels = {"app": name}
    containers = [{"name": "main", "image": "example.invalid/none:1"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


def restarted(version: str) -> dict[str, Any]:
    """Return the change of a deployment that replaces all its pods."""
    return {"spec": {"template": {"metadata": {"annotations": {"version": version}}}}}


def service(name: str) -> dict[str, Any]:
    """Return the service that routes to the pods of a deployment."""
    return {"metadata": {"name": name}, "spec": {"selector": {"app": name}, "ports": [{"port": 80}]}}
