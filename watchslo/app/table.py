"""Watches as a table, and in a sentence, for a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from watchslo.app.view import Line
from watchslo.history.judgement import P50, Verdict
from watchslo.history.words import ABSENT, counted, duration, some_of
from watchslo.snapshot import QuantileReading

HEADINGS = ("WATCH", "EVENTS", "P50", "P99", "P99 SURELY IN", "")
ENDLESS_COLUMNS = 10_000  # of what is no terminal

STYLES = {
    Verdict.WITHIN: "green",
    Verdict.BEYOND: "bold red",
    Verdict.FEW_EVENTS: "yellow",
    Verdict.NOT_MEASURED: "dim",
}


def plain_console(*, stderr: bool = False) -> Console:
    """A console that shows what apiservers say as it is: nothing in it is markup; files and pipes get whole lines."""
    console = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = ENDLESS_COLUMNS
    return console


def draw(lines: Sequence[Line]) -> Table:
    """A table of lines for `rich`; nothing at all of none."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=bool(lines))
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
    return f"{line.events:,}", _estimate(line.quantiles.get(P50)), _estimate(p99), bounds


def says(line: Line) -> str:
    """The verdict, and what is not as it should be; why that is so would make the table too wide."""
    said = [str(line.verdict)]
    if line.stalled_for is not None:
        said.append("stalled")
    if not line.up and line.failure is not None:
        said.append(line.state)
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


def _estimate(quantile: QuantileReading | None) -> str:
    if quantile is None:
        return ABSENT
    return duration(quantile.estimate) if quantile.resolved else f"≲ {duration(quantile.estimate)}"
