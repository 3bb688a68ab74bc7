"""The steps of pods: scheduled, started, prepared, ready, and deleted."""

from collections.abc import Callable
from dataclasses import dataclass

from watchslo.reaction.known import KnownObjects
from watchslo.reaction.objects import (
    POD_SPEC,
    POD_STATUS,
    PodSpec,
    PodStatus,
    ReactingChange,
    ReactingDeleted,
    part_of,
)
from watchslo.reaction.pending import PendingStep
from watchslo.reaction.steps import Report, Sighted, Unmeasured
from watchslo.snapshot import ReactionStep

START = (ReactionStep.SCHEDULED, ReactionStep.STARTED, ReactionStep.PREPARED, ReactionStep.READY)
"""The steps of a start, in their order: a pod asks for each of them when it has done the one before."""

GATED = -1  # before the first step: not even that is asked for
_ENDED = ("Succeeded", "Failed")

PodReady = Callable[[str, Sighted], object]
"""Takes the uid of a pod that has become ready."""


@dataclass(slots=True)
class _Pod:
    """How many steps of its start a pod has done, and whether its deletion was asked for."""

    done: int
    is_deleting: bool


class PodTracker:
    """Tracks pods through their steps; `ready` takes each pod that becomes ready.

    Several steps can be done in one change. The first of them is a sample, the others took no time of their own. A
    pod that is first seen halfway has a sample only of the steps that it asks for later.
    """

    def __init__(self, report: Report, ready: PodReady) -> None:
        self._ready = ready
        self._pending = {step: PendingStep(step, report) for step in (*START, ReactionStep.DELETED)}
        self._known: KnownObjects[_Pod] = KnownObjects()

    @property
    def steps(self) -> tuple[PendingStep, ...]:
        return tuple(self._pending.values())

    def take(self, change: ReactingChange, sighted: Sighted, *, is_created: bool) -> None:
        """Take in a change, and report the reactions that it shows."""
        uid = change.object.metadata.uid
        spec, status = part_of(change.object.spec, POD_SPEC), part_of(change.object.status, POD_STATUS)
        if uid is None or spec is None:
            return
        pod = self._known.forget(uid)
        if isinstance(change, ReactingDeleted):
            self._pending[ReactionStep.DELETED].act(uid, sighted)
            self._stop(uid, pod)
            return
        status = status or PodStatus()
        done, is_deleting = _done(spec, status), change.object.metadata.deletion_timestamp is not None
        if pod is None:
            pod = _Pod(done, is_deleting)
            if is_created:
                self._ask(uid, pod, sighted)
        elif done > pod.done:
            self._advance(uid, pod, done, sighted)
        self._known.put(uid, pod)
        if pod.done == 0 and _is_unschedulable(status):
            self._pending[ReactionStep.SCHEDULED].drop(uid, Unmeasured.UNSCHEDULABLE)
        if status.phase in _ENDED:
            self._stop(uid, pod)
        if is_deleting and not pod.is_deleting:
            pod.is_deleting = True
            self._stop(uid, pod)
            self._pending[ReactionStep.DELETED].ask(uid, sighted)

    def clear(self) -> None:
        """Forget all pods: the watch began again."""
        self._known.clear()
        for step in self.steps:
            step.clear()

    def _advance(self, uid: str, pod: _Pod, done: int, sighted: Sighted) -> None:
        """Note that a pod has done steps."""
        before, pod.done = pod.done, done
        if before != GATED:
            self._pending[START[before]].act(uid, sighted)
        if done == len(START):
            self._ready(uid, sighted)
        elif not pod.is_deleting:
            self._ask(uid, pod, sighted)

    def _ask(self, uid: str, pod: _Pod, sighted: Sighted) -> None:
        """Note that a pod asks for its next step."""
        if GATED < pod.done < len(START):
            self._pending[START[pod.done]].ask(uid, sighted)

    def _stop(self, uid: str, pod: _Pod | None) -> None:
        """Note that a pod will not do its next step."""
        if pod is not None and GATED < pod.done < len(START):
            self._pending[START[pod.done]].drop(uid, Unmeasured.GONE)


def _done(spec: PodSpec, status: PodStatus) -> int:
    """Return how many steps of its start a pod has done; it does not matter how it was before."""
    if not spec.node_name:
        return GATED if spec.scheduling_gates else 0
    if status.start_time is None:
        return 1
    if any(condition.type == "Ready" and condition.status == "True" for condition in status.conditions or ()):
        return 4
    containers = status.container_statuses or []
    is_prepared = bool(containers) and all(container.state.waiting is None for container in containers)
    return 3 if is_prepared else 2


def _is_unschedulable(status: PodStatus) -> bool:
    """Return True if the scheduler found no node for a pod (core/v1, PodReasonUnschedulable)."""
    return any(
        condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable"
        for condition in status.conditions or ()
    )
