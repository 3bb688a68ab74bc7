"""`watchslo rbac` with a cluster in memory: when it uses discovery, and its error if discovery fails."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.app.conftest import Run
from tests.unit.monitor.cluster import Cluster, Log, because_of, nowhere
from watchslo.app.rbac import RbacOptions, rbac
from watchslo.errors import ConnectError
from watchslo.watch.failure import Reason

RunRbac = Callable[[str], None]


@pytest.fixture
def run_rbac(monkeypatch: pytest.MonkeyPatch, run_jumping: Run, log: Log, tmp_path: Path) -> RunRbac:
    del log
    monkeypatch.setattr("watchslo.app.rbac.run_on_loop", run_jumping)
    monkeypatch.setattr("watchslo.app.logs.set_up", lambda *_: None)
    monkeypatch.setattr("watchslo.app.rbac.connect", lambda *_: nowhere())

    def run(configuration: str) -> None:
        path = tmp_path / "watchslo.yaml"
        path.write_text(configuration)
        rbac(path, None, None, RbacOptions())

    return run


def test_rbac_permits_all_served_resources_for_a_star(
    run_rbac: RunRbac, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    run_rbac('watch: [{resource: "*"}]')
    assert "resources: [configmaps, nodes, pods]" in capsys.readouterr().out
    assert not cluster.doors, "a connection is still open"


def test_rbac_sends_no_request_if_names_suffice(run_rbac: RunRbac, cluster: Cluster) -> None:
    run_rbac("watch: [{resource: pods}]")
    assert not cluster.requests


def test_rbac_fails_if_the_apiserver_refuses_connections(run_rbac: RunRbac, cluster: Cluster) -> None:
    cluster.failures["discovery", "*"] = because_of(Reason.REFUSED)
    with pytest.raises(ConnectError, match=r"^The apiserver refuses the connection\.$"):
        run_rbac('watch: [{resource: "*"}]')
