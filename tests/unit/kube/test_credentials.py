import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.certs import Authority, Pair
from tests.unit.kube.conftest import renewed
from watchslo.errors import ConnectError
from watchslo.kube.credentials import (
    Access,
    Credentials,
    CredentialSource,
    TlsMaker,
    clean_token,
    read_text,
    stamps,
    tls_context,
)
from watchslo.kube.proxy_rule import ProxyRule


class Source:
    """Loads given credentials and counts the loads; its time changes only if a test sets it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.loads = 0
        self.error: ConnectError | None = None
        self.files: Callable[[], dict[str, tuple[int, int, int] | None]] = dict
        self.lifetime = float("inf")
        self.costly = False
        self.token: str | None = None
        self.changes = 0
        self.free = asyncio.Event()
        self.free.set()
        self.connection = CredentialSource(self.load, clock=lambda: self.now, wall=lambda: self.now + 1e9)
        self.connection.on_change(self.change)

    def change(self) -> None:
        self.changes += 1

    async def load(self) -> Credentials:
        self.loads += 1
        files = self.files()
        await asyncio.sleep(0)
        await self.free.wait()
        if self.error:
            raise self.error
        access = Access(f"https://load-{self.loads}") if self.token is None else Access(f"https://{self.token}")
        return Credentials(access, files, self.now + 1e9 + self.lifetime, self.costly)

    async def renewed(self) -> str:
        return (await renewed(self.connection)).url

    async def url(self) -> str:
        return (await self.connection.access()).url

    async def error_message(self) -> str:
        with pytest.raises(ConnectError) as caught:
            await self.connection.access()
        return str(caught.value)


@pytest.fixture
def source() -> Source:
    return Source()


class TestConnection:
    async def test_loads_once(self, source: Source) -> None:
        assert [await source.url() for _ in range(3)] == ["https://load-1"] * 3

    async def test_loads_once_for_concurrent_callers(self, source: Source) -> None:
        assert set(await asyncio.gather(*(source.url() for _ in range(5)))) == {"https://load-1"}
        source.connection.reject(await source.connection.access())
        source.now += 10
        assert set(await asyncio.gather(*(source.url() for _ in range(5)))) == {"https://load-2"}

    async def test_loads_again_when_rejected(self, source: Source) -> None:
        access = await source.connection.access()
        source.connection.reject(access)
        source.now += 10
        assert await source.url() == "https://load-2"

    async def test_rejections_reload_at_most_every_ten_seconds(self, source: Source) -> None:
        for _ in range(100):
            source.connection.reject(await source.connection.access())
            source.now += 0.5
        assert source.loads == 5

    async def test_rejection_of_former_credentials_is_ignored(self, source: Source) -> None:
        old = await source.connection.access()
        source.connection.reject(old)
        source.now += 10
        await source.url()
        source.connection.reject(old)
        source.now += 10
        assert await source.url() == "https://load-2"

    async def test_reject_before_the_first_load_is_ignored(self, source: Source) -> None:
        source.connection.reject(Access("https://elsewhere"))
        assert await source.url() == "https://load-1"

    async def test_loads_again_when_a_file_changes(self, source: Source, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text("one")
        source.files = lambda: stamps([str(token)])
        assert await source.url() == "https://load-1"
        source.now += 10
        assert await source.url() == "https://load-1"
        token.write_text("two!")
        assert await source.url() == "https://load-1"
        assert await source.renewed() == "https://load-2"
        assert source.changes == 1

    async def test_renews_before_expiry(self, source: Source) -> None:
        source.lifetime = 100.0
        await source.url()
        source.now += 79
        assert await source.renewed() == "https://load-1"
        source.now += 2
        assert await source.renewed() == "https://load-2"

    async def test_credentials_expired_when_loaded_are_renewed_later(self, source: Source) -> None:
        source.lifetime = -5.0
        for _ in range(20):
            await source.url()
            source.now += 0.5
        assert source.loads == 1

    async def test_failure_is_raised_again_until_the_next_attempt(self, source: Source) -> None:
        source.error = ConnectError("no plugin")
        assert await source.error_message() == "no plugin"
        source.error = None
        source.now += 9
        assert await source.error_message() == "no plugin"
        source.now += 1
        assert await source.url() == "https://load-2"

    async def test_valid_credentials_stay_while_renewal_fails(self, source: Source) -> None:
        source.lifetime = 100.0
        await source.url()
        source.error = ConnectError("half written")
        source.now += 90
        for _ in range(2):
            assert await source.renewed() == "https://load-1"
        assert source.loads == 2
        source.connection.reject(await source.connection.access())
        source.now += 10
        assert await source.error_message() == "half written"
        source.error = None
        source.now += 10
        assert await source.url() == "https://load-4"

    async def test_callers_with_valid_credentials_do_not_wait(self, source: Source) -> None:
        source.lifetime = 100.0
        await source.url()
        source.free.clear()
        source.now += 90
        assert [await source.url() for _ in range(5)] == ["https://load-1"] * 5
        source.free.set()
        assert await source.renewed() == "https://load-2"
        assert source.loads == 2

    async def test_callers_with_expired_credentials_wait(self, source: Source) -> None:
        source.lifetime = 100.0
        await source.url()
        source.free.clear()
        source.now += 101
        waiting = asyncio.create_task(source.url())
        await asyncio.sleep(0)
        source.free.set()
        assert await waiting == "https://load-2"

    async def test_callers_with_rejected_credentials_wait_for_the_renewal(self, source: Source) -> None:
        source.lifetime = 100.0
        access = await source.connection.access()
        source.free.clear()
        source.now += 90
        await source.url()
        await asyncio.sleep(0)
        source.connection.reject(access)
        waiting = asyncio.create_task(source.url())
        await asyncio.sleep(0)
        source.free.set()
        assert await waiting == "https://load-2"
        assert source.loads == 2

    async def test_rejection_during_a_failing_renewal_raises(self, source: Source) -> None:
        source.lifetime = 100.0
        access = await source.connection.access()
        source.error = ConnectError("no plugin")
        source.now += 90
        await source.url()
        source.connection.reject(access)
        assert await source.error_message() == "no plugin"
        assert source.loads == 2

    async def test_cancelled_first_load_is_repeated(self, source: Source) -> None:
        source.free.clear()
        waiting = asyncio.create_task(source.url())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        source.free.set()
        assert await source.url() == "https://load-2"

    async def test_close_cancels_a_renewal(self, source: Source) -> None:
        source.lifetime = 100.0
        await source.url()
        source.free.clear()
        source.now += 90
        await source.url()
        await source.connection.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await source.connection.close()
        source.free.set()
        assert await source.renewed() == "https://load-2"

    @pytest.mark.parametrize(("costly", "loads"), [(False, 3), (True, 2)])
    async def test_second_change_is_loaded_at_once_unless_costly(
        self, source: Source, tmp_path: Path, *, costly: bool, loads: int
    ) -> None:
        certificate, key = tmp_path / "certificate", tmp_path / "key"
        for path in (certificate, key):
            path.write_text("old")
        source.files = lambda: stamps([str(certificate), str(key)])
        source.costly = costly
        await source.url()
        source.now += 10
        certificate.write_text("new one")
        source.error = ConnectError("not a pair")
        assert await source.renewed() == "https://load-1"
        assert source.loads == 2
        source.now += 1
        key.write_text("new one")
        source.error = None
        assert await source.renewed() == ("https://load-1" if costly else "https://load-3")
        assert source.loads == loads

    async def test_rejection_after_a_file_change_reloads(self, source: Source, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text("one")
        source.files = lambda: stamps([str(token)])
        source.connection.reject(await source.connection.access())
        assert await source.url() == "https://load-1"
        token.write_text("two!")
        assert await source.url() == "https://load-2"

    async def test_touched_file_is_no_change(self, source: Source, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text("one")
        source.files, source.token = (lambda: stamps([str(token)])), "same"
        access = await source.connection.access()
        token.unlink()
        token.write_text("one")
        assert await renewed(source.connection) is access
        assert (source.loads, source.changes) == (2, 0)
        assert await renewed(source.connection) is access
        assert source.loads == 2

    async def test_first_load_is_no_change(self, source: Source) -> None:
        source.error = ConnectError("not yet")
        await source.error_message()
        source.error = None
        source.now += 10
        await source.url()
        await asyncio.sleep(0)
        assert source.changes == 0

    def test_repr_shows_no_secret(self) -> None:
        access = Access("https://a", (("Authorization", "Bearer secret"),), proxy=ProxyRule("http://user:secret@proxy"))
        assert "secret" not in repr(access)


class TestFiles:
    def test_stamp_changes_when_a_volume_is_replaced(self, tmp_path: Path) -> None:
        for name in ("old", "new"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "token").write_text(name)
        data = tmp_path / "data"
        data.symlink_to("old")
        before = stamps([str(data / "token")])
        data.unlink()
        data.symlink_to("new")
        assert stamps([str(data / "token")]) != before

    def test_stamp_of_an_absent_file_is_none(self, tmp_path: Path) -> None:
        assert stamps([str(tmp_path / "absent")]) == {str(tmp_path / "absent"): None}

    def test_unreadable_file_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConnectError, match="no such file or directory; put a readable file there"):
            read_text(str(tmp_path / "absent"))
        (tmp_path / "binary").write_bytes(b"\xff\xfe")
        with pytest.raises(ConnectError, match="is not text"):
            read_text(str(tmp_path / "binary"))

    @pytest.mark.parametrize("text", ["", "\n", "two\nlines", "caf\u00e9", "nul\0"])
    def test_missing_token_is_refused(self, text: str) -> None:
        with pytest.raises(ConnectError, match="here: contains no token; put one there"):
            clean_token(text, "here")

    def test_token(self) -> None:
        assert clean_token("abc\n", "here") == "abc"


class TestTls:
    def test_verifies(self, authority: Authority) -> None:
        context = tls_context(str(authority.ca))
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
        assert not context.verify_flags & ssl.VERIFY_X509_STRICT
        assert len(context.get_ca_certs()) == 1

    def test_can_skip_verification(self, authority: Authority) -> None:
        context = tls_context(str(authority.ca), verify=False)
        assert context.verify_mode is ssl.CERT_NONE

    def test_system_authorities(self) -> None:
        assert tls_context(None).verify_mode is ssl.CERT_REQUIRED

    @pytest.mark.parametrize("content", [None, b"", b"no certificate"])
    def test_invalid_authority_is_refused(self, tmp_path: Path, content: bytes | None) -> None:
        ca = tmp_path / "ca.crt"
        if content is not None:
            ca.write_bytes(content)
        with pytest.raises(ConnectError) as caught:
            tls_context(str(ca))
        assert str(caught.value) == f"{ca}: contains no CA certificate in PEM form; put the cluster's CA there"

    def test_certificate_without_its_key_is_refused(self, authority: Authority) -> None:
        one, other = authority.client("one"), authority.client("other")
        with pytest.raises(ConnectError, match="does not match the key"):
            tls_context(str(authority.ca), str(one.certificate), str(other.key))


class TestVerification:
    """Credentials go to announced addresses only if the server's certificate is verified."""

    @staticmethod
    async def are_verified(tls: ssl.SSLContext | None) -> bool:
        async def load() -> Credentials:
            return Credentials(Access("https://apiserver", tls=tls), {})

        return await CredentialSource(load).are_verified()

    async def test_verified_certificates_are_recognised(self) -> None:
        assert await self.are_verified(tls_context(None))

    async def test_skipped_verification_and_plain_http_are_recognised(self) -> None:
        assert not await self.are_verified(tls_context(None, verify=False))
        assert not await self.are_verified(None)

    async def test_missing_credentials_are_not_verified(self, source: Source) -> None:
        source.error = ConnectError("no credentials")
        assert not await source.connection.are_verified()


class TestTlsMaker:
    @pytest.fixture
    def pair(self, authority: Authority) -> Pair:
        return authority.client("made")

    def test_equal_files_give_the_same_context(self, authority: Authority, pair: Pair, tmp_path: Path) -> None:
        maker, files = TlsMaker(), (str(authority.ca), str(pair.certificate), str(pair.key))
        copy = tmp_path / "ca.crt"
        copy.write_bytes(authority.ca.read_bytes())
        assert maker.make(*files) is maker.make(str(copy), *files[1:])

    def test_changed_files_give_another_context(self, authority: Authority, pair: Pair) -> None:
        maker, ca = TlsMaker(), str(authority.ca)
        made = [
            maker.make(None),
            maker.make(ca),
            maker.make(ca, verify=False),
            maker.make(ca, str(pair.certificate), str(pair.key)),
        ]
        assert len(set(made)) == 4

    def test_unusable_new_files_keep_the_last_context(self, authority: Authority, tmp_path: Path) -> None:
        maker = TlsMaker()
        made = maker.make(str(authority.ca))
        with pytest.raises(ConnectError, match="contains no CA certificate"):
            maker.make(str(tmp_path / "absent"))
        assert maker.make(str(authority.ca)) is made
