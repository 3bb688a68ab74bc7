"""`python -m tests.fidelity.reactions` checks whether watchslo times the reactions of controllers right.

Real controllers roll deployments out on a real control plane, and kwok plays the kubelets. The truth is a watch on etcd
itself. Printed next to it is what the timestamps in objects say. Fails if a goal is missed: docs/fidelity.md has them.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import click
import msgspec
import numpy as np

from tests.fidelity.commit_log import CommitLog, LogSettings
from tests.fidelity.goals import ms, table
from tests.fidelity.outcome import P50, P99, share
from tests.fidelity.real import announced
from tests.fidelity.steps import TrueReaction, reactions
from tests.fidelity.truth import Floats, Quantile, Revisions, Truth, Window, quantile, violations
from tests.support import assets
from tests.support.control_plane import ControlPlane, Etcd
from tests.support.controllers import DEPLOYMENTS, SERVICES, Controllers, deployment, restarted, service
from tests.support.daemon import LOOK_SECONDS, Scrape
from tests.support.notes import ReactionSample
from tests.support.observed import Observed
from tests.support.process import Process
from tests.support.writer import Writer

WATCHED = {
    "pods": "/api/v1/pods",
    "deployments.apps": "/apis/apps/v1/deployments",
    "replicasets.apps": "/apis/apps/v1/replicasets",
    "endpointslices.discovery.k8s.io": "/apis/discovery.k8s.io/v1/endpointslices",
}
STAGES = Path(__file__).with_name("kubelet_steps.yaml")
NODES = 40
DEPLOYED = 20  # deployments
TURNS = (
    5  # of each deployment: created, restarted, scaled to twice as many pods, and restarted, which makes twice as many
)
GAP_SECONDS = 1.5  # between two changes, on average
GOAL_SHARE, GOAL_SECONDS = 0.10, 0.010
OF_OBJECTS = ("tainted", "late", "gap", "undated", "crowded", "expired")  # reasons of reactions that did happen
NOTHING = "-"
WINDOW_SECONDS = 290.0  # all samples of so short a time are in the window of five minutes
STILL_LOOKS = 15  # in which nothing has happened at the end
HISTOGRAM = "watchslo_reaction_seconds"
COLUMNS = (
    "step",
    "true",
    "samples",
    "no samples",
    "true P50 / P99, ms",
    "estimated, ms",
    "P50 bounds, ms",
    "P99 bounds, ms",
    "worst share",
    "P50 / P99 by timestamps, s",
    "negative",
)


class Commits:
    """When each revision was committed: not before a time, and by another one (monotonic seconds)."""

    def __init__(self, log: CommitLog) -> None:
        self._reported = dict(reversed(log.commits))  # the first report of each
        sent, answered, revisions = zip(*log.reads, strict=True)
        self._sent, self._answered = np.array(sent), np.array(answered)
        self._read = np.array(revisions, dtype=np.int64)

    def between(self, revisions: Revisions) -> tuple[Floats, Floats, Floats]:
        """Return the earliest and the latest possible time of each commit, and when etcd reported it."""
        at = np.searchsorted(self._read, revisions, side="left")  # the first read that includes it
        since = self._sent[at - 1]
        reported = np.array([self._reported[revision] for revision in revisions.tolist()])
        return since, np.maximum(since, np.minimum(reported, self._answered[at])), reported

    def truth(self, asked: Revisions, acted: Revisions) -> Truth:
        """Return how long reactions took."""
        (asked_since, asked_by, asked_at), (since, by, at) = self.between(asked), self.between(acted)
        return Truth(since - asked_by, at - asked_at, by - asked_since, np.zeros(len(asked)))


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """One step: all true reactions, the samples with their truth, and what the daemon shows of them."""

    step: str
    found: Sequence[TrueReaction]
    samples: Sequence[ReactionSample]
    truth: Truth
    windows: Sequence[Window]
    unmeasured: Mapping[str, int]
    edges: Floats
    shares: Floats

    def missed(self) -> Iterator[str]:
        """Yield a sentence for each missed goal."""
        violated = [(window, *found) for window in self.windows for found in violations(window, self.truth)]
        for window, q, least, most in violated[:1]:
            truth, bounds = f"{ms(least)} to {ms(most)} ms", window.quantiles[q]
            yield (
                f"{len(violated)} quantiles of {len(self.windows)} windows lie outside of their bounds. "
                f"The first is P{100 * q:g}: {truth}, its bounds {ms(bounds.lower)} to {ms(bounds.upper)} ms"
            )
        if outside := self.outside:
            yield f"{outside} of {len(self.samples)} reactions lie outside of their bounds"
        if lost := len(self.found) - len(self.samples) - sum(self.unmeasured.get(reason, 0) for reason in OF_OBJECTS):
            yield f"{lost} reactions are neither samples nor counted as none"
        for q, (true, said) in self.quantiles.items():
            if abs(said.estimate - true) > max(GOAL_SHARE * true, GOAL_SECONDS):
                yield f"P{100 * q:g} is {ms(true)} ms, and the estimate {ms(said.estimate)} ms"

    @property
    def outside(self) -> int:
        """The number of samples whose own bounds exclude every possible truth."""
        lower = np.array([sample.acted_at[0] - sample.asked_at[1] for sample in self.samples])
        upper = np.array([sample.acted_at[1] - sample.asked_at[0] for sample in self.samples])
        return int(np.count_nonzero((lower > self.truth.most) | (upper < self.truth.least)))

    @property
    def quantiles(self) -> dict[float, tuple[float, Quantile]]:
        """The true and the estimated quantiles of the last window."""
        window = self.windows[-1]
        true = window.of(self.truth).likely
        return {q: (quantile(true, q), said) for q, said in window.quantiles.items()}

    def cells(self) -> tuple[str, ...]:
        (true50, said50), (true99, said99) = (self.quantiles[q] for q in (P50, P99))
        shown = np.array([reaction.shown for reaction in self.found if reaction.shown is not None])
        wrong = float(np.abs(self.shares - share(self.truth.likely, self.edges)).max())
        return (
            self.step,
            f"{len(self.found):,}",
            f"{len(self.samples):,}",
            ", ".join(f"{count} {reason}" for reason, count in self.unmeasured.items() if count) or NOTHING,
            f"{ms(true50)} / {ms(true99)}",
            f"{ms(said50.estimate)} / {ms(said99.estimate)}",
            f"{ms(said50.lower)} to {ms(said50.upper)}",
            f"{ms(said99.lower)} to {ms(said99.upper)}",
            f"{100 * wrong:.1f} pp",
            f"{quantile(shown, P50):g} / {quantile(shown, P99):g}" if len(shown) else NOTHING,
            str(np.count_nonzero(shown < 0)) if len(shown) else NOTHING,
        )


@click.command()
@click.option("--pods", default=1000, show_default=True, help="How many pods the rollouts create.")
@click.option("--seed", type=int, help="Of the order and the times of the rollouts; by default a new one.")
def main(pods: int, seed: int | None) -> None:
    """Compare the reactions that watchslo times with the truth."""
    seed = Random().randrange(2**32) if seed is None else seed
    print(f"{pods} pods, seed {seed}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    with tempfile.TemporaryDirectory(prefix="watchslo-reactions-") as folder:
        outcomes, accuracy = _run(Path(folder), pods, Random(seed))
    print(f"\n{table(COLUMNS, [outcome.cells() for outcome in outcomes])}\n\n{accuracy}")
    missed = [f"MISSED, {outcome.step}: {sentence}." for outcome in outcomes for sentence in outcome.missed()]
    print(*missed or ["Every goal is reached."], sep="\n")
    sys.exit(1 if missed else 0)


def _run(folder: Path, pods: int, random: Random) -> tuple[list[StepOutcome], str]:
    """Roll deployments out while a daemon and the log watch; return the outcomes, and how exact the truth is."""
    programs, notes = assets.newest(os.environ), folder / "log.json"
    with Etcd(folder, programs.etcd) as etcd, ControlPlane(folder, programs.kube_apiserver, etcd) as plane:
        half = Controllers(
            folder,
            assets.controllers(os.environ),
            plane,
            plane.kubeconfig(),
            nodes=NODES,
            replicas=1,
            stages=STAGES,
        )
        watches = [{"resource": name} for name in WATCHED]
        daemon = Observed(folder / "daemon", plane.kubeconfig(), watches, reactions=[*WATCHED])
        with half, _commit_log(plane, folder, notes) as log, daemon:
            announced(log)
            daemon.until_ready()
            daemon.process.until(lambda: _waiting(daemon) == 0, "all is watched", LOOK_SECONDS)
            began = time.monotonic()
            looks = Looks(daemon)
            with plane.writer() as writer:
                for _ in _roll_out(writer, pods, random):
                    looks.look()
            looks.settle()
            tainted = daemon.status()["monitor"]["taintedSeconds"]
            print(f"{time.monotonic() - began:.0f} s, of which the daemon was late for {tainted:.1f} s")
            scrape, samples = daemon.scrape(), daemon.notes().reactions
    return _compare(msgspec.json.decode(notes.read_bytes(), type=CommitLog), looks, scrape, samples)


def _commit_log(plane: ControlPlane, folder: Path, notes: Path) -> Process:
    settings = LogSettings(plane.etcd.url, plane.url, str(plane.ca), plane.token, [*WATCHED.values()], str(notes))
    command = [sys.executable, "-m", "tests.fidelity.commit_log", msgspec.json.encode(settings).decode()]
    return Process(folder, "commit-log", command)


def _roll_out(writer: Writer, pods: int, random: Random) -> Iterator[None]:
    """Create deployments with services, restart and scale them, which makes `pods` pods; yield after each change."""
    replicas = pods // DEPLOYED // TURNS
    names = [f"rolled-{number}" for number in range(DEPLOYED)]
    for name in names:
        writer.create(SERVICES, service(name))
    for turn in ("create", "restart", "scale", "again"):
        for name in random.sample(names, len(names)):
            time.sleep(random.expovariate(1 / GAP_SECONDS))
            if turn == "create":
                writer.create(DEPLOYMENTS, deployment(name, replicas))
            elif turn == "scale":
                writer.patch(f"{DEPLOYMENTS}/{name}", {"spec": {"replicas": 2 * replicas}})
            else:
                writer.patch(f"{DEPLOYMENTS}/{name}", restarted(turn))
            yield


def _waiting(daemon: Observed) -> int | None:
    """Return how many objects wait for a step; None before all are watched."""
    pending = [reaction["pending"] for reaction in daemon.status()["reactions"]]
    return None if not pending or None in pending else sum(pending)


class Looks:
    """What a daemon shows of reactions, each time that it is looked at."""

    def __init__(self, daemon: Observed) -> None:
        self._daemon = daemon
        self._began = time.monotonic()
        self._all: list[tuple[float, Any]] = []

    @property
    def last(self) -> Any:
        return self._all[-1][1]

    def look(self) -> None:
        self._all.append((time.monotonic() - self._began, self._daemon.status()["reactions"]))

    def settle(self) -> None:
        """Look until nothing happens any more."""
        counts = [-1] * STILL_LOOKS

        def settled() -> bool:
            self.look()
            counts.append(len(self._daemon.notes().reactions))
            return counts[-STILL_LOOKS] == counts[-1] and not any(reaction["pending"] for reaction in self.last)

        self._daemon.process.until(settled, "all have reacted", 1.0)

    def windows(self, place: int, samples: int) -> Iterator[Window]:
        """Yield what is shown of a step, the last look last; nothing is forgotten in the early ones."""
        *early, (_, last) = self._all
        for seconds, shown in early:
            if seconds < WINDOW_SECONDS and shown[place]["events"]:
                yield _window(shown[place], shown[place]["events"])
        yield _window(last[place], samples)


def _compare(
    log: CommitLog, looks: Looks, scrape: Scrape, samples: Sequence[ReactionSample]
) -> tuple[list[StepOutcome], str]:
    commits = Commits(log)
    found = {(reaction.asked, reaction.acted): reaction for reaction in reactions(log.changes)}
    unknown = [sample for sample in samples if (sample.asked, sample.acted) not in found]
    assert not unknown, f"{len(unknown)} of {len(samples)} samples are no reactions: {unknown[:3]}"
    outcomes = []
    for place, last in enumerate(looks.last):
        step = f"{last['resource']} {last['step']}"
        own = [sample for sample in samples if found[sample.asked, sample.acted].step == step]
        truth = commits.truth(*(np.array([getattr(sample, end) for sample in own]) for end in ("asked", "acted")))
        edges, shares = _histogram(scrape, last)
        windows = [*looks.windows(place, len(own))]
        true = [reaction for reaction in found.values() if reaction.step == step]
        outcomes.append(StepOutcome(step, true, own, truth, windows, last["unmeasured"], edges, shares))
    return outcomes, _accuracy(commits, [*found.values()])


def _accuracy(commits: Commits, found: Sequence[TrueReaction]) -> str:
    since, by, _ = commits.between(np.array([reaction.acted for reaction in found]))
    p50, p99 = (ms(quantile(by - since, q)) for q in (P50, P99))
    return f"The truth: the time of a commit is known to {p50} ms in the median, and to {p99} ms at P99."


def _window(reaction: Any, samples: int) -> Window:
    infinity = float("inf")
    quantiles = {
        said["q"]: Quantile(said["lower"], said["estimate"], infinity if said["upper"] is None else said["upper"])
        for said in reaction["quantiles"]
    }
    return Window("5m", samples, reaction["events"], quantiles)


def _histogram(scrape: Scrape, reaction: Any) -> tuple[Floats, Floats]:
    """Return the finite edges of the histogram, and the share of the reactions up to each."""
    key = (reaction["group"], reaction["resource"], reaction["step"])
    buckets = [
        (float(sample.labels["le"]), sample.value)
        for sample in scrape.families[HISTOGRAM].samples
        if sample.name.endswith("_bucket")
        and (sample.labels["group"], sample.labels["resource"], sample.labels["step"]) == key
    ]
    edges, counts = (np.array(column) for column in zip(*buckets, strict=True))
    return edges[:-1], counts[:-1] / counts[-1]


if __name__ == "__main__":
    main()
