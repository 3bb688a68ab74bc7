"""The TCP proxy and its link faults, in front of echo servers."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from tests.support.certs import Authority
from tests.support.transcripts import AsyncStep, replay_async, value
from tests.unit.sim.api import CONFIGMAPS, Api
from watchslo.errors import ConfigError
from watchslo.sim.control import SimConfig
from watchslo.sim.delay_law import parse_law
from watchslo.sim.link_faults import LINK_FAULTS, ConnectionSelection
from watchslo.sim.proxy import control
from watchslo.sim.simulation import simulated
from watchslo.sim.tcp_proxy import TcpProxy

GOLDEN = Path(__file__).parents[2] / "golden" / "sim"
TIMEOUT_SECONDS = 30.0
SILENCE_SECONDS = 0.05

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Echo every line until `bye`."""
    with suppress(ConnectionError):
        async for line in reader:
            if line == b"bye\n":
                break
            writer.write(line)
    writer.close()


@asynccontextmanager
async def echo_proxy(law: str = "none") -> AsyncIterator[TcpProxy]:
    echoing: list[asyncio.Future[None]] = []

    def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        echoing.append(asyncio.ensure_future(_echo(reader, writer)))

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, TcpProxy([server.sockets[0].getsockname()], parse_law(law), Random(7)) as proxy:
        yield proxy
    await asyncio.gather(*echoing)  # the server ends its connections


@asynccontextmanager
async def client(proxy: TcpProxy) -> AsyncIterator[Streams]:
    reader, writer = await asyncio.open_connection(*proxy.address)
    try:
        yield reader, writer
    finally:
        writer.close()


async def echoes(streams: Streams, line: bytes = b"hello\n") -> bool:
    reader, writer = streams
    writer.write(line)
    return await asyncio.wait_for(reader.readline(), TIMEOUT_SECONDS) == line


async def is_silent(streams: Streams) -> bool:
    try:
        await asyncio.wait_for(streams[0].readline(), SILENCE_SECONDS)
    except TimeoutError:
        return True
    return False


async def end_of(streams: Streams) -> bytes:
    return await asyncio.wait_for(streams[0].read(), TIMEOUT_SECONDS)


# Delay


async def test_proxy_delays_bytes_and_keeps_their_order() -> None:
    async with echo_proxy("constant 20ms") as proxy, client(proxy) as (reader, writer):
        sent = time.monotonic()
        writer.write(b"one\ntwo\n")
        assert await reader.readline() == b"one\n"
        assert time.monotonic() - sent == pytest.approx(0.02, abs=0.002)
        proxy.law = parse_law("none")
        writer.write(b"three\n")
        assert [await reader.readline(), await reader.readline()] == [b"two\n", b"three\n"]
        writer.write(b"bye\n")
        assert await reader.read() == b""
        assert sum(chunk.size for chunk in proxy.chunks) == len(b"one\ntwo\nthree\n")
        assert all(chunk.forwarded >= chunk.received for chunk in proxy.chunks)
        assert proxy.chunks[0].forwarded - proxy.chunks[0].received == pytest.approx(0.02, abs=0.002)


class Link:
    """A proxy before an echo server, and named clients of it."""

    def __init__(self, proxy: TcpProxy, stack: AsyncExitStack) -> None:
        self._proxy = proxy
        self._stack = stack
        self._began = time.monotonic()
        self._clients: dict[str, Streams] = {}
        self._numbers: dict[str, int] = {}

    async def step(self, text: str) -> str | None:
        match text.split():
            case ["open", *names]:
                for name in names:
                    self._clients[name] = await self._stack.enter_async_context(client(self._proxy))
            case ["close", name]:
                self._clients[name][1].close()
            case ["on", fault, *options]:
                given = dict(option.split("=") for option in options)
                chosen = given.get("connections", "")
                number = self._numbers.get(chosen) or (ConnectionSelection(chosen) if chosen else None)
                self._proxy.switch_on(fault, value(given.get("value", "none").replace("_", " ")), number)
            case ["off", fault]:
                self._proxy.switch_off(fault)
            case ["pause", *seconds]:
                await asyncio.sleep(float(seconds[0]) if seconds else SILENCE_SECONDS)
            case ["clock"]:
                return f"{time.monotonic() - self._began:.2f} s"
            case ["connections"]:
                return str(len(self._proxy.connections))
            case [name, verb, *words]:
                return await self._do(name, verb, "".join(f"{word}\n" for word in words).encode())
        return None

    async def _do(self, name: str, verb: str, lines: bytes) -> str | None:
        reader, writer = streams = self._clients[name]
        if lines:
            writer.write(lines)
        match verb:
            case "sends":
                return None
            case "echoes":
                heard = await asyncio.wait_for(reader.readline(), TIMEOUT_SECONDS)
                self._numbers[name] = self._proxy.chunks[-1].connection if self._proxy.chunks else 0
                return "the same" if heard == lines else repr(heard)
            case "hears":
                return repr(await asyncio.wait_for(reader.readline(), TIMEOUT_SECONDS))
            case "waits":
                return "nothing" if await is_silent(streams) else "something"
        try:
            return f"ends after {await end_of(streams)!r}"
        except ConnectionResetError:
            return "reset"


