"""Valid and broken kubeconfigs."""

import asyncio
import base64
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.certs import Authority, Pair
from tests.support.transcripts import of_states
from tests.unit.kube.conftest import renewed
from watchslo.errors import ConnectError
from watchslo.kube import exec_plugin as plugin_module
from watchslo.kube.credentials import Access, CredentialSource
from watchslo.kube.kubeconfig import connect_by_kubeconfig
from watchslo.kube.proxy_rule import ProxyRule

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
NEITHER = "printed neither a token nor a certificate with key; run it by hand"


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
    path = folder / "kubeconfig"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return connect_by_kubeconfig([str(path)], context, environ or {})


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


class TestUsers:
    @pytest.mark.parametrize(
        ("user", "headers"),
        [
            (None, []),
            ({}, []),
            ({"token": "abc"}, ["Authorization: Bearer abc"]),
            ({"username": "me", "password": "pw"}, ["Authorization: Basic bWU6cHc="]),
            ({"username": "me"}, ["Authorization: Basic bWU6"]),
            (
                {"as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"acme.com/project": ["x"]}},
                [
                    "Impersonate-User: jane",
                    "Impersonate-Uid: 7",
                    "Impersonate-Group: a",
                    "Impersonate-Group: b",
                    "Impersonate-Extra-acme.com%2Fproject: x",
                ],
            ),
        ],
        ids=["none", "empty", "token", "password", "name", "impersonation"],
    )
    async def test_headers_of_a_user(self, tmp_path: Path, user: object, headers: list[str]) -> None:
        access = await access_by(tmp_path, config(user))
        assert [f"{name}: {value}" for name, value in access.headers] == headers
        assert access.url == "https://prod.example.com:6443"

    async def test_token_file_is_reread_and_preferred(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("first\n")
        connection = connection_by(tmp_path, config({"tokenFile": "token", "token": "stale"}))
        assert (await connection.access()).headers == (("Authorization", "Bearer first"),)
        (tmp_path / "token").write_text("second\n")
        assert (await renewed(connection)).headers == (("Authorization", "Bearer second"),)

    @pytest.mark.parametrize("content", [None, ""])
    async def test_token_is_used_without_its_file(self, tmp_path: Path, content: str | None) -> None:
        if content is not None:
            (tmp_path / "token").write_text(content)
        access = await access_by(tmp_path, config({"tokenFile": "token", "token": "abc"}))
        assert access.headers == (("Authorization", "Bearer abc"),)

    @pytest.mark.parametrize("other", [{"exec": {"command": "no-such-plugin"}}, provider("oidc")])
    @pytest.mark.parametrize("user", [{"token": "abc"}, {"username": "me"}])
    async def test_token_and_name_are_preferred(
        self, tmp_path: Path, user: dict[str, object], other: dict[str, object]
    ) -> None:
        assert (await access_by(tmp_path, config(user | other))).headers == (
            await access_by(tmp_path, config(user))
        ).headers

    async def test_certificate_is_preferred_to_a_plugin(self, tmp_path: Path, pair: Pair) -> None:
        user: dict[str, object] = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        access = await access_by(tmp_path, config(user | {"exec": {"command": "no-such-plugin"}}))
        assert access.headers == ()

    async def test_certificate_in_files(self, tmp_path: Path, authority: Authority, pair: Pair) -> None:
        user: dict[str, object] = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        access = await access_by(tmp_path, config(user, **{"certificate-authority": str(authority.ca)}))
        assert access.headers == ()
        assert access.tls is not None

    async def test_certificate_as_data(self, tmp_path: Path, authority: Authority, pair: Pair) -> None:
        user = {"client-certificate-data": encoded(pair.certificate), "client-key-data": encoded(pair.key)}
        access = await access_by(tmp_path, config(user, **{"certificate-authority-data": encoded(authority.ca)}))
        assert access.tls is not None
        assert len(access.tls.get_ca_certs()) == 1

    async def test_paths_are_relative_to_the_kubeconfig(self, tmp_path: Path, authority: Authority) -> None:
        (tmp_path / "pki").mkdir()
        (tmp_path / "pki" / "ca.crt").write_bytes(authority.ca.read_bytes())
        access = await access_by(tmp_path, config({}, **{"certificate-authority": "pki/ca.crt"}))
        assert access.tls is not None
        assert len(access.tls.get_ca_certs()) == 1

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

    @pytest.mark.parametrize("users", [None, [], [{"name": "other", "user": {}}]])
    async def test_no_user(self, tmp_path: Path, users: object) -> None:
        content = config() | {"users": users}
        del content["contexts"][0]["context"]["user"]
        assert (await access_by(tmp_path, content)).headers == ()


class TestProviders:
    @pytest.mark.parametrize("expires", [None, 32_503_680_000])
    async def test_valid_id_token(self, tmp_path: Path, expires: float | None) -> None:
        token = id_token(expires)
        access = await access_by(tmp_path, config(oidc(token, **{"client-secret": None, "refresh-token": None})))
        assert access.headers == (("Authorization", f"Bearer {token}"),)

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


ABSENT_VALUES = {
    "cluster": (
        "certificate-authority",
        "certificate-authority-data",
        "insecure-skip-tls-verify",
        "tls-server-name",
        "proxy-url",
    ),
    "user": (
        "client-certificate",
        "client-certificate-data",
        "client-key",
        "client-key-data",
        "tokenFile",
        "as",
        "as-uid",
        "as-groups",
        "as-user-extra",
        "username",
        "password",
        "auth-provider",
        "exec",
    ),
}


class TestValues:
    """Values that are null or empty, and forms of YAML."""

    @pytest.mark.parametrize(
        ("kind", "key", "value"),
        [
            (kind, key, value)
            for kind, keys in ABSENT_VALUES.items()
            for key in keys
            for value in (None, "")
            if value is None
            or key not in ("insecure-skip-tls-verify", "as-groups", "as-user-extra", "auth-provider", "exec")
        ],
    )
    async def test_null_and_empty_values_are_absent_values(
        self, tmp_path: Path, kind: str, key: str, value: object
    ) -> None:
        content = config({"token": "abc"})
        plain = await access_by(tmp_path, content)
        (entry,) = content[f"{kind}s"]
        entry[kind][key] = value
        access = await access_by(tmp_path, content)
        assert (access.headers, access.server_name, access.proxy) == (plain.headers, plain.server_name, plain.proxy)
        assert access.tls is not None
        assert access.tls.check_hostname

    @pytest.mark.parametrize("value", [None, ""])
    async def test_file_is_used_if_its_data_is_null_or_empty(
        self, tmp_path: Path, authority: Authority, pair: Pair, value: str | None
    ) -> None:
        user: dict[str, object] = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        user |= {"client-certificate-data": value, "client-key-data": value}
        cluster = {"certificate-authority": str(authority.ca), "certificate-authority-data": value}
        access = await access_by(tmp_path, config(user, **cluster))
        assert access.tls is not None
        assert len(access.tls.get_ca_certs()) == 1

    @pytest.mark.parametrize(
        "text",
        [
            f"---\n{BLOCK}---\nmore\n",
            f"\ufeff{BLOCK}",
            BLOCK.replace("\n", "\r\n"),
            json.dumps(config({"token": "2024-01-31"}), indent="\t"),
        ],
        ids=["documents", "byte order mark", "Windows", "tabs"],
    )
    async def test_forms_of_text(self, tmp_path: Path, text: str) -> None:
        assert (await access_by(tmp_path, text)).headers == (("Authorization", "Bearer 2024-01-31"),)


class TestClusters:
    @pytest.mark.parametrize("server", ["http://127.0.0.1:8001", "https://rancher.example.com/k8s/clusters/c-1"])
    async def test_address(self, tmp_path: Path, server: str) -> None:
        access = await access_by(tmp_path, config({}, server=server))
        assert (access.url, access.tls is None) == (server, server.startswith("http:"))

    @pytest.mark.parametrize("server", ["127.0.0.1:8001", "prod.example.com", "prod.example.com:6443", "[::1]:6443"])
    async def test_server_without_scheme_is_asked_by_plain_http_without_credentials(
        self, tmp_path: Path, server: str
    ) -> None:
        content = config({"token": SECRET, "as": "jane"}, server=server, **{"insecure-skip-tls-verify": True})
        access = await access_by(tmp_path, content)
        assert (access.url, access.tls, access.headers) == (f"http://{server}", None, (("Impersonate-User", "jane"),))

    @pytest.mark.parametrize("server", ["127.0.0.1:8001", "http://127.0.0.1:8001"])
    async def test_user_may_be_missing_for_plain_http(self, tmp_path: Path, server: str) -> None:
        content = config({}, server=server)
        content["users"] = []
        assert (await access_by(tmp_path, content)).headers == ()

    async def test_certificate_and_name_of_the_server(self, tmp_path: Path) -> None:
        cluster = {"insecure-skip-tls-verify": True, "tls-server-name": "kubernetes"}
        access = await access_by(tmp_path, config({}, **cluster))
        assert access.tls is not None
        assert not access.tls.check_hostname
        assert access.server_name == "kubernetes"

    async def test_proxy(self, tmp_path: Path) -> None:
        environ = {"HTTPS_PROXY": "http://environment:1"}
        access = await access_by(tmp_path, config({}, **{"proxy-url": "http://file:1"}), environ=environ)
        assert access.proxy == ProxyRule("http://file:1")
        access = await access_by(tmp_path, config({}), environ=environ)
        assert access.proxy == ProxyRule(https="http://environment:1")

    @pytest.mark.parametrize(
        ("cluster", "environ"),
        [({"proxy-url": "socks5://127.0.0.1:1080"}, {}), ({}, {"HTTPS_PROXY": "socks5://127.0.0.1:1080"})],
    )
    def test_proxy_that_is_not_supported_is_refused_before_the_first_request(
        self, tmp_path: Path, cluster: dict[str, str], environ: dict[str, str]
    ) -> None:
        with pytest.raises(ConnectError, match="SOCKS proxies"):
            connection_by(tmp_path, config({}, **cluster), environ=environ)


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
EMPTY = ({"current-context": ""}, {"clusters": None, "users": None, "contexts": None, "current-context": None})
CHANGES: dict[str, dict[str, Any]] = {
    "empty current context": {"current-context": ""},
    "no contexts": {"contexts": []},
    "no clusters": {"clusters": []},
    "no users": {"users": []},
    "cluster that is a text": {"clusters": [{"name": "c", "cluster": SECRET}]},
    "context that is a text": {"contexts": [{"name": "prod", "context": SECRET}]},
}
TEXTS = ("", "{", "just text", "[]", "\x00", '{"clusters": 7}', '{"contexts": [{"context": {}}]}')
REFUSED: dict[str, tuple[object, str | None]] = {
    "absent file of a token": (config({"tokenFile": "token"}), None),
    "id-token that is none": (config(oidc(SECRET)), None),
    "id-token with claims that are none": (config(oidc(f"x.{SECRET}.x")), None),
    "no id-token": (config(oidc(None)), None),
    "expired id-token": (config(oidc(id_token(1))), None),
    "expired id-token that kubectl renews": (config(oidc(id_token(1), **{"refresh-token": SECRET})), None),
    **{f"provider {name!r}": (config(provider(name)), None) for name in ("azure", "gcp", "acme", "")},
    "plugin without a command": (config({"exec": {"command": None}}), None),
    "user that is defined twice": (config() | {"users": [{"name": "u", "user": {"token": SECRET}}] * 2}, None),
    "token that is a number": (config({"token": 7}), None),
    "impersonation of a number": (config({"token": SECRET, "as": 5}), None),
    "groups that are no list": (config({"token": SECRET, "as": SECRET, "as-groups": SECRET}), None),
    "argument of a plugin that is a number": (config({"exec": {"command": "c", "args": [SECRET, 5]}}), None),
    "name of the server that is a number": (config(**{"tls-server-name": 5}), None),
    **{f"name of the server {name!r}": (config(**{"tls-server-name": name}), None) for name in ("a..b", ".a", "a:1")},
    **{
        f"proxy {url!r}": (config(**{"proxy-url": url}), None) for url in ("http://[x", "http://a:99999", "http://a..b")
    },
    **{
        f"server {url!r}": (config(server=url), None)
        for url in (
            "https://a..b",
            "https://a:99999",
            "https://a:0",
            "https://a b",
            "https://a\0b",
            f"https://{64 * 'a'}",
        )
    },
    "other version": (config() | {"apiVersion": "v2"}, None),
    "context without a cluster": (config() | {"contexts": [{"name": "prod", "context": {"user": "u"}}]}, None),
    "user that is a text": (config(SECRET), None),
    "file of a token that is a number": (config({"tokenFile": 7}), None),
    "context with a typing error": (config({"token": SECRET}), "prood"),
    "unknown context": (config({"token": SECRET}), "else"),
    "users that are texts": ({"users": [SECRET], "contexts": [], "clusters": []}, None),
    "no current context": ({key: value for key, value in config().items() if key != "current-context"}, None),
    **{name: (config({"token": SECRET}, **cluster), None) for name, cluster in CLUSTERS.items()},
    **{name: (config({"token": SECRET}) | changes, None) for name, changes in CHANGES.items()},
    **{f"the text {text!r}": (text, None) for text in TEXTS},
}


async def test_refusals_match_golden_file_and_name_no_secret(
    tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    (tmp_path / "secret").write_text(SECRET)
    states = {}
    for name, (content, context) in REFUSED.items():
        with pytest.raises(ConnectError) as caught:
            await access_by(tmp_path, content, context=context)
        states[name] = [str(caught.value).replace(str(tmp_path), "FOLDER")]
    said = of_states(states)
    assert SECRET not in said
    golden("kube/kubeconfigs.txt", said)


async def test_certificates_without_a_writable_folder_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc")  # not writable, as on a read-only root
    content = config({"token": SECRET}, **{"certificate-authority-data": base64.b64encode(b"CA").decode()})
    assert await failure(tmp_path, content) == (
        "context prod: its certificates cannot be written to temporary files (no such file or directory); "
        "make /tmp writable, or name files in the kubeconfig"
    )


class TestPlugins:
    def plugin(self, folder: Path, script: str) -> dict[str, Any]:
        path = folder / "plugin"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        env = [{"name": "CALLER", "value": "env"}]
        return {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": str(path),
                "args": ["arg"],
                "env": env,
                "interactiveMode": "Never",
            }
        }

    def credential(self, **status: str) -> str:
        document = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
        return f"cat <<END\n{json.dumps(document)}\nEND"

    async def test_token(self, tmp_path: Path) -> None:
        user = self.plugin(tmp_path, self.credential(token="$CALLER-$1"))
        connection = connection_by(tmp_path, config(user))
        assert (await connection.access()).headers == (("Authorization", "Bearer env-arg"),)

    async def test_plugin_is_run_again_when_its_token_is_rejected(self, tmp_path: Path) -> None:
        (tmp_path / "current").write_text("one")
        user = self.plugin(tmp_path, self.credential(token=f"$(cat {tmp_path}/current)"))
        connection = connection_by(tmp_path, config(user))
        access = await connection.access()
        (tmp_path / "current").write_text("two")
        assert await connection.access() is access
        connection.reject(access)
        connection._not_before = 0.0
        assert (await connection.access()).headers == (("Authorization", "Bearer two"),)

    async def test_plugin_is_run_again_before_its_token_expires(self, tmp_path: Path) -> None:
        user = self.plugin(tmp_path, self.credential(token="abc", expirationTimestamp="2001-01-01T00:00:00Z"))
        (tmp_path / "plugin").write_text((tmp_path / "plugin").read_text() + f"echo asked >> {tmp_path}/diary\n")
        connection = connection_by(tmp_path, config(user))
        first = await connection.access()
        connection._not_before = 0.0
        assert await connection.access() is first
        assert (tmp_path / "diary").read_text() == "asked\n" * 2

    async def test_plugin_that_writes_to_the_kubeconfig_is_not_run_again(self, tmp_path: Path) -> None:
        script = f"echo >> {tmp_path}/kubeconfig; echo asked >> {tmp_path}/diary\n{self.credential(token='abc')}"
        connection = connection_by(tmp_path, config(self.plugin(tmp_path, script)))
        for _ in range(3):
            await renewed(connection)
        assert (tmp_path / "diary").read_text() == "asked\n"

    async def test_plugin_is_not_run_again_while_its_token_is_valid(self, tmp_path: Path) -> None:
        user = self.plugin(tmp_path, self.credential(token="abc", expirationTimestamp="2999-01-01T00:00:00Z"))
        connection = connection_by(tmp_path, config(user))
        first = await connection.access()
        connection._not_before = 0.0
        assert await connection.access() is first

    async def test_certificate(self, tmp_path: Path, pair: Pair) -> None:
        status = {"clientCertificateData": pair.certificate.read_text(), "clientKeyData": pair.key.read_text()}
        user = self.plugin(tmp_path, self.credential(**status))
        access = await access_by(tmp_path, config(user))
        assert access.headers == ()
        assert access.tls is not None

    async def test_plugin_is_found_in_the_folder_of_the_kubeconfig(self, tmp_path: Path) -> None:
        user = self.plugin(tmp_path, self.credential(token="abc"))
        user["exec"]["command"] = "./plugin"
        assert (await access_by(tmp_path, config(user))).headers == (("Authorization", "Bearer abc"),)

    async def test_receives_the_cluster(self, tmp_path: Path) -> None:
        user = self.plugin(tmp_path, f"echo $KUBERNETES_EXEC_INFO > {tmp_path}/info\n{self.credential(token='abc')}")
        user["exec"]["provideClusterInfo"] = True
        await access_by(tmp_path, config(user))
        info = json.loads((tmp_path / "info").read_text())
        assert (info["kind"], info["apiVersion"]) == ("ExecCredential", "client.authentication.k8s.io/v1")
        assert info["spec"]["cluster"]["server"] == "https://prod.example.com:6443/"
        assert info["spec"]["interactive"] is False

    async def test_receives_the_authority_as_data_and_its_own_configuration(
        self, tmp_path: Path, authority: Authority
    ) -> None:
        user = self.plugin(tmp_path, f"echo $KUBERNETES_EXEC_INFO > {tmp_path}/info\n{self.credential(token='abc')}")
        user["exec"]["provideClusterInfo"] = True
        extensions = [{"name": "else"}, {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}]
        cluster = {"certificate-authority": str(authority.ca), "extensions": extensions, "tls-server-name": None}
        await access_by(tmp_path, config(user, **cluster))
        assert json.loads((tmp_path / "info").read_text())["spec"]["cluster"] == {
            "server": "https://prod.example.com:6443/",
            "certificate-authority-data": encoded(authority.ca),
            "config": {"audience": "x"},
        }

    async def test_yaml(self, tmp_path: Path) -> None:
        user = self.plugin(tmp_path, "echo 'status: {token: abc, expirationTimestamp: 2999-01-01T00:00:00Z}'")
        assert (await access_by(tmp_path, config(user))).headers == (("Authorization", "Bearer abc"),)

    async def test_variables_without_a_value_are_empty(self, tmp_path: Path) -> None:
        user = self.plugin(tmp_path, self.credential(token="<$EMPTY$ABSENT>"))
        user["exec"]["env"] = [{"name": "EMPTY", "value": ""}, {"name": "ABSENT"}]
        assert (await access_by(tmp_path, config(user))).headers == (("Authorization", "Bearer <>"),)

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

    @pytest.mark.parametrize(
        ("script", "complaint"),
        [
            (f"echo expired: {SECRET} >&2; exit 3", "exited with status 3; run it by hand to see why"),
            (f"echo {SECRET}", "printed no ExecCredential; run it by hand"),
            ("echo '{}'", "printed no ExecCredential; run it by hand"),
            ("""echo '{"status":{}}'""", NEITHER),
            ("""echo '{"status":{"clientKeyData":"x"}}'""", NEITHER),
        ],
    )
    async def test_invalid_output_is_refused(self, tmp_path: Path, script: str, complaint: str) -> None:
        user = self.plugin(tmp_path, script)
        assert await failure(tmp_path, config(user)) == f"context prod: the plugin {tmp_path / 'plugin'} {complaint}"

    @pytest.mark.parametrize(
        ("hint", "said"),
        [
            (None, ""),
            ("\n", ""),
            ("Get it:\n\n  cloud components install it.\n", "; its hint: Get it: cloud components install it"),
        ],
    )
    async def test_missing_program_is_refused_with_its_hint(self, tmp_path: Path, hint: str | None, said: str) -> None:
        user = self.plugin(tmp_path, "")
        user["exec"] |= {"command": "no-such-plugin", "installHint": hint}
        message = await failure(tmp_path, config(user))
        assert message == (
            "context prod: the plugin no-such-plugin cannot be run (No such file or directory); "
            f"install it, or add its folder to the PATH{said}"
        )

    async def test_plugin_that_hangs_is_killed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(plugin_module, "PLUGIN_SECONDS", 0.0)
        user = self.plugin(tmp_path, "exec sleep 3600")  # unless it is killed, the test waits for its end
        message = await failure(tmp_path, config(user))
        assert message.endswith("printed no credentials within 0 s; run it by hand")


async def test_kubeconfig_deleted_later_keeps_the_access_until_rejected(tmp_path: Path) -> None:
    connection = connection_by(tmp_path, config({"token": "abc"}))
    access = await connection.access()
    (tmp_path / "kubeconfig").unlink()
    assert await renewed(connection) is access
    connection.reject(access)
    connection._not_before = 0.0
    with pytest.raises(ConnectError, match="no such file; put the kubeconfig there"):
        await connection.access()


def several(folder: Path, *contents: object) -> CredentialSource:
    """Return the credentials by several kubeconfigs, each in a folder of its own: `0/kubeconfig` and so on."""
    paths = [folder / str(number) / "kubeconfig" for number in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return connect_by_kubeconfig([str(path) for path in paths], None, {})


DEV = {
    "current-context": "dev",
    "clusters": [{"name": "d", "cluster": {"server": "https://dev.example.com"}}],
    "contexts": [{"name": "dev", "context": {"cluster": "d"}}],
}


class TestSeveral:
    @pytest.mark.parametrize("first", [{"current-context": "prod"}, config(), config() | {"preferences": None}])
    async def test_first_current_context_wins(self, tmp_path: Path, first: object) -> None:
        connection = several(tmp_path, first, DEV, config() | {"current-context": "dev"})
        assert connection.context == "prod"
        assert (await connection.access()).url == "https://prod.example.com:6443"

    @pytest.mark.parametrize("nothing", ["", "# nothing yet\n", "---\n", "null", "{}", "current-context:", *EMPTY])
    @pytest.mark.parametrize("first", [True, False])
    async def test_file_without_values_sets_nothing(self, tmp_path: Path, nothing: object, *, first: bool) -> None:
        contents = (nothing, config({"token": "abc"})) if first else (config({"token": "abc"}), nothing)
        assert (await several(tmp_path, *contents).access()).headers == (("Authorization", "Bearer abc"),)

    async def test_first_definition_of_a_name_wins(self, tmp_path: Path) -> None:
        first, second = config({}), config({"token": "abc"}, server="https://else.example.com")
        second["contexts"][0]["context"]["cluster"] = "absent"
        access = await several(tmp_path, first, second).access()
        assert (access.url, access.headers) == ("https://prod.example.com:6443", ())

    async def test_paths_are_relative_to_the_file_that_has_them(
        self, tmp_path: Path, authority: Authority, pair: Pair
    ) -> None:
        clusters = config(**{"certificate-authority": "ca.crt"}) | {"users": None}
        users = {"users": [{"name": "u", "user": {"client-certificate": "me.crt", "client-key": "me.key"}}]}
        connection = several(tmp_path, clusters, users)
        (tmp_path / "0" / "ca.crt").write_bytes(authority.ca.read_bytes())
        (tmp_path / "1" / "me.crt").write_bytes(pair.certificate.read_bytes())
        (tmp_path / "1" / "me.key").write_bytes(pair.key.read_bytes())
        access = await connection.access()
        assert access.tls is not None
        assert len(access.tls.get_ca_certs()) == 1

    async def test_file_that_is_none_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ConnectError) as caught:
            several(tmp_path, config(), "{")
        assert str(caught.value).startswith(f"{tmp_path}/1/kubeconfig: not a kubeconfig; ")

    async def test_pipe_is_refused(self, tmp_path: Path) -> None:
        """It can be read only once, and waits for a writer."""
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ConnectError, match="is a pipe, which cannot be read again; write its content into a file"):
            connect_by_kubeconfig([str(tmp_path / "pipe")], None, {})

    async def test_folder_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConnectError, match="is a directory; put a readable kubeconfig there"):
            connect_by_kubeconfig([str(tmp_path)], None, {})

    async def test_several_kubeconfigs_are_merged(self, tmp_path: Path) -> None:
        one, two = tmp_path / "one", tmp_path / "two"
        one.write_text(json.dumps({"current-context": "prod", "contexts": config()["contexts"]}))
        two.write_text(json.dumps({key: config({"token": "abc"})[key] for key in ("clusters", "users")}))
        access = await connect_by_kubeconfig([str(one), str(two)], None, {}).access()
        assert access.headers == (("Authorization", "Bearer abc"),)

    async def test_context_stays_when_the_current_one_changes(self, tmp_path: Path) -> None:
        content = config({"token": "abc"})
        content["contexts"].append({"name": "test", "context": {"cluster": "c"}})
        connection = connection_by(tmp_path, content)
        await connection.access()
        (tmp_path / "kubeconfig").write_text(json.dumps(content | {"current-context": "test"}))
        assert (await renewed(connection)).headers == (("Authorization", "Bearer abc"),)
