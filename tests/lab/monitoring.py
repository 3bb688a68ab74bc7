"""Prometheus as operators run it: it scrapes all clusters of the stage, and evaluates what `watchslo rules` writes.

The rules of one Prometheus are shrunk so much that an alert with a window of three days fires within minutes. The
windows of the other one are longer, because the events that its alerts count cannot happen faster.
"""

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml

from tests.lab.faults import CROWD, IN_CROWD, OBJECTIVE
from tests.lab.judges.alerts import Poller
from tests.lab.scene import Scene
from tests.support.alertmanager import Alertmanager
from tests.support.control_plane import HOST, ControlPlane
from tests.support.daemon import WATCHSLO, config_file, watchslo
from tests.support.process import Process
from tests.support.prometheus import Prometheus
from tools.dashboards.queries import queries, variables

DASHBOARDS = Path(__file__).parents[2] / "dashboards"
HOURS_SHRINK, DAYS_SHRINK = 30, 360  # the alert of three days needs a day of history: 4 minutes
DEMO, REAL = "demo", "late"  # clusters: the demo, and the real one whose apiserver Prometheus scrapes, too
PAGE = re.compile(r"The page: (http://\S+)/ ")
PACKS = ((), ("--fleet", "cluster"), ("--fleet", "global"))  # as if this were each cluster and the global level
SCRAPE_SECONDS = 5
"""On call; the PodMonitor that is shipped scrapes every 30 s."""
UNANSWERED: Mapping[str, str] = {
    "[48m]) * 2 >= 720": "six hours of history, as the hours of this Prometheus are long",
    "[144m]) * 2 >= 2880": "a day of history, as the hours of this Prometheus are long",
}
"""A part of each query that gets no answer here, and what an answer would need."""
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


