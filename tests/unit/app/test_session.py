import asyncio
import sys
from pathlib import Path

import pytest

from watchslo.app.session import SWITCH_SECONDS, run_on_loop, supervise
from watchslo.config import Config
from watchslo.errors import ConnectError

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: me, user: {}}]
contexts: [{name: one, context: {cluster: here, user: me}}]
current-context: one
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    return path


async def loop() -> str:
    return type(asyncio.get_running_loop()).__module__


def test_the_loop_is_fast_and_threads_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    intervals: list[float] = []
    monkeypatch.setattr(sys, "setswitchinterval", intervals.append)
    assert run_on_loop(loop()) == "uvloop"
    assert intervals == [SWITCH_SECONDS]


def test_the_command_line_names_the_cluster(kubeconfig: Path) -> None:
    assert supervise(Config(), kubeconfig, "one").snapshot().monitor.not_ready == ("The cluster is being discovered.",)
    with pytest.raises(ConnectError, match="two"):
        supervise(Config(), kubeconfig, "two")


def test_the_configuration_names_the_cluster(kubeconfig: Path) -> None:
    made = Config.model_validate({"kubernetes": {"kubeconfig": str(kubeconfig), "context": "two"}})
    with pytest.raises(ConnectError, match="two"):
        supervise(made)
