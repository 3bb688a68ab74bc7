"""What the terminal shows of a view, in which order, and whether that is news: pure, so that the screen only draws."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from watchslo.app.view import Line, View
from watchslo.history.judgement import Verdict
from watchslo.history.words import counted

GRAVITY = {Verdict.BEYOND: 4.0, Verdict.FEW_EVENTS: 2.0, Verdict.WITHIN: 1.0, Verdict.NOT_MEASURED: 0.0}
BROKEN = 3.0  # what brings no events is worse than one of which nothing is known


def _p50(line: Line) -> float | None:
    return line.quantiles[0.5].estimate if 0.5 in line.quantiles else None  # noqa: PLR2004 - the median


def _gravity(line: Line) -> float:
    broken = line.stalled_for is not None or not line.up
    return max(GRAVITY[line.verdict], BROKEN if broken else 0.0)


def _p99(line: Line) -> float | None:
    return line.p99.estimate if line.p99 else None


def _bounds(line: Line) -> tuple[float, float] | None:
    return (line.p99.upper, line.p99.lower) if line.p99 else None


KEYS: tuple[Callable[[Line], object], ...] = (
    lambda line: line.name,
    lambda line: line.events,
    _p50,
    _p99,
    _bounds,
    lambda line: (_gravity(line), _p99(line) or 0.0),
)
"""What each column of the table is sorted by; None where there is nothing to sort by."""
BY_NAME, BY_VERDICT = 0, len(KEYS) - 1


@dataclass(frozen=True, slots=True)
class Choice:
    """Which watches are shown, by a part of their name or verdict, and by which column they are sorted."""

    column: int = BY_VERDICT
    descending: bool = True
    wanted: str = ""

    def sorted_by(self, column: int) -> "Choice":
        """By this column, the largest first, but names from A; the same one again turns the order round."""
        descending = not self.descending if column == self.column else column != BY_NAME
        return replace(self, column=column, descending=descending)

    def containing(self, wanted: str) -> "Choice":
        """Only watches whose name or verdict contains this."""
        return replace(self, wanted=wanted)

    def of(self, lines: Sequence[Line]) -> list[Line]:
        """The lines to show. Those that have nothing to sort by stand at the end."""
        wanted = self.wanted.casefold()
        shown = sorted(
            (line for line in lines if wanted in f"{line.name} {line.verdict}".casefold()), key=lambda line: line.name
        )
        key = KEYS[self.column]
        known = [line for line in shown if key(line) is not None]
        return [
            *sorted(known, key=key, reverse=self.descending),  # type: ignore[arg-type]
            *(line for line in shown if key(line) is None),
        ]


@dataclass(frozen=True, slots=True)
class Link:
    """Whether the daemon answers: since when it does not, in Unix seconds, and why."""

    since_wall: float | None = None
    why: str = ""

    def failed(self, why: str, wall: float) -> "Link":
        """Another failure, of the same outage."""
        return Link(self.since_wall or wall, why)

    def says(self, view: View | None, wall: float) -> str:
        """Nothing while it answers; else since when it does not, and how old that makes what is shown."""
        if self.since_wall is None:
            return ""
        lasted = counted(round(wall - self.since_wall), "second")
        shown = f" What is shown is of {clock(view.at_wall)}." if view else ""
        return f"Disconnected since {clock(self.since_wall)} ({lasted}): {self.why}.{shown}"


def clock(wall: float) -> str:
    """The time of day."""
    return f"{datetime.fromtimestamp(wall, UTC):%H:%M:%S} UTC"
