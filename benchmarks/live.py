"""500 events per second, one at a time: the cost of an event in the daemon's Table watch and in client-go.

Both watch the same writes to a real apiserver at the same time; client-go watches metadata. The cost that does not
depend on events (ticks, heartbeats, evaluations of a busy watch) is subtracted. It is measured at a twentieth of the
rate.
"""

import os
import threading
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.measure import PATIENCE_SECONDS, cpu_seconds, figure, with_kubeconfig
from tests.support.assets import newest
from tests.support.control_plane import ControlPlane, Etcd
from tests.support.process import Process
from tests.support.writer import configmap

SLOW, FAST = 25, 500  # events per second
SECONDS = 7.5  # the duration of a phase: it contains one or two evaluations, 1.5 on average
ROUNDS = 3
WRITERS = 4
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def live(clientgo: Path) -> None:
    print(f"\n{FAST} events per second, one at a time, from a real apiserver")
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
        with with_kubeconfig(kubeconfig, [watch]) as daemon, Process(Path(name), "clientgo", command) as theirs:
            theirs.until(lambda: "watching" in theirs.out, PATIENCE_SECONDS, "a watch")
            _phase(plane, FAST, [daemon.process, theirs])
            rounds = [_slopes(plane, [daemon.process, theirs]) for _ in range(ROUNDS)]
    ours, go = (median(costs) for costs in zip(*rounds, strict=True))
    figure("watchslo, Table", ours, "us/event")
    figure("client-go, metadata, at the same time", go, "us/event")
    figure("  … watchslo's cost is", median(ours / go for ours, go in rounds), "times that", "< 1")


def _slopes(plane: ControlPlane, processes: list[Process]) -> list[float]:
    """Return the CPU microseconds per additional event, for each process."""
    slow = _phase(plane, SLOW, processes)
    fast = _phase(plane, FAST, processes)
    return [1e6 * (more - less) / SECONDS / (FAST - SLOW) for less, more in zip(slow, fast, strict=True)]


def _phase(plane: ControlPlane, rate: float, processes: list[Process]) -> list[float]:
    """Return the CPU seconds of each process during a phase with this rate of writes."""
    start = time.monotonic()
    before = [cpu_seconds(process) for process in processes]
    threads = [threading.Thread(target=_write, args=(plane, number, rate, start)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [cpu_seconds(process) - earlier for process, earlier in zip(processes, before, strict=True)]


def _write(plane: ControlPlane, number: int, rate: float, start: float) -> None:
    """Write the share of one writer; all writes are evenly spaced, and the writers take turns."""
    with plane.writer() as writer:
        for turn in range(number, int(rate * SECONDS), WRITERS):
            time.sleep(max(0.0, start + turn / rate - time.monotonic()))
            writer.patch(f"{CONFIGMAPS}/busy-{number}", {"data": {"turn": str(turn)}})
        time.sleep(max(0.0, start + SECONDS - time.monotonic()))
