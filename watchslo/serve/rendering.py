"""Renders snapshots in another thread, one at a time, so that rendering does not delay the event loop."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from watchslo.serve.document import Document
from watchslo.serve.lane import Lane

T = TypeVar("T")


class Renderer(Generic[T]):
    """Renders the newest snapshot or account in a lane; requests for one form of it share one rendering."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._rendered: tuple[T | None, dict[Hashable, Document]] = None, {}

    async def render(self, client: str, newest: T, form: Hashable, write: Callable[[T], Document]) -> Document:
        """Return the document that `write` makes, kept by `form` until `newest` is another one."""
        if newest is not self._rendered[0]:
            self._rendered = newest, {}
        if known := self._rendered[1].get(form):
            return known
        return await self._lane.run(client, lambda: self._write(form, write))

    def _write(self, form: Hashable, write: Callable[[T], Document]) -> Document:
        """Return the document of the newest one at this time: it may have changed while the request waited."""
        newest, documents = self._rendered
        assert newest is not None
        if form not in documents:
            documents[form] = write(newest)
        return documents[form]
