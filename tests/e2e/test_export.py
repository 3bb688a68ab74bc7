"""Does my monitoring get the same numbers? Prometheus with native histograms, OTLP, a collector, and the dashboards.

One daemon watches the simulated cluster. Three Prometheus servers scrape it: Debian's, which is old, with and without
native histograms, and a new one, to which the daemon also pushes. Another daemon pushes to a collector.
"""

import contextlib
import json
import math
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.support import assets
from tests.support.control_plane import write_kubeconfig
from tests.support.daemon import Daemon, Simulator, config_file, watchslo
from tests.support.metric_messages import ACCEPT
from tests.support.otel_collector import OtelCollector
from tests.support.process import eventually
from tests.support.prometheus import Prometheus
from tests.support.reader import Reader
from tools.dashboards.queries import queries
from watchslo.serve.metrics import FAMILIES

DASHBOARDS = Path(__file__).parents[2] / "dashboards"
TIMESPAN = "watchslo_apiserver_timespan_seconds"
NATIVE = {family.name for family in FAMILIES if family.native}
CLASSIC = {f"{family}_{part}" for family in NATIVE for part in ("bucket", "count", "sum")}
CLUSTER = {
    "latency": [{"client": "lognormal 300ms 0.8"}],
    "workload": [{"resource": "nodes", "rate": 60}, {"resource": "configmaps", "rate": 5}],
}
WATCHES = [{"resource": "nodes"}, {"resource": "configmaps"}]
FEWEST_EVENTS = 600  # of the busy watch: a P99 has six of them above it
SHRINK = 10
LOOK_SECONDS = 1.0

Series = frozenset[tuple[str, str]]


def series(name: str, labels: Mapping[str, str]) -> Series:
    """Return a series with its name, without empty labels, which Prometheus takes for absent.

    The ends of buckets are numbers, which are written in several forms.
    """
    own = {key: str(float(value)) if key == "le" else value for key, value in labels.items() if value}
    return frozenset({**own, "__name__": name}.items())


def name_of(one: Series) -> str:
    return dict(one)["__name__"]


def on_the_page(daemon: Daemon) -> dict[Series, float]:
    """Return the values of `/metrics`."""
    return {
        series(sample.name, sample.labels): sample.value
        for family in daemon.scrape().families.values()
        for sample in family.samples
    }


def rules(folder: Path, job: str, *options: str, shrink: int = SHRINK) -> Path:
    config = config_file(folder, watch=WATCHES)
    own = ("--config", config, "-o", "plain", "--alerts", "all", "--shrink", str(shrink))
    done = watchslo("rules", *own, *(("--job-selector", f'job="{job}"') if job else ()), *options)
    assert done.returncode == 0, done.stderr
    path = folder / f"{job or 'rules'}.yaml"
    path.write_text(done.stdout)
    return path


def configuration(url: str, jobs: Mapping[str, Mapping[str, bool]], *rule_files: Path) -> dict[str, Any]:
    targets = [{"targets": [urlsplit(url).netloc]}]
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(path) for path in rule_files],
        "scrape_configs": [{"job_name": job, "static_configs": targets, **keys} for job, keys in jobs.items()],
    }


