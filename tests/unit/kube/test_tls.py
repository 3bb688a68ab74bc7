"""The client with a TLS server, and behind a proxy."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.certs import Authority
from tests.unit.kube.conftest import CHUNKED, Known, Server, answer, renewed
from watchslo.asyncio_overrides import OverridingEventLoop
from watchslo.kube.call import Selectors
from watchslo.kube.client import Client
from watchslo.kube.connections import READ_AHEAD_TLS_BYTES
from watchslo.kube.credentials import Access, Address, Credentials, CredentialSource, TlsMaker, stamps, tls_context
from watchslo.kube.limiter import Limiter
from watchslo.kube.proxy_rule import ProxyRule, environment_rule
from watchslo.kube.representation import Representation
from watchslo.kube.watch_response import WatchResponse
from watchslo.model import Reading, Resource
from watchslo.watch.failure import Failure, Reason
from watchslo.watch.messages import WatchRequest

PODS = Resource("", "v1", "pods", namespaced=True)
SOON = 60.0
EMPTY = answer(b'{"metadata":{"resourceVersion":"42"}}')


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


async def tick(client: Client) -> Reading | Failure:
    return await client.read_nothing(PODS, "default", "tick")


def client_of(access: Access, address: Address | None = None) -> Client:
    async def load() -> Credentials:
        return Credentials(access, {})

    return Client(CredentialSource(load), Limiter(100), Known().observe, address=address)


async def asked(access: Access) -> Reading | Failure:
    async with client_of(access) as client:
        return await tick(client)


async def refused(access: Access) -> Failure:
    failure = await asked(access)
    assert isinstance(failure, Failure)
    return failure


async def test_watch_reads_little_ahead(secure: Server, authority: Authority) -> None:
    secure.script = [CHUNKED]
    async with client_of(Access(secure.url, tls=tls_context(str(authority.ca)))) as client:
        request = WatchRequest(1, timeout=300)
        async with client.watch(PODS, None, Selectors(), request, Representation.TABLE) as stream:
            assert isinstance(stream, WatchResponse)
            transport: Any = stream._content._protocol.transport
            if isinstance(asyncio.get_running_loop(), OverridingEventLoop):
                return  # it has no buffer of its own
            assert transport.get_read_buffer_limits() == (READ_AHEAD_TLS_BYTES // 4, READ_AHEAD_TLS_BYTES)


async def test_refused_watch_does_not_wait_for_close_notify(server_tls: ssl.SSLContext, authority: Authority) -> None:
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
        async with client_of(Access(url, tls=tls_context(str(authority.ca)))) as client:
            request = WatchRequest(1, timeout=300)
            async with client.watch(PODS, None, Selectors(), request, Representation.TABLE) as refused:
                assert isinstance(refused, Failure)
                assert refused.status == 422
            try:
                await asyncio.wait_for(over.wait(), SOON)
            finally:
                connected[0].transport.abort()


async def test_unknown_authority_is_refused(secure: Server) -> None:
    failure = await refused(Access(secure.url, tls=tls_context(None)))
    assert failure.reason is Reason.TLS
    assert failure.message.startswith(f"The certificate of {secure.url} is not accepted (")
    assert failure.message.endswith("; name the CA of the cluster as certificate-authority.")


async def test_verification_can_be_skipped(secure: Server) -> None:
    secure.script = [EMPTY]
    assert isinstance(await asked(Access(secure.url, tls=tls_context(None, verify=False))), Reading)


async def test_certificate_for_another_name_is_refused(secure: Server, authority: Authority) -> None:
    failure = await refused(Access(secure.url, tls=tls_context(str(authority.ca)), server_name="elsewhere"))
    assert failure.reason is Reason.TLS
    assert failure.message.endswith("; set tls-server-name to a name in the certificate.")


async def test_configured_server_name_is_accepted(secure: Server, authority: Authority) -> None:
    secure.script = [EMPTY]
    access = Access(secure.url, tls=tls_context(str(authority.ca)), server_name="kubernetes")
    assert isinstance(await asked(access), Reading)


@pytest.mark.parametrize(("name", "accepted"), [("kubernetes", True), ("elsewhere", False), (None, True)])
async def test_own_address_uses_its_own_server_name(
    secure: Server, authority: Authority, name: str | None, *, accepted: bool
) -> None:
    """The address of an apiserver has its own server name, which replaces that of the credentials."""
    secure.script = [EMPTY]
    access = Access("https://cluster.invalid", tls=tls_context(str(authority.ca)), server_name="cluster.invalid")
    async with client_of(access, Address(secure.url, name)) as client:
        answered = await tick(client)
    assert isinstance(answered, Reading) is accepted
    if not accepted:
        assert isinstance(answered, Failure)
        assert answered.reason is Reason.TLS


async def test_watch_over_tls_has_a_transport_reading(secure: Server, authority: Authority) -> None:
    secure.script = [CHUNKED]
    async with client_of(Access(secure.url, tls=tls_context(str(authority.ca)))) as client:
        request = WatchRequest(1, timeout=300)
        async with client.watch(PODS, None, Selectors(), request, Representation.TABLE) as stream:
            assert isinstance(stream, WatchResponse)
            reading = stream.transport()
    assert reading is not None
    assert reading.round_trip > 0.0


async def test_client_certificate_is_sent(secure: Server, authority: Authority, server_tls: ssl.SSLContext) -> None:
    secure.script = [EMPTY]
    pair = authority.client("watcher")
    server_tls.verify_mode = ssl.CERT_REQUIRED
    try:
        tls = tls_context(str(authority.ca), str(pair.certificate), str(pair.key))
        assert isinstance(await asked(Access(secure.url, tls=tls)), Reading)
        failure = await refused(Access(secure.url, tls=tls_context(str(authority.ca))))
    finally:
        server_tls.verify_mode = ssl.CERT_NONE
    assert failure.reason in (Reason.TLS, Reason.RESET, Reason.EARLY_EOF)


async def test_https_to_a_plain_server_is_a_tls_failure(authority: Authority) -> None:
    async def answer_at_once(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent garbage.\n")
        writer.close()

    async with await asyncio.start_server(answer_at_once, "127.0.0.1", 0) as plain:
        url = f"https://127.0.0.1:{plain.sockets[0].getsockname()[1]}"
        failure = await refused(Access(url, tls=tls_context(str(authority.ca))))
    assert failure.reason is Reason.TLS
    assert failure.message.endswith("; check that it serves HTTPS and accepts the client certificate.")


async def test_connection_closed_within_the_handshake_is_a_reset(authority: Authority) -> None:
    """An apiserver that shuts down accepts connections and closes them; its certificate has nothing to do with it."""

    async def read_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.close()

    async with await asyncio.start_server(read_and_close, "127.0.0.1", 0) as closing:
        url = f"https://127.0.0.1:{closing.sockets[0].getsockname()[1]}"
        failure = await refused(Access(url, tls=tls_context(str(authority.ca))))
    assert failure.reason is Reason.RESET
    assert failure.message == f"The connection to {url} was reset."


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

    async def rotated(self, client: Client) -> None:
        await renewed(client._credentials)

    async def test_client_certificate(
        self, secure: Server, server_tls: ssl.SSLContext, authority: Authority, folder: Path
    ) -> None:
        def write(user: str) -> None:
            pair = authority.client(user)
            (folder / "c.crt").write_bytes(pair.certificate.read_bytes())
            (folder / "c.key").write_bytes(pair.key.read_bytes())

        async def send_user(writer: asyncio.StreamWriter) -> None:
            users.append(dict(pair[0] for pair in writer.get_extra_info("peercert")["subject"])["commonName"])
            writer.write(EMPTY)

        users: list[str] = []
        secure.script = [send_user] * 4
        write("before")
        server_tls.verify_mode = ssl.CERT_REQUIRED
        try:
            async with self.client(secure, folder, ("ca.crt", "c.crt", "c.key")) as client:
                for _ in range(2):
                    await client.version()
                write("after")
                await self.rotated(client)
                for _ in range(2):
                    await client.version()
        finally:
            server_tls.verify_mode = ssl.CERT_NONE
        assert users == ["before", "before", "after", "after"]
        assert secure.connections == 2

    async def test_authority(self, secure: Server, folder: Path, tmp_path: Path) -> None:
        """A connection that was verified with the old CA is not reused with the new one."""
        other = Authority(tmp_path / "other")
        secure.script = [EMPTY] * 2
        async with self.client(secure, folder, ("ca.crt",)) as client:
            assert isinstance(await tick(client), Reading)
            trusted = (folder / "ca.crt").read_bytes()
            (folder / "ca.crt").write_bytes(other.ca.read_bytes())
            await self.rotated(client)
            failure = await tick(client)
            assert isinstance(failure, Failure)
            assert failure.reason is Reason.TLS
            (folder / "ca.crt").write_bytes(trusted + other.ca.read_bytes())
            await self.rotated(client)
            assert isinstance(await tick(client), Reading)

    async def test_equal_files_keep_the_connection(self, secure: Server, folder: Path) -> None:
        secure.script = [EMPTY] * 2
        async with self.client(secure, folder, ("ca.crt",)) as client:
            await tick(client)
            (folder / "ca.crt").write_bytes((folder / "ca.crt").read_bytes())
            await self.rotated(client)
            await tick(client)
        assert secure.connections == 1


class TestProxy:
    async def test_proxy_receives_the_request(self, server: Server) -> None:
        server.script = [EMPTY]
        assert isinstance(await asked(Access("http://apiserver.invalid:80", proxy=ProxyRule(server.url))), Reading)
        assert server.requests[0].startswith("GET http://apiserver.invalid")

    async def test_each_apiserver_is_asked_as_its_own_address_needs(self, server: Server) -> None:
        """NO_PROXY names one of two apiservers, but not the service, whose credentials they share."""
        member = Server()
        await member.start()
        exempt = member.url.replace("127.0.0.1", "0.0.0.0")
        rule = environment_rule({"HTTP_PROXY": server.url, "NO_PROXY": exempt.removeprefix("http://")})
        access = Access("http://service.test", proxy=rule)
        server.script, member.script = [EMPTY] * 2, [EMPTY]
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
        failure = await refused(access)
        assert failure.reason is Reason.CREDENTIALS
        assert "HTTP_PROXY: SOCKS proxies (socks5://) are not supported" in failure.message

    async def test_proxy_that_refuses_is_unreachable(self, server: Server) -> None:
        server.script = [answer(b"", "407 Proxy Authentication Required")]
        access = Access("https://apiserver.invalid:443", tls=tls_context(None), proxy=ProxyRule(server.url))
        failure = await refused(access)
        assert server.requests[0].startswith("CONNECT apiserver.invalid:443")
        assert failure.reason is Reason.UNREACHABLE
        assert failure.message == (
            "The proxy for https://apiserver.invalid:443 answers 407; check the proxy's configuration."
        )

    async def test_missing_proxy_is_unreachable(self, server: Server) -> None:
        await server.stop()
        failure = await refused(Access("http://apiserver.invalid", proxy=ProxyRule(server.url)))
        assert failure.reason is Reason.UNREACHABLE
        assert failure.message == (
            "The proxy for http://apiserver.invalid cannot be reached; check the proxy and its address."
        )
