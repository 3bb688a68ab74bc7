"""The command against a cluster in memory, on a loop whose time jumps."""

from tests.unit.app.conftest import plugin, run_jumping
from tests.unit.monitor.conftest import cluster, jumping_time, log, pytest_asyncio_loop_factories

__all__ = ("cluster", "jumping_time", "log", "plugin", "pytest_asyncio_loop_factories", "run_jumping")
