"""The strategies that can be rehearsed, and the requests that they lead to."""

from watchslo.rehearse.strategies import NAMES, needs_revision, protocol
from watchslo.watch.messages import ListRequest
from watchslo.watch.strategy import PAGED


def test_protocol_is_the_strategy_of_that_name() -> None:
    assert protocol("paged", 7) is PAGED
    assert [protocol(name, 7).name for name in NAMES if name != "watch-zero"] == [*NAMES[:-1]]


def test_relists_need_a_revision() -> None:
    assert [name for name in NAMES if needs_revision(name)] == ["relist", "relist-paged"]
    assert protocol("relist", 7).first == ListRequest(not_older_than=7)
