"""Where faults are made: one at a time on a control plane that may be killed, the others all at once on own links.

Processes are started by the main thread; what only waits for what comes of a fault is done by others.
"""

import contextlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Self

from tests.e2e.faults.daemon import Observed
from tests.e2e.faults.harness import play
from tests.e2e.faults.row import Outcome, Row, Scene
from tests.e2e.faults.scribe import Make, Scribe
from tests.support.assets import Assets
from tests.support.control_plane import ControlPlane, Etcd, override, write_kubeconfig
from tests.support.daemon import Proxy, Simulator
from tests.support.process import eventually
from tests.support.writer import StatusError, Writer, configmap, crd, pod

CORE = "/api/v1/namespaces/default"
CONFIGMAPS = f"{CORE}/configmaps"
GROUP = "tests.watchslo.invalid"
CUSTOM = f"/apis/{GROUP}/v1/namespaces/default"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ANNOTATION_BYTES = 2000


def event(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "none"}}


def anything(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def annotated(name: str) -> dict[str, Any]:
    """A config map whose metadata are long: more than 64 kbit/s carry where only four a second are written."""
    made = configmap(name)
    made["metadata"]["annotations"] = {"filling": "x" * ANNOTATION_BYTES}
    return made


def custom(kind: str) -> Make:
    return lambda name: {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}}


WRITTEN: Mapping[str, tuple[str, Make]] = {
    "configmaps": (CONFIGMAPS, annotated),
    "events": (f"{CORE}/events", event),
    "secrets": (f"{CORE}/secrets", anything),
    "pods": (f"{CORE}/pods", pod),
    "leases.coordination.k8s.io": ("/apis/coordination.k8s.io/v1/namespaces/default/leases", anything),
    "serviceaccounts": (f"{CORE}/serviceaccounts", anything),
    f"gadgets.{GROUP}": (f"{CUSTOM}/gadgets", custom("Gadget")),
    f"gizmos.{GROUP}": (f"{CUSTOM}/gizmos", custom("Gizmo")),
}
"""Where objects of each resource are created, and how."""
OBJECTS = 2000
"""Of each simulated resource that is listed: four pages."""


class Alone:
    """A control plane of two apiservers, either of which may be hurt; what is written goes to one that lives."""

    def __init__(self, folder: Path, assets: Assets) -> None:
        self._folder = folder
        self._assets = assets
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            etcd = stack.enter_context(Etcd(self._folder, self._assets.etcd))
            self.plane = stack.enter_context(
                ControlPlane(self._folder, self._assets.kube_apiserver, etcd, apiservers=2)
            )
            for apiserver in self.plane.apiservers:
                stack.callback(apiserver.process.kill)  # an end in peace takes seconds
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def play(self, row: Row) -> Outcome:
        with contextlib.ExitStack() as stack:
            folder = self._folder / row.name
            folder.mkdir()
            servers = [apiserver.url for apiserver in self.plane.apiservers[: 1 + row.behind_one_address]]
            link = stack.enter_context(Proxy(folder, "link", *servers))
            scribe = stack.enter_context(Scribe(self.open_writer, *WRITTEN[row.resource], row.slug))
            daemon = stack.enter_context(_daemon(row, self.plane, folder, link.url))
            stack.callback(self._heal)
            return play(row, Scene(row, folder, daemon, scribe, link, self.plane, link))

    def open_writer(self) -> Writer:
        """Of the second apiserver, which is seldom hurt, or of the first while the second is dead."""
        first, second = self.plane.apiservers
        return (second if second.process.exit_code is None else first).writer(self.plane.token)

    def _heal(self) -> None:
        for apiserver in self.plane.apiservers:
            if apiserver.process.exit_code is not None:
                apiserver.start()
                apiserver.wait_ready()


