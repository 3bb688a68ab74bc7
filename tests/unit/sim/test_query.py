import pytest

from watchslo.sim.kinds import BUILT_IN, Object
from watchslo.sim.query import (
    ObjectSelector,
    check_options,
    decode_continue,
    encode_continue,
    list_revision,
    parse_options,
    parse_selector,
    watch_revision,
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


@pytest.mark.parametrize("name", ["limit", "timeoutSeconds"])
def test_parse_options_refuses_invalid_numbers(name: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse_options({name: "abc"})
    assert (refused.value.code, refused.value.message) == (400, 'strconv.ParseInt: parsing "abc": invalid syntax')


def test_an_unparsable_revision_is_400_for_a_list_and_500_for_a_watch() -> None:
    options = parse_options({"resourceVersion": "-5"})
    with pytest.raises(StatusError) as of_list:
        list_revision(options)
    with pytest.raises(StatusError) as of_watch:
        watch_revision(options)
    assert (of_list.value.code, of_watch.value.code) == (400, 500)
    assert list_revision(parse_options({})) == watch_revision(parse_options({})) == 0


def test_list_revision_refuses_a_revision_with_a_continue_token() -> None:
    token = encode_continue(5, "default/a")
    with pytest.raises(StatusError, match="not allowed when using continue"):
        list_revision(parse_options({"resourceVersion": "5", "continue": token}))
    with pytest.raises(StatusError, match="invalid continue token"):
        list_revision(parse_options({"resourceVersion": "5", "continue": "x"}))
    assert list_revision(parse_options({"resourceVersion": "0", "continue": "x"})) == 0


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ({"resourceVersionMatch": "Exact"}, ["resourceVersionMatch"]),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, ["resourceVersionMatch"]),
        ({"resourceVersionMatch": "foo", "resourceVersion": "5"}, ["resourceVersionMatch"]),
        ({"sendInitialEvents": "1"}, ["sendInitialEvents"]),
        (
            {"sendInitialEvents": "1", "resourceVersionMatch": "NotOlderThan"},
            ["resourceVersionMatch", "sendInitialEvents"],
        ),
        ({"watch": "1", "resourceVersionMatch": "NotOlderThan"}, ["resourceVersionMatch"]),
        ({"watch": "1", "sendInitialEvents": "1"}, ["resourceVersionMatch"]),
        (
            {"watch": "1", "sendInitialEvents": "1", "resourceVersionMatch": "Exact"},
            ["resourceVersionMatch", "resourceVersionMatch"],
        ),
        (
            {"watch": "1", "sendInitialEvents": "1", "resourceVersionMatch": "NotOlderThan", "continue": "x"},
            ["resourceVersionMatch"],
        ),
        (
            {"continue": "x", "resourceVersionMatch": "NotOlderThan"},
            ["resourceVersionMatch", "resourceVersionMatch"],
        ),
    ],
)
def test_check_options_refuses_contradictory_options(query: dict[str, str], fields: list[str]) -> None:
    with pytest.raises(StatusError) as refused:
        check_options(parse_options(query), watch_list=True)
    assert refused.value.code == 422
    assert refused.value.details is not None
    assert [cause["field"] for cause in refused.value.details["causes"]] == fields


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"resourceVersion": "5", "resourceVersionMatch": "Exact"},
        {"watch": "1"},
        {"watch": "1", "sendInitialEvents": "1", "resourceVersionMatch": "NotOlderThan"},
    ],
)
def test_check_options_accepts_compatible_options(query: dict[str, str]) -> None:
    check_options(parse_options(query), watch_list=True)


def test_without_watch_list_initial_events_are_forbidden() -> None:
    query = {"watch": "1", "sendInitialEvents": "1", "resourceVersionMatch": "NotOlderThan"}
    with pytest.raises(StatusError) as refused:
        check_options(parse_options(query), watch_list=False)
    assert refused.value.message == (
        'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch '
        "unless the WatchList feature gate is enabled"
    )


def test_continue_token_round_trips() -> None:
    assert decode_continue(encode_continue(308, "default/p1")) == (308, "default/p1\0")
    # A token written by kube-apiserver 1.36.
    assert decode_continue("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MzA4LCJzdGFydCI6Ii9wMVx1MDAwMCJ9") == (308, "/p1\0")
    for nonsense in ("abc", "ä", "e30"):
        with pytest.raises(StatusError, match="continue key is not valid"):
            decode_continue(nonsense)


def pod(node: str = "", **labels: str) -> Object:
    return {"metadata": {"name": "a", "labels": labels}, "spec": {"nodeName": node}}


@pytest.mark.parametrize(
    ("query", "matching", "other"),
    [
        ({"labelSelector": "app=x"}, pod(app="x"), pod(app="y")),
        ({"labelSelector": "app == x"}, pod(app="x"), pod()),
        ({"labelSelector": "app!=x"}, pod(), pod(app="x")),
        ({"labelSelector": "app in (x, y),tier"}, pod(app="y", tier="1"), pod(app="y")),
        ({"labelSelector": "app notin (x,y)"}, pod(app="z"), pod(app="y")),
        ({"labelSelector": "!app"}, pod(), pod(app="y")),
        ({"fieldSelector": "spec.nodeName=n1"}, pod("n1"), pod("n2")),
        ({"fieldSelector": "spec.nodeName!=n1,metadata.name==a"}, pod("n2"), pod("n1")),
    ],
)
def test_selector_matches_labels_and_fields(query: dict[str, str], matching: Object, other: Object) -> None:
    selector = parse_selector(PODS, None, query)
    assert selector.has_predicates
    assert selector.matches("default/a", matching)
    assert not selector.matches("default/a", other)


def test_selector_knows_the_only_key_that_can_match() -> None:
    query = {"fieldSelector": "spec.nodeName=n,metadata.name=a"}
    assert parse_selector(PODS, "default", query).key == "default/a"
    assert parse_selector(PODS, None, query).key == ""
    assert parse_selector(NODES, None, {"fieldSelector": "metadata.name=a"}).key == "a"
    assert parse_selector(PODS, "default", {"fieldSelector": "metadata.name!=a"}).key == ""
    assert not parse_selector(PODS, "default", {}).has_predicates


@pytest.mark.parametrize(
    "query", [{"fieldSelector": "spec.x=1"}, {"fieldSelector": "name"}, {"labelSelector": "a b c"}]
)
@pytest.mark.parametrize("resource", ["pods", "configmaps"])
def test_parse_selector_refuses_invalid_selectors_with_400(resource: str, query: dict[str, str]) -> None:
    with pytest.raises(StatusError) as refused:
        parse_selector(BUILT_IN[resource], None, query)
    assert refused.value.code == 400


def change(kind: str, obj: Object, previous: Object | None, key: str = "default/a") -> StoredChange:
    return StoredChange(7, kind, "pods", key, obj, previous, 0.0)


def test_selector_without_predicates_matches_by_namespace() -> None:
    selector = ObjectSelector("default", "", ())
    assert selector.transition(change("MODIFIED", pod(), pod())) == "MODIFIED"
    assert selector.transition(change("MODIFIED", pod(), pod(), key="kube-system/a")) is None
