"""The main job: the writes of another client are counted, dated and measured correctly, and Prometheus reads them."""

import contextlib
import json
import math
import os
import re
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from random import Random
from statistics import median
from typing import Self
from urllib.parse import urlsplit

import numpy as np
import pytest

from tests.fidelity import real, simulated
from tests.fidelity.cases import Case, Traffic
from tests.fidelity.outcome import P99, Outcome, allowed
from tests.fidelity.running import Plan, Run
from tests.support.assets import Assets
from tests.support.control_plane import ControlPlane
from tests.support.daemon import LENIENT_OBJECTIVE, Daemon, Scrape, config_file
from tests.support.process import eventually
from tests.support.prometheus import Prometheus, complaints
from tests.support.writer import Write, configmap, pod

QUERIES = Path(__file__).parents[2] / "docs/howto/query.md"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"

PRIVATE = "confidential"
"""Part of every name, label and value that is written here; watchslo must never show it."""
PATCHES = 4
PAUSE_SECONDS = 0.01
SLACK_SECONDS = 0.15  # between the arrival at the observer and at the daemon
GOAL_SECONDS = 0.05  # for one small sample on a loaded machine; `make fidelity` uses many
MOST_LEFT_OUT = 0.5  # of all events, on a busy machine

WATCHES = [
    {"resource": "configmaps"},
    {"resource": "configmaps", "name": "paged", "list": "paged", "namespace": "default"},
    {"resource": "configmaps", "name": "marked", "namespace": "default", "labelSelector": f"mark={PRIVATE}"},
    {"resource": "pods"},
    {"resource": "events"},
    {"resource": "leases.coordination.k8s.io"},
]
WRITTEN = ("configmaps", "paged", "marked", "pods", "events")


class Observer:
    """A separate watch that records when each revision of the config maps in `default` arrived."""

    def __init__(self, plane: ControlPlane, revision: int) -> None:
        self.arrivals: dict[int, float] = {}
        parts = urlsplit(plane.url)
        self._connection = HTTPSConnection(
            str(parts.hostname), parts.port, context=ssl.create_default_context(cafile=plane.ca)
        )
        query = f"watch=1&resourceVersion={revision}&timeoutSeconds=300"
        self._connection.request("GET", f"{CONFIGMAPS}?{query}", headers={"Authorization": f"Bearer {plane.token}"})
        self._response = self._connection.getresponse()
        self._thread = threading.Thread(target=self._follow)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._response.close()
        self._connection.close()

    def _follow(self) -> None:
        with contextlib.suppress(OSError, HTTPException):  # the connection is shut down at the end
            while line := self._response.readline():
                received = time.monotonic()
                self.arrivals[int(json.loads(line)["object"]["metadata"]["resourceVersion"])] = received


@dataclass
class Written:
    """The writes, and the expected events by watch and type."""

    writes: list[Write] = field(default_factory=list)
    events: Counter[tuple[str, str]] = field(default_factory=Counter)


def write_configmaps(plane: ControlPlane, prefix: str, objects: int, written: Written) -> None:
    """Creates, patches and deletes config maps; the second patch marks them, the last takes the mark away."""
    with plane.writer() as writer:
        for number in range(objects):
            name = f"{PRIVATE}-{prefix}-{number}"
            written.writes.append(writer.create(CONFIGMAPS, configmap(name)))
            for patch in range(PATCHES):
                labels = {"mark": PRIVATE if 0 < patch < PATCHES - 1 else None, "round": str(patch)}
                written.writes.append(writer.patch(f"{CONFIGMAPS}/{name}", {"metadata": {"labels": labels}}))
                time.sleep(PAUSE_SECONDS)
            written.writes.append(writer.delete(f"{CONFIGMAPS}/{name}"))
    for watch in ("configmaps", "paged"):
        written.events += Counter({(watch, "added"): objects, (watch, "deleted"): objects})
        written.events[watch, "modified"] += PATCHES * objects
    # For a selector, an object that gets the mark is added, and one that loses it is deleted.
    written.events += Counter({("marked", kind): objects for kind in ("added", "modified", "deleted")})


