"""`python -m benchmarks.onlookers`: what a daemon pays for those who look on while all its watches change.

The evaluations of busy watches vary by more than onlookers cost. So the thread that measures is told apart from those
that encode and serve, and there are onlookers in every other phase only, each of which has as many evaluations.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import click

from benchmarks.measure import BLOCK_SECONDS, PATIENCE_SECONDS, STARTS, cpu_seconds, figure
from tests.support.control_plane import write_kubeconfig
from tests.support.daemon import Daemon, Simulator, config_file
from tests.support.onlookers import onlooking

RESOURCE, RATE = "deployments.apps", 5  # events a second: enough for each watch to change at every evaluation
WATCHES, ONLOOKERS = 300, 50
SETTLE_SECONDS = 2.0  # after they have come: what each is told first is no update
PHASE_SECONDS = 4 * BLOCK_SECONDS
ROUNDS = 5


@contextmanager
def busy_daemon(watches: int) -> Iterator[Daemon]:
    """A daemon so many watches of which are of one busy resource."""
    named = [{"resource": RESOURCE, "name": f"w{number}"} for number in range(watches)]
    with TemporaryDirectory() as name, Simulator(Path(name)) as simulator:
        simulator.control({"resource": RESOURCE, "rate": RATE}, "/workload")
        kubeconfig = Path(name) / "kubeconfig"
        write_kubeconfig(kubeconfig, {"server": simulator.url}, {})
        config = config_file(Path(name), watch=named, limits=STARTS)
        with Daemon(Path(name), "--config", config, "--kubeconfig", kubeconfig) as daemon:
            daemon.until_measuring(*(watch["name"] for watch in named), timeout=PATIENCE_SECONDS)
            yield daemon


def _spent(daemon: Daemon) -> tuple[float, float]:
    """Shares of a core for a while: of the threads that encode and serve, and of the one that measures."""
    beside, all_ = daemon.process.cpu_seconds_beside(), cpu_seconds(daemon.process)
    time.sleep(PHASE_SECONDS)
    beside, all_ = daemon.process.cpu_seconds_beside() - beside, cpu_seconds(daemon.process) - all_
    return beside / PHASE_SECONDS, (all_ - beside) / PHASE_SECONDS


def onlookers(watches: int = WATCHES, count: int = ONLOOKERS) -> None:
    print(f"\n{count} onlookers of {watches} watches, all of which change at every evaluation")
    alone, watched, told = [], [], []
    with busy_daemon(watches) as daemon:
        for _ in range(ROUNDS):
            alone.append(_spent(daemon))
            with onlooking(daemon.url, count) as those:
                time.sleep(SETTLE_SECONDS)
                before = sum(one.size for one in those)
                watched.append(_spent(daemon))
                told.append(sum(one.size for one in those) - before)
    for thread, what in enumerate(("threads that encode and serve", "the thread that measures")):
        without, with_ = (100 * median(phase[thread] for phase in phases) for phases in (alone, watched))
        figure(f"{what}, nobody looks on", without, "% of a core")
        figure(f"{what}, with onlookers", with_, "% of a core")
    figure("told to each of them", median(told) / count / PHASE_SECONDS / 1000, "kB a second")


@click.command()
@click.option("--watches", default=WATCHES)
@click.option("--onlookers", "count", default=ONLOOKERS)
def main(watches: int, count: int) -> None:
    onlookers(watches, count)


if __name__ == "__main__":
    main()
