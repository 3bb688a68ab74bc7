"""The stage of the faults: three apiservers, sixty writes per second, and a daemon that diagnoses them.

All of this shares two cores. Apiservers and the clients of a storm run with lower priority than the daemon, so that a
busy apiserver does not delay the daemon. On a machine of its own the daemon would not be delayed either.
"""

import base64
import contextlib
import json
import os
import sys
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from tests.confusion.answers import Answer
from tests.support.assets import Assets
from tests.support.control_plane import EVERYTHING_READABLE, MAY_SCRAPE
from tests.support.daemon import Daemon, config_file
from tests.support.high_availability import HighAvailability, Member
from tests.support.process import Process
from watchslo.snapshot import Cause, Confidence

HERE = Path(__file__).parent
HTTP_SECONDS = 30.0
APISERVERS_NICE, STORM_NICE = 5, 15
FILLED, FILLING, FILLING_BYTES = (
    "kube-public",
    1500,
    1000,
)  # what a storm lists: a namespace, the number of its secrets, their size in bytes
LISTED = (
    300  # config maps that never change: with small pages and few requests per second, a list takes several seconds
)
OVERRIDDEN = "configmaps"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
WATCHES: tuple[dict[str, Any], ...] = (
    {"resource": "configmaps", "namespace": "default", "list": "paged", "pageSize": 10},
    {"resource": "secrets", "namespace": "default"},
    {"resource": "serviceaccounts", "namespace": "default"},
    {"resource": "pods", "creation": True},
)


class Script(Process):
    """A program in this folder, which prints a line of JSON when it has started."""

    def __init__(self, folder: Path, name: str, *arguments: str | Path) -> None:
        super().__init__(folder, name, [sys.executable, HERE / f"{name}.py", *arguments])

    def __enter__(self) -> Self:
        self.start()
        try:
            self.until(lambda: self.out.endswith("\n"), "begun")
        except BaseException:
            self.kill()
            raise
        return self

    @property
    def announced(self) -> Any:
        return json.loads(self.out.splitlines()[-1])


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


