import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.app.top.told import VIEW, Told
from watchslo.app import top as command
from watchslo.app.top import Question, top
from watchslo.app.top.sources import Credentials
from watchslo.app.view import View
from watchslo.errors import ConfigError, ConnectError


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchslo.app.logs.set_up", lambda *_: None)


def told(monkeypatch: pytest.MonkeyPatch, view: View | Exception) -> None:
    monkeypatch.setattr(command, "Daemon", lambda *_: Told(view))


def test_once_prints_one_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    told(monkeypatch, VIEW)
    monkeypatch.setitem(sys.modules, "textual", None)  # a script needs none
    top(Question("x", once=True))
    said = capsys.readouterr().out.splitlines()
    assert said[0].split()[:2] == ["WATCH", "EVENTS"]
    assert any(line.startswith("pods ") for line in said)
    assert "Unproven: its storage is kine, not etcd." in said
    assert any(line.startswith("This identity may not list and watch ") for line in said), "as check does"
    assert said[-1] == "Within the objective: 1 watch; of 2 nothing can be said."


def test_once_ends_with_the_verdict_of_the_daemon(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told(monkeypatch, replace(VIEW, verdict="pods: late since 14:02 UTC.", trust="Can I trust this? Yes."))
    top(Question("x", once=True))
    assert capsys.readouterr().out.splitlines()[-2:] == ["Can I trust this? Yes.", "pods: late since 14:02 UTC."]


def test_once_fails_where_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, ConnectError("nobody listens there"))
    with pytest.raises(ConnectError, match=r"^http://there: nobody listens there$"):
        top(Question("x", once=True))


def test_without_a_terminal_there_is_no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, VIEW)
    with pytest.raises(ConfigError, match=r"^top needs a terminal; add --once for one table$"):
        top(Question("x"))


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told(monkeypatch, VIEW)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    for module in [name for name in sys.modules if name.partition(".")[0] == "textual"]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, "textual", None)
    monkeypatch.delitem(sys.modules, "watchslo.app.top.screen", raising=False)
    with pytest.raises(ConfigError, match=r"^top needs the package textual: pip install 'watchslo\[top\]'"):
        top(Question("x"))


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (Question(credentials=Credentials(insecure=True)), "are for a daemon; name its URL"),
        (Question("x", kubeconfig=Path("k")), "are for measuring from here; leave them out, or the URL"),
        (Question("x", context="c"), "are for measuring from here; leave them out, or the URL"),
    ],
)
def test_options_that_do_not_fit(question: Question, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        top(question)
