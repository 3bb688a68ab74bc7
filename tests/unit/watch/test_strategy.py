from watchslo.watch.messages import ListRequest
from watchslo.watch.strategy import CACHE, PAGED, PARALLEL, REFUSAL_SECONDS, STRATEGIES, STREAM, TAIL, StreamedLists


def test_tail_lists_nothing_and_is_gentle_to_a_server_that_is_not_ready() -> None:
    assert TAIL.first == ListRequest(absent_name=True)
    assert TAIL.throttled == ListRequest(limit=1)
    assert not TAIL.paged


def test_paged_lists_everything() -> None:
    assert PAGED.first == PAGED.throttled == ListRequest()
    assert PAGED.paged
    assert not PAGED.parallel


def test_parallel_lists_the_same_and_watches_meanwhile() -> None:
    assert PARALLEL.first == PARALLEL.throttled == PAGED.first
    assert PARALLEL.paged
    assert PARALLEL.parallel


def test_what_an_apiserver_may_not_have_falls_back_to_pages() -> None:
    assert STREAM.first is None
    assert CACHE.first == CACHE.throttled == ListRequest(from_cache=True)
    assert not CACHE.paged
    assert STREAM.instead is CACHE.instead is PAGED
    assert TAIL.instead is PAGED.instead is PARALLEL.instead is None


def test_strategies_are_known_by_name() -> None:
    assert STRATEGIES == {"tail": TAIL, "paged": PAGED, "parallel": PARALLEL, "stream": STREAM, "cache": CACHE}


def test_lists_are_streamed_until_they_are_refused_and_again_after_a_day() -> None:
    lists = StreamedLists()
    assert lists.usable(0.0)
    lists.refused(100.0)
    assert not lists.usable(100.0)
    assert not lists.usable(100.0 + REFUSAL_SECONDS - 0.1)
    assert lists.usable(100.0 + REFUSAL_SECONDS)


def test_another_version_of_the_apiserver_may_stream_lists() -> None:
    lists = StreamedLists()
    lists.observe_version("v1.30.14")
    lists.refused(100.0)
    lists.observe_version("v1.30.14")
    assert not lists.usable(101.0)
    lists.observe_version("v1.36.3")
    assert lists.usable(101.0)
