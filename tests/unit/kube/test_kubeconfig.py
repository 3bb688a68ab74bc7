"""Valid and broken kubeconfigs."""

import base64
import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.certs import Authority, Pair
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


def refusal(folder: Path, content: object, context: str | None = None) -> str:
    with pytest.raises(ConnectError) as caught:
        connection_by(folder, content, context)
    message = str(caught.value)
    assert message.startswith(f"{folder / 'kubeconfig'}: ")
    assert SECRET not in message
    return message.removeprefix(f"{folder / 'kubeconfig'}: ")


async def test_certificates_without_a_writable_folder_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc")  # not writable, as on a read-only root
    content = config({"token": SECRET}, **{"certificate-authority-data": base64.b64encode(b"CA").decode()})
    assert await failure(tmp_path, content) == (
        "context prod: its certificates cannot be written to temporary files (no such file or directory); "
        "make /tmp writable, or name files in the kubeconfig"
    )


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
    async def test_token(self, tmp_path: Path) -> None:
        access = await access_by(tmp_path, config({"token": "abc"}))
        assert access.url == "https://prod.example.com:6443"
        assert access.headers == (("Authorization", "Bearer abc"),)

    async def test_token_file_is_reread_and_preferred(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("first\n")
        connection = connection_by(tmp_path, config({"tokenFile": "token", "token": "stale"}))
        assert (await connection.access()).headers == (("Authorization", "Bearer first"),)
        (tmp_path / "token").write_text("second\n")
        assert (await renewed(connection)).headers == (("Authorization", "Bearer second"),)

    async def test_absent_token_file_is_refused(self, tmp_path: Path) -> None:
        message = await failure(tmp_path, config({"tokenFile": "token"}))
        assert message == f"{tmp_path / 'token'}: no such file or directory; put a readable file there"

    async def test_password(self, tmp_path: Path) -> None:
        access = await access_by(tmp_path, config({"username": "me", "password": "pw"}))
        assert access.headers == (("Authorization", f"Basic {base64.b64encode(b'me:pw').decode()}"),)

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

    @pytest.mark.parametrize("user", [None, {}])
    async def test_empty_user(self, tmp_path: Path, user: object) -> None:
        assert (await access_by(tmp_path, config(user))).headers == ()

    @pytest.mark.parametrize("users", [None, [], [{"name": "other", "user": {}}]])
    async def test_no_user(self, tmp_path: Path, users: object) -> None:
        content = config() | {"users": users}
        del content["contexts"][0]["context"]["user"]
        assert (await access_by(tmp_path, content)).headers == ()

    async def test_impersonation(self, tmp_path: Path) -> None:
        user = {
            "token": "abc",
            "as": "jane",
            "as-uid": "7",
            "as-groups": ["a", "b"],
            "as-user-extra": {"acme.com/project": ["x"]},
        }
        access = await access_by(tmp_path, config(user))
        assert access.headers[1:] == (
            ("Impersonate-User", "jane"),
            ("Impersonate-Uid", "7"),
            ("Impersonate-Group", "a"),
            ("Impersonate-Group", "b"),
            ("Impersonate-Extra-acme.com%2Fproject", "x"),
        )


class TestClusters:
    async def test_plain_http(self, tmp_path: Path) -> None:
        access = await access_by(tmp_path, config({}, server="http://127.0.0.1:8001"))
        assert (access.url, access.tls) == ("http://127.0.0.1:8001", None)

    async def test_path(self, tmp_path: Path) -> None:
        access = await access_by(tmp_path, config({}, server="https://rancher.example.com/k8s/clusters/c-1"))
        assert access.url == "https://rancher.example.com/k8s/clusters/c-1"

    async def test_insecure(self, tmp_path: Path) -> None:
        access = await access_by(tmp_path, config({}, **{"insecure-skip-tls-verify": True}))
        assert access.tls is not None
        assert not access.tls.check_hostname

    async def test_server_name(self, tmp_path: Path) -> None:
        access = await access_by(tmp_path, config({}, **{"tls-server-name": "kubernetes"}))
        assert access.server_name == "kubernetes"

    async def test_proxy(self, tmp_path: Path) -> None:
        environ = {"HTTPS_PROXY": "http://environment:1"}
        access = await access_by(tmp_path, config({}, **{"proxy-url": "http://file:1"}), environ=environ)
        assert access.proxy == ProxyRule("http://file:1")
        access = await access_by(tmp_path, config({}), environ=environ)
        assert access.proxy == ProxyRule(https="http://environment:1")

    async def test_unsupported_proxy_is_refused(self, tmp_path: Path) -> None:
        message = await failure(tmp_path, config({}, **{"proxy-url": "socks5://file:1"}))
        assert message == "proxy-url: socks5 proxies are not supported; name a proxy with http://"

    async def test_absent_authority_is_refused(self, tmp_path: Path) -> None:
        message = await failure(tmp_path, config({}, **{"certificate-authority": "ca.crt"}))
        assert message == f"context prod: {tmp_path / 'ca.crt'} does not exist; create it or name another file"

    async def test_authority_data_that_is_not_base64_is_refused(self, tmp_path: Path) -> None:
        message = await failure(tmp_path, config({}, **{"certificate-authority-data": "abcde"}))
        assert message == "context prod: a value is not valid base64; copy the kubeconfig again"

    async def test_authority_without_a_certificate_is_refused(self, tmp_path: Path) -> None:
        message = await failure(tmp_path, config({}, **{"certificate-authority-data": "abcd"}))
        assert message == "context prod: its certificates are not usable; copy the kubeconfig again"
        (tmp_path / "ca.crt").write_text(SECRET)
        message = await failure(tmp_path, config({}, **{"certificate-authority": "ca.crt"}))
        assert message.startswith(f"{tmp_path / 'ca.crt'}: contains no CA certificate")


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
        monkeypatch.setattr(plugin_module, "PLUGIN_SECONDS", 1.0)  # enough to start a shell
        user = self.plugin(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 60")
        message = await failure(tmp_path, config(user))
        assert message.endswith("printed no credentials within 1 s; run it by hand")
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)

    async def test_other_errors_name_only_their_type(self, tmp_path: Path) -> None:
        message = await failure(tmp_path, config({"auth-provider": {"name": "oidc", "config": {"id-token": SECRET}}}))
        assert message == "context prod: its credentials cannot be loaded (ValueError); try kubectl with this context"


class TestBroken:
    @pytest.mark.parametrize(
        "content",
        [
            "",
            "{",
            "just text",
            "[]",
            "\x00",
            '{"clusters": 7}',
            '{"contexts": [{"context": {}}]}',
            {"users": [SECRET], "contexts": [], "clusters": []},
            config({"token": SECRET}) | {"clusters": [{"name": "c", "cluster": SECRET}]},
            config({"token": SECRET}) | {"contexts": [{"name": "prod", "context": SECRET}]},
            config(SECRET),
            config({"tokenFile": 7}),
        ],
    )
    def test_file_other_than_a_kubeconfig_is_refused(self, tmp_path: Path, content: object) -> None:
        assert refusal(tmp_path, content) == "not a kubeconfig; look at it with `kubectl config view`"

    def test_unknown_context_is_refused(self, tmp_path: Path) -> None:
        assert refusal(tmp_path, config({}), "prood") == "has no context prood; did you mean prod?"
        assert refusal(tmp_path, config({}), "else") == "has no context else; choose one of prod"

    def test_missing_current_context_is_refused(self, tmp_path: Path) -> None:
        content = config({})
        del content["current-context"]
        assert refusal(tmp_path, content) == "has no current context; choose one with --context: prod"
        assert refusal(tmp_path, content | {"current-context": ""}) == refusal(tmp_path, content)

    def test_kubeconfig_without_contexts_is_refused(self, tmp_path: Path) -> None:
        content = config({}) | {"contexts": []}
        assert refusal(tmp_path, content) == "has no contexts; add one, or name another kubeconfig with --kubeconfig"

    @pytest.mark.parametrize("kind", ["cluster", "user"])
    def test_context_with_a_missing_entry_is_refused(self, tmp_path: Path, kind: str) -> None:
        content = copy.deepcopy(config({"token": SECRET}))
        content["contexts"][0]["context"][kind] = "gone"
        assert refusal(tmp_path, content) == (
            f"context prod: its {kind} gone is missing; add it, or choose another context"
        )

    @pytest.mark.parametrize("server", [None, "", "prod.example.com", "ftp://prod"])
    def test_server_that_is_not_a_url_is_refused(self, tmp_path: Path, server: str | None) -> None:
        message = refusal(tmp_path, config({"token": SECRET}, server=server))
        assert message == "the server of context prod is not a URL; write https://host:port"

    async def test_kubeconfig_deleted_later_keeps_the_access_until_rejected(self, tmp_path: Path) -> None:
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
