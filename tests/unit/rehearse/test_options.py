"""What follows from the options of a rehearsal, and from its strategies."""

from dataclasses import replace

import pytest

from watchslo.rehearse.options import RehearseOptions, list_objects, may_starve
from watchslo.rehearse.strategies import NAMES, needs_revision, protocol
from watchslo.watch.messages import ListRequest
from watchslo.watch.strategy import PAGED

OPTIONS = RehearseOptions(("pods",))


def test_each_chosen_strategy_is_rehearsed_once() -> None:
    assert OPTIONS.chosen == ["tail", "paged", "parallel", "stream", "cache"]
    assert replace(OPTIONS, strategies=("all",)).chosen == list(NAMES)
    assert replace(OPTIONS, strategies=("stream", "paged", "stream")).chosen == ["paged", "stream"]


def test_only_tail_lists_no_objects() -> None:
    assert not list_objects(["tail"])
    assert list_objects(["tail", "watch-zero"])


@pytest.mark.parametrize(
    ("strategies", "objects", "starves"),
    [
        (["stream"], 99_999, False),
        (["stream"], 100_000, True),
        (["watch-zero", "tail"], 100_000, True),
        (["paged", "cache"], 10**6, False),
    ],
)
def test_only_streamed_lists_of_many_objects_may_starve_the_cache(
    strategies: list[str], objects: int, starves: object
) -> None:
    assert may_starve(strategies, objects) is starves


def test_protocol_is_the_strategy_of_that_name() -> None:
    assert protocol("paged", 7) is PAGED
    assert [protocol(name, 7).name for name in NAMES if name != "watch-zero"] == [*NAMES[:-1]]


def test_relists_need_a_revision() -> None:
    assert [name for name in NAMES if needs_revision(name)] == ["relist", "relist-paged"]
    assert protocol("relist", 7).first == ListRequest(not_older_than=7)
