"""`watchslo check`: measures once, and prints one verdict on a cluster, or one on each of several."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from msgspec import to_builtins

from watchslo.api.part import part_of
from watchslo.api.status import CauseStatus
from watchslo.app import logs
from watchslo.app.exit_codes import EXIT_CODES
from watchslo.app.fleet import FleetRow, draw_fleet, worst_first, worst_level
from watchslo.app.guarantees import document
from watchslo.app.hints import hints, unready
from watchslo.app.measurement import MeasurementPeriod, MeasurementResult, measured, measured_together, seconds_of
from watchslo.app.table import LEVEL_STYLES, plain_console, print_tables
from watchslo.app.terminal import Line, View, view_of
from watchslo.config.loading import load, narrow
from watchslo.errors import ConfigError, WatchsloError
from watchslo.kube.connect import matching_contexts
from watchslo.snapshot import Snapshot
from watchslo.timeline.format import counted, printable
from watchslo.timeline.verdict import Level

WINDOWS = (60.0, 300.0)
RESOURCES = "RESOURCE"  # what the help of the command calls its arguments


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """Options of the command line; without resources, those of the configuration are measured.

    The resources are watched in `namespace`, or in all.
    """

    duration: str
    threshold: str | None
    resources: tuple[str, ...]
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The measurement, and its verdict on latencies; `everything` says that all resources were to be measured."""

    measurement: MeasurementResult
    view: View
    everything: bool = False

    @property
    def level(self) -> Level:
        """The level of the verdict; a violated guarantee is bad whatever the latencies are."""
        return Level.BAD if self.violations else self.measurement.account.headline.level

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.level]

    @property
    def hints(self) -> list[str]:
        """Return what is wrong or in doubt, in sentences."""
        groups = self.measurement.snapshot.monitor.incomplete_groups if self.everything else ()
        left_out = [f"Not all resources of {group.name} are measured. {group.why}" for group in groups]
        return [*hints(self.view), *left_out]

    @property
    def violations(self) -> list[str]:
        """A sentence for each violated guarantee."""
        return [total.sentence for total in self.measurement.guarantees if total.violations]

    @property
    def reason(self) -> str | None:
        """One sentence on why the verdict is not good, or None."""
        said = self.view.verdict
        match self.level:
            case Level.GOOD:
                return None
            case Level.BAD if self.measurement.account.headline.level is not Level.BAD:
                return self.violations[0]
            case Level.BAD:
                return said
            case Level.UNKNOWN:
                return next(iter([*unready(self.view), *self.hints]), said)


def check(
    file: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    options: CheckOptions,
    output: Literal["table", "json"],
) -> int:
    """Measure, print the result, and return the exit code; raise WatchsloError if the measurement cannot start.

    If `context` is a regular expression that matches several contexts, all their clusters are measured.
    """
    logs.set_up("console", "error")
    period = MeasurementPeriod(seconds_of(options.duration, WINDOWS[-1], "5m"), _so_far)
    window = next(length for length in WINDOWS if period.seconds <= length)
    config = narrow(load(file)[0], options.resources, options.threshold, window, options.namespace, named_by=RESOURCES)
    if config.mode == "node":
        raise ConfigError(f"{file}: mode: node has no quantile to judge; remove it, or use another file")
    origin = RESOURCES if options.resources else f"{file}: watch"
    everything = any(watch.resource == "*" for watch in config.watch)
    named = str(kubeconfig) if kubeconfig else config.kubernetes.kubeconfig
    contexts = matching_contexts(named, context) if context else []
    if len(contexts) > 1:
        found = measured_together(config, kubeconfig, contexts, period, origin)
        return _show_fleet({name: _judged(result, everything) for name, result in found.items()}, output)
    chosen = contexts[0] if contexts else None
    measurement = measured(config, kubeconfig, chosen, period, origin, announces=output != "json")
    result = CheckResult(measurement, view_of(measurement.snapshot, measurement.account), everything)
    if output == "json":
        print(json.dumps(_document(result), indent=2))  # noqa: T201 - the output of the command
    else:
        _print(result)
    return result.exit_code


def _so_far(snapshot: Snapshot) -> str:
    """Count the events received: not all of them will be measured, but the user sees that events arrive."""
    events = sum(sum(watch.received.events.values()) for watch in snapshot.watches)
    up = sum(watch.up for watch in snapshot.watches)
    return f"measuring {counted(up, 'watch')}: {counted(events, 'event')}"


# Several clusters

