"""The command against a cluster in memory, on a loop whose time jumps."""

from typing import Any

import pytest

from tests.unit.app.conftest import plugin, run_jumping
from tests.unit.monitor.cluster import Cluster, Door
from tests.unit.monitor.conftest import cluster, jumping_time, log, pytest_asyncio_loop_factories
from watchslo.model import SERVICE
from watchslo.rehearse.rehearsal import Rehearsal

__all__ = ("cluster", "jumping_time", "log", "plugin", "pytest_asyncio_loop_factories", "run_jumping")

PAGED = Rehearsal(
    strategy="paged",
    by="paged",
    synced=1.5,
    requests=11,
    pages=10,
    objects=5000,
    size=18_000_000,
    events=0,
    waiting=0,
    throttled=0,
    expired_lists=0,
    expired_watches=0,
    fell_back=False,
    failure=None,
)


@pytest.fixture
def client(cluster: Cluster) -> Any:
    return Door(cluster, SERVICE, lambda *_: None)
