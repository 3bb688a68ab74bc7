"""A row of the fault matrix: the fault, where it is made, and what was observed."""

import contextlib
import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests.e2e.faults.daemon import Observed
from tests.e2e.faults.notes import Judgement
from tests.e2e.faults.scribe import Scribe
from tests.support.control_plane import ControlPlane
from tests.support.daemon import Proxy, Simulator

REAL, SIMULATED = "kube-apiserver 1.36", "simulator"
LOOK_SECONDS = 0.3
COUNTED_SECONDS = 120.0  # until a counter shows the fault; the backoff may be at its maximum


class Startable(Protocol):
    """An apiserver or an etcd."""

    def start(self) -> None:
        """Start its process."""


def start_directly(server: Startable) -> None:
    """Start a server from the calling thread, which must be the main thread."""
    server.start()


@dataclass(frozen=True, slots=True)
class Row:
    """A fault and its expected effects.

    The counters in `counted` must rise, those in `also` may rise, and no other may. `closed network` stands for all
    closes of that class. Every write must be delivered in the end, unless the server itself `forgets` it: then it must
    be inside a reported gap. `within` is the time in seconds from the end of the fault to the first live event.

    `watches` are those of the daemon; the first one is judged. `keys` are further keys of its configuration. `prepare`
    runs before the daemon starts and returns its user entry of a kubeconfig. With `plain`, the link speaks TLS in place
    of the daemon. With `behind_one_address`, the link leads to both apiservers in turn. With `from_start`, counters
    count from the start of the daemon and not from the beginning of the fault.
    """

    title: str
    strike: Callable[["Scene"], None]
    counted: frozenset[str]
    also: frozenset[str] = frozenset()
    forgets: bool = False
    within: float = 90.0  # the backoff may have reached 30 to 60 s, and a list waits for 10 s
    watches: tuple[Mapping[str, Any], ...] = ({"resource": "configmaps", "namespace": "default"},)
    keys: Mapping[str, Any] = field(default_factory=dict)
    prepare: Callable[[ControlPlane, Path], dict[str, Any]] | None = None
    plain: bool = False
    from_start: bool = False
    behind_one_address: bool = False
    where: str = REAL

    @property
    def name(self) -> str:
        return self.strike.__name__

    @property
    def resource(self) -> str:
        return str(self.watches[0]["resource"])

    @property
    def slug(self) -> str:
        """The name as a part of object names."""
        return self.name.replace("_", "-")

    def may_follow(self, other: "Row") -> bool:
        """Return whether this fault can be made with the daemon and the link of `other`, after it."""
        rows = (self, other)
        if self.from_start or any(row.prepare for row in rows):
            return False
        ours, theirs = ((row.watches, row.keys, row.plain, row.behind_one_address, row.where) for row in rows)
        return ours == theirs


@dataclass(slots=True)
class Scene:
    """What a fault can act on: the daemon, the writer, and the servers and links between them.

    A fault begins when its function is called and is over when it returns. A function that prepares something first
    calls `begins` afterwards, and one that checks something at the end calls `ends` before.
    """

    row: Row
    folder: Path
    daemon: Observed
    scribe: Scribe
    link: Proxy
    cluster: ControlPlane | Simulator
    storage: Proxy
    start: Callable[[Startable], None] = start_directly
    began: float = 0.0
    ended: float | None = None
    counted_before: Mapping[str, float] = field(default_factory=dict)

    @property
    def plane(self) -> ControlPlane:
        assert isinstance(self.cluster, ControlPlane)
        return self.cluster

    @contextlib.contextmanager
    def changing(self, rate: float) -> Iterator[None]:
        """Let the simulator change and delete objects of its own, so many times a second, while the context is open."""
        assert isinstance(self.cluster, Simulator)
        self.cluster.control({"resource": self.row.resource, "rate": rate}, "/workload")
        yield
        self.cluster.control({"resource": self.row.resource, "rate": 0}, "/workload")

    @contextlib.contextmanager
    def simulated(self, fault: str) -> Iterator[None]:
        """Switch on a fault of the simulator, for the resource of the row, while the context is open."""
        assert isinstance(self.cluster, Simulator)
        self.cluster.control({"name": fault, "resource": self.row.resource}, "/faults")
        yield
        self.cluster.control({"name": fault, "resource": self.row.resource, "on": False}, "/faults")

    def edits(self) -> set[str]:
        """Return the faults of the simulator that have edited events since the fault began."""
        assert isinstance(self.cluster, Simulator)
        url = f"{self.cluster.announced['control']}/edits?since={self.began}"
        with urllib.request.urlopen(url, timeout=COUNTED_SECONDS) as answer:
            return {*json.load(answer)["edits"]["fault"]}

    def begins(self) -> None:
        self.counted_before = self.daemon.counted()
        self.began, self.ended = time.monotonic(), None

    def ends(self) -> None:
        self.ended = time.monotonic()

    def until_said(self, event: str, **facts: Any) -> None:
        """Wait until the log has an entry of this event with these facts."""
        self.daemon.until_said(event, **facts)

    def until_delivered(self) -> None:
        """Wait until the daemon has received the event of the newest write."""
        newest, watch = self.scribe.answered()[-1], self.daemon.watches[0]
        self.daemon.process.until(lambda: self.daemon.notes().saw(watch, newest), "all delivered")

    def until_counted(self, name: str, times: int = 1) -> None:
        """Wait until a counter of faults has risen by `times` since the fault began."""
        wanted = self.counted_before.get(name, 0.0) + times
        self.daemon.process.until(
            lambda: self.daemon.counted().get(name, 0.0) >= wanted, f"counted {name}", LOOK_SECONDS
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was observed; `after_end` and `after_begin` are seconds to the first live event after the fault."""

    row: Row
    counted: frozenset[str]
    after_end: float
    after_begin: float
    judgement: Judgement
