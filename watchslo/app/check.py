"""`watchslo check`: one measurement, one verdict."""

import asyncio
import json
import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

from watchslo.app import logs
from watchslo.app.hints import hints, unready
from watchslo.app.session import run_on_loop, stop_signals, supervise
from watchslo.app.table import draw, headline, plain_console
from watchslo.app.view import Line, View, view_of
from watchslo.config import load, parse_duration
from watchslo.errors import ConfigError
from watchslo.history.judgement import Verdict
from watchslo.history.words import counted
from watchslo.monitor.crew import Crew
from watchslo.monitor.supervisor import Supervisor
from watchslo.snapshot import CauseReading, QuantileReading, Snapshot

WINDOWS = (("1m", 60.0), ("5m", 300.0))
SHORTEST_SECONDS = 5.0
START_SECONDS = 30.0  # until the clock ticks and every watch is open; else whatever is there is measured
SEAL_SECONDS = 2.5  # for the last second to be sealed: it must end, and a tick must follow
LOOK_SECONDS = 0.2
BAR_CHARACTERS = 20
EXIT_CODES = {Verdict.BEYOND: 1, Verdict.WITHIN: 0, Verdict.NOT_MEASURED: 2}
HEADLINE_STYLES = {0: "green", 1: "bold red", 2: "yellow"}


@dataclass(frozen=True, slots=True)
class Question:
    """What the command line asks: for how long, within what, of which resources; no resource means the configured."""

    duration: str
    threshold: str | None
    resources: tuple[str, ...]


@dataclass(slots=True)
class Sitting:
    """How long is to be measured, and since when that goes on; `complete` once it was long enough."""

    seconds: float
    began: float | None = None
    complete: bool = False

    def measured(self, now: float) -> float:
        """For how many seconds it went on, at most those that were asked for."""
        return 0.0 if self.began is None else min(self.seconds, now - self.began)


@dataclass(frozen=True, slots=True)
class Answer:
    """What was measured, for how long, and for how long it was to be; `interrupted`: somebody could not wait."""

    snapshot: Snapshot
    view: View
    seconds: float
    asked_seconds: float
    interrupted: bool

    @property
    def verdict(self) -> Verdict:
        """That on all watches: one that is beyond decides, then one that is within."""
        verdicts = {line.verdict for line in self.view.lines}
        return next((verdict for verdict in EXIT_CODES if verdict in verdicts), Verdict.NOT_MEASURED)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]


def check(
    file: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    question: Question,
    output: Literal["table", "json"],
) -> int:
    """Measures, prints what was found, and returns the exit code; raises WatchsloError where it cannot begin."""
    logs.set_up("console", "error")
    sitting = Sitting(_seconds(question.duration))
    config = load(file)[0].narrowed(question.resources, question.threshold)
    if not config.judges_quantiles:
        raise ConfigError(f"{file}: metrics: proven has no P99 to judge; check without it, or with another file")
    window = next(name for name, length in WINDOWS if sitting.seconds <= length)
    try:
        snapshot, seconds = run_on_loop(_measure(supervise(config, kubeconfig, context), sitting))
    except ConfigError as error:
        asked_by = "--resource" if question.resources else f"{file}: watch"
        raise ConfigError(f"{asked_by}: {error}") from None
    answer = Answer(snapshot, view_of(snapshot, window), seconds, sitting.seconds, not sitting.complete)
    if output == "json":
        print(json.dumps(_document(answer), indent=2))  # noqa: T201 - the answer itself
    else:
        _print(answer)
    return answer.exit_code


def _seconds(text: str) -> float:
    longest = WINDOWS[-1][1]
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise ConfigError(f"--duration: {error}") from None
    if not SHORTEST_SECONDS <= seconds <= longest:
        raise ConfigError(f"--duration: {text} is out of range; write {SHORTEST_SECONDS:g}s to {longest / 60:g}m")
    return seconds


# Measuring


async def _measure(supervisor: Supervisor, sitting: Sitting) -> tuple[Snapshot, float]:
    """Measures from when all is up, or until interrupted, and shows how far it is; returns for how long that was."""
    stop = asyncio.Event()
    with stop_signals(stop), _progress() as progress:
        async with Crew(stop) as crew:
            crew.hire("patience", partial(_wait, supervisor, sitting, progress, stop))
            snapshot = await supervisor.run(stop)
            return snapshot, sitting.measured(time.monotonic())


