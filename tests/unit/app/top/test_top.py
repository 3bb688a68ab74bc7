import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest

from tests.support.transcripts import of_states
from tests.unit.app.top.fake_source import VIEW, FakeSource
from watchslo.app import top as command
from watchslo.app.http_endpoint import DaemonCredentials
from watchslo.app.terminal import View
from watchslo.app.top import TopOptions, top
from watchslo.app.top.sources import Measurement
from watchslo.errors import ConfigError, ConnectError
from watchslo.monitor.readiness import StartState


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchslo.app.logs.set_up", lambda *_: None)


def use_source(monkeypatch: pytest.MonkeyPatch, view: View | Exception) -> None:
    monkeypatch.setattr(command, "Daemon", lambda *_: FakeSource(view))


JUDGED = replace(VIEW, verdict="pods: late since 14:02 UTC.", trust="Can I trust this? Yes.")
ONCE = {
    "no verdict yet": (VIEW, None),
    "the verdict and the self check come last": (JUDGED, None),
    "there is no watch": (replace(JUDGED, lines=()), None),
    "no watch is open": (replace(JUDGED, lines=tuple(replace(line, up=False) for line in VIEW.lines[:1])), None),
    "the begin of the details of a watch": (VIEW, "jobs"),
}


def test_once_prints_what_the_golden_file_has(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], golden: Callable[[str, str], None]
) -> None:
    monkeypatch.setitem(sys.modules, "textual", None)  # --once works without it
    states = {}
    for name, (view, watch) in ONCE.items():
        use_source(monkeypatch, view)
        code = top(TopOptions("x", once=True, watch=watch))
        shown = capsys.readouterr().out.splitlines()
        states[name] = [f"exit code {code}", *(shown[:6] if watch else shown)]
    golden("top-once.txt", of_states(states))


class UnopenedMeasurement(Measurement):
    """A local measurement without an open watch."""

    def __init__(self, *_: object) -> None:
        super().__init__(None, None)
        self.place, self.start = "Context prod: https://prod.example.com:6443", StartState.DONE

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def view(self) -> View:
        return replace(VIEW, lines=())


def test_once_names_the_measured_cluster_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "Measurement", UnopenedMeasurement)
    top(TopOptions(once=True))
    assert capsys.readouterr().out.splitlines()[0] == "Context prod: https://prod.example.com:6443"


def test_once_without_answer_raises_connect_error(monkeypatch: pytest.MonkeyPatch) -> None:
    use_source(monkeypatch, ConnectError("the connection is refused"))
    with pytest.raises(ConnectError, match=r"^http://there: the connection is refused$"):
        top(TopOptions("x", once=True))


def test_unknown_watch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    use_source(monkeypatch, VIEW)
    with pytest.raises(ConnectError, match=r"^http://there: there is no watch things; watchslo top --once lists"):
        top(TopOptions("x", once=True, watch="things"))


def test_top_without_terminal_raises_config_error(monkeypatch: pytest.MonkeyPatch) -> None:
    use_source(monkeypatch, VIEW)
    with pytest.raises(ConfigError, match=r"^top needs a terminal; add --once for one table$"):
        top(TopOptions("x"))


def test_top_without_textual_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    use_source(monkeypatch, VIEW)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    for module in [name for name in sys.modules if name.partition(".")[0] == "textual"]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, "textual", None)
    monkeypatch.delitem(sys.modules, "watchslo.app.top.screen", raising=False)
    with pytest.raises(ConfigError, match=r"^top needs the package textual: pip install 'watchslo\[top\]'"):
        top(TopOptions("x"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (TopOptions(credentials=DaemonCredentials(insecure=True)), "are for a daemon; add its URL"),
        (TopOptions("x", kubeconfig=Path("k")), "are for a local measurement; remove them, or the URL"),
        (TopOptions("x", watch="pods"), "--watch needs --once; on the screen, choose a watch"),
        (TopOptions("x", context="c"), "are for a local measurement; remove them, or the URL"),
    ],
)
def test_contradicting_options_are_refused(options: TopOptions, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        top(options)
