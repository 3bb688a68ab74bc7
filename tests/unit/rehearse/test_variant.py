"""The names of variants, and the requests that they lead to."""

import pytest

from watchslo.kube.client import Selectors
from watchslo.kube.representation import Representation
from watchslo.rehearse.variant import NAMES, Variant
from watchslo.watch.messages import ListRequest
from watchslo.watch.strategy import PAGED, STREAM


@pytest.mark.parametrize(
    ("variant", "label"),
    [
        (Variant("paged"), "paged"),
        (Variant("cache", Representation.METADATA, gzip=True), "cache, metadata, gzip"),
        (Variant("paged", page_size=2000, each_namespace=True), "paged, pages of 2,000, each namespace"),
        (Variant("stream", selectors=Selectors(labels="app=web")), "stream, -l app=web"),
        (Variant("stream", selectors=Selectors(fields="a=b")), "stream, --field-selector a=b"),
    ],
)
def test_label_names_what_differs(variant: Variant, label: str) -> None:
    assert variant.label == label


def test_protocol_is_the_strategy_of_that_name() -> None:
    assert Variant("paged").protocol(7) is PAGED
    protocols = [Variant(name).protocol(7).name for name in NAMES if name != "watch-zero"]
    assert protocols == [name for name in NAMES if name != "watch-zero"]


def test_relists_need_a_revision() -> None:
    assert [name for name in NAMES if Variant(name).needs_revision] == ["relist", "relist-paged"]
    assert Variant("relist").protocol(7).first == ListRequest(not_older_than=7)


def test_gzip_reaches_all_requests_also_of_the_fallback() -> None:
    compressed = Variant("cache", gzip=True).protocol(7)
    assert compressed.first == compressed.throttled == ListRequest(from_cache=True, gzip=True)
    assert compressed.fallback is not None
    assert compressed.fallback.first == ListRequest(gzip=True)
    streamed = Variant("stream", gzip=True).protocol(7)
    assert (streamed.name, streamed.first) == (STREAM.name, None)
