"""Native histograms in real Prometheus servers: an old one, Debian's, and a new one.

One daemon watches the simulated cluster, and each server takes its histograms in other forms.
"""

import contextlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.support import assets
from tests.support.control_plane import write_kubeconfig
from tests.support.daemon import Daemon, Simulator, config_file, watchslo
from tests.support.metric_messages import ACCEPT
from tests.support.process import eventually
from tests.support.prometheus import Prometheus
from tests.support.reader import Reader
from tools.dashboards.queries import queries
from watchslo.serve.metrics import FAMILIES

DASHBOARDS = Path(__file__).parents[2] / "dashboards"
TIMESPAN = "watchslo_apiserver_timespan_seconds"
CLUSTER = {
    "latency": [{"client": "lognormal 300ms 0.8"}],
    "workload": [{"resource": "nodes", "rate": 20}, {"resource": "configmaps", "rate": 5}],
}
WATCHES = [{"resource": "nodes"}, {"resource": "configmaps"}]
FEWEST_EVENTS = 600  # of the busy watch: a P99 has six of them above it
ROUNDED_EVENTS = 3  # one of a classic bucket, up to two of a native one
SHRINK = 10
LOOK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Servers:
    """What scrapes the daemon; the jobs are named by the forms that they take."""

    daemon: Daemon
    classic: Prometheus
    old: Prometheus
    new: Prometheus


def configuration(url: str, jobs: Mapping[str, Mapping[str, bool]], *rules: Path) -> dict[str, Any]:
    targets = [{"targets": [urlsplit(url).netloc]}]
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [{"job_name": job, "static_configs": targets, **keys} for job, keys in jobs.items()],
    }


def rules(folder: Path, config: Path, job: str, *options: str) -> Path:
    own = ("--config", config, "--format", "plain", "--job-selector", f'job="{job}"', "--shrink", str(SHRINK))
    done = watchslo("rules", *own, *options)
    assert done.returncode == 0, done.stderr
    path = folder / f"{job}.yaml"
    path.write_text(done.stdout)
    return path


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("native")
    command = assets.find(os.environ, assets.PROMETHEUS)
    with contextlib.ExitStack() as stack:
        simulator = stack.enter_context(Simulator(folder, "--config", json.dumps(CLUSTER)))
        write_kubeconfig(folder / "kubeconfig", {"server": simulator.url}, {})
        config = config_file(folder, watch=WATCHES)
        daemon = stack.enter_context(
            Daemon(folder / "daemon", "--config", config, "--kubeconfig", folder / "kubeconfig")
        )
        of_classic, of_native = (
            rules(folder, config, "classic"),
            rules(folder, config, "native", "--histograms", "native"),
        )
        native = {"scrape_native_histograms": True}
        forms = {"native": native, "both": {**native, "always_scrape_classic_histograms": True}, "classic": {}}
        found = Servers(
            daemon,
            Prometheus(folder / "text", configuration(daemon.url, {"classic": {}}, of_classic)),
            Prometheus(
                folder / "debian",
                configuration(daemon.url, {"native": {}}),
                "--enable-feature=native-histograms",
            ),
            Prometheus(folder / "new", configuration(daemon.url, forms, of_native), command=command),
        )
        for server in (found.classic, found.old, found.new):
            stack.enter_context(server)
        daemon.until_measuring("nodes", "configmaps")
        daemon.until(lambda scrape: scrape.total(f"{TIMESPAN}_count", watch="nodes") > FEWEST_EVENTS, "busy")
        yield found


def asked(server: Prometheus, expression: str) -> float:
    """Return the only value of an expression, once it has one that is a number."""

    def answered() -> list[float]:
        return [value for element in server.query(expression) if not math.isnan(value := float(element["value"][1]))]

    (value,) = eventually(answered, expression, LOOK_SECONDS)
    return value


def buckets_around(daemon: Daemon, seconds: float) -> tuple[float, float]:
    """Return the classic bucket that contains a latency."""
    edges = sorted(
        {float(sample.labels["le"]) for sample in daemon.scrape().families[TIMESPAN].samples if "le" in sample.labels}
    )
    above = next(edge for edge in edges if edge >= seconds)
    return max((edge for edge in edges if edge < above), default=0.0), above


def of_both_forms(servers: Servers, classic: str, native: str) -> tuple[float, float]:
    """Return the only values of two expressions on the job `both`, which has both forms of each scrape.

    One query asks for both: servers scrape at moments of their own, and miss different ones on a busy machine.
    """
    forms = {"classic": classic, "native": native}
    query = " or ".join(f'label_replace({of}, "form", "{form}", "", "")' for form, of in forms.items())

    def answered() -> tuple[float, ...]:
        by_form = {one["metric"]["form"]: float(one["value"][1]) for one in servers.new.query(query)}
        known = tuple(by_form[form] for form in forms if form in by_form and not math.isnan(by_form[form]))
        return known if len(known) == len(forms) else ()

    of_classic, of_native = eventually(answered, query, LOOK_SECONDS)
    return of_classic, of_native


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
def test_quantiles_of_both_forms_are_in_the_same_bucket(servers: Servers, q: float) -> None:
    selected = '{job="both", watch="nodes"}[1h]'
    classic, native = of_both_forms(
        servers,
        f"histogram_quantile({q}, sum by (le) (rate({TIMESPAN}_bucket{selected})))",
        f"histogram_quantile({q}, sum(rate({TIMESPAN}{selected})))",
    )
    lower, upper = buckets_around(servers.daemon, classic)
    assert lower / 1.1 <= native <= upper * 1.1  # a native bucket is 9% wide, and may contain the edge


