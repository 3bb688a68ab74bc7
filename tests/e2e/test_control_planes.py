"""The control planes that tests start: they are real, leave nothing behind, and expose the metrics that we name."""

import contextlib
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.assets import Assets
from tests.support.control_plane import EVERYTHING_READABLE, ControlPlane, Etcd, override
from tests.support.names import apiserver_metrics, known, wrong_in_query
from tests.support.process import PATIENCE_SECONDS, Process, eventually, group_members
from tests.support.writer import StatusError, Writer, configmap

ROOT = Path(__file__).parents[2]
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"


def first_line(plane: ControlPlane, path: str, revision: int) -> tuple[dict[str, Any], float]:
    """Return the first line of a watch, and when it was read."""
    parts = urlsplit(plane.url)
    context = ssl.create_default_context(cafile=plane.ca)
    connection = HTTPSConnection(str(parts.hostname), parts.port, timeout=PATIENCE_SECONDS, context=context)
    with contextlib.closing(connection):
        query = f"watch=1&resourceVersion={revision}&timeoutSeconds=60"
        connection.request("GET", f"{path}?{query}", headers={"Authorization": f"Bearer {plane.token}"})
        with connection.getresponse() as response:
            line = response.readline()
            return json.loads(line), time.monotonic()


def test_watch_sees_what_the_writer_wrote(control_plane: ControlPlane) -> None:
    with control_plane.writer() as writer:
        start = writer.revision(CONFIGMAPS)
        write = writer.create(CONFIGMAPS, configmap("harness"))
    line, received = first_line(control_plane, CONFIGMAPS, start)
    assert line["type"] == "ADDED"
    assert line["object"]["metadata"]["resourceVersion"] == str(write.revision)
    assert write.before < write.after < received


def test_compaction_expires_old_revisions(control_plane: ControlPlane) -> None:
    with control_plane.writer() as writer:
        start = writer.revision(EVENTS)
        for size in range(3):
            writer.create(CONFIGMAPS, configmap(f"compacted-{size}"))
    control_plane.etcd.compact(control_plane.etcd.revision())
    line, _ = first_line(control_plane, EVENTS, start)
    assert line["type"] == "ERROR"
    assert line["object"]["code"] == 410


def test_old_apiserver_has_version_1_30_or_older(old_control_plane: ControlPlane) -> None:
    with old_control_plane.writer() as writer:
        assert int(writer.get("/version")["minor"]) <= 30


def test_service_account_has_only_the_granted_rights(control_plane: ControlPlane) -> None:
    token = control_plane.service_account("reader", EVERYTHING_READABLE)
    with control_plane.writer(token) as writer:
        assert writer.revision(CONFIGMAPS) > 0
        with pytest.raises(StatusError, match="forbidden") as refused:
            writer.create(CONFIGMAPS, configmap("refused"))
    assert refused.value.code == 403


def test_kubectl_accepts_the_kubeconfigs(control_plane: ControlPlane) -> None:
    pair = control_plane.client_certificate("by-certificate")
    user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    for path in (control_plane.kubeconfig(), control_plane.kubeconfig("certificate", user)):
        command = ["kubectl", "--kubeconfig", str(path), "get", "namespace", "default", "-o", "name"]
        assert subprocess.check_output(command, text=True) == "namespace/default\n"


def test_no_process_is_left_when_a_plane_ends(tmp_path: Path, assets: Assets) -> None:
    with Etcd(tmp_path, assets.etcd) as etcd, Etcd(tmp_path, assets.etcd, "second") as second:
        flags = [override("/events", second.url)]
        with ControlPlane(tmp_path, assets.kube_apiserver, etcd, apiservers=2, flags=flags) as plane:
            groups = [etcd.process.pid, second.process.pid, *(one.process.pid for one in plane.apiservers)]
            assert all(group_members(group) for group in groups)
            with plane.writer() as writer:
                assert writer.revision(EVENTS) != writer.revision(CONFIGMAPS)
            plane.apiservers[1].restart()
            groups.append(plane.apiservers[1].process.pid)
            with plane.apiservers[1].writer(plane.token) as writer:
                writer.create(CONFIGMAPS, configmap("after-restart"))
    assert not any(group_members(group) for group in groups)


