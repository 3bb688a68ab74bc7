"""Where faults are made, and the threads that make them.

The rows of a lane are made one after the other, all lanes at the same time: each has its own link and daemon. A thread
plays each lane. Processes are started by the main thread, because they die with the thread that starts them.
"""

import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Self, TypeVar

from tests.e2e.faults.daemon import Observed
from tests.e2e.faults.harness import play
from tests.e2e.faults.row import LOOK_SECONDS, Outcome, Row, Scene, Startable, start_directly
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
SERVE_SECONDS = 0.1

T = TypeVar("T")
Lane = Sequence[Row]


def event(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "none"}}


def anything(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def annotated(name: str) -> dict[str, Any]:
    """A config map with long metadata: four of them a second are more than 64 kbit/s."""
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
"""The collection of each resource, and the function that makes its objects."""
OBJECTS = 2000
"""Objects of each simulated resource that is listed: four pages."""


class MainThread:
    """Runs the calls of other threads in the main thread, while that waits for any result."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], object], Future[None]]] = SimpleQueue()

    def call(self, function: Callable[[], object]) -> None:
        """Run a function in the main thread and wait for its end."""
        if threading.current_thread() is threading.main_thread():
            function()
            return
        done: Future[None] = Future()
        self._calls.put((function, done))
        done.result()

    def wait(self, future: Future[T]) -> None:
        """Wait in the main thread until a future is done and run the calls of other threads in the meantime."""
        while not future.done():
            with contextlib.suppress(Empty):
                function, done = self._calls.get(timeout=SERVE_SECONDS)
                try:
                    function()
                except BaseException as error:
                    done.set_exception(error)
                    if not isinstance(error, Exception):
                        raise  # meant for the main thread, such as a timeout of the test
                else:
                    done.set_result(None)


MAIN_THREAD = MainThread()
STARTING = threading.BoundedSemaphore(4)  # a start takes seconds of CPU time: more at once would only start later


class Alone:
    """A control plane of two apiservers, either of which may be hurt; writers use one that lives."""

    def __init__(self, folder: Path, assets: Assets) -> None:
        self._folder = folder
        self._assets = assets
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self.open(stack)
            self.heal(start_directly)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def open(self, stack: contextlib.ExitStack) -> None:
        """Start the processes without waiting until the apiservers are ready; they end with the stack."""
        etcd = stack.enter_context(Etcd(self._folder, self._assets.etcd))
        self.plane = ControlPlane(self._folder, self._assets.kube_apiserver, etcd, apiservers=2)
        stack.callback(self.plane.close)
        for apiserver in self.plane.apiservers:
            stack.callback(apiserver.process.kill)  # a clean end takes seconds
            apiserver.start()

    def open_writer(self) -> Writer:
        """A writer of the second apiserver, which is seldom hurt, or of the first while the second is dead."""
        first, second = self.plane.apiservers
        return (second if second.process.exit_code is None else first).writer(self.plane.token)

    def heal(self, start: Callable[[Startable], None]) -> None:
        """Start the apiservers that were killed, and wait until both are ready."""
        for apiserver in self.plane.apiservers:
            if apiserver.process.exit_code is not None:
                start(apiserver)
        for apiserver in self.plane.apiservers:
            apiserver.wait_ready()


class Stage(ABC):
    """Plays lanes of rows in threads while its context is open. `rows` are those of all lanes."""

    def __init__(self, folder: Path, lanes: Sequence[Lane]) -> None:
        self.folder = folder
        self.rows = [row for lane in lanes for row in lane]
        self._lanes = lanes
        self._outcomes: dict[str, Future[Outcome]] = {row.name: Future() for row in self.rows}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._start(stack)
            threads = stack.enter_context(ThreadPoolExecutor(len(self._lanes)))
            for number, lane in enumerate(self._lanes):
                stack.callback(self._finish, threads.submit(self._play, number, lane))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def outcome(self, row: Row) -> Outcome:
        """Wait in the main thread until a row was played, and return what was observed."""
        future = self._outcomes[row.name]
        MAIN_THREAD.wait(future)
        return future.result()

    def start_server(self, server: Startable) -> None:
        """Start an apiserver or an etcd, from any thread."""
        MAIN_THREAD.call(server.start)

    def open_link(self, stack: contextlib.ExitStack, folder: Path, *servers: str, ca: Path | None = None) -> Proxy:
        """Start the proxy between a daemon and the servers."""
        link = Proxy(folder, "link", *servers, ca=ca)
        stack.callback(link.process.stop)
        with STARTING:
            MAIN_THREAD.call(link.process.start)
            link.process.until(lambda: "\n" in link.process.out, "listening", LOOK_SECONDS)
        return link

    def open_daemon(self, stack: contextlib.ExitStack, row: Row, folder: Path, kubeconfig: Path) -> Observed:
        """Start the daemon of a row and wait until it listens."""
        daemon = Observed(folder / "daemon", kubeconfig, row.watches, **row.keys)
        stack.callback(daemon.__exit__)
        with STARTING:
            MAIN_THREAD.call(daemon.process.start)
            daemon.process.until(lambda: bool(daemon.log("listening")), "listening", LOOK_SECONDS)
        return daemon

    def _finish(self, played: Future[None]) -> None:
        MAIN_THREAD.wait(played)
        played.result()  # the end of a daemon may have failed

    def _play(self, number: int, lane: Lane) -> None:
        """Play the rows of a lane; a row that follows another one uses its daemon, if it can."""
        with contextlib.ExitStack() as stack:
            scene: Scene | None = None
            for row in lane:
                try:
                    if scene is None or not row.may_follow(scene.row):
                        stack.close()
                        scene = None
                        scene = self._open(stack, number, row)
                    scene.row = row
                    outcome = play(row, scene)
                except BaseException as error:  # noqa: BLE001 - the test of this row raises it
                    scene = None
                    self._outcomes[row.name].set_exception(error)
                else:
                    self._outcomes[row.name].set_result(outcome)

    @abstractmethod
    def _start(self, stack: contextlib.ExitStack) -> None:
        """Start what the lanes share; in the main thread."""

    @abstractmethod
    def _open(self, stack: contextlib.ExitStack, number: int, row: Row) -> Scene:
        """Start the link and the daemon of a row in the lane of this number; in a thread."""


class AloneStage(Stage):
    """A control plane for each lane, whose apiservers and etcd are hurt."""

    def __init__(self, folder: Path, lanes: Sequence[Lane], assets: Assets) -> None:
        super().__init__(folder, lanes)
        self._assets = assets

    def _start(self, stack: contextlib.ExitStack) -> None:
        self._planes = [Alone(folder, self._assets) for folder in self._folders()]
        for alone in self._planes:
            alone.open(stack)

    def _open(self, stack: contextlib.ExitStack, number: int, row: Row) -> Scene:
        alone, folder = self._planes[number], self.folder / row.name
        folder.mkdir()
        alone.heal(self.start_server)
        plane = alone.plane
        servers = [apiserver.url for apiserver in plane.apiservers[: 1 + row.behind_one_address]]
        link = self.open_link(stack, folder, *servers)
        scribe = stack.enter_context(Scribe(alone.open_writer, *WRITTEN[row.resource], row.slug))
        daemon = self.open_daemon(stack, row, folder, _kubeconfig(row, plane, folder, link.url))
        return Scene(row, folder, daemon, scribe, link, plane, link, start=self.start_server)

    def _folders(self) -> Iterator[Path]:
        for number, _ in enumerate(self._lanes):
            folder = self.folder / f"plane-{number}"
            folder.mkdir()
            yield folder


class LinkedStage(Stage):
    """A healthy control plane, and for each lane a daemon with its own link to it.

    One resource, secrets, has its own link from etcd to the apiserver. Lists are not streamed.
    """

    def __init__(self, folder: Path, rows: Sequence[Row], assets: Assets) -> None:
        super().__init__(folder, lanes_of(rows))
        self._assets = assets
        self._scribes: dict[str, Scribe] = {}
        self._lock = threading.Lock()  # of the scribes

    def _start(self, stack: contextlib.ExitStack) -> None:
        folder, assets = self.folder, self._assets
        etcd = stack.enter_context(Etcd(folder, assets.etcd))
        self._storage = stack.enter_context(Proxy(folder, "storage", etcd.url))
        flags = [override("/secrets", self._storage.url), "--feature-gates=WatchList=false"]
        self._plane = stack.enter_context(ControlPlane(folder, assets.kube_apiserver, etcd, flags=flags))
        stack.callback(self._plane.apiservers[0].process.kill)
        with self._plane.writer() as writer:
            for plural, kind in (("gadgets", "Gadget"), ("gizmos", "Gizmo")):
                writer.create(CRDS, crd(plural, kind))
                eventually(partial(_is_served, writer, f"{CUSTOM}/{plural}"), f"{plural} are served")
        self._writing = stack.enter_context(contextlib.ExitStack())

    def _open(self, stack: contextlib.ExitStack, number: int, row: Row) -> Scene:  # noqa: ARG002 - one plane for all
        plane, folder = self._plane, self.folder / row.name
        folder.mkdir()
        link = self.open_link(stack, folder, plane.url, ca=plane.ca if row.plain else None)
        daemon = self.open_daemon(stack, row, folder, _kubeconfig(row, plane, folder, link.url))
        return Scene(row, folder, daemon, self._scribe(row.resource), link, plane, self._storage)

    def _scribe(self, resource: str) -> Scribe:
        """Return the scribe of a resource; it starts with the first lane, for a CRD is deleted with all its objects."""
        with self._lock:
            if resource not in self._scribes:
                scribe = Scribe(self._plane.writer, *WRITTEN[resource], "linked")
                self._scribes[resource] = self._writing.enter_context(scribe)
            return self._scribes[resource]


class SimulatedStage(Stage):
    """A simulated cluster, where each row has its own resource."""

    def __init__(self, folder: Path, rows: Sequence[Row]) -> None:
        super().__init__(folder, lanes_of(rows))

    def _start(self, stack: contextlib.ExitStack) -> None:
        self._simulator = stack.enter_context(Simulator(self.folder))
        for row in self.rows:
            self._simulator.control({"resource": row.resource, "count": OBJECTS}, "/objects")

    def _open(self, stack: contextlib.ExitStack, number: int, row: Row) -> Scene:  # noqa: ARG002 - one simulator for all
        folder = self.folder / row.name
        folder.mkdir()
        link = self.open_link(stack, folder, self._simulator.url)
        kubeconfig = folder / "kubeconfig"
        write_kubeconfig(kubeconfig, {"server": link.url}, {})
        scribe = stack.enter_context(Scribe(partial(Writer, self._simulator.url), *WRITTEN[row.resource], row.slug))
        daemon = self.open_daemon(stack, row, folder, kubeconfig)
        return Scene(row, folder, daemon, scribe, link, self._simulator, link)


def lanes_of(rows: Sequence[Row]) -> list[Lane]:
    """Return lanes of rows that can use the same daemon, one after the other."""
    lanes: list[list[Row]] = []
    for row in rows:
        lane = next((lane for lane in lanes if row.may_follow(lane[0])), None)
        if lane is None:
            lanes.append([row])
        else:
            lane.append(row)
    return [tuple(lane) for lane in lanes]


def _kubeconfig(row: Row, plane: ControlPlane, folder: Path, url: str) -> Path:
    user = row.prepare(plane, folder) if row.prepare else {"token": plane.token}
    return plane.kubeconfig(row.name, user, server=url)


def _is_served(writer: Writer, collection: str) -> bool:
    try:
        writer.revision(collection)
    except StatusError:
        return False
    return True
