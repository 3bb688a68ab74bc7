"""Filter, order and freshness of the rows of `watchslo top`. Pure: the screen only draws them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf

from watchslo.app.terminal import Line, View
from watchslo.timeline.condition import P50, Condition
from watchslo.timeline.format import counted

GRAVITY = {condition: -place for place, condition in enumerate(map(str, Condition))}
"""The worst condition has the highest number; one of a newer daemon is unknown, and comes first."""


def _infinite(seconds: float | None) -> float:
    return inf if seconds is None else seconds


def _estimate(line: Line, q: float) -> float | None:
    return _infinite(line.quantiles[q].estimate) if q in line.quantiles else None


def _gravity(line: Line) -> int:
    return GRAVITY.get(line.condition, 1)


def _judged(line: Line) -> float | None:
    return _estimate(line, line.quantile)


def _bounds(line: Line) -> tuple[float, float] | None:
    return (_infinite(line.judged.upper), line.judged.lower) if line.judged else None


KEYS: tuple[Callable[[Line], object], ...] = (
    lambda line: line.name,
    lambda line: line.events,
    lambda line: _estimate(line, P50),
    _judged,
    _bounds,
    lambda line: (_gravity(line), _judged(line) or 0.0),
)
"""The sort key of each column; None for a watch without that figure."""
BY_NAME, BY_CONDITION = 0, len(KEYS) - 1


@dataclass(frozen=True, slots=True)
class Choice:
    """The rows to show: those whose name or condition contains `wanted`, sorted by a column."""

    column: int = BY_CONDITION
    descending: bool = True
    wanted: str = ""

    def sorted_by(self, column: int) -> "Choice":
        """Sort by this column, largest first, but names from A; the same column again reverses the order."""
        descending = not self.descending if column == self.column else column != BY_NAME
        return replace(self, column=column, descending=descending)

    def containing(self, wanted: str) -> "Choice":
        """Show only watches whose name or condition contains this text."""
        return replace(self, wanted=wanted)

    def of(self, lines: Sequence[Line]) -> list[Line]:
        """Return the lines to show; those without a sort key come last."""
        wanted = self.wanted.casefold()
        shown = sorted(
            (line for line in lines if wanted in f"{line.name} {line.condition}".casefold()), key=lambda line: line.name
        )
        key = KEYS[self.column]
        known = [line for line in shown if key(line) is not None]
        return [
            *sorted(known, key=key, reverse=self.descending),  # type: ignore[arg-type]
            *(line for line in shown if key(line) is None),
        ]


@dataclass(frozen=True, slots=True)
class Link:
    """The connection to the daemon: since when it fails, in Unix seconds, and why; None while it answers."""

    since_wall: float | None = None
    why: str = ""

    def failed(self, why: str, wall: float) -> "Link":
        """Return the link after a failure; the outage keeps the time of its first one."""
        return Link(self.since_wall or wall, why)

    def status(self, view: View | None, wall: float) -> str:
        """Say since when the daemon does not answer, why, and the time of the figures; empty while it answers."""
        if self.since_wall is None:
            return ""
        lasted = counted(round(wall - self.since_wall), "second")
        shown = f" Figures are from {clock(view.at_wall)}." if view else ""
        return f"Disconnected since {clock(self.since_wall)} ({lasted}): {self.why}.{shown}"


def clock(wall: float) -> str:
    """Return the time of day in UTC."""
    return f"{datetime.fromtimestamp(wall, UTC):%H:%M:%S} UTC"
