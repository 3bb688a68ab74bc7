"""Resources and servers whose revisions are no numbers, as of some aggregated APIs and of the proxy of Karmada."""

import asyncio

import pytest

from tests.unit.monitor.cluster import CONFIGMAPS, PODS, Cluster, Log
from tests.unit.monitor.inside import config, keep_writing, running
from watchslo.timeline.timeline import Timeline
from watchslo.watch.failure import Phase, Reason, unmeasurable

READS = ("tick", "probe", "list", "nudge", "probe_cache", "detect_storage")
ODD = {"none": None, "zero": "0", "pair": "1234/5678", "uuid": "0d2bb9c5-6f66-4b34-9e18-3f4b3d1f7b0e"}


def set_aside(cluster: Cluster, text: str | None, key: str = "*") -> None:
    """Let lists of a resource, or of all, have this resourceVersion."""
    for kind in READS:
        cluster.failures[kind, key] = unmeasurable(text, Phase.LIST)


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
async def test_unmeasurable_resource_of_all_is_no_outage(cluster: Cluster, log: Log, text: str | None) -> None:
    set_aside(cluster, text, "pods")
    timeline = Timeline()
    async with running(config("*")) as run:
        await keep_writing(cluster, CONFIGMAPS, seconds=90)
        assert run.not_ready() == ()
        headline = timeline.observe(run.snapshot()).headline
        assert run.snapshot().causes == ()
    assert (headline.verdict, headline.level) == ("good", "good")
    assert "1 other watch cannot be measured" in headline.figures
    aside = [entry for entry in log.of("list_failed") if entry["reason"] == Reason.UNPARSABLE]
    assert [entry["message"] for entry in aside] == [unmeasurable(text, Phase.LIST).message]


async def test_server_without_numbers_is_named(cluster: Cluster) -> None:
    set_aside(cluster, "e30=")
    timeline = Timeline()
    async with running(config("pods", "configmaps")) as run:
        await asyncio.sleep(60)
        (why,) = run.not_ready()
        headline = timeline.observe(run.snapshot()).headline
        assert run.snapshot().causes == ()
    expected = "This server's revisions are no numbers, so it cannot be measured."
    assert why == f"The revision clock does not tick: {expected}"
    expected = "Cannot tell: nothing that is watched can be measured, because its revisions are no numbers."
    assert (headline.level, headline.text) == ("unknown", expected)


UNUSABLE = (Reason.GARBAGE, Reason.UNEXPECTED_STATUS, Reason.FORBIDDEN, Reason.INVALID)


@pytest.mark.parametrize(
    ("reason", "causes"), [*((reason, []) for reason in UNUSABLE), (Reason.SERVER_ERROR, ["storage_slow"])]
)
async def test_only_errors_of_the_storage_are_silence(cluster: Cluster, reason: Reason, causes: list[str]) -> None:
    cluster.fail(reason, "tick")
    async with running(config("pods", "configmaps")) as run:
        await keep_writing(cluster, PODS, seconds=90)
        assert [one.cause for one in run.snapshot().causes] == causes
