"""Are the numbers true? Another client writes, and knows when each event was due; Prometheus reads the result."""

import json
import math
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.control_plane import ControlPlane, write_kubeconfig
from tests.support.daemon import LENIENT_OBJECTIVE, Daemon, Scrape, Simulator, config_file
from tests.support.kept_up import while_kept_up
from tests.support.observed import Observed
from tests.support.prometheus import Prometheus, complaints
from tests.support.writer import Write, configmap, pod

QUERIES = Path(__file__).parents[2] / "docs/howto/query.md"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"

PRIVATE = "confidential"
"""Part of every name, label and value that is written here; watchslo must never show it."""
OBJECTS = 60
PATCHES = 4
PAUSE_SECONDS = 0.01

WATCHES = [
    {"resource": "configmaps"},
    {"resource": "configmaps", "name": "paged", "list": "paged", "namespace": "default"},
    {"resource": "configmaps", "name": "marked", "namespace": "default", "labelSelector": f"mark={PRIVATE}"},
    {"resource": "pods"},
    {"resource": "events"},
    {"resource": "leases.coordination.k8s.io"},
]
WRITTEN = ("configmaps", "paged", "marked", "pods", "events")


@dataclass
class Measured:
    """A daemon that measures what this client writes; all writes so far, and the expected events by watch and type."""

    plane: ControlPlane
    daemon: Daemon
    writes: list[Write] = field(default_factory=list)
    events: Counter[tuple[str, str]] = field(default_factory=Counter)

    def write(self) -> Scrape:
        """Write everything once more; return a scrape in which each event is a sample or counted as unmeasured."""
        round_ = len(self.writes)
        others = threading.Thread(target=write_others, args=(self.plane, round_))
        others.start()
        self.writes += write_configmaps(self.plane, round_)
        others.join()
        for watch in ("configmaps", "paged"):
            self.events += Counter({(watch, "added"): OBJECTS, (watch, "deleted"): OBJECTS})
            self.events[watch, "modified"] += PATCHES * OBJECTS
        # For a selector, an object that gets the mark is added, and one that loses it is deleted.
        self.events += Counter({("marked", kind): OBJECTS for kind in ("added", "modified", "deleted")})
        # A pod is modified with a deletion timestamp before it is removed, even without a grace period.
        self.events += Counter({("pods", "added"): OBJECTS, ("pods", "modified"): 2 * OBJECTS})
        self.events += Counter({("pods", "deleted"): OBJECTS, ("events", "added"): OBJECTS})
        self.daemon.until(self._all_judged, "everything counted and sealed")
        return self.daemon.scrape()

    def verify(self) -> None:
        """Check what is true however slow this machine is."""
        scrape = self.daemon.scrape()
        assert seen(scrape) == self.events
        for watch in WRITTEN:
            total = samples(scrape, watch)
            unmeasured = scrape.total("watchslo_unmeasured_events_total", watch=watch)
            assert total + unmeasured == scrape.total("watchslo_watch_events_total", watch=watch)
            # Only lateness of this machine may leave events unmeasured.
            assert unmeasured == scrape.value("watchslo_unmeasured_events_total", watch=watch, reason="tainted")
            assert scrape.total("watchslo_slo_events_total", watch=watch) == total
            assert scrape.value("watchslo_apiserver_timespan_seconds_bucket", watch=watch, le="+Inf") == total
        assert scrape.total("watchslo_watch_guarantee_violations_total") == 0

    def _all_judged(self, scrape: Scrape) -> bool:
        return all(
            samples(scrape, watch) + scrape.total("watchslo_unmeasured_events_total", watch=watch)
            >= sum(count for (name, _), count in self.events.items() if name == watch)
            for watch in WRITTEN
        )


