"""`python -m benchmarks.burst --fastapiserver PATH`: the cost of an event of a burst, from socket to evaluated slot."""

import time
from pathlib import Path
from statistics import median

import click

from benchmarks.fast_apiservers import FastApiservers, fast_apiservers, watching_all
from benchmarks.measure import cpu_seconds, figure
from benchmarks.scale import until_measured
from tests.support.daemon import Daemon

WATCHES = 4
BURST = 5_000  # events of each watch
ROUNDS = 3
WARM_UP = 500
SETTLE_SECONDS = 7.0  # a past second is sealed after its end, and evaluations run every 5 s


def burst(program: Path) -> None:
    print(f"\n{WATCHES * BURST:,} events of {WATCHES} watches at once, as Tables over TLS")
    costs = []
    with fast_apiservers(program, 1, WATCHES) as served, watching_all(served) as daemon:
        _spent(served, daemon, WARM_UP)
        until_measured(daemon)
        idle = _spent(served, daemon, 0)
        for _ in range(ROUNDS):
            costs.append((_spent(served, daemon, BURST) - idle) / (WATCHES * BURST) * 1e6)
            until_measured(daemon)
    figure("CPU, less that of the idle daemon", median(costs), "us/event", "<= 10")


def _spent(served: FastApiservers, daemon: Daemon, events: int) -> float:
    """Return the CPU seconds of a burst, without scrapes: one costs as much as ten thousand events."""
    before = cpu_seconds(daemon.process)
    served.burst(events)
    time.sleep(SETTLE_SECONDS)
    return cpu_seconds(daemon.process) - before


@click.command()
@click.option("--fastapiserver", type=Path, required=True, help="The program built from benchmarks/fastapiserver.")
def main(fastapiserver: Path) -> None:
    burst(fastapiserver)


if __name__ == "__main__":
    main()
