"""An odd entry of a document from elsewhere costs only itself."""

import json
from datetime import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchslo.documents import decode_document
from watchslo.errors import UNDECODABLE


class Leaf(msgspec.Struct):
    name: str
    at: datetime | None = None


class Branch(msgspec.Struct, rename="camel"):
    leaf_list: list[Leaf]
    texts: tuple[str, ...] = ()
    kept: list[msgspec.Raw] | None = None


class Tree(msgspec.Struct):
    branches: list[Branch] | None
    root: Leaf | None = None


class Columns(msgspec.Struct):
    at: list[float]
    value: list[float | None]


class Table(msgspec.Struct):
    columns: list[Columns]


WELL = {
    "branches": [
        {
            "leafList": [{"name": "a"}, {"name": "b", "at": "2026-01-01T00:00:00Z"}],
            "texts": ["x", "y"],
            "kept": [1, {}],
        },
        {"leafList": []},
    ],
    "root": {"name": "r"},
}
ODD: tuple[Any, ...] = (
    7,
    None,
    [],
    {},
    {"name": 5},
    {"name": "z", "at": "yesterday"},
    {"leafList": "none"},
    {"leafList": [1]},
)


def decoded(value: Any) -> Tree:
    return decode_document(json.dumps(value).encode(), Tree)


def test_document_of_the_right_form_is_decoded() -> None:
    tree = decoded(WELL)
    assert tree.branches is not None
    assert [leaf.name for leaf in tree.branches[0].leaf_list] == ["a", "b"]


def test_null_is_an_empty_list() -> None:
    assert decoded({"branches": [{"leafList": None, "texts": None}]}) == Tree([Branch([])])


@pytest.mark.parametrize(
    "value",
    [
        7,
        [],
        {},
        {"branches": 7},
        {"branches": [7, {"leafList": [7]}]},  # nothing in it is right
        {"branches": [], "root": 7},
    ],
)
def test_document_of_another_form_is_refused(value: Any) -> None:
    with pytest.raises(UNDECODABLE):
        decoded(value)


def test_column_of_numbers_keeps_its_length_or_costs_its_owner() -> None:
    right, odd = {"at": [1, 2], "value": [3.5, None]}, {"at": [1, "two"], "value": [3.5, None]}
    found = decode_document(json.dumps({"columns": [odd, right, 7]}).encode(), Table)
    assert found.columns == [Columns([1, 2], [3.5, None])]


@pytest.mark.parametrize("body", [b"", b"{", b'{"branches":[{"leafList":[{"name":"\xff"}]}]}', b"[" * 20_000])
def test_malformed_document_is_refused(body: bytes) -> None:
    with pytest.raises(UNDECODABLE):
        decode_document(body, Tree)


@given(st.data())
def test_odd_entries_at_any_place_change_nothing_else(data: st.DataObject) -> None:
    odd = json.loads(json.dumps(WELL))
    first = odd["branches"][0]
    for place in (odd["branches"], first["leafList"]):
        for entry in data.draw(st.lists(st.sampled_from(ODD), max_size=3)):
            place.insert(data.draw(st.integers(0, len(place))), entry)
    first["texts"].insert(data.draw(st.integers(0, 2)), data.draw(st.sampled_from((7, None, {}))))
    found, well = decoded(odd), decoded(WELL)
    assert found.branches is not None
    assert well.branches is not None
    texts = [(branch.leaf_list, branch.texts, [*map(bytes, branch.kept or ())]) for branch in found.branches]
    assert texts == [(branch.leaf_list, branch.texts, [*map(bytes, branch.kept or ())]) for branch in well.branches]
