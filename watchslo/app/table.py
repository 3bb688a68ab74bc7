"""What a snapshot says of each watch, judged, and drawn for a terminal."""

from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from watchslo.history import judgement
from watchslo.history.judgement import P99, Verdict, window_of
from watchslo.history.words import ABSENT, duration
from watchslo.model import SERVICE
from watchslo.snapshot import QuantileReading, Snapshot, StreamReading, WindowReading

ENDLESS_COLUMNS = 10_000  # of what is no terminal


STYLES = {
    Verdict.WITHIN: "green",
    Verdict.BEYOND: "bold red",
    Verdict.FEW_EVENTS: "yellow",
    Verdict.NOT_MEASURED: "dim",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One watch: its window, the quantiles in it by q, and the verdict on its P99."""

    stream: StreamReading
    window: WindowReading
    quantiles: dict[float, QuantileReading]
    verdict: Verdict

    @property
    def name(self) -> str:
        """The watch, and where: that goes without saying where one apiserver answers for all."""
        where = "" if self.stream.apiserver == SERVICE else f" at {self.stream.apiserver}"
        return self.stream.watch + where


def judge(snapshot: Snapshot, window: str, min_events: int) -> list[Line]:
    """A line for each watch, by the window of this name; an estimate counts from `min_events` events on."""
    return [
        _line(stream, window, min_events)
        for stream in sorted(snapshot.streams, key=lambda one: (one.watch, one.apiserver))
    ]


def _line(stream: StreamReading, name: str, min_events: int) -> Line:
    window = window_of(stream, name)
    assert window is not None
    quantiles = {quantile.q: quantile for quantile in window.quantiles}
    return Line(stream, window, quantiles, judgement.judge(stream, window, min_events))


def plain_console(*, stderr: bool = False) -> Console:
    """A console that shows what apiservers say as it is: nothing in it is markup; files and pipes get whole lines."""
    console = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = ENDLESS_COLUMNS
    return console


def draw(lines: Iterable[Line]) -> Table:
    """A table of lines for `rich`."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("WATCH", overflow="fold")
    for heading in ("EVENTS", "P50", "P99", "P99 SURELY IN"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for line in lines:
        cells = (line.name, *figures(line), says(line))
        table.add_row(*cells, style=STYLES[line.verdict])
    return table


def figures(line: Line) -> tuple[str, str, str, str]:
    """Events, P50, P99, and between what the P99 surely is."""
    p99 = line.quantiles.get(P99)
    bounds = f"{duration(p99.lower)} … {duration(p99.upper)}" if p99 else ABSENT
    return f"{line.window.events:,}", _estimate(line.quantiles.get(0.5)), _estimate(p99), bounds


def says(line: Line) -> str:
    """The verdict, and what is not as it should be."""
    stream, said = line.stream, [str(line.verdict)]
    if stream.stalled_for is not None:
        said.append(f"stalled for {duration(stream.stalled_for)}")
    if not stream.up and stream.last_failure is not None:
        said.append(f"{stream.state}: {stream.last_failure.message}")
    return "; ".join(said)


def diagnosis(snapshot: Snapshot) -> list[str]:
    """Why watches are late, a sentence a cause, the surest first."""
    return [f"{cause.evidence} ({cause.cause}, {cause.confidence} confidence)" for cause in snapshot.causes]


def _estimate(quantile: QuantileReading | None) -> str:
    if quantile is None:
        return ABSENT
    return duration(quantile.estimate) if quantile.resolved else f"≲ {duration(quantile.estimate)}"
