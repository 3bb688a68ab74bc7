"""`watchslo check`: measures once and prints one verdict."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from msgspec import to_builtins

from watchslo.api.part import part_of
from watchslo.api.status import CauseStatus
from watchslo.app import logs
from watchslo.app.guarantees import document
from watchslo.app.hints import hints, unready
from watchslo.app.measurement import MeasurementPeriod, MeasurementResult, measured, seconds_of
from watchslo.app.table import LEVEL_STYLES, plain_console, print_tables
from watchslo.app.terminal import Line, View, view_of
from watchslo.config.loading import load, narrow
from watchslo.errors import ConfigError
from watchslo.snapshot import Snapshot
from watchslo.timeline.format import counted
from watchslo.timeline.verdict import Level

WINDOWS = (60.0, 300.0)
RESOURCES = "RESOURCE"  # what the help of the command calls its arguments
EXIT_CODES = {Level.GOOD: 0, Level.BAD: 1, Level.UNKNOWN: 2}


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
        is_violated = any(total.violations for total in self.measurement.guarantees)
        return Level.BAD if is_violated else self.measurement.account.headline.level

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.level]

    @property
    def hints(self) -> list[str]:
        """Return what is wrong or in doubt, in sentences."""
        groups = self.measurement.snapshot.monitor.incomplete_groups if self.everything else ()
        left_out = [f"Not all resources of {group.name} are measured. {group.why}" for group in groups]
        return [*hints(self.view), *left_out]


def check(
    file: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    options: CheckOptions,
    output: Literal["table", "json"],
) -> int:
    """Measure, print the result, and return the exit code; raise WatchsloError if the measurement cannot start."""
    logs.set_up("console", "error")
    period = MeasurementPeriod(seconds_of(options.duration, WINDOWS[-1], "5m"), _so_far)
    window = next(length for length in WINDOWS if period.seconds <= length)
    config = narrow(load(file)[0], options.resources, options.threshold, window, options.namespace, named_by=RESOURCES)
    if config.mode == "node":
        raise ConfigError(f"{file}: mode: node has no quantile to judge; remove it, or use another file")
    origin = RESOURCES if options.resources else f"{file}: watch"
    measurement = measured(config, kubeconfig, context, period, origin, announces=output != "json")
    everything = any(watch.resource == "*" for watch in config.watch)
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
    for total in result.measurement.guarantees:
        if total.violations:
            console.print(total.sentence, style="bold red")
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
