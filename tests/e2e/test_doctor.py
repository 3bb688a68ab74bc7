"""`watchslo doctor` against a real apiserver, a daemon and the Prometheus that scrapes it: right, then broken."""

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.support.assets import Assets
from tests.support.control_plane import EVERYTHING_READABLE, ControlPlane, Etcd
from tests.support.daemon import Daemon, config_file, outside, watchslo
from tests.support.process import eventually
from tests.support.prometheus import Prometheus, scraping
from tests.support.writer import StatusError, Writer, crd
from watchslo.config.loading import load
from watchslo.rules.pack import plain, prometheus_rule
from watchslo.rules.settings import RuleSettings

GROUP = "monitoring.coreos.com"
OPERATOR = f"/apis/{GROUP}/v1/namespaces"
NAMESPACE, THEIRS = "slo", "hidden-namespace"
TOO_SLOW = re.compile(
    r"This took longer than|no answer within|No answer from|it answers 503|cannot be scraped|It is not ready"
)
"""What doctor finds of processes that stood still: nothing is wrong with the deployment."""
LABELS = {"release": "prometheus"}
EVERYWHERE: dict[str, Any] = {
    "podMonitorSelector": {"matchLabels": LABELS},
    "podMonitorNamespaceSelector": {},
    "ruleSelector": {"matchLabels": LABELS},
    "ruleNamespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
}
CONFIG = {  # a threshold that no machine is too slow for
    "watch": [{"resource": "configmaps"}, {"resource": "leases.coordination.k8s.io"}],
    "objective": {"threshold": "30s"},
}
BLIND = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}


@dataclass(frozen=True)
class Deployment:
    """A daemon with its configuration and kubeconfig, the Prometheus that scrapes it, and its apiserver."""

    plane: ControlPlane
    folder: Path
    config: Path
    kubeconfig: Path
    daemon: Daemon
    prometheus: Prometheus

    def doctor(self, *arguments: str | Path, **replaced: Path) -> tuple[int, str]:
        """Return the exit code and the output of the command."""
        given = {"config": self.config, "kubeconfig": self.kubeconfig, **replaced}
        options = [part for name, path in given.items() for part in (f"--{name}", path)]
        done = watchslo("doctor", *options, "--namespace", NAMESPACE, *arguments, env=outside())
        assert done.stderr == ""
        assert "hidden-" not in done.stdout, "no name of an object of users is printed"
        return done.returncode, done.stdout

    def findings(self, *arguments: str | Path, **replaced: Path) -> list[dict[str, str]]:
        """Return the findings about the daemon and its Prometheus; ask again while the machine is too busy for them."""

        def asked() -> list[dict[str, str]] | None:
            found = self._findings(*arguments, **replaced)
            return None if any(TOO_SLOW.search(finding["text"]) for finding in found) else found

        return eventually(asked, "all answer in time")

    def _findings(self, *arguments: str | Path, **replaced: Path) -> list[dict[str, str]]:
        urls = ("--instance", self.daemon.url, "--prometheus", self.prometheus.url)
        code, output = self.doctor(*urls, "-o", "json", *arguments, **replaced)
        answer = json.loads(output)
        assert answer["exitCode"] == code == int(answer["findings"][0]["level"] == "problem")
        found: list[dict[str, str]] = answer["findings"]
        return found


@pytest.fixture(scope="module")
def deployment(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("doctor")
    config = config_file(folder, **CONFIG)
    rules = folder / "rules.yaml"
    rules.write_text(yaml.safe_dump(plain(load(config)[0], RuleSettings())))
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(Etcd(folder, assets.etcd))
        plane = stack.enter_context(ControlPlane(folder, assets.kube_apiserver, etcd))
        install_operator(plane, config)
        kubeconfig = plane.kubeconfig("doctor", {"token": plane.service_account("doctor", EVERYTHING_READABLE)})
        own = ("--config", config, "--kubeconfig", kubeconfig)
        daemon = stack.enter_context(Daemon(folder / "daemon", *own))
        scraped = {**scraping(daemon.url), "rule_files": [str(rules)]}
        scraped["global"] = {"scrape_interval": "5s", "evaluation_interval": "1s"}
        prometheus = stack.enter_context(Prometheus(folder / "prometheus", scraped))
        daemon.until_measuring("configmaps", "leases.coordination.k8s.io")
        prometheus.process.until(lambda: prometheus.value("up") == 1.0, "scraping")
        yield Deployment(plane, folder, config, kubeconfig, daemon, prometheus)


def install_operator(plane: ControlPlane, config: Path) -> None:
    """Create what the Prometheus operator would select: a monitor and rules of watchslo, and a Prometheus."""
    rule = prometheus_rule(load(config)[0], RuleSettings(), LABELS)
    selector = {"matchLabels": {"app.kubernetes.io/name": "watchslo"}}
    monitor = {"metadata": {"name": "watchslo", "labels": LABELS}, "spec": {"selector": selector}}
    with plane.writer() as writer:
        for namespace in (NAMESPACE, THEIRS):
            writer.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        create_custom(writer, NAMESPACE, "PodMonitor", "podmonitors", monitor)
        create_custom(writer, NAMESPACE, "PrometheusRule", "prometheusrules", rule)
        create_custom(
            writer, THEIRS, "Prometheus", "prometheuses", {"metadata": {"name": "hidden-name"}, "spec": EVERYWHERE}
        )


def create_custom(writer: Writer, namespace: str, kind: str, plural: str, body: dict[str, Any]) -> None:
    """Create a CRD of the operator, and an object as soon as it is served."""
    writer.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd(plural, kind, GROUP))

    def created() -> bool:
        with contextlib.suppress(StatusError):
            writer.create(f"{OPERATOR}/{namespace}/{plural}", {"apiVersion": f"{GROUP}/v1", "kind": kind, **body})
            return True
        return False

    eventually(created, f"{kind} served")


