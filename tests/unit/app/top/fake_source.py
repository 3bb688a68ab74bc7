"""A source whose view is set by a test."""

from collections.abc import Sequence
from typing import Self

from tests.unit.serve import readings
from watchslo.api.feed import WatchDetail
from watchslo.app.details import own_details
from watchslo.app.terminal import View, read
from watchslo.serve.status import StatusEncoder
from watchslo.timeline.timeline import Timeline

TIMELINE = Timeline()
TIMELINE.observe(readings.SNAPSHOT)
VIEW = read(StatusEncoder().encode(readings.SNAPSHOT).body)


class FakeSource:
    """Returns `now` as the view, or raises it."""

    place = "http://there"

    def __init__(self, now: View | Exception = VIEW) -> None:
        self.now = now

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def view(self) -> View:
        if isinstance(self.now, Exception):
            raise self.now
        return self.now

    async def details(self, name: str) -> Sequence[WatchDetail]:
        return own_details(TIMELINE, name)
