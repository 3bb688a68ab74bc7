"""What is read from outside has an end."""

import asyncio
import os
from pathlib import Path

import pytest

from watchslo import bounded
from watchslo.bounded import DEEPEST_YAML, MOST_NODES, TooLongError, YamlLimitError, check_yaml, read_file, read_stream


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


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def doubled(times: int) -> bytes:
    """Return a document whose aliases stand for `2 ** times` values."""
    lines = [f"a{number}: &a{number} [*a{number - 1}, *a{number - 1}]\n" for number in range(1, times)]
    return "".join(["a0: &a0 [1, 1]\n", *lines]).encode()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (nested(DEEPEST_YAML + 1), "nested too deeply"),
        (nested(1_000_000), "nested too deeply"),
        (b"{a: " * 1_000_000, "nested too deeply"),
        (b"a: &a [*a]", "nested too deeply"),
        (doubled(20), "its aliases stand for too much"),
        (b"- a\n" * (MOST_NODES + 1), "its aliases stand for too much"),
    ],
)
def test_yaml_beyond_the_limits_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(YamlLimitError, match=f"^{why}$"):
        check_yaml(data)


@pytest.mark.parametrize("data", [b"", b"[", b"a: *b", nested(DEEPEST_YAML), doubled(10), b"a: &a 1\nb: *a\n--- [[]]"])
def test_other_yaml_is_left_to_its_loader(data: bytes) -> None:
    check_yaml(data)
