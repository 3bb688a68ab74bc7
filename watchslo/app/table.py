"""Watches as a table and as a one-line summary, for a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from watchslo.app.view import Line
from watchslo.timeline.condition import P50, P99, P99Verdict
from watchslo.timeline.format import ABSENT, counted, duration, some_of

HEADINGS = ("WATCH", "EVENTS", "P50", "P99", "P99 BOUNDS", "")
UNLIMITED_COLUMNS = 10_000  # the width of files and pipes

STYLES = {
    P99Verdict.WITHIN: "green",
    P99Verdict.BEYOND: "bold red",
    P99Verdict.FEW_EVENTS: "yellow",
    P99Verdict.NOT_MEASURED: "dim",
}


def plain_console(*, stderr: bool = False) -> Console:
    """Return a console that never interprets text of apiservers as markup; files and pipes get unwrapped lines."""
    console = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = UNLIMITED_COLUMNS
    return console


def draw(lines: Sequence[Line]) -> Table:
    """Return the lines as a `rich` table, without a header if there are no lines."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=bool(lines))
    table.add_column(HEADINGS[0], overflow="fold")
    for heading in HEADINGS[1:-1]:
        table.add_column(heading, justify="right")
    table.add_column("")
    for line in lines:
        cells = (line.name, *figures(line), status(line))
        table.add_row(*cells, style=STYLES[line.verdict])
    return table


def figures(line: Line) -> tuple[str, str, str, str]:
    """Return the events, P50, P99, and the bounds of P99."""
    p99 = line.p99
    bounds = f"{duration(p99.lower)} … {duration(p99.upper)}" if p99 else ABSENT
    return f"{line.events:,}", _estimate(line, P50), _estimate(line, P99), bounds


def status(line: Line) -> str:
    """Return the verdict, and `stalled` or the state of a closed watch; reasons would make the table too wide."""
    parts = [str(line.verdict)]
    if line.stalled_for is not None:
        parts.append("stalled")
    if not line.up and line.failure is not None:
        parts.append(line.state)
    return "; ".join(parts)


def headline(lines: Sequence[Line]) -> str:
    """Summarise all watches in one sentence."""
    beyond = [line for line in lines if line.verdict is P99Verdict.BEYOND]
    within = sum(line.verdict is P99Verdict.WITHIN for line in lines)
    unjudged = len(lines) - len(beyond) - within
    remainder = f"; {unjudged} without a verdict" if unjudged else ""
    if beyond:
        worst = sorted(beyond, key=_lateness, reverse=True)
        named = some_of([f"{line.name} (P99 {_estimate(line, P99)})" for line in worst])
        return f"Beyond the objective: {named}{remainder}."
    if within:
        return f"Within the objective: {counted(within, 'watch')}{remainder}."
    return f"No verdict on {counted(unjudged, 'watch')}." if unjudged else "No watches yet."


def _lateness(line: Line) -> float:
    return line.p99.estimate if line.p99 else 0.0


def _estimate(line: Line, q: float) -> str:
    """Return the estimate of a quantile, or the resolution of the clock if the estimate is below that."""
    quantile = line.quantiles.get(q)
    if quantile is None:
        return ABSENT
    if quantile.resolved:
        return duration(quantile.estimate)
    return f"≲ {duration(quantile.estimate if line.resolution is None else line.resolution)}"
