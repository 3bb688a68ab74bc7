import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.printed import Printed
from tests.unit.app.measured import Case, reorder
from tests.unit.monitor.cluster import PODS, Cluster, line
from watchslo.app.verify import VerifyOptions, verify
from watchslo.errors import ConfigError
from watchslo.kube.credentials import ClusterPlace
from watchslo.watch.failure import Reason, because

HOSTS = ("10.0.0.1", "10.0.0.2")
URLS = tuple(f"https://{host}:6443" for host in HOSTS)
OPTIONS = VerifyOptions(duration="30s", resources=("pods",), each=False)
EACH, REPLAY, COMPARED = (replace(OPTIONS, **one) for one in ({"each": True}, {"replay": True}, {"compare": URLS}))
PAST = 300  # events
Verify = Callable[..., Printed]


@pytest.fixture
def ask(measured_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Verify:
    """Runs `watchslo verify` while 10 pods change each second."""
    del measured_cluster

    def ask(options: VerifyOptions = OPTIONS, output: str = "table") -> Printed:
        code = verify(None, None, None, options, output)  # type: ignore[arg-type]
        return Printed(code, *capsys.readouterr())

    return ask


def write_past(cluster: Cluster, _: object = None, events: int = PAST) -> None:
    """Give the cluster a past, with which its watches begin."""
    cluster.catches_up = True
    for _event in range(events):
        cluster.revision += 1
        cluster.history.append((PODS, cluster.revision, line("MODIFIED", cluster.revision)))


def event_of_the_past(cluster: Cluster) -> bytes:
    return cluster.history[PAST // 2][2]


def lose_one(cluster: Cluster, _: object) -> None:
    cluster.losing["service"] = 1


def lose_one_of_the_past(cluster: Cluster, _: object) -> None:
    write_past(cluster)
    cluster.edits["service", event_of_the_past(cluster)] = b""


def repeat_one_of_the_past(cluster: Cluster, _: object) -> None:
    write_past(cluster)
    event = event_of_the_past(cluster)
    revision = json.loads(event)["object"]["metadata"]["resourceVersion"]
    same = {"type": "MODIFIED", "object": {"metadata": {"resourceVersion": revision, "uid": "a"}}}
    cluster.edits["service", event] = 2 * (json.dumps(same).encode() + b"\n")


def forbid(cluster: Cluster, _: object) -> None:
    cluster.fail(Reason.FORBIDDEN)


def forbid_to_look_for_the_oldest_revision(cluster: Cluster, _: object) -> None:
    write_past(cluster)
    cluster.failures["headroom", "pods"] = because(Reason.FORBIDDEN)


def deliver_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "send", lambda *_: None)


def compare(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, slower: float = 0.0) -> None:
    """Serve the cluster by two apiservers, of which the second takes longer for a page of a list."""
    cluster.announce(*HOSTS)
    pages = {f"{host}:6443": [0.01 + more, 0.02 + more] for host, more in zip(HOSTS, (0.0, slower), strict=True)}
    monkeypatch.setattr("watchslo.app.verify.listed", lambda *_: pages)


def compare_with_a_slower_list(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(cluster, monkeypatch, 0.1)


def compare_without_events(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(cluster, monkeypatch)
    cluster.failures["watch", "*"] = because(Reason.FORBIDDEN)


CASES = {
    "guarantees-kept": Case(OPTIONS),
    "inventory": Case(replace(OPTIONS, inventory=True)),
    "event-lost": Case(OPTIONS, lose_one),
    "reordered": Case(OPTIONS, reorder),
    "forbidden": Case(OPTIONS, forbid),
    "nothing-delivered": Case(OPTIONS, deliver_nothing),
    "past": Case(REPLAY, write_past),
    "event-of-the-past-lost-and-not-read": Case(OPTIONS, lose_one_of_the_past),
    "event-of-the-past-repeated-and-not-read": Case(OPTIONS, repeat_one_of_the_past),
    "event-of-the-past-lost": Case(REPLAY, lose_one_of_the_past),
    "event-of-the-past-repeated": Case(REPLAY, repeat_one_of_the_past),
    "no-oldest-revision": Case(REPLAY, forbid_to_look_for_the_oldest_revision),
    "two-equal-apiservers": Case(COMPARED, compare),
    "list-slower": Case(COMPARED, compare_with_a_slower_list),
    "list-slower-within-the-tolerance": Case(replace(COMPARED, tolerance=0.2), compare_with_a_slower_list),
    "compared-without-events": Case(COMPARED, compare_without_events),
}


@pytest.mark.parametrize("name", CASES)
def test_output_matches_golden_file(
    name: str, ask: Verify, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, golden: Callable[[str, str], None]
) -> None:
    CASES[name].prepare(cluster, monkeypatch)
    golden(f"verify/{name}.txt", ask(CASES[name].options).transcript)


def test_first_line_names_context_and_server(ask: Verify, place: list[ClusterPlace]) -> None:
    place.append(ClusterPlace(None, "https://10.96.0.1:443"))
    assert ask().text.startswith("Service account of this pod: https://10.96.0.1:443\n")


def test_event_lost_at_one_apiserver_is_found_with_each(ask: Verify, cluster: Cluster) -> None:
    cluster.announce(*HOSTS)
    cluster.losing["10.0.0.2"] = 1
    printed = ask(EACH, "json")
    broken = {watch["apiserver"]: sum(watch["violations"].values()) for watch in printed.document["watches"]}
    assert (printed.code, broken) == (1, {"10.0.0.1:6443": 0, "10.0.0.2:6443": 1})


def test_json_has_the_documented_keys(ask: Verify) -> None:
    answer = ask(output="json").document
    assert [*answer] == [
        *("apiVersion", "at", "exitCode", "context", "server", "asked", "measured", "interrupted"),
        *("guarantees", "watches", "notReady", "compared"),
    ]
    assert [*answer["guarantees"][0]] == ["guarantee", "checked", "violations", "watches"]
    assert [*answer["watches"][0]] == [
        *("watch", "apiserver", "resource", "group", "events", "checked", "violations", "state", "past", "beganNow")
    ]
    assert (answer["exitCode"], answer["asked"], answer["measured"]) == (0, 30.0, 30.0)


@pytest.mark.parametrize("replay", [False, True])
def test_rights_in_one_namespace_suffice(ask: Verify, cluster: Cluster, *, replay: bool) -> None:
    cluster.catches_up = True
    cluster.namespace = "mine"
    assert ask(replace(OPTIONS, namespace="mine", replay=replay)).code == 0
    assert {namespace for names in cluster.asked_in.values() for namespace in names} == {"mine"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"duration": "25h"}, "--duration: 25h is out of range; write 5s to 24h"),
        ({"resources": ("podz",)}, "--resource: "),
        ({"namespace": "No"}, "--namespace: No is not a namespace"),
        ({"namespace": "mine", "resources": ()}, "--namespace: it is for resources that are named; name some"),
        ({"inventory": True, "replay": True}, "--inventory: the objects of the past cannot be listed; remove --inv"),
        ({"compare": URLS[:1]}, "--compare: one apiserver has nothing to be compared with; name another one as well"),
        ({"compare": URLS, "each": True}, "--compare: --each chooses the apiservers or the time itself; remove one of"),
        ({"compare": (*URLS, URLS[0])}, "--compare: https://10.0.0.1:6443 is listed 2 times; keep one of them"),
        ({"compare": ("https://", URLS[0])}, "--compare: https:// is not the URL of an apiserver"),
    ],
)
def test_unusable_options_are_refused(ask: Verify, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}"):
        ask(replace(OPTIONS, **changes))


