"""Each dashboard in the components of Perses, in a browser, with a Prometheus that scrapes a healthy cluster."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.browser import ANSWER_MILLISECONDS, browser
from tests.support.control_plane import write_kubeconfig
from tests.support.daemon import Daemon, Simulator, config_file, watchslo
from tests.support.process import until_equal
from tests.support.prometheus import Prometheus
from tools.dashboards.files import BOARDS
from tools.pictures.perses_page import PersesPage, Source, dashboard

pytestmark = pytest.mark.xdist_group("pictures")

SHRINK = 60  # hours become minutes
PACKS = ((), ("--fleet", "cluster"), ("--fleet", "global"))  # as if it were the Prometheus of a cluster and of a fleet
NATIVE = "--enable-feature=native-histograms"  # Perses draws heatmaps of native histograms only
CLUSTER = {
    "objects": [{"resource": "pods", "count": 100}],
    "workload": [
        {"resource": "nodes", "rate": 60},
        {"resource": "configmaps", "rate": 5},
        {"resource": "deployments.apps", "rate": 5, "observed": 0.1},
    ],
    "latency": [{"client": "constant 40ms"}],  # longer than a tick, so resolved
}
WATCHES = ("nodes", "configmaps", "deployments.apps")
LOOK_SECONDS = 1.0

NO_APISERVER = "the simulated cluster exposes no metrics of apiservers"
OWN_METRICS = "needs `kubernetes.apiserverMetrics`, and the simulated cluster exposes no metrics of apiservers"
EMPTY: Mapping[str, Mapping[str, str]] = {
    "watchslo-protocol": {"Unseen changes": "no watch has `inventory: true`"},
    "watchslo-apiserver": {
        "Parts of the longest delay": OWN_METRICS,
        "Times that the apiserver measured itself": OWN_METRICS,
        "Cache lag in revisions": NO_APISERVER,
        "Initial events": NO_APISERVER,
        "Streamed lists": NO_APISERVER,
        "Requests in flight": NO_APISERVER,
        "CPU of the apiservers": NO_APISERVER,
    },
}
"""The panels that are empty on this cluster by intent, by dashboard and title, and why."""

HISTORY = "needs six hours of history, which are six minutes here"
QUIET = "no watch was opened or closed, and no list made, since the first scrape"
PERHAPS_EMPTY: Mapping[str, Mapping[str, str]] = {
    "watchslo-slo": {"P99, 1 d": HISTORY, "P99.9, 1 d": HISTORY, "P99.9 of all watches over a day": HISTORY},
    "watchslo-protocol": {
        "Closes by reason": QUIET,
        "Watch duration": QUIET,
        "Time to open a watch": QUIET,
        "Failed lists": "no list failed",
        "List duration": QUIET,
    },
    "watchslo-fleet": {"Worst watches": "no event was late"},
}
"""The panels that are empty unless the machine is slow, and why."""


def rules(folder: Path, *options: str) -> Path:
    """Write the rules of one pack to a file and return its path."""
    config = config_file(folder, watch=[{"resource": name} for name in WATCHES])
    form = ("-o", "plain", "--alerts", "all", "--histograms", "native", "--shrink", str(SHRINK))
    done = watchslo("rules", "--config", config, "--cluster-label", "cluster", *form, *options)
    assert done.returncode == 0, done.stderr
    path = folder / f"rules{'-'.join(options)}.yaml"
    path.write_text(done.stdout)
    return path


def scraping(jobs: Mapping[str, Daemon], rule_files: list[Path]) -> dict[str, Any]:
    """Return the configuration of a Prometheus that scrapes a daemon for each job."""
    labels = {"cluster": "lab", "node": "node-1"}
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(path) for path in rule_files],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [urlsplit(daemon.url).netloc], "labels": labels}]}
            for job, daemon in jobs.items()
        ],
    }


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    """A Prometheus that scrapes an instance of `metrics: full` and one of `mode: node`, with all rules."""
    folder = tmp_path_factory.mktemp("healthy")
    with Simulator(folder, "--config", json.dumps(CLUSTER)) as simulator:
        write_kubeconfig(folder / "kubeconfig", {"server": simulator.url}, {})

        def daemon(name: str, **keys: Any) -> Daemon:
            own = folder / name
            own.mkdir()
            config = config_file(own, watch=[{"resource": name} for name in WATCHES], **keys)
            return Daemon(own, "--config", config, "--kubeconfig", folder / "kubeconfig")

        apiservers = {"apiserverMetrics": True}
        with daemon("full", metrics="full", kubernetes=apiservers) as full, daemon("node", mode="node") as node:
            for each in (full, node):
                each.until_measuring(*WATCHES)
            files = [rules(folder, *options) for options in PACKS]
            document = scraping({"watchslo": full, "watchslo-node": node}, files)
            with Prometheus(folder / "prometheus", document, NATIVE) as prometheus:
                yield Source(prometheus.url, "1s", "1m")


@pytest.fixture(scope="module")
def page(source: Source) -> Iterator[PersesPage]:
    with browser() as started, contextlib.closing(started.new_context()) as context:
        context.set_default_timeout(ANSWER_MILLISECONDS)
        yield PersesPage(context.new_page(), source)


def test_perses_shows_an_invalid_query_and_an_unknown_kind_of_panel_as_errors(page: PersesPage) -> None:
    """A counter-check for the test below."""
    spec = dashboard("watchslo-fleet")
    query, kind, *_ = (panel["spec"] for panel in spec["panels"].values())
    query["queries"][0]["spec"]["plugin"]["spec"]["query"] = "sum ("
    kind["plugin"]["kind"] = "NoChart"
    errors = {one.title: " ".join(one.errors) for one in page.open(spec) if one.errors}
    assert errors.keys() == {query["display"]["name"], kind["display"]["name"]}
    assert "parse error" in errors[query["display"]["name"]]
    assert "NoChart" in errors[kind["display"]["name"]]


@pytest.mark.parametrize("name", [board.uid for board in reversed(BOARDS)])  # that of the SLO needs data of a minute
def test_perses_shows_every_panel_without_error_and_none_is_empty_but_by_intent(page: PersesPage, name: str) -> None:
    def seen() -> tuple[dict[str, tuple[str, ...]], set[str]]:
        """Return the errors of panels by title, and the titles of those that are empty, without those that may be."""
        shown = page.open(dashboard(name))
        empty = {one.title for one in shown if one.empty} - {*PERHAPS_EMPTY.get(name, ())}
        return {one.title: one.errors for one in shown if one.errors}, empty

    until_equal(seen, ({}, {*EMPTY.get(name, ())}), "errors of panels, and empty panels", LOOK_SECONDS)
