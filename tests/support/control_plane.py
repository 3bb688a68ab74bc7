"""Real control planes: etcd and kube-apiservers, each in its own folder, on ports chosen by the kernel.

A plane is built from its parts, so that a test can put proxies between them:

    with Etcd(folder, assets.etcd) as etcd, ControlPlane(folder, assets.kube_apiserver, etcd) as plane:
        plane.writer().create("/api/v1/namespaces/default/configmaps", configmap("a"))

Several apiservers are an HA control plane. `override("/events", other.url)` as a flag keeps events in a second etcd,
`override("/configmaps", proxy_url)` makes one resource's storage link as slow as the proxy. There is no scheduler and
no kubelet: pods stay Pending, which is all a watch needs.
"""

import base64
import contextlib
import json
import secrets
import socket
import ssl
import urllib.request
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import yaml

from tests.support.certs import Authority, Pair
from tests.support.process import PATIENCE_SECONDS, Process, Started, eventually
from tests.support.writer import StatusError, Writer, given_up

HOST = "127.0.0.1"
SECURE_PORT = 6443  # of an apiserver with an address of its own
SERVICE_NAME = "kubernetes.default.svc"  # every apiserver's certificate is valid for it
RPC_SECONDS = PATIENCE_SECONDS
LEADER_SECONDS = PATIENCE_SECONDS
EVERYTHING_READABLE: dict[str, list[str]] = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
REVIEWS: dict[str, list[str]] = {
    "apiGroups": ["authentication.k8s.io", "authorization.k8s.io"],
    "resources": ["tokenreviews", "subjectaccessreviews"],
    "verbs": ["create"],
}
ATTRIBUTES = {
    "apiGroups": "group",
    "resources": "resource",
    "resourceNames": "name",
    "verbs": "verb",
    "nonResourceURLs": "path",
}
"""The names in a review of the keys of a rule."""
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
MAY_SCRAPE: dict[str, list[str]] = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}


