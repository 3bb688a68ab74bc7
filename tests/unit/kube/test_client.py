"""The client's results for each way in which a server can answer or fail."""

import asyncio
import contextlib
import gzip
import socket
import struct
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.kube.conftest import (
    CHUNKED,
    EMPTY,
    EXPIRED,
    NODES,
    PODS,
    Known,
    Reply,
    Server,
    answer,
    chunk,
    connection_to,
    hang_up,
    reset,
    then,
)
from watchslo.errors import ConnectError
from watchslo.kube import connections
from watchslo.kube.call import Page, Selectors, request_class
from watchslo.kube.client import Client
from watchslo.kube.connections import RENEW_REQUESTS, RENEW_SECONDS
from watchslo.kube.credentials import Access, Address, Credentials, CredentialSource, stamps
from watchslo.kube.limiter import Limiter, RequestClass
from watchslo.kube.representation import Representation
from watchslo.kube.watch_response import WatchResponse
from watchslo.model import Reading, Resource
from watchslo.snapshot import TransportReading
from watchslo.watch.failure import ENDED, Action, Failure, Reason
from watchslo.watch.messages import ListedObjects, ListRequest, WatchRequest

EVENT = b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"43"}}}\n'


def target(server: Server) -> str:
    return server.requests[-1].split(" ")[1]


async def tick(client: Client) -> Reading | Failure:
    return await client.read_nothing(PODS, "default", "tick")


async def failed_tick(client: Client) -> Failure:
    failure = await tick(client)
    assert isinstance(failure, Failure)
    return failure


@contextlib.asynccontextmanager
async def opened(client: Client, revision: int = 1, **how: Any) -> AsyncIterator[WatchResponse]:
    """Give a watch of all pods that has been opened."""
    request, table = WatchRequest(revision, timeout=300), Representation.TABLE
    async with client.watch(PODS, None, Selectors(), request, table, **how) as stream:
        assert isinstance(stream, WatchResponse)
        yield stream


async def watched(client: Client, representation: Representation = Representation.TABLE) -> list[bytes | Failure]:
    """Return all chunks of a watch, and the failure that ends it."""
    brought: list[bytes | Failure] = []
    async with client.watch(PODS, None, Selectors(), WatchRequest(41, timeout=300), representation) as stream:
        if isinstance(stream, Failure):
            return [stream]
        while not isinstance(part := await stream.read(), Failure):
            brought.append(part[1])
    return [*brought, part]


async def closed(client: Client) -> None:
    """Wait until unused connections are closed."""
    await asyncio.gather(*client._pool._closing)


async def end_of_watch(client: Client) -> Failure:
    end = (await watched(client))[-1]
    assert isinstance(end, Failure)
    return end


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

    async def test_uses_its_connection_again(self, server: Server, client: Client) -> None:
        server.script = [answer(EMPTY)] * 3
        for _ in range(3):
            assert isinstance(await tick(client), Reading)
        assert server.connections == 1

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

    async def test_accepts_a_missing_date(self, server: Server, client: Client, known: Known) -> None:
        server.script = [answer(EMPTY)]
        assert isinstance(await tick(client), Reading)
        assert known.dates == []


class TestFailures:
    async def test_dropped_request_is_not_repeated(self, server: Server, client: Client) -> None:
        server.script = [answer(EMPTY), hang_up, answer(EMPTY)]
        await tick(client)
        assert (await failed_tick(client)).reason is Reason.EARLY_EOF
        assert client.requests == {("tick", "200"): 1, ("tick", "early_eof"): 1}
        assert len(server.requests) == 2

    async def test_unresolvable_name_is_a_dns_failure(self, known: Known) -> None:
        async with Client(connection_to("http://cluster.invalid", known), Limiter(100), known.observe) as client:
            assert (await failed_tick(client)).reason is Reason.DNS

    async def test_cancellation_is_not_a_failure(self, server: Server, client: Client) -> None:
        server.script = [b""]
        asking = asyncio.create_task(tick(client))
        await server.asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


HALF = Selectors(shard="shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')")
CONFIRMED = b'{"metadata":{"resourceVersion":"42","shardInfo":{"selector":"as requested"}},"items":[]}'


