from typing import Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchslo.watch.lines import DEFAULT_LIMIT_BYTES, LineSplitter, LineTooLong


class CountedBytes(bytes):
    """Counts the bytes that were searched."""

    searched = 0

    def rfind(self, needle: bytes) -> int:  # type: ignore[override]
        CountedBytes.searched += len(self)
        return super().rfind(needle)

    def find(self, *_: object) -> int:
        raise AssertionError


class CountedBuffer(bytearray):
    """Counts the appended bytes, and refuses to be searched."""

    appended = 0

    def __iadd__(self, piece: bytes) -> Self:  # type: ignore[override, misc]
        CountedBuffer.appended += len(piece)
        return super().__iadd__(piece)

    def find(self, *_: object) -> int:
        raise AssertionError

    rfind = index = rindex = find


def test_chunk_of_whole_lines_is_returned_without_a_copy() -> None:
    chunk = b'{"a":1}\n{"b":2}\n'
    assert LineSplitter().feed(chunk) is chunk


def test_unfinished_line_over_the_limit_raises_once_and_is_dropped() -> None:
    splitter = LineSplitter(limit=4)
    splitter.feed(b"ab")
    splitter.feed(b"cd")
    with pytest.raises(LineTooLong, match=r"^a line is longer than 4 bytes$") as caught:
        splitter.feed(b"e")
    assert caught.value.limit == 4
    assert not splitter.partial, "the line is dropped"
    assert splitter.feed(b"f\n") == b"f\n"


def test_limit_applies_after_a_newline_too() -> None:
    splitter = LineSplitter(limit=4)
    assert splitter.feed(b"whatever\nabcd") == b"whatever\n"
    with pytest.raises(LineTooLong):
        splitter.feed(b"\nabcde")


def test_line_of_many_megabytes_is_accepted() -> None:
    assert DEFAULT_LIMIT_BYTES == 16_777_216
    splitter = LineSplitter()
    piece = b"x" * 2**16
    for _ in range(128):
        assert splitter.feed(piece) == b""
    assert splitter.feed(b"\n") == piece * 128 + b"\n"


@given(text=st.text("ab\n", max_size=60).map(str.encode), cuts=st.lists(st.integers(0, 60), max_size=20))
def test_any_chunking_gives_the_same_lines(text: bytes, cuts: list[int]) -> None:
    ends = [*sorted(cuts), len(text)]
    chunks = [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    splitter = LineSplitter()
    blocks = [splitter.feed(chunk) for chunk in chunks]
    assert all(block == b"" or block.endswith(b"\n") for block in blocks)
    assert b"".join(blocks) == text[: text.rfind(b"\n") + 1]
    assert splitter.partial == (text != b"" and not text.endswith(b"\n"))


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_work_is_linear_for_any_chunking(size: int) -> None:
    CountedBytes.searched = CountedBuffer.appended = 0
    line = b"x" * 100_000 + b"\n"
    splitter = LineSplitter()
    splitter._partial = CountedBuffer()
    for start in range(0, len(line), size):
        splitter.feed(CountedBytes(line[start : start + size]))
    assert CountedBytes.searched == len(line)
    assert CountedBuffer.appended <= len(line)