class Port:
    """A TCP port reserved for a server that starts later or restarts.

    A socket that is bound but does not listen reserves the port in the kernel, while a server that sets
    SO_REUSEADDR, as Go's do, may bind to the same port and listen.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((HOST, 0))
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        self._socket.close()


class Storage(Protocol):
    """What apiservers keep their objects in: `Etcd`, or a `Kine`."""

    url: str


class Etcd(Started):
    """One etcd member that runs without fsync, alone or with `peers`: the ports of all members, by name."""

    def __init__(
        self, folder: Path, program: Path, name: str = "etcd", peers: Mapping[str, Port] | None = None
    ) -> None:
        members = peers or {name: Port()}
        self._client, self._peer = Port(), members[name]
        self.data = folder / f"{name}.data"
        self.url = f"http://{HOST}:{self._client.number}"
        peer = f"http://{HOST}:{self._peer.number}"
        flags: dict[str, str | Path] = {
            "name": name,
            "data-dir": self.data,
            "listen-client-urls": self.url,
            "advertise-client-urls": self.url,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": ",".join(f"{each}=http://{HOST}:{port.number}" for each, port in members.items()),
            "log-level": "warn",
            # By default every ten minutes: then an idle watch gets a bookmark, by chance in the middle of a test.
            "watch-progress-notify-interval": "24h",
        }
        command: list[str | Path] = [program, "--unsafe-no-fsync", *_as_flags(flags)]
        self.process = Process(folder, name, command)

    def start(self) -> None:
        """Start it and wait until it answers; after `process.stop()` it starts again with its data."""
        self.process.start()
        self.process.until(self.is_healthy, "healthy")

    def close(self) -> None:
        self.process.kill()
        self._client.release()
        self._peer.release()

    def put(self, key: str, value: Any) -> None:
        """Store JSON under a key, without the validation of an apiserver."""
        self._call("/v3/kv/put", {"key": _base64(key), "value": _base64(json.dumps(value))})

    def advance(self, revisions: int) -> None:
        """Make so many commits that concern no apiserver."""
        for _ in range(revisions):
            self.put("/advanced", 0)

    def delete(self, key: str) -> None:
        self._call("/v3/kv/deleterange", {"key": _base64(key)})

    def revision(self) -> int:
        """Return the newest revision."""
        return int(self._status()["header"]["revision"])

    def compact(self, revision: int) -> None:
        """Compact everything older than `revision`."""
        self._call("/v3/kv/compaction", {"revision": str(revision), "physical": True})

    def is_healthy(self) -> bool:
        """Return True if it answers and, with peers, knows the leader."""
        with contextlib.suppress(OSError):
            status = self._status()
            return int(status["header"]["revision"]) > 0 and int(status.get("leader", 0)) > 0
        return False

    def is_leader(self) -> bool:
        """Return True if it answers and leads."""
        with contextlib.suppress(OSError):
            status = self._status(LEADER_SECONDS)
            return bool(status.get("leader") == status["header"]["member_id"])
        return False

    def transfer_leadership(self, member: "Etcd") -> None:
        """Make another member the leader; do nothing if this one no longer leads."""
        with contextlib.suppress(OSError):
            target = member._status()["header"]["member_id"]
            self._call("/v3/maintenance/transfer-leadership", {"targetID": target})

    def _status(self, timeout: float = RPC_SECONDS) -> Any:
        return self._call("/v3/maintenance/status", {}, timeout)

    def _call(self, path: str, body: dict[str, Any], timeout: float = RPC_SECONDS) -> Any:
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)


class Apiserver:
    """One kube-apiserver; `ControlPlane` makes them.

    With a `host` of its own, it announces that address, or `announced`, where a proxy listens at the same port.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        program: Path,
        flags: Sequence[str],
        trust: tuple[Path, str],
        host: str | None = None,
        announced: str | None = None,
    ) -> None:
        self._reserved = Port() if host is None else None
        self._where = host or HOST, self._reserved.number if self._reserved else SECURE_PORT
        self.url = "https://{}:{}".format(*self._where)
        self._ca, self._token = trust
        own = [
            f"--bind-address={self._where[0]}",
            f"--secure-port={self._where[1]}",
            f"--cert-dir={folder / name}",
            *([f"--advertise-address={announced}"] if announced else []),
        ]
        self._command = [str(part) for part in (program, *own, *flags)]
        self.process = Process(folder, name, self._command)

    def start(self) -> None:
        """Start it without waiting; call this from the main thread only."""
        self.process.start()

    def wait_ready(self) -> None:
        """Wait until it is ready and answers; an async test awaits this in a thread."""
        self.process.until(self._ready, "ready")

    def restart(self) -> None:
        """Stop it cleanly, start it again on the same port and wait until it is ready."""
        self.process.end()
        self.start()
        self.wait_ready()

    def use(self, program: Path) -> None:
        """From the next start on, run this program."""
        self._command[0] = self.process.command[0] = str(program)

    def add_flags(self, flags: Sequence[str]) -> None:
        """From the next start on, add these flags to those that it was made with, instead of earlier added ones."""
        self.process.command = [*self._command, *flags]

    def close(self) -> None:
        self.process.kill()  # a clean end takes seconds, and no test judges it
        if self._reserved:
            self._reserved.release()

    def writer(self, token: str) -> Writer:
        """Return a new client of this apiserver that uses `token`."""
        return Writer(self.url, self._ca, token)

    def is_trusted_by(self, ca: Path) -> bool:
        """Return True if this authority issued the certificate that it serves."""
        context = ssl.create_default_context(cafile=ca)
        with contextlib.suppress(ssl.SSLError), socket.create_connection(self._where) as plain:
            context.wrap_socket(plain, server_hostname=self._where[0]).close()
            return True
        return False

    def _ready(self) -> bool:
        with contextlib.suppress(OSError, StatusError), self.writer(self._token) as writer:
            writer.text("/readyz")
            writer.get("/api/v1/namespaces/default")
            writer.revision(
                "/api/v1/namespaces/default/configmaps"
            )  # 429 while its cache is being filled, even if it is ready
            return True
        return False