def of(findings: list[dict[str, str]], subject: str) -> list[tuple[str, str]]:
    return [(finding["level"], finding["text"]) for finding in findings if finding["subject"] == subject]


def problems(findings: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the problems, without those that only a busy machine has."""
    return [one for one in findings if one["level"] == "problem" and "Can it be trusted?" not in one["text"]]


def test_deployment_that_is_right_has_no_problem(deployment: Deployment) -> None:
    found = deployment.findings()
    assert problems(found) == []
    for subject in ("addresses", "apiservers", "rights", "ticks", "wall clocks", "revisions", "scrapes", "version"):
        assert [level for level, _ in of(found, subject)] == ["good"], (subject, found)
    assert of(found, "monitor") == [("good", "A Prometheus selects 1 PodMonitor of watchslo.")]
    selected, loaded = of(found, "rules")
    assert selected == ("good", "A Prometheus selects 1 PrometheusRule of watchslo.")
    assert loaded[0] == "good"
    assert "as this configuration makes them" in loaded[1]
    assert ("good", "It is ready.") in of(found, "instance")
    assert of(found, "alerts")[0][0] == "warning", "there is no Alertmanager"
    assert any("panels show data." in text for _, text in of(found, "dashboards"))
    assert any("Prometheus does not scrape the apiservers." in text for _, text in of(found, "dashboards"))


def test_each_fault_is_a_problem_with_its_remedy(deployment: Deployment) -> None:
    (deployment.folder / "other").mkdir()
    config = config_file(deployment.folder / "other", **{**CONFIG, "objective": {"threshold": "20s"}})
    token = deployment.plane.service_account("blind", BLIND)
    blind = deployment.plane.kubeconfig("blind", {"token": token})
    found = deployment.findings(config=config, kubeconfig=blind)
    assert any(
        level == "problem" and "may not list and watch leases.coordination.k8s.io" in text
        for level, text in of(found, "rights")
    )
    assert any(level == "problem" and "differ from the rules" in text for level, text in of(found, "rules"))
    assert of(found, "monitor")[0][0] == "unchecked", "this identity may not read monitors"


def test_monitor_that_no_prometheus_selects_is_a_problem(deployment: Deployment) -> None:
    def want(label: str | None) -> list[dict[str, str]]:
        """Make the Prometheus select monitors by one more label, and return the problems."""
        change = {"spec": {"podMonitorSelector": {"matchLabels": {"x": label}}}}
        with deployment.plane.writer() as writer:
            writer.patch(f"{OPERATOR}/{THEIRS}/prometheuses/hidden-name", change)
        return problems(deployment.findings())

    (problem,) = want("y")
    assert problem["text"] == "None of 1 Prometheus object selects 1 PodMonitor of watchslo."
    assert "podMonitorSelector" in problem["remedy"]
    assert want(None) == []


def test_unreachable_apiserver_is_one_problem(deployment: Deployment) -> None:
    port = urlsplit(deployment.plane.url).port
    nowhere = deployment.plane.kubeconfig("nowhere", server=f"https://127.0.0.2:{port}")
    code, output = deployment.doctor(kubeconfig=nowhere)
    lines = output.splitlines()
    assert code == 1
    assert [line.split()[0] for line in lines].count("problem") == 1
    assert f"Connection refused by https://127.0.0.2:{port}" in lines[0]
    assert lines[-1].startswith("Not right: 1 problem")


def test_stopped_daemon_is_explained(deployment: Deployment) -> None:
    url = deployment.daemon.url
    deployment.daemon.process.stop()
    prometheus = deployment.prometheus
    prometheus.process.until(lambda: prometheus.value("up") == 0.0, "noticing")
    said = (
        "1 of 1 target cannot be scraped: the connection is refused.",
        f"{url}: the connection is refused; check that the daemon runs.",
    )

    def explained() -> bool:
        """Prometheus may be too slow for the command."""
        code, output = deployment.doctor("--instance", url, "--prometheus", prometheus.url)
        assert code == 1
        return all(sentence in output for sentence in said)

    eventually(explained, "both are explained")