def write_others(plane: ControlPlane, objects: int, written: Written) -> None:
    """Creates and deletes pods, which are watched as metadata, and events, which have no watch cache."""
    involved = {"kind": "Pod", "namespace": "default", "name": PRIVATE}
    with plane.writer() as writer:
        for number in range(objects):
            name = f"{PRIVATE}-{number}"
            writer.create(PODS, pod(name, secret=PRIVATE))
            writer.patch(f"{PODS}/{name}", {"metadata": {"annotations": {"said": PRIVATE}}})
            writer.delete(f"{PODS}/{name}")
            writer.create(EVENTS, {"metadata": {"name": name}, "involvedObject": involved, "message": PRIVATE})
            time.sleep(PAUSE_SECONDS)
    # A pod is modified with a deletion timestamp before it is removed, even without a grace period.
    written.events += Counter(
        {("pods", "added"): objects, ("pods", "modified"): 2 * objects, ("pods", "deleted"): objects}
    )
    written.events["events", "added"] += objects


def seen(scrape: Scrape, watches: tuple[str, ...] = WRITTEN) -> Counter[tuple[str, str]]:
    """Return the events that the daemon counted, by watch and type."""
    counted = {
        (watch, kind): int(scrape.value("watchslo_watch_events_total", watch=watch, type=kind))
        for watch in watches
        for kind in ("added", "modified", "deleted", "error")
    }
    return +Counter(counted)


def samples(scrape: Scrape, watch: str) -> float:
    return scrape.value("watchslo_apiserver_timespan_seconds_count", watch=watch)


@dataclass
class Measured:
    """A daemon that has seen and dated all writes."""

    daemon: Daemon
    observer: Observer
    written: Written


