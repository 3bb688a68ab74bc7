"""Which informers the options of a rehearsal lead to."""

from dataclasses import replace

import pytest

from watchslo.errors import ConfigError
from watchslo.model import Resource
from watchslo.rehearse.plan import Dimensions, Limits, RehearseOptions, list_objects, may_starve, plan
from watchslo.rehearse.variant import NAMES, Variant

PODS = Resource("", "v1", "pods", namespaced=True)
NODES = Resource("", "v1", "nodes", namespaced=False)
INFORMERS = ["tail", "paged", "parallel", "stream", "cache"]


def labels(dimensions: Dimensions, resource: Resource = PODS) -> list[str]:
    options = RehearseOptions((resource.key,), dimensions=dimensions)
    options.check()
    return [variant.label for variant in plan(options, resource)]


def test_default_are_the_strategies_that_configurations_name() -> None:
    assert labels(Dimensions()) == INFORMERS


def test_all_are_all_strategies() -> None:
    assert labels(Dimensions(("all",))) == list(NAMES)


def test_each_option_adds_informers_that_differ_in_it_alone() -> None:
    everything = Dimensions(
        representations=("metadata", "table"),
        gzip=True,
        page_sizes=(100, 2000),
        labels=("app=web", "app=db"),
        fields=("spec.nodeName=a",),
        each_namespace=True,
    )
    added = labels(everything)[len(INFORMERS) :]
    assert added == [
        "paged, table",
        "paged, metadata",
        "paged, gzip",
        "paged, table, gzip",
        "paged, metadata, gzip",
        "paged, pages of 100",
        "paged, pages of 2,000",
        "paged, -l app=web",
        "paged, -l app=db",
        "paged, --field-selector spec.nodeName=a",
        "paged, each namespace",
    ]


@pytest.mark.parametrize(
    ("strategies", "base"),
    [
        (("tail",), "paged"),
        (("stream", "cache"), "stream"),
        (("relist",), "relist"),
        (("cache", "paged"), "paged"),
    ],
)
def test_base_is_paged_or_the_first_chosen_strategy_that_lists(strategies: tuple[str, ...], base: str) -> None:
    found = labels(Dimensions(strategies, representations=("metadata",)))
    assert found[-1] == f"{base}, metadata"
    assert base in found, "there is something to compare with"


def test_page_sizes_vary_a_strategy_with_pages() -> None:
    assert labels(Dimensions(("stream", "relist-paged"), page_sizes=(9,)))[-1] == "relist-paged, pages of 9"


def test_streamed_lists_are_not_compressed() -> None:
    assert labels(Dimensions(("stream", "cache"), gzip=True)) == ["stream", "cache"]
    assert labels(Dimensions(("cache",), gzip=True)) == ["cache", "cache, gzip"]


def test_resource_without_namespaces_is_not_split() -> None:
    assert labels(Dimensions(("paged",), each_namespace=True), NODES) == ["paged"]


def test_combined_options_are_a_product_without_what_changes_nothing() -> None:
    product = Dimensions(("tail", "paged", "stream"), ("metadata",), gzip=True, page_sizes=(9,), combine=True)
    assert labels(product) == [
        "tail",
        "paged",
        "paged, pages of 9",
        "paged, gzip",
        "paged, gzip, pages of 9",
        "paged, metadata",
        "paged, metadata, pages of 9",
        "paged, metadata, gzip",
        "paged, metadata, gzip, pages of 9",
        "stream",
        "stream, metadata",
    ]


def test_usual_values_add_nothing() -> None:
    assert labels(Dimensions(("paged",), ("plain",), page_sizes=(500,))) == ["paged"]


def test_runs_are_limited() -> None:
    options = RehearseOptions(("pods",), repeat=20, limits=Limits(runs=99))
    with pytest.raises(ConfigError, match="100 runs; choose fewer, or pass --max-runs 100"):
        plan(options, PODS)
    assert len(plan(replace(options, limits=Limits(runs=100)), PODS)) == 5


def test_only_tail_lists_no_objects() -> None:
    assert not list_objects([Variant("tail")])
    assert list_objects([Variant("tail"), Variant("watch-zero")])


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
