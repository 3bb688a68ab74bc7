"""An apiserver reveals whether its storage is kine, in each version, and never wrongly."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.monitor.cluster import Cluster, nowhere
from watchslo.kube.limiter import Limiter
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.assignment.storage_prober import LOOK_SECONDS, REPEATS, StorageProber, find_kind
from watchslo.snapshot import StorageKind
from watchslo.watch.failure import Failure, Reason, because
from watchslo.watch.missing_right import AGAIN_SECONDS as AGAIN_AFTER_REFUSAL_SECONDS

HOUR_SECONDS = 3600.0
KINE, SEQUENCE, UNKNOWN = StorageKind.KINE, StorageKind.SEQUENCE, StorageKind.UNKNOWN
MOST_REQUESTS = 20 + REPEATS  # for one answer
REQUESTS_WITHOUT_COMPACTION = 3


async def found(cluster: Cluster) -> StorageKind | Failure:
    return await find_kind(cluster, "default")  # type: ignore[arg-type]


OLD_KINE = {"is_kine": True, "refuses_future": False}
STORAGES: dict[str, tuple[dict[str, Any], StorageKind]] = {
    **{f"etcd compacted at {at}": ({"compacted": at}, SEQUENCE) for at in (3, 57, 99, 100)},
    "etcd without compaction": ({"compacted": 0, "refuses_future": False}, UNKNOWN),
    **{f"old kine compacted at {at}": ({**OLD_KINE, "compacted": at}, KINE) for at in (3, 57, 99, 100)},
    # However long its database takes.
    **{
        f"slow old kine compacted at {at}": ({**OLD_KINE, "compacted": at, "refuses_within": 0.3}, KINE)
        for at in (3, 57, 99, 100)
    },
    "old kine without compaction": ({**OLD_KINE, "compacted": 0}, UNKNOWN),
    **{f"kine compacted at {at}": ({"is_kine": True, "compacted": at}, KINE) for at in (0, 57)},
    # Events may have a watch cache, which refuses at once as kine does.
    "etcd behind a watch cache": ({"compacted": 50, "oldest": 80, "uncached": set()}, UNKNOWN),
}


@pytest.mark.parametrize(("facts", "kind"), STORAGES.values(), ids=STORAGES)
async def test_storage_is_known_by_its_refusals_and_by_the_future(
    cluster: Cluster, facts: dict[str, Any], kind: StorageKind
) -> None:
    vars(cluster).update(facts)
    assert await found(cluster) is kind
    assert cluster.count("detect_storage") <= MOST_REQUESTS


@pytest.mark.parametrize("compacted", [0, 2, 3, 999_000, 1_000_000])
@pytest.mark.parametrize(("is_kine", "refuses_future"), [(False, False), (True, False), (True, True)])
async def test_no_watch_reads_the_past(
    cluster: Cluster,
    compacted: int,
    is_kine: bool,  # noqa: FBT001
    refuses_future: bool,  # noqa: FBT001
) -> None:
    """Each begins at a compacted revision, at the newest one or in the future: etcd reads nothing for it."""
    cluster.revision = 1_000_000
    cluster.is_kine, cluster.refuses_future, cluster.compacted = is_kine, refuses_future, compacted
    await found(cluster)
    assert all(begun < cluster.compacted - 1 or begun >= newest for begun, newest in cluster.begun)
    assert cluster.begun


async def test_commit_times_are_not_asked_further(cluster: Cluster) -> None:
    cluster.revision = 1_753_647_547_040_015_001
    assert await found(cluster) is UNKNOWN
    assert [kind for _, kind, _ in cluster.asked] == ["detect_storage"]


@pytest.mark.parametrize("reason", [Reason.FORBIDDEN, Reason.UNREACHABLE])
@pytest.mark.parametrize("which", range(1, 8))
async def test_failure_of_any_request_proves_nothing(
    cluster: Cluster, which: int, reason: Reason, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.compacted, answer = 50, cluster._answer

    async def fail_later(kind: str, key: str = "", namespace: str | None = None) -> Failure | None:
        failure = await answer(kind, key, namespace)
        return because(reason) if cluster.count("detect_storage") >= which else failure

    monkeypatch.setattr(cluster, "_answer", fail_later)
    failure = await found(cluster)
    assert isinstance(failure, Failure)
    assert failure.reason is reason


@asynccontextmanager
async def probed(cluster: Cluster) -> AsyncIterator[Apiserver]:
    """Run a prober without a daemon, so that hours take no time."""
    apiserver = Apiserver("one", nowhere(), Limiter(20.0))
    apiserver.client = cluster  # type: ignore[assignment]
    task = asyncio.create_task(StorageProber(apiserver, lambda: "default", lambda: True, lambda: 0.5).run())
    yield apiserver
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("is_kine", [True, False])
async def test_storage_is_asked_once(cluster: Cluster, is_kine: bool) -> None:  # noqa: FBT001
    cluster.is_kine = is_kine
    async with probed(cluster) as apiserver:
        await asyncio.sleep(24 * HOUR_SECONDS)
        assert apiserver.storage is (KINE if is_kine else SEQUENCE)
    assert max(at for at, _, _ in cluster.asked) - cluster.asked[0][0] < LOOK_SECONDS
    assert cluster.count("detect_storage") <= MOST_REQUESTS


async def test_unknown_storage_is_asked_seldom(cluster: Cluster) -> None:
    cluster.compacted = 0
    async with probed(cluster) as apiserver:
        await asyncio.sleep(48 * HOUR_SECONDS)
        assert apiserver.storage is UNKNOWN
    times = [at for at, _, _ in cluster.asked]
    assert times[-1] - times[0] > 24 * HOUR_SECONDS, "it is asked for as long as it is unknown"
    assert len(times) <= 20 * REQUESTS_WITHOUT_COMPACTION


async def test_refused_request_is_tried_again_after_a_minute_and_then_an_hour(cluster: Cluster) -> None:
    cluster.fail(Reason.FORBIDDEN, "detect_storage", "events")
    async with probed(cluster) as apiserver:
        await asyncio.sleep(AGAIN_AFTER_REFUSAL_SECONDS + 1)
        assert cluster.count("detect_storage") == 2, "the first refusal may be that of an apiserver that starts"
        await asyncio.sleep(HOUR_SECONDS - 2)
        assert cluster.count("detect_storage") == 2
        cluster.fail(None, "detect_storage", "events")
        await asyncio.sleep(LOOK_SECONDS)
        assert apiserver.storage is SEQUENCE
