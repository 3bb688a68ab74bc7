"""A rendered answer in small pieces: to join or send 8 MB at once would keep the interpreter from the main thread."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import AnyStr

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

PIECE_SIZE = 2**16  # characters or bytes; joining as many takes less than 0.1 ms


@dataclass(frozen=True, slots=True)
class Document:
    """A rendered answer."""

    pieces: tuple[bytes, ...]
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)


def pieces_of(texts: Iterable[str]) -> Iterator[bytes]:
    """Yield the texts in UTF-8, joined to pieces of `PIECE_SIZE` or a little more."""
    return ("".join(group).encode() for group in grouped(texts))


def grouped(parts: Iterable[AnyStr]) -> Iterator[list[AnyStr]]:
    """Yield the parts in groups, each of which has `PIECE_SIZE` together or a little more."""
    waiting: list[AnyStr] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part)
        if size >= PIECE_SIZE:
            yield waiting
            waiting, size = [], 0
    if size:
        yield waiting


class DocumentResponse(Response):
    """A response that sends a document piece by piece."""

    def __init__(self, document: Document) -> None:
        size = sum(map(len, document.pieces))
        headers = {**document.headers, "Content-Length": str(size)}
        super().__init__(headers=headers, media_type=document.content_type)
        self._pieces = document.pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
