"""The client's results for each way in which a server can answer or fail."""

import asyncio
import gzip
import socket
import struct
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.kube.conftest import (
    CHUNKED,
    CONFIRMED,
    EMPTY,
    EVENT,
    EXPIRED,
    NODES,
    PODS,
    Known,
    Reply,
    Server,
    answer,
    chunk,
    connection_to,
    failed,
    hang_up,
    list_page,
    opened,
    reset,
    then,
    tick,
    watched,
)
from watchslo.errors import ConnectError
from watchslo.kube import connections
from watchslo.kube.call import Page, Selectors, request_class
from watchslo.kube.client import Client
from watchslo.kube.connections import RENEW_REQUESTS, RENEW_SECONDS
from watchslo.kube.credentials import Access, Address, Credentials, CredentialSource, stamps
from watchslo.kube.limiter import Limiter, RequestClass
from watchslo.kube.representation import Representation
from watchslo.model import Reading, Resource
from watchslo.snapshot import TransportReading
from watchslo.watch.failure import ENDED, Action, Failure, Reason


async def closed(client: Client) -> None:
    """Wait until unused connections are closed."""
    await asyncio.gather(*client._pool._closing)


class TestReadNothing:
    @pytest.mark.parametrize(("resource", "kind"), [(PODS, "tick"), (NODES, "probe"), (PODS, "probe_cache")])
    async def test_reads_a_revision(self, server: Server, client: Client, resource: Resource, kind: str) -> None:
        server.script = [answer(EMPTY)]
        before = time.monotonic()
        from_cache = kind == "probe_cache"
        reading = await (
            client.read_cache(resource, "default") if from_cache else client.read_nothing(resource, "default", kind)
        )
        assert isinstance(reading, Reading)
        assert (reading.resource, reading.revision) == (resource.key, 42)
        assert before <= reading.sent < reading.answered <= time.monotonic()
        assert client.requests == {(kind, "200"): 1}

    async def test_reading_names_the_apiserver(self, server: Server, known: Known) -> None:
        server.script = [answer(EMPTY)] * 3
        async with Client(connection_to(server.url, known), Limiter(100), known.observe) as client:
            reading = await tick(client)
        async with Client(connection_to(server.url, known), Limiter(100), known.observe, name="10.0.0.7:443") as client:
            named, cache = await tick(client), await client.read_cache(PODS, "default")
        assert isinstance(reading, Reading)
        assert reading.source == ("service", "pods")
        assert isinstance(named, Reading)
        assert isinstance(cache, Reading)
        assert named.source == cache.source == ("10.0.0.7:443", "pods")

    async def test_observes_the_date(self, server: Server, client: Client, known: Known) -> None:
        server.script = [answer(EMPTY, "200 OK", "Date: Sat, 21 Nov 2026 12:16:29 GMT")]
        before = time.monotonic()
        await tick(client)
        ((date, sent, answered),) = known.dates
        assert date == 1795263389.0
        assert before <= sent <= answered <= time.monotonic()

    async def test_observes_the_date_of_failures_too(self, server: Server, client: Client, known: Known) -> None:
        server.script = [answer(b"", "500 No", "Date: Sat, 21 Nov 2026 12:16:29 GMT")]
        await tick(client)
        assert len(known.dates) == 1


class TestFailures:
    async def test_dropped_request_is_not_repeated(self, server: Server, client: Client) -> None:
        server.script = [answer(EMPTY), hang_up, answer(EMPTY)]
        await tick(client)
        assert (await failed(tick(client))).reason is Reason.EARLY_EOF
        assert client.requests == {("tick", "200"): 1, ("tick", "early_eof"): 1}
        assert len(server.requests) == 2

    async def test_unresolvable_name_is_a_dns_failure(self, known: Known) -> None:
        async with Client(connection_to("http://cluster.invalid", known), Limiter(100), known.observe) as client:
            assert (await failed(tick(client))).reason is Reason.DNS

    async def test_cancellation_is_not_a_failure(self, server: Server, client: Client) -> None:
        server.script = [b""]
        asking = asyncio.create_task(tick(client))
        await server.asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("tick", RequestClass.TICK),
        ("watch", RequestClass.OTHER),
        ("nudge", RequestClass.AUDIT),
        ("token_review", RequestClass.AUDIT),
        ("headroom", RequestClass.PROBE),
        ("detect_cache", RequestClass.PROBE),
    ],
)
def test_class_of_a_request_follows_from_its_kind(kind: str, expected: RequestClass) -> None:
    assert request_class(kind) is expected
    assert request_class(kind, resumes=True) is RequestClass.RESUME


