"""Tasks that must not die: one that raises is reported and started again, and leaving ends them all."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from types import TracebackType
from typing import Self

import structlog

from watchslo.errors import WatchsloError, whereabouts

RESTART_SECONDS = 5.0


class Crew:
    """Tasks by name, within an `async with`.

    A task that raises a WatchsloError cannot go on before the user mends something: it sets `stop`, for whoever waits
    for that within the context, and the error is raised when the context is left.
    """

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}
        self._error: WatchsloError | None = None
        self._log = structlog.get_logger()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.dismiss(*self._tasks)
        if self._error and error is None:
            raise self._error

    def __contains__(self, name: Hashable) -> bool:
        return name in self._tasks

    def hire(self, name: Hashable, work: Callable[[], Awaitable[None]]) -> None:
        """Starts `work` under a name that is free; it is started again whenever it raises, not when it returns."""
        assert name not in self._tasks, name
        self._tasks[name] = asyncio.create_task(self._keep(name, work), name=str(name))

    async def dismiss(self, *names: Hashable) -> None:
        """Cancels these tasks, and returns when they have ended."""
        tasks = [self._tasks.pop(name) for name in names if name in self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, name: Hashable, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                return await work()
            except WatchsloError as error:
                self._error = error
                self._stop.set()
                return None
            except Exception as error:  # noqa: BLE001 - whatever it is, the daemon goes on and says so
                self._log.error("task_crashed", task=str(name), error=whereabouts(error), again_in_s=RESTART_SECONDS)
                await asyncio.sleep(RESTART_SECONDS)
