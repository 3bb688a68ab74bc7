"""The main job: what another client writes is counted, dated and shown, and Prometheus understands it."""

import contextlib
import json
import math
import re
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import numpy as np
import pytest

from tests.support.control_plane import ControlPlane
from tests.support.daemon import Daemon, Scrape, config_file
from tests.support.process import eventually
from tests.support.prometheus import Prometheus, complaints
from tests.support.writer import Write, configmap, pod

README = Path(__file__).parents[2] / "README.md"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"

PRIVATE = "confidential"
"""Part of every name, label and value that is written here: nobody may ever read it from us."""
PATCHES = 4
PAUSE_SECONDS = 0.01
SEALED_SECONDS = 60.0
SLACK_SECONDS = 0.15  # between the arrival at the observer and at a daemon that believes its stamps
GOAL_SECONDS = 0.05  # one small sample on a loaded machine; `make fidelity` judges by many
MOST_LEFT_OUT = 0.5  # of all events, where a machine is busy

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
    """A watch of our own, which notes when each revision of the config maps in `default` arrived."""

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
    """What was written, and the events that it must have brought, by watch and type."""

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
    # To a selector, whoever gets the mark is added, and whoever loses it deleted.
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
    # A pod is told to end before it is removed, even if it has no time for that.
    written.events += Counter(
        {("pods", "added"): objects, ("pods", "modified"): 2 * objects, ("pods", "deleted"): objects}
    )
    written.events["events", "added"] += objects


def seen(scrape: Scrape, watches: tuple[str, ...] = WRITTEN) -> Counter[tuple[str, str]]:
    """The events that the daemon counted, by watch and type."""
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
    """A daemon that has seen all that was written, and dated it."""

    daemon: Daemon
    observer: Observer
    written: Written


@pytest.fixture(scope="module")
def old_daemon(old_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("old-measured")
    config = config_file(folder, watch=WATCHES, metrics="full")
    with Daemon(folder, "--config", config, "--kubeconfig", old_control_plane.kubeconfig()) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def daemon(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("measured")
    config = config_file(folder, watch=WATCHES, metrics="full", log={"level": "debug"})
    with Daemon(folder, "--config", config, "--kubeconfig", control_plane.kubeconfig()) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def prometheus(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with Prometheus(tmp_path_factory.mktemp("prometheus"), daemon.url) as prometheus:
        yield prometheus


@pytest.fixture(scope="module")
def measured(control_plane: ControlPlane, old_daemon: Daemon, daemon: Daemon) -> Measured:
    del old_daemon  # it only starts meanwhile
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
        daemon.until(lambda scrape: all_judged(scrape, written), SEALED_SECONDS, "everything counted and sealed")
        revisions = {write.revision for write in written.writes if write.revision is not None}
        eventually(lambda: revisions <= observer.arrivals.keys(), SEALED_SECONDS, "all observed")
    return Measured(daemon, observer, written)


def all_judged(scrape: Scrape, written: Written) -> bool:
    """Whether as many events are samples, or known to be none, as were written."""
    return all(
        samples(scrape, watch) + scrape.total("watchslo_unmeasured_events_total", watch=watch)
        >= sum(count for (name, _), count in written.events.items() if name == watch)
        for watch in WRITTEN
    )


def readme_queries() -> list[str]:
    """The PromQL that the README tells people to copy."""
    block = re.search(r"```promql\n(.*?)```", README.read_text(), re.DOTALL)
    assert block is not None
    lines = (line for line in block[1].splitlines() if line and not line.startswith("#"))
    return re.split(r"\n(?=\S)", "\n".join(lines))


def test_prometheus_answers_the_queries_of_the_readme(prometheus: Prometheus, measured: Measured) -> None:
    del measured  # it comes after Prometheus, which has seen it all from the start
    queries = readme_queries()
    assert len(queries) == 6
    count = 'sum(increase(watchslo_apiserver_timespan_seconds_count{watch="paged"}[5m]))'
    prometheus.process.until(lambda: (prometheus.value(count) or 0) > 0, SEALED_SECONDS, "the samples are scraped")
    # A scrape that took longer than a second was none.
    prometheus.process.until(lambda: prometheus.target()["health"] == "up", SEALED_SECONDS, "up")
    for query in queries:
        found = prometheus.process.until(partial(figures, prometheus, query), SEALED_SECONDS, f"{query} answered")
        assert 0 <= min(found) < 1, f"{query} gives {found}"  # an upper bound may be more


def figures(prometheus: Prometheus, query: str) -> list[float]:
    """What it answers of config maps, if anything."""
    elements = [one for one in prometheus.query(query) if one["metric"].get("resource") == "configmaps"]
    found = [float(one["value"][1]) for one in elements]
    return [] if any(map(math.isnan, found)) else found


def test_events_are_counted_exactly(measured: Measured) -> None:
    assert seen(measured.daemon.scrape()) == measured.written.events


def test_every_event_is_a_sample_or_said_not_to_be(measured: Measured) -> None:
    scrape = measured.daemon.scrape()
    for watch in WRITTEN:
        events = scrape.total("watchslo_watch_events_total", watch=watch)
        unmeasured = scrape.total("watchslo_unmeasured_events_total", watch=watch)
        assert samples(scrape, watch) + unmeasured == events, watch
        # Only this machine's own slowness is an excuse.
        assert unmeasured == scrape.value("watchslo_unmeasured_events_total", watch=watch, reason="tainted"), watch
        assert unmeasured < MOST_LEFT_OUT * events, watch


def test_verdicts_and_windows_agree_with_the_histogram(measured: Measured) -> None:
    scrape = measured.daemon.scrape()
    for watch in WRITTEN:
        total = samples(scrape, watch)
        assert scrape.total("watchslo_slo_events_total", watch=watch) == total
        # Where ticks were late nothing is sure.
        assert scrape.value("watchslo_slo_events_total", watch=watch, verdict="within") > total / 2
        assert scrape.value("watchslo_slo_events_total", watch=watch, verdict="beyond") == 0
        assert scrape.value("watchslo_apiserver_timespan_seconds_bucket", watch=watch, le="+Inf") == total


def test_quantiles_fit_the_truth(measured: Measured) -> None:
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
        # A moment in which this machine stands still is seen in the last percents, and not by both at once.
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


def test_no_object_is_named_anywhere(measured: Measured) -> None:
    pages = [measured.daemon.get(path)[1] for path in ("/", "/metrics", "/api/v1/status", "/readyz", "/openapi.json")]
    assert PRIVATE in json.dumps(WATCHES)  # what the user wrote in the configuration may be shown to the user only
    for text in (*pages, measured.daemon.said):
        assert PRIVATE not in text


def test_an_old_apiserver_is_measured_too(old_control_plane: ControlPlane, old_daemon: Daemon) -> None:
    old_daemon.until_measuring(*WRITTEN)
    written = Written()
    write_configmaps(old_control_plane, "old", 20, written)
    write_others(old_control_plane, 20, written)
    old_daemon.until(lambda scrape: all_judged(scrape, written), SEALED_SECONDS, "everything counted and sealed")
    scrape = old_daemon.scrape()
    assert seen(scrape) == written.events
    assert scrape.total("watchslo_slo_events_total", verdict="beyond") == 0
    assert all(stream["lastFailure"] is None for stream in old_daemon.streams().values())
