"""Tasks that keep running: a task that raises is logged and restarted, and all tasks end with the context.

In an `asyncio.TaskGroup`, an exception of one task ends all others. `keep_running` and `contain` are for tasks that
share only the group, such as the probes of several caches.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable
from types import TracebackType
from typing import Self

import structlog

from watchslo.errors import WatchsloError, error_location

RESTART_SECONDS = 5.0


class TaskSupervisor:
    """Runs tasks by name within an `async with`.

    A task that raises a WatchsloError needs the user to change something and is not restarted. It sets `stop`, which
    the body of the context waits for; the error is raised when the context exits.
    """

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}
        self._error: WatchsloError | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop(*self._tasks)
        if self._error and error is None:
            raise self._error

    def __contains__(self, name: Hashable) -> bool:
        return name in self._tasks

    @property
    def ended(self) -> list[str]:
        """The tasks that ended with an error and were not started again, which is a defect of this program.

        Any thread may ask.
        """
        tasks = [*self._tasks.items()]
        return [str(name) for name, task in tasks if task.done() and not task.cancelled() and task.exception()]

    def start(self, name: Hashable, work: Callable[[], Awaitable[None]]) -> None:
        """Start `work` under an unused name; it is restarted when it raises, but not when it returns."""
        assert name not in self._tasks, name
        self._tasks[name] = asyncio.create_task(self._run(name, work), name=str(name))

    async def stop(self, *names: Hashable) -> None:
        """Cancel these tasks and wait until they have ended; unknown names are ignored."""
        tasks = [self._tasks.pop(name) for name in names if name in self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, name: Hashable, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await keep_running(name, work)
        except WatchsloError as error:
            self._error = error
            self._stop.set()


async def keep_running(name: Hashable, work: Callable[[], Awaitable[None]]) -> None:
    """Run `work` until it returns; after an exception that is no WatchsloError, log it and run again."""
    while True:
        try:
            return await work()
        except WatchsloError:
            raise
        except Exception as error:  # noqa: BLE001 - the daemon continues after any crash of one task, and logs it
            _log_crash(name, error, again_in_s=RESTART_SECONDS)
            await asyncio.sleep(RESTART_SECONDS)


async def contain(name: Hashable, work: Callable[[], Awaitable[None]]) -> None:
    """Run `work` once, and log an exception that is no WatchsloError: the caller tries again when it is due."""
    try:
        await work()
    except WatchsloError:
        raise
    except Exception as error:  # noqa: BLE001 - as in `keep_running`
        _log_crash(name, error)


def _log_crash(name: Hashable, error: Exception, **facts: object) -> None:
    with contextlib.suppress(Exception):
        structlog.get_logger().error("task_crashed", task=str(name), error=error_location(error), **facts)
