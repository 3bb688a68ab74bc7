"""Prints the results of rehearsals for people: a table for each resource, or one for all of them."""

import json
from collections.abc import Mapping, Sequence
from typing import Literal

from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from watchslo.kube.credentials import ClusterPlace
from watchslo.rehearse.advice import Advice, advise, headroom_sentence
from watchslo.rehearse.document import document
from watchslo.rehearse.options import RehearseOptions
from watchslo.rehearse.outcome import Outcome, failing, outcomes
from watchslo.rehearse.rehearsal import Rehearsal
from watchslo.rehearse.trial import Trial
from watchslo.timeline.format import ABSENT, counted, duration

UNKNOWN = "unknown"
BY_VERSION = "A ? marks what apiservers of this version do by default; the apiserver's own counters did not prove it."


def show(
    console: Console,
    trials: Sequence[Trial],
    options: RehearseOptions,
    output: Literal["table", "json"],
    place: ClusterPlace | None,
) -> None:
    """Print the trials; those that were not rehearsed with the reason, or with what would be done.

    Each document of JSON names the place.
    """
    if output == "json":
        documents = [document(trial, advice_of(trial), place) for trial in trials]
        print(json.dumps(documents, indent=2))  # noqa: T201 - the output of the command
        return
    if options.dry_run:
        console.print(_planned(trials))
    elif options.every:
        console.print(_summary(trials))
    else:
        for number, trial in enumerate(trials):
            if number:
                console.print()
            _show_one(console, trial)
    for trial in trials if options.every else ():
        if trial.skipped:
            console.print(f"{trial.resource.key} was skipped: {trial.skipped}.", style="yellow")


def advice_of(trial: Trial) -> Advice | None:
    """Return the advice, or None if not all requested runs were done."""
    return advise(outcomes(trial.runs)) if trial.runs and trial.is_complete else None


def _show_one(console: Console, trial: Trial) -> None:
    found, advice = outcomes(trial.runs), advice_of(trial)
    console.print(f"{trial.resource.key}, {counted(trial.objects, 'object')}", style="bold")
    console.print(_draw(found, advice))
    for outcome in found.values():
        if not outcome.holds:
            console.print(f"{outcome.strategy}: {failing(outcome)}.", style="red")
    for note in _notes(trial.runs):
        console.print(note)
    if trial.headroom:
        console.print(headroom_sentence(trial.headroom, found))
    console.print(recommendation(advice), style="green" if advice and advice.strategy else "yellow")


def recommendation(advice: Advice | None) -> str:
    """Return the advice as a sentence."""
    if advice is None:
        return "No recommendation: the rehearsal ended before all runs were done."
    if advice.strategy is None:
        return f"Nothing to recommend. {advice.reason}"
    return f"Use {advice.strategy}. {advice.reason}"


def _notes(runs: Sequence[Rehearsal]) -> list[str]:
    """Explain what is unknown or unsure in the table."""
    unknown = dict.fromkeys(run.cost.unknown for run in runs if run.cost and run.cost.unknown)
    notes = [f"The CPU and the memory of the apiserver are unknown: {why}." for why in unknown]
    if any(run.source and not run.source.is_certain for run in runs):
        notes.append(BY_VERSION)
    return notes


def _planned(trials: Sequence[Trial]) -> Table:
    """Return a table of what would be rehearsed."""
    table = _table()
    for name in ("RESOURCE", "OBJECTS", "A LIST", "RUNS", "IN TOTAL"):
        table.add_column(name, justify="left" if name == "RESOURCE" else "right")
    table.add_column("STRATEGIES", overflow="fold")
    for trial in trials:
        if trial.skipped is None:
            size = trial.census.size if trial.census else 0
            figures = f"{trial.objects:,}", decimal(size), f"{len(trial.planned):,}", decimal(trial.expected_size)
            table.add_row(trial.resource.key, *figures, ", ".join(trial.strategies))
    return table


def _summary(trials: Sequence[Trial]) -> Table:
    """Return a table with a row for each resource that was rehearsed."""
    table = _table()
    for name in ("RESOURCE", "OBJECTS", "USE", "SYNCED IN", "SIZE", "LISTS FROM"):
        table.add_column(name, justify="right" if name in ("OBJECTS", "SYNCED IN", "SIZE") else "left")
    table.add_column("WHY", overflow="fold")
    for trial in trials:
        if trial.runs:
            advice, found = advice_of(trial), outcomes(trial.runs)
            use = advice.strategy if advice else None
            cells = _figures_of_best(found[use]) if use else (ABSENT, ABSENT, ABSENT)
            why = advice.reason if advice else recommendation(None)
            table.add_row(trial.resource.key, f"{trial.objects:,}", use or ABSENT, *cells, why)
    return table


def _figures_of_best(outcome: Outcome) -> tuple[str, str, str]:
    run = outcome.typical
    return _time(run.synced), decimal(run.size), _source(run)


def _table() -> Table:
    return Table(box=None, pad_edge=False, header_style="bold")


def _draw(found: Mapping[str, Outcome], advice: Advice | None) -> Table:
    """Return a table with a column per strategy. Figures are of the median run; 429s and 410s are of all runs."""
    table = _table()
    table.add_column("")
    for outcome in found.values():
        recommended = advice is not None and advice.strategy == outcome.strategy
        style = "green" if recommended else "" if outcome.holds else "red"
        table.add_column(outcome.strategy, style=style, justify="right", no_wrap=True)
    columns = [_figures(outcome) for outcome in found.values()]
    for label in columns[0] if columns else ():
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
        "lists from": _source(run),
        "apiserver CPU": UNKNOWN if run.cost is None or run.cost.unknown else duration(run.cost.cpu),
        "apiserver memory": _memory(run),
    }


def _time(seconds: float | None) -> str:
    return ABSENT if seconds is None else duration(seconds)


def _source(run: Rehearsal) -> str:
    """Return where the lists came from, with a question mark if only the version says so."""
    if run.source is None:
        return UNKNOWN
    return f"{run.source.origin}{'' if run.source.is_certain else '?'}"


def _memory(run: Rehearsal) -> str:
    """Return how much the memory grew or shrank, and to what: `+12.0 MB to 612.4 MB`."""
    if run.cost is None or run.cost.unknown:
        return UNKNOWN
    change = round(run.cost.memory_after - run.cost.memory_before)
    return f"{'-' if change < 0 else '+'}{decimal(abs(change))} to {decimal(round(run.cost.memory_after))}"


def _watch(outcome: Outcome) -> str:
    """Say whether the watch opened at the list's revision and stayed open."""
    if outcome.holds:
        return "started"
    if outcome.synced < len(outcome.runs):
        return f"{outcome.synced} of {len(outcome.runs)}" if outcome.synced else "never"
    return "after 410" if outcome.expired else f"by {outcome.typical.by}"