class Together:
    """A place that nobody hurts: the faults of all rows are made at once, each seen by a daemon of its own."""

    def __init__(self, folder: Path, rows: Sequence[Row]) -> None:
        self.rows = rows
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self._outcomes: dict[str, Future[Outcome]] = {}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._start(stack)
            scenes = {row.name: self._scene(stack, row) for row in self.rows}
            threads = stack.enter_context(ThreadPoolExecutor(len(scenes)))
            self._outcomes = {row.name: threads.submit(play, row, scenes[row.name]) for row in self.rows}
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def play(self, row: Row) -> Outcome:
        """What came of it: it plays already."""
        return self._outcomes[row.name].result()

    def _start(self, stack: contextlib.ExitStack) -> None:
        """Starts what all rows share."""
        raise NotImplementedError

    def _scene(self, stack: contextlib.ExitStack, row: Row) -> Scene:
        """Starts what one row needs."""
        raise NotImplementedError


class Linked(Together):
    """A healthy control plane, and for each row a daemon that reaches it through a link of its own.

    One resource, secrets, has its own way from etcd to the apiserver. Lists are not streamed.
    """

    def __init__(self, folder: Path, rows: Sequence[Row], assets: Assets) -> None:
        super().__init__(folder, rows)
        self._assets = assets

    def _start(self, stack: contextlib.ExitStack) -> None:
        folder, assets = self._folder, self._assets
        etcd = stack.enter_context(Etcd(folder, assets.etcd))
        self._storage = stack.enter_context(Proxy(folder, "storage", etcd.url))
        flags = [override("/secrets", self._storage.url), "--feature-gates=WatchList=false"]
        self._plane = stack.enter_context(ControlPlane(folder, assets.kube_apiserver, etcd, flags=flags))
        stack.callback(self._plane.apiservers[0].process.kill)
        with self._plane.writer() as writer:
            for plural, kind in (("gadgets", "Gadget"), ("gizmos", "Gizmo")):
                writer.create(CRDS, crd(plural, kind))
                eventually(partial(_is_served, writer, f"{CUSTOM}/{plural}"), 30, f"{plural} are served")
        self._scribes = {
            resource: stack.enter_context(Scribe(self._plane.writer, *WRITTEN[resource], "linked"))
            for resource in {row.resource for row in self.rows}
        }

    def _scene(self, stack: contextlib.ExitStack, row: Row) -> Scene:
        plane, folder = self._plane, self._folder / row.name
        folder.mkdir()
        link = stack.enter_context(Proxy(folder, "link", plane.url, ca=plane.ca if row.plain else None))
        daemon = _daemon(row, plane, folder, link.url)
        _begin(stack, daemon)
        return Scene(row, folder, daemon, self._scribes[row.resource], link, plane, self._storage)


class Simulated(Together):
    """A simulated cluster, where each row has a resource of its own."""

    def _start(self, stack: contextlib.ExitStack) -> None:
        self._simulator = stack.enter_context(Simulator(self._folder))
        for row in self.rows:
            self._simulator.control({"resource": row.resource, "count": OBJECTS}, "/objects")

    def _scene(self, stack: contextlib.ExitStack, row: Row) -> Scene:
        folder = self._folder / row.name
        folder.mkdir()
        link = stack.enter_context(Proxy(folder, "link", self._simulator.url))
        kubeconfig = folder / "kubeconfig"
        write_kubeconfig(kubeconfig, {"server": link.url}, {})
        daemon = Observed(folder / "daemon", kubeconfig, row.watches, **row.keys)
        _begin(stack, daemon)
        scribe = stack.enter_context(Scribe(partial(Writer, self._simulator.url), *WRITTEN[row.resource], row.slug))
        return Scene(row, folder, daemon, scribe, link, self._simulator, link)


def _begin(stack: contextlib.ExitStack, daemon: Observed) -> None:
    """Starts a daemon; that it listens is waited for by who plays with it."""
    stack.callback(daemon.__exit__)
    daemon.process.start()


def _daemon(row: Row, plane: ControlPlane, folder: Path, url: str) -> Observed:
    user = row.prepare(plane, folder) if row.prepare else {"token": plane.token}
    kubeconfig = plane.kubeconfig(row.name, user, server=url)
    return Observed(folder / "daemon", kubeconfig, row.watches, **row.keys)


def _is_served(writer: Writer, collection: str) -> bool:
    try:
        writer.revision(collection)
    except StatusError:
        return False
    return True
