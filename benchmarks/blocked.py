"""`python -m benchmarks.blocked --fastapiserver PATH` shows what blocks of the event loop do to the measured latencies.

A daemon whose loop is blocked about once a second is compared with one whose loop is not. What the blocks add to the
P99 is own delay that became a sample.
"""

import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from selectors import SelectorKey

import click

from benchmarks.fast_apiservers import fast_apiservers, watching_all
from benchmarks.measure import figure
from benchmarks.scale import Figures, figures, until_measured
from watchslo import cli, event_loop

BLOCKS_MS = (0, 10, 45, 100, 145)
RESOURCES, RATE = 4, 800  # events per second of all resources: a minute has enough of each for a fine estimate
SECONDS = 75.0
GAP_SECONDS = (0.5, 1.5)


def block_loops(seconds: float) -> None:
    """Make the event loops of this process stand still for so many seconds, about once a second."""

    class BlockedSelector(event_loop.TimedSelector):
        """A selector that is asked late, as after a callback that took long."""

        _at = 0.0

        def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
            if time.monotonic() >= self._at:
                time.sleep(seconds)
                self._at = time.monotonic() + random.uniform(*GAP_SECONDS)
            return super().select(timeout)

    vars(event_loop)["TimedSelector"] = BlockedSelector


def blocked(program: Path, milliseconds: Sequence[int] = BLOCKS_MS) -> None:
    print(f"\n{RESOURCES} watches, {RATE} events per second, a loop that is blocked about once a second")
    for block in milliseconds:
        wrapper = [sys.executable, "-m", "benchmarks.blocked", "--block", str(block)]
        with fast_apiservers(program, 1, RESOURCES) as served, watching_all(served, wrapper) as daemon:
            start = until_measured(daemon)
            served.set_rate(RATE)
            time.sleep(SECONDS)
            shown = figures(daemon)
            served.set_rate(0)
            _report(block, shown, until_measured(daemon).since(start))


def _report(block: int, shown: Figures, counted: Figures) -> None:
    figure(f"blocks of {block} ms: worst P99 of a watch", 1e3 * max(shown.p99), "ms")
    figure("  … share of events that became samples", 100 * counted.samples / counted.received, "%")
    for reason, count in counted.unmeasured.items():
        figure(f"  … unmeasured: {reason}", 100 * count / counted.received, "%")


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--fastapiserver", type=Path, help="The program built from benchmarks/fastapiserver.")
@click.option("--block", type=int, help="Run watchslo with the arguments that follow, blocked for so many ms.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def main(fastapiserver: Path | None, block: int | None, command: Sequence[str]) -> None:
    if block is not None:
        block_loops(block / 1e3)
        sys.argv = [*command]
        cli.main()
    elif fastapiserver:
        blocked(fastapiserver)
    else:
        raise click.UsageError("--fastapiserver is missing")


if __name__ == "__main__":
    main()
