"""The table that `watchslo check` prints about several clusters: a row for each, the worst first. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table

from watchslo.app.table import LEVEL_STYLES, headings
from watchslo.app.terminal import Line
from watchslo.timeline.condition import BAD, Condition
from watchslo.timeline.figure import bounds_text, estimate_text
from watchslo.timeline.format import ABSENT, printable
from watchslo.timeline.verdict import Level

WORST_FIRST = (Level.BAD, Level.UNKNOWN, Level.GOOD)
_CONDITIONS = [*Condition]


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One cluster, by its context: its watches, and one sentence on why its verdict is not good, else None."""

    context: str
    level: Level
    lines: Sequence[Line]
    reason: str | None

    @property
    def worst(self) -> Line | None:
        """The worst watch: one in a bad condition, or else the slowest, relative to its threshold."""
        return min(self.lines, key=_rank, default=None)


def worst_level(rows: Iterable[FleetRow]) -> Level:
    """Return the level of the worst cluster."""
    return min((row.level for row in rows), key=WORST_FIRST.index)


def worst_first(rows: Iterable[FleetRow]) -> list[FleetRow]:
    """Return the rows in the order of their levels, and those of one level by name."""
    return sorted(rows, key=lambda row: (WORST_FIRST.index(row.level), row.context))


def draw_fleet(rows: Sequence[FleetRow]) -> Table:
    """Return the rows as a `rich` table; its headings name the quantile that is judged."""
    *_, name, _ = headings(line for row in rows for line in row.lines)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("CLUSTER", "VERDICT", "WORST WATCH"):
        table.add_column(heading, overflow="fold")
    for heading in (name, "BOUNDS"):
        table.add_column(heading, justify="right")
    for row in rows:
        worst = row.worst
        judged = worst.judged if worst else None
        cells = (worst.name if worst else ABSENT, estimate_text(judged), bounds_text(judged))
        table.add_row(printable(row.context), row.level, *cells, style=LEVEL_STYLES[row.level])
    return table


def _rank(line: Line) -> tuple[int, float]:
    """Return a key that sorts the worst first: bad conditions, then figures, then watches without one."""
    judged = line.judged
    ratio = (float("inf") if judged.estimate is None else judged.estimate) / line.threshold if judged else -1.0
    condition = _CONDITIONS.index(Condition(line.condition)) if line.condition in BAD else len(_CONDITIONS)
    return condition, -ratio
