import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.monitor.cluster import PODS, Cluster, line
from watchslo.app.verify import VerifyOptions, verify
from watchslo.errors import ConfigError
from watchslo.kube.credentials import ClusterPlace
from watchslo.watch.failure import Reason, because

OPTIONS = VerifyOptions(duration="30s", resources=("pods",), each=False)
Verify = Callable[..., int]


@pytest.fixture
def ask(measured_cluster: Cluster) -> Verify:
    """Runs `watchslo verify` while 10 pods change each second."""
    del measured_cluster

    def ask(options: VerifyOptions = OPTIONS, output: str = "table") -> int:
        return verify(None, None, None, options, output)  # type: ignore[arg-type]

    return ask


def checks(said: str) -> dict[str, tuple[int, int]]:
    """Return checks and violations by guarantee, as the table has them."""
    found = re.findall(r"^(\w+) +([\d,]+) +([\d,]+)", said, re.MULTILINE)
    return {name: (int(checked.replace(",", "")), int(count)) for name, checked, count in found}


def test_watches_that_keep_their_guarantees_exit_with_0(ask: Verify, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask() == 0
    said = capsys.readouterr().out
    found = checks(said)
    assert [*found] == ["ordered", "unique", "bookmarkable", "resumable", "reliable"]
    assert not any(violations for _, violations in found.values())
    events, compared = found["ordered"][0], found["reliable"][0]
    assert events >= 300
    assert compared >= events - 160, "all but the last ones are read a second time"
    assert re.fullmatch(r"No guarantee of a watch was violated in [\d,]+ checks\.", said.splitlines()[-1])


def test_types_are_verified_with_an_inventory(ask: Verify, capsys: pytest.CaptureFixture[str]) -> None:
    ask(replace(OPTIONS, inventory=True))
    found = checks(capsys.readouterr().out)
    assert [*found] == ["ordered", "unique", "bookmarkable", "resumable", "reliable", "typed"]


def test_past_has_no_inventory(ask: Verify) -> None:
    with pytest.raises(ConfigError, match="remove --inventory or --replay"):
        ask(replace(OPTIONS, inventory=True, replay=True))


def test_first_line_names_context_and_server(
    ask: Verify, place: list[ClusterPlace], capsys: pytest.CaptureFixture[str]
) -> None:
    place.append(ClusterPlace(None, "https://10.96.0.1:443"))
    assert ask() == 0
    assert capsys.readouterr().out.splitlines()[0] == "Service account of this pod: https://10.96.0.1:443"


def test_lost_event_exits_with_1(ask: Verify, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.losing["service"] = 1
    assert ask() == 1
    said = capsys.readouterr().out
    assert checks(said)["resumable"][1] + checks(said)["reliable"][1] == 1
    assert re.search(r"^Guarantee \w+ violated by 1 event of pods, in [\d,]+ checks?\.$", said, re.MULTILINE)


def test_event_lost_at_one_apiserver_is_found_with_each(
    ask: Verify, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.announce("10.0.0.1", "10.0.0.2")
    cluster.losing["10.0.0.2"] = 1
    assert ask(replace(OPTIONS, each=True), "json") == 1
    answer = json.loads(capsys.readouterr().out)
    broken = {watch["apiserver"]: sum(watch["violations"].values()) for watch in answer["watches"]}
    assert broken == {"10.0.0.1:6443": 0, "10.0.0.2:6443": 1}


def test_json_has_the_documented_keys(ask: Verify, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(output="json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert [*answer] == [
        *(
            "apiVersion",
            "at",
            "exitCode",
            "context",
            "server",
            "asked",
            "measured",
            "interrupted",
            "guarantees",
            "watches",
            "notReady",
        ),
        "compared",
    ]
    assert [*answer["guarantees"][0]] == ["guarantee", "checked", "violations", "watches"]
    assert [*answer["watches"][0]] == [
        *("watch", "apiserver", "resource", "group", "events", "checked", "violations", "state", "past", "beganNow")
    ]
    assert (answer["asked"], answer["measured"]) == (30.0, 30.0)


@pytest.mark.parametrize("replay", [False, True])
def test_rights_in_one_namespace_suffice(ask: Verify, cluster: Cluster, *, replay: bool) -> None:
    cluster.catches_up = True
    cluster.namespace = "mine"
    assert ask(replace(OPTIONS, namespace="mine", replay=replay)) == 0
    asked = {namespace for names in cluster.asked_in.values() for namespace in names}
    assert asked == {"mine"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"namespace": "No"}, "^--namespace: No is not a namespace"),
        ({"namespace": "mine", "resources": ()}, "^--namespace: it is for the resources that --resource names"),
    ],
)
def test_unusable_namespace_is_refused(ask: Verify, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ask(replace(OPTIONS, **changes))


def test_missing_right_is_named_and_not_called_silence(
    ask: Verify, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.fail(Reason.FORBIDDEN)
    assert ask() == 2
    said = capsys.readouterr().out.splitlines()
    assert any("may not" in line for line in said)
    assert said[-1] == "Nothing was verified: no event arrived."


def test_nothing_verified_exits_with_2(
    ask: Verify, monkeypatch: pytest.MonkeyPatch, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "send", lambda *_: None)
    assert ask() == 2
    assert capsys.readouterr().out.splitlines()[-1] == (
        "Nothing was verified: no event arrived. Watch resources that change."
    )


def test_reordered_events_exit_with_1(
    ask: Verify, monkeypatch: pytest.MonkeyPatch, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    send = cluster.send
    monkeypatch.setattr(cluster, "send", lambda resource, content: send(resource, content + line("MODIFIED", 1)))
    assert ask() == 1
    assert checks(capsys.readouterr().out)["ordered"][1] >= 250


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (replace(OPTIONS, duration="25h"), "--duration: 25h is out of range; write 5s to 24h"),
        (replace(OPTIONS, resources=("podz",)), "--resource: "),
    ],
)
def test_impossible_options_are_refused(ask: Verify, options: VerifyOptions, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        ask(options)


# The past

PAST = 300  # events
REPLAY = replace(OPTIONS, replay=True)


@pytest.fixture
def past(cluster: Cluster) -> list[bytes]:
    """The events of a cluster that has a past, whose watches begin with what was there before."""
    cluster.catches_up = True
    for _ in range(PAST):
        cluster.revision += 1
        cluster.history.append((PODS, cluster.revision, line("MODIFIED", cluster.revision)))
    return [event for _, _, event in cluster.history]


def broken(said: str) -> dict[str, int]:
    return {name: violations for name, (_, violations) in checks(said).items() if violations}


def test_replay_reads_the_past_and_compares_it(
    ask: Verify, past: list[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(REPLAY) == 0
    said = capsys.readouterr().out
    assert checks(said)["ordered"][0] >= 300 + len(past)
    assert checks(said)["reliable"][0] >= 300 + len(past) - 160
    assert "\nOf the past came 3" in said


def repeat(event: bytes) -> bytes:
    revision = json.loads(event)["object"]["metadata"]["resourceVersion"]
    same = {"type": "MODIFIED", "object": {"metadata": {"resourceVersion": revision, "uid": "a"}}}
    return 2 * (json.dumps(same).encode() + b"\n")


@pytest.mark.parametrize(
    ("edit", "guarantee"), [(repeat, "unique"), (lambda event: event[:0], "reliable")], ids=["repeated", "lost"]
)
def test_wrong_event_of_the_past_is_found_by_a_replay_only(
    ask: Verify,
    cluster: Cluster,
    past: list[bytes],
    capsys: pytest.CaptureFixture[str],
    edit: Callable[[bytes], bytes],
    guarantee: str,
) -> None:
    event = past[PAST // 2]
    cluster.edits["service", event] = edit(event)
    assert ask() == 0
    assert broken(capsys.readouterr().out) == {}
    assert ask(REPLAY) == 1
    assert broken(capsys.readouterr().out) == {guarantee: 1}


def test_event_of_the_past_lost_at_one_apiserver_is_found_with_each(
    ask: Verify, cluster: Cluster, past: list[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.announce("10.0.0.1", "10.0.0.2")
    cluster.edits["10.0.0.2", past[PAST // 2]] = b""
    assert ask(replace(REPLAY, each=True), "json") == 1
    watches = json.loads(capsys.readouterr().out)["watches"]
    assert [watch["violations"]["reliable"] for watch in watches] == [0, 1]
    assert min(watch["past"] for watch in watches) >= PAST - 1


def test_replay_begins_at_the_oldest_revision_in_reach(
    ask: Verify, cluster: Cluster, past: list[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.oldest = cluster.revision - 100
    assert ask(REPLAY, "json") == 0
    (watch,) = json.loads(capsys.readouterr().out)["watches"]
    assert 100 <= watch["past"] < len(past)
    assert watch["beganNow"] is None


def test_long_past_is_compared_part_by_part(
    ask: Verify, cluster: Cluster, past: list[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(20_000):
        cluster.revision += 1
        cluster.history.append((PODS, cluster.revision, line("MODIFIED", cluster.revision)))
    cluster.edits["service", past[0]] = cluster.edits["service", past[-1]] = b""
    assert ask(replace(REPLAY, duration="90s")) == 1
    said = capsys.readouterr().out
    assert sum(broken(said).values()) == 2
    assert checks(said)["reliable"][0] >= 20_000 + PAST


def test_replay_begins_now_if_no_oldest_revision_is_found(
    ask: Verify, cluster: Cluster, past: list[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    assert past
    cluster.failures["headroom", "pods"] = because(Reason.FORBIDDEN)
    assert ask(REPLAY) == 0
    said = capsys.readouterr().out
    assert "pods began now, because no oldest revision was found: This identity may not watch" in said
    assert checks(said)["ordered"][0] < 500


# Apiservers that are compared

HOSTS = ("10.0.0.1", "10.0.0.2")
URLS = tuple(f"https://{host}:6443" for host in HOSTS)
COMPARED = replace(OPTIONS, compare=URLS)


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> dict[str, list[float]]:
    """The seconds of the pages of lists, of two apiservers of one cluster."""
    cluster.announce(*HOSTS)
    pages = {f"{host}:6443": [0.01, 0.02] for host in HOSTS}
    monkeypatch.setattr("watchslo.app.verify.listed", lambda *_: pages)
    return pages


def test_apiservers_as_fast_as_each_other_exit_with_0(
    ask: Verify, pages: dict[str, list[float]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert pages
    assert ask(COMPARED) == 0
    said = capsys.readouterr().out
    assert re.search(r"^10\.0\.0\.2:6443 +\d+ +0 ms +0 ms +15 ms +0 ms$", said, re.MULTILINE)
    assert said.splitlines()[-1] == "No apiserver is slower than the fastest by more than 50 ms."


def test_slower_list_exits_with_1(
    ask: Verify, pages: dict[str, list[float]], capsys: pytest.CaptureFixture[str]
) -> None:
    pages["10.0.0.2:6443"] = [0.11, 0.12]
    assert ask(COMPARED) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "10.0.0.2:6443 takes 100 ms longer for a page of a list (P50)."
    assert ask(replace(COMPARED, tolerance=0.2)) == 0


def test_lost_event_of_a_compared_apiserver_exits_with_1(
    ask: Verify, pages: dict[str, list[float]], cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pages
    cluster.losing["10.0.0.2"] = 1
    assert ask(COMPARED, "json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert [one["apiserver"] for one in answer["compared"]] == ["10.0.0.1:6443", "10.0.0.2:6443"]
    assert sum(total["violations"] for total in answer["guarantees"]) == 1


def test_apiserver_without_events_is_not_called_fast(
    ask: Verify, pages: dict[str, list[float]], cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pages
    cluster.failures["watch", "*"] = because(Reason.FORBIDDEN)
    assert ask(COMPARED) == 2
    assert capsys.readouterr().out.splitlines()[-1] == "Nothing was verified: no event arrived."


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"compare": URLS[:1]}, "--compare: one apiserver has nothing to be compared with; name another one as well"),
        ({"each": True}, "--compare: --each chooses the apiservers or the time itself; remove one of the two"),
        ({"compare": (*URLS, URLS[0])}, "--compare: https://10.0.0.1:6443 is listed 2 times; keep one of them"),
        ({"compare": ("https://", URLS[0])}, "--compare: https:// is not the URL of an apiserver"),
    ],
)
def test_what_cannot_be_compared_is_refused(ask: Verify, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        ask(replace(COMPARED, **changes))  # type: ignore[arg-type]
