"""Privacy: does watchslo ever show content of my cluster: a name, a label, data, or a credential?

One word is in every field of objects of several kinds. They are created, changed and deleted, the apiserver fails on
one of them, and restarts with an empty cache. Then all output of watchslo, at its most verbose, is searched.
"""

import base64
import contextlib
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.assets import Assets
from tests.support.canary import CANARY, found
from tests.support.control_plane import EVERYTHING_READABLE, MAY_SCRAPE, ControlPlane, Etcd
from tests.support.daemon import WATCHSLO, Daemon, Scrape, asking, config_file
from tests.support.process import PATIENCE_SECONDS, Process, eventually
from tests.support.writer import StatusError, Writer, crd

FEED = "/api/v1/events"
ROUNDS = 3
THINGS = "things.privacy.watchslo.invalid"
GROUP = "privacy.watchslo.invalid"
BROKEN = f"/registry/configmaps/{CANARY}/{CANARY}-broken"
WATCHES: dict[str, dict[str, Any]] = {
    "pods": {"list": "paged", "pageSize": 1, "inventory": True, "creation": True, "hops": True, "reference": True},
    "configmaps": {"list": "paged", "inventory": True, "representation": "protobuf"},
    "secrets": {"list": "paged", "inventory": True, "hops": True},
    "events": {"list": "parallel"},
    "leases.coordination.k8s.io": {"list": "cache", "inventory": True},
    "namespaces": {"representation": "metadata"},
    "serviceaccounts": {},
    THINGS: {"list": "stream", "inventory": True, "representation": "plain"},
}
COLLECTIONS = {
    "pods": f"/api/v1/namespaces/{CANARY}/pods",
    "configmaps": f"/api/v1/namespaces/{CANARY}/configmaps",
    "secrets": f"/api/v1/namespaces/{CANARY}/secrets",
    "events": f"/api/v1/namespaces/{CANARY}/events",
    "leases.coordination.k8s.io": f"/apis/coordination.k8s.io/v1/namespaces/{CANARY}/leases",
    THINGS: f"/apis/{GROUP}/v1/namespaces/{CANARY}/things",
}


def metadata(number: int) -> dict[str, Any]:
    named = {f"{CANARY}.example/{CANARY}": CANARY, CANARY: CANARY}
    return {"name": f"{CANARY}-{number}", "labels": named, "annotations": {**named, "note": f"{CANARY}/ü?&=\n{CANARY}"}}


def contents() -> dict[str, dict[str, Any]]:
    """Return the fields of objects in addition to their metadata, by resource."""
    encoded = base64.b64encode(CANARY.encode()).decode()
    container: dict[str, Any] = {"name": CANARY, "image": f"{CANARY}.invalid/{CANARY}:{CANARY}", "args": [CANARY]}
    container |= {"env": [{"name": CANARY, "value": CANARY}], "workingDir": f"/{CANARY}"}
    involved = {"kind": CANARY, "namespace": CANARY, "name": CANARY, "uid": CANARY}
    return {
        "pods": {"spec": {"containers": [container], "nodeName": CANARY, "hostname": CANARY}},
        "configmaps": {"data": {CANARY: CANARY}, "binaryData": {f"{CANARY}.bin": encoded}},
        "secrets": {"data": {CANARY: encoded}, "type": f"{CANARY}.example/{CANARY}"},
        "events": {"involvedObject": involved, "message": f"{CANARY}!", "reason": CANARY, "type": CANARY}
        | {"source": {"component": CANARY, "host": CANARY}},
        "leases.coordination.k8s.io": {"spec": {"holderIdentity": CANARY}},
        THINGS: {"apiVersion": f"{GROUP}/v1", "kind": "Thing"}
        | {"spec": {CANARY: [CANARY, {CANARY: CANARY}]}, "status": {"message": CANARY}},
    }


