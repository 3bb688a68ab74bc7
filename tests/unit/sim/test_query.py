import pytest

from watchslo.sim.kinds import BUILT_IN, Object
from watchslo.sim.query import (
    Scope,
    check_options,
    decode_continue,
    encode_continue,
    list_revision,
    parse_options,
    parse_scope,
    watch_revision,
)
from watchslo.sim.status import StatusError
from watchslo.sim.store import Change

PODS = BUILT_IN["pods"]


def test_options_as_apimachinery_reads_them() -> None:
    options = parse_options(
        {"watch": "1", "resourceVersion": "7", "limit": "-3", "timeoutSeconds": "30", "allowWatchBookmarks": "yes"}
    )
    assert (options.watch, options.revision, options.limit, options.timeout) == (True, "7", 0, 30)
    assert (options.bookmarks, options.initial_events, options.include) == (True, None, "Metadata")
    assert not parse_options({"watch": "False"}).watch
    assert parse_options({"sendInitialEvents": "0"}).initial_events is False
    assert parse_options({"resourceVersion": "0"}).any_revision


@pytest.mark.parametrize("name", ["limit", "timeoutSeconds"])
def test_numbers_must_be_numbers(name: str) -> None:
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


def test_a_continue_token_brings_its_own_revision() -> None:
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
def test_options_that_contradict_each_other_are_invalid(query: dict[str, str], fields: list[str]) -> None:
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
def test_options_that_go_together_are_fine(query: dict[str, str]) -> None:
    check_options(parse_options(query), watch_list=True)


def test_without_watch_list_initial_events_are_forbidden() -> None:
    query = {"watch": "1", "sendInitialEvents": "1", "resourceVersionMatch": "NotOlderThan"}
    with pytest.raises(StatusError) as refused:
        check_options(parse_options(query), watch_list=False)
    assert refused.value.message == (
        'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch '
        "unless the WatchList feature gate is enabled"
    )


def test_continue_tokens_are_read_again() -> None:
    assert decode_continue(encode_continue(308, "default/p1")) == (308, "default/p1\0")
    # As kube-apiserver 1.36 wrote it.
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
def test_selectors(query: dict[str, str], matching: Object, other: Object) -> None:
    scope = parse_scope(PODS, None, query)
    assert scope.selective
    assert scope.matches("default/a", matching)
    assert not scope.matches("default/a", other)


def test_a_scope_knows_the_only_name_that_can_match() -> None:
    assert parse_scope(PODS, "default", {"fieldSelector": "spec.nodeName=n,metadata.name=a"}).name == "a"
    assert parse_scope(PODS, "default", {"fieldSelector": "metadata.name!=a"}).name == ""
    assert not parse_scope(PODS, "default", {}).selective


@pytest.mark.parametrize(
    "query", [{"fieldSelector": "spec.x=1"}, {"fieldSelector": "name"}, {"labelSelector": "a b c"}]
)
@pytest.mark.parametrize("resource", ["pods", "configmaps"])
def test_selectors_that_cannot_be_used_are_bad_requests(resource: str, query: dict[str, str]) -> None:
    with pytest.raises(StatusError) as refused:
        parse_scope(BUILT_IN[resource], None, query)
    assert refused.value.code == 400


def change(kind: str, obj: Object, previous: Object | None, key: str = "default/a") -> Change:
    return Change(7, kind, "pods", key, obj, previous, 0.0)


@pytest.mark.parametrize(
    ("kind", "obj", "previous", "seen"),
    [
        ("ADDED", pod(app="x"), None, "ADDED"),
        ("ADDED", pod(app="y"), None, None),
        ("MODIFIED", pod(app="x"), pod(app="x"), "MODIFIED"),
        ("MODIFIED", pod(app="x"), pod(app="y"), "ADDED"),
        ("MODIFIED", pod(app="y"), pod(app="x"), "DELETED"),
        ("DELETED", pod(app="x"), pod(app="x"), "DELETED"),
        ("DELETED", pod(app="y"), pod(app="y"), None),
    ],
)
def test_who_begins_or_ceases_to_match_is_added_or_deleted(
    kind: str, obj: Object, previous: Object | None, seen: str | None
) -> None:
    assert parse_scope(PODS, None, {"labelSelector": "app=x"}).transition(change(kind, obj, previous)) == seen


def test_without_selectors_only_the_namespace_counts() -> None:
    scope = Scope("default", "", ())
    assert scope.transition(change("MODIFIED", pod(), pod())) == "MODIFIED"
    assert scope.transition(change("MODIFIED", pod(), pod(), key="kube-system/a")) is None
