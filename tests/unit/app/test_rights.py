"""`watchslo rbac` against a cluster in memory: when it asks, and what it says if nobody answers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.app.conftest import Run
from tests.unit.monitor.cluster import Cluster, Log, because_of, nowhere
from watchslo.app.rights import Question, rbac
from watchslo.errors import ConnectError
from watchslo.watch.failure import Reason

Ask = Callable[[str], None]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, run_jumping: Run, log: Log, tmp_path: Path) -> Ask:
    del log
    monkeypatch.setattr("watchslo.app.rights.run_on_loop", run_jumping)
    monkeypatch.setattr("watchslo.app.rights.connect", lambda *_: nowhere())

    def ask(configuration: str) -> None:
        path = tmp_path / "watchslo.yaml"
        path.write_text(configuration)
        rbac(path, None, None, Question())

    return ask


def test_what_is_served_may_be_watched(ask: Ask, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    ask('watch: [{resource: "*"}]')
    assert "resources: [configmaps, nodes, pods]" in capsys.readouterr().out
    assert not cluster.doors, "it leaves no connection open"


def test_nobody_is_asked_what_the_names_say(ask: Ask, cluster: Cluster) -> None:
    ask("watch: [{resource: pods}]")
    assert not cluster.requests


def test_nobody_answers(ask: Ask, cluster: Cluster) -> None:
    cluster.failures["discovery", "*"] = because_of(Reason.REFUSED)
    with pytest.raises(ConnectError, match=r"^The apiserver refuses the connection\.$"):
        ask('watch: [{resource: "*"}]')
