"""`python -m benchmarks.onlookers` measures the cost of onlookers (readers of the event feed) to a daemon.

All watches change at every evaluation. The evaluations of busy watches vary by more than the cost of onlookers. So the
CPU of the thread that measures is separated from the threads that encode and serve. Phases with and without onlookers
alternate, with the same number of evaluations in each.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import click

from benchmarks.measure import BLOCK_SECONDS, STARTS, cpu_seconds, figure
from tests.support.control_plane import write_kubeconfig
from tests.support.daemon import Daemon, Simulator, config_file
from tests.support.onlookers import onlooking

RESOURCE, RATE = "deployments.apps", 5  # events per second, so that each watch changes at every evaluation
WATCHES, ONLOOKERS = 300, 50
SETTLE_SECONDS = 2.0  # after onlookers connect: the first message to each is not an update
PHASE_SECONDS = 4 * BLOCK_SECONDS
ROUNDS = 5


@contextmanager
def busy_daemon(watches: int) -> Iterator[Daemon]:
    """Run a daemon with this many watches of one busy resource."""
    named = [{"resource": RESOURCE, "name": f"w{number}"} for number in range(watches)]
    with TemporaryDirectory() as name, Simulator(Path(name)) as simulator:
        simulator.control({"resource": RESOURCE, "rate": RATE}, "/workload")
        kubeconfig = Path(name) / "kubeconfig"
        write_kubeconfig(kubeconfig, {"server": simulator.url}, {})
        config = config_file(Path(name), watch=named, limits=STARTS)
        with Daemon(Path(name), "--config", config, "--kubeconfig", kubeconfig) as daemon:
            daemon.until_measuring(*(watch["name"] for watch in named))
            yield daemon


def _spent(daemon: Daemon) -> tuple[float, float]:
    """Return the shares of a core used by the threads that encode and serve, and by the thread that measures."""
    before, all_before = daemon.process.cpu_seconds_of_other_threads(), cpu_seconds(daemon.process)
    time.sleep(PHASE_SECONDS)
    serving = daemon.process.cpu_seconds_of_other_threads() - before
    measuring = cpu_seconds(daemon.process) - all_before - serving
    return serving / PHASE_SECONDS, measuring / PHASE_SECONDS


def onlookers(watches: int = WATCHES, count: int = ONLOOKERS) -> None:
    print(f"\n{count} onlookers of {watches} watches that all change at every evaluation")
    alone, watched, sent = [], [], []
    with busy_daemon(watches) as daemon:
        for _ in range(ROUNDS):
            alone.append(_spent(daemon))
            with onlooking(daemon.url, count) as those:
                time.sleep(SETTLE_SECONDS)
                before = sum(one.size for one in those)
                watched.append(_spent(daemon))
                sent.append(sum(one.size for one in those) - before)
    for thread, what in enumerate(("threads that encode and serve", "the thread that measures")):
        without, with_ = (100 * median(phase[thread] for phase in phases) for phases in (alone, watched))
        figure(f"{what}, without onlookers", without, "% of a core")
        figure(f"{what}, with onlookers", with_, "% of a core")
    figure("sent to each of them", median(sent) / count / PHASE_SECONDS / 1000, "kB per second")


@click.command()
@click.option("--watches", default=WATCHES)
@click.option("--onlookers", "count", default=ONLOOKERS)
def main(watches: int, count: int) -> None:
    onlookers(watches, count)


if __name__ == "__main__":
    main()
