"""What follows from the options of a rehearsal."""

from dataclasses import replace

import pytest

from watchslo.rehearse.options import RehearseOptions, list_objects, may_starve
from watchslo.rehearse.strategies import NAMES

OPTIONS = RehearseOptions(("pods",))


def test_default_are_the_strategies_that_configurations_name() -> None:
    assert OPTIONS.chosen == ["tail", "paged", "parallel", "stream", "cache"]


def test_all_are_all_strategies() -> None:
    assert replace(OPTIONS, strategies=("all",)).chosen == list(NAMES)


def test_each_strategy_is_rehearsed_once() -> None:
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
