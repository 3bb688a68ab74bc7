"""What is read from outside has an end."""

import asyncio
import os
from pathlib import Path

import pytest

from watchslo import bounded
from watchslo.bounded import TooLongError, read_file, read_stream


def test_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 2**20)
    assert read_file(path, 2**20) == b"x" * 2**20
    path.write_bytes(b"x" * (2**20 + 1))
    with pytest.raises(TooLongError, match="longer than 1 MiB"):
        read_file(path, 2**20)


def test_device_without_end_is_refused() -> None:
    with pytest.raises(TooLongError):
        read_file("/dev/zero", 2**20)


def test_pipe_is_read_until_its_writer_ends(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, b"token\n")
    os.close(write)
    assert read_file(f"/dev/fd/{read}", 100) == b"token\n"
    os.close(read)
    os.mkfifo(tmp_path / "pipe")
    assert read_file(tmp_path / "pipe", 100) == b""


def test_pipe_that_nothing_writes_to_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "PIPE_SECONDS", 0.0)
    read, write = os.pipe()
    with pytest.raises(TimeoutError, match="is a pipe that nothing writes to"):
        read_file(f"/dev/fd/{read}", 100)
    os.close(read)
    os.close(write)


async def test_stream_is_read_up_to_its_limit() -> None:
    stream = asyncio.StreamReader()
    stream.feed_data(b"x" * 2**20)
    stream.feed_eof()
    assert await read_stream(stream, 2**20) == b"x" * 2**20
    endless = asyncio.StreamReader()
    endless.feed_data(b"x" * (2**20 + 1))
    with pytest.raises(TooLongError):
        await read_stream(endless, 2**20)
