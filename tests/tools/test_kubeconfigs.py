"""Kubeconfigs of many forms: watchslo chooses the cluster and the credentials that kubectl chooses.

Each form is given to kubectl and to watchslo. A local server describes the cluster and the credentials of the request.
"""

import base64
import json
import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.background import ServerThread
from tests.support.certs import Authority, Pair
from tests.support.kubectl import COMMAND_SECONDS
from watchslo.errors import ConnectError
from watchslo.kube.client import Client
from watchslo.kube.connect import connect
from watchslo.kube.limiter import Limiter

PATH = "/version"
REFUSED = "refused"
PROMPT = "Please enter Username"  # of kubectl, where watchslo is anonymous
TOKEN = {"token": "abc"}
FAR = "2999-01-01T00:00:00Z"
EXEC_API = "client.authentication.k8s.io/v1"


class RecordingServer(ServerThread):
    """An apiserver that answers everything, and describes the last request for `PATH`."""

    def __init__(self, pair: Pair | None, ca: Path) -> None:
        self.last = REFUSED
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = b'{"major":"1","minor":"32","gitVersion":"v1.32.0"}'
                if self.path.partition("?")[0].endswith(PATH):
                    server.last = server.described(self)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if pair:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pair.certificate, pair.key)
            context.load_verify_locations(ca)
            context.verify_mode = ssl.CERT_OPTIONAL
            listening.socket = context.wrap_socket(listening.socket, server_side=True)
        super().__init__(listening)
        self.url = f"{'https' if pair else 'http'}://127.0.0.1:{listening.server_port}"

    @staticmethod
    def described(request: BaseHTTPRequestHandler) -> str:
        """Return the cluster and the credentials of a request: headers and the name in the client certificate."""
        headers = sorted((name.lower(), value) for name, value in request.headers.items())
        sent = [f"{name}: {value}" for name, value in headers if name.startswith(("authorization", "impersonate-"))]
        certificate = request.connection.getpeercert() if isinstance(request.connection, ssl.SSLSocket) else None
        fields: Any = (certificate or {}).get("subject", ())
        names = [value for field in fields for key, value in field if key == "commonName"]
        return "; ".join([request.path.partition("?")[0].removesuffix(PATH), *sent, *names])


@dataclass(frozen=True)
class Place:
    """What forms refer to: a folder of their own, the servers, and certificates."""

    folder: Path
    url: str
    plain: str
    ca: Path
    one: Pair
    two: Pair

    def filled(self, text: str) -> str:
        """Return a text with the values of this run."""
        values = {
            "URL": self.url,
            "PLAIN": self.plain,
            "HOST": self.plain.removeprefix("http://"),
            "LOCALHOST": self.plain.removeprefix("http://").replace("127.0.0.1", "localhost"),
            "UPPER": self.url.replace("https", "HTTPS"),
            "FOLDER": self.folder,
            "CA": self.ca,
        }
        for name, pair in (("ONE", self.one), ("TWO", self.two)):
            values |= {f"{name}_CRT": pair.certificate, f"{name}_KEY": pair.key}
        for name, value in values.items():
            text = text.replace(f"<{name}>", str(value))
            if isinstance(value, Path) and value.is_file():
                text = text.replace(f"<{name}_DATA>", base64.b64encode(value.read_bytes()).decode())
        return text


@dataclass(frozen=True)
class Form:
    """Files of a user: their content by path, those that KUBECONFIG lists, and a context of the command line."""

    files: Mapping[str, object]
    listed: Sequence[str]
    context: str | None = None


