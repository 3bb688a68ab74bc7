"""The shipped DaemonSet on three real apiservers: checks that each instance is right about its own apiserver.

One apiserver's whole link to etcd is late, another one sends the events of watches late, and the third is healthy. Each
instance has the configuration and the rights of the profile `control-plane`. In a second run no instance can reach a
witness: then each must say so, and none may show a figure that it cannot know.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import numpy as np

from tests.fidelity.cases import Traffic
from tests.fidelity.goals import CREATION_GOAL, aligned, ms
from tests.fidelity.outcome import share
from tests.fidelity.three import (
    GOAL_SECONDS,
    GOAL_SHARE,
    Durations,
    Injected,
    Observation,
    sending_late,
)
from tests.fidelity.writing import Make, Writing
from tests.support.control_plane import HOST, Port
from tests.support.daemon import LOOK_SECONDS
from tests.support.daemonset import kubeconfig, profile_of
from tests.support.high_availability import HighAvailability
from tests.support.sampled import Sampled
from tests.support.writer import Write, configmap, pod

COLLECTIONS: Mapping[str, Make] = {
    "/api/v1/namespaces/default/configmaps": configmap,
    "/api/v1/namespaces/default/pods": pod,  # their creation timestamps are measured
}
CREATED = "pods"
TRAFFIC = Traffic("thirty", rate=30.0)
STORAGE_LATE, SENDING_LATE, HEALTHY = INJECTED = (Injected(0.3, 0.0), Injected(0.0, 0.3), Injected(0.0, 0.0))
CAUSES = {STORAGE_LATE: "cache_behind", SENDING_LATE: "apiserver_sending"}
CREATION_EDGE = 1.0  # seconds: the clock of an apiserver is known to a round trip of its ticks only, here 0.3 s
COLUMNS = (
    "etcd → apiserver / apiserver → client",
    "witnesses",
    "total P50, ms: true / estimated",
    "storage → cache",
    "cache → client",
    "creations: count, worst share",
    "causes named",
)


@dataclass(frozen=True, slots=True)
class Instance:
    """What one instance says of its own apiserver, and the `true` P50 of the way.

    `said` has NaN for what was not measured; `resolved` says whether its total is a measurement. `created` events were
    measured from their creation timestamps, `creation_error` is the largest error of a share. `why` is the reason why
    witnesses are missing.
    """

    name: str
    injected: Injected
    true: float
    said: Durations
    resolved: bool
    causes: frozenset[tuple[str, str | None]]
    created: int
    creation_error: float
    witnesses: int
    why: str | None
    checked: int
    wrong: int

    def missed(self, *, reached: bool) -> Iterator[str]:
        """Yield a sentence for each missed goal; `reached` says whether the witnesses can be reached."""
        yield from self._missed_of_way(reached=reached)
        yield from self._missed_of_witnesses(reached=reached)
        for cause, apiserver in sorted(self.causes, key=str):
            if apiserver not in (None, self.name):
                yield f"{cause} is named for {apiserver}, which another instance watches"
        if self.wrong:
            yield f"{self.wrong} of {self.checked} samples are impossible"

    def _missed_of_way(self, *, reached: bool) -> Iterator[str]:
        injected = self.injected
        total = injected.storage + injected.client
        if injected.storage and not reached:
            if self.resolved:
                yield f"the total is reported as {ms(self.said.total)} ms, which its own ticks cannot show"
            return
        expected = {"total": total}
        if total:
            expected |= {"storage_to_cache": injected.storage, "cache_to_client": injected.client}
        for name, truth in expected.items():
            said = getattr(self.said, name)
            if not abs(said - truth) <= max(GOAL_SHARE * truth, GOAL_SECONDS):  # also true for NaN
                yield f"{name} is reported as {ms(said)} ms, but {ms(truth)} ms were injected"
        named = {cause for cause, apiserver in self.causes if apiserver == self.name}
        if total and CAUSES[injected] not in named:
            yield f"{CAUSES[injected]} is not named, but {sorted(named)}"
        if not total and named:
            yield f"{sorted(named)} are named for a healthy apiserver"

    def _missed_of_witnesses(self, *, reached: bool) -> Iterator[str]:
        if not reached:
            if self.witnesses or not self.why or self.created:
                yield f"{self.witnesses} witnesses are reached and {self.created} creations dated; reason: {self.why}"
            return
        if self.witnesses != len(INJECTED) - 1:
            yield f"{self.witnesses} witnesses are reached: {self.why}"
        if not self.created:
            yield "no creations are measured"
        elif self.creation_error > CREATION_GOAL:
            yield f"the share of a creation latency is wrong by {100 * self.creation_error:.1f} percentage points"

    def cells(self) -> tuple[str, ...]:
        """Return the cells of a row of the table."""
        return (
            str(self.injected),
            f"{self.witnesses}",
            f"{ms(self.true)} / {ms(self.said.total)}{'' if self.resolved else ', not resolved'}",
            ms(self.said.storage_to_cache),
            ms(self.said.cache_to_client),
            f"{self.created:,}, {100 * self.creation_error:.1f} pp" if self.created else "none",
            ", ".join(sorted({cause for cause, _ in self.causes})) or "none",
        )


def run(lab: HighAvailability, folder: Path, seconds: float, seed: int, *, reached: bool) -> list[Instance]:
    """Measure for `seconds` with one instance next to each apiserver; the witnesses can be `reached` or not.

    If not, the instances run one after another: only its own apiserver is announced to each, next to closed ports.
    """
    folder.mkdir()
    stored, sending, healthy = lab.members
    with contextlib.ExitStack() as stack:
        writer = partial(lab.writer, healthy)
        writings = [
            stack.enter_context(Writing(writer, collection, make, TRAFFIC, seed))
            for collection, make in COLLECTIONS.items()
        ]
        stack.enter_context(stored.storage.late(f"constant {STORAGE_LATE.storage:g}s"))
        proxy = stack.enter_context(sending_late(lab, sending, SENDING_LATE, folder / "proxy.json", seed))
        urls = dict(zip(INJECTED, (stored.url, proxy, healthy.url), strict=True))
        if reached:
            return _observed(lab, folder, urls, seconds, writings, reached=True)
        found = []
        for injected, url in urls.items():
            with _closed(lab, [other for other in urls.values() if other != url]):
                found += _observed(lab, folder, {injected: url}, seconds, writings, reached=False)
        return found


def _observed(
    lab: HighAvailability,
    folder: Path,
    urls: Mapping[Injected, str],
    seconds: float,
    writings: Sequence[Writing],
    *,
    reached: bool,
) -> list[Instance]:
    """Run an instance next to each of these apiservers at once."""
    account = kubeconfig(lab)
    with contextlib.ExitStack() as stack:
        daemons = [
            stack.enter_context(Sampled(folder / urlsplit(url).netloc, account, **profile_of(url)))
            for url in urls.values()
        ]
        said = [Observation(daemon, urlsplit(url).netloc) for daemon, url in zip(daemons, urls.values(), strict=True)]
        for injected, daemon, observation in zip(urls, daemons, said, strict=True):
            if injected.client or (injected.storage and reached):
                daemon.process.until(observation.complete, f"hops of {injected}", LOOK_SECONDS)
        _look(said, seconds)
        writes = [write for writing in writings for write in writing.writes()]
        return [_instance(*of, writes) for of in zip(urls, said, daemons, strict=True)]


def table(instances: Sequence[Instance]) -> str:
    """Return an aligned Markdown table of all instances."""
    return aligned([COLUMNS, *(instance.cells() for instance in instances)])


@contextlib.contextmanager
def _closed(lab: HighAvailability, urls: Sequence[str]) -> Iterator[None]:
    """Announce closed ports instead of these apiservers."""
    ports = [Port() for _ in urls]
    closed = [f"https://{HOST}:{port.number}" for port in ports]
    _replace(lab, urls, closed)
    try:
        yield
    finally:
        _replace(lab, closed, urls)
        for port in ports:
            port.release()


def _replace(lab: HighAvailability, withdrawn: Sequence[str], announced: Sequence[str]) -> None:
    for url in withdrawn:
        lab.withdraw(url)
    for url in announced:
        lab.announce(url)


def _look(observations: Sequence[Observation], seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for observation in observations:
            observation.look(1.0)


def _instance(injected: Injected, said: Observation, daemon: Sampled, writes: Sequence[Write]) -> Instance:
    checked, wrong = daemon.contradictions(writes)
    created, error = _creations(daemon, writes)
    witnesses = said.monitor["witnesses"]
    return Instance(
        name=said.slow,
        injected=injected,
        true=_true_median(daemon, [write for write in writes if said.spans(write)]),
        said=said.durations(),
        resolved=said.resolved,
        causes=frozenset(said.causes),
        created=created,
        creation_error=error,
        witnesses=witnesses["reached"],
        why=witnesses["why"],
        checked=checked,
        wrong=len(wrong),
    )


def _true_median(daemon: Sampled, writes: Sequence[Write]) -> float:
    committed = {write.revision: (write.before + write.after) / 2 for write in writes if CREATED not in write.path}
    return median(
        sample.at - committed[sample.revision] for sample in daemon.all_samples() if sample.revision in committed
    )


def _creations(daemon: Sampled, writes: Sequence[Write]) -> tuple[int, float]:
    """Return how many creations were measured, and the largest error of their shares from `CREATION_EDGE` on."""
    scrape, name = daemon.scrape(), "watchslo_creation_to_watch_seconds"
    count = int(scrape.total(f"{name}_count", watch=CREATED))
    if not count:
        return 0, 0.0
    created = {write.revision: write.before for write in writes if write.verb == "POST" and CREATED in write.path}
    true = [sample.at - created[sample.revision] for sample in daemon.all_samples() if sample.revision in created]
    said = {
        float(sample.labels["le"]): sample.value / count
        for sample in scrape.families[name].samples
        if sample.name == f"{name}_bucket" and sample.labels["watch"] == CREATED
    }
    edges = [edge for edge in said if CREATION_EDGE <= edge < inf]
    errors = share(np.array(true), np.array(edges)) - np.array([said[edge] for edge in edges])
    return count, float(np.abs(errors).max())
