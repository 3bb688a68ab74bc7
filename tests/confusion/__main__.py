"""`python -m tests.confusion` checks whether watchslo names the right causes, and prints the confusion matrix.

It injects faults into a real control plane of three apiservers, one after the other, each with a random strength. It
fails if the named causes are wrong too often: docs/causes.md has the goals.
"""

import os
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import click

from tests.confusion import matrix
from tests.confusion.faults import FAULTS, Fault
from tests.confusion.outcome import Outcome, play
from tests.confusion.stage import Stage
from tests.support import assets

OWN_FIGURES_SECONDS = 40.0  # until the apiservers' own figures count, after a cause was named


@click.command()
@click.option("--repeats", default=10, show_default=True, help="How often each fault is injected.")
@click.option("--only", multiple=True, help="Only faults with a name that begins with this; may be repeated.")
@click.option("--seed", type=int, help="The seed of an earlier run, to repeat its faults; random by default.")
@click.option("--daemonset", is_flag=True, help="Watch one apiserver, with the others as witnesses.")
@click.option("--apiserver-metrics", is_flag=True, help="Read what the apiservers publish of themselves as evidence.")
def main(
    repeats: int,
    only: tuple[str, ...],
    seed: int | None,
    daemonset: bool,  # noqa: FBT001 - an option
    apiserver_metrics: bool,  # noqa: FBT001 - an option
) -> None:
    """Inject faults, and compare the named causes with the true ones."""
    faults = [fault for fault in FAULTS if not only or fault.name.startswith(only)]
    if not faults:
        raise click.UsageError(f"no such fault; there are {', '.join(fault.name for fault in FAULTS)}")
    chosen = secrets.randbits(32) if seed is None else seed
    print(f"seed {chosen}", flush=True)
    began = time.monotonic()
    outcomes = list(_play(faults, repeats, chosen, daemonset=daemonset, apiserver_metrics=apiserver_metrics))
    print(f"\n{matrix.table(outcomes)}\n\n{time.monotonic() - began:.0f} s in all.")
    missed = list(matrix.missed(outcomes))
    print(*(f"MISSED: {sentence}." for sentence in missed), *([] if missed else ["Every goal is reached."]), sep="\n")
    sys.exit(1 if missed else 0)


def _play(
    faults: Sequence[Fault], repeats: int, seed: int, *, daemonset: bool, apiserver_metrics: bool
) -> Iterator[Outcome]:
    """Play every fault `repeats` times, in random order, so that no fault always follows the same one."""
    random = Random(seed)
    runs = [(fault, random.getrandbits(32)) for fault in faults for _ in range(repeats)]
    random.shuffle(runs)
    with (
        tempfile.TemporaryDirectory(prefix="watchslo-confusion-") as folder,
        Stage(
            Path(folder), assets.newest(os.environ), daemonset=daemonset, apiserver_metrics=apiserver_metrics
        ) as stage,
    ):
        for fault, number in runs:
            held = OWN_FIGURES_SECONDS if apiserver_metrics else None
            outcome = play(stage, fault, number, lambda sentence: print(sentence, flush=True), held)
            print(matrix.line(outcome), flush=True)
            yield outcome


if __name__ == "__main__":
    main()
