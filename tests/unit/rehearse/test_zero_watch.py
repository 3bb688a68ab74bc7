"""A watch from resourceVersion=0: its objects, and when they are complete."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.monitor.cluster import PODS, Cluster, Watch, because_of, line
from watchslo.rehearse.rehearsal import Rehearsal
from watchslo.rehearse.zero_watch import PATIENT_SECONDS, rehearse_zero
from watchslo.watch.failure import ENDED, Failure, Reason


async def rehearse(client: Any, expected: int = 4) -> Rehearsal:
    return await rehearse_zero(client, PODS, None, expected)


def opened(cluster: Cluster, send: Callable[[Watch], object]) -> None:
    """Call `send` with the watch, right after it opened."""

    async def wait() -> None:
        while not cluster.watches:  # noqa: ASYNC110 - the cluster has no event for it
            await asyncio.sleep(0.001)
        send(cluster.watches[0])

    cluster.opening = asyncio.create_task(wait())  # type: ignore[attr-defined]


@pytest.mark.parametrize(("expected", "waited"), [(3, 1.5), (4, 1.5), (5, 0.5 + PATIENT_SECONDS)])
async def test_objects_are_complete_when_no_more_arrive(
    client: Any, cluster: Cluster, expected: int, waited: float
) -> None:
    began = asyncio.get_running_loop().time()
    objects = b"".join(line("ADDED", revision) for revision in (90, 95, 92))
    later, change = line("ADDED", 99), line("MODIFIED", 101)

    def send(watch: Watch) -> None:
        watch.send(objects)
        loop = asyncio.get_running_loop()
        loop.call_later(0.5, watch.send, later)
        for seconds in (0.9, 1.2, 1.8):  # live events do not prolong it
            loop.call_later(seconds, watch.send, change)

    opened(cluster, send)
    run = await rehearse(client, expected)
    assert run.synced == pytest.approx(0.5, abs=0.01)
    assert (run.objects, run.requests, run.pages, run.size) == (4, 1, 0, len(objects + later))
    assert (run.strategy, run.by, run.failure) == ("watch-zero", "watch-zero", None)
    assert asyncio.get_running_loop().time() - began == pytest.approx(waited, abs=0.01)
    assert cluster.watches[0].revision == 0
    assert not cluster.open_watches()


async def test_watch_without_objects_is_synced_when_it_opened(client: Any) -> None:
    began = asyncio.get_running_loop().time()
    run = await rehearse(client)
    assert run.synced == pytest.approx(0.002, abs=0.001)
    assert run.objects == 0
    assert asyncio.get_running_loop().time() - began == pytest.approx(PATIENT_SECONDS, abs=0.1)


async def test_refused_watch_is_a_failure(client: Any, cluster: Cluster) -> None:
    cluster.fail(Reason.THROTTLED, "watch")
    run = await rehearse(client)
    assert (run.synced, run.throttled) == (None, 1)
    assert run.failure is not None
    cluster.fail(Reason.FORBIDDEN, "watch")
    assert (await rehearse(client)).hopeless


EXPIRED = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}


@pytest.mark.parametrize(
    ("sent", "reason", "objects"),
    [
        (line("ADDED", 90) + json.dumps(EXPIRED).encode() + b"\n", Reason.EXPIRED, 1),
        (ENDED, ENDED.reason, 0),
        (because_of(Reason.RESET), Reason.RESET, 0),
    ],
    ids=["410", "end", "reset"],
)
async def test_error_or_end_before_the_objects_are_complete_is_a_failure(
    client: Any, cluster: Cluster, sent: bytes | Failure, reason: Reason, objects: int
) -> None:
    opened(cluster, lambda watch: watch.send(sent))
    run = await rehearse(client)
    assert (run.synced, run.objects, run.expired_watches) == (None, objects, reason is Reason.EXPIRED)
    assert run.failure is not None
    assert run.failure.reason is reason
