import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.certs import Authority, Pair
from tests.support.transcripts import replay
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

GOLDEN = Path(__file__).parents[2] / "golden" / "kube" / "credentials.txt"


class Source:
    """Credentials whose loads and time are the steps of a transcript."""

    def __init__(self, beginning: str, runner: asyncio.Runner, file: Path) -> None:
        self._lifetime = float(beginning.split()[1]) if beginning.startswith("for ") else float("inf")
        self._costly, self._equal = beginning == "costly", beginning == "equal"
        self._runner, self._file = runner, file
        self._file.write_text("first")
        self._now, self._loads, self._changes = 1000.0, 0, 0
        self._error: ConnectError | None = None
        self._may_load = asyncio.Event()
        self._may_load.set()
        self._waiting: asyncio.Task[Access]
        self._known: dict[str, Access] = {}
        self._connection = CredentialSource(self._load, clock=lambda: self._now, wall=lambda: self._now + 1e9)
        self._connection.on_change(self._change)

    def step(self, happened: str) -> str | None:
        return self._runner.run(self._step(happened))

    async def _step(self, happened: str) -> str | None:
        match happened.split():
            case ["ask", *_]:
                return await self._answer(happened)
            case ["begin", "to", "ask"]:
                self._waiting = asyncio.create_task(self._connection.access())
            case ["end"]:
                return self._said(await self._waiting)
            case ["cancel"]:
                self._waiting.cancel()
                await asyncio.wait([self._waiting])
            case ["reject", *which]:
                rejected = which[0] if which else self._newest
                self._connection.reject(self._known.get(rejected, Access("https://elsewhere")))
            case ["file", "changes"]:
                self._file.write_text(self._file.read_text() + ", and another")
            case ["loads", how]:
                self._error = ConnectError("no plugin") if how == "fail" else None
                self._may_load.clear() if how == "hang" else self._may_load.set()
            case ["close"]:
                await self._connection.close()
                assert asyncio.all_tasks() == {asyncio.current_task()}
            case _:
                self._now += float(happened)
        await asyncio.sleep(0)
        return None

    async def _answer(self, happened: str) -> str:
        try:
            if happened == "ask after renewal":
                return self._said(await renewed(self._connection))
            times = 5 if happened == "ask 5 times" else 1
            found = await asyncio.gather(*(self._connection.access() for _ in range(times)))
        except ConnectError as error:
            return f"{error}; {self._loads} loads"
        assert len({*map(id, found)}) == 1
        return self._said(found[0])

    def _said(self, access: Access) -> str:
        name = access.url.removeprefix("https://")
        assert self._known.setdefault(name, access) is access, "equal credentials are the same object"
        self._newest = name
        return f"{name}; {self._loads} loads, {self._changes} changes"

    def _change(self) -> None:
        self._changes += 1

    async def _load(self) -> Credentials:
        self._loads += 1
        files = stamps([str(self._file)])
        await asyncio.sleep(0)
        await self._may_load.wait()
        if self._error:
            raise self._error
        access = Access("https://equal" if self._equal else f"https://load-{self._loads}")
        return Credentials(access, files, self._now + 1e9 + self._lifetime, self._costly)


def test_credentials_do_what_their_transcripts_say(golden: Callable[[str, str], None], tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        text = replay(GOLDEN.read_text(), lambda beginning: Source(beginning, runner, tmp_path / "token").step)
    golden("kube/credentials.txt", text)


def test_repr_of_an_access_shows_no_secret() -> None:
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

    def test_file_without_end_is_refused(self, authority: Authority) -> None:
        endless = "/dev/zero"
        with pytest.raises(ConnectError, match=r"^/dev/zero: longer than 8 MiB; put a readable file there"):
            read_text(endless)
        with pytest.raises(ConnectError, match=r"^/dev/zero: contains no CA certificate"):
            TlsMaker().make(endless)
        with pytest.raises(ConnectError, match=r"^/dev/zero: does not match the key"):
            TlsMaker().make(str(authority.ca), endless, endless)

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

    def test_certificate_without_its_key_is_refused(self, authority: Authority) -> None:
        one, other = authority.client("one"), authority.client("other")
        with pytest.raises(ConnectError, match="does not match the key"):
            tls_context(str(authority.ca), str(one.certificate), str(other.key))


@pytest.mark.parametrize(
    ("tls", "verified"),
    [(tls_context(None), True), (tls_context(None, verify=False), False), (None, False), (ConnectError("none"), False)],
    ids=["verified", "skipped verification", "plain HTTP", "no credentials"],
)
async def test_credentials_are_verified_only_by_a_verified_certificate(
    tls: ssl.SSLContext | ConnectError | None, *, verified: bool
) -> None:
    """Credentials go to announced addresses only if they are."""

    async def load() -> Credentials:
        if isinstance(tls, ConnectError):
            raise tls
        return Credentials(Access("https://apiserver", tls=tls), {})

    assert await CredentialSource(load).are_verified() is verified


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
