"""Snapshots from the measuring loop, also while it hangs."""

import asyncio
import threading

import pytest

from tests.unit.serve import readings
from watchslo.errors import UnavailableError
from watchslo.serve import snapshot_source
from watchslo.serve.snapshot_source import SnapshotSource
from watchslo.snapshot import Snapshot

PATIENCE_SECONDS = 3600.0  # this machine may be late


class Measuring:
    """A loop in its own thread, which hangs while `free` is not set."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.free = threading.Event()
        self.free.set()
        self.taken = 0
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    async def snapshot(self) -> Snapshot:
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


async def test_snapshot_source_shares_requests_and_times_out_when_loop_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_source, "TIMEOUT_SECONDS", PATIENCE_SECONDS)
    measuring = Measuring()
    try:
        latest = SnapshotSource(measuring.snapshot, measuring.loop)
        assert await asyncio.gather(*(latest() for _ in range(100))) == [readings.SNAPSHOT] * 100
        assert measuring.taken == 1
        await latest()
        assert measuring.taken == 2
        monkeypatch.setattr(snapshot_source, "TIMEOUT_SECONDS", 0.0)
        measuring.hang()
        hung = await asyncio.gather(*(latest() for _ in range(10)), return_exceptions=True)
        assert {str(error) for error in hung if isinstance(error, UnavailableError)} == {
            "The measuring loop does not answer: it hangs or is overloaded; see /healthz."
        }
        assert len(hung) == 10
        measuring.free.set()
        monkeypatch.setattr(snapshot_source, "TIMEOUT_SECONDS", PATIENCE_SECONDS)
        assert await latest() is readings.SNAPSHOT
        assert measuring.taken == 3
    finally:
        measuring.end()
