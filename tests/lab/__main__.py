"""`python -m tests.lab` makes faults on real and simulated control planes, and judges what watchslo makes of them."""

import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import click

from tests.lab import documents, night_section, soak
from tests.lab.faults import FAULTS, ON_CALL, THREE
from tests.lab.judges.alerts import AlertsJudge
from tests.lab.judges.cause import NAMED_SECONDS, CauseJudge
from tests.lab.judges.counts import CountsJudge, CountsOutcome
from tests.lab.judges.judge import Judge, prove
from tests.lab.judges.verdict import OnCallJudge
from tests.lab.monitoring import SCRAPE_SECONDS, Monitoring, shipped, written_rules
from tests.lab.profiles import watch_profiles
from tests.lab.readers import OfTop, Readers, VerdictReader, of_metric, of_page
from tests.lab.scene import Fault, Scene
from tests.lab.selections import lanes_of_alerts, lanes_of_counts
from tests.lab.stage import Errors, Lane, Stage
from tests.support import assets
from tests.support.daemon import WATCHSLO
from tests.support.kept_up import PLAYS
from tests.support.process import PATIENCE_SECONDS, eventually
from tests.support.prometheus import program
from tests.support.tmux import Tmux

OWN_FIGURES_SECONDS = 40.0  # until the apiservers' own figures count, after a cause was named

only = click.option("--only", multiple=True, help="Only faults with a name that begins with this; may be repeated.")


@click.group()
def main() -> None:
    """Make faults, and judge what watchslo says and does."""


@main.command()
@only
@click.option("--write", is_flag=True, help="Write docs/faults.md.")
def counts(only: tuple[str, ...], *, write: bool) -> None:
    """Judge what is counted, lost and measured (`make faults`)."""
    lanes = lanes_of_counts(chosen([fault for fault in FAULTS if fault.counts], only))
    outcomes: dict[str, CountsOutcome] = {}

    def keep(fault: Fault, judges: Sequence[Judge]) -> None:
        (judge,) = judges
        assert isinstance(judge, CountsJudge)
        assert judge.outcome is not None
        outcomes[fault.name] = judge.outcome
        said(fault, judges)

    with laboratory(lanes) as stage:
        errors = stage.play(lambda scene: [CountsJudge(scene)], keep)
    if write and not errors and not only:
        documents.PATH.write_text(documents.render(outcomes, documents.night_of(documents.PATH.read_text())))
    end(failed(errors))


@main.command()
@only
@click.option("--repeats", default=10, show_default=True, help="How often each fault is made.")
@click.option("--seed", type=int, help="The seed of an earlier run, to repeat its faults; random by default.")
@click.option("--goals", is_flag=True, help="Judge how many are named soon enough too, by the goals in docs/causes.md.")
@click.option("--daemonset", is_flag=True, help="Watch one apiserver, with the others as witnesses.")
@click.option("--apiserver-metrics", is_flag=True, help="Read what the apiservers publish of themselves as evidence.")
def causes(
    only: tuple[str, ...], repeats: int, seed: int | None, *, goals: bool, daemonset: bool, apiserver_metrics: bool
) -> None:
    """Judge which causes are named, with faults of random strengths in random order (`make confusion`)."""
    faults = chosen([fault for fault in FAULTS if fault.causes is not None], only)
    random = seeded(seed)
    runs = [(fault, random.getrandbits(32)) for fault in faults for _ in range(repeats)]
    random.shuffle(runs)
    setup = replace(THREE, alone=daemonset, keys={"kubernetes": {"apiserverMetrics": apiserver_metrics}})
    lane = Lane(setup, tuple(faults), usual=False, name="causes")
    outcomes, errors = [], []
    with laboratory([lane]) as stage, ExitStack() as stack:
        scene = stage.open(stack, lane)
        held = (OWN_FIGURES_SECONDS,) if apiserver_metrics else ()
        judge = CauseJudge(scene, NAMED_SECONDS if goals else PATIENCE_SECONDS, *held)
        for fault, strength in runs:
            errors += proved(scene, fault, judge, strength)
            assert judge.outcome is not None
            outcomes.append(judge.outcome)
    print(f"\n{documents.confusion(outcomes)}")
    end(list(documents.missed(outcomes)) if goals else errors)


@main.command()
@only
def alerts(only: tuple[str, ...]) -> None:
    """Judge which alerts fire and resolve; with all faults, also whether each query of panels and rules is answered."""
    lanes = lanes_of_alerts(chosen([fault for fault in FAULTS if fault.raises], only))
    with laboratory(lanes) as stage, Monitoring(stage.folder, stage.scenes, whole=not only) as monitoring:
        errors = stage.play(lambda scene: [AlertsJudge(scene, monitoring.hours, monitoring.days)], said)
        missed = failed(errors)
        if not only:
            with suppress(AssertionError):
                eventually(lambda: not monitoring.waits_for(), "each query has an answer", 1.0)
            missed += monitoring.complaints()
    end(missed)


