"""Reads what others wrote, with limits of size, time and depth: files and streams may have no end."""

import errno
import os
import select
import time
from typing import Protocol

import yaml

CHUNK_BYTES = 2**16
LONGEST_CREDENTIAL_BYTES = 8 * 2**20  # of a kubeconfig, key or certificate: a bundle of all public CAs has 0.3 MB
PIPE_SECONDS = 5.0  # for the writer of a pipe that is read as a file
DEEPEST_YAML = 100  # the composer of libyaml overflows the stack of the process at some 10,000
MOST_NODES = 100_000  # of a document with its aliases replaced by what they stand for
_YamlLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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


class YamlLimitError(yaml.YAMLError):
    """A document is nested too deeply, or its aliases stand for too much."""


def check_yaml(data: bytes) -> None:
    """Raise YamlLimitError if the first document of YAML must not be loaded; other errors are left to its loader."""
    size = _DocumentSize()
    try:
        for event in yaml.parse(data, Loader=_YamlLoader):
            if isinstance(event, yaml.DocumentEndEvent):
                return
            size.take(event)
    except YamlLimitError:
        raise
    except yaml.YAMLError:
        return


class _DocumentSize:
    """Counts the nodes of a document, in which each alias is replaced by what it stands for."""

    def __init__(self) -> None:
        self._begun: list[str | None] = []  # the anchors of the nodes that have not ended
        self._sizes = [0]  # of the document, and of each of these nodes so far
        self._known: dict[str | None, int] = {}

    def take(self, event: yaml.Event) -> None:
        match event:
            case yaml.CollectionStartEvent(anchor=anchor):
                self._begun.append(anchor)
                self._sizes.append(1)
                if len(self._begun) > DEEPEST_YAML:
                    raise YamlLimitError("nested too deeply")
            case yaml.CollectionEndEvent():
                self._add(self._begun.pop(), self._sizes.pop())
            case yaml.AliasEvent(anchor=anchor):
                if anchor in self._begun:
                    raise YamlLimitError("nested too deeply")
                self._add(None, self._known.get(anchor, 1))
            case yaml.ScalarEvent(anchor=anchor):
                self._add(anchor, 1)

    def _add(self, anchor: str | None, size: int) -> None:
        self._known[anchor] = size
        self._sizes[-1] += size
        if self._sizes[-1] > MOST_NODES:
            raise YamlLimitError("its aliases stand for too much")