ClusterOutcome = CheckResult | WatchsloError
"""The result of one of several clusters, or why it could not be measured."""


def _judged(found: MeasurementResult | WatchsloError, everything: bool) -> ClusterOutcome:  # noqa: FBT001 - as the field
    if isinstance(found, WatchsloError):
        return found
    return CheckResult(found, view_of(found.snapshot, found.account), everything)


def _show_fleet(found: Mapping[str, ClusterOutcome], output: Literal["table", "json"]) -> int:
    """Print the result of each cluster, the worst first; return the exit code of the worst."""
    rows = worst_first(_row(context, outcome) for context, outcome in found.items())
    code = EXIT_CODES[worst_level(rows)]
    if output == "json":
        clusters = [_document_of(row, found[row.context]) for row in rows]
        fleet = {"apiVersion": "v1", "level": worst_level(rows), "exitCode": code, "clusters": clusters}
        print(json.dumps(fleet, indent=2))  # noqa: T201 - the output of the command
    else:
        results = [outcome.measurement for outcome in found.values() if isinstance(outcome, CheckResult)]
        _print_fleet(rows, max((result.seconds for result in results if result.interrupted), default=None))
    return code


def _row(context: str, outcome: ClusterOutcome) -> FleetRow:
    if isinstance(outcome, WatchsloError):
        return FleetRow(context, Level.UNKNOWN, (), str(outcome))
    return FleetRow(context, outcome.level, outcome.view.lines, outcome.reason)


def _document_of(row: FleetRow, outcome: ClusterOutcome) -> dict[str, object]:
    if isinstance(outcome, CheckResult):
        return _document(outcome)
    return {"context": row.context, "level": row.level, "exitCode": EXIT_CODES[row.level], "error": row.reason}


def _print_fleet(rows: Sequence[FleetRow], interrupted_after: float | None) -> None:
    """Print the table, and each reason once, with the clusters that it concerns."""
    console, reasons = plain_console(), defaultdict[tuple[str, Level], list[str]](list)
    console.print(draw_fleet(rows))
    for row in rows:
        if row.reason:
            reasons[row.reason, row.level].append(printable(row.context))
    for (reason, level), contexts in reasons.items():
        console.print(f"{', '.join(contexts)}: {reason}", style=LEVEL_STYLES[level])
    if interrupted_after is not None:
        console.print(f"Interrupted: these are the figures of at most {interrupted_after:.0f} s.", style="yellow")


# Printing


def _print(result: CheckResult) -> None:
    console, view = plain_console(), result.view
    print_tables(console, view, view.lines)
    for sentence in unready(view):
        console.print(sentence, style="yellow")
    for sentence in view.causes:
        console.print(sentence, style="bold")
    for sentence in result.hints:
        console.print(sentence, style="yellow")
    for sentence in result.violations:
        console.print(sentence, style="bold red")
    if interruption := result.measurement.interruption:
        console.print(interruption, style="yellow")
    console.print(view.verdict, style=LEVEL_STYLES[result.level])


def _document(result: CheckResult) -> dict[str, object]:
    """Return the result for JSON; durations in seconds, null for unknown values and infinite bounds."""
    measurement, view = result.measurement, result.view
    snapshot = measurement.snapshot
    unproven = {apiserver.name: apiserver.unproven for apiserver in snapshot.apiservers}
    return {
        "apiVersion": "v1",
        "at": datetime.fromtimestamp(snapshot.at_wall, UTC).isoformat(),
        "cluster": view.cluster,
        "part": view.part,
        "verdict": measurement.account.headline.verdict,
        "level": result.level,
        "exitCode": result.exit_code,
        **measurement.document,
        "watches": [_watch(line, unproven[line.apiserver]) for line in view.lines],
        "reactions": to_builtins(view.reactions),
        "clients": to_builtins(view.clients),
        "guarantees": document(measurement.guarantees),
        "causes": [to_builtins(part_of(CauseStatus, cause)) for cause in snapshot.causes],
        "notReady": list(snapshot.monitor.not_ready),
        "hints": result.hints,
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
        "received": line.received,
        "undated": line.undated,
        "p50": to_builtins(line.quantiles.get(0.5)),
        "p99": to_builtins(line.quantiles.get(0.99)),
        "p999": to_builtins(line.quantiles.get(0.999)),
        "judged": to_builtins(line.judged),
        "state": line.state,
        "stalled": line.stalled_for,
        "down": line.down_for,
        "unproven": unproven,
        "failure": line.failure,
    }
