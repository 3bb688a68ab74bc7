"""What follows from the options of a rehearsal."""

from dataclasses import replace

import pytest

from watchslo.errors import ConfigError
from watchslo.model import Resource
from watchslo.rehearse.plan import Limits, RehearseOptions, list_objects, may_starve, plan
from watchslo.rehearse.strategies import NAMES

PODS = Resource("", "v1", "pods", namespaced=True)
OPTIONS = RehearseOptions(("pods",))


def test_default_are_the_strategies_that_configurations_name() -> None:
    assert plan(OPTIONS, PODS) == ["tail", "paged", "parallel", "stream", "cache"]


def test_all_are_all_strategies() -> None:
    assert plan(replace(OPTIONS, strategies=("all",)), PODS) == list(NAMES)


def test_each_strategy_is_rehearsed_once() -> None:
    assert plan(replace(OPTIONS, strategies=("stream", "paged", "stream")), PODS) == ["paged", "stream"]


def test_runs_are_limited() -> None:
    options = replace(OPTIONS, repeat=20, limits=Limits(runs=99))
    with pytest.raises(ConfigError, match="100 runs; choose fewer, or pass --max-runs 100"):
        plan(options, PODS)
    assert len(plan(replace(options, limits=Limits(runs=100)), PODS)) == 5


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
