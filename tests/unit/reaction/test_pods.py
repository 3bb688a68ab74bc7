"""Pods and endpoint slices: each step from commit to commit."""

from typing import Any

import pytest

from tests.unit.reaction.cluster import PODS, SLICES, Cluster
from watchslo.latency.own_delay import OwnDelays
from watchslo.reaction.resource_reactions import ResourceReactions

ON_NODE = {"nodeName": "n"}
WAITING = {"startTime": "2026-01-01T00:00:00Z", "containerStatuses": [{"state": {"waiting": {"reason": "Pulling"}}}]}
RUNNING = {"startTime": "2026-01-01T00:00:00Z", "containerStatuses": [{"state": {"running": {}}}]}
READY = {**RUNNING, "conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True"}]}
UNSCHEDULABLE = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


@pytest.fixture
def pods() -> Cluster:
    return Cluster(PODS)


def samples(pods: Cluster) -> dict[str, list[float]]:
    """Return the sum and the number of the reactions of each step that has any."""
    steps = ("scheduled", "started", "prepared", "ready", "deleted")
    return {step: found for step in steps if (found := pods.took(step))[1]}


def test_pod_goes_through_all_steps(pods: Cluster) -> None:
    pods.send("ADDED", spec={})
    pods.send("MODIFIED", after=1, spec=ON_NODE)
    pods.send("MODIFIED", after=2, spec=ON_NODE, status=WAITING)
    pods.send("MODIFIED", after=3, spec=ON_NODE, status=RUNNING)
    pods.send("MODIFIED", after=4, spec=ON_NODE, status=READY)
    pods.send("MODIFIED", after=9, spec=ON_NODE, status=READY, deletionTimestamp="2026-01-01T00:00:30Z")
    pods.send("MODIFIED", after=1, spec=ON_NODE, status=RUNNING, deletionTimestamp="2026-01-01T00:00:30Z")
    pods.send("DELETED", after=4, spec=ON_NODE, status=RUNNING)
    assert samples(pods) == {
        "scheduled": [1, 1],
        "started": [2, 1],
        "prepared": [3, 1],
        "ready": [4, 1],
        "deleted": [5, 1],
    }
    assert not any(pods.unmeasured(step) for step in samples(pods))


def test_steps_that_one_change_shows_take_no_time_of_their_own(pods: Cluster) -> None:
    pods.send("ADDED", spec={})
    pods.send("MODIFIED", after=1, spec=ON_NODE)
    pods.send("MODIFIED", after=2, spec=ON_NODE, status=READY)
    assert samples(pods) == {"scheduled": [1, 1], "started": [2, 1]}
    assert pods.reading("ready").pending == 0


def test_pod_that_stops_being_ready_is_not_started_again(pods: Cluster) -> None:
    pods.send("ADDED", spec=ON_NODE)
    for status in (READY, RUNNING, WAITING, READY):
        pods.send("MODIFIED", after=1, spec=ON_NODE, status=status)
    assert samples(pods) == {"started": [1, 1]}


def test_pod_seen_halfway_has_samples_of_later_steps_only(pods: Cluster) -> None:
    pods.send("MODIFIED", spec=ON_NODE)
    pods.send("MODIFIED", after=1, spec=ON_NODE, status=WAITING)
    pods.send("MODIFIED", after=2, spec=ON_NODE, status=RUNNING)
    assert samples(pods) == {"prepared": [2, 1]}


def test_deletion_of_a_pod_that_was_there_before_is_a_sample(pods: Cluster) -> None:
    pods.send("ADDED", initial=True, spec=ON_NODE, status=READY)
    pods.send("MODIFIED", after=1, spec=ON_NODE, status=READY, deletionTimestamp="2026-01-01T00:00:30Z")
    pods.send("DELETED", after=3, spec=ON_NODE, status=READY)
    assert samples(pods) == {"deleted": [3, 1]}


def test_deletion_asked_for_before_the_pod_was_seen_is_no_sample(pods: Cluster) -> None:
    pods.send("MODIFIED", spec=ON_NODE, status=READY, deletionTimestamp="2026-01-01T00:00:30Z")
    pods.send("DELETED", after=1, spec=ON_NODE, status=READY)
    pods.send("DELETED", uid="unknown", spec=ON_NODE)
    pods.send("MODIFIED", uid="b", spec=ON_NODE, status=WAITING)
    pods.send("DELETED", uid="b", spec=ON_NODE, status=WAITING)
    assert not samples(pods)
    assert not pods.unmeasured("prepared")


def test_gap_forgets_all_pods(pods: Cluster) -> None:
    pods.send("ADDED", spec={})
    pods.reactions.begin_again()
    pods.send("MODIFIED", after=1, spec=ON_NODE)
    assert not samples(pods)
    assert pods.unmeasured("scheduled") == {"gap": 1}


def test_unschedulable_pod_is_counted_and_no_sample(pods: Cluster) -> None:
    pods.send("ADDED", spec={})
    pods.send("MODIFIED", after=1, spec={}, status=UNSCHEDULABLE)
    assert pods.reading("scheduled").pending == 0
    pods.send("MODIFIED", after=100, spec=ON_NODE, status=UNSCHEDULABLE)
    pods.send("MODIFIED", after=1, spec=ON_NODE, status=WAITING)
    assert samples(pods) == {"started": [1, 1]}
    assert pods.unmeasured("scheduled") == {"unschedulable": 1}


