"""The page of a program that is no apiserver: what is sent, and what each failure says."""

import ssl
from pathlib import Path

import pytest

from tests.support.certs import Authority
from tests.unit.kube.conftest import Known, Reply, Server, answer, connection_to, hang_up, take_nothing
from watchslo.kube import page_client
from watchslo.kube.page_client import PageClient
from watchslo.watch.failure import Failure, Reason

PAGE = b"informer_queued_items 1\n"
TEXT = "text/plain"


async def read(url: str) -> tuple[bytes, tuple[float, float] | Failure]:
    pieces: list[bytes] = []

    async def take(piece: bytes) -> None:
        pieces.append(piece)

    async with PageClient(url) as pages:
        times = await pages.read(take)
    return b"".join(pieces), times


async def failure(url: str) -> Failure:
    _, found = await read(url)
    assert isinstance(found, Failure)
    return found


async def test_page_is_passed_on_with_the_times_of_its_request(server: Server) -> None:
    server.script = [answer(PAGE, media=TEXT)]
    body, times = await read(f"{server.url}/metrics")
    assert body == PAGE
    assert not isinstance(times, Failure)
    assert times[0] < times[1]
    assert "authorization" not in server.requests[0].lower()


async def test_token_is_sent_on_request(server: Server, known: Known) -> None:
    server.script = [answer(PAGE, media=TEXT)]
    async with PageClient(f"{server.url}/metrics", connection_to("https://elsewhere.test", known)) as pages:
        await pages.read(take_nothing)
    assert "Authorization: Bearer token-1" in server.requests[0]


@pytest.mark.parametrize(
    ("step", "reason", "remedy"),
    [
        (answer(b"", "401 Unauthorized"), Reason.UNAUTHORIZED, "write authorization: kubernetes"),
        (answer(b"", "403 Forbidden"), Reason.FORBIDDEN, "apply the output of `watchslo rbac`"),
        (answer(b"", "302 Found", "Location: /login"), Reason.UNEXPECTED_STATUS, "check `url`"),
        (answer(b"", "799 Odd"), Reason.UNEXPECTED_STATUS, "check `url`"),
        (hang_up, Reason.EARLY_EOF, "check `url`"),
    ],
)
async def test_failure_names_the_address_and_the_remedy(
    server: Server, step: bytes | Reply, reason: Reason, remedy: str
) -> None:
    server.script = [step]
    found = await failure(f"{server.url}/metrics?secret")
    assert found.reason is reason
    assert remedy in found.message
    assert server.url in found.message
    assert "secret" not in found.message


async def test_program_that_does_not_run_is_refused(server: Server) -> None:
    await server.stop()
    found = await failure(f"{server.url}/metrics")
    assert found.reason is Reason.REFUSED
    assert "NetworkPolicy" in found.message


async def test_page_that_is_too_long_is_broken_off(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_client, "LONGEST_PAGE_BYTES", 10)
    server.script = [answer(PAGE, media=TEXT)]
    assert (await failure(f"{server.url}/metrics")).reason is Reason.GARBAGE


async def test_certificate_is_verified_unless_that_is_not_wanted(authority: Authority) -> None:
    server, pair = Server(), authority.server("program")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)
    await server.start(tls)
    url = f"{server.url}/metrics"
    server.script = [answer(PAGE, media=TEXT)] * 2
    untrusted = await failure(url)
    assert untrusted.reason is Reason.TLS
    assert "`caFile`" in untrusted.message
    for trusting in (PageClient(url, ca_file=str(authority.ca)), PageClient(url, verify=False)):
        async with trusting as pages:
            assert isinstance(await pages.read(take_nothing), tuple)
    await server.stop()


async def test_process_is_asked_at_its_address_by_the_name_of_its_host(authority: Authority) -> None:
    server, pair = Server(), authority.server("named", ("program.test",), ())
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pair.certificate, pair.key)
    await server.start(tls)
    port = server.url.rpartition(":")[2]
    server.script = [answer(PAGE, media=TEXT)]
    url = f"https://program.test:{port}/metrics"
    async with PageClient(url, ca_file=str(authority.ca), address="127.0.0.1") as pages:
        assert isinstance(await pages.read(take_nothing), tuple), "the certificate has the name, not the address"
    assert f"host: program.test:{port}\r\n" in server.requests[0].lower()
    await server.stop()
    async with PageClient(url, ca_file=str(authority.ca), address="127.0.0.1") as pages:
        refused = await pages.read(take_nothing)
    assert isinstance(refused, Failure)
    assert f"https://127.0.0.1:{port} refuses" in refused.message


async def test_ca_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    async with PageClient("https://127.0.0.1:1/metrics", ca_file=str(tmp_path / "ca.crt")) as pages:
        found = await pages.read(take_nothing)
    assert isinstance(found, Failure)
    assert found.reason is Reason.CREDENTIALS
    assert "ca.crt" in found.message
