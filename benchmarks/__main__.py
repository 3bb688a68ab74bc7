"""`python -m benchmarks --clientgo PATH`: what watchslo costs, beside client-go and kubernetes_asyncio in one run.

The figures are those of the daemon as users start it, a process of its own; servers and the other clients are
processes of their own as well. Nothing is asserted: machines differ; read the ratios.
"""

from pathlib import Path

import click

from benchmarks.burst import burst
from benchmarks.hundred import hundred
from benchmarks.live import live
from benchmarks.onlookers import onlookers


@click.command()
@click.option("--clientgo", type=Path, required=True, help="The program made of benchmarks/clientgo.")
def main(clientgo: Path) -> None:
    burst()
    live(clientgo)
    hundred()
    onlookers()


if __name__ == "__main__":
    main()