@dataclass(frozen=True, slots=True)
class Exported:
    """A daemon, the servers that scrape it, whose jobs are named by the forms that they take, and a collector.

    `explicit` is the daemon that pushes to the collector.
    """

    simulator: Simulator
    daemon: Daemon
    classic: Prometheus
    old: Prometheus
    new: Prometheus
    explicit: Daemon
    collector: OtelCollector

    def names(self, server: Prometheus, job: str) -> set[str]:
        """Return the names of our metrics of a job."""
        found = server.query(f'count by (__name__) ({{job="{job}", __name__=~"(watchslo|process)_.+"}})')
        return {element["metric"]["__name__"] for element in found}

    def has_the_metrics_of_the_text(self, server: Prometheus) -> bool:
        """Return whether a server with native histograms has the other metrics that the text has."""
        return self.names(server, "native") - NATIVE == self.names(self.classic, "classic") - CLASSIC

    def of_both_forms(self, classic: str, native: str) -> tuple[float, float]:
        """Return the only values of two expressions on the job `both`, which has both forms of each scrape.

        One query asks for both: servers scrape at moments of their own, and miss different ones on a busy machine.
        """
        forms = {"classic": classic, "native": native}
        query = " or ".join(f'label_replace({of}, "form", "{form}", "", "")' for form, of in forms.items())

        def answered() -> tuple[float, ...]:
            by_form = {one["metric"]["form"]: float(one["value"][1]) for one in self.new.query(query)}
            known = tuple(by_form[form] for form in forms if form in by_form and not math.isnan(by_form[form]))
            return known if len(known) == len(forms) else ()

        of_classic, of_native = eventually(answered, query, LOOK_SECONDS)
        return of_classic, of_native


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exported]:
    folder = tmp_path_factory.mktemp("exported")
    newest = assets.find(os.environ, assets.PROMETHEUS)
    with contextlib.ExitStack() as stack:
        simulator = stack.enter_context(Simulator(folder, "--config", json.dumps(CLUSTER)))
        write_kubeconfig(folder / "kubeconfig", {"server": simulator.url}, {})

        def pushing(name: str, url: str, form: str) -> Daemon:
            (folder / name).mkdir()
            otlp = {"interval": "5s", "endpoint": url, "histograms": form}
            config = config_file(folder / name, watch=WATCHES, otlp=otlp)
            return stack.enter_context(Daemon(folder / name, "--config", config, "--kubeconfig", folder / "kubeconfig"))

        collector = stack.enter_context(OtelCollector(folder / "collector", assets.find(os.environ, assets.OTELCOL)))
        explicit = pushing("explicit", collector.url, "explicit")
        # The daemon must know where to push before Prometheus can know where to scrape.
        document = folder / "new-targets.json"
        document.write_text("[]")
        native = {"scrape_native_histograms": True}
        forms = {"native": native, "both": {**native, "always_scrape_classic_histograms": True}, "classic": {}}
        of_new = configuration("", forms, rules(folder, "native", "--histograms", "native"))
        for job in of_new["scrape_configs"]:
            job |= {"static_configs": [], "file_sd_configs": [{"files": [str(document)], "refresh_interval": "1s"}]}
        new = stack.enter_context(
            Prometheus(
                folder / "new",
                of_new,
                "--web.enable-otlp-receiver",
                "--query.lookback-delta=15s",  # of three pushes: series that vanish are marked by no push
                command=newest,
            )
        )
        daemon = pushing("exponential", f"{new.url}/api/v1/otlp", "exponential")
        document.write_text(json.dumps([{"targets": [urlsplit(daemon.url).netloc]}]))
        of_classic = configuration(daemon.url, {"classic": {}}, rules(folder, "classic"))
        classic = stack.enter_context(Prometheus(folder / "text", of_classic))
        of_old = configuration(daemon.url, {"native": {}})
        old = stack.enter_context(Prometheus(folder / "debian", of_old, "--enable-feature=native-histograms"))
        for each in (daemon, explicit):
            each.until_measuring("nodes", "configmaps")
        daemon.until(lambda scrape: scrape.total(f"{TIMESPAN}_count", watch="nodes") > FEWEST_EVENTS, "busy")
        yield Exported(simulator, daemon, classic, old, new, explicit, collector)


