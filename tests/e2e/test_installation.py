"""Installation: do the documented commands lead to a first P99, and is my deployment right?"""

import contextlib
import json
import re
import signal
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from ssl import create_default_context
from typing import Any

import pytest
import yaml

from tests.support.assets import Assets
from tests.support.busy import steady_writes
from tests.support.control_plane import EVERYTHING_READABLE, ControlPlane, Etcd
from tests.support.daemon import LENIENT_OBJECTIVE, Daemon, config_file, outside, watchslo
from tests.support.newcomer import documented_commands
from tests.support.odd_apis import METRICS, SUBRESOURCES, VERSION, WRONG, OddApis
from tests.support.process import PATIENCE_SECONDS, Process, eventually
from tests.support.prometheus import Prometheus, scraping
from tests.support.writer import StatusError, Writer, crd
from watchslo.config.loading import load
from watchslo.kube.discovery import ACCEPT
from watchslo.rules.pack import plain, prometheus_rule
from watchslo.rules.settings import RuleSettings

# The documented commands

ROOT = Path(__file__).parents[2]
FIGURES = re.compile(r"^serviceaccounts +[1-9][\d,]* +[<~\d].* proven .+ to ", re.MULTILINE)
PODS = re.compile(r"^pods +events +[1-9][\d,]* +P50 ", re.MULTILINE)


def test_documented_commands_lead_to_a_first_p99(control_plane: ControlPlane, tmp_path: Path) -> None:
    """In this clone; that `make setup` works in a fresh one is proven by each run of CI."""
    env = outside(KUBECONFIG=str(control_plane.kubeconfig()))
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "VIRTUAL_ENV"):  # as in a shell, even if make runs these tests
        env.pop(name, None)
    setup, check = documented_commands(ROOT / "docs/quickstart.md")
    assert setup == "make setup"
    demos = documented_commands(ROOT / "README.md")
    with contextlib.ExitStack() as stack:
        stack.enter_context(steady_writes(control_plane, "serviceaccounts"))

        def typed(number: int, command: str) -> Process:
            line = ["/bin/sh", "-c", f"cd '{ROOT}' && exec {command}"]
            return stack.enter_context(Process(tmp_path, f"command-{number}", line, env))

        checked, *shown = [typed(number, command) for number, command in enumerate([check, *demos])]
        for demo in shown:
            demo.until(lambda: bool(PODS.search(demo.out)), "measured")  # noqa: B023 - used at once
            demo.signal(signal.SIGINT)
            demo.wait()
            assert "--- injected fault: " in demo.out
            assert "Traceback" not in demo.out + demo.err
        code = checked.wait()
        assert checked.err == ""
        assert FIGURES.search(checked.out), checked.out
        within = checked.out.splitlines()[-1].startswith("No watch is late; ")  # unless this machine is busy
        assert (code == 0) == within, checked.out


# `watchslo doctor`, with the Prometheus that scrapes a daemon and with API groups whose discovery is odd


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
CONFIG = {"watch": [{"resource": "configmaps"}, {"resource": "leases.coordination.k8s.io"}]}
BLIND = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}
Findings = list[dict[str, str]]


@dataclass(frozen=True)
class Deployment:
    """A daemon with its configuration and kubeconfig, the Prometheus that scrapes it, and its apiserver."""

    plane: ControlPlane
    folder: Path
    config: Path
    kubeconfig: Path
    daemon: Daemon
    prometheus: Prometheus

    def findings(self, **replaced: Path) -> Findings:
        """Return the findings about the daemon and its Prometheus; ask again while the machine is too busy for them."""

        def asked() -> Findings | None:
            found = self.asked(**replaced)
            return None if any(TOO_SLOW.search(finding["text"]) for finding in found) else found

        return eventually(asked, "all answer in time")

    def asked(self, **replaced: Path) -> Findings:
        given = {"config": self.config, "kubeconfig": self.kubeconfig, **replaced}
        options = [part for name, path in given.items() for part in (f"--{name}", path)]
        urls = ("--instance", self.daemon.url, "--prometheus", self.prometheus.url)
        done = watchslo("doctor", *options, "--namespace", NAMESPACE, *urls, "-o", "json", env=outside())
        assert done.stderr == ""
        assert "hidden-" not in done.stdout, "no name of an object of users is printed"
        found: Findings = json.loads(done.stdout)["findings"]
        assert done.returncode == int(found[0]["level"] == "problem")
        return found


@pytest.fixture(scope="module")
def deployment(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("doctor")
    config = config_file(folder, **CONFIG, objective=LENIENT_OBJECTIVE)
    rules = folder / "rules.yaml"
    rules.write_text(yaml.safe_dump(plain(load(config)[0], RuleSettings())))
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(Etcd(folder, assets.etcd))
        plane = stack.enter_context(ControlPlane(folder, assets.kube_apiserver, etcd))
        apis = stack.enter_context(OddApis(plane.authority.server("odd-apis")))
        with plane.writer() as writer:
            apis.register(writer)
        install_operator(plane, config)
        eventually(lambda: len(odd_groups(plane)) == 3, "all odd groups are discovered")
        kubeconfig = plane.kubeconfig("doctor", {"token": plane.service_account("doctor", EVERYTHING_READABLE)})
        own = ("--config", config, "--kubeconfig", kubeconfig)
        daemon = stack.enter_context(Daemon(folder / "daemon", *own))
        scraped = {**scraping(daemon.url), "rule_files": [str(rules)]}
        scraped["global"] = {"scrape_interval": "5s", "evaluation_interval": "1s"}
        prometheus = stack.enter_context(Prometheus(folder / "prometheus", scraped))
        daemon.until_measuring("configmaps", "leases.coordination.k8s.io")
        prometheus.process.until(lambda: prometheus.value("up") == 1.0, "scraping")
        yield Deployment(plane, folder, config, kubeconfig, daemon, prometheus)


def odd_groups(plane: ControlPlane) -> dict[str, Any]:
    """Return the versions of the odd groups that the apiserver has asked for, in its aggregated discovery."""
    headers = {"Accept": ACCEPT, "Authorization": f"Bearer {plane.token}"}
    request = urllib.request.Request(f"{plane.url}/apis", headers=headers)
    context = create_default_context(cafile=plane.ca)
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS, context=context) as answer:
        items = json.load(answer)["items"]
    found = {item["metadata"]["name"]: item["versions"][0] for item in items}
    known = {name: found[name] for name in (METRICS, SUBRESOURCES) if found.get(name, {}).get("resources")}
    return known | {name: version for name, version in found.items() if name == WRONG}


