"""Snapshots are rendered beside the event loop, one at a time: what the loop does late is measured late."""

import asyncio
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from watchslo.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Document:
    """A rendered answer."""

    body: bytes
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)


class Renderer:
    """Renders in one thread of its own; all who ask for one form of one snapshot share one rendering."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="render")
        self._snapshot: Snapshot | None = None
        self._documents: dict[Hashable, asyncio.Future[Document]] = {}

    async def render(self, snapshot: Snapshot, form: Hashable, write: Callable[[Snapshot], Document]) -> Document:
        """The document that `write` makes of the snapshot; `form` names what it makes. Only the newest one is kept."""
        if snapshot is not self._snapshot:
            self._snapshot, self._documents = snapshot, {}
        if form not in self._documents:
            loop = asyncio.get_running_loop()
            self._documents[form] = loop.run_in_executor(self._thread, write, snapshot)
        # Shielded: whoever goes away must not take it from the others.
        return await asyncio.shield(self._documents[form])
