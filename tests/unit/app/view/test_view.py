"""`watchslo view`: what it prints, its exit codes, and the page that it serves."""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import aiohttp
import pytest

from tests.support.certs import Authority
from tests.support.transcripts import of_states
from tests.unit.monitor.cluster import Cluster
from tests.unit.overview.instances import GOOD, LATE, body, report
from watchslo.app import view as command
from watchslo.app.http_endpoint import DaemonCredentials, HttpAnswer
from watchslo.app.status_client import DaemonAddress
from watchslo.app.view import NOT_ASKED, NewestOverview, Protection, ViewOptions, view
from watchslo.app.view.instances import Instances
from watchslo.config.values import Listen
from watchslo.errors import ConfigError, ConnectError, ServeError
from watchslo.model import InstanceName
from watchslo.overview.merge import STALE_SECONDS, merge
from watchslo.serve.server import listen, url
from watchslo.timeline.verdict import Level

URLS = ("http://a:1", "http://b:1")
ANY_PORT = Listen("127.0.0.1", 0)
KUBECONFIG = """
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: me, user: {}}]
contexts: [{name: one, context: {cluster: here, user: me}}]
current-context: one
"""


class Client:
    """Answers for the instances at `URLS`."""

    answers: dict[str, bytes] = {}  # noqa: RUF012 - set by each test

    def __init__(self, credentials: DaemonCredentials) -> None:
        self.credentials = credentials

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def read(self, address: DaemonAddress) -> HttpAnswer:
        if address.url not in self.answers:
            raise ConnectError("the connection is refused")
        return HttpAnswer(200, self.answers[address.url], None)


@pytest.fixture(autouse=True)
def _unlogged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the log of other tests as it is."""
    monkeypatch.setattr("watchslo.app.logs.set_up", lambda *_: None)


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    found = {URLS[0]: body(0, 2), URLS[1]: body(1, 2)}
    monkeypatch.setattr(Client, "answers", found)
    monkeypatch.setattr(command, "StatusClient", Client)
    return found


TABLE, JSON = ViewOptions(URLS, output="table"), ViewOptions(URLS, output="json")


SECOND: dict[str, bytes | None] = {
    "both are good": body(1, 2),
    "the second is late": body(1, 2, LATE),
    "the second is silent": None,
    "the second has another version": body(1, 2, GOOD, version="9.9"),
}


def test_tables_and_exit_codes_match_golden_file(
    answers: dict[str, bytes],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    golden: Callable[[str, str], None],
) -> None:
    monkeypatch.setattr(command, "Instances", partial(Instances, clock=lambda: 0.0))
    states = {}
    for name, second in SECOND.items():
        answers.pop(URLS[1], None)
        answers |= {URLS[1]: second} if second else {}
        code = view(TABLE)
        states[name] = [*(line.rstrip() for line in capsys.readouterr().out.splitlines()), f"exit code {code}"]
    golden("view.txt", of_states(states))


def test_control_characters_of_instances_do_not_reach_the_terminal(answers: dict[str, bytes], capsys: Any) -> None:
    answers[URLS[0]] = body(0, 1, GOOD, name=InstanceName("a\x1b[2J", None, host="b\x07"))
    view(replace(TABLE, urls=URLS[:1]))
    said = capsys.readouterr().out
    assert "b?" in said
    assert "\x1b" not in said
    assert "\x07" not in said


def test_json_is_that_of_the_api(answers: dict[str, bytes], capsys: Any) -> None:
    del answers[URLS[0]]
    assert view(JSON) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"]["level"] == "unknown"
    assert [(one["address"], one["answers"]) for one in document["instances"]] == [(URLS[0], False), (URLS[1], True)]


def test_view_without_instances_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^there is no instance; add the URLs of all, or --service "):
        view(ViewOptions(output="table"))


def test_newest_overview_is_unknown_before_the_first_round_and_when_it_is_old() -> None:
    now = 50.0
    newest = NewestOverview(lambda: now)
    assert (newest().level, newest().text) == (Level.UNKNOWN, NOT_ASKED)
    newest.set(merge((report(),), (), 0.0))
    now += STALE_SECONDS
    assert newest().level is Level.GOOD
    now += 30.0
    old = newest()
    assert (old.level, old.text) == (Level.UNKNOWN, "Cannot tell: no instance was asked for 90 s.")
    assert len(old.rows) == 1


async def until(client: aiohttp.ClientSession, condition: Callable[[Any], bool]) -> Any:
    """Return the first overview for which the condition holds."""
    while True:
        async with client.get("/api/v1/overview") as answer:
            document = await answer.json()
        if condition(document):
            return document


def asked(document: Any) -> bool:
    return bool(document["instances"])


async def test_page_is_served_until_a_signal(answers: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "ROUND_SECONDS", 0.01)
    with listen(ANY_PORT) as listener:
        serving = asyncio.create_task(command._serve(ViewOptions(URLS), Protection(), listener))
        async with aiohttp.ClientSession(url(listener)) as client:
            assert (await until(client, asked))["verdict"]["level"] == "good"
            del answers[URLS[1]]
            await until(client, lambda document: document["verdict"]["level"] == "unknown")
        os.kill(os.getpid(), signal.SIGTERM)
        await serving


async def test_page_is_served_with_a_certificate(tmp_path: Path) -> None:
    pair = Authority(tmp_path / "certs").server("watchslo")
    folder = tmp_path / "tls"
    folder.mkdir()
    pair.certificate.rename(folder / "tls.crt")
    pair.key.rename(folder / "tls.key")
    with listen(ANY_PORT) as listener:
        serving = asyncio.create_task(command._serve(ViewOptions(URLS), Protection(cert_dir=folder), listener))
        connector = aiohttp.TCPConnector(ssl=False)
        async with aiohttp.ClientSession(url(listener, "https"), connector=connector) as client:
            assert (await until(client, asked))["verdict"]["level"] == "good"
        os.kill(os.getpid(), signal.SIGTERM)
        await serving


async def test_missing_certificate_is_refused(tmp_path: Path) -> None:
    with listen(ANY_PORT) as listener, pytest.raises(ServeError, match=r"tls\.crt: no such file"):
        await command._serve(ViewOptions(URLS), Protection(cert_dir=tmp_path), listener)


async def test_access_needs_a_cluster(tmp_path: Path) -> None:
    protection = Protection("kubernetes", kubeconfig=tmp_path / "none")
    with listen(ANY_PORT) as listener, pytest.raises(ConnectError, match="no such kubeconfig"):
        await command._serve(ViewOptions(URLS), protection, listener)


async def test_cluster_decides_on_readers(tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.unit.monitor.cluster.ANSWER_SECONDS", 0.0)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)

    async def read(client: aiohttp.ClientSession, token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with client.get("/", headers=headers) as answer:
            return answer.status

    with listen(ANY_PORT) as listener:
        protection = Protection("kubernetes", kubeconfig=kubeconfig)
        serving = asyncio.create_task(command._serve(ViewOptions(URLS), protection, listener))
        async with aiohttp.ClientSession(url(listener)) as client:
            assert [await read(client, token) for token in ("", "good")] == [401, 200]
            cluster.reviews["access_review"] = {"allowed": False}
            assert await read(client, "bad") == 403
        os.kill(os.getpid(), signal.SIGTERM)
        await serving