def install_operator(plane: ControlPlane, config: Path) -> None:
    """Create what the Prometheus operator would select: a monitor and rules of watchslo, and a Prometheus."""
    rule = prometheus_rule(load(config)[0], RuleSettings(), LABELS)
    selector = {"matchLabels": {"app.kubernetes.io/name": "watchslo"}}
    monitor = {"metadata": {"name": "watchslo", "labels": LABELS}, "spec": {"selector": selector}}
    chosen = {"metadata": {"name": "hidden-name"}, "spec": EVERYWHERE}
    with plane.writer() as writer:
        for namespace in (NAMESPACE, THEIRS):
            writer.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        create_custom(writer, NAMESPACE, "PodMonitor", "podmonitors", monitor)
        create_custom(writer, NAMESPACE, "PrometheusRule", "prometheusrules", rule)
        create_custom(writer, THEIRS, "Prometheus", "prometheuses", chosen)


def create_custom(writer: Writer, namespace: str, kind: str, plural: str, body: dict[str, Any]) -> None:
    """Create a CRD of the operator, and an object as soon as it is served."""
    writer.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd(plural, kind, GROUP))

    def created() -> bool:
        with contextlib.suppress(StatusError):
            writer.create(f"{OPERATOR}/{namespace}/{plural}", {"apiVersion": f"{GROUP}/v1", "kind": kind, **body})
            return True
        return False

    eventually(created, f"{kind} served")


def of(findings: Findings, subject: str) -> list[tuple[str, str]]:
    return [(finding["level"], finding["text"]) for finding in findings if finding["subject"] == subject]


def problems(findings: Findings) -> Findings:
    """Return the problems, without those that only a busy machine has."""
    return [one for one in findings if one["level"] == "problem" and "Can it be trusted?" not in one["text"]]


def test_doctor_finds_no_problem_in_a_deployment_that_is_right(deployment: Deployment) -> None:
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


def test_odd_api_group_is_named_and_everything_else_is_measured(deployment: Deployment) -> None:
    """The apiserver invents the parent of a subresource, and gives it no verbs."""
    groups = odd_groups(deployment.plane)
    assert [one["verbs"] for name in (METRICS, SUBRESOURCES) for one in groups[name]["resources"]] == [None, None]
    assert groups[WRONG]["freshness"] == "Stale"
    daemon, named = deployment.daemon, f"{WRONG}/{VERSION}"
    daemon.until_measuring("configmaps", "leases.coordination.k8s.io")
    assert [group["name"] for group in daemon.status()["monitor"]["incompleteGroups"]] == [named]
    assert [entry["group"] for entry in daemon.log("api_group_incomplete")] == [named]
    assert not daemon.log("discovery_failed")
    ((level, text),) = of(deployment.findings(), "resources")
    assert (level, named in text, METRICS in text) == ("warning", True, False)


def test_doctor_names_each_fault_of_a_deployment(deployment: Deployment) -> None:
    (deployment.folder / "other").mkdir()
    other = config_file(deployment.folder / "other", **CONFIG, objective={"events": {"target": "0.9"}})
    token = deployment.plane.service_account("blind", BLIND)
    found = deployment.findings(config=other, kubeconfig=deployment.plane.kubeconfig("blind", {"token": token}))
    said = [(one["subject"], one["text"]) for one in problems(found)]
    for subject, words in (
        ("rights", "may not list and watch leases.coordination.k8s.io"),
        ("rules", "differ from the rules"),
    ):
        assert any(subject == about and words in text for about, text in said), said
    assert of(found, "monitor")[0][0] == "unchecked", "this identity may not read monitors"

    change = {"spec": {"podMonitorSelector": {"matchLabels": {"x": "y"}}}}
    with deployment.plane.writer() as writer:
        writer.patch(f"{OPERATOR}/{THEIRS}/prometheuses/hidden-name", change)
    (problem,) = problems(deployment.findings())
    assert problem["text"] == "None of 1 Prometheus object selects 1 PodMonitor of watchslo."
    assert "podMonitorSelector" in problem["remedy"]

    deployment.daemon.process.stop()
    prometheus = deployment.prometheus
    prometheus.process.until(lambda: prometheus.value("up") == 0.0, "noticing")
    stopped = (
        "1 of 1 target cannot be scraped: the connection is refused.",
        "the connection is refused; check that the daemon runs.",
    )

    def explained() -> bool:
        """Prometheus may be too slow for the command."""
        found = problems(deployment.asked())
        return all(any(words in f"{one['text']} {one['remedy']}" for one in found) for words in stopped)

    eventually(explained, "both are explained")
