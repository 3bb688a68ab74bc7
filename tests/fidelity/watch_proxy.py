"""A proxy before a real apiserver that delays the events of watches by a law, and forwards the rest immediately.

    python -m tests.fidelity.watch_proxy '{"to": "https://127.0.0.1:6443", "etcd": "http://127.0.0.1:2379", …}'

The watch's label selector selects the law. When the proxy ends, the file `notes` holds when each event was forwarded,
and when etcd reported each revision. Clients speak plain HTTP to it.
"""

import asyncio
import contextlib
import re
import ssl
import sys
import time
from pathlib import Path
from random import Random
from urllib.parse import parse_qs, urlsplit

import msgspec
import uvloop

from tests.fidelity.etcd_watch import follow_etcd
from watchslo.sim import process
from watchslo.sim.delay_law import DelayLaw, parse_law
from watchslo.sim.delayed_channel import DelayedChannel

READ_AT_ONCE = 1 << 18
LEAST_WATCH_SECONDS = 300  # the timeout of a watch; audits ask for less
REVISION = re.compile(rb'"resourceVersion":"(\d+)"')
BOOKMARK = b'{"type":"BOOKMARK"'
END = b"0\r\n\r\n"


class Settings(msgspec.Struct, frozen=True):
    """The apiserver, its CA, its etcd, and the law for each label selector ("" for none); others are only forwarded."""

    to: str
    ca: str
    etcd: str
    laws: dict[str, str]
    seed: int
    notes: str


class Log:
    """Records revisions, when they were reported or forwarded (monotonic seconds), and the connection."""

    def __init__(self) -> None:
        self._revisions: list[int] = []
        self._at: list[float] = []
        self._connections: list[int] = []

    def add(self, revision: int, at: float, connection: int = 0) -> None:
        self._revisions.append(revision)
        self._at.append(at)
        self._connections.append(connection)

    def columns(self) -> dict[str, list[int] | list[float]]:
        return {"revision": self._revisions, "at": self._at, "connection": self._connections}


class Chunks:
    """Decodes a chunked body into whole lines."""

    def __init__(self) -> None:
        self._framed = bytearray()
        self._content = bytearray()
        self.ended = False

    def feed(self, data: bytes) -> list[bytes]:
        self._framed += data
        while (head := self._framed.find(b"\r\n")) >= 0:
            size = int(self._framed[:head].partition(b";")[0], 16)
            end = head + 2 + size
            if len(self._framed) < end + 2:
                break
            self._content += self._framed[head + 2 : end]
            del self._framed[: end + 2]
            self.ended = self.ended or size == 0
        whole, newline, rest = self._content.rpartition(b"\n")
        self._content = rest
        return [bytes(line) + b"\n" for line in (whole + newline).split(b"\n")[:-1]]


class Watch:
    """The answer to one watch: forwards its head immediately, and each line after its delay."""

    def __init__(self, number: int, law: DelayLaw, random: Random, client: asyncio.StreamWriter, log: Log) -> None:
        self._number = number
        self._client = client
        self._log = log
        self._head = bytearray()
        self._chunks: Chunks | None = None
        self._plain = False
        self.is_over = False  # its end was forwarded: the client may send another request on this connection
        self._link: DelayedChannel[bytes] = DelayedChannel(lambda: law, random, self._forward)

    def feed(self, data: bytes) -> None:
        if self._plain:
            self._client.write(data)
        elif self._chunks:
            self._take(self._chunks.feed(data))
        else:
            self._begin(data)

    def close(self) -> None:
        self._link.close()

    def _begin(self, data: bytes) -> None:
        self._head += data
        head, end, body = bytes(self._head).partition(b"\r\n\r\n")
        if not end:
            return
        if b"transfer-encoding: chunked" not in head.lower():  # a refusal
            self._plain = True
            self._client.write(bytes(self._head))
            return
        self._client.write(head + end)
        self._chunks = Chunks()
        self._take(self._chunks.feed(body))

    def _take(self, lines: list[bytes]) -> None:
        assert self._chunks
        for line in lines:
            self._link.push(line)
        if self._chunks.ended:
            self._link.push(b"")

    def _forward(self, lines: list[bytes]) -> None:
        content = b"".join(lines)
        now = time.monotonic()
        self._client.write(b"%x\r\n%b\r\n" % (len(content), content) if content else b"")
        if not lines[-1]:
            self._client.write(END)
            self.is_over = True
        for line in lines:
            if not line.startswith(BOOKMARK) and (found := REVISION.search(line)):
                self._log.add(int(found[1]), now, self._number)


class Proxy:
    """Forwards connections; each client connection gets one connection to the apiserver."""

    def __init__(self, settings: Settings) -> None:
        self.log = Log()
        self.selectors: dict[int, str] = {}  # of the watches, by their numbers
        self._opened = 0
        self._to = urlsplit(settings.to)
        self._tls = ssl.create_default_context(cafile=settings.ca)
        self._laws = {selector: parse_law(law) for selector, law in settings.laws.items()}
        self._random = Random(settings.seed)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(
            self._to.hostname, self._to.port, ssl=self._tls, limit=READ_AT_ONCE
        )
        watches: list[Watch] = []
        answers = asyncio.create_task(_answer(server_reader, writer, watches))
        try:
            while data := await reader.read(READ_AT_ONCE):
                if b"watch=1" in data.partition(b"\r\n")[0]:
                    watches += self._watches(data, writer)
                server_writer.write(data)
        except OSError:
            pass
        finally:
            answers.cancel()
            await asyncio.gather(answers, return_exceptions=True)
            for watch in watches:
                watch.close()
            server_writer.transport.abort()
            writer.transport.abort()

    def _watches(self, request: bytes, client: asyncio.StreamWriter) -> list[Watch]:
        """Return the new watch, or none if there is no law for it."""
        target = request.split(b" ", 2)[1].decode()
        query = parse_qs(urlsplit(target).query)
        selector = query.get("labelSelector", [""])[0]
        if selector not in self._laws or "fieldSelector" in query:  # watches of nothing look for caches
            return []
        self._opened += 1
        number = self._opened
        if int(query["timeoutSeconds"][0]) >= LEAST_WATCH_SECONDS:  # else it is of an audit
            self.selectors[number] = selector
        return [Watch(number, self._laws[selector], self._random, client, self.log)]


async def _answer(server: asyncio.StreamReader, client: asyncio.StreamWriter, watches: list[Watch]) -> None:
    """Forward the server's answers; `watches` gets a watch when the client requests one.

    A connection whose watch has ended takes other requests again: clients keep it.
    """
    with contextlib.suppress(OSError):
        while data := await server.read(READ_AT_ONCE):
            if watches and not watches[-1].is_over:
                watches[-1].feed(data)
            else:
                client.write(data)
        client.close()


async def main(settings: Settings) -> bytes:
    """Forward until a signal stops the process; return the notes."""
    proxy, committed = Proxy(settings), Log()
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0, limit=READ_AT_ONCE)
    witness = asyncio.create_task(follow_etcd(settings.etcd, committed.add))
    process.announce(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    await process.stopped()
    witness.cancel()
    notes = {"sent": proxy.log.columns(), "selectors": proxy.selectors, "committed": committed.columns()}
    return msgspec.json.encode(notes)


if __name__ == "__main__":
    parsed = msgspec.json.decode(sys.argv[1], type=Settings)
    Path(parsed.notes).write_bytes(uvloop.run(main(parsed)))
