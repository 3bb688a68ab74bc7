"""The page of an apiserver's own metrics: passed on in pieces, with bounds."""

import pytest

from tests.unit.kube.conftest import CHUNKED, Server, answer, chunk, hang_up, then
from watchslo.kube import client as client_module
from watchslo.kube.client import LONG_METRICS, NO_METRICS, Client
from watchslo.watch.failure import Action, Failure, Reason

TEXT = "text/plain; version=0.0.4; charset=utf-8"
BEGUN = CHUNKED.replace(b"application/json", TEXT.encode())


async def read(client: Client) -> tuple[bytes, Failure | None]:
    taken: list[bytes] = []

    async def take(piece: bytes) -> None:
        taken.append(piece)

    failure = await client.read_metrics(take)
    return b"".join(taken), failure


async def test_page_is_passed_on_in_pieces(server: Server, client: Client) -> None:
    server.script = [BEGUN + chunk(b"a 1\n") + chunk(b"b 2\n") + chunk(b""), answer(b"c 3\n", media=TEXT)]
    assert await read(client) == (b"a 1\nb 2\n", None)
    assert await read(client) == (b"c 3\n", None)
    assert server.requests[0].startswith("GET /metrics HTTP/1.1\r\n")
    assert "Accept: text/plain;version=0.0.4\r\n" in server.requests[0]
    assert server.connections == 1
    assert client.requests == {("metrics_page", "200"): 2}


async def test_missing_right_is_named(server: Server, client: Client) -> None:
    server.script = [answer(b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no"}', "403 Forbidden")]
    _, failure = await read(client)
    assert failure is not None
    assert (failure.reason, failure.action, failure.message) == (Reason.FORBIDDEN, Action.WAIT, NO_METRICS)


async def test_longer_page_than_any_is_given_up(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "LONGEST_METRICS_BYTES", 6)
    server.script = [BEGUN + chunk(b"a 1\nb 2\n") + chunk(b"")]
    _, failure = await read(client)
    assert failure is not None
    assert (failure.reason, failure.message) == (Reason.GARBAGE, LONG_METRICS)


async def test_page_that_is_cut_is_a_failure(server: Server, client: Client) -> None:
    server.script = [then(BEGUN + chunk(b"a 1\n"), hang_up)]
    _, failure = await read(client)
    assert failure is not None
    assert failure.reason is Reason.EARLY_EOF


async def test_page_of_another_type_is_none_of_an_apiserver(server: Server, client: Client) -> None:
    server.script = [answer(b"{}")]
    _, failure = await read(client)
    assert failure is not None
    assert failure.message == f"{server.url} sends application/json instead of text/plain: it is not an apiserver."
