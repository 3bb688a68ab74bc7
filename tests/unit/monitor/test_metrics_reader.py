"""The metrics of apiservers are read regularly, in slices, and what fails is reported once."""

import asyncio

import pytest

from tests.unit.monitor.cluster import Cluster, Log
from tests.unit.monitor.inside import Running, config, running
from tests.unit.own_metrics.pages import histogram, started
from watchslo.kube.client import NO_METRICS
from watchslo.monitor import metrics_reader
from watchslo.monitor.metrics_reader import READ_SECONDS, REFUSED_SECONDS
from watchslo.own_metrics import line_filter
from watchslo.snapshot import ApiserverMetricsReading
from watchslo.watch.failure import Reason
from watchslo.watch.missing_right import AGAIN_SECONDS

ON = {"kubernetes": {"apiserverMetrics": True}}
EACH = {"kubernetes": {"apiserverMetrics": True, "apiservers": "each"}}
HOSTS = ("10.0.0.1", "10.0.0.2")


def text(calls: int) -> bytes:
    received = f'apiserver_watch_cache_events_received_total{{group="",resource="pods"}} {7 * calls}\n'
    return (started() + received + histogram("etcd_request_duration_seconds", "", (0, calls, calls, calls))).encode()


@pytest.fixture(autouse=True)
def served(cluster: Cluster) -> dict[str, int]:
    """How often each apiserver was asked for its page, which counts that too."""
    calls: dict[str, int] = {}

    def page(name: str) -> bytes:
        calls[name] = calls.get(name, 0) + 1
        return text(calls[name])

    cluster.metrics = page
    return calls


def reading(run: Running) -> ApiserverMetricsReading | None:
    return run.snapshot().apiservers[0].own_metrics


async def test_nothing_is_read_unless_it_is_configured(served: dict[str, int]) -> None:
    async with running(config("pods"), start=60) as run:
        assert reading(run) is None
    assert not served


async def test_each_watched_apiserver_is_read_every_15_seconds(cluster: Cluster, served: dict[str, int]) -> None:
    cluster.announce(*HOSTS)
    async with running(config("pods", **EACH), start=5 * READ_SECONDS) as run:
        assert served == {f"{host}:6443": 5 for host in HOSTS}
        names = {one.name for one in run.snapshot().apiservers if one.own_metrics}
        assert names == {*served}


async def test_figures_are_the_difference_of_two_reads() -> None:
    async with running(config("pods", **ON), start=80) as run:
        found = reading(run)
    assert found is not None
    assert found.recent is not None
    assert found.minute is not None
    assert found.recent.seconds == pytest.approx(READ_SECONDS, abs=1.1)
    assert found.recent.resources["pods"].received == 7
    assert found.minute.resources["pods"].received == 28
    assert found.recent.etcd is not None
    assert found.recent.etcd.total == 1


async def test_missing_right_is_logged_once_and_asked_for_seldom(cluster: Cluster, log: Log) -> None:
    cluster.fail(Reason.FORBIDDEN, "metrics_page")
    async with running(config("pods", **ON), start=AGAIN_SECONDS - 10) as run:
        assert cluster.asked_at["service", "metrics_page"] == 1
        found = reading(run)
        assert found is not None
        assert found.obstacle
        await asyncio.sleep(30)
        assert cluster.asked_at["service", "metrics_page"] == 2
        await asyncio.sleep(REFUSED_SECONDS - 30)
        assert cluster.asked_at["service", "metrics_page"] == 2
        await asyncio.sleep(30)
        assert cluster.asked_at["service", "metrics_page"] == 3
        cluster.fail(None, "metrics_page")
        await asyncio.sleep(REFUSED_SECONDS)
        found = reading(run)
        assert found is not None
        assert found.obstacle is None
    assert [line["reason"] for line in log.of("metrics_page_failed")] == ["forbidden"]


async def test_crash_at_one_apiserver_ends_no_read_of_another(
    cluster: Cluster, served: dict[str, int], log: Log
) -> None:
    cluster.announce(*HOSTS)
    healthy = cluster.metrics

    def page(name: str) -> bytes:
        served_page = healthy(name)
        if name.startswith(HOSTS[0]):
            raise ZeroDivisionError
        return served_page

    cluster.metrics = page
    async with running(config("pods", **EACH), start=5 * READ_SECONDS):
        assert served == {f"{host}:6443": 5 for host in HOSTS}
    crashes = [(crash["task"], crash["error"].split()[0]) for crash in log.of("task_crashed")]
    assert crashes == 5 * [(f"('metrics_page', '{HOSTS[0]}:6443')", "ZeroDivisionError")]


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (b"", metrics_reader.UNKNOWN_PAGE),
        (b"<html>\n", metrics_reader.UNKNOWN_PAGE),
        (started().encode() + b"process_cpu_seconds_total x\n", metrics_reader.GARBLED.format(1)),
    ],
)
async def test_page_that_cannot_be_read_is_an_obstacle(cluster: Cluster, log: Log, page: bytes, message: str) -> None:
    cluster.metrics = lambda _: page
    async with running(config("pods", **ON), start=60) as run:
        found = reading(run)
    assert found is not None
    assert found.obstacle == message
    assert len(log.of("metrics_page_failed")) == 1


async def test_too_many_wanted_lines_are_an_obstacle(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_filter, "MOST_KEPT_BYTES", 100)
    cluster.metrics = lambda _: text(1)
    async with running(config("pods", **ON), start=20) as run:
        found = reading(run)
    assert found is not None
    assert found.obstacle == metrics_reader.LONG_LINES


async def test_address_of_several_apiservers_has_several_processes(cluster: Cluster) -> None:
    """All reads may have reached the same one."""
    cluster.announce(*HOSTS)
    async with running(config("pods", **ON), start=60) as run:
        found = reading(run)
    assert found is not None
    assert found.processes == 2


async def test_slow_apiserver_does_not_delay_the_others(cluster: Cluster, served: dict[str, int]) -> None:
    cluster.announce(*HOSTS)
    cluster.mute.add(HOSTS[0])
    async with running(config("pods", **EACH), start=5 * READ_SECONDS):
        assert served == {f"{HOSTS[1]}:6443": 5}


async def test_nothing_is_read_while_paused(cluster: Cluster, served: dict[str, int]) -> None:
    async with running(config("pods", **ON), start=30) as run:
        run.supervisor.configure(config("pods", paused=True, **ON))
        await asyncio.sleep(1)
        before = dict(served)
        await asyncio.sleep(60)
        assert served == before
        run.supervisor.configure(config("pods", **ON))
        await asyncio.sleep(20)
        assert served["service"] > before["service"]
    assert not cluster.doors


def test_message_names_the_command_that_grants_the_right() -> None:
    assert "`watchslo rbac`" in NO_METRICS
