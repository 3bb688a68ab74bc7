"""`watchslo check` over several contexts of a kubeconfig, with the real client and clusters simulated over HTTP."""

import json
import os
import re
import signal
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.kubeconfigs import free_port, kubeconfig, token_of
from tests.support.printed import Printed
from tests.unit.app.conftest import Run, log, run_jumping
from tests.unit.monitor.cluster import Log
from watchslo.cli import commands
from watchslo.errors import ConnectError
from watchslo.sim.cluster import ClusterSettings
from watchslo.sim.control import FaultSwitch, SimConfig
from watchslo.sim.simulation import simulated
from watchslo.sim.workload import WorkloadPlan
from watchslo.timeline.format import ABSENT

__all__ = ("log", "run_jumping")

Check = Callable[..., Printed]
WRITER = WorkloadPlan(resource="configmaps", rate=20.0)
SLOW = FaultSwitch("slow-watch", "configmaps", law="constant 2s")


def cluster_of(name: str, *faults: FaultSwitch) -> SimConfig:
    """Return a cluster that accepts the token of its own context only."""
    return SimConfig(ClusterSettings(token=token_of(name)), faults=faults, workload=(WRITER,))


CLUSTERS = {"prod-eu": cluster_of("prod-eu"), "prod-us": cluster_of("prod-us", SLOW)}
REFUSED = "Connection refused by http://127.0.0.1:{port}; check that the apiserver runs there."


@pytest.fixture
def ports() -> dict[str, int]:
    """The ports by context; nothing listens for those that are not in `CLUSTERS`."""
    return {name: free_port() for name in (*CLUSTERS, "prod-down", "dev")}


@pytest.fixture
def kubeconfig_file(ports: dict[str, int], tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    content = kubeconfig(**ports)
    content["contexts"].append({"name": "prod-torn", "context": {"cluster": "gone", "user": "dev"}})
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
def check(
    ports: dict[str, int],
    kubeconfig_file: Path,
    run_jumping: Run,
    log: Log,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Check:
    """Runs `watchslo check` of configmaps, while 20 of them change each second in each cluster."""
    del log

    def run(work: Coroutine[None, None, Any]) -> Any:
        async def with_clusters() -> Any:
            async with AsyncExitStack() as stack:
                for seed, (name, config) in enumerate(CLUSTERS.items()):
                    await stack.enter_async_context(simulated(config, seed, port=ports[name]))
                return await work

        return run_jumping(with_clusters())

    monkeypatch.setattr("watchslo.app.measurement.run_on_loop", run)
    monkeypatch.setattr("watchslo.app.logs.set_up", lambda *_: None)

    def check(*words: str) -> Printed:
        arguments = ("check", "configmaps", "--duration", "10s", "--kubeconfig", str(kubeconfig_file), *words)
        with pytest.raises(SystemExit) as ended:
            commands.main(arguments, standalone_mode=False)
        assert isinstance(ended.value.code, int)
        return Printed(ended.value.code, *capsys.readouterr())

    return check


def test_clusters_of_matching_contexts_are_one_table_with_the_exit_code_of_the_worst(
    check: Check, ports: dict[str, int]
) -> None:
    printed = check("--context", "prod-.*")
    head, *rows = printed.text.splitlines()
    assert head.split() == ["CLUSTER", "VERDICT", "WORST", "WATCH", "P99", "BOUNDS"]
    assert [row.split()[:3] for row in rows[:4]] == [
        ["prod-us", "bad", "configmaps"],
        ["prod-down", "unknown", ABSENT],
        ["prod-torn", "unknown", ABSENT],
        ["prod-eu", "good", "configmaps"],
    ]
    assert rows[4].startswith("prod-us: configmaps: late since ")
    assert rows[5] == f"prod-down: {REFUSED.format(port=ports['prod-down'])}"
    assert rows[6].endswith("its cluster gone is missing; add it, or choose another context")
    assert (rows[7:], printed.code) == ([], 1)


def test_json_has_an_object_for_each_cluster(check: Check) -> None:
    printed = check("--context", "prod-eu|prod-torn", "-o", "json")
    fleet = printed.document
    assert [*fleet] == ["apiVersion", "level", "exitCode", "clusters"]
    assert (fleet["apiVersion"], fleet["level"], fleet["exitCode"], printed.code) == ("v1", "unknown", 3, 3)
    torn, measured = fleet["clusters"]
    assert [*torn] == ["context", "level", "exitCode", "error"]
    assert (torn["context"], torn["level"], torn["exitCode"]) == ("prod-torn", "unknown", 3)
    assert "its cluster gone is missing" in torn["error"]
    assert (measured["context"], measured["level"], measured["exitCode"]) == ("prod-eu", "good", 0)
    assert measured["watches"][0]["verdict"] == "within"


def test_single_matching_context_is_printed_as_one_cluster(check: Check, ports: dict[str, int]) -> None:
    printed = check("--context", ".*-eu")
    first, *_, last = printed.text.splitlines()
    assert (first, last) == (f"Context prod-eu: http://127.0.0.1:{ports['prod-eu']}", "configmaps is within 1 s.")
    assert printed.code == 0


def test_reason_that_several_clusters_share_is_printed_once(check: Check) -> None:
    printed = check("podz", "--context", "prod-(eu|us)")
    assert printed.text.splitlines()[3:] == [
        "prod-eu, prod-us: RESOURCE: the apiserver serves no resource podz; did you mean pods?"
    ]
    assert printed.code == 3


def test_signal_ends_the_measurement_of_all_clusters(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[str] = []

    def so_far(_: object) -> str:
        counts.append("")
        if len(counts) == 40:
            os.kill(os.getpid(), signal.SIGINT)
        return "measuring"

    monkeypatch.setattr("watchslo.app.check._so_far", so_far)
    printed = check("--context", "prod-(eu|us)", "--duration", "5m")
    last = printed.text.splitlines()[-1]
    assert re.fullmatch(r"Interrupted: these are the figures of at most \d s\.", last)
    assert len(counts) < 50, "neither cluster was measured for longer"


def test_context_that_nothing_matches_is_an_error_with_a_remedy(check: Check) -> None:
    with pytest.raises(
        ConnectError, match=r"has 5 contexts, but none is named stage or matches it; see `kubectl config"
    ):
        check("--context", "stage")
