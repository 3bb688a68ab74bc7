"""`python -m tests.night` plays a night on call: faults on a real control plane, and then healthy minutes.

It prints when the page, `top`, the metric and the alerts said what is right, and fails if something wrong was said.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from tests.lab import documents
from tests.night import section, tables
from tests.night.faults import FAULTS, NightFault
from tests.night.monitoring import SCRAPE_SECONDS
from tests.night.profiles import watch_profiles
from tests.night.script import play
from tests.night.stage import NightStage, three_apiservers
from tests.support import assets
from tests.support.prometheus import program


@click.command()
@click.option("--only", default="", metavar="A,B", help="Only these faults; `none` makes none.")
@click.option(
    "--minutes", default=30.0, show_default=True, help="Healthy minutes of the shipped profiles; 0 omits them."
)
@click.option("--stretch", default=1.0, show_default=True, help="Make faults so many times as long.")
@click.option("--write", is_flag=True, help="Write the table into docs/faults.md.")
def main(only: str, minutes: float, stretch: float, write: bool) -> None:  # noqa: FBT001 - an option
    """Play a night on call, and print what was said."""
    faults = _chosen(only)
    began = time.monotonic()

    def report(sentence: str) -> None:
        print(f"{time.monotonic() - began:7.1f} {sentence}", flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="watchslo-night-") as root,
        three_apiservers(Path(root), assets.newest(os.environ)) as lab,
    ):
        played = []
        if faults:
            with NightStage(Path(root) / "night", lab, report) as stage:
                played = play(stage, faults, stretch, report)
            print(f"\n{tables.table(played)}", flush=True)
        profiles = watch_profiles(Path(root) / "profiles", lab, minutes, report) if minutes else []
    if profiles:
        print(f"\n{tables.profiles_table(profiles)}")
    if write:
        facts = {
            "scrape": SCRAPE_SECONDS,
            "date": datetime.now(UTC).date(),
            "versions": _versions(),
            "minutes": minutes,
        }
        text = tables.render(played, profiles, facts)
        documents.PATH.write_text(section.placed(documents.PATH.read_text(), text))
    missed = [f"{one.fault.name}: {sentence}" for one in played for sentence in one.figures.missed()]
    missed += [f"{one.profile}: {sentence}" for one in profiles for sentence in one.missed()]
    print(f"\n{time.monotonic() - began:.0f} s in all.")
    print(*(f"MISSED: {sentence}." for sentence in missed), *([] if missed else ["All was said right."]), sep="\n")
    sys.exit(1 if missed else 0)


def _chosen(only: str) -> Sequence[NightFault]:
    """Return the faults of these names, in the order of the table."""
    known: Mapping[str, NightFault] = {fault.name: fault for fault in FAULTS}
    names = [name for name in only.split(",") if name] or list(known)
    if names == ["none"]:
        return ()
    if unknown := [name for name in names if name not in known]:
        raise click.UsageError(f"no such fault: {', '.join(unknown)}; there are {', '.join(known)}")
    return [fault for name, fault in known.items() if name in names]


def _versions() -> str:
    """Return the versions of all programs."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    parts = [
        f"watchslo {commit.strip() or 'of no commit'}",
        f"kube-apiserver {assets.KUBE_APISERVER.version}",
        f"etcd {assets.ETCD.version}",
        f"Prometheus {_version('prometheus')}",
        f"Alertmanager {_version('prometheus-alertmanager')}",
    ]
    return ", ".join(parts)


def _version(name: str) -> str:
    done = subprocess.run([program(name), "--version"], capture_output=True, text=True, check=False)
    words = (done.stdout + done.stderr).split()
    return words[words.index("version") + 1] if "version" in words else "unknown"


if __name__ == "__main__":
    main()
