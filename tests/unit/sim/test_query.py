import pytest

from watchslo.sim.kinds import BUILT_IN, Object
from watchslo.sim.query import (
    ObjectSelector,
    decode_continue,
    encode_continue,
    list_revision,
    parse_options,
    parse_selector,
)
from watchslo.sim.status import StatusError
from watchslo.sim.store import StoredChange

PODS = BUILT_IN["pods"]
NODES = BUILT_IN["nodes"]


def test_parse_options_matches_apimachinery() -> None:
    options = parse_options(
        {"watch": "1", "resourceVersion": "7", "limit": "-3", "timeoutSeconds": "30", "allowWatchBookmarks": "yes"}
    )
    assert (options.watch, options.revision, options.limit, options.timeout) == (True, "7", 0, 30)
    assert (options.bookmarks, options.initial_events, options.include) == (True, None, "Metadata")
    assert not parse_options({"watch": "False"}).watch
    assert parse_options({"sendInitialEvents": "0"}).initial_events is False
    assert parse_options({"resourceVersion": "0"}).any_revision


def test_list_revision_refuses_a_revision_with_a_continue_token() -> None:
    token = encode_continue(5, "default/a")
    with pytest.raises(StatusError, match="not allowed when using continue"):
        list_revision(parse_options({"resourceVersion": "5", "continue": token}))
    with pytest.raises(StatusError, match="invalid continue token"):
        list_revision(parse_options({"resourceVersion": "5", "continue": "x"}))
    assert list_revision(parse_options({"resourceVersion": "0", "continue": "x"})) == 0


def test_continue_token_round_trips() -> None:
    assert decode_continue(encode_continue(308, "default/p1")) == (308, "default/p1\0")
    # A token written by kube-apiserver 1.36.
    assert decode_continue("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MzA4LCJzdGFydCI6Ii9wMVx1MDAwMCJ9") == (308, "/p1\0")
    for nonsense in ("abc", "ä", "e30"):
        with pytest.raises(StatusError, match="continue key is not valid"):
            decode_continue(nonsense)


def pod(node: str = "", **labels: str) -> Object:
    return {"metadata": {"name": "a", "labels": labels}, "spec": {"nodeName": node}}


def test_selector_knows_the_only_key_that_can_match() -> None:
    query = {"fieldSelector": "spec.nodeName=n,metadata.name=a"}
    assert parse_selector(PODS, "default", query).key == "default/a"
    assert parse_selector(PODS, None, query).key == ""
    assert parse_selector(NODES, None, {"fieldSelector": "metadata.name=a"}).key == "a"
    assert parse_selector(PODS, "default", {"fieldSelector": "metadata.name!=a"}).key == ""
    assert not parse_selector(PODS, "default", {}).has_predicates


def change(kind: str, obj: Object, previous: Object | None, key: str = "default/a") -> StoredChange:
    return StoredChange(7, kind, "pods", key, obj, previous, 0.0)


def test_selector_without_predicates_matches_by_namespace() -> None:
    selector = ObjectSelector("default", "", ())
    assert selector.transition(change("MODIFIED", pod(), pod())) == "MODIFIED"
    assert selector.transition(change("MODIFIED", pod(), pod(), key="kube-system/a")) is None
