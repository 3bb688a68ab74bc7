"""An apiserver reveals whether its storage is kine, in each version, and never wrongly."""

import asyncio

import pytest

from tests.unit.monitor.cluster import Cluster, Log, Watch
from tests.unit.monitor.inside import config, running
from watchslo.monitor.storage_prober import find_kind
from watchslo.snapshot import StorageKind
from watchslo.watch.failure import Failure, Reason
from watchslo.watch.missing_right import AGAIN_SECONDS as AGAIN_AFTER_REFUSAL_SECONDS

AGAIN_SECONDS, UNKNOWN_SECONDS = 120.0, 30.0  # in place of an hour and five minutes, which would take seconds of CPU
KINE, SEQUENCE, UNKNOWN = StorageKind.KINE, StorageKind.SEQUENCE, StorageKind.UNKNOWN


async def found(cluster: Cluster) -> StorageKind | Failure:
    return await find_kind(cluster, "default")  # type: ignore[arg-type]


@pytest.mark.parametrize("compacted", [2, 3, 57, 99, 100])
async def test_etcd_is_known_by_its_compaction(cluster: Cluster, compacted: int) -> None:
    cluster.compacted = compacted
    assert await found(cluster) is SEQUENCE


@pytest.mark.parametrize("compacted", [2, 3, 57, 99, 100])
async def test_old_kine_is_known_by_its_compaction(cluster: Cluster, compacted: int) -> None:
    cluster.is_kine, cluster.refuses_future, cluster.compacted = True, False, compacted
    assert await found(cluster) is KINE


@pytest.mark.parametrize("compacted", [0, 57])
async def test_kine_is_known_by_the_future(cluster: Cluster, compacted: int) -> None:
    cluster.is_kine, cluster.compacted = True, compacted
    assert await found(cluster) is KINE


@pytest.mark.parametrize("is_kine", [True, False])
async def test_storage_without_compaction_is_unknown(cluster: Cluster, is_kine: bool) -> None:  # noqa: FBT001
    cluster.is_kine, cluster.refuses_future, cluster.compacted = is_kine, False, 0
    assert await found(cluster) is UNKNOWN


async def test_refusal_by_a_watch_cache_is_no_proof_of_kine(cluster: Cluster) -> None:
    """Events may have a watch cache, whose history begins later; it names its oldest revision."""
    cluster.compacted, cluster.oldest, cluster.uncached = 50, 80, set()
    assert await found(cluster) is UNKNOWN


async def test_compaction_in_between_is_no_proof_of_kine(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch is then refused by etcd as well."""
    cluster.compacted, answer = 50, cluster._of_storage

    def compact_first(watch: Watch, timeout: float) -> Watch:
        if watch.revision == 49:
            cluster.compacted = 60
        return answer(watch, timeout)

    monkeypatch.setattr(cluster, "_of_storage", compact_first)
    assert await found(cluster) is UNKNOWN


async def test_commit_times_are_not_asked_further(cluster: Cluster) -> None:
    cluster.revision = 1_753_647_547_040_015_001
    assert await found(cluster) is UNKNOWN
    assert [kind for _, kind, _ in cluster.asked] == ["detect_storage"]


@pytest.mark.parametrize("reason", [Reason.FORBIDDEN, Reason.UNREACHABLE])
async def test_failure_proves_nothing(cluster: Cluster, reason: Reason) -> None:
    cluster.fail(reason, "detect_storage", "events")
    failure = await found(cluster)
    assert isinstance(failure, Failure)
    assert failure.reason is reason


async def test_daemon_asks_again_until_it_is_known(cluster: Cluster, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchslo.monitor.storage_prober.AGAIN_SECONDS", AGAIN_SECONDS)
    monkeypatch.setattr("watchslo.monitor.storage_prober.UNKNOWN_SECONDS", UNKNOWN_SECONDS)
    cluster.is_kine, cluster.refuses_future, cluster.git_version = True, False, "v1.36.3+k3s1"
    cluster.compacted = 0
    async with running(config("pods")) as run:
        await asyncio.sleep(30)
        assert (run.snapshot().domains[0].kind, run.snapshot().apiservers[0].unproven is None) == (SEQUENCE, False)
        cluster.compacted = 50
        await asyncio.sleep(1.5 * UNKNOWN_SECONDS + 5)
        assert (run.snapshot().domains[0].kind, run.snapshot().apiservers[0].unproven) == (KINE, None)
        asked = sum(kind == "detect_storage" for _, kind, _ in cluster.asked)
        await asyncio.sleep(0.5 * AGAIN_SECONDS - 5)
        assert sum(kind == "detect_storage" for _, kind, _ in cluster.asked) == asked
        cluster.compacted = 0
        await asyncio.sleep(1.1 * AGAIN_SECONDS)
        assert run.snapshot().domains[0].kind is KINE, "nothing contradicts it"
    assert len(log.of("kine_found")) == 1


async def test_start_of_an_apiserver_hides_the_storage_for_a_minute_only(cluster: Cluster) -> None:
    """It refuses everything for a moment."""
    cluster.is_kine, cluster.compacted = True, 50
    cluster.fail(Reason.FORBIDDEN, "detect_storage")
    async with running(config("pods")) as run:
        cluster.failures.clear()
        await asyncio.sleep(1.5 * AGAIN_AFTER_REFUSAL_SECONDS)
        assert run.snapshot().domains[0].kind is KINE


async def test_stated_storage_is_not_asked_for(cluster: Cluster) -> None:
    async with running(config("pods", clock={"storage": "kine"})) as run:
        await asyncio.sleep(30)
        assert run.snapshot().domains[0].kind is KINE
    assert not [kind for _, kind, _ in cluster.asked if kind == "detect_storage"]