class Stage:
    """The control plane, its writers, a webhook that is not registered yet, and the daemon.

    As in a DaemonSet, the daemon may watch one apiserver only; the others are then its witnesses. With
    `apiserver_metrics`, it also reads what the apiservers publish of themselves.
    """

    def __init__(
        self,
        folder: Path,
        assets: Assets,
        watches: Sequence[Mapping[str, Any]] = WATCHES,
        *,
        daemonset: bool = False,
        apiserver_metrics: bool = False,
    ) -> None:
        self.folder = folder
        self._daemonset = daemonset
        self._apiserver_metrics = apiserver_metrics
        self.watches = [str(watch.get("name", watch["resource"])) for watch in watches]
        self.lab = HighAvailability(folder, assets, overrides=(f"/{OVERRIDDEN}",))
        self._configured = [dict(watch) for watch in watches]
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            lab = stack.enter_context(self.lab)
            for member in lab.members:
                os.setpriority(os.PRIO_PGRP, member.apiserver.process.pid, APISERVERS_NICE)
            self._fill()
            self.token = lab.plane.service_account("watchslo", EVERYTHING_READABLE, MAY_SCRAPE)
            self._storm_token = lab.plane.service_account("storm", EVERYTHING_READABLE)
            self.webhook = stack.enter_context(self._webhook())
            stack.enter_context(traffic(self.folder, self.lab))
            self.daemon = stack.enter_context(self._daemon())
            self.until_measuring()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def until_measuring(self) -> None:
        """Wait until all watches are measured."""
        count = len(self.watches) * len(self.watched)
        self.daemon.process.until(lambda: self._measured() >= count, f"{count} watches measured", 0.5)

    @property
    def watched(self) -> list[Member]:
        """The apiservers that the daemon watches; a fault of one apiserver is made at one of them."""
        return self.lab.members[:1] if self._daemonset else self.lab.members

    def diagnosis(self) -> list[Answer]:
        """Return the causes that the daemon names now, the most certain first."""
        return [
            Answer(Cause(cause["cause"]), cause["apiserver"], cause["watch"], Confidence(cause["confidence"]))
            for cause in self.daemon.status()["causes"]
        ]

    def evidence(self) -> list[str]:
        """Return the evidence of the causes that the daemon names now, for the report."""
        status = self.daemon.status()
        now = datetime.fromisoformat(status["at"])
        return [
            f"{cause['cause']} {cause['apiserver'] or '-'} {cause['watch'] or '-'} {cause['confidence']} "
            f"({(now - datetime.fromisoformat(cause['since'])).total_seconds():.0f} s): {cause['evidence']}"
            for cause in status["causes"]
        ]

    @contextlib.contextmanager
    def slow_webhook(self, seconds: float) -> Iterator[None]:
        """Let creations of pods wait for the webhook, which answers after `seconds`."""
        request = urllib.request.Request(f"{self.webhook.announced['control']}/late", str(seconds).encode())
        urllib.request.urlopen(request, timeout=HTTP_SECONDS).close()
        with self.lab.writer() as writer:
            writer.create(WEBHOOKS, self._registration())
        try:
            yield
        finally:
            with self.lab.writer() as writer:
                writer.delete(f"{WEBHOOKS}/slow")

    @contextlib.contextmanager
    def storm(self, member: Member, clients: int, pause: float) -> Iterator[None]:
        """Let `clients` clients of an apiserver list repeatedly."""
        settings = {
            "url": member.apiserver.url,
            "ca": str(self.lab.plane.ca),
            "token": self._storm_token,
            "paths": [f"/api/v1/namespaces/{FILLED}/secrets"],
            "clients": clients,
            "pause": pause,
        }
        with Script(self.folder, "storm", json.dumps(settings)) as storm:
            os.setpriority(os.PRIO_PGRP, storm.pid, STORM_NICE)
            yield

    def _fill(self) -> None:
        for number in range(FILLING):
            name, filling = f"filling-{number}", base64.b64encode(b"x" * FILLING_BYTES).decode()
            metadata = {"name": name, "namespace": FILLED, "uid": str(uuid.uuid4())}
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"filling": filling}}
            self.lab.etcd.put(f"/registry/secrets/{FILLED}/{name}", secret)
        for number in range(LISTED):
            name = f"listed-{number}"
            metadata = {"name": name, "namespace": "default", "uid": str(uuid.uuid4())}
            listed = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
            self.lab.etcd.put(f"/registry/{OVERRIDDEN}/default/{name}", listed)

    def _registration(self) -> dict[str, Any]:
        bundle = base64.b64encode(self.lab.plane.ca.read_bytes()).decode()
        webhook = {
            "name": "slow.tests.watchslo.invalid",
            "clientConfig": {"url": self.webhook.announced["url"], "caBundle": bundle},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "timeoutSeconds": 10,
        }
        return {"metadata": {"name": "slow"}, "webhooks": [webhook]}

    def _measured(self) -> int:
        return sum(stream["up"] and stream["membership"] == "member" for stream in self.daemon.status()["streams"])

    def _daemon(self) -> Daemon:
        apiservers = [member.url for member in self.watched] if self._daemonset else "each"
        kubernetes = {"apiservers": apiservers, "apiserverMetrics": self._apiserver_metrics}
        config = config_file(self.folder, watch=self._configured, kubernetes=kubernetes, metrics="full")
        kubeconfig = self.lab.kubeconfig("watchslo", {"token": self.token})
        return Daemon(self.folder / "daemon", "--config", config, "--kubeconfig", kubeconfig)

    def _webhook(self) -> Script:
        pair = self.lab.plane.authority.server("webhook")
        return Script(self.folder, "webhook", pair.certificate, pair.key)
