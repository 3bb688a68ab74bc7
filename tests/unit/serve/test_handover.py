"""Snapshots from one loop to another, also while the one that measures hangs."""

import asyncio
import threading

import pytest

from tests.unit.serve import readings
from watchslo.errors import UnavailableError
from watchslo.serve import handover
from watchslo.serve.handover import Handover
from watchslo.snapshot import Snapshot


class Measuring:
    """A loop in a thread of its own, which hangs as long as `free` is not set."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.free = threading.Event()
        self.free.set()
        self.taken = 0
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def snapshot(self) -> Snapshot:
        self.taken += 1
        return readings.SNAPSHOT

    def hang(self) -> None:
        self.free.clear()
        self.loop.call_soon_threadsafe(self.free.wait)

    def end(self) -> None:
        self.free.set()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


async def test_hands_over_the_newest_and_asks_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    measuring = Measuring()
    try:
        latest = Handover(measuring.snapshot, measuring.loop)
        assert await asyncio.gather(*(latest() for _ in range(100))) == [readings.SNAPSHOT] * 100
        assert measuring.taken == 1
        await latest()
        assert measuring.taken == 2
        monkeypatch.setattr(handover, "PATIENCE_SECONDS", 0.05)
        measuring.hang()
        hung = await asyncio.gather(*(latest() for _ in range(10)), return_exceptions=True)
        assert {str(error) for error in hung if isinstance(error, UnavailableError)} == {
            "The loop that measures does not answer: it hangs, or is overloaded; see /healthz."
        }
        assert len(hung) == 10
        measuring.free.set()
        monkeypatch.undo()
        assert await latest() is readings.SNAPSHOT
        assert measuring.taken == 3
    finally:
        measuring.end()
