"""`python -m tests.inequalities` counts how often real storages contradict the two inequalities of the revision clock.

docs/fidelity.md has the figures. Writers create objects through every apiserver, ticks go through the first one.
"""

import contextlib
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import click
import numpy as np

from tests.fidelity.goals import aligned
from tests.inequalities.judging import (
    CommitBounds,
    Floats,
    included_too_early,
    latencies,
    missing_too_late,
    out_of_order,
)
from tests.inequalities.recording import Load, Recording, all_writes, record
from tests.support import assets
from tests.support.control_plane import ControlPlane, Etcd
from tests.support.daemon import Proxy
from tests.support.kine import Kine, Postgres, Sqlite, endpoint

COLUMNS = (
    "storage",
    "commits",
    "a second",
    "ticks",
    "ticks that include a later commit",
    "ticks that lack an earlier commit",
    "commits out of order",
    "events of own server: P50 / P99 / worst, ms",
    "of the other server, ms",
)
STORAGES = ("etcd", "kine-sqlite", "kine-postgres", "kine-postgres-two")


@dataclass(frozen=True, slots=True)
class Bed:
    """A control plane with the storage under test; `postgres` knows when each row was committed."""

    plane: ControlPlane
    postgres: Postgres | None = None


@click.command()
@click.option("--storage", "storages", multiple=True, type=click.Choice(STORAGES), default=STORAGES)
@click.option("--objects", default=5000, show_default=True, help="How many objects to create.")
@click.option("--writers", default=8, show_default=True, help="How many of them are created at once.")
@click.option("--rate", default=0.0, help="Objects a second; without it, as many as the control plane accepts.")
@click.option("--ticks", default=2.0, show_default=True, help="Ticks a second, of each of two resources.")
@click.option("--train", default=10.0, show_default=True, help="Further ticks a second.")
@click.option("--only-other", is_flag=True, help="Create nothing through the first of two apiservers.")
@click.option("--link", default="none", metavar="LAW", help="Delay what Postgres sends, as `lognormal 5ms 1`.")
def main(
    storages: tuple[str, ...],
    *,
    objects: int,
    writers: int,
    rate: float,
    ticks: float,
    train: float,
    only_other: bool,
    link: str,
) -> None:
    """Write concurrently to each storage, and print how often ticks were wrong."""
    rows: list[tuple[str, ...]] = []
    for storage in storages:
        load = Load(objects, writers, rate, ticks, train, secrets.randbits(32), only_other)
        with (
            tempfile.TemporaryDirectory(prefix="watchslo-inequalities-") as root,
            _open(storage, Path(root), link) as bed,
        ):
            recording = record(bed.plane, load)
            committed = bed.postgres.commit_times() if bed.postgres else {}
        rows.append(_row(storage, recording, committed))
        print(f"seed {load.seed}: {' | '.join(rows[-1])}", file=sys.stderr, flush=True)
    print(aligned([COLUMNS, *rows]))


@contextlib.contextmanager
def _open(storage: str, folder: Path, link: str) -> Iterator[Bed]:
    """Start a storage with a kube-apiserver 1.36, or two with a kine server behind each."""
    found = assets.newest(os.environ)
    with contextlib.ExitStack() as stack:
        if storage == "etcd":
            etcd = stack.enter_context(Etcd(folder, found.etcd))
            yield Bed(stack.enter_context(ControlPlane(folder, found.kube_apiserver, etcd)))
            return
        kine = assets.find(os.environ, assets.KINE)
        postgres = None if storage == "kine-sqlite" else stack.enter_context(Postgres(folder))
        through = stack.enter_context(_link(folder, postgres, link)) if postgres and link != "none" else None
        first = stack.enter_context(Kine(folder, kine, postgres or Sqlite(folder), through=through))
        plane = ControlPlane(folder, found.kube_apiserver, first)
        if storage == "kine-postgres-two":
            assert postgres is not None
            plane.add(stack.enter_context(Kine(folder, kine, postgres, "kine-2", through)).url)
        yield Bed(stack.enter_context(plane), postgres)


@contextlib.contextmanager
def _link(folder: Path, postgres: Postgres, law: str) -> Iterator[str]:
    """Run a proxy before Postgres that delays the answers, and yield its endpoint for kine."""
    host, port = postgres.address
    with Proxy(folder, "link", f"postgres://{host}:{port}") as proxy, proxy.late(law):
        yield endpoint(urlsplit(proxy.url).port or port)


def _row(storage: str, recording: Recording, committed: Mapping[int, float]) -> tuple[str, ...]:
    writes = all_writes(recording)
    commits = CommitBounds.of(writes, recording.sighted(), committed)
    spent = max(write.after for write in writes) - min(write.before for write in writes)
    ways = [
        latencies(commits, recording.arrivals[0], [write.revision for write in mine if write.revision])
        for mine in recording.writes
    ]
    return (
        storage,
        f"{len(writes):,}",
        f"{len(writes) / spent:.0f}",
        f"{len(recording.ticks):,}",
        str(included_too_early(commits, recording.ticks)),
        str(missing_too_late(commits, recording.ticks)),
        str(out_of_order(commits, committed)),
        _quantiles(ways[0]),
        _quantiles(ways[1]) if len(ways) > 1 else "",
    )


def _quantiles(found: Floats) -> str:
    """Return P50, P99 and the largest, in milliseconds."""
    if not len(found):
        return ""
    return " / ".join(f"{1e3 * value:.1f}" for value in (*np.quantile(found, (0.5, 0.99)), found.max()))


if __name__ == "__main__":
    main()
