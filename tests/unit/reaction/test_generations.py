"""Deployments and custom resources: from a raised generation to an observed one."""

import math

import pytest

from tests.unit.reaction.cluster import DEPLOYMENTS, WIDGETS, Cluster
from watchslo.reaction.resource_reactions import CacheProof


@pytest.fixture
def deployments() -> Cluster:
    return Cluster(DEPLOYMENTS)


def observed(generation: object) -> dict[str, object]:
    return {"observedGeneration": generation}


def test_created_object_is_observed(deployments: Cluster) -> None:
    deployments.send("ADDED", generation=1, status={})
    deployments.send("MODIFIED", after=0.5, generation=1, status=observed(1))
    assert deployments.took() == [0.5, 1]


def test_each_generation_has_its_own_time(deployments: Cluster) -> None:
    deployments.send("ADDED", generation=1, status=observed(1))
    deployments.send("MODIFIED", after=5, generation=2, status=observed(1))
    deployments.send("MODIFIED", after=1, generation=3, status=observed(1))
    deployments.send("MODIFIED", after=1, generation=3, status=observed(2))
    deployments.send("MODIFIED", after=2, generation=3, status=observed(3))
    assert deployments.took() == [2.0 + 3.0, 2]


def test_one_status_can_observe_several_generations(deployments: Cluster) -> None:
    deployments.send("ADDED", generation=1)
    deployments.send("MODIFIED", after=1, generation=2)
    deployments.send("MODIFIED", after=1, generation=2, status=observed(2))
    assert deployments.took() == [2.0 + 1.0, 2]


def test_generation_of_an_object_that_is_first_seen_changing_is_no_sample(deployments: Cluster) -> None:
    deployments.send("MODIFIED", generation=7, status=observed(6))
    deployments.send("MODIFIED", after=1, generation=7, status=observed(7))
    assert deployments.took() == [0.0, 0]
    deployments.send("MODIFIED", after=1, generation=8, status=observed(7))
    deployments.send("MODIFIED", after=1, generation=8, status=observed(8))
    assert deployments.took() == [1.0, 1]


def test_first_change_of_an_object_that_was_there_before_is_a_sample(deployments: Cluster) -> None:
    deployments.send("ADDED", initial=True, generation=7, status=observed(6))
    assert deployments.reading().pending == 0, "it is unknown since when"
    deployments.send("MODIFIED", after=1, generation=8, status=observed(7))
    deployments.send("MODIFIED", after=2, generation=8, status=observed(8))
    assert deployments.took() == [2.0, 1]


def test_objects_after_the_mark_that_ends_the_initial_ones_are_created(deployments: Cluster) -> None:
    annotations = {"k8s.io/initial-events-end": "true"}
    mark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "5", "annotations": annotations}}}
    old, new = (
        {"type": "ADDED", "object": {"metadata": {"uid": uid, "resourceVersion": revision, "generation": 1}}}
        for uid, revision in (("a", "4"), ("b", "6"))
    )
    deployments.send_line(old, mark, new, initial=True)
    assert deployments.reading().pending == 1


def test_pending_generations_have_an_age(deployments: Cluster) -> None:
    deployments.send("ADDED", generation=1)
    deployments.send("ADDED", after=2, generation=1, uid="b")
    deployments.now += 1
    reading = deployments.reading()
    assert (reading.pending, reading.oldest_pending) == (2, 3.0)
    hidden = deployments.reading(is_current=False)
    assert (hidden.pending, hidden.oldest_pending) == (None, None), "a watch that is late may withhold the reactions"


def test_pending_age_grows_only_while_the_watch_is_proven_to_lack_nothing(deployments: Cluster) -> None:
    deployments.send("ADDED", generation=1)
    asked, audited = deployments.now, deployments.now + 3
    deployments.now += 60

    def age(at: float, revision: int) -> float | None:
        return deployments.proven(CacheProof(at, revision)).oldest_pending

    assert age(-math.inf, 1) == 0.0, "never audited: the cache may be frozen"
    assert age(audited, 1) == 3.0
    assert age(audited, 2) == 0.0, "the watch of whole objects lacks what the other one has"
    deployments.send("ADDED", generation=1, uid="b")
    assert age(audited, 2) == deployments.now - asked == 60.0, "an event shows it too"


@pytest.mark.parametrize(("seconds", "threshold", "slow"), [(6.0, 5.0, True), (6.0, 7.0, False), (6.0, None, None)])
def test_step_is_slow_if_it_is_proven_to_take_longer_than_its_threshold(
    deployments: Cluster, seconds: float, threshold: float | None, slow: object
) -> None:
    deployments.send("ADDED", generation=1)
    deployments.send("MODIFIED", after=seconds, generation=1, status={"observedGeneration": 1})
    deployments.settle()
    assert deployments.proven(None, threshold=threshold).slow is slow


def test_step_is_not_slow_if_only_its_upper_bound_is_above_the_threshold(deployments: Cluster) -> None:
    deployments.spread = 2.0
    deployments.send("ADDED", generation=1)
    deployments.send("MODIFIED", after=4, generation=1, status={"observedGeneration": 1})
    deployments.settle()
    (_, p99) = deployments.reading().quantiles
    assert p99.lower < 5.0 < p99.upper
    assert deployments.reading().slow is False


def test_step_is_slow_while_an_object_waits_for_longer_than_the_threshold(deployments: Cluster) -> None:
    deployments.send("ADDED", generation=1)
    deployments.now += 6
    assert deployments.reading().slow is True
    assert deployments.reading(is_current=False).slow is False, "what the watch withholds is unknown"


def test_deleted_object_is_not_pending_any_more(deployments: Cluster) -> None:
    deployments.send("ADDED", generation=1)
    deployments.send("DELETED", generation=1)
    deployments.send("DELETED", generation=1, uid="unknown")
    assert deployments.reading().pending == 0
    assert deployments.unmeasured() == {"gone": 1}


def test_custom_resource_counts_once_its_controller_observes_generations() -> None:
    widgets = Cluster(WIDGETS)
    widgets.send("ADDED", generation=1)
    widgets.send("MODIFIED", generation=2, status={"phase": "Done"})
    assert widgets.reading().pending == 0, "nothing may ever come"
    widgets.send("ADDED", uid="b", generation=1, status=observed(1))
    widgets.send("MODIFIED", after=1, generation=3)
    widgets.send("MODIFIED", after=2, generation=3, status=observed(3))
    assert widgets.took() == [2.0, 1]


@pytest.mark.parametrize("status", [None, "ready", [], {"observedGeneration": "1"}, {"observedGeneration": 1.5}])
def test_odd_status_costs_nothing_else(status: object) -> None:
    widgets = Cluster(WIDGETS)
    widgets.send("ADDED", generation=1, status=status)
    widgets.send("ADDED", uid="b", generation=1, status=observed(0))
    widgets.send("MODIFIED", after=1, uid="b", generation=1, status=observed(1))
    assert widgets.took() == [1.0, 1]


def test_object_without_generation_or_uid_is_left_out(deployments: Cluster) -> None:
    deployments.send("ADDED")
    deployments.send("ADDED", uid=None, generation=1)
    assert deployments.reading().pending == 0