async def test_links_do_what_their_transcripts_say(golden: Callable[[str, str], None]) -> None:
    async with AsyncExitStack() as stack:

        async def begin(law: str) -> AsyncStep:
            return Link(await stack.enter_async_context(echo_proxy(law)), stack).step

        golden("sim/links.txt", await replay_async((GOLDEN / "links.txt").read_text(), begin))


# Lasting faults


async def test_thin_link_limits_bytes_per_second() -> None:
    async with echo_proxy() as proxy, client(proxy) as (reader, writer):
        proxy.switch_on("thin-link", 20_000)
        started = time.monotonic()
        writer.write(b"x" * 3999 + b"\n")
        await reader.readline()
        assert time.monotonic() - started >= 0.1  # the last portion arrives before its interval ends
        proxy.switch_off("thin-link")
        assert await echoes((reader, writer))


async def test_held_pipe_limits_how_much_it_reads_ahead() -> None:
    async with echo_proxy() as proxy, client(proxy) as (reader, writer):
        assert await echoes((reader, writer))
        proxy.switch_on("hole-to-server")
        line = b"x" * (32 << 20)
        writer.write(line)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(writer.drain(), 0.2)
        writer.transport.abort()


# Faults that act once


async def test_long_line_is_inserted_between_two_chunks() -> None:
    async with echo_proxy() as proxy, client(proxy) as (reader, writer):
        for line in (b"HTTP/1.1 200 OK\r\n", b"\r\n"):
            assert await echoes((reader, writer), line)
        proxy.switch_on("long-line", 0.5)
        assert await is_silent((reader, writer))  # the body after a response head may not be chunked
        writer.write(b"3\r\n{}\n\r\n")
        assert await reader.readexactly(len(b"3\r\n{}\n\r\n")) == b"3\r\n{}\n\r\n"
        size = int(await reader.readline(), 16)
        assert size > 1 << 19
        assert (await reader.readexactly(size)).startswith(b'{"type":"MODIFIED"')
        assert await reader.readline() == b"\r\n"
        assert await echoes((reader, writer), b"\n")


# Servers


