"""The daemon compares what the same watch delivered at several apiservers, against a cluster in memory."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from tests.unit.monitor.cluster import PODS, Cluster, Log, line
from tests.unit.monitor.inside import Running, config, keep_writing, running
from watchslo.monitor.delivery_checker import RETRY_SECONDS, TRIES
from watchslo.watch.failure import Reason

FIRST, SECOND, THIRD = "10.0.0.1", "10.0.0.2", "10.0.0.3"
CONFIRMED_SECONDS = 15.0  # an evaluation, a second short watch of two seconds, and some time for the watch to deliver


def apart(cluster: Cluster, *hosts: str, **more: Any) -> AbstractAsyncContextManager[Running]:
    """Watch pods at each of these apiservers."""
    cluster.announce(*hosts)
    return running(config("pods", kubernetes={"apiservers": [f"https://{host}" for host in hosts]}, **more))


def violations(run: Running) -> dict[str, dict[str, int]]:
    """Return the violations by host and guarantee."""
    return {
        stream.apiserver.partition(":")[0]: found
        for stream in run.snapshot().streams
        if (found := {name: count for name, count in stream.guarantees.violations.items() if count})
    }


async def test_event_lost_at_one_of_three_apiservers_is_found(cluster: Cluster, log: Log) -> None:
    async with apart(cluster, FIRST, SECOND, THIRD) as run:
        await keep_writing(cluster, PODS, seconds=10)
        cluster.losing[SECOND] = 3
        await keep_writing(cluster, PODS, seconds=CONFIRMED_SECONDS)
        assert violations(run) == {SECOND: {"reliable": 3}}
        checked = {stream.apiserver: stream.guarantees.checked["reliable"] for stream in run.snapshot().streams}
        assert all(150 < count <= 250 for count in checked.values()), checked
    (logged,) = log.of("guarantee_violated")
    assert (logged["apiserver"], logged["guarantee"], logged["count"]) == (f"{SECOND}:443", "reliable", 3)
    assert logged["newest"] - logged["oldest"] == 2


async def test_event_lost_at_one_of_two_apiservers_is_confirmed_by_a_read(cluster: Cluster) -> None:
    async with apart(cluster, FIRST, SECOND) as run:
        await keep_writing(cluster, PODS, seconds=10)
        audits = cluster.count("audit")
        cluster.losing[SECOND] = 1
        await keep_writing(cluster, PODS, seconds=CONFIRMED_SECONDS)
        assert violations(run) == {SECOND: {"reliable": 1}}
        assert cluster.count("audit") == audits + 1
        assert cluster.asked_at[f"{FIRST}:443", "audit"] >= 1


async def test_event_that_no_second_read_shows_is_not_lost(cluster: Cluster) -> None:
    """Only one watch shows it: that watch may be wrong."""
    async with apart(cluster, FIRST, SECOND) as run:
        await keep_writing(cluster, PODS, seconds=10)
        (watch,) = [one for one in cluster.open_watches() if one.apiserver.startswith(FIRST)]
        cluster.revision += 1
        watch.send(line("MODIFIED", cluster.revision))
        await keep_writing(cluster, PODS, seconds=CONFIRMED_SECONDS)
        assert violations(run) == {}


async def test_confirmation_that_fails_is_tried_again(cluster: Cluster) -> None:
    async with apart(cluster, FIRST, SECOND) as run:
        await keep_writing(cluster, PODS, seconds=10)
        cluster.fail(Reason.THROTTLED, "audit")
        audits = cluster.count("audit")
        cluster.losing[SECOND] = 1
        await keep_writing(cluster, PODS, seconds=CONFIRMED_SECONDS)
        assert cluster.count("audit") == audits + 1
        assert violations(run) == {}
        cluster.fail(None, "audit")
        await keep_writing(cluster, PODS, seconds=CONFIRMED_SECONDS + RETRY_SECONDS)
        assert violations(run) == {SECOND: {"reliable": 1}}


async def test_confirmation_that_always_fails_is_given_up(cluster: Cluster) -> None:
    async with apart(cluster, FIRST, SECOND) as run:
        await keep_writing(cluster, PODS, seconds=10)
        cluster.fail(Reason.THROTTLED, "audit")
        audits = cluster.count("audit")
        cluster.losing[SECOND] = 1
        await keep_writing(cluster, PODS, seconds=10 * RETRY_SECONDS)
        assert 1 <= cluster.count("audit") - audits <= TRIES
        assert violations(run) == {}


async def test_nothing_is_confirmed_without_audits(cluster: Cluster) -> None:
    async with apart(cluster, FIRST, SECOND, limits={"auditsPerSecond": 0}) as run:
        await keep_writing(cluster, PODS, seconds=10)
        cluster.losing[SECOND] = 1
        await keep_writing(cluster, PODS, seconds=10 * RETRY_SECONDS)
        assert cluster.count("audit") == 0
        assert violations(run) == {}


async def test_unreadable_line_is_not_lost(cluster: Cluster) -> None:
    """Which event it was is unknown."""
    async with apart(cluster, FIRST, SECOND, THIRD) as run:
        await keep_writing(cluster, PODS, seconds=10)
        (watch,) = [one for one in cluster.open_watches() if one.apiserver.startswith(SECOND)]
        cluster.losing[SECOND] = 1
        watch.send(b"?\n")
        await keep_writing(cluster, PODS, seconds=CONFIRMED_SECONDS)
        assert violations(run) == {}


async def test_event_skipped_at_a_resume_is_named_so(cluster: Cluster) -> None:
    cluster.catches_up = True
    async with apart(cluster, FIRST, SECOND) as run:
        await keep_writing(cluster, PODS, seconds=30)
        (watch,) = [one for one in cluster.open_watches() if one.apiserver.startswith(SECOND)]
        watch.send()
        cluster.losing[SECOND] = 1  # the first one after it is open again
        await asyncio.sleep(1.0)
        await keep_writing(cluster, PODS, seconds=CONFIRMED_SECONDS)
        assert violations(run) == {SECOND: {"resumable": 1}}


@pytest.mark.parametrize("hosts", [(FIRST, SECOND), (FIRST, SECOND, THIRD)], ids=["two", "three"])
async def test_slow_apiserver_loses_nothing(cluster: Cluster, hosts: tuple[str, ...]) -> None:
    cluster.slow_at[SECOND] = 3.0
    async with apart(cluster, *hosts) as run:
        await keep_writing(cluster, PODS, seconds=60)
        assert violations(run) == {}


async def test_closed_and_expired_watches_lose_nothing(cluster: Cluster) -> None:
    cluster.catches_up = True
    async with apart(cluster, FIRST, SECOND, THIRD) as run:
        for number in range(12):
            await keep_writing(cluster, PODS, seconds=5)
            watches = cluster.open_watches(PODS)
            watches[number % len(watches)].send(GONE if number % 2 else b"")
            if not number % 2:
                watches[number % len(watches)].send()
        assert violations(run) == {}


GONE = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'


async def test_nothing_is_compared_where_that_is_not_wanted(cluster: Cluster) -> None:
    async with apart(cluster, FIRST, SECOND, THIRD, guarantees={"level": "stream"}) as run:
        await keep_writing(cluster, PODS, seconds=10)
        cluster.losing[SECOND] = 1
        await keep_writing(cluster, PODS, seconds=CONFIRMED_SECONDS)
        assert violations(run) == {}
        assert not any(stream.guarantees.checked["reliable"] for stream in run.snapshot().streams)


async def test_watches_of_another_cluster_are_not_compared(cluster: Cluster) -> None:
    cluster.elsewhere[SECOND] = 5
    async with apart(cluster, FIRST, SECOND) as run:
        await keep_writing(cluster, PODS, seconds=60)
        assert violations(run) == {}
