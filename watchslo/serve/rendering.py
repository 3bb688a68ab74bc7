"""Renders snapshots in another thread, one at a time, so that rendering does not delay the event loop."""

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor

from watchslo.serve.document import Document
from watchslo.snapshot import Snapshot


class Renderer:
    """Renders in a thread; concurrent requests for one form of one snapshot share one rendering."""

    def __init__(self, thread: ThreadPoolExecutor) -> None:
        self._thread = thread
        self._snapshot: Snapshot | None = None
        self._documents: dict[Hashable, asyncio.Future[Document]] = {}

    async def render(self, snapshot: Snapshot, form: Hashable, write: Callable[[Snapshot], Document]) -> Document:
        """Return the document that `write` makes, cached by `form` until the next snapshot."""
        if snapshot is not self._snapshot:
            self._snapshot, self._documents = snapshot, {}
        if form not in self._documents:
            loop = asyncio.get_running_loop()
            self._documents[form] = loop.run_in_executor(self._thread, write, snapshot)
        # Shielded: a client that disconnects must not cancel the rendering that others wait for.
        return await asyncio.shield(self._documents[form])
