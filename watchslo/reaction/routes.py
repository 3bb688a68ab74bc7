"""The step `routed`: from a pod that is ready to an endpoint of it that is ready."""

from watchslo.reaction.known import KnownObjects
from watchslo.reaction.objects import ENDPOINTS, ReactingChange, ReactingDeleted, part_of
from watchslo.reaction.pending import PendingStep
from watchslo.reaction.steps import Reaction, Report, Sighted
from watchslo.snapshot import ReactionStep


class RouteTracker:
    """Matches pods that become ready with the first endpoint of each that is ready.

    Pods and slices come from two watches, in any order. A pod that no service selects is never routed, so nothing is
    pending.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._routed = PendingStep(ReactionStep.ROUTED, report)
        self._ready: KnownObjects[Sighted] = KnownObjects()
        self._endpoints: KnownObjects[Sighted] = KnownObjects()

    @property
    def steps(self) -> tuple[PendingStep, ...]:
        return (self._routed,)

    def pod_ready(self, uid: str, sighted: Sighted) -> None:
        """Take in a pod that has become ready, and report the reaction if its endpoint has arrived already."""
        endpoint = self._endpoints.get(uid)
        if endpoint is None:
            self._ready.put(uid, sighted)
        elif endpoint.revision > sighted.revision:
            self._report(Reaction(ReactionStep.ROUTED, sighted, endpoint))

    def take(self, change: ReactingChange, sighted: Sighted, *, is_created: bool) -> None:  # noqa: ARG002 - a slice may be new
        """Take in a change of a slice, and report the reactions that it shows."""
        if isinstance(change, ReactingDeleted):
            return
        for endpoint in part_of(change.object.endpoints, ENDPOINTS) or ():
            uid = endpoint.target_ref.uid if endpoint.target_ref else None
            if uid is None:
                continue
            if endpoint.conditions.ready is False:
                self._endpoints.forget(uid)
            elif self._endpoints.get(uid) is None:
                self._endpoints.put(uid, sighted)
                ready = self._ready.forget(uid)
                if ready is not None and ready.revision < sighted.revision:
                    self._report(Reaction(ReactionStep.ROUTED, ready, sighted))

    def clear(self) -> None:
        """Forget everything: one of the watches began again."""
        self._ready.clear()
        self._endpoints.clear()
