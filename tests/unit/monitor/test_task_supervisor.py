import asyncio

import pytest
import structlog

from tests.unit.monitor.cluster import Log
from watchslo.errors import ConfigError
from watchslo.monitor.tasks.task_supervisor import RESTART_SECONDS, TaskSupervisor, contain


class Work:
    def __init__(self, *failures: BaseException) -> None:
        self.failures = list(failures)
        self.starts: list[float] = []

    async def __call__(self) -> None:
        self.starts.append(asyncio.get_running_loop().time())
        if self.failures:
            raise self.failures.pop(0)
        await asyncio.sleep(3600)


async def test_task_that_raises_is_restarted(log: Log) -> None:
    work = Work(ValueError("secret"), ExceptionGroup("more", [KeyError("secret")]))
    async with TaskSupervisor(asyncio.Event()) as tasks:
        tasks.start(("stream", 7), work)
        await asyncio.sleep(3 * RESTART_SECONDS)
    assert len(work.starts) == 3
    assert work.starts[1] - work.starts[0] == pytest.approx(RESTART_SECONDS)
    first, second = log.of("task_crashed")
    assert first["task"] == "('stream', 7)"
    assert first["error"].startswith("ValueError in Work.__call__:")
    assert second["error"] == "KeyError in unknown"
    assert "secret" not in str(log.of("task_crashed"))


async def test_contained_work_that_raises_is_logged_and_ends_no_other(log: Log) -> None:
    work, other = Work(ValueError("secret")), Work()
    async with TaskSupervisor(asyncio.Event()) as tasks, asyncio.TaskGroup() as group:
        tasks.start("other", other)
        await group.create_task(contain(("audits", 7), work))
        await asyncio.sleep(RESTART_SECONDS)
    assert (len(work.starts), len(other.starts)) == (1, 1)
    (entry,) = log.of("task_crashed")
    assert entry["task"] == "('audits', 7)"
    assert "secret" not in str(entry)


async def test_contained_error_that_needs_the_user_is_raised() -> None:
    with pytest.raises(ConfigError, match="no resource podz"):
        await contain("audits", Work(ConfigError("no resource podz")))


async def test_stop_by_name_frees_the_name() -> None:
    work, other = Work(), Work()
    async with TaskSupervisor(asyncio.Event()) as tasks:
        tasks.start("a", work)
        tasks.start("b", other)
        assert "a" in tasks
        await asyncio.sleep(0)
        await tasks.stop("a", "unknown")
        assert "a" not in tasks
        tasks.start("a", work)
        await asyncio.sleep(0)
    assert len(work.starts) == 2
    assert len(other.starts) == 1


async def end_by_a_configuration_error(then: Exception | None = None) -> None:
    """Run tasks until one of them finds an error of the configuration; the body may raise another one."""
    stop = asyncio.Event()
    async with TaskSupervisor(stop) as tasks:
        tasks.start("other", Work())
        tasks.start("configuration", Work(ConfigError("no resource podz")))
        await stop.wait()
        if then is not None:
            raise then


async def test_configuration_error_stops_all() -> None:
    with pytest.raises(ConfigError, match="no resource podz"):
        await end_by_a_configuration_error()


async def test_error_of_the_body_takes_precedence() -> None:
    with pytest.raises(KeyError):
        await end_by_a_configuration_error(then=KeyError())


class FailingLog:
    def error(self, *_: object, **__: object) -> None:
        raise BrokenPipeError


async def test_task_is_restarted_although_its_crash_cannot_be_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(ValueError())
    monkeypatch.setattr(structlog, "get_logger", FailingLog)
    async with TaskSupervisor(asyncio.Event()) as tasks:
        tasks.start("a", work)
        await asyncio.sleep(2 * RESTART_SECONDS)
        assert tasks.ended == []
    assert len(work.starts) == 2


async def test_task_that_returns_is_not_restarted_and_one_that_ended_with_an_error_is_known() -> None:
    """Nothing else ends a task; then this program has a defect."""
    starts = []

    async def returns() -> None:
        starts.append(1)

    async with TaskSupervisor(asyncio.Event()) as tasks:
        tasks.start("lasting", Work())
        tasks.start("returned", returns)
        tasks.start("ended", Work(BaseExceptionGroup("not an Exception", [GeneratorExit()])))
        await asyncio.sleep(60)
        assert tasks.ended == ["ended"]
    assert starts == [1]
