"""Metrics that are pushed by OTLP: what Prometheus and a collector of OpenTelemetry receive is what `/metrics` shows.

The simulated cluster ends before values are compared: from then on its events are counted no more. `make otel` builds
the collector; without it those tests are skipped.
"""

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from tests.support import assets
from tests.support.control_plane import write_kubeconfig
from tests.support.daemon import Daemon, Simulator, config_file, start_all
from tests.support.otel_collector import OtelCollector
from tests.support.process import eventually
from tests.support.prometheus import Prometheus
from watchslo.serve.metrics import FAMILIES

TIMESPAN = "watchslo_apiserver_timespan_seconds"
CLUSTER = {
    "latency": [{"client": "lognormal 150ms 0.8"}],
    "workload": [{"resource": "nodes", "rate": 20}, {"resource": "configmaps", "rate": 5}],
}
WATCHES = [{"resource": "nodes"}, {"resource": "configmaps"}]
FEWEST_EVENTS = 100
LOOK_SECONDS = 2.0
STOP_SECONDS = 8.0  # the limit is five

Series = frozenset[tuple[str, str]]


@contextlib.contextmanager
def simulated(folder: Path) -> Iterator[Simulator]:
    with Simulator(folder, "--config", json.dumps(CLUSTER)) as simulator:
        write_kubeconfig(folder / "kubeconfig", {"server": simulator.url}, {})
        yield simulator


def pushing(folder: Path, simulated: Path, **otlp: str) -> Daemon:
    folder.mkdir()
    config = config_file(folder, watch=WATCHES, otlp={"interval": "5s", **otlp})
    return Daemon(folder, "--config", config, "--kubeconfig", simulated / "kubeconfig")


def until_busy(daemon: Daemon) -> None:
    daemon.until_measuring("nodes", "configmaps")
    daemon.until(lambda scrape: scrape.total(f"{TIMESPAN}_count", watch="nodes") > FEWEST_EVENTS, "busy")


def series(name: str, labels: dict[str, str]) -> Series:
    """Return a series with its name, without empty labels, which Prometheus takes for absent.

    The ends of buckets are numbers, which are written in several forms.
    """
    own = {key: str(float(value)) if key == "le" else value for key, value in labels.items() if value}
    return frozenset({**own, "__name__": name}.items())


def scraped(daemon: Daemon) -> dict[Series, float]:
    return {
        series(sample.name, sample.labels): sample.value
        for family in daemon.scrape().families.values()
        for sample in family.samples
    }


# --- into Prometheus --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pushed:
    """A Prometheus, and the daemons that push to it by the form of their histograms."""

    server: Prometheus
    daemons: dict[str, Daemon]

    def query(self, form: str, selector: str) -> list[dict[str, Any]]:
        port = self.daemons[form].url.rpartition(":")[2]
        return self.server.query(f'{{job="watchslo", instance=~".+:{port}", {selector}}}')

    def values(self, form: str) -> dict[Series, float]:
        """Return the values of a daemon, without the labels that Prometheus makes of its resource."""
        found = {}
        for element in self.query(form, '__name__=~"(watchslo|process)_.+"'):
            labels = {key: value for key, value in element["metric"].items() if key not in ("job", "instance")}
            if "value" in element:
                found[series(labels.pop("__name__"), labels)] = float(element["value"][1])
        return found


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pushed]:
    folder = tmp_path_factory.mktemp("otlp")
    command = assets.find(os.environ, assets.PROMETHEUS)
    with contextlib.ExitStack() as stack:
        simulator = stack.enter_context(simulated(folder))
        server = stack.enter_context(
            Prometheus(
                folder / "prometheus",
                {"global": {"scrape_interval": "1m"}},
                "--web.enable-otlp-receiver",
                "--query.lookback-delta=15s",  # of three pushes: series that vanish are marked by no push
                command=command,
            )
        )
        forms = ("explicit", "exponential")
        daemons = {
            form: pushing(folder / form, folder, endpoint=f"{server.url}/api/v1/otlp", histograms=form)
            for form in forms
        }
        start_all(stack, daemons.values())
        for daemon in daemons.values():
            until_busy(daemon)
        simulator.process.stop()
        yield Pushed(server, daemons)


