from watchslo.watch.messages import ListRequest
from watchslo.watch.strategy import (
    CACHE,
    PAGED,
    PARALLEL,
    REPLAY,
    STRATEGIES,
    STREAM,
    TAIL,
    relist,
)


def test_tail_lists_nothing_and_uses_limit_one_after_a_429() -> None:
    assert TAIL.first == ListRequest(absent_name=True)
    assert TAIL.throttled == ListRequest(limit=1, absent_namespace=True)
    assert TAIL.first.for_revision
    assert TAIL.throttled.for_revision
    assert not ListRequest(limit=1).for_revision
    assert not TAIL.paged


def test_relist_lists_nothing_older_than_a_known_revision() -> None:
    whole, paged = relist(7, paged=False), relist(7, paged=True)
    assert whole.first == whole.throttled == ListRequest(not_older_than=7)
    assert paged.first == paged.throttled == ListRequest(not_older_than=7, states_match=True)
    assert (whole.paged, paged.paged) == (False, True)
    assert (whole.name, paged.name) == ("relist", "relist-paged")
    assert whole.fallback is paged.fallback is PAGED
    assert not whole.first.is_consistent
    assert not ListRequest(from_cache=True).is_consistent
    assert ListRequest(limit=1).is_consistent


def test_stream_and_cache_fall_back_to_paged() -> None:
    assert STREAM.first is None
    assert CACHE.first == CACHE.throttled == ListRequest(from_cache=True)
    assert not CACHE.paged
    assert STREAM.fallback is CACHE.fallback is PAGED
    assert TAIL.fallback is PAGED.fallback is PARALLEL.fallback is None


def test_replay_begins_at_the_oldest_revision_and_is_not_for_configurations() -> None:
    assert REPLAY.first == REPLAY.throttled == ListRequest(oldest=True)
    assert REPLAY.fallback is TAIL
    assert REPLAY.name not in STRATEGIES


def test_strategies_are_known_by_name() -> None:
    assert STRATEGIES == {"tail": TAIL, "paged": PAGED, "parallel": PARALLEL, "stream": STREAM, "cache": CACHE}
