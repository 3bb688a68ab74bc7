"""The client with a TLS server, and behind a proxy."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.certs import Authority
from tests.unit.kube.conftest import (
    CHUNKED,
    EMPTY,
    Known,
    Server,
    answer,
    failed,
    opened,
    renewed,
    tick,
    watched,
)
from watchslo.asyncio_overrides import OverridingEventLoop
from watchslo.kube.client import Client
from watchslo.kube.connections import READ_AHEAD_TLS_BYTES
from watchslo.kube.credentials import Access, Address, Credentials, CredentialSource, TlsMaker, stamps, tls_context
from watchslo.kube.limiter import Limiter
from watchslo.kube.proxy_rule import ProxyRule, environment_rule
from watchslo.model import Reading
from watchslo.watch.failure import Failure, Reason

SOON = 60.0
NOTHING = answer(EMPTY)


@pytest.fixture(scope="module")
def server_tls(authority: Authority) -> ssl.SSLContext:
    pair = authority.server("apiserver", ("kubernetes", "localhost"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.ca))
    context.load_cert_chain(pair.certificate, pair.key)
    return context


@pytest.fixture
async def secure(server_tls: ssl.SSLContext) -> AsyncIterator[Server]:
    server = Server()
    await server.start(server_tls)
    yield server
    await server.stop()


def client_of(access: Access, address: Address | None = None) -> Client:
    async def load() -> Credentials:
        return Credentials(access, {})

    return Client(CredentialSource(load), Limiter(100), Known().observe, address=address)


async def asked(access: Access) -> Reading | Failure:
    async with client_of(access) as client:
        return await tick(client)


@pytest.fixture
def tls(authority: Authority) -> ssl.SSLContext:
    """A context that trusts the authority of the server."""
    return tls_context(str(authority.ca))


async def test_watch_over_tls_reads_little_ahead_and_has_a_transport_reading(
    secure: Server, tls: ssl.SSLContext
) -> None:
    secure.script = [CHUNKED]
    async with client_of(Access(secure.url, tls=tls)) as client, opened(client) as stream:
        reading = stream.transport()
        transport: Any = stream._content._protocol.transport
        if not isinstance(asyncio.get_running_loop(), OverridingEventLoop):  # that has no buffer of its own
            assert transport.get_read_buffer_limits() == (READ_AHEAD_TLS_BYTES // 4, READ_AHEAD_TLS_BYTES)
    assert reading is not None
    assert reading.round_trip > 0.0


async def test_refused_watch_does_not_wait_for_close_notify(server_tls: ssl.SSLContext, tls: ssl.SSLContext) -> None:
    """A connection that waits for a stuck peer after its client is closed would outlive the event loop as well."""
    over = asyncio.Event()
    connected: list[asyncio.StreamWriter] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(writer)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        spoken = server_tls.wrap_bio(incoming, outgoing, server_side=True)

        async def do(step: Callable[[], object]) -> None:
            while True:
                try:
                    step()
                except ssl.SSLWantReadError:
                    writer.write(outgoing.read())
                    incoming.write(await reader.read(2**16))
                else:
                    return writer.write(outgoing.read())

        await do(spoken.do_handshake)
        await do(spoken.read)
        await do(lambda: spoken.write(answer(b"", "422 Unprocessable Entity")))
        await reader.read()  # until the connection ends; close_notify is not understood
        over.set()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
        async with client_of(Access(url, tls=tls)) as client:
            (refused,) = await watched(client)
            assert isinstance(refused, Failure)
            assert refused.status == 422
            try:
                await asyncio.wait_for(over.wait(), SOON)
            finally:
                connected[0].transport.abort()


async def test_unknown_authority_is_refused(secure: Server) -> None:
    failure = await failed(asked(Access(secure.url, tls=tls_context(None))))
    assert failure.reason is Reason.TLS
    assert failure.message.startswith(f"The certificate of {secure.url} is not accepted (")
    assert failure.message.endswith("; name the CA of the cluster as certificate-authority.")


async def test_verification_can_be_skipped(secure: Server) -> None:
    secure.script = [NOTHING]
    assert isinstance(await asked(Access(secure.url, tls=tls_context(None, verify=False))), Reading)


@pytest.mark.parametrize(
    ("name", "own_name", "accepted"),
    [
        ("kubernetes", None, True),
        ("elsewhere", None, False),
        ("cluster.invalid", "kubernetes", True),
        ("cluster.invalid", "elsewhere", False),
        ("cluster.invalid", "", True),
    ],
    ids=["configured", "not in the certificate", "own", "own, not in the certificate", "own address without a name"],
)
async def test_server_name_is_that_of_the_own_address_or_of_the_credentials(
    secure: Server, tls: ssl.SSLContext, name: str, own_name: str | None, *, accepted: bool
) -> None:
    secure.script = [NOTHING]
    url = secure.url if own_name is None else "https://cluster.invalid"
    address = None if own_name is None else Address(secure.url, own_name or None)
    async with client_of(Access(url, tls=tls, server_name=name), address) as client:
        answered = await tick(client)
    assert isinstance(answered, Reading) is accepted
    if isinstance(answered, Failure):
        assert answered.reason is Reason.TLS
        assert answered.message.endswith("; set tls-server-name to a name in the certificate.")


async def answer_in_plain_text(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent garbage.\n")
    writer.close()


async def read_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close an accepted connection, as an apiserver that shuts down; its certificate has nothing to do with it."""
    await reader.read(1000)
    writer.close()


