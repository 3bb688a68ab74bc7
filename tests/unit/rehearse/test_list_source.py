"""Where lists were read, by the counters of an apiserver and by its version."""

import pytest

from watchslo.rehearse.list_source import (
    ListCounts,
    ListEvidence,
    ListOrigin,
    ListSource,
    consistent_lists,
    counted_source,
    expected_source,
    parse_version,
)
from watchslo.rehearse.strategies import NAMES

START = ListCounts(cache=100, etcd=10)


@pytest.mark.parametrize(
    ("cache", "etcd", "lists", "origin"),
    [
        (8, 1, 8, "watch cache"),  # one of them was consistent
        (8, 0, 8, "watch cache"),  # another list at the same time had asked for the newest revision
        (1, 1, 1, "watch cache"),
        (0, 8, 8, "etcd"),
        (0, 9, 8, "etcd"),  # others list from etcd as well
        (1, 7, 8, "both"),
        (1, 8, 8, "both"),
        (9, 1, 8, None),  # one of them is another client's
        (8, 2, 8, None),
        (2, 8, 8, None),
        (0, 0, 8, None),  # the counters have other names, or another apiserver answered
        (7, 0, 8, None),
        (3, 0, 0, None),  # there was no list
        (-100, 8, 8, None),  # another process
    ],
)
def test_counters_prove_the_source_unless_others_list_too(
    cache: int, etcd: int, lists: int, origin: str | None
) -> None:
    found = counted_source(START, ListCounts(START.cache + cache, START.etcd + etcd), lists, consistent=1)
    assert found == (origin and ListSource(ListOrigin(origin), ListEvidence.METRICS))
    assert found is None or found.is_certain


def test_lists_without_a_revision_are_consistent() -> None:
    assert [name for name in NAMES if consistent_lists(name)] == ["tail", "paged", "parallel"]


@pytest.mark.parametrize(
    ("strategy", "pages", "origins"),
    [
        ("tail", 1, ["etcd", "watch cache", "watch cache", "watch cache"]),
        ("paged", 1, ["etcd", "etcd", "watch cache", "watch cache"]),
        ("paged", 3, ["etcd", "etcd", "both", "watch cache"]),
        ("relist-paged", 3, ["etcd", "etcd", "both", "watch cache"]),
        ("relist", 1, ["watch cache"] * 4),
        ("cache", 1, ["watch cache"] * 4),
        ("stream", 0, ["watch cache"] * 4),
        ("watch-zero", 0, ["watch cache"] * 4),
    ],
)
def test_version_says_what_is_usual(strategy: str, pages: int, origins: list[str]) -> None:
    found = [expected_source(strategy, pages, (1, minor), cached=True) for minor in (30, 31, 33, 34)]
    assert [source and str(source.origin) for source in found] == origins
    assert not any(source and source.is_certain for source in found)


def test_source_is_etcd_without_a_cache_and_unknown_without_a_version() -> None:
    source = expected_source("cache", 1, None, cached=False)
    assert source is not None
    assert source.origin is ListOrigin.ETCD
    assert expected_source("paged", 1, None, cached=True) is None


@pytest.mark.parametrize(
    ("text", "version"),
    [("v1.36.3", (1, 36)), ("v1.30.14+k3s1", (1, 30)), ("v1.31.0-gke.1", (1, 31)), ("unknown", None), ("", None)],
)
def test_version_is_parsed(text: str, version: tuple[int, int] | None) -> None:
    assert parse_version(text) == version
