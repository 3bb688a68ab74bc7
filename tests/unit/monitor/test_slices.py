"""Long work lets other tasks run after each slice."""

import asyncio
import time
from collections.abc import Generator

import pytest

from watchslo.monitor.slices import SLICE_SECONDS, WorkSlices


async def test_work_is_run_in_slices_to_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of nine steps takes 0.6 of a slice: another task runs after each second step."""
    now, log = 100.0, list[str]()

    def work() -> Generator[None, None, str]:
        nonlocal now
        for _ in range(9):
            now += 0.6 * SLICE_SECONDS
            log.append("step")
            yield
        return "result"

    async def other() -> None:
        while True:
            log.append("other")
            await asyncio.sleep(0)

    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: now)
        task = asyncio.create_task(other())
        assert await WorkSlices().run(work()) == "result"
        task.cancel()
    assert log == [*(["step", "step", "other"] * 4), "step"]
