"""What a snapshot says of each watch, judged, and drawn for a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from watchslo.history import judgement
from watchslo.history.judgement import P99, Verdict, placed, window_of
from watchslo.history.words import ABSENT, counted, duration, some_of
from watchslo.snapshot import QuantileReading, Snapshot, StreamReading

HEADINGS = ("WATCH", "EVENTS", "P50", "P99", "P99 SURELY IN", "")
ENDLESS_COLUMNS = 10_000  # of what is no terminal


STYLES = {
    Verdict.WITHIN: "green",
    Verdict.BEYOND: "bold red",
    Verdict.FEW_EVENTS: "yellow",
    Verdict.NOT_MEASURED: "dim",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One watch: the quantiles of its window by q, what keeps events away, and the verdict on its P99."""

    watch: str
    apiserver: str
    resource: str
    group: str
    state: str
    up: bool
    stalled_for: float | None
    failure: str | None
    threshold: float
    events: int
    quantiles: Mapping[float, QuantileReading]
    verdict: Verdict

    @property
    def name(self) -> str:
        """The watch, and where: that goes without saying where one apiserver answers for all."""
        return placed(self.watch, self.apiserver)

    @property
    def p99(self) -> QuantileReading | None:
        return self.quantiles.get(P99)


def judge(snapshot: Snapshot, window: str) -> list[Line]:
    """A line for each watch, by the window of this name."""
    return [_line(stream, window) for stream in sorted(snapshot.streams, key=lambda one: (one.watch, one.apiserver))]


def _line(stream: StreamReading, name: str) -> Line:
    window = window_of(stream, name)
    assert window is not None
    quantiles = {quantile.q: quantile for quantile in window.quantiles}
    threshold = stream.track.objective.threshold
    return Line(
        watch=stream.watch,
        apiserver=stream.apiserver,
        resource=stream.resource,
        group=stream.group,
        state=stream.state,
        up=stream.up,
        stalled_for=stream.stalled_for,
        failure=stream.last_failure.message if stream.last_failure else None,
        threshold=threshold,
        events=window.events,
        quantiles=quantiles,
        verdict=judgement.judge(stream, window),
    )


def plain_console(*, stderr: bool = False) -> Console:
    """A console that shows what apiservers say as it is: nothing in it is markup; files and pipes get whole lines."""
    console = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = ENDLESS_COLUMNS
    return console


def draw(lines: Iterable[Line]) -> Table:
    """A table of lines for `rich`."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(HEADINGS[0], overflow="fold")
    for heading in HEADINGS[1:-1]:
        table.add_column(heading, justify="right")
    table.add_column("")
    for line in lines:
        cells = (line.name, *figures(line), says(line))
        table.add_row(*cells, style=STYLES[line.verdict])
    return table


def figures(line: Line) -> tuple[str, str, str, str]:
    """Events, P50, P99, and between what the P99 surely is."""
    p99 = line.p99
    bounds = f"{duration(p99.lower)} … {duration(p99.upper)}" if p99 else ABSENT
    return f"{line.events:,}", _estimate(line.quantiles.get(0.5)), _estimate(p99), bounds


def says(line: Line) -> str:
    """The verdict, and what is not as it should be."""
    said = [str(line.verdict)]
    if line.stalled_for is not None:
        said.append(f"stalled for {duration(line.stalled_for)}")
    if not line.up and line.failure is not None:
        said.append(f"{line.state}: {line.failure}")
    return "; ".join(said)


def headline(lines: Sequence[Line]) -> str:
    """All watches in a sentence."""
    beyond = [line for line in lines if line.verdict is Verdict.BEYOND]
    within = sum(line.verdict is Verdict.WITHIN for line in lines)
    unknown = len(lines) - len(beyond) - within
    unsaid = f"; of {unknown} nothing can be said" if unknown else ""
    if beyond:
        worst = sorted(beyond, key=_lateness, reverse=True)
        named = some_of([f"{line.name} (P99 {_estimate(line.p99)})" for line in worst])
        return f"Beyond the objective: {named}{unsaid}."
    if within:
        return f"Within the objective: {counted(within, 'watch')}{unsaid}."
    return f"Nothing can be said of {counted(unknown, 'watch')}." if unknown else "Nothing is watched yet."


def _lateness(line: Line) -> float:
    return line.p99.estimate if line.p99 else 0.0


def diagnosis(snapshot: Snapshot) -> list[str]:
    """Why watches are late, a sentence a cause, the surest first."""
    return [f"{cause.evidence} ({cause.cause}, {cause.confidence} confidence)" for cause in snapshot.causes]


def _estimate(quantile: QuantileReading | None) -> str:
    if quantile is None:
        return ABSENT
    return duration(quantile.estimate) if quantile.resolved else f"≲ {duration(quantile.estimate)}"