class Demo(Process):
    """`watchslo demo`, with all faults that it makes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "demo", [WATCHSLO, "demo", "--listen", f"{HOST}:0"])

    def start(self) -> None:
        super().start()
        self.until(lambda: PAGE.search(self.out) is not None, "listening")

    @property
    def url(self) -> str:
        found = PAGE.search(self.out)
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


class Monitoring:
    """Two Prometheuses and what polls them, while its context is open; the first scrapes everything.

    Only the `whole` monitoring has a demo, and the second one exists for the cluster of the slow alerts.
    """

    def __init__(self, folder: Path, scenes: Mapping[str, Scene], *, whole: bool) -> None:
        self._folder = folder
        self._whole = whole
        self._scenes = scenes
        self._stack = contextlib.ExitStack()
        self.sources = dict(sources(rules(folder, HOURS_SHRINK)))

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._demo = stack.enter_context(Demo(self._folder)) if self._whole else None
            targets = list(self._targets())
            plane = self._scenes[REAL].plane if REAL in self._scenes else None
            self._hours = self._prometheus(stack, "hours", HOURS_SHRINK, targets, plane)
            of_days = [target for target in targets if target.cluster == REAL]
            self._days = self._prometheus(stack, "days", DAYS_SHRINK, of_days, None) if of_days else self._hours
            scraped = partial(self._hours.value, 'count(up{job="watchslo"} == 1)')
            self._hours.process.until(lambda: scraped() == len(targets), "all targets are up")
            self.hours = stack.enter_context(Poller(self._hours, self.sources))
            self.days = stack.enter_context(Poller(self._days))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def complaints(self) -> Iterator[str]:
        """Yield a sentence for each query without an answer, each that fails, and each warning of Prometheus."""
        if self._demo and "Traceback" in self._demo.err:
            yield f"the demo fails: {self._demo.tail()}"
        for query, source in self.sources.items():
            if query in self.hours.unanswered and not excuse(query):
                yield f"{source} has no answer: {query}"
            if query not in self.hours.unanswered and excuse(query):
                yield f"{source} has an answer, and needs no excuse: {query}"
        yield from (f"{query} fails: {error}" for query, error in self.hours.wrong.items())
        yield from (f"Prometheus warns: {line}" for line in (*self._hours.warnings(), *self._days.warnings()))
        for text in self.hours.annotations | self.days.annotations:
            if "<error" in text or "{{" in text or "<no value>" in text:
                yield f"a template has errors: {text}"

    def waits_for(self) -> list[str]:
        """Return the queries that should have an answer, and have none so far."""
        return [query for query in tuple(self.hours.unanswered) if not excuse(query)]

    def _targets(self) -> Iterator[Target]:
        """Yield one instance for each cluster; the crowd has the starved one and healthy ones."""
        demo = [self._demo.url] if self._demo else []
        yield from (Target(url, DEMO, "watchslo-demo") for url in demo)
        urls = {cluster: scene.daemon.url for cluster, scene in self._scenes.items()}
        for cluster, url in urls.items():
            yield Target(url, cluster, f"watchslo-{cluster}")
        if "starved" in urls:
            crowd = [*demo, *(url for cluster, url in urls.items() if cluster in IN_CROWD)]
            yield from (Target(url, CROWD, f"watchslo-{number}") for number, url in enumerate(crowd))

    def _prometheus(
        self, stack: contextlib.ExitStack, name: str, shrink: int, targets: Sequence[Target], plane: ControlPlane | None
    ) -> Prometheus:
        folder = self._folder / name
        folder.mkdir()
        groups = [group for options in PACKS for group in rules(folder, shrink, *options)["groups"]]
        (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}, sort_keys=False))
        configuration = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "rule_files": [str(folder / "rules.yaml")],
            "scrape_configs": [_of_watchslo(targets)] + ([_of_apiserver(plane)] if plane else []),
        }
        return stack.enter_context(Prometheus(folder, configuration))


def shipped(
    stack: contextlib.ExitStack, folder: Path, rules: Sequence[Mapping[str, Any]], job: str, urls: Sequence[str]
) -> tuple[Prometheus, Alertmanager]:
    """Start a Prometheus with files of rules as shipped, which scrapes daemons as one job, and its Alertmanager."""
    folder.mkdir()
    inhibitions = watchslo("rules", "-o", "inhibitions")
    manager = stack.enter_context(Alertmanager(folder / "alertmanager", yaml.safe_load(inhibitions.stdout)))
    files = [folder / f"rules-{number}.yaml" for number in range(len(rules))]
    for file, content in zip(files, rules, strict=True):
        file.write_text(yaml.safe_dump(dict(content), sort_keys=False))
    targets = [{"targets": [urlsplit(url).netloc]} for url in urls]
    configuration = {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": f"{SCRAPE_SECONDS}s"},
        "rule_files": [str(file) for file in files],
        "scrape_configs": [{"job_name": job, "static_configs": targets}],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [urlsplit(manager.url).netloc]}]}]},
    }
    return stack.enter_context(Prometheus(folder / "prometheus", configuration)), manager


def rules(folder: Path, shrink: int, *options: str) -> dict[str, Any]:
    """Return the output of `watchslo rules` for the objective of all clusters."""
    config = config_file(folder, objective=OBJECTIVE)
    return written_rules(config, "--cluster-label", "cluster", "--shrink", str(shrink), *options)


def written_rules(config: Path, *options: str) -> dict[str, Any]:
    """Return what `watchslo rules` writes for a configuration."""
    done = watchslo("rules", "--config", config, "-o", "plain", "--alerts", "all", *options)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = yaml.safe_load(done.stdout)
    return found


def sources(written: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each query of the dashboards and of the rules, and where it is from."""
    for path in sorted(DASHBOARDS.glob("*.json")):
        dashboard = json.loads(path.read_text())
        yield from ((query, f"{path.stem}: {title}") for title, query in queries(dashboard))
        yield from ((query, f"{path.stem}: ${name}") for name, query in variables(dashboard))
    for group in written["groups"]:
        for rule in group["rules"]:
            yield rule["expr"], f"{group['name']}: {rule.get('record') or rule['alert']}"


def excuse(query: str) -> str | None:
    """Return the reason why a query may stay without an answer, or None."""
    return next((why for part, why in UNANSWERED.items() if part in query), None)


def _of_watchslo(targets: Iterable[Target]) -> dict[str, Any]:
    return {
        "job_name": "serviceMonitor/monitoring/watchslo/0",
        "honor_labels": False,
        "static_configs": [target.group() for target in targets],
        "relabel_configs": [dict(rule) for rule in OPERATOR],
    }


def _of_apiserver(plane: ControlPlane) -> dict[str, Any]:
    labels = {"cluster": REAL, "__meta_kubernetes_namespace": "default", "__meta_kubernetes_service_name": "kubernetes"}
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