def config(
    user: object = None, cluster: Mapping[str, object] | None = None, *, name: str = "a", **top: object
) -> dict[str, object]:
    """Return a kubeconfig with one context, cluster and user of this name; a key of `top` replaces another."""
    found: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [
            {"name": name, "cluster": {"server": f"<URL>/{name}", "certificate-authority": "<CA>", **(cluster or {})}}
        ],
        "users": [{"name": name, "user": TOKEN if user is None else user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    return found | {key.replace("_", "-"): value for key, value in top.items()}


def one(content: object, context: str | None = None, **files: object) -> Form:
    return Form({"config": content, **files}, ["config"], context)


def several(*contents: object) -> Form:
    named = {f"{number}/config": content for number, content in enumerate(contents)}
    return Form(named, list(named))


def without(content: Mapping[str, object], *keys: str) -> dict[str, object]:
    return {key: value for key, value in content.items() if key not in keys}


def plugin(status: object, **fields: object) -> dict[str, object]:
    """Return a user with an exec plugin that prints this status, as JSON, or a text as it is."""
    printed = (
        status
        if isinstance(status, str)
        else json.dumps({"apiVersion": EXEC_API, "kind": "ExecCredential", "status": status})
    )
    script = f"cat <<'END'\n{printed}\nEND"
    exec_ = {"apiVersion": EXEC_API, "command": "sh", "args": ["-c", script], "interactiveMode": "Never", **fields}
    return {"exec": exec_}


def printing(token: str) -> str:
    """Return a program that prints a token, which may refer to its environment."""
    status = json.dumps({"apiVersion": EXEC_API, "kind": "ExecCredential", "status": {"token": token}})
    return f"#!/bin/sh\ncat <<END\n{status}\nEND\n"


def jwt(expires: int) -> str:
    """Return an unsigned token of OpenID Connect that expires then (Unix seconds)."""
    parts = ({"alg": "none"}, {"exp": expires})
    return ".".join(
        [*(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts), "x"]
    )


VALID, EXPIRED = jwt(32_503_680_000), jwt(1)
ISSUER = {"idp-issuer-url": "https://127.0.0.1:1", "client-id": "kubernetes"}


def oidc(**fields: object) -> dict[str, object]:
    return {
        "auth-provider": {
            "name": "oidc",
            "config": ISSUER | {key.replace("_", "-"): value for key, value in fields.items()},
        }
    }


ONE = {"client-certificate": "<ONE_CRT>", "client-key": "<ONE_KEY>"}
ONE_DATA = {"client-certificate-data": "<ONE_CRT_DATA>", "client-key-data": "<ONE_KEY_DATA>"}
NO_PATH_CA = {"certificate-authority": None}
A, B = config(), config({"token": "b"}, name="b")
BLOCK = """
apiVersion: v1
kind: Config
current-context: a
clusters:
- name: a
  cluster: {server: <URL>/a, certificate-authority: <CA>}
users:
- name: a
  user: {token: abc}
contexts:
- name: a
  context: {cluster: a, user: a}
"""

FORMS: dict[str, Form] = {
    # one file
    "plain": one(A),
    "YAML": one(BLOCK),
    "two YAML documents": one(f"---{BLOCK}---\n{BLOCK.replace('abc', 'def')}"),
    "Windows lines": one(BLOCK.replace("\n", "\r\n")),
    "byte order mark": one(f"\ufeff{BLOCK.lstrip()}"),
    "anchors": one(BLOCK.replace("{token: abc}", "&x {token: abc}") + "x: {<<: *x}\n"),
    "names like dates": one(
        BLOCK.replace(": a\n", ": 2024-01-31\n").replace("cluster: a, user: a", "cluster: 2024-01-31, user: 2024-01-31")
    ),
    "token like a date": one(BLOCK.replace("abc", "2024-01-31")),
    "token that is a number": one(config({"token": 123})),
    "token that is a truth value": one(BLOCK.replace("abc", "yes")),
    "name that is a number": one(BLOCK.replace(": a\n", ": 7\n").replace("cluster: a, user: a", "cluster: 7, user: 7")),
    "unknown keys": one(config(x=1, preferences={"colors": True}, extensions=[{"name": "x", "extension": {}}])),
    "no version": one(without(A, "apiVersion", "kind")),
    "other version": one(config(apiVersion="v2")),
    "other kind": one(config(kind="ConfigMap")),
    "named context": one(config(current_context=None), "a"),
    "absent context": one(A, "b"),
    "absent current context": one(config(current_context="b")),
    "no current context": one(without(A, "current-context")),
    "current context null": one(config(current_context=None)),
    "name twice": one(config(users=[{"name": "a", "user": TOKEN}, {"name": "a", "user": {"token": "def"}}])),
    "context twice": one(config(contexts=[{"name": "a", "context": {"cluster": "a", "user": "a"}}] * 2)),
    "clusters null": one(config(clusters=None)),
    "users null, and none named": one(config(users=None, contexts=[{"name": "a", "context": {"cluster": "a"}}])),
    "user null": one(config(users=[{"name": "a", "user": None}])),
    "user without content": one(config(users=[{"name": "a"}])),
    "user of a context null": one(config(contexts=[{"name": "a", "context": {"cluster": "a", "user": None}}])),
    "context null": one(config(contexts=[{"name": "a", "context": None}])),
    "cluster without content": one(config(clusters=[{"name": "a"}])),
    "cluster null": one(config(clusters=[{"name": "a", "cluster": None}])),
    "entry null": one(config(users=[None, {"name": "a", "user": TOKEN}])),
    "clusters as a mapping": one(config(clusters={"a": {"server": "<URL>/a"}})),
    "empty file": one(""),
    "comments only": one("# nothing yet\n"),
    "text": one("just text"),
    "list": one("[]"),
    "half a file": one(BLOCK[:-12] + '"'),
    "JSON with tabs": one(json.dumps(A, indent="\t")),
    "tab after a value": one(BLOCK.replace("name: a\n", "name: a\t\n")),
    # servers
    "server with its scheme in upper case": one(config(cluster={"server": "<UPPER>/a"})),
    "server with slash": one(config(cluster={"server": "<URL>/a/"})),
    "server empty": one(config(cluster={"server": ""})),
    "server null": one(config(cluster={"server": None})),
    "server without scheme": one(config(cluster={"server": "<HOST>"})),
    "server without scheme, authority null": one(config(cluster={**NO_PATH_CA, "server": "<HOST>"})),
    "server without scheme, authority as data": one(
        config(cluster={**NO_PATH_CA, "server": "<HOST>", "certificate-authority-data": "<CA_DATA>"})
    ),
    "server without scheme, skips verification": one(
        config(cluster={**NO_PATH_CA, "server": "<HOST>", "insecure-skip-tls-verify": True})
    ),
    "server without scheme, with a server name": one(
        config(cluster={"server": "<HOST>", "tls-server-name": "localhost"})
    ),
    "server without scheme, but a name": one(config(cluster={"server": "<LOCALHOST>"})),
    "server without scheme, with a slash": one(config(cluster={"server": "<HOST>/"})),
    "server without scheme, with a path": one(config(cluster={"server": "<HOST>/a"})),
    "server without scheme, with a query": one(config(cluster={"server": "<HOST>?a=b"})),
    "server without scheme, with slashes": one(config(cluster={"server": "//<HOST>"})),
    "server without scheme, by certificate": one(config(ONE, {"server": "<HOST>"})),
    "server without scheme, by password": one(config({"username": "me", "password": "pw"}, {"server": "<HOST>"})),
    "server without scheme, by plugin": one(config(plugin({"token": "p"}), {"server": "<HOST>"})),
    "server without scheme, by provider": one(config({"auth-provider": {"name": "acme"}}, {"server": "<HOST>"})),
    "server without scheme, as another user": one(
        config(TOKEN | {"as": "jane", "as-uid": "7", "as-groups": ["g"]}, {"server": "<HOST>"})
    ),
    "server without scheme, and no such user": one(config(cluster={"server": "<HOST>"}, users=[])),
    "server without host": one(config(cluster={"server": "https:///a"})),
    "server by FTP": one(config(cluster={"server": "ftp://<HOST>"})),
    "server is plain HTTP, and no such user": one(config(cluster={"server": "<PLAIN>/a"}, users=[])),
    "server with a query": one(config(cluster={"server": "<URL>/a?b=c#d"})),
    "server is plain HTTP": one(config(cluster={"server": "<PLAIN>/a"})),
    "password to plain HTTP": one(config({"username": "me", "password": "pw"}, {"server": "<PLAIN>/a"})),
    "plugin and plain HTTP": one(config(plugin({"token": "p"}), {"server": "<PLAIN>/a"})),
    "authority as data": one(config(cluster={**NO_PATH_CA, "certificate-authority-data": "<CA_DATA>"})),
    "authority null, data given": one(
        config(cluster={"certificate-authority": None, "certificate-authority-data": "<CA_DATA>"})
    ),
    "authority empty, data given": one(
        config(cluster={"certificate-authority": "", "certificate-authority-data": "<CA_DATA>"})
    ),
    "data null": one(config(cluster={"certificate-authority-data": None})),
    "data empty": one(config(cluster={"certificate-authority-data": ""})),
    "authority null": one(config(cluster=NO_PATH_CA)),
    "authority absent": one(config(cluster={"certificate-authority": "absent.crt"})),
    "authority both": one(config(cluster={"certificate-authority-data": "<CA_DATA>"})),
    "data that is no base64": one(config(cluster={**NO_PATH_CA, "certificate-authority-data": "abcde"})),
    "data that is no certificate": one(config(cluster={**NO_PATH_CA, "certificate-authority-data": "abcd"})),
    "data on several lines": one(config(cluster={**NO_PATH_CA, "certificate-authority-data": "<CA_DATA>\n"})),
    "skips verification": one(config(cluster={**NO_PATH_CA, "insecure-skip-tls-verify": True})),
    "skips verification, with an authority": one(config(cluster={"insecure-skip-tls-verify": True})),
    "skipping null": one(config(cluster={"insecure-skip-tls-verify": None})),
    "skipping as a text": one(config(cluster={"insecure-skip-tls-verify": "true"})),
    "server name": one(config(cluster={"tls-server-name": "localhost"})),
    "wrong server name": one(config(cluster={"tls-server-name": "elsewhere"})),
    "server name null": one(config(cluster={"tls-server-name": None})),
    "server name empty": one(config(cluster={"tls-server-name": ""})),
    "proxy null": one(config(cluster={"proxy-url": None})),
    "proxy empty": one(config(cluster={"proxy-url": ""})),
    "proxy without scheme": one(config(cluster={"proxy-url": "127.0.0.1:1"})),
    "proxy without scheme, but a name": one(config(cluster={"proxy-url": "localhost:1"})),
    "proxy by FTP": one(config(cluster={"proxy-url": "ftp://127.0.0.1:1"})),
    # users
    "token null, certificate": one(config({"token": None, **ONE})),
    "token empty, certificate": one(config({"token": "", **ONE})),
    "certificate": one(config(ONE)),
    "certificate as data": one(config(ONE_DATA)),
    "certificate and empty data": one(config(ONE | {"client-certificate-data": "", "client-key-data": ""})),
    "certificate and null data": one(config(ONE | {"client-certificate-data": None, "client-key-data": None})),
    "certificate empty, with data": one(config(ONE_DATA | {"client-certificate": "", "client-key": ""})),
    "certificate null, with data": one(config(ONE_DATA | {"client-certificate": None, "client-key": None})),
    "certificate empty, with token": one(config(TOKEN | {"client-certificate": "", "client-key": ""})),
    "certificate of data and key of a file": one(
        config({"client-certificate-data": "<ONE_CRT_DATA>", "client-key": "<ONE_KEY>"})
    ),
    "certificate twice": one(config(ONE | ONE_DATA)),
    "certificate without key": one(config({"client-certificate": "<ONE_CRT>"})),
    "key without certificate": one(config(TOKEN | {"client-key": "<ONE_KEY>"})),
    "certificate and token": one(config(ONE | TOKEN)),
    "certificate absent": one(config({"client-certificate": "absent", "client-key": "absent"})),
    "token file": one(config({"tokenFile": "token"}), token="from-file\n"),
    "token file and token": one(config({"tokenFile": "token", "token": "abc"}), token="from-file\n"),
    "token file null": one(config({"tokenFile": None, "token": "abc"})),
    "token file empty": one(config({"tokenFile": "", "token": "abc"})),
    "token file absent": one(config({"tokenFile": "token"})),
    "token file absent, with token": one(config({"tokenFile": "token", "token": "abc"})),
    "token file without content, with token": one(config({"tokenFile": "token", "token": "abc"}), token=""),
    "password": one(config({"username": "me", "password": "pw"})),
    "password null, with token": one(config({"username": None, "password": None, "token": "abc"})),
    "user name without password": one(config({"username": "me"})),
    "password empty": one(config({"username": "me", "password": ""})),
    "password that is a number": one(config({"username": "me", "password": 12345})),
    "password and token": one(config({"username": "me", "password": "pw", **TOKEN})),
    "impersonation": one(
        config(TOKEN | {"as": "jane", "as-uid": "7", "as-groups": ["g"], "as-user-extra": {"k": ["v"]}})
    ),
    "impersonation null": one(config(TOKEN | {"as": None, "as-uid": None, "as-groups": None, "as-user-extra": None})),
    "impersonation empty": one(config(TOKEN | {"as": "", "as-groups": [], "as-user-extra": {}})),
    "groups without a user": one(config(TOKEN | {"as-groups": ["g"]})),
    # several files
    "first current context": several({"current-context": "b"}, {**A, "clusters": A["clusters"]}, B),
    "session and main": several({"apiVersion": "v1", "kind": "Config", "current-context": "b"}, config(), B),
    "first has an empty current context": several({"current-context": ""}, A),
    "first has current context null": several({"current-context": None}, A),
    "last has an empty current context": several(A, {"current-context": ""}),
    "last has current context null": several(A, {"current-context": None}),
    "first user wins": several(A, config({"token": "later"})),
    "first cluster wins": several(A, config(cluster={"server": "<URL>/later"})),
    "first context wins": several(A, B, config(contexts=[{"name": "a", "context": {"cluster": "b", "user": "b"}}])),
    "empty user wins": several(config(users=[{"name": "a", "user": {}}]), A),
    "user without token wins": several(config({"as": "jane"}), A),
    "empty context wins": several(config(contexts=[{"name": "a", "context": {}}]), A),
    "cluster without server wins": several(
        config(clusters=[{"name": "a", "cluster": {"certificate-authority": "<CA>"}}]), A
    ),
    "parts in three files": several(
        {"clusters": A["clusters"]}, {"users": A["users"]}, {"contexts": A["contexts"], "current-context": "a"}
    ),
    "empty file first": several("", A),
    "comments first": several("# none\n", A),
    "a mark of a document first": several("---\n", A),
    "null first": several("null\n", A),
    "empty mapping first": several("{}", A),
    "empty file last": several(A, ""),
    "comments last": several(A, "# none\n"),
    "lists null first": several({"clusters": None, "users": None, "contexts": None}, A),
    "absent file first": Form({"config": A}, ["absent", "config"]),
    "absent file last": Form({"config": A}, ["config", "absent"]),
    "empty names in the list": Form({"config": A}, ["", "config", ""]),
    "one file twice": Form({"config": A}, ["config", "config"]),
    "folder in the list": Form({"folder/x": "", "config": A}, ["folder", "config"]),
    "invalid file last": several(A, "{"),
    "relative authority": Form(
        {"ra/config": config(cluster={"certificate-authority": "ca.crt"}), "ra/ca.crt": "<CA>"}, ["ra/config"]
    ),
    "paths of two files": Form(
        {
            "ra/clusters": {**config(cluster={"certificate-authority": "ca.crt"}), "users": None},
            "rb/users": {"users": [{"name": "a", "user": {"client-certificate": "me.crt", "client-key": "me.key"}}]},
            "ra/ca.crt": "<CA>",
            "rb/me.crt": "<ONE_CRT>",
            "rb/me.key": "<ONE_KEY>",
        },
        ["ra/clusters", "rb/users"],
    ),
    "path above": Form({"ra/config": config({"tokenFile": "../rb/token"}), "rb/token": "above"}, ["ra/config"]),
    "token file of the second file": Form(
        {
            "ra/clusters": {**A, "users": None},
            "rb/users": {"users": [{"name": "a", "user": {"tokenFile": "token"}}]},
            "rb/token": "second",
        },
        ["ra/clusters", "rb/users"],
    ),
    # plugins
    "plugin": one(config(plugin({"token": "p"}))),
    "plugin with expiry": one(config(plugin({"token": "p", "expirationTimestamp": FAR}))),
    "plugin prints YAML": one(config(plugin(f"apiVersion: {EXEC_API}\nkind: ExecCredential\nstatus:\n  token: p"))),
    "plugin prints null values": one(
        config(plugin({"token": "p", "clientCertificateData": None, "expirationTimestamp": None}))
    ),
    "plugin prints empty values": one(config(plugin({"token": "p", "clientCertificateData": "", "clientKeyData": ""}))),
    "plugin prints a certificate only": one(config(plugin({"token": "p", "clientCertificateData": "x"}))),
    "plugin prints another version": one(
        config(
            plugin(json.dumps({"apiVersion": f"{EXEC_API}beta1", "kind": "ExecCredential", "status": {"token": "p"}}))
        )
    ),
    "plugin prints no version": one(config(plugin(json.dumps({"status": {"token": "p"}})))),
    "plugin prints no kind": one(config(plugin(json.dumps({"apiVersion": EXEC_API, "status": {"token": "p"}})))),
    "plugin prints nothing": one(config(plugin(""))),
    "plugin prints no status": one(config(plugin(json.dumps({"apiVersion": EXEC_API, "kind": "ExecCredential"})))),
    "plugin fails": one(config({"exec": {"apiVersion": EXEC_API, "command": "false", "interactiveMode": "Never"}})),
    "plugin of v1beta1": one(
        config(
            plugin(
                json.dumps({"apiVersion": f"{EXEC_API}beta1", "kind": "ExecCredential", "status": {"token": "p"}}),
                apiVersion=f"{EXEC_API}beta1",
                interactiveMode=None,
            )
        )
    ),
    "plugin of v1alpha1": one(config(plugin({"token": "p"}, apiVersion=f"{EXEC_API}alpha1"))),
    "plugin without version": one(config(plugin({"token": "p"}, apiVersion=None))),
    "plugin without mode": one(config(plugin({"token": "p"}, interactiveMode=None))),
    "plugin of unknown mode": one(config(plugin({"token": "p"}, interactiveMode="Sometimes"))),
    "plugin that needs a terminal": one(config(plugin({"token": "p"}, interactiveMode="Always"))),
    "plugin without command": one(config(plugin({"token": "p"}, command=""))),
    "plugin null": one(config(TOKEN | {"exec": None})),
    "plugin and token": one(config(TOKEN | plugin({"token": "p"}))),
    "plugin and certificate": one(config(ONE | plugin({"token": "p"}))),
    "plugin with empty lists": one(config(plugin({"token": "p"}, env=None, installHint=None, provideClusterInfo=None))),
    "plugin with an environment": one(
        config(
            {
                "exec": {
                    "apiVersion": EXEC_API,
                    "command": "./plugin",
                    "interactiveMode": "IfAvailable",
                    "env": [{"name": "X", "value": "v"}, {"name": "Y", "value": ""}, {"name": "Z"}],
                }
            }
        ),
        plugin=printing("$X-$Y-$Z"),
    ),
    "plugin in a folder below": one(
        config({"exec": {"apiVersion": EXEC_API, "command": "bin/plugin", "interactiveMode": "Never"}}),
        **{"bin/plugin": printing("below")},
    ),
    # providers
    "OIDC": one(config(oidc(id_token=VALID, refresh_token="r"))),
    "OIDC without refresh token": one(config(oidc(id_token=VALID))),
    "OIDC with a secret": one(config(oidc(id_token=VALID, client_secret="s", refresh_token="r"))),
    "OIDC expired, without refresh token": one(config(oidc(id_token=EXPIRED))),
    "OIDC with null values": one(config(oidc(id_token=VALID, client_secret=None, refresh_token=None))),
    "OIDC without tokens": one(config(oidc())),
    "OIDC with a token that is none": one(config(oidc(id_token="abc"))),
    "OIDC without configuration": one(config({"auth-provider": {"name": "oidc"}})),
    "OIDC and a token": one(config(TOKEN | oidc(id_token=VALID))),
    "OIDC and a plugin": one(config(oidc(id_token=VALID) | plugin({"token": "p"}))),
    "azure": one(config({"auth-provider": {"name": "azure", "config": {"access-token": "abc"}}})),
    "gcp": one(config({"auth-provider": {"name": "gcp", "config": {"access-token": "abc"}}})),
    "unknown provider": one(config({"auth-provider": {"name": "acme"}})),
    "provider without a name": one(config({"auth-provider": {}})),
    "provider null": one(config(TOKEN | {"auth-provider": None})),
}


LENIENT = {
    "authority both",
    "skips verification, with an authority",
    "certificate twice",
    "password and token",
    "groups without a user",
    "plugin prints a certificate only",
    "plugin prints another version",
    "plugin prints no version",
    "plugin of v1alpha1",
    "plugin without version",
    "plugin without mode",
    "plugin of unknown mode",
    "plugin that needs a terminal",
    "OIDC and a plugin",
}
"""Forms that say something twice or too little, which kubectl refuses. They name one cluster, and watchslo asks it."""
UNENCRYPTED = {"server is plain HTTP", "password to plain HTTP", "plugin and plain HTTP"}
"""Forms with which kubectl is anonymous: it keeps credentials for TLS. watchslo sends them; a proxy may need them."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority") / "ca")


@pytest.fixture(scope="module")
def secured(authority: Authority) -> Iterator[RecordingServer]:
    with RecordingServer(authority.server("apiserver"), authority.ca) as server:
        yield server


@pytest.fixture(scope="module")
def plain(authority: Authority) -> Iterator[RecordingServer]:
    with RecordingServer(None, authority.ca) as server:
        yield server


@pytest.fixture(scope="module")
def pairs(authority: Authority) -> tuple[Pair, Pair]:
    return authority.client("one"), authority.client("two")


@pytest.fixture
def place(
    tmp_path: Path, secured: RecordingServer, plain: RecordingServer, authority: Authority, pairs: tuple[Pair, Pair]
) -> Place:
    return Place(tmp_path, secured.url, plain.url, authority.ca, *pairs)


def written(form: Form, place: Place) -> dict[str, str]:
    """Write the files of a form; return the environment of its user."""
    for name, content in form.files.items():
        path = place.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = place.filled(content if isinstance(content, str) else json.dumps(content))
        if path.suffix in (".crt", ".key"):
            text = Path(text).read_text()  # a copy of the file that the form names
        path.write_text(text, newline="")
        path.chmod(0o700)
    listed = os.pathsep.join(name and str(place.folder / name) for name in form.listed)
    return {"HOME": str(place.folder), "KUBECONFIG": listed, "PATH": os.environ["PATH"]}


def asked_by_kubectl(servers: Sequence[RecordingServer], environ: Mapping[str, str], context: str | None) -> str:
    """Return the request of kubectl, or that it refuses the form, or asks for a user name."""
    program = shutil.which("kubectl")
    assert program is not None, "there is no kubectl here"
    done = subprocess.run(
        [program, *(["--context", context] if context else []), "version"],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    request = recorded(servers)
    return PROMPT if PROMPT in done.stdout else request


async def asked_by_watchslo(servers: Sequence[RecordingServer], environ: Mapping[str, str], context: str | None) -> str:
    """Return the request of watchslo, or that it refuses the form."""
    try:
        credentials = connect(None, context, environ)
    except ConnectError:
        return REFUSED
    async with Client(credentials, Limiter(1e6), lambda *_: None) as client:
        await client.version()
    await credentials.close()
    return recorded(servers)


def recorded(servers: Sequence[RecordingServer]) -> str:
    """Return the last request, and forget it."""
    found = next((server.last for server in servers if server.last != REFUSED), REFUSED)
    for server in servers:
        server.last = REFUSED
    return found


@pytest.mark.parametrize("name", FORMS)
async def test_form_is_read_as_by_kubectl(
    name: str, place: Place, secured: RecordingServer, plain: RecordingServer
) -> None:
    form, servers = FORMS[name], (secured, plain)
    environ = written(form, place)
    expected = asked_by_kubectl(servers, environ, form.context)
    found = await asked_by_watchslo(servers, environ, form.context)
    if name in LENIENT:
        assert expected == REFUSED
        assert found.startswith("/a; ")
    elif name in UNENCRYPTED:
        assert expected == "/a"
        assert found.startswith("/a; authorization: ")
    elif expected == PROMPT:
        assert found.startswith("/a")
        assert "authorization" not in found
    else:
        assert found == expected


async def test_plugin_gets_the_information_that_kubectl_gives(
    place: Place, secured: RecordingServer, plain: RecordingServer
) -> None:
    """What it gets is the token that it prints."""
    script = (
        f'printf \'{{"apiVersion":"{EXEC_API}","kind":"ExecCredential","status":{{"token":"%s"}}}}\' '
        '"$(printf %s "$KUBERNETES_EXEC_INFO" | base64 -w 0)"'
    )
    user = plugin({}, args=["-c", script], provideClusterInfo=True)
    extensions = [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x", "nothing": 1}}]
    form, servers = one(config(user, {"extensions": extensions, "tls-server-name": "localhost"})), (secured, plain)
    environ = written(form, place)
    requests = asked_by_kubectl(servers, environ, None), await asked_by_watchslo(servers, environ, None)
    expected, found = (json.loads(base64.b64decode(request.rpartition(" ")[2])) for request in requests)
    assert found == expected
    assert found["spec"]["cluster"]["config"] == {"audience": "x", "nothing": 1}
