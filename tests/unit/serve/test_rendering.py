"""Rendering in a thread: shared by concurrent callers, one at a time, not cancelled by one of them."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.unit.serve import readings
from watchslo.serve.document import Document
from watchslo.serve.lane import Lane
from watchslo.serve.rendering import Renderer
from watchslo.snapshot import Snapshot


class Writer:
    """Writes documents once `may` is set; records its threads and snapshots."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.began = asyncio.Event()
        self.written: list[Snapshot] = []
        self.threads: set[int] = set()
        self._loop = asyncio.get_running_loop()

    def __call__(self, snapshot: Snapshot) -> Document:
        self.written.append(snapshot)
        self.threads.add(threading.get_ident())
        self._loop.call_soon_threadsafe(self.began.set)
        assert self.may.wait(10)
        return Document((b"done",), "text/plain")


def new_renderer() -> Renderer[Snapshot]:
    return Renderer(Lane(ThreadPoolExecutor(1)))


async def test_render_writes_in_another_thread() -> None:
    writer = Writer()
    writer.may.set()
    document = await new_renderer().render("client", readings.SNAPSHOT, "form", writer)
    assert document.body == b"done"
    assert threading.get_ident() not in writer.threads


async def test_render_shares_one_rendering_of_a_form() -> None:
    renderer, writer = new_renderer(), Writer()
    both = asyncio.gather(*(renderer.render("client", readings.SNAPSHOT, "form", writer) for _ in range(2)))
    writer.may.set()
    await both
    await renderer.render("client", readings.SNAPSHOT, "form", writer)
    assert len(writer.written) == 1


async def test_render_writes_forms_one_at_a_time() -> None:
    renderer, first, second = new_renderer(), Writer(), Writer()
    both = asyncio.gather(
        renderer.render("client", readings.SNAPSHOT, "first", first),
        renderer.render("client", readings.SNAPSHOT, "second", second),
    )
    await first.began.wait()
    assert not second.written
    first.may.set()
    second.may.set()
    await both
    assert first.threads == second.threads


async def test_render_of_new_snapshot_writes_again() -> None:
    renderer, writer = new_renderer(), Writer()
    writer.may.set()
    await renderer.render("client", readings.SNAPSHOT, "form", writer)
    await renderer.render("client", readings.EMPTY, "form", writer)
    assert writer.written == [readings.SNAPSHOT, readings.EMPTY]


async def test_render_that_waited_writes_the_newest_snapshot() -> None:
    renderer, first, second = new_renderer(), Writer(), Writer()
    early = asyncio.ensure_future(renderer.render("client", readings.SNAPSHOT, "first", first))
    await first.began.wait()
    waiting = asyncio.ensure_future(renderer.render("client", readings.SNAPSHOT, "second", second))
    await asyncio.sleep(0)
    newest = asyncio.ensure_future(renderer.render("client", readings.EMPTY, "second", second))
    await asyncio.sleep(0)
    first.may.set()
    second.may.set()
    await asyncio.gather(early, waiting, newest)
    assert second.written == [readings.EMPTY]


async def test_render_cancelled_by_one_caller_continues_for_others() -> None:
    renderer, writer = new_renderer(), Writer()
    leaves, stays = (
        asyncio.ensure_future(renderer.render("client", readings.SNAPSHOT, "form", writer)) for _ in range(2)
    )
    await writer.began.wait()
    leaves.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaves
    writer.may.set()
    assert (await stays).body == b"done"


async def test_render_failure_is_raised_to_each_caller() -> None:
    def fail(_: Snapshot) -> Document:
        raise ZeroDivisionError

    write: Callable[[Snapshot], Document] = fail
    renderer = new_renderer()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await renderer.render("client", readings.SNAPSHOT, "form", write)
