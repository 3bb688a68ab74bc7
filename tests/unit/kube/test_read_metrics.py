"""The page of an apiserver's own metrics: passed on in pieces, with bounds."""

from tests.unit.kube.conftest import CHUNKED, Server, answer, chunk
from watchslo.kube.client import Client
from watchslo.watch.failure import Failure

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