def test_gated_pod_waits_for_the_scheduler_once_its_gates_are_removed(pods: Cluster) -> None:
    gated = {"schedulingGates": [{"name": "example.io/quota"}]}
    pods.send("ADDED", spec=gated)
    assert pods.reading("scheduled").pending == 0
    pods.send("MODIFIED", after=60, spec={})
    pods.send("MODIFIED", after=1, spec=ON_NODE)
    assert samples(pods) == {"scheduled": [1, 1]}


@pytest.mark.parametrize(
    ("type_", "change"),
    [
        ("DELETED", {}),
        ("MODIFIED", {"status": {**WAITING, "phase": "Failed"}}),
        ("MODIFIED", {"status": WAITING, "deletionTimestamp": "2026-01-01T00:00:30Z"}),
    ],
    ids=["deleted", "failed", "being deleted"],
)
def test_pod_that_ends_is_not_pending_any_more(pods: Cluster, type_: str, change: dict[str, Any]) -> None:
    pods.send("ADDED", spec=ON_NODE, status=WAITING)
    assert pods.reading("prepared").pending == 1
    pods.send(type_, spec=ON_NODE, **change)
    assert pods.reading("prepared").pending == 0
    assert pods.unmeasured("prepared") == {"gone": 1}


def test_pod_that_is_being_deleted_asks_for_no_further_step(pods: Cluster) -> None:
    pods.send("ADDED", spec=ON_NODE)
    pods.send("MODIFIED", spec=ON_NODE, deletionTimestamp="2026-01-01T00:00:30Z")
    pods.send("MODIFIED", spec=ON_NODE, status=WAITING, deletionTimestamp="2026-01-01T00:00:30Z")
    assert {step: pods.reading(step).pending for step in ("started", "prepared", "deleted")} == {
        "started": 0,
        "prepared": 0,
        "deleted": 1,
    }


def test_created_pod_that_is_ready_asks_for_nothing(pods: Cluster) -> None:
    pods.send("ADDED", spec=ON_NODE, status=READY)
    pods.send("DELETED", spec=ON_NODE, status=READY)
    assert not samples(pods)


def test_odd_pod_costs_nothing_else(pods: Cluster) -> None:
    pods.send("ADDED", uid=None, spec={})
    pods.send("ADDED", uid="no spec")
    pods.send("ADDED", uid="odd spec", spec={"nodeName": 5})
    pods.send("ADDED", spec=ON_NODE, status="odd")
    pods.send("MODIFIED", after=1, spec=ON_NODE, status=WAITING)
    assert samples(pods) == {"started": [1, 1]}


class Routed:
    """Pods, and the slices that route to them: two watches of one cluster."""

    def __init__(self) -> None:
        self.slices = Cluster(SLICES)
        self.pods = Cluster(PODS, ResourceReactions(PODS, 1.0, OwnDelays(), self.slices.reactions.pod_ready))
        self.pods.revisions = self.slices.revisions
        self.pods.commits = self.slices.commits

    def pod(self, status: Any, *, after: float = 0.0) -> None:
        self._together(self.pods, after)
        self.pods.send("MODIFIED", spec=ON_NODE, status=status)

    def endpoint(
        self, *, ready: bool | None, after: float = 0.0, uid: str | None = "a", type_: str = "MODIFIED"
    ) -> None:
        self._together(self.slices, after)
        endpoints = [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}, "targetRef": {"uid": uid}}, {}]
        self.slices.send(type_, uid="slice", endpoints=endpoints)

    def _together(self, cluster: Cluster, after: float) -> None:
        now = max(self.pods.now, self.slices.now) + after
        self.pods.now = self.slices.now = now
        cluster.now = now

    def took(self) -> list[float]:
        self.slices.newest = max(self.pods.newest, self.slices.newest)
        self.pods.newest = self.slices.newest
        self.pods.settle()
        return self.slices.took()


@pytest.fixture
def routed() -> Routed:
    return Routed()


def test_ready_pod_is_routed(routed: Routed) -> None:
    routed.pod(WAITING)
    routed.endpoint(ready=False)
    routed.pod(READY, after=1)
    routed.endpoint(ready=True, after=2)
    routed.endpoint(ready=True, after=3)
    assert routed.took() == [2, 1]


def test_slice_may_arrive_before_the_pod(routed: Routed) -> None:
    """They come from two watches: the pod has the older revision all the same."""
    routed.pod(WAITING)
    ready, slice_ = next(routed.slices.revisions), next(routed.slices.revisions)
    routed.slices.revisions = routed.pods.revisions = iter((slice_, ready))  # type: ignore[assignment]
    routed.endpoint(ready=None, after=1)
    routed.pod(READY, after=0.25)
    routed.slices.commits.update({ready: routed.pods.now - 0.9, slice_: routed.pods.now - 0.4})
    routed.slices.newest = slice_
    routed.pods.settle()
    assert routed.took() == [0.5, 1]


@pytest.mark.parametrize("uid", ["another", None])
def test_endpoint_of_another_object_routes_no_pod(routed: Routed, uid: str | None) -> None:
    routed.pod(WAITING)
    routed.pod(READY)
    routed.endpoint(ready=True, after=1, uid=uid)
    routed.endpoint(ready=True, after=1, type_="DELETED")
    assert routed.took() == [0, 0]


def test_endpoint_that_was_ready_before_its_pod_is_no_reaction(routed: Routed) -> None:
    """A service may publish addresses of pods that are not ready."""
    routed.pod(WAITING)
    routed.endpoint(ready=True)
    routed.pod(READY, after=1)
    assert routed.took() == [0, 0]


def test_routes_forget_everything_after_a_gap(routed: Routed) -> None:
    routed.pod(WAITING)
    routed.pod(READY)
    routed.slices.reactions.begin_again()
    routed.endpoint(ready=True, after=1)
    assert routed.took() == [0, 0]
