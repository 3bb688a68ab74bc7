"""The stage: grounds, and lanes on them. A lane is a daemon and its faults, which are made one after the other.

Lanes run at the same time, each in a thread. Processes are started by the main thread, because they die with the thread
that starts them. So the lanes whose faults start processes are played by the main thread itself.
"""

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.lab.ground import CUSTOM, GROUNDS, GROUP, Ground
from tests.lab.judges.judge import Judge, prove
from tests.lab.scene import Fault, Scene, Setup
from tests.support.assets import Assets
from tests.support.control_plane import write_kubeconfig
from tests.support.daemon import Proxy
from tests.support.observed import Observed
from tests.support.scribe import WRITTEN, Make, Scribe, anything

OBJECTS = 2000
"""Objects of each simulated resource that is listed: four pages."""
STARTING = frozenset({"hurt", "three", "whole"})
"""Grounds whose faults start processes."""

Errors = dict[tuple[str, str], BaseException]
"""Errors by the lane and the name of the fault."""
JudgesOf = Callable[[Scene], Sequence[Judge]]


def custom(kind: str) -> Make:
    return lambda name: {"apiVersion": f"{GROUP}/v1", "kind": kind} | anything(name)


CUSTOM_WRITTEN: dict[str, tuple[str, Make]] = {
    f"gadgets.{GROUP}": (f"{CUSTOM}/gadgets", custom("Gadget")),
    f"gizmos.{GROUP}": (f"{CUSTOM}/gizmos", custom("Gizmo")),
}


@dataclass(frozen=True, slots=True)
class Lane:
    """A daemon and its faults. A random fault has the strength that its name and `seed` give.

    A lane that is `written` to has a writer with a complete log.
    """

    setup: Setup
    faults: tuple[Fault, ...]
    written: bool = False
    usual: bool = True
    seed: int = 1
    name: str = ""

    @property
    def id(self) -> str:
        return self.name or self.faults[0].name

    @property
    def starts_processes(self) -> bool:
        return self.setup.ground in STARTING


class Stage:
    """The grounds of some lanes, and the scenes of those that a thread plays; all while its context is open."""

    def __init__(self, folder: Path, assets: Assets, lanes: Sequence[Lane]) -> None:
        self.folder = folder
        self.lanes = lanes
        self.grounds: dict[str, Ground] = {}
        self.scenes: dict[str, Scene] = {}
        self._assets = assets
        self._scribes: dict[tuple[str, str], Scribe] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            for name in dict.fromkeys(lane.setup.ground for lane in self.lanes):
                folder = self.folder / f"ground-{name}"
                folder.mkdir()
                self.grounds[name] = GROUNDS[name](stack, folder, self._assets)
            for lane in self.lanes:
                if not lane.starts_processes:
                    self.scenes[lane.id] = self.open(stack, lane)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def open(self, stack: contextlib.ExitStack, lane: Lane) -> Scene:
        """Start the link, the writer and the daemon of a lane; in the main thread."""
        setup, ground, name = lane.setup, self.grounds[lane.setup.ground], lane.id
        folder = self.folder / name
        folder.mkdir()
        ground.heal()
        link, kubeconfig, urls = self._connect(stack, setup, ground, folder)
        scribe = self._scribe(stack, lane, ground, name) if lane.written else None
        kubernetes = {"kubernetes": {"apiservers": urls, **setup.keys.get("kubernetes", {})}} if urls else {}
        daemon = Observed(folder / "daemon", kubeconfig, setup.watches, **{**setup.keys, **kubernetes})
        stack.enter_context(daemon)
        return Scene(name, setup, folder, ground, daemon, link, scribe, usual=lane.usual)

    def play(self, judges_of: JudgesOf, made: Callable[[Fault, Sequence[Judge]], None]) -> Errors:
        """Play all lanes, and return the errors. `made` is called after each fault without an error."""
        errors: Errors = {}

        def play_lane(lane: Lane, scene: Scene) -> None:
            judges = judges_of(scene)
            for fault in lane.faults:
                try:
                    prove(scene, fault, judges, lane.seed)
                except Exception as error:  # noqa: BLE001 - the caller raises it
                    errors[lane.id, fault.name] = error
                else:
                    made(fault, judges)

        threaded = [lane for lane in self.lanes if not lane.starts_processes]
        with ThreadPoolExecutor(len(threaded) + 1) as threads:
            played = [threads.submit(play_lane, lane, self.scenes[lane.id]) for lane in threaded]
            for lane in self.lanes:
                if lane.starts_processes:
                    with contextlib.ExitStack() as stack:
                        play_lane(lane, self.open(stack, lane))
            for future in played:
                future.result()
        return errors

    def _scribe(self, stack: contextlib.ExitStack, lane: Lane, ground: Ground, name: str) -> Scribe:
        """Return the writer of a lane; lanes of a ground that is not hurt share one for each resource."""
        resource = str(lane.setup.watches[0]["resource"])
        key = lane.setup.ground, resource
        if lane.starts_processes or key not in self._scribes:
            if ground.simulator:
                ground.simulator.control({"resource": resource, "count": OBJECTS}, "/objects")
            collection, make = (WRITTEN | CUSTOM_WRITTEN)[resource]
            self._scribes[key] = stack.enter_context(Scribe(ground.open_writer, collection, make, name))
        return self._scribes[key]

    def _connect(
        self, stack: contextlib.ExitStack, setup: Setup, ground: Ground, folder: Path
    ) -> tuple[Proxy, Path, list[str] | str]:
        """Return the link of a daemon, its kubeconfig, and the apiservers that it watches; empty for the only one."""
        if ground.lab is not None:
            lab = ground.lab
            user = setup.prepare(lab.plane, folder) if setup.prepare else {"token": lab.plane.token}
            watched = [ground.members[0].url] if setup.alone else "each"
            return lab.service, lab.kubeconfig(folder.name, user), watched
        plane = ground.plane
        servers = [apiserver.url for apiserver in plane.apiservers] if plane else []
        if ground.simulator:
            servers = [ground.simulator.url]
        ca = plane.ca if plane and setup.plain else None
        link = stack.enter_context(Proxy(folder, "link", *(servers if setup.behind_one else servers[:1]), ca=ca))
        if plane is None:
            kubeconfig = folder / "kubeconfig"
            write_kubeconfig(kubeconfig, {"server": link.url}, {})
        else:
            user = setup.prepare(plane, folder) if setup.prepare else {"token": plane.token}
            kubeconfig = plane.kubeconfig(folder.name, user, server=link.url)
        return link, kubeconfig, [link.url, servers[0]] if setup.twice else []
