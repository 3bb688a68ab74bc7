"""Watches as a table and as a one-line summary, for a terminal."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from watchslo.app.view import Line
from watchslo.timeline.condition import P50, WatchVerdict
from watchslo.timeline.format import ABSENT, common_percentile, counted, duration, estimated, percentile, some_of

UNLIMITED_COLUMNS = 10_000  # the width of files and pipes

STYLES = {
    WatchVerdict.WITHIN: "green",
    WatchVerdict.BEYOND: "bold red",
    WatchVerdict.UNDECIDED: "yellow",
    WatchVerdict.FEW_EVENTS: "yellow",
    WatchVerdict.NOT_MEASURED: "dim",
}


def plain_console(*, stderr: bool = False) -> Console:
    """Return a console that never interprets text of apiservers as markup; files and pipes get unwrapped lines."""
    console = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = UNLIMITED_COLUMNS
    return console


def headings(lines: Iterable[Line]) -> tuple[str, ...]:
    """Return the headings of the table, without that of the verdict; they name the quantile that is judged."""
    name = common_percentile(line.quantile for line in lines).upper()
    return "WATCH", "EVENTS", "P50", name, f"{name} BOUNDS"


def draw(lines: Sequence[Line]) -> Table:
    """Return the lines as a `rich` table, without a header if there are no lines."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=bool(lines))
    name, *others = headings(lines)
    table.add_column(name, overflow="fold")
    for heading in others:
        table.add_column(heading, justify="right")
    table.add_column("")
    for line in lines:
        cells = (line.name, *figures(line), status(line))
        table.add_row(*cells, style=STYLES[line.verdict])
    return table


def figures(line: Line) -> tuple[str, str, str, str]:
    """Return the events, P50, the quantile that is judged, and its bounds."""
    judged = line.judged
    bounds = f"{duration(judged.lower)} … {duration(judged.upper)}" if judged else ABSENT
    return f"{line.events:,}", _estimate(line, P50), _estimate(line, line.quantile), bounds


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
    beyond, undecided, within = (
        [line for line in lines if line.verdict is verdict]
        for verdict in (WatchVerdict.BEYOND, WatchVerdict.UNDECIDED, WatchVerdict.WITHIN)
    )
    unjudged = len(lines) - len(beyond) - len(undecided) - len(within)
    remainder = f"; {unjudged} without a verdict" if unjudged else ""
    if beyond:
        worst = sorted(beyond, key=_lateness, reverse=True)
        named = some_of([f"{line.name} ({_lateness_of(line)})" for line in worst])
        more = f"; {len(undecided)} undecided" if undecided else ""
        return f"Beyond the objective: {named}{more}{remainder}."
    if undecided:
        more = f"; {counted(len(within), 'watch')} within the objective" if within else ""
        return f"Undecided: {some_of([line.name for line in undecided])}{more}{remainder}."
    if within:
        return f"Within the objective: {counted(len(within), 'watch')}{remainder}."
    return f"No verdict on {counted(unjudged, 'watch')}." if unjudged else "No watches yet."


def _lateness(line: Line) -> float:
    return line.judged.estimate if line.judged else line.down_for or 0.0


def _lateness_of(line: Line) -> str:
    if line.judged is None:
        return f"down for {duration(line.down_for or 0.0)}"
    return f"{percentile(line.quantile)} {_estimate(line, line.quantile)}"


def _estimate(line: Line, q: float) -> str:
    """Return the estimate of a quantile, or the resolution of the clock if the estimate is below that."""
    quantile = line.quantiles.get(q)
    if quantile is None:
        return ABSENT
    if quantile.resolved:
        return estimated(quantile.estimate, rough=quantile.rough)
    return f"≲ {duration(quantile.estimate if line.resolution is None else line.resolution)}"
