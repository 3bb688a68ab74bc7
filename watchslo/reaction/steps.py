"""The steps whose reactions are measured, and what is known of an event of one."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from watchslo.model import Interval


class ReactionStep(StrEnum):
    """A step: from the change that asks for something to the first change that shows that a component acted."""

    SCHEDULED = "scheduled"  # pod created -> node set
    STARTED = "started"  # node set -> first status of the kubelet
    PREPARED = "prepared"  # first status -> no container waits any more: images are pulled, init containers have run
    READY = "ready"  # containers run -> Ready
    DELETED = "deleted"  # deletion asked for -> gone
    ROUTED = "routed"  # pod Ready -> an endpoint of it is ready in a slice
    OBSERVED = "observed"  # generation raised -> observedGeneration has reached it


RESPONSIBLE = {
    ReactionStep.SCHEDULED: "the scheduler",
    ReactionStep.STARTED: "the kubelet",
    ReactionStep.PREPARED: "the kubelet, which pulls images and runs init containers",
    ReactionStep.READY: "the application and its readiness probes",
    ReactionStep.DELETED: "the kubelet",
    ReactionStep.ROUTED: "the endpoint slice controller",
    ReactionStep.OBSERVED: "the controller of the resource",
}
"""The component that acts in each step."""


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
