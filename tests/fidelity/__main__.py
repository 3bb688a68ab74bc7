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
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import click

from tests.fidelity import daemonset, disturbed, real, simulated, three, windows
from tests.fidelity.cases import CASES, Case
from tests.fidelity.goals import Row, Ticking, singles, table
from tests.fidelity.outcome import Outcome
from tests.fidelity.running import Plan, Run
from tests.support import assets
from tests.support.high_availability import HighAvailability

HOUR = 3600.0
Measure = Callable[[Plan], Run]
BACKENDS = {
    "windows": "simulated windows of a minute, and the estimator alone",
    "simulator": "the simulator, with an apiserver clock that is an hour wrong",
    "timestamps": "the simulator, with revisions that are commit times",
    "timestamps-1.36": "kube-apiserver 1.36 behind proxies, with revisions that are commit times",
    "1.36": "kube-apiserver 1.36 behind a delaying proxy",
    "1.30": "kube-apiserver 1.30 behind a delaying proxy",
    "partitioned": "kube-apiserver 1.36 on four etcds, behind a delaying proxy",
    "kine-sqlite": "kube-apiserver 1.36 on kine with SQLite, behind a delaying proxy",
    "kine-postgres": "two kube-apiservers 1.36, each with a kine, on one Postgres; written through the other",
    "kine-postgres-own": "two kube-apiservers 1.36, each with a kine, on one Postgres; written through the watched one",
    "disturbed": "kube-apiserver 1.36 behind a delaying proxy: stalls, changes, and a stopped daemon",
    "three": "three kube-apiservers 1.36 on one etcd, one of them late",
}


@click.command()
@click.option("--repeats", default=3, show_default=True, help="Runs of each backend, each with its own seed.")
@click.option(
    "--seconds", default=60.0, show_default=True, help="The duration of the measurement in a run; a window is a minute."
)
@click.option("--only", multiple=True, help="Only cases with a name that begins with this; may be repeated.")
@click.option(
    "--backend",
    "backends",
    multiple=True,
    type=click.Choice(list(BACKENDS)),
    default=("windows", "simulator", "1.36", "disturbed", "three"),
)
@click.option("--more", default=0, show_default=True, help="Other busy watches, with a real kube-apiserver.")
def main(repeats: int, seconds: float, only: tuple[str, ...], backends: tuple[str, ...], more: int) -> None:
    """Compare what watchslo measures with the truth."""
    cases = [case for case in CASES if not only or case.name.startswith(only)]
    if not cases:
        raise click.UsageError(f"no such case; there are {', '.join(dict.fromkeys(case.name for case in CASES))}")
    began = time.monotonic()
    missed = [sentence for backend in backends for sentence in _judge(backend, cases, repeats, seconds, more)]
    print(f"\n{time.monotonic() - began:.0f} s in all.", *missed or ["Every goal is reached."], sep="\n")
    sys.exit(1 if missed else 0)


def _judge(backend: str, cases: Sequence[Case], repeats: int, seconds: float, more: int) -> list[str]:
    """Measure one backend and print its table; return a sentence for each missed goal."""
    print(f"\n{BACKENDS[backend]}", flush=True)
    if backend == "windows":
        return _judge_windows()
    if backend == "three":
        return _judge_three(seconds)
    if backend == "disturbed":
        return _judge_disturbed(seconds)
    if backend.startswith("kine-postgres"):
        cases = real.without_a_slow_link(cases)
    with tempfile.TemporaryDirectory(prefix="watchslo-fidelity-") as root, _open(backend, Path(root), cases) as measure:
        runs = [_run(measure, Path(root), number, cases, seconds, more) for number in range(repeats)]
    rows = [_row(runs, place) for place in range(len(cases))]
    rows += [_other_row(runs, place) for place in range(len(runs[0].others))]
    clocks = {ticking.domain: ticking for ticking in (Ticking.of(row.outcomes) for row in rows[: len(cases)])}
    print(f"\n{table(rows)}\n", *(f"Clock {ticking}." for ticking in clocks.values()), sep="\n", flush=True)
    if backend.startswith("timestamps"):
        print(f"\n{singles(rows)}", flush=True)
    missed = [f"{row.name}, {row.case.traffic.name}: {sentence}" for row in rows for sentence in row.missed()]
    missed += [str(ticking) for ticking in clocks.values() if ticking.missed()]
    return [f"MISSED, {backend}, {sentence}." for sentence in missed]


