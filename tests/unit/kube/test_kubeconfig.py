"""Valid and broken kubeconfigs."""

import base64
import json
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
NEITHER = "printed neither a token nor a certificate with key; run it by hand"


def config(user: Any = None, **cluster: Any) -> dict[str, Any]:
    return {
        "current-context": "prod",
        "clusters": [{"name": "c", "cluster": {"server": "https://prod.example.com:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],
    }


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
        ids=["none", "empty", "token", "password", "impersonation"],
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

    async def test_certificate_in_files(self, tmp_path: Path, authority: Authority, pair: Pair) -> None:
        user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
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


class TestClusters:
    @pytest.mark.parametrize("server", ["http://127.0.0.1:8001", "https://rancher.example.com/k8s/clusters/c-1"])
    async def test_address(self, tmp_path: Path, server: str) -> None:
        access = await access_by(tmp_path, config({}, server=server))
        assert (access.url, access.tls is None) == (server, server.startswith("http:"))

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


CLUSTERS: dict[str, dict[str, Any]] = {
    "unsupported proxy": {"proxy-url": "socks5://file:1"},
    "absent authority": {"certificate-authority": "ca.crt"},
    "authority that is no base64": {"certificate-authority-data": "abcde"},
    "data that is no authority": {"certificate-authority-data": "abcd"},
    "file that is no authority": {"certificate-authority": "secret"},
    **{f"server {server!r}": {"server": server} for server in (None, "", "prod.example.com", "ftp://prod")},
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
REFUSED: dict[str, tuple[object, str | None]] = {
    "absent file of a token": (config({"tokenFile": "token"}), None),
    "other errors name only their type": (
        config({"auth-provider": {"name": "oidc", "config": {"id-token": SECRET}}}),
        None,
    ),
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
    with pytest.raises(ConnectError, match="not a kubeconfig"):
        await connection.access()


class TestSeveral:
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