@pytest.mark.parametrize(
    ("serve", "reason", "said"),
    [
        (answer_in_plain_text, Reason.TLS, "; check that it serves HTTPS and accepts the client certificate."),
        (read_and_close, Reason.RESET, " was reset."),
    ],
)
async def test_end_of_a_handshake(serve: Any, reason: Reason, said: str, tls: ssl.SSLContext) -> None:
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        failure = await failed(asked(Access(url, tls=tls)))
    assert failure.reason is reason
    assert failure.message.endswith(said)


class TestRotation:
    """Files change on disk while a client is in use."""

    @pytest.fixture
    def folder(self, tmp_path: Path, authority: Authority) -> Path:
        (tmp_path / "ca.crt").write_bytes(authority.ca.read_bytes())
        return tmp_path

    def client(self, server: Server, folder: Path, names: Sequence[str]) -> Client:
        """Return a client whose TLS context is made of these files of a folder."""
        maker, paths = TlsMaker(), [str(folder / name) for name in names]

        async def load() -> Credentials:
            files = stamps(paths)
            return Credentials(Access(server.url, tls=maker.make(*paths)), files)

        return Client(CredentialSource(load), Limiter(10_000), Known().observe)

    async def test_client_certificate(
        self, secure: Server, server_tls: ssl.SSLContext, authority: Authority, folder: Path
    ) -> None:
        def write(user: str) -> None:
            pair = authority.client(user)
            (folder / "c.crt").write_bytes(pair.certificate.read_bytes())
            (folder / "c.key").write_bytes(pair.key.read_bytes())

        async def send_user(writer: asyncio.StreamWriter) -> None:
            users.append(dict(pair[0] for pair in writer.get_extra_info("peercert")["subject"])["commonName"])
            writer.write(NOTHING)

        users: list[str] = []
        secure.script = [send_user] * 4
        write("before")
        server_tls.verify_mode = ssl.CERT_REQUIRED
        try:
            async with self.client(secure, folder, ("ca.crt", "c.crt", "c.key")) as client:
                for _ in range(2):
                    await client.version()
                write("after")
                await renewed(client._credentials)
                for _ in range(2):
                    await client.version()
        finally:
            server_tls.verify_mode = ssl.CERT_NONE
        assert users == ["before", "before", "after", "after"]
        assert secure.connections == 2

    async def test_authority(self, secure: Server, folder: Path, tmp_path: Path) -> None:
        """A connection that was verified with the old CA is not reused with the new one."""
        other = Authority(tmp_path / "other")
        secure.script = [NOTHING] * 2
        async with self.client(secure, folder, ("ca.crt",)) as client:
            assert isinstance(await tick(client), Reading)
            trusted = (folder / "ca.crt").read_bytes()
            (folder / "ca.crt").write_bytes(other.ca.read_bytes())
            await renewed(client._credentials)
            failure = await tick(client)
            assert isinstance(failure, Failure)
            assert failure.reason is Reason.TLS
            (folder / "ca.crt").write_bytes(trusted + other.ca.read_bytes())
            await renewed(client._credentials)
            assert isinstance(await tick(client), Reading)

    async def test_equal_files_keep_the_connection(self, secure: Server, folder: Path) -> None:
        secure.script = [NOTHING] * 2
        async with self.client(secure, folder, ("ca.crt",)) as client:
            await tick(client)
            (folder / "ca.crt").write_bytes((folder / "ca.crt").read_bytes())
            await renewed(client._credentials)
            await tick(client)
        assert secure.connections == 1


class TestProxy:
    async def test_each_apiserver_is_asked_as_its_own_address_needs(self, server: Server) -> None:
        """NO_PROXY names one of two apiservers, but not the service, whose credentials they share."""
        member = Server()
        await member.start()
        exempt = member.url.replace("127.0.0.1", "0.0.0.0")
        rule = environment_rule({"HTTP_PROXY": server.url, "NO_PROXY": exempt.removeprefix("http://")})
        access = Access("http://service.test", proxy=rule)
        server.script, member.script = [NOTHING] * 2, [NOTHING]
        for address in (None, Address("http://member.test:6443"), Address(exempt)):
            async with client_of(access, address) as client:
                assert isinstance(await tick(client), Reading)
        assert [request.split()[1].partition("/api/")[0] for request in server.requests] == [
            "http://service.test",
            "http://member.test:6443",
        ]
        assert member.requests[0].startswith("GET /api/")
        await member.stop()

    async def test_proxy_that_is_not_supported_is_a_failure_of_our_own(self) -> None:
        access = Access("http://service.test", proxy=environment_rule({"HTTP_PROXY": "socks5://p"}))
        failure = await failed(asked(access))
        assert failure.reason is Reason.CREDENTIALS
        assert "HTTP_PROXY: SOCKS proxies (socks5://) are not supported" in failure.message

    async def test_proxy_that_refuses_is_unreachable(self, server: Server) -> None:
        server.script = [answer(b"", "407 Proxy Authentication Required")]
        access = Access("https://apiserver.invalid:443", tls=tls_context(None), proxy=ProxyRule(server.url))
        failure = await failed(asked(access))
        assert server.requests[0].startswith("CONNECT apiserver.invalid:443")
        assert failure.reason is Reason.UNREACHABLE
        assert failure.message == (
            "The proxy for https://apiserver.invalid:443 answers 407; check the proxy's configuration."
        )

    async def test_missing_proxy_is_unreachable(self, server: Server) -> None:
        await server.stop()
        failure = await failed(asked(Access("http://apiserver.invalid", proxy=ProxyRule(server.url))))
        assert failure.reason is Reason.UNREACHABLE
        assert failure.message == (
            "The proxy for http://apiserver.invalid cannot be reached; check the proxy and its address."
        )
