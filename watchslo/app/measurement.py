"""Measures clusters for a while, for commands: waits until watches are open, shows the progress, and stops."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

from watchslo.app.guarantees import GuaranteeTotal, totals
from watchslo.app.session import run_on_loop, stop_signals, supervise
from watchslo.app.table import plain_console
from watchslo.config.model import Config
from watchslo.config.values import parse_duration
from watchslo.errors import ConfigError, WatchsloError
from watchslo.kube.credentials import ClusterPlace
from watchslo.monitor.readiness import StartState
from watchslo.monitor.supervisor import Supervisor
from watchslo.monitor.tasks.task_supervisor import TaskSupervisor
from watchslo.snapshot import Snapshot
from watchslo.timeline.format import printable
from watchslo.timeline.timeline import Account, Timeline

SHORTEST_SECONDS = 5.0
START_SECONDS = 30.0  # to wait until the clock ticks and every watch is open; then the open ones are measured
UNREACHABLE_SECONDS = 10.0  # to wait for a cluster of which no answer came: more would only delay the reason
PATIENCE = {StartState.OPENING: START_SECONDS, StartState.UNREACHABLE: UNREACHABLE_SECONDS}
"""For how many seconds a start is waited for; not at all in other states."""
SEAL_SECONDS = 2.5  # until the last second is sealed: it must end, and a tick must follow
LOOK_SECONDS = 0.2
BAR_CHARACTERS = 20
REFRESHES = 10.0  # a second, of all lines of the progress together: drawing delays what is measured
SLOWEST_REFRESHES = 1.0  # a second


@dataclass(slots=True)
class MeasurementPeriod:
    """The requested seconds of measurement, its start in monotonic seconds, and whether it is complete.

    `so_far` says what a snapshot within the period shows, in a few words.
    """

    seconds: float
    so_far: Callable[[Snapshot], str]
    began: float | None = None
    complete: bool = False

    def measured(self, now: float) -> float:
        """Return the seconds measured so far, at most those requested."""
        return 0.0 if self.began is None else min(self.seconds, now - self.began)


@dataclass(frozen=True, slots=True)
class MeasurementResult:
    """What was measured: the last account, the seconds measured and asked for, and whether a signal interrupted it.

    `place` is which cluster; None for simulated ones.
    """

    place: ClusterPlace | None
    account: Account
    seconds: float
    asked_seconds: float
    interrupted: bool

    @property
    def snapshot(self) -> Snapshot:
        return self.account.snapshot

    @property
    def guarantees(self) -> list[GuaranteeTotal]:
        return totals(self.snapshot)

    @property
    def interruption(self) -> str | None:
        """A sentence if a signal interrupted it, else None."""
        return f"Interrupted: these are the figures of {self.seconds:.0f} s." if self.interrupted else None

    @property
    def document(self) -> dict[str, object]:
        """Which cluster and how long it was, for JSON; durations in seconds."""
        return {
            "context": self.place and self.place.context,
            "server": self.place and self.place.shown_server,
            "asked": self.asked_seconds,
            "measured": round(self.seconds, 3),
            "interrupted": self.interrupted,
        }


def seconds_of(text: str, longest: float, shown: str) -> float:
    """Return the seconds of the option `--duration`; `shown` is the longest that is accepted, as the user writes it.

    Raises:
        ConfigError: the text is no duration, or out of range.
    """
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise ConfigError(f"--duration: {error}") from None
    if not SHORTEST_SECONDS <= seconds <= longest:
        raise ConfigError(f"--duration: {text} is out of range; write {SHORTEST_SECONDS:g}s to {shown}")
    return seconds


def measured(
    config: Config,
    kubeconfig: Path | None,
    context: str | None,
    period: MeasurementPeriod,
    origin: str,
    *,
    announces: bool,
    replay: bool = False,
    observe: Callable[[Snapshot], object] = lambda _: None,
) -> MeasurementResult:
    """Measure a cluster for a period; `observe` gets the snapshot of each evaluation.

    With `announces`, the first line of the output says which cluster it is. With `replay`, watches begin at the oldest
    revision in reach, and no latency is measured.

    Raises:
        ConfigError: a resource does not exist; `origin` is where it was named.
    """
    supervisor = supervise(config, kubeconfig, context, replay=replay)
    if announces and supervisor.place:
        plain_console().print(supervisor.place.text, soft_wrap=True)
    (result,) = run_on_loop(_run_all([_ClusterMeasurement(supervisor, period, origin, observe)]))
    if isinstance(result, ConfigError):
        raise result
    return result


def measured_together(
    config: Config, kubeconfig: Path | None, contexts: Iterable[str], period: MeasurementPeriod, origin: str
) -> Mapping[str, MeasurementResult | WatchsloError]:
    """Measure the clusters of these contexts at the same time; return what was found, or the error, by context."""
    errors: dict[str, WatchsloError] = {}
    measurements: dict[str, _ClusterMeasurement] = {}
    for context in contexts:
        try:
            supervisor = supervise(config, kubeconfig, context)
        except WatchsloError as error:
            errors[context] = error
        else:
            prefix = f"{printable(context)}: "
            measurements[context] = _ClusterMeasurement(supervisor, replace(period), origin, prefix=prefix)
    found = run_on_loop(_run_all([*measurements.values()]))
    return errors | dict(zip(measurements, found, strict=True))


@dataclass(slots=True)
class _ClusterMeasurement:
    """The measurement of one cluster in an event loop; `prefix` begins its line of the progress."""

    supervisor: Supervisor
    period: MeasurementPeriod
    origin: str
    observe: Callable[[Snapshot], object] = lambda _: None
    prefix: str = ""
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, progress: Progress) -> MeasurementResult | ConfigError:
        """Measure once all watches are open, and show the progress; return the error if a resource does not exist."""
        supervisor, period, timeline = self.supervisor, self.period, Timeline()
        supervisor.on_evaluation(timeline.observe)
        supervisor.on_evaluation(self.observe)
        try:
            async with TaskSupervisor(self.stop) as tasks:
                tasks.start("patience", partial(self._wait, progress))
                account = timeline.observe(await supervisor.run(self.stop))
                seconds = period.measured(time.monotonic())
        except ConfigError as error:
            return ConfigError(f"{self.origin}: {error}")
        return MeasurementResult(supervisor.place, account, seconds, period.seconds, interrupted=not period.complete)

    async def _wait(self, progress: Progress) -> None:
        """Set `stop` when the period is over, or if no watch opened in time."""
        supervisor, period = self.supervisor, self.period
        starting = progress.add_task(f"{self.prefix}starting", total=START_SECONDS)
        began = time.monotonic()
        while (state := supervisor.start) is StartState.LOGIN or time.monotonic() - began < PATIENCE.get(state, 0.0):
            if state is StartState.LOGIN:  # the plugin has a time limit of its own
                began = time.monotonic()
            await self._advance(progress, starting, _start_obstacle)
        progress.remove_task(starting)
        if any(watch.up for watch in (await supervisor.snapshot()).watches):
            period.began = time.monotonic()
            whole = period.seconds + SEAL_SECONDS
            measuring = progress.add_task(f"{self.prefix}measuring", total=whole)
            while time.monotonic() - period.began < whole:
                await self._advance(progress, measuring, period.so_far)
        period.complete = True
        self.stop.set()

    async def _advance(self, progress: Progress, task: TaskID, describe: Callable[[Snapshot], str]) -> None:
        await asyncio.sleep(LOOK_SECONDS)
        progress.advance(task, LOOK_SECONDS)
        progress.update(task, description=f"{self.prefix}{describe(await self.supervisor.snapshot())}")


async def _run_all(measurements: Sequence[_ClusterMeasurement]) -> list[MeasurementResult | ConfigError]:
    stops = [measurement.stop for measurement in measurements]
    with stop_signals(*stops), _progress(len(measurements)) as progress:
        return await asyncio.gather(*(measurement.run(progress) for measurement in measurements))


def _start_obstacle(snapshot: Snapshot) -> str:
    """Return the reason why the start still waits, so that a user can fix it at once."""
    return next(iter(snapshot.monitor.not_ready), "starting")


def _progress(lines: int) -> Progress:
    console = plain_console(stderr=True)
    console.quiet = not console.is_terminal  # otherwise it would print an empty line
    return Progress(
        BarColumn(BAR_CHARACTERS),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1)),
        expand=True,  # a narrow terminal cuts the end of the text
        console=console,
        refresh_per_second=max(SLOWEST_REFRESHES, REFRESHES / max(1, lines)),
        transient=True,
    )
