"""The step `observed`: from a raised generation to the status that says that the controller has seen it."""

from dataclasses import dataclass, field

from watchslo.reaction.known import KnownObjects
from watchslo.reaction.objects import OBSERVING_STATUS, ReactingChange, ReactingDeleted, part_of
from watchslo.reaction.pending import PendingStep
from watchslo.reaction.steps import Report, Sighted, Unmeasured
from watchslo.snapshot import ReactionStep


@dataclass(slots=True)
class _Generations:
    """The newest generation of an object, and those that its controller has not acted on yet, ascending."""

    newest: int
    unobserved: list[int] = field(default_factory=list)


class GenerationTracker:
    """Tracks the objects of one resource that has `metadata.generation`.

    Only a resource whose controller sets `status.observedGeneration` can be tracked: nothing is pending before the
    first object shows it, unless the resource is one that always has it. An object that is first seen when it changes
    is remembered: what raised its generation before is unknown.
    """

    def __init__(self, report: Report, *, always_observed: bool) -> None:
        self._observed = PendingStep(ReactionStep.OBSERVED, report)
        self._is_observed = always_observed
        self._known: KnownObjects[_Generations] = KnownObjects()

    @property
    def steps(self) -> tuple[PendingStep, ...]:
        return (self._observed,)

    def take(self, change: ReactingChange, sighted: Sighted, *, is_created: bool) -> None:
        """Take in a change, and report the reactions that it shows."""
        metadata = change.object.metadata
        if metadata.uid is None or metadata.generation is None:
            return
        known = self._known.forget(metadata.uid)
        if isinstance(change, ReactingDeleted):
            for generation in known.unobserved if known else ():
                self._observed.drop((metadata.uid, generation), Unmeasured.GONE)
            return
        status = part_of(change.object.status, OBSERVING_STATUS)
        seen = status.observed_generation if status else None
        self._is_observed |= seen is not None
        is_raised = metadata.generation > known.newest if known else is_created
        known = known or _Generations(metadata.generation)
        known.newest = metadata.generation
        if is_raised and self._is_observed and (seen is None or seen < metadata.generation):
            known.unobserved.append(metadata.generation)
            self._observed.ask((metadata.uid, metadata.generation), sighted)
        while known.unobserved and seen is not None and known.unobserved[0] <= seen:
            self._observed.act((metadata.uid, known.unobserved.pop(0)), sighted)
        self._known.put(metadata.uid, known)

    def clear(self) -> None:
        """Forget all objects: the watch began again."""
        self._known.clear()
        self._observed.clear()