def test_no_process_is_left_when_the_tests_are_killed(tmp_path: Path) -> None:
    child = tmp_path / "child.pid"
    script = (
        "import pathlib, sys, time\n"
        "from tests.support.process import Process\n"
        "with Process(pathlib.Path(sys.argv[1]), 'sleep', ['/bin/sleep', '600']) as sleeper:\n"
        "    pathlib.Path(sys.argv[2]).write_text(str(sleeper.pid))\n"
        "    time.sleep(600)\n"
    )
    command: list[str | Path] = [sys.executable, "-c", script, tmp_path, child]
    with Process(tmp_path, "tests", command, env=os.environ | {"PYTHONPATH": str(ROOT)}) as killed:
        killed.until(lambda: child.exists() and child.read_text() != "", "the child's start")
        group = int(child.read_text())
        assert group_members(group)
        os.kill(killed.pid, signal.SIGKILL)
        eventually(lambda: not group_members(group), "the child's end")


# The metrics of an apiserver


EXPOSED_SECONDS = 240.0
TYPE = re.compile(r"^# TYPE (\S+) (\S+)$", re.MULTILINE)
SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
SAMPLED = ("_bucket", "_count", "_sum")
OF_SAMPLES = frozenset({"le"})


@dataclass(slots=True)
class Seen:
    """One metric of a scrape: its type, and its labels with all their values."""

    type: str
    labels: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


def scrape(writer: Writer) -> dict[str, Seen]:
    text = writer.text("/metrics")
    found = {name: Seen(kind) for name, kind in TYPE.findall(text)}
    for name, labels in SAMPLE.findall(text):
        seen = found.get(name) or found[_family(name)]
        for label, value in LABEL.findall(labels):
            if label not in OF_SAMPLES:
                seen.labels[label].add(value)
    return found


def _family(sample: str) -> str:
    suffix = next(suffix for suffix in SAMPLED if sample.endswith(suffix))
    return sample.removesuffix(suffix)


def _happen(writer: Writer) -> None:
    """Send the requests that create each metric that every apiserver exposes."""
    writer.create(CONFIGMAPS, configmap("metrics"))
    writer.get(CONFIGMAPS)
    writer.get(CONFIGMAPS, resourceVersion="0")
    writer.get(CONFIGMAPS, fieldSelector="metadata.name=watchslo-reads-nothing")
    with contextlib.suppress(json.JSONDecodeError):  # initial events, one document each
        writer.get(CONFIGMAPS, watch="1", resourceVersion="0", timeoutSeconds="1")
    writer.delete(f"{CONFIGMAPS}/metrics")


@pytest.fixture(scope="module")
def scraped(control_plane: ControlPlane) -> dict[str, Seen]:
    """The metrics of a busy apiserver, once all expected ones exist, or after `EXPOSED_SECONDS`."""
    wanted = {metric.name for metric in apiserver_metrics() if not metric.when}
    end = time.monotonic() + EXPOSED_SECONDS
    subject = control_plane.service_account(
        "subject", EVERYTHING_READABLE
    )  # for API priority and fairness, from which administrators are exempt
    with control_plane.writer() as writer, control_plane.writer(subject) as reader:
        while True:
            _happen(writer)
            reader.get(CONFIGMAPS)
            found = scrape(writer)
            if wanted <= found.keys() or time.monotonic() > end:
                return found


def test_apiserver_exposes_all_listed_metrics(scraped: Mapping[str, Seen]) -> None:
    assert {metric.name for metric in apiserver_metrics() if not metric.when} - scraped.keys() == set()


def test_apiserver_metrics_have_the_listed_types_labels_and_values(scraped: Mapping[str, Seen]) -> None:
    wrong: list[str] = []
    for metric in apiserver_metrics():
        if (seen := scraped.get(metric.name)) is None:
            continue
        if seen.type != metric.type:
            wrong.append(f"{metric.name} is a {seen.type}")
        if (labels := set(seen.labels)) != set(metric.labels):
            wrong.append(f"{metric.name} has the labels {','.join(sorted(labels))}")
        for label, values in metric.labels.items():
            if values and (others := seen.labels.get(label, set()) - values):
                wrong.append(f"{metric.name}: {label} is also {'|'.join(sorted(others))}")
    assert wrong == []


def test_apiserver_bucket_bounds_match_the_queries(control_plane: ControlPlane) -> None:
    with control_plane.writer() as writer:
        text = writer.text("/metrics")
    bounds = set(re.findall(r'^apiserver_request_duration_seconds_bucket\{.*le="([^"]+)"', text, re.MULTILINE))
    assert bounds
    name = "apiserver_request_duration_seconds_bucket"
    assert name in known()
    assert [said for le in bounds for said in wrong_in_query(f'{name}{{le="{le}"}}')] == []
