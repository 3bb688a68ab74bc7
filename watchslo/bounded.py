"""Reads what others wrote, with a limit of size and time: files and streams may have no end."""

import errno
import os
import select
import time
from typing import Protocol

CHUNK_BYTES = 2**16
PIPE_SECONDS = 5.0  # for the writer of a pipe that is read as a file


class TooLongError(OSError):
    """A file or a stream is longer than its limit."""

    def __init__(self, longest: int) -> None:
        super().__init__(errno.EFBIG, f"longer than {longest // 2**20} MiB")


def read_file(path: str | os.PathLike[str], longest: int) -> bytes:
    """Return the content of a file, or what a pipe has until its writer ends; raises OSError.

    A pipe without a writer is empty.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return _read(descriptor, longest, time.monotonic() + PIPE_SECONDS)
    finally:
        os.close(descriptor)


def _read(descriptor: int, longest: int, end: float) -> bytes:
    content = bytearray()
    while True:
        try:
            chunk = os.read(descriptor, CHUNK_BYTES)
        except BlockingIOError:
            _await_writer(descriptor, end)
            continue
        content += chunk
        if len(content) > longest:
            raise TooLongError(longest)
        if not chunk:
            return bytes(content)


def _await_writer(descriptor: int, end: float) -> None:
    """Wait until a pipe can be read."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    if not waiting.poll(max(0.0, end - time.monotonic()) * 1000):
        raise TimeoutError(errno.ETIMEDOUT, "is a pipe that nothing writes to")


class _Stream(Protocol):
    async def read(self, n: int) -> bytes: ...


async def read_stream(stream: _Stream, longest: int) -> bytes:
    """Return what a stream brings until its end; raises TooLongError."""
    content = bytearray()
    while chunk := await stream.read(CHUNK_BYTES):
        content += chunk
        if len(content) > longest:
            raise TooLongError(longest)
    return bytes(content)
