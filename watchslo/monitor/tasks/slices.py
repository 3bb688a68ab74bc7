"""Long work on the event loop in short slices, so that arrivals are read in time."""

import asyncio
import gc
import time
from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")

SLICE_SECONDS = 0.0005  # one turn of the event loop may run a slice of each of several works, and read many sockets


class WorkSlices:
    """Lets the event loop do other work whenever the work of the caller has taken `SLICE_SECONDS`.

    Each pause frees the garbage of the slice, and leaves its other objects out of the next garbage collections. Python
    starts these by the number of objects that are made less those that are freed: while new readings replace old ones,
    it starts few, each of which looks at thousands of objects.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()

    async def pause(self) -> None:
        """Pause if the slice is over; call it between steps that take less than a slice."""
        if time.monotonic() - self._began >= SLICE_SECONDS:
            gc.collect(0)
            gc.freeze()
            await asyncio.sleep(0)
            self._began = time.monotonic()

    async def run(self, work: Generator[None, None, Result]) -> Result:
        """Run work of which each step takes less than a slice, with pauses; return its result."""
        while True:
            try:
                next(work)
            except StopIteration as ended:
                result: Result = ended.value
                return result
            await self.pause()