async def _wait(supervisor: Supervisor, sitting: Sitting, progress: Progress, stop: asyncio.Event) -> None:
    """Sets `stop` when it is enough, or nothing to measure has come up."""
    starting = progress.add_task("starting", total=START_SECONDS)
    while supervisor.starting and not progress.finished:
        await _advance(progress, starting)
        progress.update(starting, description=_awaited(supervisor.snapshot()))
    progress.remove_task(starting)
    if any(stream.up for stream in supervisor.snapshot().streams):
        sitting.began = time.monotonic()
        measuring = progress.add_task("measuring", total=sitting.seconds + SEAL_SECONDS)
        while not progress.finished:
            await _advance(progress, measuring)
            progress.update(measuring, description=_so_far(supervisor.snapshot()))
    sitting.complete = True
    stop.set()


async def _advance(progress: Progress, task: TaskID) -> None:
    await asyncio.sleep(LOOK_SECONDS)
    progress.advance(task, LOOK_SECONDS)


def _awaited(snapshot: Snapshot) -> str:
    """What the start waits for: who could mend it need not wait with it."""
    return next(iter(snapshot.monitor.not_ready), "starting")


def _so_far(snapshot: Snapshot) -> str:
    """What has arrived, which is not the same as what will be measured, but tells that something does."""
    events = sum(sum(stream.events.values()) for stream in snapshot.streams)
    up = sum(stream.up for stream in snapshot.streams)
    return f"measuring {counted(up, 'watch')}: {counted(events, 'event')}"


def _progress() -> Progress:
    console = plain_console(stderr=True)
    console.quiet = not console.is_terminal  # else it would leave an empty line there
    return Progress(
        BarColumn(BAR_CHARACTERS),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1)),
        expand=True,  # what has no room is the end of the words
        console=console,
        transient=True,
    )


# Answering


def _print(answer: Answer) -> None:
    console, view = plain_console(), answer.view
    console.print(draw(view.lines))
    for sentence in unready(view):
        console.print(sentence, style="yellow")
    for sentence in view.causes:
        console.print(sentence, style="bold")
    for sentence in hints(view):
        console.print(sentence, style="yellow")
    if answer.interrupted:
        console.print(f"Interrupted: that is what was measured in {answer.seconds:.0f} s.", style="yellow")
    console.print(headline(view.lines), style=HEADLINE_STYLES[answer.exit_code])


def _document(answer: Answer) -> dict[str, object]:
    """The answer for machines; durations in seconds, null where there is none or no bound."""
    snapshot, view = answer.snapshot, answer.view
    unproven = {apiserver.name: apiserver.unproven for apiserver in snapshot.apiservers}
    return {
        "apiVersion": "v1",
        "at": datetime.fromtimestamp(snapshot.at_wall, UTC).isoformat(),
        "verdict": answer.verdict,
        "exitCode": answer.exit_code,
        "asked": answer.asked_seconds,
        "measured": round(answer.seconds, 3),
        "interrupted": answer.interrupted,
        "watches": [_watch(line, unproven[line.apiserver]) for line in view.lines],
        "causes": [_cause(cause) for cause in snapshot.causes],
        "notReady": list(snapshot.monitor.not_ready),
        "hints": hints(view),
    }


def _watch(line: Line, unproven: str | None) -> dict[str, object]:
    return {
        "watch": line.watch,
        "apiserver": line.apiserver,
        "resource": line.resource,
        "group": line.group,
        "verdict": line.verdict,
        "threshold": line.threshold,
        "events": line.events,
        "p50": _reading(line.quantiles.get(0.5)),
        "p99": _reading(line.p99),
        "state": line.state,
        "stalled": line.stalled_for,
        "unproven": unproven,
        "failure": line.failure,
    }


def _reading(quantile: QuantileReading | None) -> dict[str, object] | None:
    if quantile is None:
        return None
    return {
        "estimate": quantile.estimate if math.isfinite(quantile.estimate) else None,
        "lower": quantile.lower,
        "upper": quantile.upper if math.isfinite(quantile.upper) else None,
        "resolved": quantile.resolved,
    }


def _cause(cause: CauseReading) -> dict[str, object]:
    return {
        "cause": cause.cause,
        "apiserver": cause.apiserver,
        "watch": cause.watch,
        "confidence": cause.confidence,
        "evidence": cause.evidence,
        "next": cause.next,
    }