@main.command()
@only
@click.option("--minutes", default=30.0, show_default=True, help="Healthy minutes of the shipped profiles.")
@click.option("--stretch", default=1.0, show_default=True, help="Make faults so many times as long.")
@click.option("--write", is_flag=True, help="Write the table into docs/faults.md.")
@click.option("--no-faults", is_flag=True, help="Only the healthy minutes.")
@click.option("--minor", type=click.Choice([*assets.CONTROLLERS_OF]), default=assets.KUBE_APISERVER.pins)
def night(only: tuple[str, ...], minutes: float, stretch: float, *, write: bool, no_faults: bool, minor: str) -> None:
    """Play a night on call: faults, then healthy minutes of each profile (`make night`)."""
    faults = [] if no_faults else chosen([fault for fault in FAULTS if fault.on_call], only)
    lane, began = Lane(ON_CALL, tuple(faults), name="night"), time.monotonic()
    missed, played, profiles = [], [], []

    def report(sentence: str) -> None:
        print(f"{time.monotonic() - began:7.1f} {sentence}", flush=True)

    with laboratory([lane], minor) as stage:
        if faults:
            with ExitStack() as stack:
                scene = stage.open(stack, lane)
                rules = written_rules(scene.folder / "daemon" / "watchslo.yaml")
                prometheus, manager = shipped(
                    stack, scene.folder / "monitoring", [rules], "watchslo", [scene.daemon.url]
                )
                terminal = Tmux(scene.folder / "terminal", (WATCHSLO, "top", scene.daemon.url))
                top = OfTop(stack.enter_context(terminal), of_page(scene.daemon.url))
                verdicts: dict[str, VerdictReader] = {"page": top.page, "top": top, "metric": of_metric(prometheus)}
                readers = stack.enter_context(Readers(verdicts, prometheus, manager, report))
                judge = OnCallJudge(scene, readers, stretch)
                for fault in faults:
                    report(f"--- {fault.name}")
                    missed += proved(scene, fault, judge, 1)
                played = judge.figures()
            print(f"\n{night_section.night_table(played)}", flush=True)
        lab = stage.grounds[ON_CALL.ground].lab
        assert lab is not None
        for number in range(1, PLAYS + 1) if minutes else ():
            profiles = watch_profiles(stage.folder / f"profiles-{number}", lab, minutes, report)
            print(f"\n{night_section.profiles_table(profiles)}")
            if all(one.kept_up for one in profiles if any(one.missed())):
                break
            report(f"play {number} of at most {PLAYS} says nothing: an instance could not keep up")
    if write:
        facts = {
            "scrape": SCRAPE_SECONDS,
            "date": datetime.now(UTC).date(),
            "versions": versions(minor),
            "minutes": minutes,
        }
        text = night_section.render(played, profiles, facts)
        documents.PATH.write_text(documents.with_night(documents.PATH.read_text(), text))
    end([*missed, *(f"{one.profile}: {sentence}" for one in profiles for sentence in one.missed())])


@main.command("soak")
@click.option("--minutes", default=20.0, show_default=True)
@click.option("--seed", type=int, help="The seed of an earlier run; random by default.")
def soak_command(minutes: float, seed: int | None) -> None:
    """Make random faults: no loss without a report, no leak, no unexpected log entry (`make soak`)."""
    random = seeded(seed)
    with laboratory([soak.LANE]) as stage:
        soak.soak(stage, minutes, random)


@contextmanager
def laboratory(lanes: Sequence[Lane], minor: str = assets.KUBE_APISERVER.pins) -> Iterator[Stage]:
    with (
        tempfile.TemporaryDirectory(prefix="watchslo-lab-") as folder,
        Stage(Path(folder), assets.of_version(os.environ, minor), lanes) as stage,
    ):
        yield stage


def chosen(faults: Sequence[Fault], only: tuple[str, ...]) -> list[Fault]:
    found = [fault for fault in faults if not only or fault.name.startswith(only)]
    if not found:
        raise click.UsageError(f"no such fault; there are {', '.join(fault.name for fault in faults)}")
    return found


def seeded(seed: int | None) -> Random:
    number = secrets.randbits(32) if seed is None else seed
    print(f"seed {number}", flush=True)
    return Random(number)


def proved(scene: Scene, fault: Fault, judge: Judge, seed: int) -> list[str]:
    """Play a fault before a judge, and return what was wrong."""
    try:
        prove(scene, fault, [judge], seed)
    except AssertionError as error:
        return [str(error)]
    return []


def said(fault: Fault, _: Sequence[Judge]) -> None:
    print(f"{fault.name}: as expected", flush=True)


def failed(errors: Errors) -> list[str]:
    return [f"{fault} in lane {lane}: {error!r}" for (lane, fault), error in errors.items()]


def versions(minor: str) -> str:
    """Return the versions of all programs of a night."""

    def word(number: int, *command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return [*(done.stdout + done.stderr).split(), *["unknown"] * 3][number]

    parts = [f"watchslo {word(0, 'git', 'rev-parse', '--short', 'HEAD')}"]
    parts += [f"kube-apiserver {assets.KUBE_APISERVERS[minor].version}", f"etcd {assets.ETCD.version}"]
    for name, words in (("prometheus", "Prometheus"), ("prometheus-alertmanager", "Alertmanager")):
        parts.append(f"{words} {word(2, program(name), '--version')}")
    return ", ".join(parts)


def end(missed: Sequence[str]) -> None:
    print(*(f"MISSED: {sentence}." for sentence in missed), *([] if missed else ["All is as expected."]), sep="\n")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
