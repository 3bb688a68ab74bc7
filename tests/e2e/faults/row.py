"""What a row of the fault matrix says, where its fault is made, and what came of it."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.faults.daemon import Observed
from tests.e2e.faults.notes import Judgement
from tests.e2e.faults.scribe import Scribe
from tests.support.control_plane import ControlPlane
from tests.support.daemon import Proxy, Simulator

REAL, SIMULATED = "kube-apiserver 1.36", "simulator"
LOOK_SECONDS = 0.3
COUNTED_SECONDS = 120.0  # until a fault shows; backoff may have come to its end


@dataclass(frozen=True, slots=True)
class Row:
    """A fault and what is to come of it.

    `counted` must be counted, `also` may be, and nothing else; `closed network` means all closes of that class. What
    was written meanwhile is delivered in the end, unless the server itself `forgets` it: then it is inside a gap that
    is reported. All is well again `within` so many seconds after the end of the fault.

    `watches` are the daemon's, the first one is judged; `keys` are further ones of its configuration. `prepare` makes
    who it is, as a user of a kubeconfig, before it starts. A `plain` link speaks TLS in the daemon's place. Apiservers
    may stand `behind_one_address`, where there are two. What is there `from_start` is counted from the start on.
    """

    title: str
    strike: Callable[["Scene"], None]
    counted: frozenset[str]
    also: frozenset[str] = frozenset()
    forgets: bool = False
    within: float = 90.0  # in the end there is one try in 30 to 60 s, and a list waits for 10 s
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
        """A name for objects."""
        return self.name.replace("_", "-")


@dataclass(slots=True)
class Scene:
    """Where a fault is made: the daemon, who writes, and what stands between them.

    A fault begins when its function is called, and is over when it returns; what it has to prepare ends with `begins`,
    and what it has to look at afterwards begins with `ends`.
    """

    row: Row
    folder: Path
    daemon: Observed
    scribe: Scribe
    link: Proxy
    cluster: ControlPlane | Simulator
    storage: Proxy
    began: float = 0.0
    ended: float | None = None
    counted_before: Mapping[str, float] = field(default_factory=dict)

    @property
    def plane(self) -> ControlPlane:
        assert isinstance(self.cluster, ControlPlane)
        return self.cluster

    @contextlib.contextmanager
    def simulated(self, fault: str) -> Iterator[None]:
        """Lets something go wrong with the resource, in the simulator, as long as the context lives."""
        assert isinstance(self.cluster, Simulator)
        self.cluster.control({"name": fault, "resource": self.row.resource}, "/faults")
        yield
        self.cluster.control({"name": fault, "resource": self.row.resource, "on": False}, "/faults")

    def begins(self) -> None:
        self.counted_before = self.daemon.counted()
        self.began, self.ended = time.monotonic(), None

    def ends(self) -> None:
        self.ended = time.monotonic()

    def until_said(self, event: str, **facts: Any) -> None:
        self.daemon.until_said(event, COUNTED_SECONDS, **facts)

    def until_delivered(self) -> None:
        """Waits until the daemon has seen the newest of what was written."""
        newest, watch = self.scribe.answered()[-1], self.daemon.watches[0]
        self.daemon.process.until(lambda: self.daemon.notes().saw(watch, newest), COUNTED_SECONDS, "all delivered")

    def until_counted(self, name: str, times: int = 1) -> None:
        """Waits until a counter that tells of faults has counted so often since the fault began."""
        wanted = self.counted_before.get(name, 0.0) + times
        self.daemon.process.until(
            lambda: self.daemon.counted().get(name, 0.0) >= wanted, COUNTED_SECONDS, f"counted {name}", LOOK_SECONDS
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it: seconds from the end and from the beginning of the fault to the first live event after it."""

    row: Row
    counted: frozenset[str]
    after_end: float
    after_begin: float
    judgement: Judgement