def write_configmaps(plane: ControlPlane, round_: int) -> list[Write]:
    """Creates, patches and deletes config maps; the second patch marks them, the last takes the mark away."""
    writes = []
    with plane.writer() as writer:
        for number in range(OBJECTS):
            name = f"{PRIVATE}-{round_}-{number}"
            writes.append(writer.create(CONFIGMAPS, configmap(name)))
            for patch in range(PATCHES):
                labels = {"mark": PRIVATE if 0 < patch < PATCHES - 1 else None, "round": str(patch)}
                writes.append(writer.patch(f"{CONFIGMAPS}/{name}", {"metadata": {"labels": labels}}))
                time.sleep(PAUSE_SECONDS)
            writes.append(writer.delete(f"{CONFIGMAPS}/{name}"))
    return writes


def write_others(plane: ControlPlane, round_: int) -> None:
    """Creates and deletes pods, which are watched as metadata, and events, which have no watch cache."""
    involved = {"kind": "Pod", "namespace": "default", "name": PRIVATE}
    with plane.writer() as writer:
        for number in range(OBJECTS):
            name = f"{PRIVATE}-{round_}-{number}"
            writer.create(PODS, pod(name, secret=PRIVATE))
            writer.patch(f"{PODS}/{name}", {"metadata": {"annotations": {"said": PRIVATE}}})
            writer.delete(f"{PODS}/{name}")
            writer.create(EVENTS, {"metadata": {"name": name}, "involvedObject": involved, "message": PRIVATE})
            time.sleep(PAUSE_SECONDS)


def seen(scrape: Scrape) -> Counter[tuple[str, str]]:
    """Return the events that the daemon counted, by watch and type."""
    counted = {
        (watch, kind): int(scrape.value("watchslo_watch_events_total", watch=watch, type=kind))
        for watch in WRITTEN
        for kind in ("added", "modified", "deleted", "error")
    }
    return +Counter(counted)


def samples(scrape: Scrape, watch: str) -> float:
    return scrape.value("watchslo_apiserver_timespan_seconds_count", watch=watch)


def in_time(scrape: Scrape) -> None:
    """Check the verdicts: none is late, and most are certain."""
    assert scrape.total("watchslo_slo_events_total", verdict="beyond") == 0
    for watch in WRITTEN:
        within = scrape.value("watchslo_slo_events_total", watch=watch, verdict="within")
        assert within > samples(scrape, watch) / 2, watch


