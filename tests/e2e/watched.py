"""A daemon whose statements are compared with what a writer knows: events, latencies, and causes."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.daemon import LOOK_SECONDS
from tests.support.kept_up import OVERLOADED
from tests.support.notes import judge
from tests.support.observed import USUAL, Observed, until_settled
from tests.support.process import until_equal
from tests.support.scribe import WRITTEN, Scribe
from tests.support.writer import Writer

WATCHES: tuple[dict[str, Any], ...] = (
    {"resource": "configmaps", "namespace": "default"},
    {"resource": "leases.coordination.k8s.io"},
)
MORE_SAMPLES = 60  # of steady writes before and after a fault
SAMPLES = "watchslo_apiserver_timespan_seconds_count"


@dataclass
class Watched:
    """A daemon and the writers of what it watches, by watch.

    `named` are the causes that it named since `forget`, and of which apiserver; `sure` those with some confidence.
    """

    daemon: Observed
    scribes: Mapping[str, Scribe]
    since: float = 0.0
    named: set[tuple[str, str | None]] = field(default_factory=set)
    sure: set[tuple[str, str | None]] = field(default_factory=set)
    before: Mapping[str, float] = field(default_factory=dict)

    def look(self) -> Any:
        """Return what the daemon says now, and record the causes that it names."""
        status = self.daemon.status()
        for cause in status["causes"]:
            key = cause["cause"], cause["apiserver"]
            self.named.add(key)
            if cause["confidence"] != "low" and cause["cause"] != OVERLOADED:
                self.sure.add(key)
        return status

    def until(self, condition: Callable[[Any], bool], what: str) -> None:
        """Wait until a condition holds for what the daemon says."""
        self.daemon.process.until(lambda: condition(self.look()), what, LOOK_SECONDS)

    def until_steady(self, *known: str) -> None:
        """Wait until all watches are open and more was measured, with no cause but `known` ones and our own."""
        self.until(lambda status: _calm(status, *known), "all is well")
        least = self._samples() + MORE_SAMPLES
        self.until(lambda _: self._samples() >= least, "more events are measured")

    def forget(self) -> None:
        """Forget what was named and counted until now."""
        self.named.clear()
        self.sure.clear()
        self.before = self.daemon.counted()

    def risen(self) -> set[str]:
        """Return the counters of faults that rose since `forget`, without those that any busy machine may raise."""
        counted = self.daemon.counted()
        return {name for name, count in counted.items() if count > self.before.get(name, 0.0)} - USUAL

    def verify(self) -> None:
        """Assert that no event was lost, no sample is wrong, and neither a guarantee nor a domain was blamed."""
        until = time.monotonic()
        for watch, scribe in self.scribes.items():
            writes = until_settled(self.daemon, watch, scribe, self.since, until)
            found = judge(self.daemon.notes(), watch, writes, until)
            print(f"{watch}: {found}")
            assert (found.lost, found.wrong, found.false_alarms) == ((), (), 0)
            assert found.samples > 0
        counted = self.daemon.counted()
        assert not [name for name, count in counted.items() if name.startswith("violated") and count]
        assert counted["clock reset"] == 0
        until_equal(self._memberships, {"member"}, "all watches are members")

    def _memberships(self) -> set[str]:
        return {stream["membership"] for stream in self.daemon.status()["watches"]}

    def _samples(self) -> float:
        return self.daemon.scrape().total(SAMPLES)


def _calm(status: Any, *known: str) -> bool:
    causes = {cause["cause"] for cause in status["causes"]}
    streams = status["watches"]
    members = all(stream["up"] and stream["membership"] == "member" for stream in streams)
    return bool(streams) and members and causes <= {OVERLOADED, *known}


@contextlib.contextmanager
def watching(
    folder: Path,
    kubeconfig: Path,
    open_writer: Callable[[], Writer],
    watches: Sequence[dict[str, Any]] = WATCHES,
    known: Sequence[str] = (),
    **keys: Any,
) -> Iterator[Watched]:
    """Run a daemon that measures while config maps, and events if they are watched, are created.

    `known` causes are there from the start.
    """
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(Observed(folder / "daemon", kubeconfig, watches, **keys))
        scribes = {}
        for watch in watches:
            name, resource = str(watch.get("name", watch["resource"])), str(watch["resource"])
            if resource in ("configmaps", "events"):
                scribe = Scribe(open_writer, *WRITTEN[resource], f"{folder.name.replace('_', '-')}-{name}"[-60:])
                scribes[name] = stack.enter_context(scribe)
        watched = Watched(daemon, scribes)
        watched.until(lambda status: _calm(status, *known), "all is well")
        watched.since = time.monotonic()
        watched.until_steady(*known)
        watched.forget()
        yield watched
