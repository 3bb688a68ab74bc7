"""`python -m benchmarks --clientgo PATH` measures the cost of watchslo, client-go and kubernetes_asyncio in one run.

The daemon runs as users start it, in a process of its own. Servers and the other clients are also processes of their
own. The benchmarks assert nothing, because machines differ: read the ratios.
"""

from pathlib import Path

import click

from benchmarks.burst import burst
from benchmarks.hundred_watches import hundred_watches
from benchmarks.live import live
from benchmarks.onlookers import onlookers
from benchmarks.scrapes import scrapes


@click.command()
@click.option("--clientgo", type=Path, required=True, help="The program built from benchmarks/clientgo.")
def main(clientgo: Path) -> None:
    burst()
    live(clientgo)
    hundred_watches()
    onlookers()
    scrapes()


if __name__ == "__main__":
    main()