class TestAddress:
    """The client of one of several apiservers, with shared credentials."""

    async def test_request_goes_to_the_own_address(self, server: Server, known: Known) -> None:
        server.script = [answer(EMPTY), CHUNKED + chunk(b"")]
        connection = connection_to("http://cluster.invalid", known)
        async with Client(connection, Limiter(100), known.observe, address=Address(server.url)) as client:
            assert isinstance(await tick(client), Reading)
            assert await watched(client) == [ENDED]
        assert all("Bearer token-1" in request for request in server.requests)

    async def test_failures_name_the_own_address(self, server: Server, known: Known) -> None:
        connection = connection_to("http://cluster.invalid", known)
        async with Client(connection, Limiter(100), known.observe, address=Address(server.url)) as client:
            await server.stop()
            failure = await failed(tick(client))
        assert failure.message == f"Connection refused by {server.url}; check that the apiserver runs there."
        assert client.responsiveness.refuses

    async def test_clients_share_rejected_credentials(self, server: Server, known: Known) -> None:
        """Credentials that one client was refused with are not used by others, which outlive that client."""
        server.script = [answer(b"", "401 Unauthorized"), answer(EMPTY), answer(EMPTY)]
        connection = connection_to(server.url, known)
        async with Client(connection, Limiter(100), known.observe) as other:
            async with Client(connection, Limiter(100), known.observe, address=Address(server.url)) as client:
                await failed(tick(client))
            connection._not_before = 0.0
            assert isinstance(await tick(other), Reading)
            assert "Bearer token-2" in server.requests[-1]
            assert isinstance(await tick(other), Reading)


