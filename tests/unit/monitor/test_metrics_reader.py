"""The metrics of apiservers are read regularly, in slices, and what fails is reported once."""

import pytest

from tests.unit.monitor.cluster import Cluster, Log
from tests.unit.monitor.inside import Running, config, running
from tests.unit.monitor.transcript import CountedPages
from watchslo.kube.client import NO_METRICS
from watchslo.monitor.checks import metrics_reader
from watchslo.monitor.checks.metrics_reader import READ_SECONDS
from watchslo.own_metrics import line_filter
from watchslo.snapshot import ApiserverMetricsReading

ON = {"kubernetes": {"apiserverMetrics": True}}
EACH = {"kubernetes": {"apiserverMetrics": True, "apiservers": "each"}}
HOSTS = ("10.0.0.1", "10.0.0.2")


@pytest.fixture(autouse=True)
def pages(cluster: Cluster) -> None:
    cluster.metrics = CountedPages().page


def reading(run: Running) -> ApiserverMetricsReading | None:
    return run.snapshot().apiservers[0].own_metrics


async def test_crash_at_one_apiserver_ends_no_read_of_another(cluster: Cluster, log: Log) -> None:
    cluster.announce(*HOSTS)
    healthy = cluster.metrics

    def page(name: str) -> bytes:
        served_page = healthy(name)
        if name.startswith(HOSTS[0]):
            raise ZeroDivisionError
        return served_page

    cluster.metrics = page
    async with running(config("pods", **EACH), start=5 * READ_SECONDS):
        assert {host: cluster.asked_at[f"{host}:6443", "metrics_page"] for host in HOSTS} == dict.fromkeys(HOSTS, 5)
    crashes = [(crash["task"], crash["error"].split()[0]) for crash in log.of("task_crashed")]
    assert crashes == 5 * [(f"('metrics_page', '{HOSTS[0]}:6443')", "ZeroDivisionError")]


async def test_too_many_wanted_lines_are_an_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_filter, "MOST_KEPT_BYTES", 100)
    async with running(config("pods", **ON), start=20) as run:
        found = reading(run)
    assert found is not None
    assert found.obstacle == metrics_reader.LONG_LINES


def test_message_names_the_command_that_grants_the_right() -> None:
    assert "`watchslo rbac`" in NO_METRICS
