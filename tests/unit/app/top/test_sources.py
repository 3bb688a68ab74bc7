import asyncio
import errno
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.support.certs import Authority
from tests.unit.monitor.inside import BUILD
from tests.unit.serve import readings
from watchslo.app.top import sources
from watchslo.app.top.sources import PATH, Credentials, Daemon, Measurement
from watchslo.errors import ConfigError, ConnectError, WatchsloError
from watchslo.kube.access import Connection
from watchslo.kube.access import Credentials as Access
from watchslo.monitor.supervisor import Supervisor
from watchslo.serve.status import encode

STATUS = encode(readings.SNAPSHOT).body


class Answers:
    """A server that answers what it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.status, self.body = 200, STATUS
        self.asked: list[tuple[str, str | None]] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append((request.path, request.headers.get("Authorization")))
        return web.Response(status=self.status, body=self.body, headers={"Location": "/elsewhere"})


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
async def url(answers: Answers) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answers.answer)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


async def test_a_daemon_is_asked_for_its_status(url: str, answers: Answers) -> None:
    async with Daemon(f"{url}/behind/a/proxy/", Credentials()) as daemon:
        view = await daemon.view()
    assert [line.watch for line in view.lines] == sorted(stream.watch for stream in readings.SNAPSHOT.streams)
    assert answers.asked == [(f"/behind/a/proxy{PATH}", None)]


async def test_a_token_is_read_anew_and_kept_where_a_pipe_has_no_more(
    url: str, answers: Answers, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    async with Daemon(url, Credentials(token_file=file)) as daemon:
        await daemon.view()
        file.write_text("second\n")
        await daemon.view()
        file.write_text("")
        await daemon.view()
    assert [header for _, header in answers.asked] == ["Bearer first", "Bearer second", "Bearer second"]


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (401, b"secret", "it does not know who we are; name a file with a valid token as --token-file"),
        (403, b"secret", "this identity may not read there; grant it the verb get on the path /"),
        (404, b"secret", "what answers is no watchslo; check the URL"),
        (302, b"secret", "it answers 302"),
        (503, b"secret", "it answers 503"),
        (200, b"<html>secret", "what answers is no watchslo of a version known here; check the URL"),
    ],
)
async def test_refusals_are_sentences(url: str, answers: Answers, status: int, body: bytes, why: str) -> None:
    answers.status, answers.body = status, body
    async with Daemon(url, Credentials()) as daemon:
        with pytest.raises(ConnectError) as refused:
            await daemon.view()
    assert str(refused.value) == why
    assert len(answers.asked) == 1, "a token follows no redirect"


async def test_it_is_asked_again_after_a_failure(url: str, answers: Answers) -> None:
    async with Daemon(url, Credentials()) as daemon:
        answers.status = 503
        with pytest.raises(ConnectError):
            await daemon.view()
        answers.status = 200
        assert (await daemon.view()).lines


async def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    async with Daemon(f"127.0.0.1:{free}", Credentials()) as daemon:
        with pytest.raises(ConnectError, match=r"^nobody listens there$"):
            await daemon.view()


def test_a_connection_that_fails_otherwise() -> None:
    unreachable = OSError(errno.EHOSTUNREACH, "Connect call failed ('10.0.0.1', 1)")
    assert sources._failure(unreachable) == "the connection fails: no route to host"


async def serves(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], scheme: str = "http"
) -> str:
    """What `Daemon` says of a server that does only this."""

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer(reader, writer)
        writer.close()

    server = await asyncio.start_server(once, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with Daemon(f"{scheme}://127.0.0.1:{port}", Credentials()) as daemon:
            with pytest.raises(ConnectError) as failed:
                await daemon.view()
    return str(failed.value)


async def test_what_speaks_no_http() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"220 mail.example.com ESMTP\r\n")

    assert await serves(talk) == "the connection was cut, or what answers speaks no HTTP"
    assert await serves(talk, "https") == "it speaks no TLS; write http:// if that is meant"


async def test_a_certificate_is_believed_by_its_ca_alone(tmp_path: Path, answers: Answers) -> None:
    authority = Authority(tmp_path / "certs")
    pair = authority.server("watchslo")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.certificate, pair.key)
    app = web.Application()
    app.router.add_get(PATH, answers.answer)
    server = TestServer(app, scheme="https", host="127.0.0.1")
    await server.start_server(ssl=tls)
    async with server:
        url = f"https://127.0.0.1:{server.port}"
        for believed in (Credentials(ca_file=authority.ca), Credentials(insecure=True)):
            async with Daemon(url, believed) as daemon:
                assert (await daemon.view()).lines
        async with Daemon(url, Credentials()) as daemon:
            with pytest.raises(
                ConnectError, match=r"^its certificate is not accepted \(.+\); name its CA with --ca-file"
            ):
                await daemon.view()
    assert len(answers.asked) == 2


async def test_who_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    monkeypatch.setattr(sources, "ANSWER_SECONDS", 0.05)
    assert await serves(wait) == "no answer within 0.05 s"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("127.0.0.1:9477", "http://127.0.0.1:9477"),
        ("localhost", "http://localhost"),
        ("https://watchslo.example.com/", "https://watchslo.example.com"),
        ("[::1]:9477", "http://[::1]:9477"),
    ],
)
async def test_urls(url: str, place: str) -> None:
    assert Daemon(url, Credentials()).place == place


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://x:y", "http://x:99999", "http://[x", ""])
async def test_what_is_no_url(url: str) -> None:
    with pytest.raises(ConfigError, match="is no URL of a daemon; write for example"):
        Daemon(url, Credentials())


@pytest.mark.parametrize("url", ["http://user:secret@x", "http://x?token=secret", "http://x#secret"])
async def test_a_url_holds_no_secrets(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Daemon(url, Credentials())
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("credentials", [Credentials(token_file=Path("none")), Credentials(ca_file=Path("none"))])
async def test_credentials_that_cannot_be_read(credentials: Credentials) -> None:
    with pytest.raises(WatchsloError, match=r"^none: "):
        Daemon("x", credentials)


# A measurement of our own


@pytest.fixture
def supervised(monkeypatch: pytest.MonkeyPatch) -> None:
    """It measures a cluster that cannot be reached."""

    async def load() -> Access:
        raise ConnectError("nobody is there")

    def supervise(config: Any, *_: object) -> Supervisor:
        return Supervisor(config, Connection(load), BUILD)

    monkeypatch.setattr(sources, "supervise", supervise)


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]


@pytest.mark.usefixtures("supervised")
async def test_a_measurement_runs_beside_and_ends() -> None:
    async with Measurement(None, None) as measurement:
        view = await measurement.view()
        assert workers()
    assert view.not_ready[0].startswith("The cluster is being discovered.")
    for worker in workers():
        worker.join(timeout=10.0)
    assert not workers()


async def test_a_measurement_that_cannot_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    def supervise(*_: object) -> Supervisor:
        raise ConnectError("no cluster")

    monkeypatch.setattr(sources, "supervise", supervise)
    with pytest.raises(ConnectError, match="no cluster"):
        async with Measurement(None, None):
            pass
