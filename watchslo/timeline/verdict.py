"""The verdict on all watches: a table from what is known to one verdict and its level. Pure.

Page, terminal, status, log and the metric `watchslo_verdict` show this verdict, so they cannot contradict each other.
The first row of `TABLE` whose facts all hold decides:

- Silence of an apiserver is its outage. Time in which this process was late itself does not count as silence, and if
  clocks stop while this process is late, that is its own problem.
- Without a clock no latency is known, so what was measured before says nothing.
- An active cause is never under a green headline.
"""

from dataclasses import dataclass
from enum import StrEnum

from watchslo.snapshot import OverallVerdict


class Level(StrEnum):
    """The level of a statement, for colours and signs."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "unknown"


def level_of(text: str) -> Level:
    """Return the level of this name; one of a newer version is unknown."""
    return Level(text) if text in [*Level] else Level.UNKNOWN


SIGNS = {Level.GOOD: "✓", Level.BAD: "✗", Level.UNKNOWN: "?"}
"""A sign for each level: a colour alone would not be accessible."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known at one moment.

    - `paused`: the configuration asks for no measurement.
    - `unresponsive`: a watched apiserver answers nothing.
    - `overloaded`: this process could not keep up in the last minute.
    - `clocks_stopped`: no clock ticks; `a_clock_stopped`: at least one does not.
    - `storage_silent`: no clock ticks, because the storage answers no apiserver, while they answer other requests.
    - `stalled`, `late`: there are such watches.
    - `down`, `closed`: a watch is closed for longer than a healthy one needs to reopen. It is `down` if that concerns
      its other clients as well, and only `closed` if it concerns this client alone, as without rights, or if a
      configured resource is not served.
    - `starting`: a watch was never opened, or a clock has never ticked.
    - `caused`: a cause of lateness is active.
    - `undecided`: a watch is neither proven late nor in time, though it has enough events.
    - `well`: some watches are within their objectives, or all open watches are proven idle.
    """

    paused: bool = False
    unresponsive: bool = False
    overloaded: bool = False
    clocks_stopped: bool = False
    a_clock_stopped: bool = False
    storage_silent: bool = False
    stalled: bool = False
    late: bool = False
    down: bool = False
    starting: bool = False
    closed: bool = False
    caused: bool = False
    undecided: bool = False
    well: bool = False


TABLE: tuple[tuple[tuple[str, ...], OverallVerdict, Level], ...] = (
    (("paused",), OverallVerdict.PAUSED, Level.UNKNOWN),
    (("unresponsive",), OverallVerdict.UNRESPONSIVE, Level.BAD),
    (("clocks_stopped", "overloaded"), OverallVerdict.MONITOR_PROBLEM, Level.UNKNOWN),
    (("storage_silent",), OverallVerdict.STORAGE_SILENT, Level.BAD),
    (("clocks_stopped",), OverallVerdict.CLOCK_STOPPED, Level.UNKNOWN),
    (("stalled",), OverallVerdict.STALLED, Level.BAD),
    (("late",), OverallVerdict.LATE, Level.BAD),
    (("down",), OverallVerdict.DOWN, Level.BAD),
    (("starting",), OverallVerdict.STARTING, Level.UNKNOWN),
    (("closed",), OverallVerdict.DOWN, Level.UNKNOWN),
    (("a_clock_stopped",), OverallVerdict.CLOCK_STOPPED, Level.UNKNOWN),
    (("overloaded",), OverallVerdict.MONITOR_PROBLEM, Level.UNKNOWN),
    (("caused",), OverallVerdict.CAUSE, Level.UNKNOWN),
    (("undecided",), OverallVerdict.UNDECIDED, Level.UNKNOWN),
    (("well",), OverallVerdict.GOOD, Level.GOOD),
    ((), OverallVerdict.NO_DATA, Level.UNKNOWN),
)


def decide(facts: Facts) -> tuple[OverallVerdict, Level]:
    """Return the verdict and its level: the first row of the table whose facts all hold."""
    return next((verdict, level) for names, verdict, level in TABLE if all(getattr(facts, name) for name in names))
