"""What is known of a change, and of the reaction to it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from watchslo.model import Interval
from watchslo.snapshot import ReactionStep


class Unmeasured(StrEnum):
    """Why a change that asked for something, or the reaction to it, is no sample."""

    GAP = "gap"  # the watch began again: what happened in between is unknown
    TAINTED = "tainted"  # this process received one of both events late
    LATE = "late"  # one of both events was late itself: the server delayed it
    UNDATED = "undated"  # no clock dates the events
    EXPIRED = "expired"  # no reaction came within the horizon
    CROWDED = "crowded"  # more were pending than are remembered
    GONE = "gone"  # the object ended or was deleted before the reaction
    UNSCHEDULABLE = "unschedulable"  # the scheduler acted: it found no node


@dataclass(slots=True, eq=False)
class Sighted:
    """A change of an object: its revision, and when its event was received, in monotonic seconds.

    `commit` is when it was committed, in the same seconds, once a clock has dated it. `is_late` says that its event is
    proven to have been late.
    """

    revision: int
    received: float
    is_tainted: bool = False
    commit: Interval | None = None
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class Reaction:
    """A component acted on what was asked for."""

    step: ReactionStep
    asked: Sighted
    acted: Sighted


Report = Callable[[Reaction], object]
"""Takes a reaction that was found."""
