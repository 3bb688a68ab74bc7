"""`watchslo verify`: verifies the guarantees of watches for a while, for example in the release tests of a cluster."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from rich.table import Table

from watchslo.app import logs
from watchslo.app.comparison import ApiserverComparison, MinutesOfExcess, compare, draw, is_url, listed, urls_of
from watchslo.app.exit_codes import BAD, GOOD, UNKNOWN
from watchslo.app.guarantees import document, sentences, totals
from watchslo.app.hints import problems, unready
from watchslo.app.measurement import MeasurementPeriod, MeasurementResult, measured, seconds_of
from watchslo.app.table import plain_console
from watchslo.app.terminal import view_of
from watchslo.config.loading import load, narrow
from watchslo.config.model import Config
from watchslo.config.sections.guarantees import GuaranteesConfig
from watchslo.config.sections.watch import WatchConfig
from watchslo.errors import ConfigError
from watchslo.snapshot import Snapshot, WatchReading
from watchslo.timeline.condition import name_of
from watchslo.timeline.format import counted, duration, some_of

LONGEST_SECONDS = 24 * 3600.0
WINDOW_SECONDS = 60.0
AUDITS = 2.0  # a second, at least: without them nothing is read a second time


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """Options of the command line; without resources, those of the configuration are watched.

    `each` watches every apiserver behind the service, `compare` those of these contexts and URLs: none may be slower
    than the fastest by more than `tolerance` seconds. `replay` begins at the oldest revision in reach, and `inventory`
    lists all objects to check the types of events. The resources are watched in `namespace`, or in all.
    """

    duration: str
    resources: tuple[str, ...]
    each: bool
    replay: bool = False
    inventory: bool = False
    compare: tuple[str, ...] = ()
    tolerance: float = 0.05
    namespace: str | None = None

    def check(self) -> None:
        """Refuse what does not fit together, by ConfigError."""
        if self.replay and self.inventory:
            raise ConfigError("--inventory: the objects of the past cannot be listed; remove --inventory or --replay")
        if len(self.compare) == 1:
            raise ConfigError("--compare: one apiserver has nothing to be compared with; name another one as well")
        if self.compare and (self.each or self.replay):
            other = "--each" if self.each else "--replay"
            raise ConfigError(f"--compare: {other} chooses the apiservers or the time itself; remove one of the two")


def verify(
    file: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    options: VerifyOptions,
    output: Literal["table", "json"],
) -> int:
    """Verify, print the result, and return the exit code; raise WatchsloError if it cannot start."""
    logs.set_up("console", "error")
    options.check()
    period = MeasurementPeriod(seconds_of(options.duration, LONGEST_SECONDS, "24h"), _so_far)
    narrowed = narrow(load(file)[0], options.resources, None, WINDOW_SECONDS, options.namespace)
    config = _verifying(narrowed, options, urls_of(kubeconfig, options.compare) if options.compare else None)
    if options.compare:
        context = context or next((name for name in options.compare if not is_url(name)), None)
    origin = "--resource" if options.resources else f"{file}: watch"
    minutes = MinutesOfExcess()
    measurement = measured(
        config,
        kubeconfig,
        context,
        period,
        origin,
        announces=output != "json",
        replay=options.replay,
        observe=minutes.observe,
    )
    compared = compare(minutes, listed(config, kubeconfig, context)) if options.compare else []
    found = Verification(measurement, compared, options.tolerance)
    if output == "json":
        print(json.dumps(_document(found), indent=2))  # noqa: T201 - the output of the command
    else:
        _print(found)
    return found.exit_code


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found: of the guarantees, and of the apiservers that were compared, if any were."""

    measurement: MeasurementResult
    compared: Sequence[ApiserverComparison]
    tolerance: float

    @property
    def slower(self) -> list[str]:
        """A sentence for each way in which an apiserver is slower than the fastest by more than the tolerance."""
        return [sentence for comparison in self.compared for sentence in comparison.slower(self.tolerance)]

    @property
    def is_violated(self) -> bool:
        return any(total.violations for total in self.measurement.guarantees)

    @property
    def is_checked(self) -> bool:
        """Whether an event arrived."""
        return any(watch.received.changes for watch in self.measurement.snapshot.watches)

    @property
    def exit_code(self) -> int:
        """Bad if a guarantee was violated or an apiserver is slower, unknown if nothing was checked or compared."""
        if self.is_violated or self.slower:
            return BAD
        return GOOD if self.is_checked and all(comparison.is_compared for comparison in self.compared) else UNKNOWN


