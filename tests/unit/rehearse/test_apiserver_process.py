"""The figures of an apiserver's process, from lines of its metrics."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.monitor.cluster import PODS, Cluster
from watchslo.model import Resource
from watchslo.rehearse.apiserver_process import (
    NO_FIGURES,
    NO_RIGHT,
    ApiserverCost,
    ProcessReading,
    cost_between,
    parse_process,
    read_process,
)
from watchslo.rehearse.list_source import ListCounts
from watchslo.watch.failure import Reason

DEPLOYMENTS = Resource("apps", "v1", "deployments", namespaced=True)
PROCESS = [
    "process_cpu_seconds_total 12.5",
    "process_resident_memory_bytes 6.5e+08",
    "process_start_time_seconds 1.76e+09",
]
READING = ProcessReading(6.5e8, 12.5, 1.76e9, ListCounts(0, 0))


@pytest.mark.parametrize("missing", range(3))
def test_process_needs_all_three_lines(missing: int) -> None:
    assert parse_process(PROCESS[:missing] + PROCESS[missing + 1 :], PODS) is None


@pytest.mark.parametrize(
    "others",
    [[], *[[line] for line in ("", "nonsense", "process_cpu_seconds_total many", 'apiserver_cache_list_total{ "')]],
)
def test_process_is_read_from_its_three_lines(others: list[str]) -> None:
    assert parse_process([*PROCESS, *others], PODS) == READING


@pytest.mark.parametrize(
    "lines",
    [
        [
            'apiserver_cache_list_total{group="apps",index="",resource="deployments"} 3',
            'apiserver_cache_list_total{group="apps",index="f:x",resource="deployments"} 1',
            'apiserver_cache_list_total{group="",index="",resource="deployments"} 50',
            'apiserver_storage_list_total{group="apps",resource="deployments"} 2',
        ],
        [
            'apiserver_cache_list_total{index="",resource_prefix="/deployments"} 4',
            'apiserver_cache_list_total{index="",resource_prefix="/pods"} 50',
            'apiserver_storage_list_total{resource="deployments.apps"} 2',
            'apiserver_storage_list_total{resource="deployments"} 50',
        ],
    ],
    ids=["since 1.34", "before"],
)
def test_lists_of_the_resource_are_counted(lines: list[str]) -> None:
    reading = parse_process([*PROCESS, *lines], DEPLOYMENTS)
    assert reading is not None
    assert reading.lists == ListCounts(cache=4, etcd=2)


def test_cost_is_the_difference() -> None:
    cost = cost_between(READING, replace(READING, memory=7e8, cpu=13.0))
    assert cost == ApiserverCost(6.5e8, 7e8, 0.5)
    assert cost.without(0.2).cpu == pytest.approx(0.3)
    assert cost.without(0.9).cpu == 0.0


def test_cost_of_another_process_is_unknown() -> None:
    assert "restarted" in (cost_between(READING, replace(READING, started=1.77e9)).unknown or "")
    assert cost_between("why", READING).unknown == cost_between(READING, "why").unknown == "why"


async def test_missing_right_or_figures_are_named(client: Any, cluster: Cluster) -> None:
    assert await read_process(client, PODS) == NO_FIGURES
    cluster.fail(Reason.FORBIDDEN, "metrics_page")
    assert await read_process(client, PODS) == NO_RIGHT
    cluster.fail(Reason.NOT_FOUND, "metrics_page")
    assert await read_process(client, PODS) == "it serves no /metrics"
    cluster.fail(Reason.TIMEOUT, "metrics_page")
    why = await read_process(client, PODS)
    assert isinstance(why, str)
    assert not why.endswith(".")
