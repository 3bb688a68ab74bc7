"""A fault, where it is made, and what it can act on."""

import contextlib
import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from tests.lab.expected import Counts, OnCall, Raised, Truth
from tests.lab.ground import Ground
from tests.support.control_plane import ControlPlane
from tests.support.daemon import Proxy, Simulator
from tests.support.high_availability import Member
from tests.support.observed import Observed
from tests.support.process import PATIENCE_SECONDS
from tests.support.scribe import Scribe

LOOK_SECONDS = 0.3
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Hit:
    """The strength of a fault that was made, and the name of the apiserver that it concerns; empty for all."""

    strength: str = ""
    apiserver: str = ""


Strike = Callable[["Scene"], AbstractContextManager[Hit]]
"""Makes a fault when its context opens, and removes it when that closes."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A daemon, and its way to the servers of the ground of this name.

    `watches` are those of its configuration, `keys` are further keys. `prepare` runs before it starts, and returns its
    user in a kubeconfig. With `plain`, the link speaks TLS to the server in place of the daemon. With `behind_one`, the
    link leads to all apiservers in turn. With `twice`, it watches the apiserver past the link too, as if that were
    another one. With `alone` it watches the first apiserver of several.
    """

    ground: str = "linked"
    watches: tuple[Mapping[str, Any], ...] = ({"resource": "configmaps", "namespace": "default"},)
    keys: Mapping[str, Any] = field(default_factory=dict)
    prepare: Callable[[ControlPlane, Path], dict[str, Any]] | None = None
    plain: bool = False
    behind_one: bool = False
    twice: bool = False
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """A row of the table: a fault by its name and in words, and what each judge expects; None if it does not judge.

    `setup` is that of the judge of counters. The judges of causes and verdicts have three apiservers, that of alerts
    the lanes of clusters. No cause is right if `causes` is empty.
    """

    name: str
    words: str
    strike: Strike
    counts: Counts | None = None
    setup: Setup = field(default_factory=Setup)
    causes: tuple[Truth, ...] | None = None
    on_call: OnCall | None = None
    raises: tuple[Raised, ...] = ()


@dataclass(slots=True)
class Scene:
    """What a fault can act on: the daemon, the writer, and the servers and links between them.

    A fault begins when its context opens. One that prepares something first sets `began` afterwards, one that is over
    earlier than its context calls `ends_here`. `usual` faults have one strength, others a random one.
    """

    name: str
    setup: Setup
    folder: Path
    ground: Ground
    daemon: Observed
    own_link: Proxy
    scribe: Scribe | None = None
    random: Random = field(default_factory=Random)
    usual: bool = True
    began: float = 0.0
    ended: float | None = None
    counted_before: Mapping[str, float] = field(default_factory=dict)
    member: Member | None = None

    @property
    def plane(self) -> ControlPlane:
        assert self.ground.plane is not None, f"{self.name} has no real apiserver"
        return self.ground.plane

    @property
    def simulator(self) -> Simulator:
        assert self.ground.simulator is not None, f"{self.name} is not simulated"
        return self.ground.simulator

    @property
    def writing(self) -> Scribe:
        assert self.scribe is not None, f"{self.name} has no writer"
        return self.scribe

    @property
    def watched(self) -> list[Member]:
        """The apiservers that the daemon watches through their own links, if there are several."""
        members = self.ground.members
        return members[:1] if self.setup.alone else members

    @property
    def link(self) -> Proxy:
        """The link to the apiserver that a fault concerns."""
        return self.member.client if self.member else self.own_link

    @property
    def hit(self) -> str:
        """The name of the apiserver that a fault concerns, if there are several."""
        return self.member.name if self.member else ""

    @property
    def resource(self) -> str:
        """The resource that a fault concerns: real apiservers have a link of its own to its storage."""
        if self.ground.simulator:
            return str(self.setup.watches[0]["resource"])
        watched = [watch["resource"] for watch in self.setup.watches]
        return next((name for name in self.ground.storage if name in watched), next(iter(self.ground.storage)))

    @property
    def storage(self) -> Proxy:
        """The link from etcd for this resource."""
        return self.ground.storage[self.resource]

    def chosen(self, usual: T, drawn: Callable[[Random], T]) -> T:
        """Return the strength of a fault."""
        return usual if self.usual else drawn(self.random)

    @contextlib.contextmanager
    def changing(self, rate: float) -> Iterator[None]:
        """Let the simulator change and delete objects of its own, so many times a second, while the context is open."""
        self.simulator.control({"resource": self.resource, "rate": rate}, "/workload")
        yield
        self.simulator.control({"resource": self.resource, "rate": 0}, "/workload")

    @contextlib.contextmanager
    def simulated(self, *faults: str) -> Iterator[None]:
        """Switch on faults of the simulator, for the resource of the scene, while the context is open."""
        switches = [{"name": fault, "resource": self.resource} for fault in faults]
        for switch in switches:
            self.simulator.control(switch, "/faults")
        try:
            yield
        finally:
            for switch in reversed(switches):
                self.simulator.control({**switch, "on": False}, "/faults")

    def edits(self) -> set[str]:
        """Return the faults of the simulator that have edited events since the fault began."""
        url = f"{self.simulator.announced['control']}/edits?since={self.began}"
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
            return {*json.load(answer)["edits"]["fault"]}

    def begins(self) -> None:
        """Begin the fault again, after its preparations."""
        self.counted_before = self.daemon.counted()
        self.began, self.ended = time.monotonic(), None

    def ends_here(self) -> None:
        """End the fault before its context closes; what follows only waits or checks."""
        self.ended = self.ended or time.monotonic()

    def until_delivered(self) -> None:
        """Wait until the daemon has received the event of the newest write."""
        newest, watch = self.writing.answered()[-1], self.daemon.watches[0]
        self.daemon.process.until(lambda: self.daemon.notes().saw(watch, newest), "all delivered")

    def until_measured(self) -> None:
        """Wait until all watches, at each apiserver, are open and their events are dated."""
        count = len(self.setup.watches) * max(1, len(self.watched))

        def measured() -> bool:
            streams = self.daemon.status()["watches"]
            return len([one for one in streams if one["up"] and one["membership"] == "member"]) >= count

        self.daemon.process.until(measured, f"{count} watches measured", LOOK_SECONDS)

    def until_counted(self, name: str, times: int = 1) -> None:
        """Wait until a counter of faults has risen by `times` since the fault began."""
        self.daemon.process.until(lambda: self.risen(name) >= times, f"counted {name}", LOOK_SECONDS)

    def risen(self, name: str) -> float:
        """Return by how much a counter of faults has risen since the fault began."""
        return self.daemon.counted().get(name, 0.0) - self.counted_before.get(name, 0.0)