class TestExport:
    """One story: each test begins with what the former ones did."""

    @pytest.mark.parametrize("q", [0.5, 0.99])
    def test_quantiles_of_classic_and_native_histograms_are_in_the_same_bucket(
        self, exported: Exported, q: float
    ) -> None:
        selected = '{job="both", watch="nodes"}[1h]'
        classic, native = exported.of_both_forms(
            f"histogram_quantile({q}, sum by (le) (rate({TIMESPAN}_bucket{selected})))",
            f"histogram_quantile({q}, sum(rate({TIMESPAN}{selected})))",
        )
        buckets = exported.daemon.scrape().families[TIMESPAN].samples
        edges = sorted({float(bucket.labels["le"]) for bucket in buckets if "le" in bucket.labels})
        upper = next(edge for edge in edges if edge >= classic)
        lower = max((edge for edge in edges if edge < upper), default=0.0)
        assert lower / 1.1 <= native <= upper * 1.1  # a native bucket is 9% wide, and may contain the edge

    def test_each_form_has_the_documented_series_each_event_once_and_the_metrics_of_the_text(
        self, exported: Exported
    ) -> None:
        for server, job, documented in (
            (exported.old, "native", 1),
            (exported.new, "native", 1),
            (exported.new, "both", 17),
            (exported.classic, "classic", 16),
        ):
            query = f'count by (watch) ({{__name__=~"{TIMESPAN}(_bucket|_count|_sum)?", job="{job}"}})'
            found = eventually(partial(server.query, query), "scraped", LOOK_SECONDS)
            assert [float(one["value"][1]) for one in found] == [documented] * len(WATCHES), job
        for server in (exported.old, exported.new):
            of_scrape = f'histogram_count({TIMESPAN}{{job="native"}})'
            events = 'sum by (watch) (watchslo_slo_events_total{job="native"})'
            query = f"sum({of_scrape} - on (watch) {events})"
            (difference,) = eventually(partial(server.query, query), query, LOOK_SECONDS)
            assert float(difference["value"][1]) == pytest.approx(0)
            eventually(partial(exported.has_the_metrics_of_the_text, server), "the same metrics", LOOK_SECONDS)
        for headers, expected in (
            ({}, "text/plain; version=0.0.4"),
            ({"Accept": ACCEPT}, "application/vnd.google.protobuf"),
        ):
            content = eventually(partial(content_type, exported.daemon, **headers), "an answer while it is not late")
            assert content.startswith(expected)

    def test_native_rules_record_what_the_classic_ones_record(self, exported: Exported, tmp_path: Path) -> None:
        classic, native = (recorded(rules(tmp_path, "both", "--histograms", form)) for form in ("classic", "native"))
        names = classic & native
        found: tuple[set[str], set[str]] = set(), set()  # ever: a missed scrape may take series away for a while

        def equal() -> bool:
            for server, known in zip((exported.classic, exported.new), found, strict=True):
                known |= {name for name in names - known if server.query(name)}
            return "cluster:watchslo_good_minutes:bool_rate1m" in found[0] and found[0] == found[1]

        eventually(equal, "the same series are recorded", LOOK_SECONDS)

    def test_panels_of_latencies_have_data_from_every_form(self, exported: Exported) -> None:
        found = [query for path in DASHBOARDS.glob("*.json") for _, query in queries(json.loads(path.read_text()))]
        found = [query for query in found if f" (rate({TIMESPAN}" in query or f" (increase({TIMESPAN}" in query]
        assert found
        for server in (exported.classic, exported.old, exported.new):
            for query in found:
                eventually(partial(server.query, query), query, LOOK_SECONDS)

    def test_prometheus_and_a_collector_receive_by_otlp_what_the_page_shows(self, exported: Exported) -> None:
        """The simulated cluster ends before values are compared: from then on events are counted no more."""
        exported.simulator.process.stop()

        def pushed() -> tuple[set[Series], dict[str, float]]:
            """Return the series but histograms that Prometheus received, and its counts of events by watch."""
            ours = f'job="watchslo", instance=~".+:{urlsplit(exported.daemon.url).port}"'
            found = exported.new.query(f'{{{ours}, __name__=~"(watchslo|process)_.+"}}')
            counts = {one["metric"]["watch"]: one["histogram"][1] for one in found if of_events(one["metric"])}
            others = {in_prometheus(one["metric"]) for one in found if "value" in one}
            return others, {watch: float(histogram["count"]) for watch, histogram in counts.items()}

        def expected() -> tuple[set[Series], dict[str, float]]:
            scrape = exported.daemon.scrape()
            others = {one for one in on_the_page(exported.daemon) if name_of(one) not in CLASSIC}
            names = [watch["resource"] for watch in WATCHES]
            return others, {watch: scrape.value(f"{TIMESPAN}_count", watch=watch) for watch in names}

        eventually(lambda: pushed() == expected(), "Prometheus has the series and the events", LOOK_SECONDS)
        info = exported.new.query('{__name__="target_info"}')
        assert {one["metric"]["k8s_cluster_name"] for one in info} == {"tests"}
        assert all(one["metric"]["service_version"] for one in info)

        def newest() -> dict[Series, float]:
            received = exported.collector.received
            return dict(samples(received[-1])) if received else {}

        def same() -> bool:
            received, page = newest(), on_the_page(exported.explicit)
            return received.keys() == page.keys() and events(received) == events(page)

        eventually(same, "the collector has the series, and the same events", LOOK_SECONDS)
        assert sum(events(newest()).values()) > 0

    def test_collector_that_ends_is_one_line_of_the_log_and_one_that_hangs_delays_nothing(
        self, exported: Exported
    ) -> None:
        daemon, collector = exported.explicit, exported.collector
        refused = (
            f"cannot push metrics to {collector.url}/v1/metrics: connection refused; "
            "start the collector, or correct `otlp.endpoint`"
        )
        recovered = len(daemon.log("otlp_recovered"))  # on a busy machine, a push may have been late before
        collector.process.stop()
        daemon.until_said("otlp_failed", message=refused)
        collector.start()
        eventually(lambda: len(daemon.log("otlp_recovered")) > recovered, "it recovers", LOOK_SECONDS)
        assert [entry["message"] for entry in daemon.log("otlp_failed")].count(refused) == 1
        assert daemon.log("library_complains") == []

        failures = len(daemon.log("otlp_failed"))
        collector.process.signal(signal.SIGSTOP)
        try:
            eventually(lambda: len(daemon.log("otlp_failed")) > failures, "a push failed", LOOK_SECONDS)
            assert daemon.answer("/metrics")
            assert daemon.stop() == 0
        finally:
            collector.process.signal(signal.SIGCONT)


