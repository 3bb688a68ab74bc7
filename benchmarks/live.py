"""500 events a second, one at a time: what one costs the daemon's Table watch, and client-go's metadata watch.

Both follow the same writes to a real apiserver at the same time. What does not depend on events (ticks, heartbeats,
evaluations of a busy watch) is left out by subtraction: the same is measured at a twentieth of the rate.
"""

import os
import threading
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.measure import PATIENCE_SECONDS, by_kubeconfig, cpu_seconds, figure
from tests.support.assets import newest
from tests.support.control_plane import ControlPlane, Etcd
from tests.support.process import Process
from tests.support.writer import configmap

SLOW, FAST = 25, 500  # events a second
SECONDS = 7.5  # a phase: one and a half evaluations, half of the phases two
ROUNDS = 3
WRITERS = 4
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def live(clientgo: Path) -> None:
    print(f"\n{FAST} events a second, one at a time, from a real apiserver")
    assets = newest(os.environ)
    with (
        TemporaryDirectory() as name,
        Etcd(Path(name), assets.etcd) as etcd,
        ControlPlane(Path(name), assets.kube_apiserver, etcd) as plane,
    ):
        with plane.writer() as writer:
            for number in range(WRITERS):
                writer.create(CONFIGMAPS, configmap(f"busy-{number}"))
        kubeconfig = plane.kubeconfig()
        watch = {"resource": "configmaps", "name": "configmaps"}
        forever = ["--resource", "configmaps", "--events", str(10**9), "--live"]
        command: list[str | Path] = [clientgo, "--kubeconfig", kubeconfig, *forever]
        with by_kubeconfig(kubeconfig, [watch]) as daemon, Process(Path(name), "clientgo", command) as theirs:
            theirs.until(lambda: "watching" in theirs.out, PATIENCE_SECONDS, "a watch")
            _phase(plane, FAST, [daemon.process, theirs])
            rounds = [_slopes(plane, [daemon.process, theirs]) for _ in range(ROUNDS)]
    ours, go = (median(costs) for costs in zip(*rounds, strict=True))
    figure("watchslo, Table", ours, "us/event")
    figure("client-go, metadata, at the same time", go, "us/event")
    figure("  … ours is", median(ours / go for ours, go in rounds), "times theirs", "< 1")


def _slopes(plane: ControlPlane, processes: list[Process]) -> list[float]:
    """Microseconds for each event more, of each process."""
    slow = _phase(plane, SLOW, processes)
    fast = _phase(plane, FAST, processes)
    return [1e6 * (more - less) / SECONDS / (FAST - SLOW) for less, more in zip(slow, fast, strict=True)]


def _phase(plane: ControlPlane, rate: float, processes: list[Process]) -> list[float]:
    """CPU seconds that each process takes while so much is written."""
    start = time.monotonic()
    before = [cpu_seconds(process) for process in processes]
    threads = [threading.Thread(target=_write, args=(plane, number, rate, start)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [cpu_seconds(process) - earlier for process, earlier in zip(processes, before, strict=True)]


def _write(plane: ControlPlane, number: int, rate: float, start: float) -> None:
    """One writer's share: evenly spaced, the writers in turn."""
    with plane.writer() as writer:
        for turn in range(number, int(rate * SECONDS), WRITERS):
            time.sleep(max(0.0, start + turn / rate - time.monotonic()))
            writer.patch(f"{CONFIGMAPS}/busy-{number}", {"data": {"turn": str(turn)}})
        time.sleep(max(0.0, start + SECONDS - time.monotonic()))
