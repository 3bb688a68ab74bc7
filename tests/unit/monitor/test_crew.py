import asyncio

import pytest

from tests.unit.monitor.cluster import Log
from watchslo.errors import ConfigError
from watchslo.monitor.crew import RESTART_SECONDS, Crew


class Work:
    def __init__(self, *failures: BaseException) -> None:
        self.failures = list(failures)
        self.starts: list[float] = []

    async def __call__(self) -> None:
        self.starts.append(asyncio.get_running_loop().time())
        if self.failures:
            raise self.failures.pop(0)
        await asyncio.sleep(3600)


async def test_starts_what_raises_again(log: Log) -> None:
    work = Work(ValueError("secret"), ExceptionGroup("more", [KeyError("secret")]))
    async with Crew(asyncio.Event()) as crew:
        crew.hire(("stream", 7), work)
        await asyncio.sleep(3 * RESTART_SECONDS)
    assert len(work.starts) == 3
    assert work.starts[1] - work.starts[0] == pytest.approx(RESTART_SECONDS)
    first, second = log.of("task_crashed")
    assert first["task"] == "('stream', 7)"
    assert first["error"].startswith("ValueError in Work.__call__:")
    assert second["error"] == "KeyError in unknown"
    assert "secret" not in str(log.of("task_crashed"))


async def test_lets_what_returns_be() -> None:
    starts = []

    async def once() -> None:
        starts.append(1)

    async with Crew(asyncio.Event()) as crew:
        crew.hire("once", once)
        await asyncio.sleep(60)
    assert starts == [1]


async def test_dismisses_by_name_and_the_name_is_free_again() -> None:
    work, other = Work(), Work()
    async with Crew(asyncio.Event()) as crew:
        crew.hire("a", work)
        crew.hire("b", other)
        assert "a" in crew
        await asyncio.sleep(0)
        await crew.dismiss("a", "nobody")
        assert "a" not in crew
        crew.hire("a", work)
        await asyncio.sleep(0)
    assert len(work.starts) == 2
    assert len(other.starts) == 1


async def test_what_the_user_must_mend_stops_all() -> None:
    async def all_work() -> None:
        stop = asyncio.Event()
        async with Crew(stop) as crew:
            crew.hire("other", Work())
            crew.hire("configuration", Work(ConfigError("no resource podz")))
            await stop.wait()

    with pytest.raises(ConfigError, match="no resource podz"):
        await all_work()


async def test_an_error_of_the_owner_goes_before() -> None:
    async def fail() -> None:
        stop = asyncio.Event()
        async with Crew(stop) as crew:
            crew.hire("configuration", Work(ConfigError("no resource podz")))
            await stop.wait()
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
