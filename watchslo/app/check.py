"""`watchslo check`: one measurement, one verdict."""

import asyncio
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from watchslo.app import logs
from watchslo.app.session import run_on_loop, stop_signals, supervise
from watchslo.app.table import Line, diagnosis, draw, judge, plain_console
from watchslo.config import load, parse_duration
from watchslo.errors import ConfigError
from watchslo.history.judgement import P99, Verdict
from watchslo.monitor.crew import Crew
from watchslo.monitor.supervisor import Supervisor
from watchslo.snapshot import Snapshot

WINDOWS = (("1m", 60.0), ("5m", 300.0))
SHORTEST_SECONDS = 5.0
START_SECONDS = 30.0  # until the clock ticks and every watch is open; else whatever is there is measured
SEAL_SECONDS = 2.5  # for the last second to be sealed: it must end, and a tick must follow
LOOK_SECONDS = 0.2
EXIT_CODES = {Verdict.BEYOND: 1, Verdict.WITHIN: 0}
EXIT_UNMEASURED = 2


@dataclass(frozen=True, slots=True)
class Question:
    """What the command line asks: for how long, within what, of which resources; no resource means the configured."""

    duration: str
    threshold: str | None
    resources: tuple[str, ...]


def check(
    file: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    question: Question,
    output: Literal["table", "json"],
) -> int:
    """Measures, prints what was found, and returns the exit code; raises WatchsloError where it cannot begin."""
    logs.set_up("console", "error")
    seconds = _seconds(question.duration)
    config = load(file)[0].narrowed(question.resources, question.threshold)
    if not config.judges_quantiles:
        raise ConfigError(f"{file}: metrics: proven has no P99 to judge; check without it, or with another file")
    window = next(name for name, length in WINDOWS if seconds <= length)
    try:
        snapshot = run_on_loop(_measure(supervise(config, kubeconfig, context), seconds))
    except ConfigError as error:
        asked_by = "--resource" if question.resources else f"{file}: watch"
        raise ConfigError(f"{asked_by}: {error}") from None
    lines = judge(snapshot, window, config.objective.minutes.min_events)
    if output == "json":
        print(json.dumps(_document(lines, snapshot), indent=2))  # noqa: T201 - the answer itself
    else:
        _print(lines, snapshot)
    return _exit_code(lines)


def _seconds(text: str) -> float:
    longest = WINDOWS[-1][1]
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise ConfigError(f"--duration: {error}") from None
    if not SHORTEST_SECONDS <= seconds <= longest:
        raise ConfigError(f"--duration: {text} is out of range; write {SHORTEST_SECONDS:g}s to {longest / 60:g}m")
    return seconds


async def _measure(supervisor: Supervisor, seconds: float) -> Snapshot:
    """Measures for so many seconds from when all is up, or until interrupted, and shows how far it is."""
    stop = asyncio.Event()
    with stop_signals(stop), _progress() as progress:
        async with Crew(stop) as crew:
            crew.hire("patience", partial(_wait, supervisor, seconds, progress, stop))
            return await supervisor.run(stop)


async def _wait(supervisor: Supervisor, seconds: float, progress: Progress, stop: asyncio.Event) -> None:
    """Sets `stop` when it is enough, or nothing to measure has come up."""
    starting = progress.add_task("starting", total=START_SECONDS)
    while supervisor.starting and not progress.finished:
        await asyncio.sleep(LOOK_SECONDS)
        progress.advance(starting, LOOK_SECONDS)
    progress.remove_task(starting)
    if any(stream.up for stream in supervisor.snapshot().streams):
        measuring = progress.add_task("measuring", total=seconds + SEAL_SECONDS)
        while not progress.finished:
            await asyncio.sleep(LOOK_SECONDS)
            progress.advance(measuring, LOOK_SECONDS)
    stop.set()


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        console=plain_console(stderr=True),
        transient=True,
    )


def _print(lines: Sequence[Line], snapshot: Snapshot) -> None:
    console = plain_console()
    console.print(draw(lines))
    for apiserver in snapshot.apiservers:
        if apiserver.unproven:
            console.print(f"Unproven: {apiserver.unproven}.", style="bold red")
    for sentence in diagnosis(snapshot):
        console.print(sentence, style="bold")
    for reason in snapshot.monitor.not_ready:
        console.print(reason, style="yellow")


def _document(lines: Sequence[Line], snapshot: Snapshot) -> list[dict[str, object]]:
    """The answer for machines; durations in seconds, null where there is none or no bound."""
    unproven = {apiserver.name: apiserver.unproven for apiserver in snapshot.apiservers}
    return [
        {
            "watch": line.stream.watch,
            "apiserver": line.stream.apiserver,
            "resource": line.stream.resource,
            "group": line.stream.group,
            "verdict": line.verdict,
            "threshold": line.stream.track.objective.threshold,
            "events": line.window.events,
            "p50": _reading(line, 0.5),
            "p99": _reading(line, P99),
            "state": line.stream.state,
            "stalled": line.stream.stalled_for,
            "unproven": unproven[line.stream.apiserver],
            "failure": line.stream.last_failure and line.stream.last_failure.message,
        }
        for line in lines
    ]


def _reading(line: Line, q: float) -> dict[str, object] | None:
    if q not in line.quantiles:
        return None
    quantile = line.quantiles[q]
    return {
        "estimate": quantile.estimate,
        "lower": quantile.lower,
        "upper": quantile.upper if math.isfinite(quantile.upper) else None,
        "resolved": quantile.resolved,
    }


def _exit_code(lines: Sequence[Line]) -> int:
    verdicts = {line.verdict for line in lines}
    return next((code for verdict, code in EXIT_CODES.items() if verdict in verdicts), EXIT_UNMEASURED)
