"""Valid and broken kubeconfigs."""

import asyncio
import base64
import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.certs import Authority, Pair
from tests.support.transcripts import of_states
from tests.unit.kube.conftest import described, renewed
from watchslo.errors import ConnectError
from watchslo.kube import exec_plugin as plugin_module
from watchslo.kube.connect import matching_contexts
from watchslo.kube.credentials import Access, CredentialSource
from watchslo.kube.kubeconfig import connect_by_kubeconfig

SECRET = "hush-hush"
BLOCK = """current-context: prod
clusters:
- {name: c, cluster: {server: https://prod.example.com}}
users:
- {name: u, user: {token: 2024-01-31}}
- null
contexts:
- {name: prod, context: {cluster: c, user: u}}
"""


def config(user: Any = None, **cluster: Any) -> dict[str, Any]:
    return {
        "current-context": "prod",
        "clusters": [{"name": "c", "cluster": {"server": "https://prod.example.com:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],
    }


def provider(name: str, **config: object) -> dict[str, Any]:
    return {"auth-provider": {"name": name, "config": config}}


def oidc(token: str | None, **other: object) -> dict[str, Any]:
    return provider("oidc", **{"id-token": token, **other})


def id_token(expires: float | None) -> str:
    """Return an unsigned JSON Web Token that expires then (Unix seconds)."""
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires}).encode()).decode().rstrip("=")
    return f"e30.{claims}.x"


def connection_by(
    folder: Path, content: object, context: str | None = None, environ: dict[str, str] | None = None
) -> CredentialSource:
    """Return the credentials by a kubeconfig of this content; those by several, if it is a tuple.

    The first one is in the folder, the others are in the folders `1`, `2` and so on below it.
    """
    contents = content if isinstance(content, tuple) else (content,)
    paths = [folder / str(number or "") / "kubeconfig" for number in range(len(contents))]
    for path, one in zip(paths, contents, strict=True):
        path.parent.mkdir(exist_ok=True)
        path.write_text(one if isinstance(one, str) else json.dumps(one))
    return connect_by_kubeconfig([str(path) for path in paths], context, environ or {})


async def access_by(folder: Path, content: object, **other: Any) -> Access:
    return await connection_by(folder, content, **other).access()


async def failure(folder: Path, content: object) -> str:
    connection = connection_by(folder, content)
    with pytest.raises(ConnectError) as caught:
        await connection.access()
    assert SECRET not in str(caught.value)
    return str(caught.value).removeprefix(f"{folder / 'kubeconfig'}: ")


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.client("watcher")


