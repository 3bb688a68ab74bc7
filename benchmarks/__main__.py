"""`python -m benchmarks --clientgo PATH --fastapiserver PATH` measures watchslo, client-go and kubernetes_asyncio.

The daemon runs as users start it, in a process of its own. Servers and the other clients are also processes of their
own. The benchmarks assert nothing, because machines differ: read the ratios.
"""

from pathlib import Path

import click

from benchmarks.blocked import blocked
from benchmarks.burst import burst
from benchmarks.decoding import decoding
from benchmarks.guarantees import guarantees
from benchmarks.hundred_watches import hundred_watches
from benchmarks.ingest import ingest
from benchmarks.live import live
from benchmarks.onlookers import onlookers
from benchmarks.reference import reference
from benchmarks.scale import scale
from benchmarks.scrapes import scrapes


@click.command()
@click.option("--clientgo", type=Path, required=True, help="The program built from benchmarks/clientgo.")
@click.option("--fastapiserver", type=Path, required=True, help="The program built from benchmarks/fastapiserver.")
def main(clientgo: Path, fastapiserver: Path) -> None:
    burst()
    live(clientgo)
    hundred_watches()
    guarantees()
    decoding()
    reference()
    onlookers()
    scale(fastapiserver)
    blocked(fastapiserver)
    ingest(fastapiserver)
    scrapes()


if __name__ == "__main__":
    main()