class TestShardSelector:
    """A server may ignore the parameter silently, so each watch and list is preceded by a read that confirms it."""

    async def open(self, client: Client) -> bytes | Failure:
        request = WatchRequest(41, timeout=300)
        async with client.watch(PODS, None, HALF, request, Representation.TABLE) as stream:
            if isinstance(stream, Failure):
                return stream
            part = await stream.read()
            return part if isinstance(part, Failure) else part[1]

    async def test_watch_opens_on_the_connection_that_confirmed_its_selector(
        self, server: Server, client: Client
    ) -> None:
        server.script = [answer(CONFIRMED), CHUNKED + chunk(EVENT)]
        assert await self.open(client) == EVENT
        assert server.connections == 1, "behind a load balancer, another connection may reach another apiserver"
        assert client.requests == {("confirm_selector", "200"): 1, ("watch", "200"): 1}


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
            failure = await failed_tick(client)
        assert failure.message == f"Connection refused by {server.url}; check that the apiserver runs there."
        assert client.responsiveness.refuses

    async def test_clients_share_rejected_credentials(self, server: Server, known: Known) -> None:
        """Credentials that one client was refused with are not used by others, which outlive that client."""
        server.script = [answer(b"", "401 Unauthorized"), answer(EMPTY), answer(EMPTY)]
        connection = connection_to(server.url, known)
        async with Client(connection, Limiter(100), known.observe) as other:
            async with Client(connection, Limiter(100), known.observe, address=Address(server.url)) as client:
                await failed_tick(client)
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
        confirms = [answer(CONFIRMED)] if shard else []
        server.script = [answer(EMPTY), *confirms, CHUNKED + chunk(b""), *confirms, CHUNKED + chunk(b"")]
        await tick(client)
        for _ in range(2):
            request, table = WatchRequest(7, 1), Representation.TABLE
            async with client.watch(PODS, None, Selectors(shard=shard), request, table, kind=kind) as stream:
                assert isinstance(stream, WatchResponse)
                assert await stream.read() == ENDED
        assert server.connections == used

    async def test_short_watch_that_did_not_end_leaves_no_connection(self, server: Server, client: Client) -> None:
        server.script = [CHUNKED + chunk(EVENT), answer(EMPTY)]
        async with opened(client, kind="audit") as stream:
            await stream.read()
        assert isinstance(await tick(client), Reading)
        assert server.connections == 2

    async def test_old_connections_are_closed(self, server: Server, client: Client) -> None:
        server.script = [answer(EMPTY)] * 2
        await tick(client)
        client._pool._renew_at, client._pool._requests = 0.0, RENEW_REQUESTS
        old = client._pool._session
        await tick(client)
        await closed(client)
        assert (old.closed, client._pool._session.closed) == (True, False)
        assert list(client._pool._users) == [client._pool._session]

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
        assert server.connections == 2

    async def test_requests_and_watches_use_separate_connections(self, server: Server, client: Client) -> None:
        """Each watch has its own connection, which is not reused, and takes none from other requests."""
        server.script = [answer(EMPTY), CHUNKED + chunk(b""), answer(EXPIRED, "410 Gone"), answer(EMPTY)]
        await tick(client)
        assert await watched(client) == [ENDED]
        await end_of_watch(client)
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

    async def test_transport_of_closed_watch_is_none(self, client: Client, end_of_answer: asyncio.Event) -> None:
        async with opened(client) as stream:
            pass
        end_of_answer.set()
        assert stream.transport() is None

    async def test_transport_of_aborted_connection_is_none(self, client: Client, end_of_answer: asyncio.Event) -> None:
        """The descriptor may soon belong to another connection."""
        async with opened(client) as stream:
            connection = stream._response.connection
            assert connection is not None
            assert connection.transport is not None
            connection.transport.abort()
            assert stream.transport() is None
        end_of_answer.set()

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

    async def test_transport_is_none_unless_the_system_is_linux(
        self, client: Client, end_of_answer: asyncio.Event, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "platform", "darwin")
        async with opened(client) as stream:
            assert stream.transport() is None
        end_of_answer.set()


class TestCredentials:
    async def test_credentials_are_renewed_after_401(self, server: Server, client: Client, known: Known) -> None:
        server.script = [answer(b"", "401 Unauthorized"), answer(EMPTY)]
        failure = await failed_tick(client)
        assert (failure.reason, failure.action) == (Reason.UNAUTHORIZED, Action.REAUTHENTICATE)
        client._credentials._not_before = 0.0
        assert isinstance(await tick(client), Reading)
        assert known.loads == 2
        assert "Bearer token-2" in server.requests[-1]

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
            failure = await failed_tick(client)
        assert (failure.reason, failure.action) == (Reason.CREDENTIALS, Action.REAUTHENTICATE)
        assert failure.message == "No credentials: token: no such file; put a readable file there."
        assert client.requests == {("tick", "credentials"): 1}


FIRST = ListRequest()