def _judge_windows() -> list[str]:
    """Estimate many windows, and print how far the figures are from the truth."""
    seed = secrets.randbits(32)
    cells = windows.measured(seed)
    columns = "P99: found / true, windows near the truth, rough, true ones inside the probable interval"
    print(f"seed {seed}; {columns}\n\n{windows.table(cells)}\n\n{windows.stalls(seed)}", flush=True)
    return [f"MISSED, windows, seed {seed}, {sentence}." for cell in cells for sentence in cell.missed()]


def _judge_disturbed(seconds: float) -> list[str]:
    """Measure one watch during each disturbance."""
    with tempfile.TemporaryDirectory(prefix="watchslo-fidelity-") as root:

        def measure(case: Case, during: real.During) -> Outcome:
            folder = Path(root, case.label)
            folder.mkdir()
            plan = Plan(folder, [case], seconds, secrets.randbits(32), ahead=0.0)
            return real.run(plan, cluster, during).outcomes[0]

        with real.on_etcd(Path(root), assets.newest(os.environ), []) as cluster:
            rows = disturbed.measured(measure)
    print(f"\n{disturbed.table(rows)}", flush=True)
    return [f"MISSED, disturbed, {sentence}." for row in rows for sentence in row.missed()]


def _judge_three(seconds: float) -> list[str]:
    """Measure each delay and its hops once; the median of thousands of events needs no repeats."""
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
        missed = [
            f"MISSED, three, {result.injected}: {sentence}." for result in results for sentence in result.missed()
        ]
        return missed + _judge_daemonset(lab, Path(root), seconds)


def _judge_daemonset(lab: HighAvailability, root: Path, seconds: float) -> list[str]:
    """Measure one instance next to each apiserver, with witnesses and without."""
    missed = []
    for reached in (True, False):
        seed, name = secrets.randbits(32), "with witnesses" if reached else "witnesses unreachable"
        instances = daemonset.run(lab, root / name.replace(" ", "-"), seconds, seed, reached=reached)
        checked = sum(instance.checked for instance in instances)
        print(
            f"\nDaemonSet, {name}: seed {seed}, {checked} samples checked\n\n{daemonset.table(instances)}", flush=True
        )
        missed += [
            f"MISSED, DaemonSet, {name}, {instance.injected}: {sentence}."
            for instance in instances
            for sentence in instance.missed(reached=reached)
        ]
    return missed


@contextlib.contextmanager
def _open(backend: str, root: Path, cases: Sequence[Case]) -> Iterator[Measure]:
    if backend in ("simulator", "timestamps"):
        yield partial(simulated.run, timed=backend == "timestamps")
        return
    with _cluster(backend, root, cases) as cluster:
        yield partial(real.run, cluster=cluster)


def _cluster(backend: str, root: Path, cases: Sequence[Case]) -> AbstractContextManager[real.Cluster]:
    """Return the cluster of a backend with a real kube-apiserver."""
    if backend == "1.30":
        return real.on_etcd(root, assets.old(os.environ), cases)
    newest = assets.newest(os.environ)
    if backend == "kine-sqlite":
        return real.on_sqlite(root, newest, cases)
    if backend.startswith("kine-postgres"):
        return real.on_postgres(root, newest, through=0 if backend.endswith("own") else 1)
    return real.on_etcd(root, newest, cases, partitioned=backend == "partitioned", timed=backend == "timestamps-1.36")


def _run(measure: Measure, root: Path, number: int, cases: Sequence[Case], seconds: float, more: int) -> Run:
    """Do one run; the clocks differ by an hour, with alternating sign."""
    folder = root / f"run-{number}"
    folder.mkdir()
    seed, ahead = secrets.randbits(32), HOUR if number % 2 == 0 else -HOUR
    run = measure(Plan(folder, cases, seconds, seed, ahead, more))
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
