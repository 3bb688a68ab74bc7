"""Starts everything: the clusters, `watchslo demo`, a daemon for each lane, and two Prometheuses that scrape them.

The rules of one Prometheus are shrunk so much that an alert with a window of three days fires within minutes. The
windows of the other one are longer, because the events that its alerts count cannot happen faster.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml

from tests.e2e.slo_pack.clients import Creating, Putting, Starting, unread_watch
from tests.e2e.slo_pack.lanes import CROWD, IN_CROWD, SIMULATED, Lane
from tests.e2e.slo_pack.place import FROZEN_RESOURCE, LATE_RESOURCE, OBJECTIVE, Ground, Place, configured
from tests.support.assets import Assets
from tests.support.control_plane import (
    EVERYTHING_READABLE,
    HOST,
    MAY_SCRAPE,
    ControlPlane,
    Etcd,
    override,
    write_kubeconfig,
)
from tests.support.daemon import WATCHSLO, Daemon, Proxy, Simulator, config_file, watchslo
from tests.support.process import Process
from tests.support.prometheus import Prometheus

HOURS_SHRINK, DAYS_SHRINK = 30, 360  # the alert of three days needs a day of history: 4 minutes
DEMO, REAL = "demo", "late"  # clusters: the demo, and the real one whose apiserver Prometheus scrapes, too
PAGE = re.compile(r"The page: (http://\S+)/ ")

OPERATOR: Sequence[Mapping[str, Any]] = (
    {"source_labels": ["job"], "target_label": "__tmp_prometheus_job_name"},
    {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
    {"source_labels": ["__meta_kubernetes_service_name"], "target_label": "service"},
    {"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"},
    {"source_labels": ["__meta_kubernetes_pod_container_name"], "target_label": "container"},
    {"source_labels": ["__meta_kubernetes_service_name"], "target_label": "job"},
    {"target_label": "endpoint", "replacement": "metrics"},
)
"""The relabelling that the Prometheus operator generates from a ServiceMonitor."""


class Demo:
    """`watchslo demo`, with all faults that it makes."""

    def __init__(self, folder: Path) -> None:
        self.process = Process(folder, "demo", [WATCHSLO, "demo", "--listen", f"{HOST}:0"])

    def __enter__(self) -> Self:
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()
        assert "Traceback" not in self.process.err, self.process.tail()

    def until_listening(self) -> None:
        self.process.until(lambda: PAGE.search(self.process.out) is not None, "listening")

    @property
    def url(self) -> str:
        found = PAGE.search(self.process.out)
        assert found
        return found[1]


@dataclass(frozen=True, slots=True)
class Target:
    """A target of Prometheus: an instance of watchslo in a cluster."""

    url: str
    cluster: str
    pod: str

    def group(self) -> dict[str, Any]:
        """Return the target with the labels of the service discovery."""
        labels = {
            "cluster": self.cluster,
            "__meta_kubernetes_namespace": "monitoring",
            "__meta_kubernetes_service_name": "watchslo",
            "__meta_kubernetes_pod_name": self.pod,
            "__meta_kubernetes_pod_container_name": "watchslo",
        }
        return {"targets": [urlsplit(self.url).netloc], "labels": labels}


class Stage:
    """All processes of these lanes, while its context is open.

    `places` are those of the lanes, by cluster. `hours` and `days` are the Prometheuses; the first scrapes everything.
    """

    def __init__(self, folder: Path, assets: Assets, lanes: Iterable[Lane]) -> None:
        self._folder = folder
        self._assets = assets
        self._lanes = tuple(lanes)
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            ground = self._ground(stack)
            demo = stack.enter_context(Demo(self._folder))
            self.places = {lane.cluster: self._open(stack, ground, lane) for lane in self._lanes}
            demo.until_listening()
            for place in self.places.values():
                place.daemon.until_listening()
            stack.enter_context(unread_watch(ground.plane))
            stack.enter_context(Creating(ground.plane))
            stack.enter_context(Starting(ground.plane))
            targets = list(self._targets(demo))
            self.hours = self._prometheus(stack, "hours", HOURS_SHRINK, targets, ground.plane)
            of_days = [target for target in targets if target.cluster == REAL]
            self.days = self._prometheus(stack, "days", DAYS_SHRINK, of_days, None)
            scraped = partial(self.hours.value, 'count(up{job="watchslo"} == 1)')
            self.hours.process.until(lambda: scraped() == len(targets), "all targets are up")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def rules(self, shrink: int, *options: str) -> dict[str, Any]:
        """Return the output of `watchslo rules` for the objective of all daemons."""
        config = config_file(self._folder, objective=OBJECTIVE)
        arguments = ("--format", "plain", "--cluster-label", "cluster", "--shrink", str(shrink), *options)
        done = watchslo("rules", "--config", config, *arguments)
        assert done.returncode == 0, done.stderr
        rules: dict[str, Any] = yaml.safe_load(done.stdout)
        return rules

    def _ground(self, stack: contextlib.ExitStack) -> Ground:
        folder, assets = self._folder, self._assets
        simulator = stack.enter_context(Simulator(folder, "--config", SIMULATED))
        etcd = stack.enter_context(Etcd(folder, assets.etcd))
        storage = {
            resource: stack.enter_context(Proxy(folder, f"storage-of-{resource}", etcd.url))
            for resource in (LATE_RESOURCE, FROZEN_RESOURCE)
        }
        flags = [override(f"/{resource}", proxy.url) for resource, proxy in storage.items()]
        plane = stack.enter_context(ControlPlane(folder, assets.kube_apiserver, etcd, flags=flags))
        stack.callback(plane.apiservers[0].process.kill)  # a clean end takes seconds
        stack.enter_context(Putting(etcd))
        return Ground(plane, storage, simulator)

    def _open(self, stack: contextlib.ExitStack, ground: Ground, lane: Lane) -> Place:
        """Start a daemon and its proxy, without waiting until the daemon listens."""
        folder = self._folder / lane.cluster
        folder.mkdir()
        plane = ground.plane
        url = plane.url if lane.real else ground.simulator.url
        proxy = stack.enter_context(Proxy(folder, "link", url)) if lane.linked else None
        server = proxy.url if proxy else url
        if lane.real:
            token = plane.service_account(lane.cluster, EVERYTHING_READABLE, MAY_SCRAPE)
            kubeconfig = plane.kubeconfig(lane.cluster, {"token": token}, server=server)
        else:
            kubeconfig = folder / "kubeconfig"
            write_kubeconfig(kubeconfig, {"server": server}, {})
        keys = {**lane.keys, "kubernetes": {"apiservers": [server, url]}} if lane.twice else lane.keys
        config = configured(folder, lane.watches, keys)
        daemon = Daemon(folder / "daemon", "--config", config, "--kubeconfig", kubeconfig)
        stack.callback(daemon.__exit__)
        daemon.process.start()
        return Place(lane.cluster, ground, folder, lane.watches, keys, daemon, proxy)

    def _targets(self, demo: Demo) -> Iterator[Target]:
        """Yield one instance for each cluster; the crowd has the starved one and healthy ones."""
        yield Target(demo.url, DEMO, "watchslo-demo")
        for cluster, place in self.places.items():
            yield Target(place.daemon.url, cluster, f"watchslo-{cluster}")
        if "starved" in self.places:
            of_crowd = [place.daemon.url for cluster, place in self.places.items() if cluster in IN_CROWD]
            for number, url in enumerate([demo.url, *of_crowd]):
                yield Target(url, CROWD, f"watchslo-{number}")

    def _prometheus(
        self,
        stack: contextlib.ExitStack,
        name: str,
        shrink: int,
        targets: Sequence[Target],
        plane: ControlPlane | None,
    ) -> Prometheus:
        folder = self._folder / name
        folder.mkdir()
        packs = ((), ("--fleet", "cluster"), ("--fleet", "global"))  # as if this were each cluster and the global level
        groups = [group for options in packs for group in self.rules(shrink, *options)["groups"]]
        (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}, sort_keys=False))
        jobs = [_of_watchslo(targets)] + ([_of_apiserver(plane)] if plane else [])
        configuration = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "rule_files": [str(folder / "rules.yaml")],
            "scrape_configs": jobs,
        }
        return stack.enter_context(Prometheus(folder, configuration))


def _of_watchslo(targets: Iterable[Target]) -> dict[str, Any]:
    return {
        "job_name": "serviceMonitor/monitoring/watchslo/0",
        "honor_labels": False,
        "static_configs": [target.group() for target in targets],
        "relabel_configs": [dict(rule) for rule in OPERATOR],
    }


def _of_apiserver(plane: ControlPlane) -> dict[str, Any]:
    labels = {
        "cluster": REAL,
        "__meta_kubernetes_namespace": "default",
        "__meta_kubernetes_service_name": "kubernetes",
    }
    return {
        "job_name": "serviceMonitor/default/kubernetes/0",
        "honor_labels": False,
        "scheme": "https",
        "scrape_interval": "5s",
        "scrape_timeout": "5s",
        "authorization": {"credentials": plane.token},
        "tls_config": {"ca_file": str(plane.ca)},
        "static_configs": [{"targets": [urlsplit(plane.url).netloc], "labels": labels}],
        "relabel_configs": [dict(rule) for rule in OPERATOR],
    }