@pytest.fixture(scope="module")
def daemon(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    folder, kubeconfig = tmp_path_factory.mktemp("measured") / "daemon", control_plane.kubeconfig()
    with Observed(folder, kubeconfig, WATCHES, log={"level": "debug"}, objective=LENIENT_OBJECTIVE) as daemon:
        daemon.until_measuring(*WRITTEN)
        yield daemon


@pytest.fixture(scope="module")
def prometheus(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with Prometheus(tmp_path_factory.mktemp("prometheus"), daemon.url) as prometheus:
        prometheus.process.until(
            lambda: prometheus.value('watchslo_watch_up{watch="paged"}'), "it scrapes before the first write"
        )
        yield prometheus


class TestMeasurement:
    """One story: the second test begins with what the first one wrote."""

    def test_writes_are_counted_exactly_measured_truly_and_never_shown(
        self, control_plane: ControlPlane, daemon: Observed, prometheus: Prometheus
    ) -> None:
        del prometheus  # it scrapes from the start
        measured = Measured(control_plane, daemon)

        def play() -> Scrape:
            scrape = measured.write()
            measured.verify()
            return scrape

        while_kept_up(lambda: daemon, play, in_time)
        daemon.verify(measured.writes, OBJECTS, "paged")
        creations = "watchslo_creation_to_watch_seconds"
        daemon.until(
            lambda scrape: scrape.value(f"{creations}_count", watch="pods") > 0, "creations are dated by timestamps"
        )
        scrape = daemon.scrape()
        assert {sample.labels["watch"] for sample in scrape.families[creations].samples} == {"pods"}
        assert complaints(scrape.text) == ""
        pages = [daemon.get(path)[1] for path in ("/", "/metrics", "/api/v1/status", "/readyz", "/openapi.json")]
        assert PRIVATE in json.dumps(WATCHES)  # the configuration itself may hold private words
        for text in (*pages, daemon.said):
            assert PRIVATE not in text

    def test_prometheus_answers_the_queries_of_the_documentation(self, prometheus: Prometheus) -> None:
        queries = documented_queries()
        assert len(queries) == 7
        for query in queries:
            found = prometheus.process.until(partial(figures, prometheus, query), f"{query} answered")
            assert min(found) >= 0, f"{query} gives {found}"


def documented_queries() -> list[str]:
    """The PromQL that docs/howto/query.md tells users to copy."""
    block = re.search(r"```promql\n(.*?)```", QUERIES.read_text(), re.DOTALL)
    assert block is not None
    lines = (line for line in block[1].splitlines() if line and not line.startswith("#"))
    return re.split(r"\n(?=\S)", "\n".join(lines))


def figures(prometheus: Prometheus, query: str) -> list[float]:
    """Return the values for config maps in the answer, if any."""
    elements = [one for one in prometheus.query(query) if one["metric"].get("resource") == "configmaps"]
    found = [float(one["value"][1]) for one in elements]
    return [] if any(map(math.isnan, found)) else found


@pytest.mark.version("1.30")
def test_apiserver_of_another_version_is_measured(
    control_planes: Callable[[str], ControlPlane], minor: str, tmp_path: Path
) -> None:
    plane = control_planes(minor)
    config = config_file(tmp_path, watch=WATCHES, metrics="full", objective=LENIENT_OBJECTIVE)
    with Daemon(tmp_path, "--config", config, "--kubeconfig", plane.kubeconfig()) as daemon:
        daemon.until_measuring(*WRITTEN)
        measured = Measured(plane, daemon)
        while_kept_up(lambda: daemon, measured.write, in_time)
        measured.verify()
        (apiserver,) = daemon.status()["apiservers"]
        assert apiserver["version"].startswith(f"v{minor}.")


# Revisions that are commit times, as on GKE


LEAST_TIMESTAMP = 10**18
SAMPLES = 50
BEST_OF_TICKS_SECONDS = 0.25  # half of the mean gap of ticks: bounds by ticks alone are wider
COMMIT_TIMES = {
    "cluster": {"commit_times": {"offset": 3600.0, "uncertainty": 0.005}},
    "workload": [{"resource": "configmaps", "rate": 10}],
}


def test_events_are_dated_by_revisions_that_are_commit_times(tmp_path: Path) -> None:
    kubeconfig, config = tmp_path / "kubeconfig", config_file(tmp_path, watch=[{"resource": "configmaps"}])
    with Simulator(tmp_path, "--config", json.dumps(COMMIT_TIMES)) as simulator:
        write_kubeconfig(kubeconfig, {"server": simulator.url}, {})
        with Daemon(tmp_path / "daemon", "--config", config, "--kubeconfig", kubeconfig) as daemon:
            daemon.until_measuring("configmaps")
            daemon.until(
                lambda scrape: scrape.values("watchslo_storage_info", kind="timestamp") == [1.0],
                "revisions are found to be times",
            )

            def longest() -> Any:
                """Return the maximum of the last seconds, once there are enough events."""
                windows = daemon.watches_by_name()["configmaps"]["latency"]["windows"]
                (window,) = (one for one in windows if one["name"] == "15s")
                return window["events"] >= SAMPLES and next((one for one in window["quantiles"] if one["q"] == 1), None)

            def judge(found: Any) -> None:
                best_of_ticks = BEST_OF_TICKS_SECONDS
                assert found["upper"] - found["lower"] < best_of_ticks

            while_kept_up(lambda: daemon, lambda: daemon.process.until(longest, "a maximum"), judge)
            status, scrape = daemon.status(), daemon.scrape()
    (domain,), (stream,) = status["domains"], status["watches"]
    assert int(domain["revision"]) > LEAST_TIMESTAMP
    assert isinstance(domain["revision"], str)
    assert isinstance(stream["revision"], str)
    assert "watchslo_gap_revisions" not in scrape.text
    assert stream["latency"]["events"] >= SAMPLES
    assert domain["resets"] == 0
