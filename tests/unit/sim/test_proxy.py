"""The delaying proxy, before a server that answers what it is told."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from watchslo.sim.delay import parse_law
from watchslo.sim.proxy import Proxy


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say back every line, until `bye`."""
    async for line in reader:
        if line == b"bye\n":
            break
        writer.write(line)
    writer.close()


@asynccontextmanager
async def before_echo(law: str) -> AsyncIterator[Proxy]:
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    async with server, Proxy(server.sockets[0].getsockname(), parse_law(law), Random(7)) as proxy:
        yield proxy
    await asyncio.sleep(0)


@asynccontextmanager
async def client(proxy: Proxy) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*proxy.address)
    try:
        yield reader, writer
    finally:
        writer.close()


async def test_bytes_come_back_in_order_and_late() -> None:
    async with before_echo("constant 20ms") as proxy, client(proxy) as (reader, writer):
        sent = time.monotonic()
        writer.write(b"one\ntwo\n")
        assert await reader.readline() == b"one\n"
        assert time.monotonic() - sent >= 0.02
        proxy.law = parse_law("none")
        writer.write(b"three\n")
        assert [await reader.readline(), await reader.readline()] == [b"two\n", b"three\n"]
        writer.write(b"bye\n")
        assert await reader.read() == b""
        assert sum(chunk.size for chunk in proxy.chunks) == len(b"one\ntwo\nthree\n")
        assert all(chunk.forwarded >= chunk.received for chunk in proxy.chunks)
        assert proxy.chunks[0].forwarded - proxy.chunks[0].received >= 0.02


async def test_the_end_is_late_too() -> None:
    async with before_echo("constant 30ms") as proxy, client(proxy) as (reader, writer):
        started = time.monotonic()
        writer.write(b"one\nbye\n")
        assert await reader.read() == b"one\n"
        assert time.monotonic() - started >= 0.03


async def test_connections_can_be_held_and_cut() -> None:
    async with before_echo("none") as proxy, client(proxy) as (reader, writer):
        writer.write(b"one\n")
        assert await reader.readline() == b"one\n"
        proxy.hold(held=True)
        writer.write(b"two\n")
        async with client(proxy) as (other_reader, other_writer):
            other_writer.write(b"other\n")
            assert await other_reader.readline() == b"other\n"
        assert [chunk.connection for chunk in proxy.chunks] == [1, 2]
        proxy.hold(held=False)
        assert await reader.readline() == b"two\n"
        proxy.cut()
        assert await reader.read() == b""


async def test_a_server_that_is_away_is_a_connection_that_is_cut() -> None:
    async with Proxy(("127.0.0.1", 1), parse_law("none"), Random(7)) as proxy, client(proxy) as (reader, _):
        assert await reader.read() == b""