EMPTY = ({"current-context": ""}, {"clusters": None, "users": None, "contexts": None, "current-context": None})
NOTHING = ("", "# nothing yet\n", "---\n", "null", "{}", "current-context:", *EMPTY)
TEXT_KEYS = {
    "cluster": "certificate-authority certificate-authority-data tls-server-name proxy-url",
    "user": "client-certificate client-certificate-data client-key client-key-data tokenFile as as-uid "
    "username password",
}
OTHER_KEYS = {"cluster": "insecure-skip-tls-verify", "user": "as-groups as-user-extra auth-provider exec"}
TOKEN = {"token": "abc"}
NO_PLUGIN = {"exec": {"command": "no-such-plugin"}}
ENVIRON = {"HTTPS_PROXY": "http://environment:1"}
IMPERSONATED = {"as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"acme.com/project": ["x"]}}
DEV = {
    "current-context": "dev",
    "clusters": [{"name": "d", "cluster": {"server": "https://dev.example.com"}}],
    "contexts": [{"name": "dev", "context": {"cluster": "d"}}],
}


def without_user(users: object, **cluster: Any) -> dict[str, Any]:
    content = config(**cluster) | {"users": users}
    del content["contexts"][0]["context"]["user"]
    return content


def absent(value: object, *keys: Mapping[str, str]) -> dict[str, Any]:
    """Return a kubeconfig with a token, and with this value for the keys of its cluster and of its user."""
    of = {kind: dict.fromkeys(" ".join(each[kind] for each in keys).split(), value) for kind in TEXT_KEYS}
    return config({**of["user"], **TOKEN}, **of["cluster"])


def accepted(authority: Authority, pair: Pair) -> dict[str, object]:
    """Return kubeconfigs by what is special about them; a tuple holds several that are merged."""
    files = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    data = {"client-certificate-data": encoded(pair.certificate), "client-key-data": encoded(pair.key)}
    ca, ca_data = {"certificate-authority": str(authority.ca)}, {"certificate-authority-data": encoded(authority.ca)}
    other = config(TOKEN, server="https://else.example.com")
    other["contexts"][0]["context"]["cluster"] = "absent"
    plain = config({"token": SECRET, "as": "jane"}, server="127.0.0.1:8001", **{"insecure-skip-tls-verify": True})
    return {
        "no user": config(),
        "empty user": config({}),
        **{f"no user, and the users {users}": without_user(users) for users in (None, [], [{"name": "x", "user": {}}])},
        "token": config(TOKEN),
        "name and password": config({"username": "me", "password": "pw"}),
        "name": config({"username": "me"}),
        "impersonation": config(IMPERSONATED),
        "absent file of a token, and a token": config({"tokenFile": "absent", **TOKEN}),
        "empty file of a token, and a token": config({"tokenFile": "empty", **TOKEN}),
        "token and plugin": config(TOKEN | NO_PLUGIN),
        "token and provider": config(TOKEN | provider("oidc")),
        "name and plugin": config({"username": "me"} | NO_PLUGIN),
        "name and provider": config({"username": "me"} | provider("oidc")),
        "certificate and plugin": config(files | NO_PLUGIN),
        "files of certificates": config(files, **ca),
        "data of certificates": config(data, **ca_data),
        "file below the folder of the kubeconfig": config({}, **{"certificate-authority": "pki/ca.crt"}),
        **{
            f"file, and data that is {empty!r}": config(
                files | dict.fromkeys(data, empty), **ca, **dict.fromkeys(ca_data, empty)
            )
            for empty in (None, "")
        },
        "id-token": config(oidc(id_token(None), **{"client-secret": None, "refresh-token": None})),
        "id-token that has not expired": config(oidc(id_token(32_503_680_000))),
        "null for all optional values": absent(None, TEXT_KEYS, OTHER_KEYS),
        "empty texts for all optional texts": absent("", TEXT_KEYS),
        "two documents": f"---\n{BLOCK}---\nmore\n",
        "byte order mark": f"\ufeff{BLOCK}",
        "lines of Windows": BLOCK.replace("\n", "\r\n"),
        "tabs": json.dumps(config({"token": "2024-01-31"}), indent="\t"),
        "http": config({}, server="http://127.0.0.1:8001"),
        "path": config({}, server="https://rancher.example.com/k8s/clusters/c-1"),
        "http without the user": config({}, server="http://127.0.0.1:8001") | {"users": []},
        **{
            f"server {server!r}, which gets no credentials": config({"token": SECRET}, server=server)
            for server in ("prod.example.com", "prod.example.com:6443", "[::1]:6443")
        },
        "server without a scheme, verification and user": plain,
        "server without a scheme and the user": config({}, server="127.0.0.1:8001") | {"users": []},
        "no verification, and a name": config(
            {}, **{"insecure-skip-tls-verify": True, "tls-server-name": "kubernetes"}
        ),
        "context from the first that has one": (
            {"current-context": "prod"},
            DEV,
            config() | {"current-context": "dev"},
        ),
        "context from the first": (config(), DEV),
        "context from the first, and null elsewhere": (config() | {"preferences": None}, DEV),
        "before files without values": (config(TOKEN), *NOTHING),
        "after files without values": (*NOTHING, config(TOKEN)),
        "first definition of a name": (config({}), other),
        "context in one, the rest in the other": (
            {"current-context": "prod", "contexts": config()["contexts"]},
            {key: config(TOKEN)[key] for key in ("clusters", "users")},
        ),
        "files next to the kubeconfig that names them": (
            config(**{"certificate-authority": "pki/ca.crt"}) | {"users": None},
            {"users": [{"name": "u", "user": {"client-certificate": "me.crt", "client-key": "me.key"}}]},
        ),
    }


async def test_accesses_match_golden_file(
    tmp_path: Path, authority: Authority, pair: Pair, golden: Callable[[str, str], None]
) -> None:
    for folder in ("pki", "1"):
        (tmp_path / folder).mkdir()
    (tmp_path / "pki" / "ca.crt").write_bytes(authority.ca.read_bytes())
    (tmp_path / "1" / "me.crt").write_bytes(pair.certificate.read_bytes())
    (tmp_path / "1" / "me.key").write_bytes(pair.key.read_bytes())
    (tmp_path / "empty").write_text("")
    states = {
        name: described(await access_by(tmp_path, content)) for name, content in accepted(authority, pair).items()
    }
    for name, proxy in (("proxy of the environment", {}), ("proxy of both", {"proxy-url": "http://file:1"})):
        states[name] = described(await access_by(tmp_path, config({}, **proxy), environ=ENVIRON))
    golden("kube/accesses.txt", of_states(states))


CLUSTERS: dict[str, dict[str, Any]] = {
    "unsupported proxy": {"proxy-url": "socks5://file:1"},
    "absent authority": {"certificate-authority": "ca.crt"},
    "authority that is no base64": {"certificate-authority-data": "abcde"},
    "data that is no authority": {"certificate-authority-data": "abcd"},
    "file that is no authority": {"certificate-authority": "secret"},
    **{
        f"server {server!r}": {"server": server}
        for server in (None, "", "prod.example.com/path", "//prod", "[::1", "ftp://prod", "https://[", "https:///")
    },
}
CHANGES: dict[str, dict[str, Any]] = {
    "empty current context": {"current-context": ""},
    "no contexts": {"contexts": []},
    "no clusters": {"clusters": []},
    "no users": {"users": []},
    "cluster that is a text": {"clusters": [{"name": "c", "cluster": SECRET}]},
    "context that is a text": {"contexts": [{"name": "prod", "context": SECRET}]},
}
TEXTS = ("", "{", "just text", "[]", "\x00", '{"clusters": 7}', '{"contexts": [{"context": {}}]}')
ODD_SERVERS = ("https://a..b", "https://a:99999", "https://a:0", "https://a b", "https://a\0b")
REFUSED: dict[str, object] = {
    "absent file of a token": config({"tokenFile": "token"}),
    "id-token that is none": config(oidc(SECRET)),
    "id-token with claims that are none": config(oidc(f"x.{SECRET}.x")),
    "no id-token": config(oidc(None)),
    "expired id-token": config(oidc(id_token(1))),
    "expired id-token that kubectl renews": config(oidc(id_token(1), **{"refresh-token": SECRET})),
    **{f"provider {name!r}": config(provider(name)) for name in ("azure", "gcp", "acme", "")},
    "plugin without a command": config({"exec": {"command": None}}),
    "user that is defined twice": config() | {"users": [{"name": "u", "user": {"token": SECRET}}] * 2},
    "token that is a number": config({"token": 7}),
    "impersonation of a number": config({"token": SECRET, "as": 5}),
    "groups that are no list": config({"token": SECRET, "as": SECRET, "as-groups": SECRET}),
    "argument of a plugin that is a number": config({"exec": {"command": "c", "args": [SECRET, 5]}}),
    "name of the server that is a number": config(**{"tls-server-name": 5}),
    **{f"name of the server {name!r}": config(**{"tls-server-name": name}) for name in ("a..b", ".a", "a:1")},
    **{f"proxy {url!r}": config(**{"proxy-url": url}) for url in ("http://[x", "http://a:99999", "http://a..b")},
    **{f"server {url!r}": config(server=url) for url in (*ODD_SERVERS, f"https://{64 * 'a'}")},
    "other version": config() | {"apiVersion": "v2"},
    "context without a cluster": config() | {"contexts": [{"name": "prod", "context": {"user": "u"}}]},
    "user that is a text": config(SECRET),
    "file of a token that is a number": config({"tokenFile": 7}),
    "users that are texts": {"users": [SECRET], "contexts": [], "clusters": []},
    "no current context": {key: value for key, value in config().items() if key != "current-context"},
    **{name: config({"token": SECRET}, **cluster) for name, cluster in CLUSTERS.items()},
    **{name: config({"token": SECRET}) | changes for name, changes in CHANGES.items()},
    **{f"the text {text!r}": text for text in TEXTS},
}


async def test_refusals_match_golden_file_and_name_no_secret(
    tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    (tmp_path / "secret").write_text(SECRET)
    refused: dict[str, tuple[object, str | None]] = {name: (content, None) for name, content in REFUSED.items()}
    refused |= {f"context {context}": (config({"token": SECRET}), context) for context in ("prood", "else")}
    states = {}
    for name, (content, context) in refused.items():
        with pytest.raises(ConnectError) as caught:
            await access_by(tmp_path, content, context=context)
        states[name] = [str(caught.value).replace(str(tmp_path), "FOLDER")]
    text = of_states(states)
    assert SECRET not in text
    golden("kube/kubeconfigs.txt", text)


async def test_certificates_without_a_writable_folder_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc")  # not writable, as on a read-only root
    content = config({"token": SECRET}, **{"certificate-authority-data": base64.b64encode(b"CA").decode()})
    assert await failure(tmp_path, content) == (
        "context prod: its certificates cannot be written to temporary files (no such file or directory); "
        "make /tmp writable, or name files in the kubeconfig"
    )


class TestRefusals:
    @pytest.mark.parametrize(
        ("cluster", "environ"),
        [({"proxy-url": "socks5://127.0.0.1:1080"}, {}), ({}, {"HTTPS_PROXY": "socks5://127.0.0.1:1080"})],
    )
    def test_proxy_that_is_not_supported_is_refused_before_the_first_request(
        self, tmp_path: Path, cluster: dict[str, str], environ: dict[str, str]
    ) -> None:
        with pytest.raises(ConnectError, match="SOCKS proxies"):
            connection_by(tmp_path, config({}, **cluster), environ=environ)

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("broken", "broken: not a kubeconfig; "),
            ("pipe", "is a pipe, which cannot be read again; write its content into a file"),
            ("folder", "is a directory; put a readable kubeconfig there"),
        ],
    )
    async def test_second_file_that_is_no_kubeconfig_is_named(self, tmp_path: Path, name: str, said: str) -> None:
        """A pipe can be read only once, and waits for a writer."""
        (tmp_path / "good").write_text(json.dumps(config()))
        (tmp_path / "broken").write_text("{")
        (tmp_path / "folder").mkdir()
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ConnectError, match=said):
            connect_by_kubeconfig([str(tmp_path / "good"), str(tmp_path / name)], None, {})


