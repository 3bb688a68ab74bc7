"""Readings of reactions: how long after a change was asked for its controller acted."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from watchslo.snapshot.figures import HistogramReading, QuantileReading

JUDGED = 0.99
"""The quantile that is compared with the threshold."""


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


@dataclass(frozen=True, slots=True)
class ReactionReading:
    """One step of one resource, from the commit that asks for something to the commit that shows that it is done.

    `events` and `quantiles` are those of the last `window` seconds; the histogram has all. `pending` is how many wait
    for their reaction, and `oldest_pending` for how many seconds the oldest has waited at least; both are None while
    the watch is not known to be current. `unmeasured` counts by reason what is no sample.

    `threshold` is how long the step may take, in seconds, or None if it is not judged.
    """

    group: str
    resource: str
    step: ReactionStep
    window: float
    events: int
    quantiles: tuple[QuantileReading, ...]
    histogram: HistogramReading
    pending: int | None
    oldest_pending: float | None
    unmeasured: Mapping[str, int]
    threshold: float | None = None

    @property
    def responsible(self) -> str:
        """The component that acts in the step."""
        return RESPONSIBLE[self.step]

    @property
    def proven(self) -> float:
        """How many seconds the step takes at least: the lower bound of P99, or the age of what is pending."""
        quantile = next((quantile.lower for quantile in self.quantiles if quantile.q == JUDGED), 0.0)
        return max(quantile, self.oldest_pending or 0.0)

    @property
    def slow(self) -> bool | None:
        """True if the step is proven to take longer than its threshold; None without one."""
        return None if self.threshold is None else self.proven > self.threshold
