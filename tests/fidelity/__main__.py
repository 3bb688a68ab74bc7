"""`python -m tests.fidelity` checks whether watchslo measures right.

It measures clusters with known latencies, prints the measured and the true values, and fails if a goal is missed:
docs/fidelity.md has the goals.
"""

import contextlib
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import click

from tests.fidelity import real, simulated
from tests.fidelity.cases import CASES, Case
from tests.fidelity.goals import COLUMNS, Row, Ticking, table
from tests.fidelity.running import Plan, Run
from tests.support import assets

HOUR = 3600.0
Measure = Callable[[Plan], Run]
BACKENDS = {
    "simulator": "the simulator, with an apiserver clock that is an hour wrong",
    "timestamps": "the simulator, with revisions that are commit times",
    "1.36": "kube-apiserver 1.36 behind a delaying proxy",
    "1.30": "kube-apiserver 1.30 behind a delaying proxy",
}


@click.command()
@click.option("--repeats", default=3, show_default=True, help="Runs of each backend, each with its own seed.")
@click.option(
    "--seconds", default=60.0, show_default=True, help="The duration of the measurement in a run; a window is a minute."
)
@click.option("--only", multiple=True, help="Only cases with a name that begins with this; may be repeated.")
@click.option("--backend", "backends", multiple=True, type=click.Choice(list(BACKENDS)), default=("simulator", "1.36"))
def main(repeats: int, seconds: float, only: tuple[str, ...], backends: tuple[str, ...]) -> None:
    """Compare what watchslo measures with the truth."""
    cases = [case for case in CASES if not only or case.name.startswith(only)]
    if not cases:
        raise click.UsageError(f"no such case; there are {', '.join(dict.fromkeys(case.name for case in CASES))}")
    began = time.monotonic()
    missed = [sentence for backend in backends for sentence in _judge(backend, cases, repeats, seconds)]
    print(f"\n{time.monotonic() - began:.0f} s in all.", *missed or ["Every goal is reached."], sep="\n")
    sys.exit(1 if missed else 0)


def _judge(backend: str, cases: Sequence[Case], repeats: int, seconds: float) -> list[str]:
    """Measure one backend and print its table; return a sentence for each missed goal."""
    print(f"\n{BACKENDS[backend]}", flush=True)
    with tempfile.TemporaryDirectory(prefix="watchslo-fidelity-") as root, _open(backend, Path(root), cases) as measure:
        runs = [_run(measure, Path(root), number, cases, seconds) for number in range(repeats)]
    rows = [_row(runs, place) for place in range(len(cases))]
    rows += [_other_row(runs, place) for place in range(len(runs[0].others))]
    clocks = {ticking.domain: ticking for ticking in (Ticking.of(row.outcomes) for row in rows[: len(cases)])}
    print(
        f"\n{table(COLUMNS, [row.cells() for row in rows])}\n",
        *(f"Clock {ticking}." for ticking in clocks.values()),
        sep="\n",
        flush=True,
    )
    missed = [f"{row.name}, {row.case.traffic.name}: {sentence}" for row in rows for sentence in row.missed()]
    missed += [str(ticking) for ticking in clocks.values() if ticking.missed()]
    return [f"MISSED, {backend}, {sentence}." for sentence in missed]


@contextlib.contextmanager
def _open(backend: str, root: Path, cases: Sequence[Case]) -> Iterator[Measure]:
    if backend in ("simulator", "timestamps"):
        yield partial(simulated.run, timed=backend == "timestamps")
        return
    programs = assets.old(os.environ) if backend == "1.30" else assets.newest(os.environ)
    with real.control_plane(root, programs, cases) as plane:
        yield partial(real.run, plane=plane)


def _run(measure: Measure, root: Path, number: int, cases: Sequence[Case], seconds: float) -> Run:
    """Do one run; the clocks differ by an hour, with alternating sign."""
    folder = root / f"run-{number}"
    folder.mkdir()
    seed, ahead = secrets.randbits(32), HOUR if number % 2 == 0 else -HOUR
    run = measure(Plan(folder, cases, seconds, seed, ahead))
    lag = max(outcome.lag for outcome in run.outcomes)
    tainted = sum(outcome.tainted for outcome in run.outcomes)
    print(
        f"run {number + 1}: seed {seed}, clocks {ahead:+.0f} s apart, "
        f"{tainted} events tainted, the others read {1e3 * lag:.1f} ms late at P99",
        flush=True,
    )
    return run


def _row(runs: Sequence[Run], place: int) -> Row:
    case = runs[0].outcomes[place].case
    others = [other for run in runs for other in run.others if other.case is case]
    return Row(f"{case.name}", [run.outcomes[place] for run in runs], others)


def _other_row(runs: Sequence[Run], place: int) -> Row:
    return Row(f"{runs[0].others[place].case.name}, other clock", [run.others[place] for run in runs])


if __name__ == "__main__":
    main()