class TestPlugins:
    def plugin(self, folder: Path, script: str, **more: object) -> dict[str, Any]:
        path = folder / "plugin"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        made = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(path),
            "args": ["arg"],
            "env": [{"name": "CALLER", "value": "env"}],
            "interactiveMode": "Never",
        }
        return {"exec": made | more}

    def credential(self, **status: str) -> str:
        document = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
        return f"cat <<END\n{json.dumps(document)}\nEND"

    def cases(self, pair: Pair) -> dict[str, tuple[str, dict[str, object]]]:
        """Return scripts of plugins, and what their entries in the kubeconfig have."""
        token = self.credential(token="abc")
        certificate = {"clientCertificateData": pair.certificate.read_text(), "clientKeyData": pair.key.read_text()}
        missing: dict[str, object] = {"command": "no-such-plugin"}
        return {
            "token from argument and environment": (self.credential(token="$CALLER-$1"), {}),
            "variables without a value": (
                self.credential(token="<$EMPTY$ABSENT>"),
                {"env": [{"name": "EMPTY", "value": ""}, {"name": "ABSENT"}]},
            ),
            "certificate": (self.credential(**certificate), {}),
            "program in the folder of the kubeconfig": (token, {"command": "./plugin"}),
            "YAML": ("echo 'status: {token: abc, expirationTimestamp: 2999-01-01T00:00:00Z}'", {}),
            "exit code": (f"echo expired: {SECRET} >&2; exit 3", {}),
            "text": (f"echo {SECRET}", {}),
            "no status": ("echo '{}'", {}),
            "empty status": ("""echo '{"status":{}}'""", {}),
            "key alone": ("""echo '{"status":{"clientKeyData":"x"}}'""", {}),
            "missing program": ("", missing),
            "missing program, and an empty hint": ("", missing | {"installHint": "\n"}),
            "missing program, and a hint": (
                "",
                missing | {"installHint": "Get it:\n\n  cloud components install it.\n"},
            ),
        }

    async def test_plugins_match_golden_file_and_show_no_secret(
        self, tmp_path: Path, pair: Pair, golden: Callable[[str, str], None]
    ) -> None:
        states = {}
        for name, (script, more) in self.cases(pair).items():
            try:
                states[name] = described(await access_by(tmp_path, config(self.plugin(tmp_path, script, **more))))
            except ConnectError as error:
                states[name] = [str(error).replace(str(tmp_path), "FOLDER")]
        text = of_states(states)
        assert SECRET not in text
        golden("kube/plugins.txt", text)

    @pytest.mark.parametrize(("year", "runs"), [(2001, 2), (2999, 1)])
    async def test_plugin_is_run_again_before_its_token_expires(self, tmp_path: Path, year: int, runs: int) -> None:
        user = self.plugin(tmp_path, self.credential(token="abc", expirationTimestamp=f"{year}-01-01T00:00:00Z"))
        (tmp_path / "plugin").write_text((tmp_path / "plugin").read_text() + f"echo asked >> {tmp_path}/diary\n")
        connection = connection_by(tmp_path, config(user))
        first = await connection.access()
        connection._not_before = 0.0
        assert await connection.access() is first
        assert (tmp_path / "diary").read_text() == "asked\n" * runs

    async def test_plugin_that_writes_to_the_kubeconfig_is_not_run_again(self, tmp_path: Path) -> None:
        script = f"echo >> {tmp_path}/kubeconfig; echo asked >> {tmp_path}/diary\n{self.credential(token='abc')}"
        connection = connection_by(tmp_path, config(self.plugin(tmp_path, script)))
        for _ in range(3):
            await renewed(connection)
        assert (tmp_path / "diary").read_text() == "asked\n"

    async def test_receives_the_cluster_with_its_authority_as_data_and_its_own_configuration(
        self, tmp_path: Path, authority: Authority
    ) -> None:
        script = f"echo $KUBERNETES_EXEC_INFO > {tmp_path}/info\n{self.credential(token='abc')}"
        user = self.plugin(tmp_path, script, provideClusterInfo=True)
        extensions = [{"name": "else"}, {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}]
        cluster = {"certificate-authority": str(authority.ca), "extensions": extensions, "tls-server-name": None}
        await access_by(tmp_path, config(user, **cluster))
        info = json.loads((tmp_path / "info").read_text())
        assert (info["kind"], info["apiVersion"]) == ("ExecCredential", "client.authentication.k8s.io/v1")
        assert info["spec"]["interactive"] is False
        assert info["spec"]["cluster"] == {
            "server": "https://prod.example.com:6443/",
            "certificate-authority-data": encoded(authority.ca),
            "config": {"audience": "x"},
        }

    @pytest.mark.parametrize("is_terminal", [True, False])
    async def test_stderr_is_shown_on_a_terminal(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool
    ) -> None:
        shown = io.StringIO()
        monkeypatch.setattr(shown, "isatty", lambda: is_terminal)
        monkeypatch.setattr("sys.stderr", shown)
        await access_by(tmp_path, config(self.plugin(tmp_path, f"echo Log in. >&2\n{self.credential(token='abc')}")))
        assert shown.getvalue() == ("Log in.\n" if is_terminal else "")

    async def test_plugin_that_is_awaited_is_named(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "go")
        script = f"read line < {tmp_path}/go\n"
        connection = connection_by(tmp_path, config(self.plugin(tmp_path, script + self.credential(token="abc"))))
        loading, named = asyncio.create_task(connection.access()), [connection.awaited]
        while connection.awaited is None:  # noqa: ASYNC110 - it waits for the start of a process
            await asyncio.sleep(0)
        named.append(connection.awaited)
        await asyncio.to_thread((tmp_path / "go").write_text, "go\n")
        await loading
        sentence = f"Waiting for credentials of the exec plugin {tmp_path / 'plugin'}."
        assert [*named, connection.awaited] == [None, sentence, None]

    async def test_plugin_that_hangs_is_killed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(plugin_module, "PLUGIN_SECONDS", 0.0)
        user = self.plugin(tmp_path, "exec sleep 3600")  # unless it is killed, the test waits for its end
        message = await failure(tmp_path, config(user))
        assert message.endswith("printed no credentials within 0 s; run it by hand")


