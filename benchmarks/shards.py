"""`python -m benchmarks.shards --fastapiserver PATH` measures a cluster with 10,000,000,000 events a day, as shards.

The whole load is committed all the time. The shards run one after another, each with its own watches and with the cores
of this machine, so each row is measured in full.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.fast_apiservers import FastApiservers, fast_apiservers, watching_all
from benchmarks.ingest import DAY_EVENTS, DAY_SECONDS
from benchmarks.measure import cpu_seconds, memory
from benchmarks.scale import Scrapes, beats_between, figures, late_share, until_measured

RATE = DAY_EVENTS / DAY_SECONDS
SETTLE_SECONDS = 5.0
REQUESTS = "watchslo_api_requests_total"
COLUMNS = (
    "shard",
    "watches",
    "events/s",
    "samples",
    "late heartbeats",
    "CPU",
    "memory",
    "requests/s",
    "P99",
    "verdict",
)


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of a shard: shares as fractions, CPU in cores, memory in MiB, P99 in seconds."""

    shard: int
    watches: int
    rate: float
    samples: float
    late: float
    cores: float
    memory: float
    requests: float
    p99: float
    verdict: str

    @property
    def cells(self) -> Iterator[str]:
        yield from (f"{self.shard}", f"{self.watches}", f"{self.rate:,.0f}", f"{self.samples:.1%}", f"{self.late:.1%}")
        yield from (f"{self.cores:.0%}", f"{self.memory:.0f} MiB", f"{self.requests:.1f}")
        yield from (f"{1e3 * self.p99:.1f} ms", self.verdict)


@click.command()
@click.option("--fastapiserver", type=Path, required=True, help="The program built from benchmarks/fastapiserver.")
@click.option("--shards", default=16, help="Number of shards.")
@click.option("--resources", default=480, help="Number of resources, each of which one shard watches.")
@click.option("--seconds", default=75.0, help="Duration of each shard: the window of a minute is then full.")
def main(fastapiserver: Path, shards: int, resources: int, seconds: float) -> None:
    """Print a table with a row for each shard."""
    with fast_apiservers(fastapiserver, 1, resources) as served:
        print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
        for index in range(shards):
            print(f"| {' | '.join(_row(served, index, shards, seconds).cells)} |", flush=True)


def _row(served: FastApiservers, index: int, shards: int, seconds: float) -> Row:
    served.set_rate(0)
    with watching_all(served, shard={"index": index, "count": shards}) as daemon:
        start, scrapes = until_measured(daemon), Scrapes(daemon)
        served.set_rate(RATE)
        time.sleep(SETTLE_SECONDS)
        beats, requests, received = scrapes.beats(), daemon.scrape().total(REQUESTS), figures(daemon).received
        cpu, began = cpu_seconds(daemon.process), time.monotonic()
        time.sleep(seconds)
        cpu, took = cpu_seconds(daemon.process) - cpu, time.monotonic() - began
        now, status, after = figures(daemon), daemon.status(), daemon.scrape().total(REQUESTS)
        late = late_share(beats_between(beats, scrapes.beats()))
        served.set_rate(0)
        measured = until_measured(daemon).since(start)
        return Row(
            shard=index,
            watches=len(status["watches"]),
            rate=(now.received - received) / took,
            samples=measured.samples / measured.received,
            late=late,
            cores=cpu / took,
            memory=memory(daemon),
            requests=(after - requests) / took,
            p99=max(now.p99),
            verdict=status["verdict"]["level"],
        )


if __name__ == "__main__":
    main()