class TestListPage:
    async def list_(
        self,
        client: Client,
        request: ListRequest = FIRST,
        representation: Representation = Representation.TABLE,
        **how: Any,
    ) -> Page:
        page = await client.list_page(PODS, None, Selectors(), request, representation, **how)
        assert isinstance(page, Page)
        return page

    async def test_page_of_a_table_counts_its_rows(self, server: Server, client: Client) -> None:
        body = b'{"kind":"Table","metadata":{"resourceVersion":"7","continue":"abc=="},"rows":[{"cells":[]},{}]}'
        server.script = [answer(body)]
        page = await self.list_(client, ListRequest(limit=2))
        assert (page.revision, page.items, page.size, page.continue_token) == (7, 2, len(body), "abc==")
        assert (page.remaining, page.objects) == (None, None)
        assert page.sent < page.answered
        assert client.requests == {("list", "200"): 1}

    async def test_page_of_an_empty_list_may_be_null(self, server: Server, client: Client) -> None:
        server.script = [answer(b'{"metadata":{"resourceVersion":"7","continue":""},"items":null}')]
        page = await self.list_(client)
        assert (page.revision, page.items, page.continue_token) == (7, 0, None)

    @pytest.mark.parametrize(
        ("metadata", "why"),
        [
            (b"{}", "Lists have no resourceVersion, so no change can be dated."),
            (
                b'{"resourceVersion":"0"}',
                "Lists have the resourceVersion 0, which is no revision, so no change can be dated.",
            ),
            (b'{"resourceVersion":"1234/5678"}', "Revisions are no numbers, so no change can be dated."),
            (
                b'{"resourceVersion":"9999999999999999999"}',
                "The revision is not a number below 2^62, so this resource cannot be measured.",
            ),
        ],
    )
    async def test_list_without_a_revision_says_what_it_has_instead(
        self, server: Server, client: Client, metadata: bytes, why: str
    ) -> None:
        server.script = [answer(b'{"metadata":' + metadata + b',"items":[{},{},{}]}')]
        failure = await client.list_page(PODS, None, Selectors(), FIRST, Representation.TABLE)
        assert isinstance(failure, Failure)
        assert failure.reason is Reason.UNPARSABLE
        assert failure.message == why

    @pytest.mark.parametrize("representation", [Representation.TABLE, Representation.METADATA])
    async def test_page_has_the_remaining_item_count(
        self, server: Server, client: Client, representation: Representation
    ) -> None:
        body = b'{"metadata":{"resourceVersion":"7","continue":"abc==","remainingItemCount":1753},"rows":[{}]}'
        server.script = [answer(body)]
        assert (await self.list_(client, ListRequest(limit=1), representation, with_objects=True)).remaining == 1753

    async def test_compressed_page_has_its_size_as_sent(self, server: Server, client: Client) -> None:
        body = b'{"metadata":{"resourceVersion":"7"},"items":[' + b",".join([b"{}"] * 500) + b"]}"
        sent = gzip.compress(body)
        server.script = [answer(sent, "200 OK", "Content-Encoding: gzip")]
        page = await self.list_(client, ListRequest(), Representation.PLAIN)
        assert (page.items, page.size) == (500, len(sent))
        assert "Accept-Encoding: identity" in server.requests[0].splitlines()

    @pytest.mark.parametrize("representation", [Representation.METADATA, Representation.PLAIN])
    async def test_returns_the_objects(self, server: Server, client: Client, representation: Representation) -> None:
        body = (
            b'{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a","uid":"u-1","resourceVersion":"5"},'
            b'"spec":{"uid":"none"}},{"metadata":{"name":"b","resourceVersion":"x"}},{"metadata":{}}]}'
        )
        server.script = [answer(body), answer(body), answer(EMPTY)]
        page, without, empty = [
            await self.list_(client, FIRST, representation, with_objects=asked) for asked in (True, False, True)
        ]
        assert page.objects == ListedObjects(["u-1", None, None], ["5", "x", None])
        assert page.items == 3
        assert (without.objects, without.items) == (None, 3)
        assert empty.objects == ListedObjects([], [])


class TestWatch:
    async def test_watch_is_counted_under_its_kind(self, server: Server, client: Client) -> None:
        server.script = [then(CHUNKED + chunk(b""), hang_up)]
        async with opened(client, kind="audit"):
            pass
        assert client.requests == {("audit", "200"): 1}

    async def test_clean_end_is_forced(self, server: Server, client: Client) -> None:
        server.script = [CHUNKED + chunk(EVENT) + chunk(b"")]
        assert await watched(client) == [EVENT, ENDED]
        assert client.requests == {("watch", "200"): 1}

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

    async def test_leaving_the_context_closes_the_connection(self, server: Server, client: Client) -> None:
        server.script = [CHUNKED + chunk(EVENT), answer(EMPTY)]
        async with opened(client):
            pass
        await tick(client)
        assert server.connections == 2


async def test_version_is_that_of_the_server(server: Server, client: Client) -> None:
    server.script = [answer(b'{"major":"1","gitVersion":"v1.36.3"}')]
    assert await client.version() == "v1.36.3"