class TestRenewals:
    async def test_token_file_is_reread_and_preferred(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("first\n")
        connection = connection_by(tmp_path, config({"tokenFile": "token", "token": "stale"}))
        assert (await connection.access()).headers == (("Authorization", "Bearer first"),)
        (tmp_path / "token").write_text("second\n")
        assert (await renewed(connection)).headers == (("Authorization", "Bearer second"),)

    async def test_certificate_and_key_may_be_replaced_one_by_one(self, tmp_path: Path, authority: Authority) -> None:
        old, new = authority.client("rotated-old"), authority.client("rotated-new")
        certificate, key = tmp_path / "c.crt", tmp_path / "c.key"
        certificate.write_bytes(old.certificate.read_bytes())
        key.write_bytes(old.key.read_bytes())
        connection = connection_by(tmp_path, config({"client-certificate": "c.crt", "client-key": "c.key"}))
        before = await connection.access()
        certificate.write_bytes(new.certificate.read_bytes())
        assert await renewed(connection) is before
        key.write_bytes(new.key.read_bytes())
        assert (await renewed(connection)).tls is not before.tls

    async def test_replaced_inline_data_gives_a_new_context(
        self, tmp_path: Path, authority: Authority, pair: Pair
    ) -> None:
        def content(pair: Pair) -> dict[str, Any]:
            user = {"client-certificate-data": encoded(pair.certificate), "client-key-data": encoded(pair.key)}
            return config(user, **{"certificate-authority-data": encoded(authority.ca)})

        connection = connection_by(tmp_path, content(pair))
        before = await connection.access()
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(content(pair), indent=1))
        assert await renewed(connection) is before
        path.write_text(json.dumps(content(authority.client("data"))))
        assert (await renewed(connection)).tls is not before.tls

    async def test_id_token_that_kubectl_renewed_is_read_again(self, tmp_path: Path) -> None:
        connection = connection_by(tmp_path, config(oidc(id_token(1), **{"refresh-token": SECRET})))
        with pytest.raises(ConnectError, match="run kubectl with this context"):
            await connection.access()
        connection._not_before = 0.0
        (tmp_path / "kubeconfig").write_text(json.dumps(config(oidc(id_token(None)))))
        assert (await connection.access()).headers == (("Authorization", f"Bearer {id_token(None)}"),)

    async def test_no_refresh_token_is_spent(self, tmp_path: Path) -> None:
        asked = asyncio.Event()

        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.set()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            issuer = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            user = oidc(
                id_token(1),
                **{"refresh-token": SECRET, "client-id": "x", "client-secret": "y", "idp-issuer-url": issuer},
            )
            assert "has expired" in await failure(tmp_path, config(user))
        assert not asked.is_set()

    async def test_kubeconfig_deleted_later_keeps_the_access_until_rejected(self, tmp_path: Path) -> None:
        connection = connection_by(tmp_path, config({"token": "abc"}))
        access = await connection.access()
        (tmp_path / "kubeconfig").unlink()
        assert await renewed(connection) is access
        connection.reject(access)
        connection._not_before = 0.0
        with pytest.raises(ConnectError, match="no such file; put the kubeconfig there"):
            await connection.access()

    async def test_context_stays_when_the_current_one_changes(self, tmp_path: Path) -> None:
        content = config({"token": "abc"})
        content["contexts"].append({"name": "test", "context": {"cluster": "c"}})
        connection = connection_by(tmp_path, content)
        await connection.access()
        (tmp_path / "kubeconfig").write_text(json.dumps(content | {"current-context": "test"}))
        assert (await renewed(connection)).headers == (("Authorization", "Bearer abc"),)


