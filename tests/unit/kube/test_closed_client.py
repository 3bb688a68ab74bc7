"""A client whose apiserver has left: each request returns a value, and none of them blames the apiserver."""

import asyncio

import pytest
from aiohttp import DefaultResolver

from tests.unit.kube.conftest import ASKS, CHUNKED, Known, Server, chunk, connection_to
from watchslo.kube.client import CLOSED, Client
from watchslo.kube.limiter import Limiter, RequestClass
from watchslo.watch.failure import Action, CloseClass

KINDS = ("tick", "cache probe", "list", "list of a shard", "watch", "document", "create", "version", "metrics")
each_kind = pytest.mark.parametrize("kind", KINDS)


class Queue(Limiter):
    """Lets no request pass until `turn` is set; `waits` is set when one waits."""

    def __init__(self) -> None:
        super().__init__(1.0)
        self.waits = asyncio.Event()
        self.turn = asyncio.Event()

    async def acquire(self, of: RequestClass) -> None:  # noqa: ARG002 - the method of a limiter
        self.waits.set()
        await self.turn.wait()


@each_kind
async def test_request_that_waits_while_the_client_closes_is_not_sent(kind: str, server: Server, known: Known) -> None:
    queue = Queue()
    async with Client(connection_to(server.url, known), queue, known.observe) as client:
        waiting = asyncio.ensure_future(ASKS[kind](client))
        await queue.waits.wait()
    queue.turn.set()
    assert await waiting in (CLOSED, [CLOSED])
    assert (server.requests, client.requests) == ([], {})
    assert client.responsiveness.silence(1e9) == 0.0


@each_kind
async def test_request_after_the_client_was_closed_is_not_sent(kind: str, server: Server, client: Client) -> None:
    await client.__aexit__()
    client._pool._renew_at = 0.0  # new connections would serve it
    client.hang_up()
    assert await ASKS[kind](client) in (CLOSED, [CLOSED])
    assert (server.requests, client.requests) == ([], {})


@pytest.mark.parametrize("kind", ["tick", "list", "create", "version", "metrics"])
@pytest.mark.parametrize("begun", [False, True])
async def test_request_in_flight_is_broken_off_by_us(
    kind: str,
    begun: bool,  # noqa: FBT001
    server: Server,
    client: Client,
) -> None:
    sends, over = asyncio.Event(), asyncio.Event()

    async def begin(writer: asyncio.StreamWriter) -> None:
        media = b"text/plain" if kind == "metrics" else b"application/json"
        writer.write((CHUNKED.replace(b"application/json", media) + chunk(b"{")) if begun else b"")
        sends.set()
        await over.wait()

    server.script = [begin]
    waiting = asyncio.ensure_future(ASKS[kind](client))
    await sends.wait()
    await client.__aexit__()
    over.set()
    assert await waiting is CLOSED


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Resolve no name; the event is set when one is to be resolved."""
    asked = asyncio.Event()

    async def resolve(*_: object, **__: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(DefaultResolver, "resolve", resolve)
    return asked


async def test_request_whose_name_is_being_resolved_is_broken_off_by_us(known: Known, asked: asyncio.Event) -> None:
    async with Client(connection_to("http://apiserver.test", known), Limiter(100), known.observe) as client:
        waiting = asyncio.ensure_future(client.version())
        await asked.wait()
    assert await waiting is CLOSED


async def test_cancelled_request_stays_cancelled_if_the_client_is_closed_too(
    known: Known, asked: asyncio.Event
) -> None:
    async with Client(connection_to("http://apiserver.test", known), Limiter(100), known.observe) as client:
        waiting = asyncio.ensure_future(client.version())
        await asked.wait()
        waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_closed_client_is_no_failure_of_the_apiserver() -> None:
    assert (CLOSED.closed, CLOSED.action) == (CloseClass.OWN, Action.STOP)
    assert not CLOSED.concerns_clients
