"""A TCP proxy that lets the server's bytes wait, in order, before a client gets them.

It stands before a real apiserver, or between one and its etcd. It cannot see events, so it notes chunks of bytes: when
each came from the server, and when it went on.

    python -m watchslo.sim.proxy --to 127.0.0.1:6443 --delay-to-client "lognormal 20ms 0.5"
"""

import asyncio
import secrets
import time
from collections import deque
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Any, Self

import click
import msgspec
import uvloop
from aiohttp import web

from watchslo.errors import ConfigError, WatchsloError
from watchslo.sim import process
from watchslo.sim.delay import Law, parse_law
from watchslo.sim.link import Link

_READ_AT_ONCE = 64 << 10
_REMEMBERED = 200_000


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes of one connection that came and went together (monotonic seconds)."""

    connection: int
    size: int
    received: float
    forwarded: float


class Proxy:
    """Forwards connections, from `async with` on until its end. Whoever owns it may change `law` at any time."""

    def __init__(self, to: tuple[str, int], law: Law, random: Random, host: str = "127.0.0.1", port: int = 0) -> None:
        self.law = law
        self.address = (host, port)
        self.chunks: deque[Chunk] = deque(maxlen=_REMEMBERED)
        self._to = to
        self._random = random
        self._connections: dict[int, _Connection] = {}
        self._last = 0

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            OSError: for an address that cannot be listened on.
        """
        self._server = await asyncio.start_server(self._accept, *self.address)
        self.address = self._server.sockets[0].getsockname()[:2]
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """Cut all connections."""
        for connection in tuple(self._connections.values()):
            connection.abort()

    def hold(self, *, held: bool) -> None:
        """Let nothing more reach the clients of the connections there are, or let it reach them again."""
        for connection in tuple(self._connections.values()):
            connection.link.set_hold("held", held=held)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._last += 1
        number = self._last
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection(*self._to)
        except OSError:
            writer.transport.abort()
            return
        connection = _Connection(number, self, writer, upstream_writer)
        self._connections[number] = connection
        try:
            await connection.run(reader, upstream_reader)
        finally:
            del self._connections[number]

    def link(self, connection: "_Connection") -> "Link[tuple[float, bytes]]":
        return Link(lambda: self.law, self._random, connection.forward)


class _Connection:
    """One client's connection and the one to the server behind it."""

    def __init__(self, number: int, proxy: Proxy, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.number = number
        self.link = proxy.link(self)
        self._chunks = proxy.chunks
        self._client = client
        self._server = server
        self._over = asyncio.Event()

    async def run(self, client: asyncio.StreamReader, server: asyncio.StreamReader) -> None:
        """Forward both ways until either side ends."""
        tasks = [asyncio.create_task(self._to_server(client)), asyncio.create_task(self._to_client(server))]
        try:
            await self._over.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.abort()

    def forward(self, items: list[tuple[float, bytes]]) -> None:
        """Give the client what its time has come for; no bytes are the end."""
        for received, data in items:
            now = time.monotonic()
            if not data:
                self._client.close()
                self._over.set()
                return
            self._client.write(data)
            self._chunks.append(Chunk(self.number, len(data), received, now))

    def abort(self) -> None:
        self.link.close()
        self._server.transport.abort()
        if not self._client.is_closing():
            self._client.transport.abort()
        self._over.set()

    async def _to_server(self, reader: asyncio.StreamReader) -> None:
        try:
            while data := await reader.read(_READ_AT_ONCE):
                self._server.write(data)
                await self._server.drain()
        except OSError:
            pass
        self._over.set()

    async def _to_client(self, reader: asyncio.StreamReader) -> None:
        try:
            while data := await reader.read(_READ_AT_ONCE):
                self.link.push((time.monotonic(), data))
                await self._client.drain()
        except OSError:
            self._over.set()
        self.link.push((time.monotonic(), b""))


class Turn(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What to change of a running proxy; what is left out stays as it is."""

    law: str = ""
    held: bool | None = None
    cut: bool = False


def _control(proxy: Proxy) -> web.Application:
    async def turn(request: web.Request) -> web.Response:
        try:
            body = msgspec.json.decode(await request.read(), type=Turn)
            proxy.law = parse_law(body.law) if body.law else proxy.law
        except (ConfigError, msgspec.MsgspecError) as problem:
            return _json({"error": str(problem)}, code=400)
        if body.held is not None:
            proxy.hold(held=body.held)
        if body.cut:
            proxy.cut()
        return _json({"law": proxy.law.text})

    async def chunks(request: web.Request) -> web.Response:
        since = float(request.query.get("since", 0.0))
        return _json({"now": time.monotonic(), "chunks": [chunk for chunk in proxy.chunks if chunk.forwarded > since]})

    application = web.Application()
    application.add_routes([web.post("/proxy", turn), web.get("/proxy/chunks", chunks)])
    return application


def _json(document: Any, code: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(document), status=code, content_type="application/json")


@click.command()
@click.option("--to", required=True, help="HOST:PORT of the server.")
@click.option("--delay-to-client", default="none", show_default=True, help="Law of delay, e.g. `normal 500ms 100ms`.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=0, show_default=True, help="Port to listen on; the kernel chooses with 0.")
@click.option("--seed", type=int, help="Seed of the law; a fresh one if not given.")
def main(to: str, delay_to_client: str, host: str, port: int, seed: int | None) -> None:
    """Forward TCP connections, and delay what the server says.

    Until SIGTERM, or until the parent process ends. It prints one line of JSON when it listens:
    {"listen": "HOST:PORT", "control": "http://...", "seed": ...}.
    """
    chosen = secrets.randbits(32) if seed is None else seed
    try:
        proxy = Proxy(_address(to), parse_law(delay_to_client), Random(chosen), host, port)  # noqa: S311 - no secret
        uvloop.run(_run(proxy, chosen))
    except (WatchsloError, OSError) as problem:
        raise click.ClickException(str(problem)) from None


async def _run(proxy: Proxy, seed: int) -> None:
    async with proxy:
        runner = await process.listen(_control(proxy), "127.0.0.1", 0)
        host, port = proxy.address
        control = f"http://127.0.0.1:{runner.addresses[0][1]}/proxy"
        process.announce(listen=f"{host}:{port}", control=control, seed=seed)
        await process.stopped()
        await runner.cleanup()


def _address(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdigit():
        raise ConfigError(f"{text!r} is no address. Write HOST:PORT.")
    return host, int(port)


if __name__ == "__main__":
    main()
