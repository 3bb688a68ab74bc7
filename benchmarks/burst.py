"""20,000 pods at once: the cost of an event from socket to evaluated slot, and in `kubernetes_asyncio.Watch`."""

import json
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.measure import Server, cpu_seconds, figure, serving, until_evaluated, with_kubeconfig
from tests.support.daemon import Daemon
from tests.support.process import Process

BURST = 20_000
ROUNDS = 3
WARM_UP = 2_000
SETTLE_SECONDS = 7.0  # a past second is sealed after its end, and evaluations run every 5 s
THEIRS = 5_000  # events of the last burst for kubernetes_asyncio, which takes half a millisecond each


def burst() -> None:
    print(f"\n{BURST:,} pods at once, 3.7 KB each as plain objects")
    with serving("benchmarks.replay") as server:
        table = _ours(server, "table")
        figure("watchslo, Table", table, "us/event", "<= 10")
        figure("watchslo, metadata with creation timestamps", _ours(server, "metadata"), "us/event", "<= 35")
        theirs = _theirs(server)
        figure("kubernetes_asyncio.Watch", theirs, "us/event")
        figure("  … compared with the Table", theirs / table, "times", ">= 50")


def _ours(server: Server, representation: str) -> float:
    """Return the median cost over some bursts, minus the idle cost, in microseconds per event."""
    watch = {"resource": "pods", "name": "pods", "representation": representation}
    with with_kubeconfig(server.kubeconfig, [watch]) as daemon:
        server.post(f"/burst/{WARM_UP}")
        until_evaluated(daemon, WARM_UP)
        idle = _spent(daemon)
        costs = []
        for round_ in range(1, ROUNDS + 1):
            server.post(f"/burst/{BURST}")
            costs.append((_spent(daemon) - idle) / BURST * 1e6)
            until_evaluated(daemon, WARM_UP + round_ * BURST)
        return median(costs)


def _spent(daemon: Daemon) -> float:
    """Return the CPU seconds of the next seconds, without scrapes: one costs as much as ten thousand events."""
    before = cpu_seconds(daemon.process)
    time.sleep(SETTLE_SECONDS)
    return cpu_seconds(daemon.process) - before


def _theirs(server: Server) -> float:
    command = [sys.executable, "-m", "benchmarks.kubernetes_asyncio_watch", str(server.kubeconfig), str(THEIRS)]
    with TemporaryDirectory() as name, Process(Path(name), "kubernetes-asyncio", command) as process:
        process.until(lambda: "watching" in process.out, "a watch")
        server.post(f"/burst/{BURST}")
        process.until(lambda: "cpu_us_per_event" in process.out, "a figure")
        return float(json.loads(process.out.splitlines()[-1])["cpu_us_per_event"])
