"""`watchslo report` on a watch that is late: from a real daemon, from a real Prometheus, and in a real browser."""

import contextlib
import json
import re
import subprocess
import urllib.request
from collections.abc import Container, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser

from tests.support.browser import Scheme, browser, onlooker
from tests.support.canary import CANARY, found
from tests.support.control_plane import write_kubeconfig
from tests.support.daemon import LOOK_SECONDS, Daemon, Simulator, asking, config_file, watchslo
from tests.support.process import PATIENCE_SECONDS
from tests.support.prometheus import Prometheus, program
from watchslo.report.incident import ReportPeriod
from watchslo.report.queries import Asked, queries
from watchslo.rules.settings import RuleSettings

RESOURCES = ("pods", "configmaps", "leases.coordination.k8s.io")
SIMULATED = {"latency": [{"resource": "pods", "client": "constant 2500ms"}]}
RATE = 20.0  # changes of each resource, a second
CAUSE = "resource_fanout"  # one resource is late after the cache, others are not
LATE = re.compile(  # it may have an end, and a slow machine may close the watch as well
    r"\bpods\b[^:]*: late(, stalled or down)? (since|from) \d{4}-\d\d-\d\d \d\d:\d\d UTC"
)
WHY = re.compile(r"\bresource\\_fanout\b")  # this machine may be another cause, even the likelier one


@dataclass(frozen=True)
class Incident:
    """A daemon whose watch of pods has had a bad minute, and a Prometheus that has scraped that."""

    daemon: Daemon
    prometheus: Prometheus


def create_namespace(simulator: Simulator) -> None:
    """Create a namespace whose name no report may show."""
    body = json.dumps({"metadata": {"name": CANARY}}).encode()
    request = urllib.request.Request(f"{simulator.url}/api/v1/namespaces", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS):
        pass


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Incident]:
    folder = tmp_path_factory.mktemp("report")
    kubeconfig = folder / "kubeconfig"
    with contextlib.ExitStack() as stack:
        simulator = stack.enter_context(Simulator(folder, "--config", json.dumps(SIMULATED)))
        create_namespace(simulator)
        for resource in RESOURCES:
            simulator.control({"resource": resource, "rate": RATE, "namespace": CANARY}, "/workload")
        write_kubeconfig(kubeconfig, {"server": simulator.url}, {})
        config = config_file(folder, watch=[{"resource": resource} for resource in RESOURCES])
        daemon = Daemon(folder / "daemon", "--config", config, "--kubeconfig", kubeconfig)
        stack.enter_context(daemon)
        prometheus = stack.enter_context(Prometheus(folder / "prometheus", daemon.url))

        def is_bad() -> bool:
            bad = prometheus.value('sum(watchslo_slo_windows_total{watch="pods",verdict="bad"})')
            cause = prometheus.value(f'sum(max_over_time(watchslo_cause_active{{cause="{CAUSE}"}}[10m]))')
            return (bad or 0.0) > 1.0 and (cause or 0.0) > 0.0

        daemon.process.until(is_bad, "a bad minute with a cause", 10 * LOOK_SECONDS)
        yield Incident(daemon, prometheus)


def written(*arguments: str | Path) -> str:
    """Return what a report prints."""
    done = asking("report", "--since", "30m", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert found(CANARY, done.stdout) == []
    return done.stdout


def test_report_of_a_daemon_has_lateness_and_cause(incident: Incident) -> None:
    text = written(incident.daemon.url, "--format", "markdown")
    assert LATE.search(text), text
    assert WHY.search(text), text
    assert re.search(r"\| pods \| service \| [1-9]", text)
    assert "### pods: P99" in text
    assert "Nothing is known before" in text, "the daemon has started since"


def test_brief_fits_into_one_message(incident: Incident) -> None:
    text = written(incident.daemon.url, "--brief")
    assert text.startswith("✗ ")
    assert LATE.search(text), text
    assert CAUSE in text or "monitor_overloaded" in text
    assert len(text) < 2000


def test_report_of_prometheus_has_the_same_answer(incident: Incident) -> None:
    text = written("--prometheus", incident.prometheus.url, "--format", "markdown")
    assert LATE.search(text), text
    assert WHY.search(text), text
    assert re.search(r"\| pods \| service \| [1-9]", text)
    assert "### pods: P99" in text
    assert re.search(r"\| ordered \| 0 \| [1-9]", text)


def test_prometheus_without_the_metrics_names_the_job_that_has_them(incident: Incident) -> None:
    done = watchslo("report", "--prometheus", incident.prometheus.url, "--job-selector", 'job="other"')
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("come from the job watchslo: pass --job-selector 'job=\"watchslo\"'\n")


def test_daemon_that_does_not_answer_is_one_sentence() -> None:
    done = watchslo("report", "http://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("watchslo: http://127.0.0.1:1: the connection is refused; check that the daemon runs\n")


def windows(instance: str, verdict: str, scrapes: Container[int]) -> dict[str, str]:
    """Return a counter of an instance that is scraped every 15 s and grew before these scrapes."""
    labels = f'job="watchslo",instance="{instance}",apiserver="a:1",watch="pods",verdict="{verdict}"'
    values = accumulate(int(scrape in scrapes) for scrape in range(48))
    return {"series": f"watchslo_slo_windows_total{{{labels}}}", "values": " ".join(map(str, values))}


def test_each_minute_has_the_worst_verdict_of_all_instances(tmp_path: Path) -> None:
    query = queries(RuleSettings(), ReportPeriod(0.0, 600.0))[Asked.MINUTES]
    series = [
        windows("a", "good", range(4, 48, 4)),
        windows("a", "bad", ()),
        windows("b", "good", {*range(5, 48, 4)} - {13, 17, 25}),
        windows("b", "bad", (13, 17)),
        windows("c", "undecided", (26,)),
    ]
    verdicts = [1, 1, 3, 3, 1, 2, 1, 1, 1, 1]
    tests = [
        {
            "expr": query.expression,
            "eval_time": f"{query.start + query.step * minute:.0f}s",
            "exp_samples": [{"labels": '{apiserver="a:1",watch="pods"}', "value": verdict}],
        }
        for minute, verdict in enumerate(verdicts)
    ]
    file = tmp_path / "test.yaml"
    one = {"interval": "15s", "input_series": series, "promql_expr_test": tests}
    file.write_text(yaml.safe_dump({"rule_files": [], "evaluation_interval": "15s", "tests": [one]}))
    command: list[str | Path] = [program("promtool"), "test", "rules", file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 400)])
def test_file_opens_without_complaints_requests_or_barriers(
    incident: Incident, chromium: Browser, tmp_path: Path, scheme: Scheme, width: int
) -> None:
    file = tmp_path / "incident.html"
    assert written(incident.daemon.url, "-o", file) == ""
    assert found(CANARY, file.read_text()) == []
    with onlooker(chromium, file.as_uri(), scheme, width) as looking:
        assert LATE.search(looking.text("h1"))
        assert looking.page.locator(".chart svg").count() == len(RESOURCES)
        assert looking.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than the window"
        assert looking.barriers() == []
        assert looking.complaints == []
        assert looking.elsewhere(file.as_uri()) == []
