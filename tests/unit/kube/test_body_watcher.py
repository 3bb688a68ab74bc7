"""The body of a watch, passed on in the callback that reads it: all of it, wherever the reads divide it."""

import asyncio
import socket
import ssl
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import aiohttp
import pytest
from aiohttp.client_proto import ResponseHandler
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.kube.conftest import CHUNKED, chunk
from watchslo.event_loop import MOST_READ_BYTES, TimedSelector
from watchslo.kube.watch_response import _BodyWatcher, content_of_chunk
from watchslo.watch.failure import ENDED, Reason


class Transport(asyncio.Transport):
    """A transport whose reads the test makes."""

    def is_closing(self) -> bool:
        return False

    def set_protocol(self, _: asyncio.BaseProtocol) -> None:
        """Do nothing: the test makes the reads."""

    def pause_reading(self) -> None:
        """Do nothing."""

    resume_reading = close = pause_reading


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection as aiohttp has it."""

    protocol: ResponseHandler
    transport: asyncio.Transport


class Answer:
    """An answer whose head aiohttp has read; `taken` is what is passed on, and `decoded` counts aiohttp's reads."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.decoded = 0
        self.inner: Any = ResponseHandler(asyncio.get_running_loop())

    async def begin(self, before: bytes, *, others: bytes = b"") -> None:
        self.inner.connection_made(Transport())
        self.inner.set_response_params(read_bufsize=2**15)
        self.inner.data_received(CHUNKED + before)
        _, content = await self.inner.read()
        self.watcher = _BodyWatcher(content, "https://there", lambda _, data: self.taken.append(data))
        if others:
            self.watcher._inbox.put(lambda _, data: self.taken.append(data), others)
        self.watcher.begin(None)
        inner: Any = self
        self.watcher._inner = inner
        self.content: aiohttp.StreamReader = content

    def data_received(self, data: bytes) -> None:
        self.decoded += 1
        self.inner.data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.inner.connection_lost(error)


async def answer(*reads: bytes, before: bytes = b"") -> Answer:
    made = Answer()
    await made.begin(before)
    for data in reads:
        made.watcher.data_received(data)
    made.watcher._inbox.empty()
    return made


CONTENTS = st.lists(st.text("{1c\r\n", min_size=1, max_size=30).map(str.encode), max_size=8)


@given(contents=CONTENTS, cuts=st.lists(st.integers(0, 300)))
def test_all_of_a_body_is_passed_on_wherever_reads_divide_it(contents: list[bytes], cuts: list[int]) -> None:
    body = b"".join([*map(chunk, contents), chunk(b"")])
    ends = [0]
    for content in contents:
        ends.append(ends[-1] + len(chunk(content)))
    places = sorted({0, len(body), *(cut for cut in cuts if cut < len(body)), *ends[::2]})
    first, *reads = [body[start:end] for start, end in pairwise(places)]

    async def work() -> None:
        made = await answer(*reads, before=first)
        assert b"".join(made.taken) == b"".join(contents)
        assert made.watcher.ended.result() is ENDED

    asyncio.run(work())


async def test_chunks_that_arrive_alone_do_not_pass_through_aiohttp() -> None:
    events = [b'{"number":%d}\n' % number for number in range(5)]
    made = await answer(*map(chunk, events))
    assert made.taken == events
    assert made.decoded == 1, "the first one proves that aiohttp expects a chunk"


async def test_aiohttp_decodes_what_follows_a_divided_chunk() -> None:
    event = chunk(b'{"number":1}\n')
    made = await answer(event, event, event[:5], event[5:], event, event)
    assert len(made.taken) == 6
    assert made.decoded == 4


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\r\n",
        b"3\r\n{1}\r",
        b"3\r\n{1}\r\n0\r\n\r\n",
        b"4\r\n{1}\r\n",
        b"3\r\n{1}\n\n",
        b"+3\r\n{1}\r\n",
        b"3\r\n1{}\r\n",
    ],
)
def test_other_data_is_not_one_chunk(data: bytes) -> None:
    assert content_of_chunk(data) == b""


async def test_what_others_received_before_comes_first() -> None:
    made = Answer()
    await made.begin(chunk(b"{}"), others=b"of another watch")
    assert made.taken == [b"of another watch", b"{}"]


async def test_catches_up_before_the_end() -> None:
    made = await answer(chunk(b"{}"))
    made.watcher.data_received(chunk(b"{2}"))
    assert made.taken == [b"{}"]
    made.watcher.connection_lost(None)
    assert made.taken == [b"{}", b"{2}"]


async def test_large_read_of_asyncio_may_have_left_data_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[int] = []
    monkeypatch.setattr(TimedSelector, "note_full_read", lambda _, number, __: noted.append(number))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        made = await answer()
        made.watcher.begin(Connection(made.inner, Transport({"socket": ours})))  # type: ignore[arg-type]
        made.watcher.data_received(chunk(bytes(MOST_READ_BYTES // 2)))
        assert not noted
        made.watcher.data_received(chunk(bytes(MOST_READ_BYTES)))
        assert noted == [ours.fileno()]


async def test_end_within_a_chunk_is_early() -> None:
    made = await answer(chunk(b"{}"), b"9\r\n{")
    made.watcher.connection_lost(None)
    assert made.watcher.ended.result().reason is Reason.EARLY_EOF


async def test_end_by_data_that_cannot_be_decrypted() -> None:
    made = await answer(chunk(b"{}"))

    def fail(_: bytes) -> bytes:
        raise ssl.SSLError(1, "[SSL] record layer failure")

    made.watcher._decrypt = fail
    made.watcher.data_received(b"garbage")
    made.watcher.catch_up()
    assert made.watcher.ended.result().reason is Reason.TLS
    assert made.taken == [b"{}"]


@pytest.mark.parametrize(("size", "count"), [(20, 10_000), (100_000, 5)])
async def test_all_of_a_large_read_is_passed_on_at_once(size: int, count: int) -> None:
    """aiohttp stops its parser when much is decoded, and continues it while that is read."""
    content = b'"%s"' % (b"x" * size)
    made = await answer(chunk(content) * count)
    assert b"".join(made.taken) == content * count


async def test_error_of_a_closed_answer_does_not_keep_the_answer() -> None:
    """aiohttp raises the same object for all answers that were closed."""
    closed = aiohttp.ClientConnectionError("closed")
    made = await answer()
    made.content.set_exception(closed)
    made.watcher.data_received(chunk(b"{}"))
    made.watcher.catch_up()
    assert made.watcher.ended.result() is not ENDED
    assert closed.__traceback__ is None


async def test_nothing_is_passed_on_after_an_error_of_the_taker() -> None:
    made = await answer(chunk(b"{}"), chunk(b"{}"))

    def fail(*_: object) -> None:
        raise OSError("no network error")

    made.watcher._take = fail
    made.watcher.data_received(chunk(b"{}"))
    made.watcher._inbox.empty()
    made.watcher._take = lambda *_: pytest.fail("passed on")
    made.watcher.data_received(chunk(b"{}"))
    made.watcher.connection_lost(None)  # empties the inbox
    with pytest.raises(OSError, match="no network error"):
        await made.watcher.ended