class TestConnections:
    async def test_are_renewed_from_time_to_time(
        self, server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server.script = [answer(EMPTY)] * 4
        now = time.monotonic()
        for later in (0.0, 0.5, 1.1, 1.6):
            at = now + later * RENEW_SECONDS
            monkeypatch.setattr(connections, "time", SimpleNamespace(monotonic=lambda at=at: at))
            client._pool._requests = max(client._pool._requests, RENEW_REQUESTS)
            assert isinstance(await tick(client), Reading)
        assert server.connections == 2

    async def test_are_not_renewed_after_a_few_requests(
        self, server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connections, "RENEW_REQUESTS", 3)
        server.script = [answer(EMPTY)] * 4
        client._pool._renew_at = 0.0
        for _ in range(3):
            await tick(client)
        assert server.connections == 1
        await tick(client)
        assert server.connections == 2

    @pytest.mark.parametrize(
        ("kind", "shard", "used"),
        [("audit", None, 1), ("headroom", None, 1), ("watch", None, 3), ("audit", "shard-1", 3)],
    )
    async def test_short_watches_share_connections_unless_a_shard_is_confirmed_there(
        self, server: Server, client: Client, kind: str, shard: str | None, used: int
    ) -> None:
        """A shard is confirmed on the connection of its watch: another one may reach another apiserver."""
        confirms = [answer(CONFIRMED)] if shard else []
        events = CHUNKED + chunk(EVENT) + chunk(b"")
        server.script = [answer(EMPTY), *confirms, events, *confirms, events]
        await tick(client)
        for _ in range(2):
            assert await watched(client, selectors=Selectors(shard=shard), kind=kind) == [EVENT, ENDED]
        assert server.connections == used
        assert client.requests[kind, "200"] == 2

    async def test_short_watch_that_did_not_end_leaves_no_connection(self, server: Server, client: Client) -> None:
        server.script = [CHUNKED + chunk(EVENT), answer(EMPTY)]
        async with opened(client, kind="audit") as stream:
            await stream.read()
        assert isinstance(await tick(client), Reading)
        assert server.connections == 2

    async def test_hang_up_closes_idle_connections(self, server: Server, client: Client) -> None:
        server.script = [answer(EMPTY)] * 2
        await tick(client)
        kept = client._pool._session
        client.hang_up()
        await closed(client)
        assert kept.closed
        assert isinstance(await tick(client), Reading)
        assert server.connections == 2

    async def test_connection_in_use_is_closed_after_its_answer(self, server: Server, client: Client) -> None:
        """A half-read answer on an old connection is read to its end before the connection is closed."""
        slowly = asyncio.Event()

        async def half(writer: asyncio.StreamWriter) -> None:
            body = answer(EMPTY)
            writer.write(body[:-5])
            await slowly.wait()
            writer.write(body[-5:])

        server.script = [half, answer(EMPTY), answer(EMPTY)]
        slow = asyncio.create_task(tick(client))
        await server.asked.wait()
        client._pool._renew_at, client._pool._requests = 0.0, RENEW_REQUESTS
        old = client._pool._session
        for _ in range(2):
            assert isinstance(await tick(client), Reading)
        before = old.closed
        slowly.set()
        assert isinstance(await slow, Reading)
        await closed(client)
        assert (before, old.closed) == (False, True)
        assert list(client._pool._users) == [client._pool._session]
        assert server.connections == 2

    async def test_requests_and_watches_use_separate_connections(self, server: Server, client: Client) -> None:
        """Each watch has its own connection, which is not reused, and takes none from other requests."""
        server.script = [answer(EMPTY), CHUNKED + chunk(b""), answer(EXPIRED, "410 Gone"), answer(EMPTY)]
        await tick(client)
        assert await watched(client) == [ENDED]
        await watched(client)
        await tick(client)
        assert server.connections == 3


class TestTransport:
    """The kernel's figures of a connection on Linux."""

    @pytest.fixture
    def end_of_answer(self, server: Server) -> asyncio.Event:
        end = asyncio.Event()

        async def write(writer: asyncio.StreamWriter) -> None:
            writer.write(CHUNKED + chunk(EVENT))
            await end.wait()
            writer.write(chunk(b""))

        server.script = [write]
        return end

    @pytest.mark.real_clock
    async def test_transport_of_open_watch_is_read_at_each_call(
        self, client: Client, end_of_answer: asyncio.Event
    ) -> None:
        async with opened(client) as stream:
            await stream.read()
            at_once = stream.transport()
            await asyncio.sleep(0.05)
            later = stream.transport()
            end_of_answer.set()
            assert await stream.read() == ENDED
            assert stream.transport() is None
        assert at_once is not None
        assert later is not None
        assert 0.0 < at_once.round_trip == later.round_trip
        assert at_once.retransmits == later.retransmits == 0
        assert 0.0 <= at_once.silent < later.silent
        assert later.silent >= 0.04

    @pytest.mark.parametrize("end", ["closed", "aborted", "not on Linux"])
    async def test_transport_without_a_connection_on_linux_is_none(
        self, client: Client, end_of_answer: asyncio.Event, monkeypatch: pytest.MonkeyPatch, end: str
    ) -> None:
        """The descriptor of an aborted connection may soon belong to another one."""
        async with opened(client) as stream:
            connection = stream._response.connection
            assert connection is not None
            assert connection.transport is not None
            if end == "aborted":
                connection.transport.abort()
            elif end == "not on Linux":
                monkeypatch.setattr(sys, "platform", "darwin")
            assert (stream.transport() is None) == (end != "closed")
        end_of_answer.set()
        assert stream.transport() is None

    @pytest.mark.parametrize(("data_ago", "acknowledged_ago"), [(1500, 250), (250, 1500)])
    async def test_transport_is_read_from_the_fields_of_tcp_info(self, data_ago: int, acknowledged_ago: int) -> None:
        fields = list(range(1000, 1024))  # struct tcp_info after its first eight bytes
        fields[11:13] = data_ago, acknowledged_ago
        fields[15], fields[23] = 2500, 3

        connected = SimpleNamespace(getsockopt=lambda *_: struct.pack("=8x24I", *fields))
        reading = connections.transport_reading(connected)  # type: ignore[arg-type]
        assert reading == TransportReading(0.0025, 3, 0.25)

    @pytest.mark.parametrize("info", [b"", b"\0" * 60])
    async def test_transport_is_none_if_tcp_info_is_shorter(self, info: bytes) -> None:
        sandboxed = SimpleNamespace(getsockopt=lambda *_: info)
        assert connections.transport_reading(sandboxed) is None  # type: ignore[arg-type]

    async def test_transport_of_closed_socket_is_none(self) -> None:
        with socket.socket() as connected:
            pass
        assert connections.transport_reading(connected) is None


class TestCredentials:
    async def test_renewal_ends_with_the_connection(self, server: Server, known: Known, tmp_path: Path) -> None:
        token, renewing = tmp_path / "token", asyncio.Event()

        async def load() -> Credentials:
            if token.exists():
                renewing.set()
                await asyncio.Event().wait()
            return Credentials(Access(server.url), stamps([str(token)]))

        server.script = [answer(EMPTY)] * 2
        connection = CredentialSource(load)
        async with Client(connection, Limiter(100), known.observe) as client:
            await tick(client)
            token.touch()
            assert isinstance(await tick(client), Reading)
            await renewing.wait()
        await connection.close()

    async def test_missing_credentials_are_a_failure(self, known: Known) -> None:
        async def fail() -> None:
            raise ConnectError("token: no such file; put a readable file there")

        async with Client(CredentialSource(fail), Limiter(100), known.observe) as client:  # type: ignore[arg-type]
            failure = await failed(tick(client))
        assert (failure.reason, failure.action) == (Reason.CREDENTIALS, Action.REAUTHENTICATE)
        assert failure.message == "No credentials: token: no such file; put a readable file there."
        assert client.requests == {("tick", "credentials"): 1}


class TestListPage:
    async def test_page_of_an_empty_list_may_be_null(self, server: Server, client: Client) -> None:
        server.script = [answer(b'{"metadata":{"resourceVersion":"7","continue":""},"items":null}')]
        page = await list_page(client)
        assert isinstance(page, Page)
        assert (page.revision, page.items, page.continue_token) == (7, 0, None)

    async def test_compressed_page_has_its_size_as_sent(self, server: Server, client: Client) -> None:
        body = b'{"metadata":{"resourceVersion":"7"},"items":[' + b",".join([b"{}"] * 500) + b"]}"
        sent = gzip.compress(body)
        server.script = [answer(sent, "200 OK", "Content-Encoding: gzip")]
        page = await list_page(client, Representation.PLAIN)
        assert isinstance(page, Page)
        assert (page.items, page.size) == (500, len(sent))
        assert page.sent < page.answered
        assert "Accept-Encoding: identity" in server.requests[0].splitlines()
        assert client.requests == {("list", "200"): 1}


class TestWatch:
    async def test_each_chunk_has_its_time(self, server: Server, client: Client) -> None:
        later = asyncio.Event()

        async def two_chunks(writer: asyncio.StreamWriter) -> None:
            writer.write(CHUNKED + chunk(EVENT))
            await later.wait()
            writer.write(chunk(EVENT) + chunk(b""))

        server.script = [two_chunks]
        async with opened(client) as stream:
            before = time.monotonic()
            first = await stream.read()
            between = time.monotonic()
            later.set()
            second = await stream.read()
            assert await stream.read() == ENDED
        assert isinstance(first, tuple)
        assert isinstance(second, tuple)
        assert before <= first[0] <= between <= second[0]
        assert first[1] == second[1] == EVENT

    async def test_reset(self, server: Server, client: Client) -> None:
        reading = asyncio.Event()

        async def reset_later(writer: asyncio.StreamWriter) -> None:
            await reading.wait()
            await reset(writer)

        server.script = [then(CHUNKED + chunk(EVENT), reset_later)]
        async with opened(client) as stream:
            await stream.read()
            reading.set()
            end = await stream.read()
        assert isinstance(end, Failure)
        assert end.reason is Reason.RESET
        assert end.message == f"The connection to {server.url} was reset."

    @pytest.mark.parametrize(
        ("reply", "brought", "reasons"),
        [
            (then(CHUNKED + chunk(EVENT) + chunk(EVENT)[:-20], hang_up), None, {Reason.EARLY_EOF}),
            (then(CHUNKED + chunk(EVENT), hang_up), [EVENT], {Reason.EARLY_EOF}),
            (then(CHUNKED + b"zz\r\n{}\r\n", hang_up), [], {Reason.GARBAGE, Reason.EARLY_EOF}),
        ],
        ids=["cut within a chunk", "cut between chunks", "no chunks"],
    )
    async def test_end_other_than_a_clean_one(
        self, server: Server, client: Client, reply: bytes | Reply, brought: list[bytes] | None, reasons: set[Reason]
    ) -> None:
        server.script = [reply]
        *chunks, end = await watched(client)
        assert chunks == (chunks if brought is None else brought)
        assert isinstance(end, Failure)
        assert end.reason in reasons


async def test_page_of_metrics_is_passed_on_in_pieces(server: Server, client: Client) -> None:
    taken: list[bytes] = []

    async def take(piece: bytes) -> None:
        taken.append(piece)

    begun = CHUNKED.replace(b"application/json", b"text/plain")
    server.script = [begun + chunk(b"a 1\n") + chunk(b"b 2\n") + chunk(b""), answer(b"c 3\n", media="text/plain")]
    assert await client.read_metrics(take) is None
    assert await client.read_metrics(take) is None
    assert b"".join(taken) == b"a 1\nb 2\nc 3\n"
    assert server.connections == 1
    assert client.requests == {("metrics_page", "200"): 2}
