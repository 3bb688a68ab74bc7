"""Work in the thread that encodes: in turns, in pieces, and never for requests that were cancelled."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from watchslo.serve.lane import Lane


class Thread:
    """A thread with a lane; it notes what it does in `done`, and waits before each piece until `gate` is set."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(1)
        self.lane = Lane(self.pool)
        self.gate = threading.Event()
        self.began = asyncio.Event()
        self.done: list[str] = []
        self._loop = asyncio.get_running_loop()

    def work(self, name: str) -> str:
        self._loop.call_soon_threadsafe(self.began.set)
        assert self.gate.wait(60)
        self.done.append(name)
        return name

    def run(self, name: str) -> asyncio.Task[str]:
        """Run one piece of work of the client that the first letter names."""
        return asyncio.create_task(self.lane.run(name[0], lambda: self.work(name)))

    def pieces(self, name: str, count: int = 3) -> asyncio.Task[list[str]]:
        """Collect pieces of work."""

        def each() -> Iterator[str]:
            for number in range(count):
                yield self.work(f"{name}.{number}")

        return asyncio.create_task(self.lane.collect(name[0], each()))


@pytest.fixture
async def thread() -> AsyncIterator[Thread]:
    made = Thread()
    yield made
    made.gate.set()
    made.pool.shutdown()


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_clients_take_turns(thread: Thread) -> None:
    tasks = [thread.run(name) for name in ("a1", "a2", "a3", "b1", "c1")]
    await turns()
    thread.gate.set()
    assert await asyncio.gather(*tasks) == ["a1", "a2", "a3", "b1", "c1"]
    assert thread.done == ["a1", "b1", "c1", "a2", "a3"]


async def test_pieces_of_several_clients_take_turns(thread: Thread) -> None:
    tasks = [thread.pieces("a"), thread.pieces("b", 1)]
    await turns()
    thread.gate.set()
    assert await asyncio.gather(*tasks) == [["a.0", "a.1", "a.2"], ["b.0"]]
    assert thread.done == ["a.0", "b.0", "a.1", "a.2"]


async def test_other_work_of_the_thread_waits_for_one_piece(thread: Thread) -> None:
    tasks = [thread.pieces(name) for name in "abc"]
    await thread.began.wait()
    await turns()
    own = thread.pool.submit(thread.work, "own")
    thread.gate.set()
    await asyncio.gather(*tasks)
    assert own.done()
    assert thread.done[:2] == ["a.0", "own"]


async def test_cancelled_work_does_not_begin_and_what_began_ends_before_the_next(thread: Thread) -> None:
    tasks = [thread.pieces("a"), thread.run("b1"), thread.run("c1")]
    await thread.began.wait()
    await turns()
    for task in tasks[:2]:
        task.cancel()
    await turns()
    assert [task.cancelled() for task in tasks[:2]] == [True, True]
    own = thread.pool.submit(thread.work, "own")
    await turns()
    thread.gate.set()
    assert await tasks[2] == "c1"
    assert own.done()
    assert thread.done == ["a.0", "own", "c1"]


async def test_failure_is_raised_and_the_next_one_runs(thread: Thread) -> None:
    thread.gate.set()

    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await thread.lane.run("a", fail)
    assert await thread.run("a1") == "a1"


def test_work_may_end_after_its_loop_was_closed() -> None:
    gate, pool = threading.Event(), ThreadPoolExecutor(1)

    async def leave() -> None:
        began = asyncio.Event()
        loop = asyncio.get_running_loop()

        def work() -> None:
            loop.call_soon_threadsafe(began.set)
            assert gate.wait(60)

        running = asyncio.create_task(Lane(pool).run("a", work))
        await began.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(leave())
    gate.set()
    pool.shutdown()
