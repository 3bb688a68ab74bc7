import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.monitor.cluster import Cluster, line
from watchslo.app.verify import VerifyOptions, verify
from watchslo.errors import ConfigError

OPTIONS = VerifyOptions(duration="60s", resources=("pods",), each=False)
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
    assert events >= 600
    assert compared >= events - 250, "all but the last ones are read a second time"
    assert re.fullmatch(r"No guarantee of a watch was violated in [\d,]+ checks\.", said.splitlines()[-1])


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
        *("apiVersion", "at", "exitCode", "asked", "measured", "interrupted", "guarantees", "watches", "notReady")
    ]
    assert [*answer["guarantees"][0]] == ["guarantee", "checked", "violations", "watches"]
    assert [*answer["watches"][0]] == [
        *("watch", "apiserver", "resource", "group", "events", "checked", "violations", "state")
    ]
    assert (answer["asked"], answer["measured"]) == (60.0, 60.0)


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
    assert checks(capsys.readouterr().out)["ordered"][1] >= 500


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
