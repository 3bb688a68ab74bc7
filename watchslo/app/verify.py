"""`watchslo verify`: verifies the guarantees of watches for a while, for example in the release tests of a cluster."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from rich.table import Table

from watchslo.app import logs
from watchslo.app.guarantees import document, sentences, totals
from watchslo.app.hints import problems, unready
from watchslo.app.measurement import MeasurementPeriod, MeasurementResult, measured, seconds_of
from watchslo.app.table import plain_console
from watchslo.app.view import view_of
from watchslo.config.loading import load, narrow
from watchslo.config.model import Config, GuaranteesConfig, WatchConfig
from watchslo.errors import ConfigError
from watchslo.snapshot import Snapshot, StreamReading
from watchslo.timeline.condition import name_of
from watchslo.timeline.format import counted

LONGEST_SECONDS = 24 * 3600.0
WINDOW_SECONDS = 60.0
AUDITS = 2.0  # a second, at least: without them nothing is read a second time
VERIFIED, VIOLATED, UNKNOWN = 0, 1, 2  # exit codes


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """Options of the command line; without resources, those of the configuration are watched.

    `each` watches every apiserver behind the service, `replay` begins at the oldest revision in reach, and `inventory`
    lists all objects to check the types of events.
    """

    duration: str
    resources: tuple[str, ...]
    each: bool
    replay: bool = False
    inventory: bool = False


def verify(
    file: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    options: VerifyOptions,
    output: Literal["table", "json"],
) -> int:
    """Verify, print the result, and return the exit code; raise WatchsloError if it cannot start."""
    logs.set_up("console", "error")
    if options.replay and options.inventory:
        raise ConfigError("--inventory: the objects of the past cannot be listed; remove --inventory or --replay")
    period = MeasurementPeriod(seconds_of(options.duration, LONGEST_SECONDS, "24h"), _so_far)
    config = _verifying(narrow(load(file)[0], options.resources, None, WINDOW_SECONDS), options)
    origin = "--resource" if options.resources else f"{file}: watch"
    found = measured(config, kubeconfig, context, period, origin, replay=options.replay)
    if output == "json":
        print(json.dumps(_document(found), indent=2))  # noqa: T201 - the output of the command
    else:
        _print(found)
    return _exit_code(found)


def _exit_code(found: MeasurementResult) -> int:
    """Return 1 if a guarantee was violated, 2 if no event was checked, else 0."""
    if any(total.violations for total in found.guarantees):
        return VIOLATED
    return VERIFIED if any(stream.received.changes for stream in found.snapshot.streams) else UNKNOWN


def _verifying(config: Config, options: VerifyOptions) -> Config:
    """Return the configuration with everything that verifies guarantees."""
    limits = {"audits_per_second": max(AUDITS, config.limits.audits_per_second)}
    changes: dict[str, object] = {
        "guarantees": GuaranteesConfig(level="full"),
        "limits": config.limits.model_copy(update=limits),
    }
    if options.each:
        changes["kubernetes"] = config.kubernetes.model_copy(update={"apiservers": "each"})
    if options.inventory:
        changes |= {"watch": tuple(map(_with_inventory, config.watch)), "reference": None}
    return config.model_copy(update=changes)


def _with_inventory(watch: WatchConfig) -> WatchConfig:
    strategy = "paged" if watch.strategy == "tail" else watch.strategy
    return watch.model_copy(
        update={"inventory": True, "strategy": strategy, "representation": "metadata", "reference": False}
    )


def _so_far(snapshot: Snapshot) -> str:
    found = totals(snapshot)
    checks = counted(sum(total.checked for total in found), "check")
    up = counted(sum(stream.up for stream in snapshot.streams), "watch")
    return f"verifying {up}: {checks}, {counted(sum(total.violations for total in found), 'violation')}"


# Printing


def _print(measurement: MeasurementResult) -> None:
    console, found, exit_code = plain_console(), measurement.guarantees, _exit_code(measurement)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("GUARANTEE")
    table.add_column("CHECKS", justify="right")
    table.add_column("VIOLATIONS", justify="right")
    for total in found:
        style = "bold red" if total.violations else "green" if total.checked else "dim"
        table.add_row(total.guarantee, f"{total.checked:,}", f"{total.violations:,}", style=style)
    console.print(table)
    for sentence in _about_past(measurement.snapshot.streams):
        console.print(sentence)
    view = view_of(measurement.snapshot)
    for sentence in (*unready(view), *problems(view)):
        console.print(sentence, style="yellow")
    if interruption := measurement.interruption:
        console.print(interruption, style="yellow")
    if exit_code == UNKNOWN:
        advice = " Watch resources that change." if any(line.up for line in view.lines) else ""
        console.print(f"Nothing was verified: no event arrived.{advice}", style="yellow")
        return
    for sentence in sentences(found):
        console.print(sentence, style="bold red" if exit_code == VIOLATED else "green")


def _about_past(streams: Iterable[StreamReading]) -> Iterator[str]:
    """Yield sentences about what was read of the past; none without a replay."""
    replays = {name_of(stream): stream.replay for stream in streams if stream.replay}
    if replays:
        yield f"Of the past came {counted(sum(replay.events for replay in replays.values()), 'event')}."
    for name, replay in replays.items():
        if replay.obstacle:
            yield f"{name} began now, because no oldest revision was found: {replay.obstacle}"


def _document(measurement: MeasurementResult) -> dict[str, object]:
    """Return the result for JSON, with the counts of each watch; durations in seconds."""
    snapshot = measurement.snapshot
    return {
        "apiVersion": "v1",
        "at": datetime.fromtimestamp(snapshot.at_wall, UTC).isoformat(),
        "exitCode": _exit_code(measurement),
        **measurement.document,
        "guarantees": document(measurement.guarantees),
        "watches": [_watch(stream) for stream in snapshot.streams],
        "notReady": list(snapshot.monitor.not_ready),
    }


def _watch(stream: StreamReading) -> dict[str, object]:
    return {
        "watch": stream.watch,
        "apiserver": stream.apiserver,
        "resource": stream.resource,
        "group": stream.group,
        "events": stream.received.changes,
        "checked": dict(stream.guarantees.checked),
        "violations": dict(stream.guarantees.violations),
        "state": stream.session.state,
        "past": stream.replay and stream.replay.events,
        "beganNow": stream.replay and stream.replay.obstacle,
    }