class ControlPlane(Started):
    """Apiservers that share a storage, which the caller starts and stops; the first is at `url`.

    `flags` go to every apiserver and override the defaults; `link` is the URL of a proxy before the storage, if any.
    `token` is an administrator's. `hosts` are the addresses of apiservers that announce themselves, each its own.
    Their certificate is valid for `addresses` too.
    """

    def __init__(
        self,
        folder: Path,
        program: Path,
        storage: Storage,
        *,
        apiservers: int = 1,
        flags: Sequence[str] = (),
        link: str | None = None,
        hosts: Sequence[str] = (),
        addresses: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.storage = storage
        self._program = program
        self.token = secrets.token_hex(16)
        self.authority = Authority(folder / "certs")
        self.ca = self.authority.ca
        self.serving = self.authority.server("kube-apiserver", ("localhost", SERVICE_NAME), (HOST, *hosts, *addresses))
        self.signing_key = self.authority.key("service-accounts")
        self._common = [*self._flags(), *flags]
        self.apiservers: list[Apiserver] = []
        for host in hosts:
            self.add(link or storage.url, host)
        for _ in range(0 if hosts else apiservers):
            self.add(link or storage.url)

    def start(self) -> None:
        """Start all apiservers and wait until they are ready."""
        for apiserver in self.apiservers:
            apiserver.start()
        for apiserver in self.apiservers:
            apiserver.wait_ready()

    def close(self) -> None:
        for apiserver in self.apiservers:
            apiserver.close()

    def add(self, link: str, host: str | None = None, announced: str | None = None) -> Apiserver:
        """Add another apiserver, which reaches the storage through `link`; the caller starts it."""
        name = f"apiserver-{len(self.apiservers)}"
        flags = [f"--etcd-servers={link}", *self._common]
        apiserver = Apiserver(self.folder, name, self._program, flags, (self.ca, self.token), host, announced)
        self.apiservers.append(apiserver)
        return apiserver

    @property
    def url(self) -> str:
        return self.apiservers[0].url

    @property
    def etcd(self) -> Etcd:
        """The storage, in tests of what only etcd has."""
        assert isinstance(self.storage, Etcd), "this control plane has another storage than etcd"
        return self.storage

    def writer(self, token: str | None = None) -> Writer:
        """Return a new client of the first apiserver, with `token` or else as administrator."""
        return self.apiservers[0].writer(token or self.token)

    def serve_as(self, pair: Pair, ca: Path) -> None:
        """Give the apiservers another certificate, issued by `ca`, and wait until they serve it."""
        pair.replace(self.serving)
        for apiserver in self.apiservers:
            eventually(partial(apiserver.is_trusted_by, ca), "the new certificate is shown")

    def service_account(self, name: str, *rules: dict[str, list[str]], namespace: str = "default") -> str:
        """Create a service account with the given ClusterRole rules; return its token once they are in force."""
        account = {"metadata": {"name": name}}
        role = {"metadata": {"name": name}, "rules": rules}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        with self.writer() as writer:
            writer.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
            writer.create(f"{rbac}/clusterroles", role)
            writer.create(f"{rbac}/clusterrolebindings", binding)
            for rule in rules[:1]:  # all rules of a role come into force at once
                self.until_permitted(namespace, name, rule)
            return writer.service_account_token(namespace, name)

    def until_permitted(
        self, namespace: str, name: str, rule: dict[str, list[str]], within: str = "", *, permitted: bool = True
    ) -> None:
        """Wait until a service account has the permission of a rule, or lacks it: apiservers learn of roles by a watch.

        `within` is the namespace of a Role.
        """
        user = f"system:serviceaccount:{namespace}:{name}"
        first = {attribute: rule[key][0] for key, attribute in ATTRIBUTES.items() if key in rule}
        attributes = first | ({"namespace": within} if within else {})
        for apiserver in (one for one in self.apiservers if one.process.exit_code is None):
            with apiserver.writer(self.token) as writer:
                eventually(
                    lambda: writer.permits(user, **attributes) is permitted,
                    f"{permitted=}: {attributes}",
                )

    def lease(self, name: str) -> None:
        """Create or renew a lease that announces one more live apiserver; it counts for a minute.

        The real ones share a single lease, because its name is made from the name of the machine.
        """
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": name, "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
        metadata = {"name": name, "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver"}}
        with given_up(), self.writer() as writer:
            try:
                writer.create(LEASES, {"metadata": metadata, "spec": spec})
            except StatusError:
                writer.patch(f"{LEASES}/{name}", {"spec": spec})

    def client_certificate(self, user: str) -> Pair:
        """Return a client certificate for `user` in the group `system:masters`."""
        return self.authority.client(user, group="system:masters")

    def kubeconfig(self, name: str = "admin", user: dict[str, Any] | None = None, **cluster: Any) -> Path:
        """Write a kubeconfig for the first apiserver, with the given `user` entry or else as administrator.

        Further keys go into the cluster entry, next to `server` and `certificate-authority`; None removes a key.
        """
        entry = {"server": self.url, "certificate-authority": str(self.ca)} | cluster
        kept = {key: value for key, value in entry.items() if value is not None}
        path = self.folder / f"{name}.kubeconfig"
        write_kubeconfig(path, kept, user or {"token": self.token})
        return path

    def _flags(self) -> list[str]:
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f'{self.token},admin,1,"system:masters"\n')
        flags: dict[str, str | Path] = {
            "tls-cert-file": self.serving.certificate,
            "tls-private-key-file": self.serving.key,
            "client-ca-file": self.ca,
            "service-account-key-file": self.signing_key,
            "service-account-signing-key-file": self.signing_key,
            "service-account-issuer": f"https://{SERVICE_NAME}",
            "token-auth-file": tokens,
            "authorization-mode": "RBAC",
            "service-cluster-ip-range": "10.0.0.0/24",
            "disable-admission-plugins": "ServiceAccount",
            "event-ttl": "24h",  # else events expire after an hour, while tests count them
            "shutdown-watch-termination-grace-period": "5s",  # else open watches delay its end by a minute
        }
        return _as_flags(flags)


def override(resource: str, url: str) -> str:
    """Return the apiserver flag that keeps a resource (`/events`, `apps/deployments`) in another etcd."""
    return f"--etcd-servers-overrides={resource}#{url}"


def write_kubeconfig(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> None:
    """Write a kubeconfig with one context, `tests`, made of the two entries."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": cluster}],
        "users": [{"name": "tests", "user": user}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
        "current-context": "tests",
    }
    path.write_text(yaml.safe_dump(document))
    path.chmod(0o600)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _as_flags(values: dict[str, str | Path]) -> list[str]:
    return [f"--{flag}={value}" for flag, value in values.items()]
