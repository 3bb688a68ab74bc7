"""An apiserver that is slow to dispatch says so itself: the parts of the delay show it, and its own figures testify."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.control_plane import write_kubeconfig
from tests.support.daemon import Daemon, Simulator, config_file

pytestmark = [pytest.mark.timeout(400), pytest.mark.patient]

SLOW = "configmaps"
LATE = 0.4
KNOWN_SECONDS = 240.0


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    config = config_file(
        tmp_path,
        kubernetes={"apiserverMetrics": True},
        watch=[{"resource": name, "hops": True} for name in (SLOW, "pods")],
    )
    kubeconfig = tmp_path / "kubeconfig"
    with Simulator(tmp_path, "--config", json.dumps({"cluster": {"dispatch_metrics": True}})) as simulator:
        simulator.control({"resource": SLOW, "client": f"constant {1000 * LATE:.0f}ms"}, "/latency")
        for name in (SLOW, "pods"):
            simulator.control({"resource": name, "rate": 10}, "/workload")
        write_kubeconfig(kubeconfig, {"server": simulator.url}, {})
        with Daemon(tmp_path, "--config", config, "--kubeconfig", kubeconfig) as running:
            running.until_measuring(SLOW, "pods")
            yield running


def own(daemon: Daemon) -> Any:
    (apiserver,) = daemon.status()["apiservers"]
    return apiserver["ownMetrics"]


def test_slow_dispatch_is_the_largest_part_of_the_delay(daemon: Daemon) -> None:
    def is_divided() -> bool:
        found, minute = daemon.streams()[SLOW]["breakdown"], own(daemon)["minute"]
        return bool(found and minute and minute["seconds"] > 40 and found["seconds"] >= LATE)

    daemon.process.until(is_divided, KNOWN_SECONDS, "the delay is divided", 1.0)
    found = daemon.streams()[SLOW]["breakdown"]
    parts = {part["name"]: part["seconds"] for part in found["parts"]}
    assert parts.keys() == {"storage_to_cache", "dispatch", "rest"}
    assert max(parts, key=lambda name: parts[name]) == "dispatch"
    assert min(parts.values()) >= 0.0
    assert sum(parts.values()) == pytest.approx(found["seconds"])
    metrics = own(daemon)
    assert (metrics["obstacle"], metrics["processes"]) == (None, 1)
    assert metrics["minute"]["resources"][SLOW]["received"] > 100
    scrape = daemon.scrape()
    assert scrape.value("watchslo_delay_part_seconds", part="dispatch") >= 0.5 * LATE
    assert scrape.value("watchslo_apiserver_own_p99_seconds", of="dispatch") >= 0.5 * LATE
    assert scrape.total("watchslo_api_requests_total", kind="metrics_page", code="200") >= 3
    assert "dispatch" in daemon.answer(f"/api/v1/watches?watch={SLOW}")