async def test_proxy_alternates_servers_and_skips_unreachable_ones() -> None:
    async def say(name: bytes, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(name)
        writer.close()

    async with AsyncExitStack() as stack:
        servers = []
        for name in (b"a", b"b"):
            server = await asyncio.start_server(lambda *streams, name=name: say(name, *streams), "127.0.0.1", 0)
            servers.append(await stack.enter_async_context(server))
        to = [server.sockets[0].getsockname() for server in servers]
        proxy = await stack.enter_async_context(TcpProxy(to, parse_law("none"), Random(7)))
        said = []
        for _ in range(4):
            async with client(proxy) as streams:
                said.append(await end_of(streams))
        assert sorted(said) == [b"a", b"a", b"b", b"b"]
        assert said[0] != said[1]
        servers[0].close()
        await servers[0].wait_closed()
        for _ in range(2):
            async with client(proxy) as streams:
                assert await end_of(streams) == b"b"


async def test_proxy_closes_the_connection_if_no_server_accepts() -> None:
    async with TcpProxy([("127.0.0.1", 1)], parse_law("none"), Random(7)) as proxy, client(proxy) as streams:
        assert await end_of(streams) == b""


async def test_proxy_closes_all_connections_at_its_end() -> None:
    async with AsyncExitStack() as stack:
        async with echo_proxy() as proxy:
            streams = await stack.enter_async_context(client(proxy))
            assert await echoes(streams)
            proxy.switch_on("frozen-link")
            waiting = await stack.enter_async_context(client(proxy))
            assert await is_silent(waiting)
        assert await end_of(streams) == b""
        assert await end_of(waiting) == b""


async def test_proxy_speaks_tls_to_the_server_for_a_plain_client(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    pair = authority.server("server")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)
    trusting = ssl.create_default_context(cafile=authority.ca)
    server = await asyncio.start_server(_echo, "127.0.0.1", 0, ssl=tls)
    to = [server.sockets[0].getsockname()]
    async with (
        server,
        TcpProxy(to, parse_law("none"), Random(7), tls=trusting) as proxy,
        client(proxy) as streams,
    ):
        assert await echoes(streams)


# The table and the control API


def test_every_link_fault_has_a_description_and_a_valid_default() -> None:
    for fault in LINK_FAULTS.values():
        assert fault.words[0].islower()
        assert not fault.words.endswith(".")
        assert fault.checked(None) == fault.checked(fault.usual) == fault.usual


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("gremlins", None, "thin-link"),
        ("thin-link", 0, "from 1 to inf"),
        ("truncated", -1, "from 0 to inf"),
        ("lossy", 1.5, "from 0 to 1"),
    ],
)
async def test_switch_on_refuses_unknown_faults_and_invalid_values(name: str, value: float | None, why: str) -> None:
    async with echo_proxy() as proxy:
        with pytest.raises(ConfigError, match=why):
            proxy.switch_on(name, value)
        with pytest.raises(ConfigError, match="no connection 99 is open"):
            proxy.switch_on("hole-to-client", connections=99)
    with pytest.raises(ConfigError):
        proxy.switch_off("gremlins")


async def test_proxy_control_api_sets_law_and_faults() -> None:
    async with echo_proxy() as proxy, TestClient(TestServer(control(proxy))) as http, client(proxy) as streams:
        assert await echoes(streams)
        assert await (await http.post("/proxy", json={"law": "constant 1ms"})).json() == {"law": "constant 1ms"}
        assert proxy.law.text == "constant 1ms"
        switch = {"name": "truncated", "value": 1, "connections": "all"}
        assert (await (await http.post("/proxy/faults", json=switch)).json())["on"]
        await http.post("/proxy/faults", json={"name": "truncated", "on": False})
        for wrong in ({"name": "gremlins"}, {"law": "none"}, {"name": "thin-link", "value": 0}):
            refused = await http.post("/proxy/faults", json=wrong)
            assert refused.status == 400
            assert (await refused.json())["error"]
        answer = await (await http.get("/proxy/chunks")).json()
        (chunk,) = answer["chunks"]
        assert answer["asked"][str(chunk["connection"])] <= chunk["received"] <= chunk["forwarded"] <= answer["now"]


async def test_fault_edits_an_open_watch_and_records_it() -> None:
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(simulated(SimConfig(), seed=7))
        host, port = url.removeprefix("http://").split(":")
        proxy = await stack.enter_async_context(TcpProxy([(host, int(port))], parse_law("none"), Random(7)))
        http = await stack.enter_async_context(TestClient(TestServer(control(proxy))))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        api = Api("http://{}:{}".format(*proxy.address), session, stack)
        watch = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={await api.newest()}")
        first = await api.configmap("a")
        assert await watch.revision() == first
        await http.post("/proxy/faults", json={"name": "lossy", "value": 1})
        for serial in range(3):
            await api.touch(f"{CONFIGMAPS}/a", str(serial))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while (answer := await (await http.get("/proxy/edits")).json())["seen"] < 3:
                pass
        assert (answer["seen"], answer["edited"]) == (3, {"lossy": 3})
        await http.post("/proxy/faults", json={"name": "lossy", "on": False})
        last = await api.configmap("b")
        assert await watch.revision() == last
        assert (await (await http.get("/proxy/edits")).json())["seen"] == 3, "no fault is on"
