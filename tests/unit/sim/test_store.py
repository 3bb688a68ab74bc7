from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchslo.sim.event_edits import EditLog, EditRecord
from watchslo.sim.kinds import Object
from watchslo.sim.store import CacheModel, Etcd, RevisionGone, RevisionLog, StorageClock

PODS = "pods"


def named(name: str, **more: Any) -> Object:
    return {"metadata": {"name": name}, **more}


def names(etcd: Etcd, revision: int) -> list[str]:
    return [key for key, _ in etcd.at(PODS, revision).items()]


WRITES = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40)


def write(etcd: Etcd, writes: list[tuple[str, bool]]) -> list[list[str]]:
    """Apply writes, and return the names at each revision from 1 on."""
    history: list[list[str]] = [[]]
    for key, delete in writes:
        if delete and not etcd.table(PODS).get(key):
            continue
        if delete:
            etcd.delete(PODS, key, 0.0)
        else:
            etcd.put(PODS, key, named(key), 0.0)
        history.append([key for key, _ in etcd.table(PODS).items()])
    return history


@given(WRITES, st.integers(1, 60))
def test_etcd_reads_past_revisions_until_compaction(writes: list[tuple[str, bool]], compacted: int) -> None:
    etcd = Etcd(retain=1000)
    history = write(etcd, writes)
    etcd.compact(compacted)
    assert etcd.compacted == min(compacted, etcd.revision)
    for revision, there in enumerate(history, start=1):
        if revision < etcd.compacted:
            with pytest.raises(RevisionGone) as gone:
                etcd.at(PODS, revision)
            assert gone.value.oldest == etcd.compacted
        else:
            assert names(etcd, revision) == there
            assert [change.revision for change in etcd.since(PODS, revision)] == list(
                range(revision + 1, etcd.revision + 1)
            )


def test_etcd_compacts_itself_beyond_its_limit() -> None:
    etcd = Etcd(retain=10)
    write(etcd, [("a", False)] * 100)
    assert etcd.revision - 20 <= etcd.compacted <= etcd.revision - 10


@given(WRITES, WRITES, st.integers(1, 50))
def test_cache_serves_changes_inside_its_window(
    before: list[tuple[str, bool]], after: list[tuple[str, bool]], capacity: int
) -> None:
    etcd = Etcd(retain=1000)
    write(etcd, before)
    filled_at = etcd.revision
    cache = CacheModel(etcd.table(PODS), filled_at, capacity)
    assert not cache.advanced
    write(etcd, after)
    for change in etcd.since(PODS, filled_at):
        cache.apply(change)
    assert cache.revision == etcd.revision
    assert cache.oldest == max(filled_at, etcd.revision - capacity)
    for revision in range(1, etcd.revision + 1):
        if revision < cache.oldest:
            with pytest.raises(RevisionGone) as gone:
                cache.since(revision)
            assert gone.value.oldest == cache.oldest
        else:
            assert cache.since(revision) == etcd.since(PODS, revision)


def test_revision_log_is_bounded_and_read_by_time() -> None:
    log = RevisionLog(capacity=10)
    for number in range(100):
        log.append(float(number), number + 1000, watch=number % 3)
    assert 10 <= len(log.since(0.0)["at"]) < 20
    assert log.since(97.0) == {"revision": [1098, 1099], "at": [98.0, 99.0], "stream": [2, 0]}
    assert log.since(99.0) == {"revision": [], "at": [], "stream": []}


def test_edit_log_is_bounded_and_returns_columns_after_a_time() -> None:
    log = EditLog(capacity=3)
    for at in range(5):
        log.append(EditRecord(float(at), "pods", 7, "lost-event", 100 + at))
    assert log.since(0.0)["revision"] == [102, 103, 104]
    assert log.since(3.0) == {
        "at": [4.0],
        "resource": ["pods"],
        "stream": [7],
        "fault": ["lost-event"],
        "revision": [104],
    }


@pytest.mark.parametrize(("reads", "read"), [(True, 2_000_000_000_500_000_000), (False, 2_000_000_000_000_000_000)])
def test_commit_times_are_nanoseconds_of_their_own_clock(*, reads: bool, read: int) -> None:
    etcd = Etcd(retain=100, clock=StorageClock(unix=1_999_999_900.0, drift=0.0, dates_reads=reads))
    committed = etcd.put(PODS, "a", named("a"), 100.0)
    assert committed.revision == 2_000_000_000_000_000_000
    assert etcd.read(100.5) == read
    assert names(etcd, committed.revision) == ["a"]


@given(times=st.lists(st.floats(0.0, 1e6), min_size=1).map(sorted), reads=st.booleans())
def test_no_commit_is_dated_before_an_earlier_read_or_commit(*, times: list[float], reads: bool) -> None:
    etcd = Etcd(retain=1000, clock=StorageClock(unix=1e9, drift=1e-4, dates_reads=reads))
    revisions = []
    for now in times:
        read = etcd.read(now)
        revisions.append(etcd.put(PODS, "a", named("a"), now).revision)
        assert read < revisions[-1]
        assert etcd.read(now) >= revisions[-1]
    assert revisions == sorted(set(revisions))
    assert revisions[-1] >= (1e9 + times[-1]) * 1e9 - 256  # floats of this size are 128 apart


@given(
    times=st.lists(st.tuples(st.floats(0.0, 0.05), st.booleans(), st.booleans()), min_size=1),
    reads=st.booleans(),
    random=st.randoms(use_true_random=False),
)
def test_a_read_at_some_time_sees_exactly_the_commits_up_to_it(
    *, times: list[tuple[float, bool, bool]], reads: bool, random: Random
) -> None:
    clock = StorageClock(unix=1e9, drift=1e-4, dates_reads=reads, wait=lambda: random.uniform(0.0, 0.02))
    etcd = Etcd(retain=1000, clock=clock)
    now, seen = 100.0, [(0, 0.0)]  # the newest revision of each read, and when it was sent
    for pause, writes, is_read in times:
        now += pause
        if writes:
            change = etcd.put(PODS, "a", named("a"), now)
            assert change.committed <= now
            assert change.committed == pytest.approx(clock.seconds(change.revision), abs=1e-6)
            assert all(read < change.revision for read, _ in seen)
            assert all(sent <= change.committed + 1e-6 for _, sent in seen)
        if is_read:
            seen.append((etcd.read(now), now))


def test_a_fast_clock_drifts() -> None:
    etcd = Etcd(retain=100, clock=StorageClock(unix=0.0, drift=1e-4, dates_reads=True))
    first = etcd.read(1.0)
    assert etcd.read(10_001.0) - first == pytest.approx(10_001e9, abs=2)


def test_commit_times_are_compacted_by_the_number_of_commits() -> None:
    etcd = Etcd(retain=10, clock=StorageClock(unix=1e9, drift=0.0, dates_reads=False))
    changes = [etcd.put(PODS, "a", named("a"), float(second)) for second in range(100)]
    kept = etcd.since(PODS, etcd.compacted)
    assert 10 <= len(kept) <= 20
    assert kept[-1] == changes[-1]
    assert etcd.earlier(5) == changes[-6].revision