def _verifying(config: Config, options: VerifyOptions, compared: tuple[str, ...] | None) -> Config:
    """Return the configuration with everything that verifies guarantees, at the apiservers that are compared."""
    limits = {"audits_per_second": max(AUDITS, config.limits.audits_per_second)}
    changes: dict[str, object] = {
        "guarantees": GuaranteesConfig(level="full"),
        "limits": config.limits.model_copy(update=limits),
    }
    if options.each or compared:
        changes["kubernetes"] = config.kubernetes.model_copy(update={"apiservers": compared or "each"})
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
    up = counted(sum(watch.up for watch in snapshot.watches), "watch")
    return f"verifying {up}: {checks}, {counted(sum(total.violations for total in found), 'violation')}"


# Printing


def _print(verification: Verification) -> None:
    console, measurement = plain_console(), verification.measurement
    found = measurement.guarantees
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("GUARANTEE")
    table.add_column("CHECKS", justify="right")
    table.add_column("VIOLATIONS", justify="right")
    for total in found:
        style = "bold red" if total.violations else "green" if total.checked else "dim"
        table.add_row(total.guarantee, f"{total.checked:,}", f"{total.violations:,}", style=style)
    console.print(table)
    if verification.compared:
        console.print()
        console.print(draw(verification.compared))
    for sentence in _about_past(measurement.snapshot.watches):
        console.print(sentence)
    view = view_of(measurement.snapshot)
    for sentence in (*unready(view), *problems(view)):
        console.print(sentence, style="yellow")
    if interruption := measurement.interruption:
        console.print(interruption, style="yellow")
    if not verification.is_checked:
        advice = " Watch resources that change." if any(line.up for line in view.lines) else ""
        console.print(f"Nothing was verified: no event arrived.{advice}", style="yellow")
        return
    for sentence in sentences(found):
        console.print(sentence, style="bold red" if verification.is_violated else "green")
    for sentence in verification.slower or _no_slower(verification):
        console.print(sentence, style="bold red" if verification.slower else "green")


def _no_slower(verification: Verification) -> Iterator[str]:
    """Say that no apiserver is slower, or of which that is not known; nothing if none were compared."""
    unknown = [comparison.apiserver for comparison in verification.compared if not comparison.is_compared]
    if unknown:
        yield f"{some_of(unknown)} cannot be compared: too few events arrived there and at another apiserver."
    elif verification.compared:
        yield f"No apiserver is slower than the fastest by more than {duration(verification.tolerance)}."


def _about_past(watches: Iterable[WatchReading]) -> Iterator[str]:
    """Yield sentences about what was read of the past; none without a replay."""
    replays = {name_of(watch): watch.replay for watch in watches if watch.replay}
    if replays:
        yield f"Of the past came {counted(sum(replay.events for replay in replays.values()), 'event')}."
    for name, replay in replays.items():
        if replay.obstacle:
            yield f"{name} began now, because no oldest revision was found: {replay.obstacle}"


def _document(verification: Verification) -> dict[str, object]:
    """Return the result for JSON, with the counts of each watch; durations in seconds."""
    measurement = verification.measurement
    snapshot = measurement.snapshot
    return {
        "apiVersion": "v1",
        "at": datetime.fromtimestamp(snapshot.at_wall, UTC).isoformat(),
        "exitCode": verification.exit_code,
        **measurement.document,
        "guarantees": document(measurement.guarantees),
        "watches": [_watch(watch) for watch in snapshot.watches],
        "notReady": list(snapshot.monitor.not_ready),
        "compared": [comparison.document for comparison in verification.compared],
    }


def _watch(watch: WatchReading) -> dict[str, object]:
    return {
        "watch": watch.watch,
        "apiserver": watch.apiserver,
        "resource": watch.resource,
        "group": watch.group,
        "events": watch.received.changes,
        "checked": dict(watch.guarantees.checked),
        "violations": dict(watch.guarantees.violations),
        "state": watch.session.state,
        "past": watch.replay and watch.replay.events,
        "beganNow": watch.replay and watch.replay.obstacle,
    }
