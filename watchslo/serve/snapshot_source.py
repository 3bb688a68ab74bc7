"""Passes the newest snapshot from the measuring loop to the serving loop."""

import asyncio
from collections.abc import Awaitable, Callable

from watchslo.errors import UnavailableError
from watchslo.snapshot import Snapshot

TIMEOUT_SECONDS = 3.0  # if the loop is this late, /healthz is more useful than metrics


class SnapshotSource:
    """Requests snapshots from the measuring loop; concurrent callers share one request."""

    def __init__(self, snapshot: Callable[[], Awaitable[Snapshot]], loop: asyncio.AbstractEventLoop) -> None:
        self._snapshot = snapshot
        self._loop = loop
        self._request: asyncio.Future[Snapshot] | None = None

    async def __call__(self) -> Snapshot:
        """Return the newest snapshot; raises UnavailableError if the loop hangs."""
        if self._request is None or self._request.done():
            self._request = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._take(), self._loop))
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return await asyncio.shield(self._request)
        except TimeoutError:
            raise UnavailableError(
                "The measuring loop does not answer: it hangs or is overloaded; see /healthz."
            ) from None

    async def _take(self) -> Snapshot:
        return await self._snapshot()
