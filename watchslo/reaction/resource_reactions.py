"""All reactions of one resource: its tracker, the dating of its changes, and a record for each step."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

from watchslo.latency.own_delay import OwnDelays
from watchslo.model import Measure, Resource
from watchslo.reaction.dating import CommitDating
from watchslo.reaction.generations import GenerationTracker
from watchslo.reaction.objects import ReactingChange
from watchslo.reaction.pods import PodReady, PodTracker
from watchslo.reaction.record import WINDOW_SECONDS, ReactionRecord
from watchslo.reaction.resources import PODS, SLICES, WORKLOADS
from watchslo.reaction.routes import RouteTracker
from watchslo.reaction.steps import Report, Sighted, Unmeasured
from watchslo.snapshot import ReactionReading
from watchslo.watch.decode import Added, Bookmark, Error, Frames, parse_revision


@dataclass(frozen=True, slots=True)
class CacheProof:
    """The cache behind a watch held all that was committed before `at`, in monotonic seconds.

    What it holds reaches at least up to `revision`. `at` is minus infinity if that was never proven.
    """

    at: float
    revision: int


class ResourceReactions:
    """The reactions of one resource.

    An event counts as late if it is proven to take more than `threshold` seconds. `pod_ready` takes the pods that
    become ready, if the resource is pods.
    """

    def __init__(self, resource: Resource, threshold: float, own_delays: OwnDelays, pod_ready: PodReady) -> None:
        self._resource = resource
        self._dating = CommitDating(threshold, own_delays)
        self._tracker = _tracker_of(resource.key, self._dating.add, pod_ready)
        self._records = {step.step: ReactionRecord() for step in self._tracker.steps}
        self._newest, self._advanced = 0, -math.inf  # the newest revision, and when it arrived

    def take(self, frames: Frames, received: float, *, is_tainted: bool, is_initial: bool = False) -> None:
        """Take in the events of one chunk, which `REACTING` decoded.

        What is `is_initial` are objects that exist, up to the bookmark that ends them: they were not created now.
        """
        for event in frames.events:
            if isinstance(event, Error):
                return
            revision = parse_revision(event.object.metadata.resource_version)
            self._reach(revision, received)
            if isinstance(event, Bookmark):
                is_initial &= not event.ends_list
                continue
            if revision is None:
                continue
            sighted = Sighted(revision, received, is_tainted)
            if not is_initial:
                self._dating.sight(sighted)
            is_created = isinstance(event, Added) and not is_initial
            self._tracker.take(cast("ReactingChange", event), sighted, is_created=is_created)

    def _reach(self, revision: int | None, received: float) -> None:
        if revision is not None and revision > self._newest:
            self._newest, self._advanced = revision, received

    def pod_ready(self, uid: str, sighted: Sighted) -> None:
        """Take in a pod that has become ready, if this resource is endpoint slices."""
        if isinstance(self._tracker, RouteTracker):
            self._tracker.pod_ready(uid, sighted)

    def begin_again(self) -> None:
        """Forget all objects: the watch missed changes, or revisions mean something else now."""
        self._tracker.clear()
        self._newest, self._advanced = 0, -math.inf
        for reaction in self._dating.clear():
            self._records[reaction.step].unmeasured[Unmeasured.GAP] += 1

    def settle(self, now: float, newest: int | None, measure: Measure) -> None:
        """Date what the clock has passed, up to revision `newest`, and record the reactions."""
        for step in self._tracker.steps:
            step.expire(now)
        for reaction, reason in self._dating.settle(now, newest, measure):
            record = self._records[reaction.step]
            if reason is None:
                record.add(reaction, now)
            else:
                record.unmeasured[reason] += 1

    def readings(
        self, now: float, threshold_of: Callable[[str], float | None], proof: CacheProof | None
    ) -> Iterator[ReactionReading]:
        """Yield a reading for each step; without a `proof`, nothing is known of what is pending.

        `threshold_of` returns how long a step may take, in seconds, or None if it is not judged.
        """
        until = self._advanced
        if proof and self._newest >= proof.revision:
            until = max(until, proof.at)
        for step in self._tracker.steps:
            record = self._records[step.step]
            events, quantiles = record.window(now)
            oldest = step.oldest(until) if proof else None
            yield ReactionReading(
                group=self._resource.group,
                resource=self._resource.plural,
                step=step.step,
                window=WINDOW_SECONDS,
                events=events,
                quantiles=quantiles,
                histogram=record.histogram(),
                pending=oldest.count if oldest else None,
                oldest_pending=oldest.seconds if oldest else None,
                unmeasured={reason.value: count for reason, count in (step.unmeasured + record.unmeasured).items()},
                threshold=threshold_of(step.step),
            )


def _tracker_of(key: str, report: Report, pod_ready: PodReady) -> GenerationTracker | PodTracker | RouteTracker:
    """Return what finds the reactions in the changes of a resource."""
    if key == PODS:
        return PodTracker(report, pod_ready)
    if key == SLICES:
        return RouteTracker(report)
    return GenerationTracker(report, always_observed=key in WORKLOADS)
