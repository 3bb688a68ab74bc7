from watchslo.watch.messages import ListRequest
from watchslo.watch.strategy import PAGED, STRATEGIES, TAIL


def test_tail_lists_nothing_and_is_gentle_to_a_server_that_is_not_ready() -> None:
    assert TAIL.first == ListRequest(absent_name=True)
    assert TAIL.throttled == ListRequest(limit=1)
    assert not TAIL.paged


def test_paged_lists_everything() -> None:
    assert PAGED.first == PAGED.throttled == ListRequest()
    assert PAGED.paged


def test_strategies_are_known_by_name() -> None:
    assert STRATEGIES == {"tail": TAIL, "paged": PAGED}
