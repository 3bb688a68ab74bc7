"""An apiserver that is slow to dispatch says so itself: the parts of the delay show it, and its own figures testify."""

import json
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from tests.support.control_plane import write_kubeconfig
from tests.support.daemon import Daemon, Scrape, Simulator, config_file

SLOW = "configmaps"
LATE = 0.4


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


def test_slow_dispatch_is_the_largest_part_of_the_delay(daemon: Daemon) -> None:
    """A busy machine makes other parts longer for a while, so one status is looked for that says all of it."""

    def divided() -> Any:
        status = daemon.status()
        (apiserver,) = status["apiservers"]
        (found,) = (stream["breakdown"] for stream in status["streams"] if stream["watch"] == SLOW)
        metrics = apiserver["ownMetrics"]
        if not found or not metrics["minute"] or metrics["minute"]["seconds"] <= 40 or found["seconds"] < LATE:
            return None
        largest = max(found["parts"], key=itemgetter("seconds"))["name"]
        return (found, metrics) if (largest, metrics["obstacle"]) == ("dispatch", None) else None

    found, metrics = daemon.process.until(divided, "dispatch is the largest part", 1.0)
    parts = {part["name"]: part["seconds"] for part in found["parts"]}
    assert parts.keys() == {"storage_to_cache", "dispatch", "rest"}
    assert min(parts.values()) >= 0.0
    assert sum(parts.values()) == pytest.approx(found["seconds"])
    assert metrics["processes"] == 1
    assert metrics["minute"]["resources"][SLOW]["received"] > 100

    def exposed(scrape: Scrape) -> bool:
        seconds = scrape.total("watchslo_delay_part_seconds", part="dispatch")
        return min(seconds, scrape.total("watchslo_apiserver_own_p99_seconds", of="dispatch")) >= 0.5 * LATE

    daemon.until(exposed, "exposed")
    scrape = daemon.scrape()
    assert scrape.total("watchslo_api_requests_total", kind="metrics_page", code="200") >= 3
    assert "dispatch" in daemon.answer(f"/api/v1/watches?watch={SLOW}")
