"""`watchslo check`: measures once and prints one verdict."""

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
from watchslo.app.table import draw, plain_console
from watchslo.app.view import Line, View, view_of
from watchslo.config.loading import load, narrow
from watchslo.config.values import parse_duration
from watchslo.errors import ConfigError
from watchslo.monitor.supervisor import Supervisor
from watchslo.monitor.task_supervisor import TaskSupervisor
from watchslo.snapshot import CauseReading, QuantileReading, Snapshot
from watchslo.timeline.format import counted
from watchslo.timeline.headline import Headline
from watchslo.timeline.timeline import Account, Timeline
from watchslo.timeline.verdict import Level

WINDOWS = (60.0, 300.0)
SHORTEST_SECONDS = 5.0
START_SECONDS = 30.0  # to wait until the clock ticks and every watch is open; then the open ones are measured
SEAL_SECONDS = 2.5  # until the last second is sealed: it must end, and a tick must follow
LOOK_SECONDS = 0.2
BAR_CHARACTERS = 20
EXIT_CODES = {Level.GOOD: 0, Level.BAD: 1, Level.UNKNOWN: 2}
HEADLINE_STYLES = {Level.GOOD: "green", Level.BAD: "bold red", Level.UNKNOWN: "yellow"}


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """Options of the command line; without resources, those of the configuration are measured."""

    duration: str
    threshold: str | None
    resources: tuple[str, ...]


@dataclass(slots=True)
class MeasurementPeriod:
    """The requested seconds of measurement, its start in monotonic seconds, and whether it is complete."""

    seconds: float
    began: float | None = None
    complete: bool = False

    def measured(self, now: float) -> float:
        """Return the seconds measured so far, at most those requested."""
        return 0.0 if self.began is None else min(self.seconds, now - self.began)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The measurement with its verdict, its duration, the requested duration, and whether a signal interrupted it."""

    snapshot: Snapshot
    headline: Headline
    view: View
    seconds: float
    asked_seconds: float
    interrupted: bool

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.headline.level]


def check(
    file: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    options: CheckOptions,
    output: Literal["table", "json"],
) -> int:
    """Measure, print the result, and return the exit code; raise WatchsloError if the measurement cannot start."""
    logs.set_up("console", "error")
    period = MeasurementPeriod(_seconds(options.duration))
    window = next(length for length in WINDOWS if period.seconds <= length)
    config = narrow(load(file)[0], options.resources, options.threshold, window)
    if not config.judges_quantiles:
        raise ConfigError(f"{file}: metrics: proven has no quantile to judge; remove it, or use another file")
    try:
        account, seconds = run_on_loop(_measure(supervise(config, kubeconfig, context), period))
    except ConfigError as error:
        origin = "--resource" if options.resources else f"{file}: watch"
        raise ConfigError(f"{origin}: {error}") from None
    view = view_of(account.snapshot, account)
    result = CheckResult(account.snapshot, account.headline, view, seconds, period.seconds, not period.complete)
    if output == "json":
        print(json.dumps(_document(result), indent=2))  # noqa: T201 - the output of the command
    else:
        _print(result)
    return result.exit_code


def _seconds(text: str) -> float:
    longest = WINDOWS[-1]
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise ConfigError(f"--duration: {error}") from None
    if not SHORTEST_SECONDS <= seconds <= longest:
        raise ConfigError(f"--duration: {text} is out of range; write {SHORTEST_SECONDS:g}s to {longest / 60:g}m")
    return seconds


# Measuring


async def _measure(supervisor: Supervisor, period: MeasurementPeriod) -> tuple[Account, float]:
    """Measure once all watches are open, and show the progress; return the last account and the seconds measured."""
    stop, timeline = asyncio.Event(), Timeline()
    supervisor.on_evaluation(timeline.observe)
    with stop_signals(stop), _progress() as progress:
        async with TaskSupervisor(stop) as tasks:
            tasks.start("patience", partial(_wait, supervisor, period, progress, stop))
            snapshot = await supervisor.run(stop)
            return timeline.observe(snapshot), period.measured(time.monotonic())


async def _wait(supervisor: Supervisor, period: MeasurementPeriod, progress: Progress, stop: asyncio.Event) -> None:
    """Set `stop` when the period is over, or if no watch opened in time."""
    starting = progress.add_task("starting", total=START_SECONDS)
    while supervisor.starting and not progress.finished:
        await _advance(progress, starting)
        progress.update(starting, description=_start_obstacle(await supervisor.snapshot()))
    progress.remove_task(starting)
    if any(stream.up for stream in (await supervisor.snapshot()).streams):
        period.began = time.monotonic()
        measuring = progress.add_task("measuring", total=period.seconds + SEAL_SECONDS)
        while not progress.finished:
            await _advance(progress, measuring)
            progress.update(measuring, description=_so_far(await supervisor.snapshot()))
    period.complete = True
    stop.set()


async def _advance(progress: Progress, task: TaskID) -> None:
    await asyncio.sleep(LOOK_SECONDS)
    progress.advance(task, LOOK_SECONDS)


def _start_obstacle(snapshot: Snapshot) -> str:
    """Return the reason why the start still waits, so that a user can fix it at once."""
    return next(iter(snapshot.monitor.not_ready), "starting")


def _so_far(snapshot: Snapshot) -> str:
    """Count the events received: not all of them will be measured, but the user sees that events arrive."""
    events = sum(sum(stream.received.events.values()) for stream in snapshot.streams)
    up = sum(stream.up for stream in snapshot.streams)
    return f"measuring {counted(up, 'watch')}: {counted(events, 'event')}"


def _progress() -> Progress:
    console = plain_console(stderr=True)
    console.quiet = not console.is_terminal  # otherwise it would print an empty line
    return Progress(
        BarColumn(BAR_CHARACTERS),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1)),
        expand=True,  # a narrow terminal cuts the end of the text
        console=console,
        transient=True,
    )


# Printing


def _print(result: CheckResult) -> None:
    console, view = plain_console(), result.view
    console.print(draw(view.lines))
    for sentence in unready(view):
        console.print(sentence, style="yellow")
    for sentence in view.causes:
        console.print(sentence, style="bold")
    for sentence in hints(view):
        console.print(sentence, style="yellow")
    if result.interrupted:
        console.print(f"Interrupted: these are the figures of {result.seconds:.0f} s.", style="yellow")
    console.print(view.verdict, style=HEADLINE_STYLES[result.headline.level])


def _document(result: CheckResult) -> dict[str, object]:
    """Return the result for JSON; durations in seconds, null for unknown values and infinite bounds."""
    snapshot, view = result.snapshot, result.view
    unproven = {apiserver.name: apiserver.unproven for apiserver in snapshot.apiservers}
    return {
        "apiVersion": "v1",
        "at": datetime.fromtimestamp(snapshot.at_wall, UTC).isoformat(),
        "cluster": view.cluster,
        "part": view.part,
        "verdict": result.headline.verdict,
        "level": result.headline.level,
        "exitCode": result.exit_code,
        "asked": result.asked_seconds,
        "measured": round(result.seconds, 3),
        "interrupted": result.interrupted,
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
        "condition": line.condition,
        "threshold": line.threshold,
        "quantile": line.quantile,
        "events": line.events,
        "p50": _reading(line.quantiles.get(0.5)),
        "p99": _reading(line.quantiles.get(0.99)),
        "judged": _reading(line.judged),
        "resolution": line.resolution,
        "state": line.state,
        "stalled": line.stalled_for,
        "down": line.down_for,
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
        "rough": quantile.rough,
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