@pytest.fixture
def plane(assets: Assets, tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane with the custom resource, which the test may kill."""
    with Etcd(tmp_path, assets.etcd) as etcd, ControlPlane(tmp_path, assets.kube_apiserver, etcd) as plane:
        with plane.writer() as writer:
            writer.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd("things", "Thing", GROUP))
            eventually(lambda: _serves(writer, f"/apis/{GROUP}/v1/things"), "the CRD served")
            writer.create("/api/v1/namespaces", {"metadata": metadata(0) | {"name": CANARY}})
        yield plane


def _serves(writer: Writer, path: str) -> bool:
    try:
        return bool(writer.get(path))
    except StatusError:
        return False


class Story:
    """The events in the cluster: objects are created and changed, and some are deleted."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._number = 0

    def some_come_and_go(self) -> None:
        """Create, change and delete objects; one of each kind stays with a finalizer. The field manager is the word."""
        with Writer(self._plane.url, self._plane.ca, self._plane.token, agent=CANARY) as writer:
            for _ in range(ROUNDS):
                self._number += 1
                for resource, content in contents().items():
                    path = f"{COLLECTIONS[resource]}/{CANARY}-{self._number}"
                    finalizers = {"finalizers": [f"{CANARY}.example/{CANARY}"]} if resource != "events" else {}
                    writer.create(COLLECTIONS[resource], {"metadata": metadata(self._number) | finalizers, **content})
                    writer.patch(path, {"metadata": {"labels": {f"{CANARY}-more": CANARY}}})
                    writer.delete(path)
                    if self._number % 2:
                        with contextlib.suppress(StatusError):  # an event has no finalizer and is gone already
                            writer.patch(path, {"metadata": {"finalizers": None}})

    def an_object_is_broken(self) -> str:
        """Store an object that the apiserver cannot read; return its error, which no output may repeat."""
        times = {"creationTimestamp": CANARY, "name": f"{CANARY}-broken", "namespace": CANARY}
        self._plane.etcd.put(BROKEN, {"kind": "ConfigMap", "apiVersion": "v1", "metadata": times})
        with self._plane.writer() as writer, pytest.raises(StatusError) as refused:
            writer.get("/api/v1/configmaps")
        return str(refused.value)

    def all_is_forgotten(self) -> None:
        """Delete the broken object and restart the apiserver, which then knows no older revision."""
        self._plane.etcd.delete(BROKEN)
        apiserver = self._plane.apiservers[0]
        apiserver.process.kill()
        apiserver.start()
        apiserver.wait_ready()


def said_by(daemon: Daemon) -> dict[str, str]:
    """Return all output of a daemon, by its source."""
    described = json.loads(daemon.get("/openapi.json")[1])
    paths = {"/", "/metrics", "/openapi.json", f"/{CANARY[:3]}", *described["paths"]} - {FEED}
    return {path: daemon.get(path)[1] for path in paths} | {FEED: first_event(daemon), "log": daemon.said}


def reports(daemon: Daemon) -> dict[str, str]:
    """Return the reports on the run of a daemon, by their format."""
    forms = ("html", "markdown", "brief")
    made = {f"report, {form}": asking("report", daemon.url, "-o", form) for form in forms}
    assert {done.returncode for done in made.values()} == {0}
    return {form: done.stdout for form, done in made.items()}


def first_event(daemon: Daemon) -> str:
    """Return the first event of the feed, which holds everything; the feed has no end."""
    lines: list[bytes] = []
    daemon.answer("/api/v1/status")  # else the feed may be refused, while the measuring loop is late
    with urllib.request.urlopen(daemon.url + FEED, timeout=PATIENCE_SECONDS) as answer:
        while not lines or lines[-1].strip() or not any(line.startswith(b"data:") for line in lines):
            lines.append(answer.readline())
    return b"".join(lines).decode()


def commands(folder: Path, kubeconfig: Path, config: Path) -> list[Process]:
    """Return the commands that read a cluster."""
    check = ("check", "--duration", "5s", "--config", config)
    words: dict[str, tuple[str | Path, ...]] = {
        "check": (*check, "-o", "json"),
        "verify": ("verify", "--duration", "5s", "--config", config, "-o", "json"),
        "rehearse": ("rehearse", "pods", THINGS, "--strategy", "parallel", "--strategy", "stream"),
        "rehearse what is broken": ("rehearse", "configmaps", "--strategy", "paged", "-o", "json"),
    }
    return [Process(folder, name, [WATCHSLO, *of, "--kubeconfig", kubeconfig]) for name, of in words.items()]


def said_by_command(process: Process) -> str:
    process.wait()
    assert "Traceback" not in process.err
    return process.out + process.err


def counted(scrape: Scrape, name: str, **labels: str) -> bool:
    return scrape.total(name, **labels) > 0


def inline(plane: ControlPlane) -> tuple[Path, list[str]]:
    """Return a kubeconfig with an inline client certificate and key, and the secret lines of the key."""
    pair = plane.client_certificate("privacy")
    keys = {"client-certificate-data": pair.certificate, "client-key-data": pair.key}
    user = {key: base64.b64encode(path.read_bytes()).decode() for key, path in keys.items()}
    lines = pair.key.read_text().splitlines()
    return plane.kubeconfig("inline", user), [line for line in lines if line and not line.startswith("-----")]


def test_output_reveals_no_content_of_the_cluster(plane: ControlPlane, tmp_path: Path) -> None:
    watches = [{"resource": resource, **options} for resource, options in WATCHES.items()]
    config = config_file(tmp_path, watch=watches, metrics="full", kubernetes={"apiserverMetrics": True})
    token = plane.service_account("privacy", EVERYTHING_READABLE, MAY_SCRAPE)
    kubeconfig = plane.kubeconfig("privacy", {"token": token})
    key_file, key = inline(plane)
    story = Story(plane)
    story.some_come_and_go()
    stumbled = story.an_object_is_broken()
    assert found(CANARY, stumbled), "the error lacks the word, so this test proves nothing"
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(process) for process in commands(tmp_path, key_file, config)]
        own = ("--config", config, "--log-level", "debug", "--kubeconfig", kubeconfig)
        daemon = stack.enter_context(Daemon(tmp_path, *own))
        started[-1].wait()  # it has stumbled over what is broken
        daemon.until(lambda scrape: counted(scrape, "watchslo_api_requests_total", code="500"), "stumbled")
        everything = {f"{path}, stumbling": text for path, text in said_by(daemon).items()}

        story.all_is_forgotten()
        daemon.until(lambda scrape: counted(scrape, "watchslo_expired_total"), "a 410")
        daemon.until_measuring(*WATCHES)
        story.some_come_and_go()
        daemon.until(
            lambda scrape: all(counted(scrape, "watchslo_watch_events_total", watch=watch) for watch in COLLECTIONS),
            "something of each",
        )

        def all_figures() -> bool:
            """Make events before each look: those that are received by a late loop are not compared."""
            story.some_come_and_go()
            scrape = daemon.scrape()
            return counted(scrape, "watchslo_apiserver_own_duration_seconds") and counted(
                scrape, "watchslo_representation_delay_seconds_count"
            )

        daemon.process.until(all_figures, "the apiserver's own figures, and the delay of whole objects")
        everything |= said_by(daemon) | reports(daemon)
        everything |= {process.name: said_by_command(process) for process in started}
    everything["log to its end"] = daemon.said

    for where, text in everything.items():
        assert text, f"{where} is empty, so this test proves nothing"
        for secret in (CANARY, token, plane.token, *key):
            assert found(secret, text) == [], where
