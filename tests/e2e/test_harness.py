"""The helpers themselves: what they start is real, and nothing of it stays."""

import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.assets import Assets
from tests.support.control_plane import EVERYTHING_READABLE, ControlPlane, Etcd, override
from tests.support.process import Process, eventually, group_members
from tests.support.writer import StatusError, configmap

pytestmark = pytest.mark.patient

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"


def first_line(plane: ControlPlane, path: str, revision: int) -> tuple[dict[str, Any], float]:
    """The first line of a watch, and when it was read."""
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


def test_old_apiserver_is_old(old_control_plane: ControlPlane) -> None:
    with old_control_plane.writer() as writer:
        assert int(writer.get("/version")["minor"]) <= 30


def test_rights_are_what_was_granted(control_plane: ControlPlane) -> None:
    token = control_plane.service_account("reader", EVERYTHING_READABLE)
    with control_plane.writer(token) as writer:
        assert writer.revision(CONFIGMAPS) > 0
        with pytest.raises(StatusError, match="forbidden") as refused:
            writer.create(CONFIGMAPS, configmap("refused"))
    assert refused.value.code == 403


def test_kubectl_takes_the_kubeconfigs(control_plane: ControlPlane) -> None:
    pair = control_plane.client_certificate("by-certificate")
    user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    for path in (control_plane.kubeconfig(), control_plane.kubeconfig("certificate", user)):
        command = ["kubectl", "--kubeconfig", str(path), "get", "namespace", "default", "-o", "name"]
        assert subprocess.check_output(command, text=True) == "namespace/default\n"


def test_nothing_stays_when_a_plane_ends(tmp_path: Path, assets: Assets) -> None:
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


def test_nothing_stays_when_the_tests_are_killed(tmp_path: Path) -> None:
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
        killed.until(lambda: child.exists() and child.read_text() != "", PATIENCE_SECONDS, "the child's start")
        group = int(child.read_text())
        assert group_members(group)
        os.kill(killed.pid, signal.SIGKILL)
        eventually(lambda: not group_members(group), PATIENCE_SECONDS, "the child's end")