@pytest.fixture(scope="module")
def daemon(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("measured")
    config = config_file(folder, watch=WATCHES, metrics="full", log={"level": "debug"}, objective=LENIENT_OBJECTIVE)
    with Daemon(folder, "--config", config, "--kubeconfig", control_plane.kubeconfig()) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def prometheus(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with Prometheus(tmp_path_factory.mktemp("prometheus"), daemon.url) as prometheus:
        yield prometheus


@pytest.fixture(scope="module")
def measured(control_plane: ControlPlane, daemon: Daemon) -> Measured:
    daemon.until_measuring(*WRITTEN)
    with control_plane.writer() as writer:
        start = writer.revision(CONFIGMAPS)
    parts = [Written(), Written(), Written()]
    threads = [
        threading.Thread(target=write_configmaps, args=(control_plane, "a", 90, parts[0])),
        threading.Thread(target=write_configmaps, args=(control_plane, "b", 90, parts[1])),
        threading.Thread(target=write_others, args=(control_plane, 200, parts[2])),
    ]
    with Observer(control_plane, start) as observer:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        written = Written(
            [write for part in parts for write in part.writes],
            sum((part.events for part in parts), start=Counter[tuple[str, str]]()),
        )
        daemon.until(lambda scrape: all_judged(scrape, written), "everything counted and sealed")
        revisions = {write.revision for write in written.writes if write.revision is not None}
        eventually(lambda: revisions <= observer.arrivals.keys(), "all observed")
    return Measured(daemon, observer, written)


def all_judged(scrape: Scrape, written: Written) -> bool:
    """Return True if each expected event is a sample or counted as unmeasured."""
    return all(
        samples(scrape, watch) + scrape.total("watchslo_unmeasured_events_total", watch=watch)
        >= sum(count for (name, _), count in written.events.items() if name == watch)
        for watch in WRITTEN
    )


def readme_queries() -> list[str]:
    """The PromQL that docs/howto/query.md tells users to copy."""
    block = re.search(r"```promql\n(.*?)```", QUERIES.read_text(), re.DOTALL)
    assert block is not None
    lines = (line for line in block[1].splitlines() if line and not line.startswith("#"))
    return re.split(r"\n(?=\S)", "\n".join(lines))


def test_prometheus_answers_the_queries_of_the_readme(prometheus: Prometheus, measured: Measured) -> None:
    del measured  # requested after Prometheus, which must scrape from the start
    queries = readme_queries()
    assert len(queries) == 7
    count = 'sum(increase(watchslo_apiserver_timespan_seconds_count{watch="paged"}[5m]))'
    prometheus.process.until(lambda: (prometheus.value(count) or 0) > 0, "the samples are scraped")
    # A scrape that takes longer than a second fails.
    prometheus.process.until(lambda: prometheus.target()["health"] == "up", "up")
    for query in queries:
        found = prometheus.process.until(partial(figures, prometheus, query), f"{query} answered")
        assert 0 <= min(found) < 1, f"{query} gives {found}"  # an upper bound may be larger


def figures(prometheus: Prometheus, query: str) -> list[float]:
    """Return the values for config maps in the answer, if any."""
    elements = [one for one in prometheus.query(query) if one["metric"].get("resource") == "configmaps"]
    found = [float(one["value"][1]) for one in elements]
    return [] if any(map(math.isnan, found)) else found


def test_events_are_counted_exactly(measured: Measured) -> None:
    assert seen(measured.daemon.scrape()) == measured.written.events


def test_every_event_is_a_sample_or_counted_as_unmeasured(measured: Measured) -> None:
    scrape = measured.daemon.scrape()
    for watch in WRITTEN:
        events = scrape.total("watchslo_watch_events_total", watch=watch)
        unmeasured = scrape.total("watchslo_unmeasured_events_total", watch=watch)
        assert samples(scrape, watch) + unmeasured == events, watch
        # Only lateness of this machine may leave events unmeasured.
        assert unmeasured == scrape.value("watchslo_unmeasured_events_total", watch=watch, reason="tainted"), watch
        assert unmeasured < MOST_LEFT_OUT * events, watch


def test_verdicts_and_windows_agree_with_the_histogram(measured: Measured) -> None:
    scrape = measured.daemon.scrape()
    for watch in WRITTEN:
        total = samples(scrape, watch)
        assert scrape.total("watchslo_slo_events_total", watch=watch) == total
        # Late ticks leave verdicts uncertain.
        assert scrape.value("watchslo_slo_events_total", watch=watch, verdict="within") > total / 2
        assert scrape.value("watchslo_slo_events_total", watch=watch, verdict="beyond") == 0
        assert scrape.value("watchslo_apiserver_timespan_seconds_bucket", watch=watch, le="+Inf") == total


def test_quantiles_match_the_observed_latencies(measured: Measured) -> None:
    writes = [write for write in measured.written.writes if write.revision is not None]
    arrivals = [measured.observer.arrivals[write.revision or 0] for write in writes]
    latest = [arrival - write.before for write, arrival in zip(writes, arrivals, strict=True)]
    earliest = [max(0.0, arrival - write.after) for write, arrival in zip(writes, arrivals, strict=True)]
    (window,) = (each for each in measured.daemon.streams()["paged"]["latency"]["windows"] if each["name"] == "5m")
    assert window["events"] > (1 - MOST_LEFT_OUT) * len(writes)
    for quantile in window["quantiles"]:
        lower, upper = np.quantile(earliest, quantile["q"]), np.quantile(latest, quantile["q"])
        assert quantile["lower"] <= upper + SLACK_SECONDS, quantile
        assert quantile["upper"] >= lower - SLACK_SECONDS, quantile
        # A short stall of this machine affects the last percents, and not both observers at once.
        goal = GOAL_SECONDS + (SLACK_SECONDS if quantile["q"] > 0.5 else 0.0)
        assert lower - goal <= quantile["estimate"] <= upper + goal, (lower, quantile, upper)


def test_creations_are_dated_by_their_timestamps(measured: Measured) -> None:
    scrape = measured.daemon.scrape()
    names = {sample.labels["watch"] for sample in scrape.families["watchslo_creation_to_watch_seconds"].samples}
    assert names == {"pods"}
    if measured.daemon.status()["apiservers"][0]["offset"] is None:
        pytest.fail("the apiserver's clock is unknown")
    assert scrape.value("watchslo_creation_to_watch_seconds_count", watch="pods") > 0


def test_promtool_finds_nothing(measured: Measured) -> None:
    assert complaints(measured.daemon.scrape().text) == ""


def test_no_object_name_is_shown(measured: Measured) -> None:
    pages = [measured.daemon.get(path)[1] for path in ("/", "/metrics", "/api/v1/status", "/readyz", "/openapi.json")]
    assert PRIVATE in json.dumps(WATCHES)  # the configuration itself may hold private words
    for text in (*pages, measured.daemon.said):
        assert PRIVATE not in text


@pytest.mark.version("1.30")
def test_apiserver_of_another_version_is_measured(
    control_planes: Callable[[str], ControlPlane], minor: str, tmp_path: Path
) -> None:
    plane = control_planes(minor)
    config = config_file(tmp_path, watch=WATCHES, metrics="full", objective=LENIENT_OBJECTIVE)
    with Daemon(tmp_path, "--config", config, "--kubeconfig", plane.kubeconfig()) as daemon:
        daemon.until_measuring(*WRITTEN)
        written = Written()
        write_configmaps(plane, "versions", 20, written)
        write_others(plane, 20, written)
        daemon.until(lambda scrape: all_judged(scrape, written), "everything counted and sealed")
        scrape = daemon.scrape()
        assert seen(scrape) == written.events
        assert scrape.total("watchslo_slo_events_total", verdict="beyond") == 0
        assert scrape.total("watchslo_watch_guarantee_violations_total") == 0
        assert all(stream["lastFailure"] is None for stream in daemon.streams().values())
        (apiserver,) = daemon.status()["apiservers"]
        assert apiserver["version"].startswith(f"v{minor}.")


# Events in an etcd of their own: two domains


AHEAD = 300  # the revision of the main etcd at the start; the second etcd begins with 1
WRITES = 150
LATE_SECONDS = 30.0
IN_TWO_DOMAINS = ("configmaps", "events")


def write(plane: ControlPlane, prefix: str, count: int) -> None:
    """Create `count` config maps and as many events, in turn."""
    involved = {"kind": "Pod", "namespace": "default", "name": "none"}
    with plane.writer() as writer:
        for number in range(count):
            writer.create(CONFIGMAPS, configmap(f"{prefix}-{number}"))
            writer.create(EVENTS, {"metadata": {"name": f"{prefix}-{number}"}, "involvedObject": involved})


def left_out(scrape: Scrape, **labels: str) -> float:
    """Return the number of unmeasured events."""
    return scrape.total("watchslo_unmeasured_events_total", **labels)


def test_each_domain_has_its_own_clock(killable_plane: ControlPlane, tmp_path: Path) -> None:
    plane = killable_plane
    watches = [{"resource": resource} for resource in ("configmaps", "pods", "events")]
    config = config_file(tmp_path, watch=watches, metrics="full", objective=LENIENT_OBJECTIVE)
    with plane.writer() as writer:
        while (revision := writer.revision(CONFIGMAPS)) < AHEAD:
            writer.create(CONFIGMAPS, configmap(f"ahead-{revision}"))
    with Daemon(tmp_path, "--config", config, "--kubeconfig", plane.kubeconfig()) as daemon:
        daemon.until_measuring("configmaps", "pods", "events")
        assert {name: stream["domain"] for name, stream in daemon.streams().items()} == {
            "configmaps": "main",
            "pods": "main",
            "events": "events",
        }
        domains = {domain["name"]: domain for domain in daemon.status()["domains"]}
        assert sorted(domains["main"]["ticksOn"]) == ["configmaps", "pods"]
        assert domains["events"]["ticksOn"] == ["events"]
        before = daemon.scrape()

        written = 0

        def all_judged(scrape: Scrape) -> bool:
            return all(
                samples(scrape, watch) + left_out(scrape, watch=watch) - left_out(before, watch=watch) >= written
                for watch in IN_TWO_DOMAINS
            )

        scrape = before
        while any(
            samples(scrape, watch) <= WRITES / 2 for watch in IN_TWO_DOMAINS
        ):  # an event received by a late loop is no sample
            write(plane, f"domains-{written}", WRITES)
            written += WRITES
            daemon.until(all_judged, "all judged")
            scrape = daemon.scrape()
        busy = left_out(scrape, reason="tainted") - left_out(before, reason="tainted")
        assert left_out(scrape) - left_out(before) == busy, "only this machine's own slowness is an excuse"
        for watch in IN_TWO_DOMAINS:
            assert scrape.value("watchslo_watch_events_total", watch=watch, type="added") == written
            assert scrape.value("watchslo_slo_events_total", watch=watch, verdict="beyond") == 0
            p99 = daemon.streams()[watch]["latency"]["windows"][0]["quantiles"][-1]
            assert p99["estimate"] < LATE_SECONDS, p99
        with plane.writer() as writer:
            assert scrape.value("watchslo_resource_version", domain="main") <= writer.revision(CONFIGMAPS)
            assert scrape.value("watchslo_resource_version", domain="events") <= writer.revision(EVENTS)
            assert writer.revision(EVENTS) < writer.revision(CONFIGMAPS)
        assert scrape.total("watchslo_clock_resets_total") == 0
        assert scrape.total("watchslo_watch_guarantee_violations_total") == 0


# Fidelity in small: `make fidelity` measures for longer


CASE = Case(
    "20 ms", Traffic("busy", rate=80.0), "lognormal 20ms 0.25"
)  # narrow, because there are few ticks in this time
SECONDS = 25.0
JUDGED_EVENTS = 1000
MOST_RUNS = 3


def error(outcome: Outcome) -> float:
    """Return the error of the P99 as a multiple of the goal plus the lag of this machine."""
    true = outcome.true[P99]
    return abs(outcome.said[P99].estimate - true) / (allowed(true) + outcome.lag)


def outcomes(measure: Callable[[Plan], Run], folder: Path) -> list[Outcome]:
    """Return one run, or several if the first missed the goal, which is a goal for medians."""
    found: list[Outcome] = []
    while not found or (error(found[0]) > 1 and len(found) < MOST_RUNS):
        place = folder / f"run-{len(found)}"
        place.mkdir()
        seed = Random(os.urandom(8)).getrandbits(32)
        print(f"seed {seed}")
        (outcome,) = measure(Plan(place, (CASE,), SECONDS, seed, ahead=0.0)).outcomes
        assert not outcome.outside
        assert outcome.contradictions == 0
        assert outcome.events >= JUDGED_EVENTS
        found.append(outcome)
    return found


def test_simulated_latencies_are_measured_within_the_goal(tmp_path: Path) -> None:
    assert median(map(error, outcomes(simulated.run, tmp_path))) <= 1


@pytest.mark.version("1.36")
def test_latencies_of_a_real_apiserver_are_measured_within_the_goal(
    tmp_path: Path, assets_of: Callable[[str], Assets], minor: str
) -> None:
    with real.on_etcd(tmp_path, assets_of(minor), (CASE,)) as cluster:
        found = outcomes(lambda plan: real.run(plan, cluster), tmp_path)
    assert median(map(error, found)) <= 1
