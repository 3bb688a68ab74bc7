"""The newest snapshot, handed over from the loop that measures to the loop that serves."""

import asyncio
from collections.abc import Callable

from watchslo.errors import UnavailableError
from watchslo.snapshot import Snapshot

PATIENCE_SECONDS = 3.0  # a loop that is late by this has worse to tell than its metrics: see /healthz


class Handover:
    """Asks the measuring loop for a snapshot; all who ask at once share one question, so that it is asked little."""

    def __init__(self, snapshot: Callable[[], Snapshot], loop: asyncio.AbstractEventLoop) -> None:
        self._snapshot = snapshot
        self._loop = loop
        self._asked: asyncio.Future[Snapshot] | None = None

    async def __call__(self) -> Snapshot:
        """The newest snapshot; raises UnavailableError where the loop hangs."""
        if self._asked is None or self._asked.done():
            self._asked = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._take(), self._loop))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await asyncio.shield(self._asked)
        except TimeoutError:
            raise UnavailableError(
                "The loop that measures does not answer: it hangs, or is overloaded; see /healthz."
            ) from None

    async def _take(self) -> Snapshot:
        return self._snapshot()
