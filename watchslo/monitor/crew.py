"""Tasks that must not die: one that raises is reported and started again, and leaving ends them all."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from types import TracebackType
from typing import Self

import structlog

RESTART_SECONDS = 5.0


class Crew:
    """Tasks by name, within an `async with`."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}
        self._log = structlog.get_logger()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.dismiss(*self._tasks)

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
            except Exception as error:  # noqa: BLE001 - whatever it is, the daemon goes on and says so
                self._log.error("task_crashed", task=str(name), error=_place(error), again_in_s=RESTART_SECONDS)
                await asyncio.sleep(RESTART_SECONDS)


def _place(error: BaseException) -> str:
    """The kind of an error and where it was raised: no values, which could be data of the cluster."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    where = f"{trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}" if trace else "unknown"
    return f"{type(error).__name__} in {where}"
