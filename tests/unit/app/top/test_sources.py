import asyncio
import errno
import re
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.conftest import GOLDEN
from tests.support.certs import Authority
from tests.support.transcripts import replay
from tests.unit.monitor.inside import BUILD
from tests.unit.serve import readings
from watchslo.app import http_endpoint
from watchslo.app.http_endpoint import DaemonCredentials, explain
from watchslo.app.status_client import DETAILS_PATH, STATUS_PATH, DaemonAddress, StatusClient
from watchslo.app.top import sources
from watchslo.app.top.sources import Daemon, Measurement
from watchslo.errors import ConfigError, ConnectError, WatchsloError
from watchslo.kube.credentials import ClusterPlace, Credentials, CredentialSource
from watchslo.monitor.supervisor import Supervisor
from watchslo.serve.detail import details
from watchslo.serve.status import StatusEncoder
from watchslo.timeline.timeline import Timeline

STATUS = StatusEncoder().encode(readings.SNAPSHOT).body


class Answers:
    """A server that gives a set answer and records the requests."""

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


async def test_daemon_view_requests_the_status(url: str, answers: Answers) -> None:
    async with Daemon(f"{url}/behind/a/proxy/", DaemonCredentials()) as daemon:
        view = await daemon.view()
    assert [line.watch for line in view.lines] == sorted(stream.watch for stream in readings.SNAPSHOT.watches)
    assert answers.asked == [(f"/behind/a/proxy{STATUS_PATH}", None)]


async def test_daemon_details_request_the_watch(url: str, answers: Answers) -> None:
    timeline = Timeline()
    timeline.observe(readings.SNAPSHOT)
    answers.body = msgspec.json.encode(details(timeline, "jobs"))
    async with Daemon(url, DaemonCredentials()) as daemon:
        (jobs,) = await daemon.details("jobs@service")
        assert (jobs.key, jobs.condition) == ("jobs@service", "stalled for 33.5 s")
        assert answers.asked == [(DETAILS_PATH, None)]
        answers.status = 404
        assert await daemon.details("things") == ()
        answers.status, answers.body = 200, b"<html>"
        with pytest.raises(ConnectError, match=r"^the answer is not from a known version"):
            await daemon.details("jobs")


async def test_token_is_read_again_and_kept_if_the_file_is_empty(url: str, answers: Answers, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    async with Daemon(url, DaemonCredentials(token_file=file)) as daemon:
        await daemon.view()
        file.write_text("second\n")
        await daemon.view()
        file.write_text("")
        await daemon.view()
    assert [header for _, header in answers.asked] == ["Bearer first", "Bearer second", "Bearer second"]


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (401, b"secret", "it requires a valid token; pass one with --token-file"),
        (403, b"secret", "this identity may not read the status; grant it the verb get on the path /"),
        (404, b"secret", "the server is not a watchslo daemon, or has `server.page: false`; check the URL"),
        (302, b"secret", "it redirects to {url}/elsewhere (302); a proxy may want a login, or the URL has changed"),
        (503, b"secret", "it answers 503"),
        (200, b"<html>secret", "the answer is not from a known version of watchslo; check the URL"),
    ],
)
async def test_error_answers_become_sentences(url: str, answers: Answers, status: int, body: bytes, why: str) -> None:
    answers.status, answers.body = status, body
    async with Daemon(url, DaemonCredentials()) as daemon:
        with pytest.raises(ConnectError) as refused:
            await daemon.view()
    assert str(refused.value) == why.format(url=url.rstrip("/"))
    assert len(answers.asked) == 1, "a token follows no redirect"


async def test_daemon_recovers_after_a_failure(url: str, answers: Answers) -> None:
    async with Daemon(url, DaemonCredentials()) as daemon:
        answers.status = 503
        with pytest.raises(ConnectError):
            await daemon.view()
        answers.status = 200
        assert (await daemon.view()).lines


def test_other_connection_errors_name_their_reason() -> None:
    unreachable = OSError(errno.EHOSTUNREACH, "Connect call failed ('10.0.0.1', 1)")
    assert explain(unreachable) == "the connection fails: no route to host"


async def error_of(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], scheme: str = "http"
) -> str:
    """Return the error of `Daemon` for a server with this behaviour."""

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer(reader, writer)
        writer.close()

    server = await asyncio.start_server(once, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with Daemon(f"{scheme}://127.0.0.1:{port}", DaemonCredentials()) as daemon:
            with pytest.raises(ConnectError) as failed:
                await daemon.view()
    return str(failed.value)


async def test_server_without_http_is_explained() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"220 mail.example.com ESMTP\r\n")

    assert await error_of(talk) == "the connection was cut, or the server does not speak HTTP"
    assert await error_of(talk, "https") == "it does not speak TLS; write http:// instead of https://"


