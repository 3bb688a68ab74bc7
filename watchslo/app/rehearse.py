"""`watchslo rehearse`: starts informers with each list strategy, and recommends one for this cluster."""

import asyncio
import contextlib
import itertools
import json
import math
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import random
from typing import Any, Literal

from rich.filesize import decimal
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from watchslo.app import logs
from watchslo.app.advice import Advice, Outcome, advise, failing, headroom_sentence, outcomes
from watchslo.app.session import INTERRUPTED, run_on_loop, stop_signals
from watchslo.app.table import plain_console
from watchslo.errors import ConfigError, ConnectError
from watchslo.kube.connect import connect
from watchslo.kube.credentials import CredentialSource
from watchslo.kube.discovery import Discovery
from watchslo.kube.limiter import Limiter
from watchslo.model import SERVICE, Resource
from watchslo.monitor.apiserver import Apiserver
from watchslo.monitor.rehearsal import Headroom, Rehearsal, RehearsalRecord, count_objects, rehearse_once
from watchslo.timeline.format import ABSENT, counted, duration
from watchslo.watch.failure import Failure, Reason
from watchslo.watch.strategy import STRATEGIES, TAIL, Strategy

PAUSE_SECONDS = 1.0  # between two rehearsals, so that the apiserver can collect its garbage
ALL = "all"
UNLIMITED = 1e6  # requests a second: an informer asks for the next page as soon as it has one


@dataclass(frozen=True, slots=True)
class RehearseOptions:
    """Options of the command line; no namespace means all namespaces."""

    resources: tuple[str, ...]
    namespace: str | None
    strategies: tuple[str, ...]
    repeat: int
    max_objects: int

    @property
    def chosen(self) -> list[Strategy]:
        return [strategy for name, strategy in STRATEGIES.items() if {name, ALL} & set(self.strategies)]

    @property
    def lists_objects(self) -> bool:
        return self.chosen != [TAIL]


@dataclass(slots=True)
class Trial:
    """A resource, its number of objects, its rehearsals so far, and its headroom after the last one."""

    resource: Resource
    objects: int
    runs: list[Rehearsal] = field(default_factory=list)
    headroom: Headroom | None = None


def rehearse(
    kubeconfig: Path | None, context: str | None, options: RehearseOptions, output: Literal["table", "json"]
) -> int:
    """Rehearse, print the results, and return the exit code; raise WatchsloError if a rehearsal is impossible."""
    logs.set_up("console", "error")
    connection = connect(str(kubeconfig) if kubeconfig else None, context)
    trials: list[Trial] = []
    try:
        finished = run_on_loop(_conduct(connection, options, trials))
    finally:
        if rehearsed := [trial for trial in trials if trial.runs]:
            _show(rehearsed, options, output)
    return 0 if finished else INTERRUPTED


# Rehearsing


async def _conduct(connection: CredentialSource, options: RehearseOptions, trials: list[Trial]) -> bool:
    """Add to `trials`, one rehearsal after the other; return False if interrupted."""
    apiserver = Apiserver(SERVICE, connection, Limiter(UNLIMITED))
    stop = asyncio.Event()
    with stop_signals(stop), _progress() as progress:
        async with apiserver.client:
            return await _unless(stop, _rehearse_all(apiserver, options, trials, progress))


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Run the work until it ends or `stop` is set; return whether it ended by itself."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working
    return not working.cancelled()


async def _rehearse_all(
    apiserver: Apiserver, options: RehearseOptions, trials: list[Trial], progress: Progress
) -> None:
    strategies = options.chosen
    trials += await _prepare(apiserver, options)
    done = itertools.count()
    task = progress.add_task("", total=len(trials) * len(strategies) * options.repeat)
    for trial in trials:
        record = RehearsalRecord(apiserver.client, trial.resource, options.namespace)
        await record.begin()
        for strategy in strategies * options.repeat:
            number = next(done)
            progress.update(task, description=f"{trial.resource.key}: {strategy.name}", completed=number)
            await asyncio.sleep(PAUSE_SECONDS if number else 0.0)
            trial.runs.append(await _rehearse(apiserver, trial.resource, options, strategy))
            await record.note()
        trial.headroom = await record.end()


async def _rehearse(
    apiserver: Apiserver, resource: Resource, options: RehearseOptions, strategy: Strategy
) -> Rehearsal:
    run = await rehearse_once(strategy, apiserver.client, resource, options.namespace, random)
    if run.failure and run.hopeless:
        raise _refused(resource, run.failure)
    return run


async def _prepare(apiserver: Apiserver, options: RehearseOptions) -> list[Trial]:
    """Check all resources before the first rehearsal: they exist, may be listed, and are not too large."""
    catalogue = await Discovery(lambda: apiserver.client).refresh()
    if isinstance(catalogue, Failure):
        raise ConnectError(catalogue.message)
    resources = dict.fromkeys(catalogue.resolve(name) for name in options.resources)
    return [Trial(resource, await _count(apiserver, resource, options)) for resource in resources]


async def _count(apiserver: Apiserver, resource: Resource, options: RehearseOptions) -> int:
    count = await count_objects(apiserver.client, resource, options.namespace)
    if isinstance(count, Failure):
        raise _refused(resource, count)
    if count > options.max_objects and options.lists_objects:
        raise ConfigError(
            f"{resource.key}: there are {count:,} objects, and each rehearsal lists them all; "
            f"pass --max-objects {count} if the apiserver can handle that"
        )
    return count


