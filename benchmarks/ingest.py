"""`python -m benchmarks.ingest --fastapiserver PATH` measures how many events per second one daemon can take in.

The rate rises step by step until heartbeats are more than 5 ms late at P99. The result says how many shards a cluster
with 10,000,000,000 events a day needs.
"""

import math
import time
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.fast_apiservers import FastApiservers, fast_apiservers, watching_all
from benchmarks.measure import cpu_seconds, figure
from benchmarks.scale import Scrapes, beats_between, figures, late_share, latest, until_measured
from tests.support.daemon import Daemon

CONNECTIONS = 30
BURST = 10_000  # events on each connection at once
RATES = (1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 40_000, 60_000, 80_000, 120_000)
SECONDS = 20.0  # of each rate: it contains four evaluations
SETTLE_SECONDS = 2.0
MOST_LATE = 0.01  # of the heartbeats: 5 ms late at P99
LEAST_RECEIVED = 0.95  # of the intended rate; below, the apiserver or the daemon does not keep up
DAY_EVENTS, DAY_SECONDS = 10**10, 86_400


@dataclass(frozen=True, slots=True)
class Step:
    """What happened at one rate; `late` is the share of the heartbeats that were more than 5 ms late."""

    rate: float
    late: float


def ingest(program: Path, seconds: float = SECONDS) -> None:
    print(f"\nevents per second over {CONNECTIONS} connections, until heartbeats are more than 5 ms late at P99")
    best = 0.0
    with fast_apiservers(program, 1, CONNECTIONS) as served, watching_all(served) as daemon:
        for rate in RATES:
            step = _step(served, daemon, rate, seconds)
            if step.late <= MOST_LATE:
                best = step.rate
            if step.rate < LEAST_RECEIVED * rate:
                break
        _burst(served, daemon)
    needed = DAY_EVENTS / DAY_SECONDS
    figure("the highest rate with prompt heartbeats", best, "events/s")
    if best:
        figure(f"  … shards for {needed:,.0f} events/s, {DAY_EVENTS:,} a day", math.ceil(needed / best), "")


def _step(served: FastApiservers, daemon: Daemon, rate: int, seconds: float) -> Step:
    """Send events at a rate, print the figures, and wait until all events are evaluated."""
    start = figures(daemon)
    served.set_rate(rate)
    time.sleep(SETTLE_SECONDS)
    scrapes = Scrapes(daemon)
    before = scrapes.beats()
    served.reset_statistics()
    cpu, theirs, began = cpu_seconds(daemon.process), cpu_seconds(served.process), time.monotonic()
    time.sleep(seconds)
    sent, took = served.statistics(), time.monotonic() - began
    cpu, theirs = cpu_seconds(daemon.process) - cpu, cpu_seconds(served.process) - theirs
    beats = beats_between(before, scrapes.beats())
    served.set_rate(0)
    step = Step(sent["written"] / took, late_share(beats))
    measured = until_measured(daemon).since(start)
    figure(f"events received at {rate:,} events/s", step.rate, "per second")
    figure("  … heartbeats more than 5 ms late", 100 * step.late, "%", "<= 1")
    figure("  … share that became samples", 100 * measured.samples / measured.received, "%")
    figure("  … CPU", 1e6 * cpu / sent["written"], "us/event")
    figure("  … CPU", 100 * cpu / took, "% of a core")
    figure("  … CPU of the apiserver", 100 * theirs / took, "% of a core")
    figure("  … from commit to write, in the apiserver: P99", 1e3 * sent["delay_p99"], "ms")
    return step


def _burst(served: FastApiservers, daemon: Daemon) -> None:
    """Send many events at once on all connections, and print how fast they are taken in.

    The status that shows it may be a second old, so the real rate is higher.
    """
    start = figures(daemon)
    before, began = Scrapes(daemon).beats(), time.monotonic()
    served.burst(BURST)
    count = BURST * CONNECTIONS
    daemon.process.until(lambda: figures(daemon).received - start.received == count, "all received", every=0.2)
    figure(f"a burst of {count:,} events, at least", count / (time.monotonic() - began), "per second")
    measured = until_measured(daemon).since(start)
    figure("  … the latest heartbeat, at most", 1e3 * latest(beats_between(before, Scrapes(daemon).beats())), "ms")
    figure("  … share that became samples", 100 * measured.samples / count, "%")


@click.command()
@click.option("--fastapiserver", type=Path, required=True, help="The program built from benchmarks/fastapiserver.")
@click.option("--seconds", default=SECONDS, help="Duration of each rate.")
def main(fastapiserver: Path, seconds: float) -> None:
    ingest(fastapiserver, seconds)


if __name__ == "__main__":
    main()
