"""Long work lets other tasks run after each slice."""

import asyncio
import gc
import time
from collections.abc import Generator
from weakref import ref

import pytest

from watchslo.monitor.tasks.slices import SLICE_SECONDS, WorkSlices


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


class Cycle:
    def __init__(self) -> None:
        self.itself = self


async def test_pause_frees_garbage_and_leaves_other_objects_out_of_collections() -> None:
    slices, kept = WorkSlices(), Cycle()
    before, garbage = gc.get_freeze_count(), ref(Cycle())
    await asyncio.sleep(2 * SLICE_SECONDS)
    await slices.pause()
    try:
        assert garbage() is None
        assert gc.get_freeze_count() > before
        assert all(one is not kept for one in gc.get_objects())
    finally:
        gc.unfreeze()
