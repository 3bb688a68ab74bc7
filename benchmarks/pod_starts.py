"""`python -m benchmarks.pod_starts --fastapiserver PATH` measures what `reactions: [pods]` costs.

Two daemons watch the same pods at once, as metadata; one of them times reactions, from whole objects. So both meet the
same machine, and the ratio of their CPU is that of one run. CPU is the time that the process ran, not the wall time.
"""

import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks.fast_apiservers import FastApiservers, fast_apiservers, watching_all
from benchmarks.measure import cpu_seconds, memory
from benchmarks.scale import Figures, figures
from tests.support.daemon import Daemon
from watchslo.sim.kinds import BUILT_IN
from watchslo.sim.workload import sample

RATES = (1, 10, 100, 1_000)
SECONDS = 30.0  # of each rate
LIFE_SECONDS = 20.0  # of a pod, once it is ready
WARM_UP_SECONDS = LIFE_SECONDS + 5.0  # then as many pods go as come
COLUMNS = (
    "pods a second",
    "CPU without, with",
    "ratio",
    "CPU a pod more",
    "received more",
    "memory without, with",
    "samples of the watch without, with",
    "samples of reactions",
)
UID, REVISION = "@@uid@@", "@@revision@@"  # the apiserver replaces them


def steps() -> Iterator[Mapping[str, Any]]:
    """Yield each change in the life of a pod: when it comes, and its line as a whole object and as metadata."""
    pod = deepcopy(dict(sample(BUILT_IN["pods"], "full", f"web-7d4b9c5f6-{UID}")))
    pod["metadata"] |= {"uid": UID, "resourceVersion": REVISION, "creationTimestamp": "2026-11-21T11:48:52Z"}
    spec, status = pod["spec"], pod["status"]
    conditions, containers = status["conditions"], status["containerStatuses"]
    not_ready = [{**conditions[0], "status": "False"}, conditions[1]]
    waiting = [{**containers[0], "ready": False, "state": {"waiting": {"reason": "ContainerCreating"}}}]
    running = [{**containers[0], "ready": False}]
    pending = {"phase": "Pending", "qosClass": "Burstable"}
    started = {**status, "phase": "Pending", "conditions": not_ready}
    created = {**pod, "spec": {key: value for key, value in spec.items() if key != "nodeName"}, "status": pending}
    deleting = {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2026-11-21T11:50:00Z"}}
    yield _step(0.0, "ADDED", created)
    yield _step(0.02, "MODIFIED", {**created, "spec": spec})
    yield _step(0.1, "MODIFIED", {**pod, "status": {**started, "containerStatuses": waiting}})
    yield _step(0.5, "MODIFIED", {**pod, "status": {**started, "phase": "Running", "containerStatuses": running}})
    yield _step(1.0, "MODIFIED", pod)
    yield _step(1.0 + LIFE_SECONDS, "MODIFIED", deleting)
    yield _step(1.5 + LIFE_SECONDS, "DELETED", deleting)


def _step(after: float, type_: str, pod: Mapping[str, Any]) -> Mapping[str, Any]:
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": pod["metadata"]}
    whole = {"kind": "Pod", "apiVersion": "v1", **pod}
    return {"after": after, "whole": _line(type_, whole), "metadata": _line(type_, partial)}


def _line(type_: str, obj: Mapping[str, Any]) -> str:
    return json.dumps({"type": type_, "object": obj}, separators=(",", ":")) + "\n"


@dataclass(frozen=True, slots=True)
class Spent:
    """What a daemon has spent so far: CPU and wall time, in seconds, and how many events and reactions are samples."""

    cpu: float
    wall: float
    watch: Figures
    reactions: Counter[str]

    @classmethod
    def by(cls, daemon: Daemon) -> "Spent":
        reactions = Counter(samples=int(daemon.scrape().total("watchslo_reaction_seconds_count")))
        for reaction in daemon.status()["reactions"]:
            reactions.update(reaction["unmeasured"])
        return cls(cpu_seconds(daemon.process), time.monotonic(), figures(daemon), reactions)

    def cores_since(self, earlier: "Spent") -> float:
        return (self.cpu - earlier.cpu) / (self.wall - earlier.wall)

    def watched_since(self, earlier: "Spent") -> str:
        """Return the share of the events of the measured watch that are samples."""
        part = self.watch.since(earlier.watch)
        return f"{100 * part.samples / (part.samples + part.unmeasured.total()):.0f}%"

    def timed_since(self, earlier: "Spent") -> str:
        """Return the share of the reactions that are samples."""
        part = self.reactions - earlier.reactions
        return f"{100 * part['samples'] / part.total():.0f}%"


def pod_starts(program: Path, seconds: float = SECONDS) -> None:
    lines = [*steps()]
    sizes = [len(step["whole"]) for step in lines]
    print(f"\n{len(lines)} events of {sum(sizes) / len(sizes):,.0f} bytes for each pod; load {os.getloadavg()[0]:.1f}")
    print(f"\n| {' | '.join(COLUMNS)} |\n| {' | '.join('---' for _ in COLUMNS)} |")
    with contextlib.ExitStack() as stack:
        served = stack.enter_context(fast_apiservers(program, 1, 0, json.dumps(lines).encode()))
        without = stack.enter_context(watching_all(served, reactions="none"))
        timing = stack.enter_context(watching_all(served, reactions=["pods"]))
        for rate in RATES:
            _measure(served, without, timing, rate, seconds)


def _measure(served: FastApiservers, without: Daemon, timing: Daemon, rate: float, seconds: float) -> None:
    """Let pods start at a rate, and print a row of the table."""
    served.start_pods(rate)
    time.sleep(WARM_UP_SECONDS)
    served.reset_statistics()
    before = [Spent.by(daemon) for daemon in (without, timing)]
    time.sleep(seconds)
    after = [Spent.by(daemon) for daemon in (without, timing)]
    bytes_more = served.statistics()["bytes"] / seconds
    plain, timed = (end.cores_since(start) for start, end in zip(before, after, strict=True))
    cells = (
        f"{rate:,}",
        f"{100 * plain:.1f}%, {100 * timed:.1f}%",
        f"{timed / plain:.1f}",
        f"{1e3 * (timed - plain) / rate:,.2f} ms",
        f"{bytes_more / 1e3:,.0f} kB/s",
        f"{memory(without):.0f}, {memory(timing):.0f} MiB",
        ", ".join(end.watched_since(start) for start, end in zip(before, after, strict=True)),
        after[1].timed_since(before[1]),
    )
    print(f"| {' | '.join(cells)} |", flush=True)


@click.command()
@click.option("--fastapiserver", type=Path, required=True, help="The program built from benchmarks/fastapiserver.")
@click.option("--seconds", default=SECONDS, help="Duration of each rate.")
def main(fastapiserver: Path, seconds: float) -> None:
    pod_starts(fastapiserver, seconds)


if __name__ == "__main__":
    main()
