"""Watches as a table and as a one-line summary, for a terminal."""

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from watchslo.api.status import ClientStatus, ReactionStatus
from watchslo.app.terminal import Line, View
from watchslo.serve.tables import CLIENTS, CONTROLLERS, TableColumn, client_lines, reaction_cells
from watchslo.timeline.condition import P50, P999, Condition
from watchslo.timeline.explanation import labelled
from watchslo.timeline.figure import bounds_text, estimate_text
from watchslo.timeline.format import common_percentile, counted, duration, percentile, printable
from watchslo.timeline.verdict import Level, level_of

MOST_IDLE = 3  # rows
UNLIMITED_COLUMNS = 10_000  # the width of files and pipes

STYLES: Mapping[str, str] = {
    Condition.STALLED: "bold red",
    Condition.LATE: "bold red",
    Condition.CLOSED: "bold red",
    Condition.UNDECIDED: "yellow",
    Condition.FEW_EVENTS: "yellow",
    Condition.WITHIN: "green",
}

LEVEL_STYLES = {Level.GOOD: "green", Level.BAD: "bold red", Level.UNKNOWN: "yellow"}
REACTION_STYLES: Mapping[bool | None, str] = {
    True: STYLES[Condition.LATE],
    False: STYLES[Condition.WITHIN],
    None: "dim",
}
"""The styles of slow steps, of those within their threshold, and of those that are not judged."""


def style(line: Line) -> str:
    """Return the style of the row of a watch."""
    return STYLES.get(line.condition, "dim")


def plain_console(*, stderr: bool = False) -> Console:
    """Return a console that never interprets text of apiservers as markup; files and pipes get unwrapped lines."""
    console = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = UNLIMITED_COLUMNS
    return console


def headings(lines: Iterable[Line]) -> tuple[str, ...]:
    """Return the headings of the table, without that of the condition; they name the quantile that is judged."""
    name = common_percentile(line.quantile for line in lines).upper()
    return "WATCH", "EVENTS", "P50", name, f"{name} BOUNDS"


def draw(lines: Sequence[Line]) -> Table:
    """Return the lines as a `rich` table, without a header if there are no lines.

    It has P99.9 if a line has, unless that is what is judged. Many idle watches are one row, the last one.
    """
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=bool(lines))
    name, *others = headings(lines)
    table.add_column(name, overflow="fold")
    for heading in others:
        table.add_column(heading, justify="right")
    tail = any(P999 in line.quantiles and line.quantile != P999 for line in lines)
    if tail:
        table.add_column(percentile(P999), justify="right")
    table.add_column("")
    idle = [line for line in lines if line.condition == Condition.IDLE]
    folded = idle if len(idle) > MOST_IDLE else []
    for line in (line for line in lines if line not in folded):
        tail_cell = (estimate_text(line.quantiles.get(P999)),) if tail else ()
        table.add_row(line.name, *figures(line), *tail_cell, status(line), style=style(line))
    if folded:
        table.add_row(counted(len(folded), "more watch"), *[""] * (len(table.columns) - 2), Condition.IDLE, style="dim")
    return table


def print_tables(console: Console, view: View, lines: Sequence[Line]) -> None:
    """Print the table of these watches, that of their controllers, and that of clients, each if it has rows."""
    console.print(draw(lines))
    tables = [table for table in (draw_reactions(view.reactions), draw_clients(view.clients)) if table.row_count]
    for table in tables:
        console.print()
        console.print(table)
    if tables:
        console.print()


def draw_reactions(reactions: Sequence[ReactionStatus]) -> Table:
    """Return the reactions of controllers as a `rich` table."""
    rows = ((reaction_cells(reaction), REACTION_STYLES[reaction.slow]) for reaction in reactions)
    return _drawn("CONTROLLERS", CONTROLLERS, rows)


def draw_clients(clients: Iterable[ClientStatus]) -> Table:
    """Return the caches of other programs as a `rich` table."""
    return _drawn(
        "CLIENTS", CLIENTS, ((line.cells, LEVEL_STYLES[level_of(line.level)]) for line in client_lines(clients))
    )


def _drawn(title: str, columns: Sequence[TableColumn], rows: Iterable[tuple[Sequence[str], str]]) -> Table:
    """Return rows with their styles as a `rich` table; its title is the first heading, and the last one is empty."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(title, overflow="fold")
    for column in columns[1:-1]:
        table.add_column(column.heading.upper(), justify="right" if column.is_figure else "left")
    table.add_column("")
    for cells, row_style in rows:
        table.add_row(*map(printable, cells), style=row_style)
    return table


def figures(line: Line) -> tuple[str, str, str, str]:
    """Return the events, P50, the quantile that is judged, and its bounds."""
    judged = line.judged
    return (
        f"{line.events:,}",
        estimate_text(line.quantiles.get(P50)),
        estimate_text(judged),
        bounds_text(judged),
    )


def status(line: Line) -> str:
    """Return the condition, for how long a stall lasts, and the state of a closed watch; reasons would be too wide."""
    if line.stalled_for is not None:
        return f"{line.condition} for {duration(line.stalled_for)}"
    if line.condition == Condition.CLOSED:
        return f"{line.condition} ({line.state})"
    return labelled(line.condition, line.judged.upper if line.judged else None, line.threshold)