async def test_certificate_needs_its_ca_or_insecure(tmp_path: Path, answers: Answers) -> None:
    authority = Authority(tmp_path / "certs")
    pair = authority.server("watchslo")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.certificate, pair.key)
    app = web.Application()
    app.router.add_get(STATUS_PATH, answers.answer)
    server = TestServer(app, scheme="https", host="127.0.0.1")
    await server.start_server(ssl=tls)
    async with server:
        url = f"https://127.0.0.1:{server.port}"
        for believed in (DaemonCredentials(ca_file=authority.ca), DaemonCredentials(insecure=True)):
            async with Daemon(url, believed) as daemon:
                assert (await daemon.view()).lines
        async with Daemon(url, DaemonCredentials()) as daemon:
            with pytest.raises(
                ConnectError, match=r"^its certificate is not accepted \(.+\); pass its CA with --ca-file"
            ):
                await daemon.view()
    assert len(answers.asked) == 2


async def test_instance_of_a_service_has_the_certificate_and_the_host_of_the_service(
    tmp_path: Path, answers: Answers
) -> None:
    authority = Authority(tmp_path / "certs")
    pair = authority.server("service", ("watchslo.svc",), ("192.0.2.1",))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.certificate, pair.key)
    hosts: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        hosts.append(request.host)
        return web.Response(body=answers.body)

    app = web.Application()
    app.router.add_get(STATUS_PATH, answer)
    server = TestServer(app, scheme="https", host="127.0.0.1")
    await server.start_server(ssl=tls)
    async with server, StatusClient(DaemonCredentials(ca_file=authority.ca)) as client:
        url = f"https://127.0.0.1:{server.port}"
        assert (await client.read(DaemonAddress(url, "watchslo.svc"))).body == STATUS
        for host in (None, "other.svc"):
            with pytest.raises(ConnectError, match=r"^its certificate is not accepted"):
                await client.read(DaemonAddress(url, host))
    assert hosts == ["watchslo.svc"]


async def test_answer_that_is_too_long_is_refused(url: str, answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_endpoint, "LONGEST_BODY_BYTES", 2**20)
    answers.body = bytes(2**20 + 1)
    async with Daemon(url, DaemonCredentials()) as daemon:
        with pytest.raises(ConnectError, match=r"^its answer is longer than 1 MiB; check the URL$"):
            await daemon.view()


async def test_status_has_the_time_of_the_daemon(url: str) -> None:
    async with StatusClient(DaemonCredentials()) as client:
        answer = await client.read(DaemonAddress(url))
    assert answer.sent_wall is not None
    assert abs(answer.sent_wall - time.time()) < 60.0


async def test_missing_answer_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    monkeypatch.setattr(http_endpoint, "ANSWER_SECONDS", 0.05)
    assert await error_of(wait) == "no answer within 0.05 s"


async def test_urls_are_read_as_the_golden_file_says(golden: Callable[[str, str], None]) -> None:
    def place(url: str) -> str:
        try:
            return Daemon("" if url == "nothing" else url, DaemonCredentials()).place
        except ConfigError as error:
            return f"refused: {error}"

    read = replay((GOLDEN / "daemon-urls.txt").read_text(), lambda _: place)
    golden("daemon-urls.txt", read)
    assert not re.search(r"refused: .*secret", read)


@pytest.mark.parametrize(
    "credentials", [DaemonCredentials(token_file=Path("none")), DaemonCredentials(ca_file=Path("none"))]
)
async def test_unreadable_credentials_are_refused(credentials: DaemonCredentials) -> None:
    with pytest.raises(WatchsloError, match=r"^none: "):
        Daemon("x", credentials)


# Local measurement


@pytest.fixture
def supervised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a measurement try a cluster that cannot be reached."""

    async def load() -> Credentials:
        raise ConnectError("no cluster")

    def supervise(config: Any, *_: object) -> Supervisor:
        place = ClusterPlace("prod", "https://prod.example.com:6443")
        return Supervisor(config, CredentialSource(load, place=place), BUILD)

    monkeypatch.setattr(sources, "supervise", supervise)


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]


@pytest.mark.usefixtures("supervised")
async def test_measurement_runs_in_another_thread_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.unit.monitor.cluster.ANSWER_SECONDS", 0.0)
    async with Measurement(None, None) as measurement:
        view = await measurement.view()
        assert workers()
        assert [*await measurement.details("pods")] == [], "nothing was evaluated yet"
    assert measurement.place == "Context prod: https://prod.example.com:6443"
    assert view.not_ready in (("The cluster is being discovered.",), ("no cluster",))
    for worker in workers():
        worker.join()
    assert not workers()


async def test_measurement_raises_error_of_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def supervise(*_: object) -> Supervisor:
        raise ConnectError("no cluster")

    monkeypatch.setattr(sources, "supervise", supervise)
    with pytest.raises(ConnectError, match="no cluster"):
        async with Measurement(None, None):
            pass