def _refused(resource: Resource, failure: Failure) -> ConfigError:
    if failure.reason is Reason.FORBIDDEN:
        return ConfigError(
            f"{resource.key}: {failure.message} A rehearsal needs the verbs list and watch, as informers do."
        )
    return ConfigError(f"{resource.key}: {failure.message}")


def _progress() -> Progress:
    console = plain_console(stderr=True)
    console.quiet = not console.is_terminal  # otherwise it would print an empty line
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )


# Showing


def _show(trials: Sequence[Trial], options: RehearseOptions, output: Literal["table", "json"]) -> None:
    if output == "json":
        print(json.dumps([_document(trial, options) for trial in trials], indent=2))  # noqa: T201 - the output of the command
        return
    console = plain_console()
    for number, trial in enumerate(trials):
        if number:
            console.print()
        found, advice = outcomes(trial.runs), _advice(trial, options)
        console.print(f"{trial.resource.key}, {counted(trial.objects, 'object')}", style="bold")
        console.print(_draw(found, advice))
        for outcome in found.values():
            if not outcome.holds:
                console.print(f"{outcome.strategy}: {failing(outcome)}.", style="red")
        if trial.headroom:
            console.print(headroom_sentence(trial.headroom, found))
        console.print(_recommendation(advice), style="green" if advice and advice.strategy else "yellow")


def _advice(trial: Trial, options: RehearseOptions) -> Advice | None:
    """Return the advice, or None if not all requested runs were done."""
    complete = len(trial.runs) == options.repeat * len(options.chosen)
    return advise(outcomes(trial.runs)) if complete else None


def _recommendation(advice: Advice | None) -> str:
    if advice is None:
        return "No recommendation: the rehearsal ended before all runs were done."
    if advice.strategy is None:
        return f"Nothing to recommend. {advice.reason}"
    return f"Use {advice.strategy}. {advice.reason}"


def _draw(found: Mapping[str, Outcome], advice: Advice | None) -> Table:
    """Return a table with a column per strategy. Figures are of the median run; 429s and 410s are of all runs."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for outcome in found.values():
        recommended = advice is not None and advice.strategy == outcome.strategy
        style = "green" if recommended else "" if outcome.holds else "red"
        table.add_column(outcome.strategy, style=style, justify="right", no_wrap=True)
    columns = [_figures(outcome) for outcome in found.values()]
    for label in columns[0]:
        table.add_row(label, *(column[label] for column in columns))
    return table


def _figures(outcome: Outcome) -> dict[str, str]:
    run = outcome.typical
    times = [run.synced for run in outcome.runs if run.synced is not None]
    return {
        "synced in": _time(run.synced),
        **({"at best": _time(min(times, default=None))} if len(outcome.runs) > 1 else {}),
        **({"at worst": _time(max(times, default=None))} if len(outcome.runs) > 1 else {}),
        "requests": f"{run.requests:,}",
        "pages": f"{run.pages:,}",
        "objects": f"{run.objects:,}",
        "size": decimal(run.size),
        "events while listing": f"{run.events:,}",
        "peak buffer": decimal(run.waiting) if run.waiting else ABSENT,
        "answers 429": f"{outcome.throttled:,}",
        "answers 410": f"{outcome.expired:,}",
        "watch from there": _watch(outcome),
    }


def _time(seconds: float | None) -> str:
    return ABSENT if seconds is None else duration(seconds)


def _watch(outcome: Outcome) -> str:
    """Say whether the watch opened at the list's revision and stayed open."""
    if outcome.holds:
        return "started"
    if outcome.synced < len(outcome.runs):
        return f"{outcome.synced} of {len(outcome.runs)}" if outcome.synced else "never"
    return "after 410" if outcome.expired else f"by {outcome.typical.by}"


def _document(trial: Trial, options: RehearseOptions) -> dict[str, object]:
    """Return the results for JSON, in seconds and bytes; null for unknown values."""
    advice = _advice(trial, options)
    return {
        "resource": trial.resource.plural,
        "group": trial.resource.group,
        "objects": trial.objects,
        "use": advice and advice.strategy,
        "why": advice and advice.reason,
        "history": trial.headroom and _headroom_document(trial.headroom),
        "runs": [_run_document(run) for run in trial.runs],
    }


def _headroom_document(headroom: Headroom) -> dict[str, object]:
    proven = headroom.seconds
    return {
        "oldest": headroom.oldest,
        "revisions": headroom.revisions,
        "seconds": {
            "lower": proven.lower,
            "about": headroom.about,
            "upper": proven.upper if math.isfinite(proven.upper) else None,
        },
        "complete": headroom.complete,
    }


def _run_document(run: Rehearsal) -> dict[str, object]:
    return {
        "strategy": run.strategy,
        "by": run.by,
        "synced": run.synced,
        "requests": run.requests,
        "pages": run.pages,
        "objects": run.objects,
        "bytes": run.size,
        "events": run.events,
        "buffer": run.waiting,
        "throttled": run.throttled,
        "expired": {"list": run.expired_lists, "watch": run.expired_watches},
        "fellBack": run.fell_back,
        "failure": run.failure and run.failure.message,
    }