FLEET = {"contexts": [{"name": name} for name in ("prod", "prod-eu", "prod-us", "a.b", "axb", "*", "")]}


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("prod", ["prod"]),
        ("prod-.*", ["prod-eu", "prod-us"]),
        ("prod.*", ["prod", "prod-eu", "prod-us"]),
        ("a.b", ["a.b"]),
        ("a.[b]", ["a.b", "axb"]),
        ("*", ["*"]),
        (".*", ["prod", "prod-eu", "prod-us", "a.b", "axb", "*"]),
    ],
)
def test_contexts_are_that_of_the_name_or_all_whose_whole_name_matches(
    tmp_path: Path, pattern: str, found: list[str]
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(FLEET))
    assert matching_contexts(str(path), pattern) == found


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("prd", "{}: has 6 contexts, but none is named prd or matches it; did you mean prod?"),
        ("stage", "{}: has 6 contexts, but none is named stage or matches it; see `kubectl config get-contexts`, and"),
        ("+prod", "--context: +prod is neither a context nor a regular expression (nothing to repeat at position 0); "),
    ],
)
def test_pattern_of_no_context_is_refused(tmp_path: Path, pattern: str, message: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(FLEET))
    with pytest.raises(ConnectError) as caught:
        matching_contexts(str(path), pattern)
    assert str(caught.value).startswith(message.format(path))


def test_pattern_without_any_context_is_left_to_the_connection(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("{}")
    assert matching_contexts(str(path), "prod-.*") == ["prod-.*"]
    assert matching_contexts(None, "prod-.*", {"KUBECONFIG": str(tmp_path / "none")}) == ["prod-.*"]
