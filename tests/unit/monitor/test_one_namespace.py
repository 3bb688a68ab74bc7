"""An identity with rights in one namespace only, as in a project of OpenShift or Rancher."""

from collections import Counter
from typing import Any

import pytest

from tests.unit.monitor.cluster import CONFIGMAPS, EVENTS, PODS, Cluster
from tests.unit.monitor.inside import keep_writing, running
from watchslo.config.model import Config
from watchslo.watch.failure import Reason

OF_PROJECT = {"watch": [{"resource": "configmaps", "namespace": "mine"}, {"resource": "pods", "namespace": "mine"}]}


@pytest.fixture(autouse=True)
def _rights(cluster: Cluster) -> None:
    cluster.namespace = "mine"


def config(**more: Any) -> Config:
    return Config.model_validate(OF_PROJECT | more)


async def measured(cluster: Cluster, made: Config) -> int:
    """Return how many events were measured with a configuration."""
    async with running(made) as run:
        assert run.not_ready() == ()
        await keep_writing(cluster, CONFIGMAPS, PODS)
        return run.stream("configmaps").track.timespan.total


async def test_ticks_read_the_namespace_that_may_be_read(cluster: Cluster) -> None:
    assert await measured(cluster, config()) > 300
    assert cluster.count("tick", "events") > 50


async def test_only_the_namespace_of_the_watches_is_asked(cluster: Cluster) -> None:
    async with running(config()):
        await keep_writing(cluster, CONFIGMAPS)
    assert set(cluster.asked_in["tick"]) == {"mine"}
    assert set(cluster.asked_in["detect_storage"]) == {"mine"}


async def test_a_namespace_that_may_not_be_read_is_asked_once(cluster: Cluster) -> None:
    async with running(config(clock={"namespace": "default"})):
        await keep_writing(cluster, CONFIGMAPS, seconds=120)
    assert [name for name in cluster.asked_in["tick"] if name != "mine"] == ["default"]
    assert cluster.asked_in["detect_storage"][:2] == ["default", "mine"]


async def test_a_watch_of_events_is_ticked_on_where_it_reads(cluster: Cluster) -> None:
    async with running(Config.model_validate({"watch": [{"resource": "events", "namespace": "mine"}]})) as run:
        await keep_writing(cluster, EVENTS)
        assert run.stream("events").track.timespan.total > 300


async def test_ticks_begin_when_a_right_is_granted(cluster: Cluster) -> None:
    cluster.fail(Reason.FORBIDDEN, "tick")
    async with running(config()) as run:
        assert "The revision clock does not tick" in run.not_ready()[0]
        cluster.fail(None, "tick")
        await keep_writing(cluster, CONFIGMAPS, seconds=200)
        assert run.not_ready() == ()


async def test_ticks_read_a_watched_resource_if_no_namespace_has_events(cluster: Cluster) -> None:
    cluster.fail(Reason.FORBIDDEN, "tick", "events")
    assert await measured(cluster, config()) > 300


async def test_ticks_return_to_a_namespace_after_a_right_was_removed(cluster: Cluster) -> None:
    cluster.namespace = None
    async with running(config()) as run:
        cluster.namespace = "mine"
        await keep_writing(cluster, CONFIGMAPS, seconds=60)
        assert run.not_ready() == ()
        assert run.stream("configmaps").track.timespan.total > 300


async def test_ticks_stay_in_the_configured_namespace_if_it_may_be_read(cluster: Cluster) -> None:
    cluster.namespace = None
    async with running(config(clock={"namespace": "other"})):
        await keep_writing(cluster, CONFIGMAPS)
    assert Counter(cluster.asked_in["tick"]).most_common(1)[0][0] == "other"
