"""`python -m tests.fidelity`: is what watchslo says true?

It measures clusters whose latencies are known, prints both side by side, and fails if a goal is missed: see
docs/fidelity.md.
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

from tests.fidelity import real, simulated, three
from tests.fidelity.cases import CASES, Case
from tests.fidelity.goals import Line, Ticking, table
from tests.fidelity.running import Plan, Run
from tests.support import assets
from tests.support.high_availability import HighAvailability

HOUR = 3600.0
Measure = Callable[[Plan], Run]
BACKENDS = {
    "simulator": "the simulator, its apiserver's clock an hour off",
    "1.36": "kube-apiserver 1.36 behind a delaying proxy",
    "1.30": "kube-apiserver 1.30 behind a delaying proxy",
    "three": "three kube-apiservers 1.36 on one etcd, one of them late",
}


@click.command()
@click.option("--repeats", default=3, show_default=True, help="Runs of each backend, each with seeds of its own.")
@click.option("--seconds", default=60.0, show_default=True, help="How long a run measures; a window is a minute.")
@click.option("--only", multiple=True, help="Only the cases whose name begins like this; may be given again.")
@click.option(
    "--backend", "backends", multiple=True, type=click.Choice(list(BACKENDS)), default=("simulator", "1.36", "three")
)
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
    """Measures one backend and prints its table; returns what goals were missed."""
    print(f"\n{BACKENDS[backend]}", flush=True)
    if backend == "three":
        return _judge_three(seconds)
    with tempfile.TemporaryDirectory(prefix="watchslo-fidelity-") as root, _open(backend, Path(root), cases) as measure:
        runs = [_run(measure, Path(root), number, cases, seconds) for number in range(repeats)]
    lines = [_line(runs, place) for place in range(len(cases))]
    lines += [_other_line(runs, place) for place in range(len(runs[0].others))]
    ticking = Ticking.of(lines[0].outcomes)
    print(f"\n{table(lines)}\n\n{str(ticking).capitalize()}.", flush=True)
    missed = [f"{line.name}, {line.case.traffic.name}: {sentence}" for line in lines for sentence in line.missed()]
    missed += [str(ticking)] if ticking.missed() else []
    return [f"MISSED, {backend}, {sentence}." for sentence in missed]


def _judge_three(seconds: float) -> list[str]:
    """Measures each delay once, and tells it from the hops; the median of thousands of events needs no repeats."""
    results = []
    with (
        tempfile.TemporaryDirectory(prefix="watchslo-fidelity-") as root,
        HighAvailability(Path(root), assets.newest(os.environ)) as lab,
    ):
        for number, injected in enumerate(three.CASES):
            seed = secrets.randbits(32)
            results.append(three.run(lab, injected, Path(root) / f"run-{number}", seconds, seed))
            print(f"{injected}: seed {seed}, {results[-1].checked} samples checked", flush=True)
    print(f"\n{three.table(results)}", flush=True)
    return [f"MISSED, three, {result.injected}: {sentence}." for result in results for sentence in result.missed()]


@contextlib.contextmanager
def _open(backend: str, root: Path, cases: Sequence[Case]) -> Iterator[Measure]:
    if backend == "simulator":
        yield simulated.run
        return
    found = assets.newest(os.environ) if backend == "1.36" else assets.old(os.environ)
    with real.cluster(root, found, cases) as plane:
        yield partial(real.run, plane=plane)


def _run(measure: Measure, root: Path, number: int, cases: Sequence[Case], seconds: float) -> Run:
    """One run; the clocks are apart by an hour, now to the one side, now to the other."""
    folder = root / f"run-{number}"
    folder.mkdir()
    seed, ahead = secrets.randbits(32), HOUR if number % 2 == 0 else -HOUR
    run = measure(Plan(folder, cases, seconds, seed, ahead))
    lag = max(outcome.lag for outcome in run.outcomes)
    tainted = sum(outcome.tainted for outcome in run.outcomes)
    print(
        f"run {number + 1}: seed {seed}, clocks {ahead:+.0f} s apart, "
        f"{tainted} events tainted, the others stamped {1e3 * lag:.1f} ms late at P99",
        flush=True,
    )
    return run


def _line(runs: Sequence[Run], place: int) -> Line:
    case = runs[0].outcomes[place].case
    others = [other for run in runs for other in run.others if other.case is case]
    return Line(f"{case.name}", [run.outcomes[place] for run in runs], others)


def _other_line(runs: Sequence[Run], place: int) -> Line:
    return Line(f"{runs[0].others[place].case.name}, other clock", [run.others[place] for run in runs])


if __name__ == "__main__":
    main()
