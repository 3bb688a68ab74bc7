"""Measures a cluster for a while, for commands: waits until its watches are open, shows the progress, and stops."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

from watchslo.app.guarantees import GuaranteeTotal, totals
from watchslo.app.session import run_on_loop, stop_signals, supervise
from watchslo.app.table import plain_console
from watchslo.config.model import Config
from watchslo.config.values import parse_duration
from watchslo.errors import ConfigError
from watchslo.kube.credentials import ClusterPlace
from watchslo.monitor.readiness import StartState
from watchslo.monitor.supervisor import Supervisor
from watchslo.monitor.tasks.task_supervisor import TaskSupervisor
from watchslo.snapshot import Snapshot
from watchslo.timeline.timeline import Account, Timeline

SHORTEST_SECONDS = 5.0
START_SECONDS = 30.0  # to wait until the clock ticks and every watch is open; then the open ones are measured
UNREACHABLE_SECONDS = 10.0  # to wait for a cluster of which no answer came: more would only delay the reason
PATIENCE = {StartState.OPENING: START_SECONDS, StartState.UNREACHABLE: UNREACHABLE_SECONDS}
"""For how many seconds a start is waited for; not at all in other states."""
SEAL_SECONDS = 2.5  # until the last second is sealed: it must end, and a tick must follow
LOOK_SECONDS = 0.2
BAR_CHARACTERS = 20


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
    try:
        account, seconds = run_on_loop(_measure(supervisor, period, observe))
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}") from None
    return MeasurementResult(supervisor.place, account, seconds, period.seconds, interrupted=not period.complete)


async def _measure(
    supervisor: Supervisor, period: MeasurementPeriod, observe: Callable[[Snapshot], object]
) -> tuple[Account, float]:
    """Measure once all watches are open, and show the progress; return the last account and the seconds measured."""
    stop, timeline = asyncio.Event(), Timeline()
    supervisor.on_evaluation(timeline.observe)
    supervisor.on_evaluation(observe)
    with stop_signals(stop), _progress() as progress:
        async with TaskSupervisor(stop) as tasks:
            tasks.start("patience", partial(_wait, supervisor, period, progress, stop))
            snapshot = await supervisor.run(stop)
            return timeline.observe(snapshot), period.measured(time.monotonic())


async def _wait(supervisor: Supervisor, period: MeasurementPeriod, progress: Progress, stop: asyncio.Event) -> None:
    """Set `stop` when the period is over, or if no watch opened in time."""
    starting = progress.add_task("starting", total=START_SECONDS)
    began = time.monotonic()
    while (state := supervisor.start) is StartState.LOGIN or time.monotonic() - began < PATIENCE.get(state, 0.0):
        if state is StartState.LOGIN:  # the plugin has a time limit of its own
            began = time.monotonic()
        await _advance(progress, starting)
        progress.update(starting, description=_start_obstacle(await supervisor.snapshot()))
    progress.remove_task(starting)
    if any(watch.up for watch in (await supervisor.snapshot()).watches):
        period.began = time.monotonic()
        measuring = progress.add_task("measuring", total=period.seconds + SEAL_SECONDS)
        while not progress.finished:
            await _advance(progress, measuring)
            progress.update(measuring, description=period.so_far(await supervisor.snapshot()))
    period.complete = True
    stop.set()


async def _advance(progress: Progress, task: TaskID) -> None:
    await asyncio.sleep(LOOK_SECONDS)
    progress.advance(task, LOOK_SECONDS)


def _start_obstacle(snapshot: Snapshot) -> str:
    """Return the reason why the start still waits, so that a user can fix it at once."""
    return next(iter(snapshot.monitor.not_ready), "starting")


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