def events(values: dict[Series, float]) -> dict[Series, float]:
    """Return the counts of events, which no longer rise."""
    names = {TIMESPAN + part for part in ("_bucket", "_count", "_sum")} | {"watchslo_slo_events_total"}
    return {one: value for one, value in values.items() if dict(one)["__name__"] in names}


def test_prometheus_has_the_series_of_the_page(pushed: Pushed) -> None:
    daemon = pushed.daemons["explicit"]
    eventually(
        lambda: set(pushed.values("explicit")) == set(scraped(daemon)),
        "the same series",
        LOOK_SECONDS,
    )


def test_prometheus_has_the_values_of_the_page(pushed: Pushed) -> None:
    daemon = pushed.daemons["explicit"]
    eventually(
        lambda: events(pushed.values("explicit")) == events(scraped(daemon)),
        "the same events",
        LOOK_SECONDS,
    )
    assert sum(events(scraped(daemon)).values()) > FEWEST_EVENTS


def test_exponential_histograms_are_native_in_prometheus(pushed: Pushed) -> None:
    daemon = pushed.daemons["exponential"]

    def equal() -> bool:
        counts = {
            element["metric"]["watch"]: float(element["histogram"][1]["count"])
            for element in pushed.query("exponential", f'__name__="{TIMESPAN}"')
        }
        scrape = daemon.scrape()
        return counts == {
            watch["resource"]: scrape.value(f"{TIMESPAN}_count", watch=watch["resource"]) for watch in WATCHES
        }

    eventually(equal, "the same events", LOOK_SECONDS)
    names = {dict(one)["__name__"] for one in pushed.values("exponential")}
    native = {family.name for family in FAMILIES if family.native}
    assert not names & {f"{name}_{part}" for name in native for part in ("bucket", "count", "sum")}


def test_resource_is_in_target_info(pushed: Pushed) -> None:
    (info,) = eventually(lambda: pushed.query("explicit", '__name__="target_info"'), "pushed", LOOK_SECONDS)
    assert info["metric"]["k8s_cluster_name"] == "tests"
    assert info["metric"]["service_version"]


# --- into a collector -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Collected:
    """A collector and the daemon that pushes to it."""

    collector: OtelCollector
    daemon: Daemon


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collected]:
    folder = tmp_path_factory.mktemp("collector")
    with contextlib.ExitStack() as stack:
        collector = stack.enter_context(OtelCollector(folder / "collector", assets.find(os.environ, assets.OTELCOL)))
        simulator = stack.enter_context(simulated(folder))
        daemon = stack.enter_context(pushing(folder / "daemon", folder, endpoint=collector.url))
        until_busy(daemon)
        simulator.process.stop()
        yield Collected(collector, daemon)


def samples(resource: dict[str, Any]) -> Iterator[tuple[Series, float]]:
    """Return what was pushed at once as samples of Prometheus."""
    for metric in resource["scopeMetrics"][0]["metrics"]:
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


class TestCollector:
    """One story: each test begins with what the former ones did to the collector."""

    def newest(self, collected: Collected) -> dict[Series, float]:
        received = collected.collector.received
        return dict(samples(received[-1])) if received else {}

    def test_collector_receives_the_series_of_the_page(self, collected: Collected) -> None:
        eventually(
            lambda: set(self.newest(collected)) == set(scraped(collected.daemon)),
            "the same series",
            LOOK_SECONDS,
        )

    def test_collector_receives_the_values_of_the_page(self, collected: Collected) -> None:
        eventually(
            lambda: events(self.newest(collected)) == events(scraped(collected.daemon)),
            "the same events",
            LOOK_SECONDS,
        )
        assert sum(events(self.newest(collected)).values()) > FEWEST_EVENTS

    def test_ended_collector_is_one_line_of_the_log(self, collected: Collected) -> None:
        daemon, collector = collected.daemon, collected.collector
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

    def test_hanging_collector_delays_neither_the_page_nor_the_end(self, collected: Collected) -> None:
        daemon, collector = collected.daemon, collected.collector
        failures = len(daemon.log("otlp_failed"))
        collector.process.signal(signal.SIGSTOP)
        try:
            eventually(partial(self._said_more, daemon, failures), "failed", LOOK_SECONDS)
            assert daemon.answer("/metrics")
            assert daemon.stop() == 0
        finally:
            collector.process.signal(signal.SIGCONT)

    def _said_more(self, daemon: Daemon, failures: int) -> bool:
        return len(daemon.log("otlp_failed")) > failures