def test_event_of_the_past_lost_at_one_apiserver_is_found_with_each(ask: Verify, cluster: Cluster) -> None:
    write_past(cluster)
    cluster.announce(*HOSTS)
    cluster.edits["10.0.0.2", event_of_the_past(cluster)] = b""
    printed = ask(replace(REPLAY, each=True), "json")
    watches = printed.document["watches"]
    assert (printed.code, [watch["violations"]["reliable"] for watch in watches]) == (1, [0, 1])
    assert min(watch["past"] for watch in watches) >= PAST - 1


def test_replay_begins_at_the_oldest_revision_in_reach(ask: Verify, cluster: Cluster) -> None:
    write_past(cluster)
    cluster.oldest = cluster.revision - 100
    (watch,) = ask(REPLAY, "json").document["watches"]
    assert 100 <= watch["past"] < PAST
    assert watch["beganNow"] is None


def test_long_past_is_compared_part_by_part(ask: Verify, cluster: Cluster) -> None:
    write_past(cluster, events=20_000 + PAST)
    for at in (0, PAST):
        cluster.edits["service", cluster.history[at][2]] = b""
    (watch,) = ask(replace(REPLAY, duration="90s"), "json").document["watches"]
    assert sum(watch["violations"].values()) == 2
    assert watch["checked"]["reliable"] >= 20_000 + PAST


def test_lost_event_of_a_compared_apiserver_exits_with_1(
    ask: Verify, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(cluster, monkeypatch)
    cluster.losing["10.0.0.2"] = 1
    printed = ask(COMPARED, "json")
    assert [one["apiserver"] for one in printed.document["compared"]] == ["10.0.0.1:6443", "10.0.0.2:6443"]
    assert (printed.code, sum(total["violations"] for total in printed.document["guarantees"])) == (1, 1)
