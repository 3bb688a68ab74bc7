"""`python -m benchmarks --fastapiserver PATH` measures what an event and a scrape cost the daemon.

The daemon runs as users start it, in a process of its own, and so do the servers. The benchmarks assert nothing,
because machines differ: compare the figures with the goals that are printed next to them.
"""

from pathlib import Path

import click

from benchmarks.burst import burst
from benchmarks.decoding import decoding
from benchmarks.ingest import ingest
from benchmarks.pod_starts import pod_starts
from benchmarks.scale import scale
from benchmarks.scrapes import scrapes


@click.command()
@click.option("--fastapiserver", type=Path, required=True, help="The program built from benchmarks/fastapiserver.")
def main(fastapiserver: Path) -> None:
    burst(fastapiserver)
    decoding()
    scale(fastapiserver)
    ingest(fastapiserver)
    pod_starts(fastapiserver)
    scrapes()


if __name__ == "__main__":
    main()
