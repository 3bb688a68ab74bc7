"""500 events per second, one at a time: the cost of an event in the daemon's Table watch and in client-go.

All clients watch the same writes to a real apiserver at the same time; client-go watches metadata. The floor is a
client that only counts the bytes of a Table watch: on uvloop, and on the event loop of the daemon. The cost that does
not depend on events (ticks, heartbeats, evaluations of a busy watch) is subtracted. It is measured at a twentieth of
the rate.
"""

import os
import sys
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import click

from benchmarks.measure import cpu_seconds, figure, with_kubeconfig
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
        ExitStack() as stack,
    ):
        with plane.writer() as writer:
            for number in range(WRITERS):
                writer.create(CONFIGMAPS, configmap(f"busy-{number}"))
        kubeconfig = plane.kubeconfig()
        watch = {"resource": "configmaps", "name": "configmaps"}
        daemon = stack.enter_context(with_kubeconfig(kubeconfig, [watch]))
        others = [stack.enter_context(process) for process in _others(Path(name), clientgo, kubeconfig)]
        for process in others:
            process.until(partial(_is_watching, process), "a watch")
        _phase(plane, FAST, [daemon.process, *others])
        rounds = [_slopes(plane, [daemon.process, *others]) for _ in range(ROUNDS)]
    ours, go, floor, timed = (median(costs) for costs in zip(*rounds, strict=True))
    figure("watchslo, Table", ours, "us/event")
    figure("client-go, metadata, at the same time", go, "us/event")
    figure("the floor: bytes of the Table counted on uvloop", floor, "us/event")
    figure("  … on the event loop of watchslo", timed, "us/event")
    _ratio(rounds, "client-go", 1, "<= 0.7")
    _ratio(rounds, "the floor on uvloop", 2)
    _ratio(rounds, "the floor on its own event loop", 3)


def _others(folder: Path, clientgo: Path, kubeconfig: Path) -> list[Process]:
    forever = ["--resource", "configmaps", "--events", str(10**9), "--live"]
    counting: list[str | Path] = [sys.executable, "-m", "benchmarks.count_bytes", kubeconfig]
    return [
        Process(folder, "clientgo", [clientgo, "--kubeconfig", kubeconfig, *forever]),
        *(Process(folder, loop, [*counting, loop]) for loop in ("uvloop", "timed")),
    ]


def _is_watching(process: Process) -> bool:
    return "watching" in process.out


def _ratio(rounds: list[list[float]], what: str, column: int, goal: str = "") -> None:
    """Print the median of watchslo's cost divided by that of another process."""
    figure(f"  … watchslo compared with {what}", median(costs[0] / costs[column] for costs in rounds), "times", goal)


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


@click.command()
@click.option("--clientgo", type=Path, required=True, help="The program built from benchmarks/clientgo.")
def main(clientgo: Path) -> None:
    live(clientgo)


if __name__ == "__main__":
    main()