def series_of_watches(server: Prometheus, job: str) -> list[float]:
    """Return how many series of latencies a job has of each watch."""
    query = f'count by (watch) ({{__name__=~"{TIMESPAN}(_bucket|_count|_sum)?", job="{job}"}})'
    return [float(element["value"][1]) for element in server.query(query)]


@pytest.mark.parametrize(
    ("name", "job", "series"),
    [("old", "native", 1), ("new", "native", 1), ("new", "both", 17), ("classic", "classic", 16)],
)
def test_watch_has_as_many_series_as_documented(servers: Servers, name: str, job: str, series: int) -> None:
    found = eventually(partial(series_of_watches, getattr(servers, name), job), "scraped", LOOK_SECONDS)
    assert found == [series] * len(WATCHES)


@pytest.mark.parametrize("name", ["old", "new"])
def test_histogram_has_every_event_once(servers: Servers, name: str) -> None:
    """Both are of the same scrape."""
    server: Prometheus = getattr(servers, name)
    events = 'sum by (watch) (watchslo_slo_events_total{job="native"})'
    assert asked(server, f'sum(histogram_count({TIMESPAN}{{job="native"}}) - on (watch) {events})') == pytest.approx(0)


@pytest.mark.parametrize("name", ["old", "new"])
def test_other_metrics_are_those_of_the_text(servers: Servers, name: str) -> None:
    def known(server: Prometheus, job: str) -> set[str]:
        return {
            element["metric"]["__name__"]
            for element in server.query(f'{{job="{job}", __name__=~"(watchslo|process)_.+"}}')
        }

    server: Prometheus = getattr(servers, name)
    native = {family.name for family in FAMILIES if family.native}
    classic = {f"{family}_{part}" for family in native for part in ("bucket", "count", "sum")}
    eventually(
        lambda: known(server, "native") - native == known(servers.classic, "classic") - classic,
        "equal",
        LOOK_SECONDS,
    )


def test_other_clients_get_text(servers: Servers) -> None:
    def content_type(**headers: str) -> str | None:
        with Reader(servers.daemon.url).asking("/metrics", **headers) as answer:
            return answer.headers["Content-Type"] if answer.status == HTTPStatus.OK else None

    for headers, expected in (
        ({}, "text/plain; version=0.0.4"),
        ({"Accept": ACCEPT}, "application/vnd.google.protobuf"),
    ):
        found = eventually(partial(content_type, **headers), "an answer while it is not late")
        assert found.startswith(expected)


# --- rules and dashboards ---------------------------------------------------------------------------------------------


def both_rules(folder: Path, job: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the expressions by recorded name, of the rules on classic histograms and of those on native ones."""
    config = config_file(folder, watch=WATCHES)
    classic, native = (recorded(rules(folder, config, job, "--histograms", form)) for form in ("classic", "native"))
    return classic, native


def recorded(path: Path) -> dict[str, str]:
    groups = yaml.safe_load(path.read_text())["groups"]
    return {rule["record"]: rule["expr"] for group in groups for rule in group["rules"] if "record" in rule}


def test_native_rules_record_what_the_classic_ones_record(servers: Servers, tmp_path: Path) -> None:
    classic, native = both_rules(tmp_path, "classic")
    names = classic.keys() & native.keys()
    found: tuple[set[str], set[str]] = set(), set()  # ever: a missed scrape may take series away for a while

    def equal() -> bool:
        for server, known in zip((servers.classic, servers.new), found, strict=True):
            known |= {name for name in names - known if server.query(name)}
        return "cluster:watchslo_good_minutes:bool_rate1m" in found[0] and found[0] == found[1]

    eventually(equal, "the same series are recorded", LOOK_SECONDS)


def test_native_rules_compute_the_late_share_of_the_classic_ones(servers: Servers, tmp_path: Path) -> None:
    """The threshold is an edge of both forms, but each form rounds the events that are divided among buckets."""
    expressions = (of["apiserver_resource:watchslo_late_events:ratio_rate1h"] for of in both_rules(tmp_path, "both"))
    asked(servers.new, f'sum(increase({TIMESPAN}_count{{job="both", watch="nodes"}}[6m])) > {FEWEST_EVENTS}')
    classic, native = of_both_forms(
        servers, *(f'sum(({of}) and on (watch) watchslo_watch_up{{watch="nodes"}})' for of in expressions)
    )
    assert 0.0 < classic < 1.0
    assert native == pytest.approx(classic, abs=ROUNDED_EVENTS / FEWEST_EVENTS)


@pytest.mark.parametrize("name", ["classic", "old", "new"])
def test_panels_of_latencies_have_data(servers: Servers, name: str) -> None:
    server: Prometheus = getattr(servers, name)
    found = [query for path in DASHBOARDS.glob("*.json") for _, query in queries(json.loads(path.read_text()))]
    found = [query for query in found if f" (rate({TIMESPAN}" in query or f" (increase({TIMESPAN}" in query]
    assert found
    for query in found:
        eventually(partial(server.query, query), query, LOOK_SECONDS)