def content_type(daemon: Daemon, **headers: str) -> str | None:
    with Reader(daemon.url).asking("/metrics", **headers) as answer:
        return answer.headers["Content-Type"] if answer.status == HTTPStatus.OK else None


def recorded(path: Path) -> set[str]:
    """Return the names that rules record."""
    groups = yaml.safe_load(path.read_text())["groups"]
    return {rule["record"] for group in groups for rule in group["rules"] if "record" in rule}


def of_events(labels: Mapping[str, str]) -> bool:
    return labels["__name__"] == TIMESPAN


def in_prometheus(labels: Mapping[str, str]) -> Series:
    """Return a pushed series without the labels that Prometheus makes of its resource."""
    return series(labels["__name__"], {key: labels[key] for key in labels.keys() - {"job", "instance", "__name__"}})


def events(values: Mapping[Series, float]) -> dict[Series, float]:
    """Return the counts of events, which no longer rise."""
    names = {TIMESPAN + part for part in ("_bucket", "_count", "_sum")} | {"watchslo_slo_events_total"}
    return {one: value for one, value in values.items() if name_of(one) in names}


def samples(pushed: Mapping[str, Any]) -> Iterator[tuple[Series, float]]:
    """Return what was pushed at once as samples of Prometheus."""
    for metric in pushed["scopeMetrics"][0]["metrics"]:
        kind = next(kind for kind in ("sum", "gauge", "histogram") if kind in metric)
        for point in metric[kind]["dataPoints"]:
            labels = {one["key"]: one["value"]["stringValue"] for one in point.get("attributes", ())}
            if kind == "histogram":
                ends = [*map(str, point["explicitBounds"]), "+Inf"]
                for end, count in zip(ends, accumulate(map(int, point["bucketCounts"])), strict=True):
                    yield series(f"{metric['name']}_bucket", {**labels, "le": end}), count
                yield series(f"{metric['name']}_count", labels), int(point.get("count", 0))
                yield series(f"{metric['name']}_sum", labels), point["sum"]
            else:
                yield series(metric["name"], labels), float(point["asDouble"])
