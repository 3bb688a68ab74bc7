"""Real control planes: etcd and kube-apiservers, in a folder of their own, on ports of the kernel's choice.

A plane is put together from its parts, so that a test may stand between them:

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
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import yaml

from tests.support.certs import Authority, Pair
from tests.support.process import Process, eventually
from tests.support.writer import StatusError, Writer

HOST = "127.0.0.1"
SERVICE_NAME = "kubernetes.default.svc"  # every apiserver's certificate is valid for it
READY_SECONDS = 180.0  # 3 s when the machine is ours alone
RPC_SECONDS = 60.0  # etcd may be idle work
RELOADED_SECONDS = 120.0  # an apiserver looks at its certificate once a minute, if nothing tells it to
RBAC_SECONDS = 60.0  # until an apiserver knows a role; milliseconds when nothing is wrong
END_SECONDS = 60.0  # an end in peace takes seconds: one by force looks different to clients
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
"""What a review calls the keys of a rule."""
MAY_SCRAPE: dict[str, list[str]] = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}


class Port:
    """A TCP port held for a server that is yet to start, or to start again.

    A socket that is bound but does not listen keeps the kernel from giving the port away, while a server that sets
    SO_REUSEADDR, as Go's do, may bind and listen beside it.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((HOST, 0))
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        self._socket.close()


class Etcd:
    """One etcd member that forgets to fsync."""

    def __init__(self, folder: Path, program: Path, name: str = "etcd") -> None:
        self._client, self._peer = Port(), Port()
        self.data = folder / f"{name}.data"
        self.url = f"http://{HOST}:{self._client.number}"
        peer = f"http://{HOST}:{self._peer.number}"
        flags: dict[str, str | Path] = {
            "data-dir": self.data,
            "listen-client-urls": self.url,
            "advertise-client-urls": self.url,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "log-level": "warn",
        }
        command: list[str | Path] = [program, "--unsafe-no-fsync", *_as_flags(flags)]
        self.process = Process(folder, name, command)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Starts it and waits until it answers; after `process.stop()` it starts again with its data."""
        self.process.start()
        self.process.until(self._healthy, READY_SECONDS, "healthy")

    def close(self) -> None:
        self.process.stop()
        self._client.release()
        self._peer.release()

    def put(self, key: str, value: Any) -> None:
        """Stores JSON under a key, past all that an apiserver would have against it."""
        self._call("/v3/kv/put", {"key": _base64(key), "value": _base64(json.dumps(value))})

    def delete(self, key: str) -> None:
        self._call("/v3/kv/deleterange", {"key": _base64(key)})

    def revision(self) -> int:
        """The newest revision."""
        return int(self._call("/v3/maintenance/status", {})["header"]["revision"])

    def compact(self, revision: int) -> None:
        """Forgets everything older than `revision`."""
        self._call("/v3/kv/compaction", {"revision": str(revision), "physical": True})

    def _healthy(self) -> bool:
        with contextlib.suppress(OSError):
            return self.revision() > 0
        return False

    def _call(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=RPC_SECONDS) as answer:
            return json.load(answer)


class Apiserver:
    """One kube-apiserver; `ControlPlane` makes them."""

    def __init__(self, folder: Path, name: str, program: Path, flags: Sequence[str], trust: tuple[Path, str]) -> None:
        self._port = Port()
        self.url = f"https://{HOST}:{self._port.number}"
        self._ca, self._token = trust
        own = [f"--bind-address={HOST}", f"--secure-port={self._port.number}", f"--cert-dir={folder / name}"]
        self.process = Process(folder, name, [program, *own, *flags])

    def start(self) -> None:
        """Starts it without waiting. From the main thread only."""
        self.process.start()

    def wait_ready(self) -> None:
        """Waits until it says so, and answers; an async test awaits it in a thread."""
        self.process.until(self._ready, READY_SECONDS, "ready")

    def restart(self) -> None:
        """Ends it cleanly, starts it again on the same port and waits until it is ready."""
        self.process.stop(END_SECONDS)
        self.start()
        self.wait_ready()

    def close(self) -> None:
        self.process.stop()
        self._port.release()

    def writer(self, token: str) -> Writer:
        """A new client of this apiserver, as the bearer of `token`."""
        return Writer(self.url, self._ca, token)

    def is_trusted_by(self, ca: Path) -> bool:
        """Whether the certificate that it shows is of this authority."""
        context = ssl.create_default_context(cafile=ca)
        with contextlib.suppress(ssl.SSLError), socket.create_connection((HOST, self._port.number)) as plain:
            context.wrap_socket(plain, server_hostname=HOST).close()
            return True
        return False

    def _ready(self) -> bool:
        with contextlib.suppress(OSError, StatusError), self.writer(self._token) as writer:
            writer.text("/readyz")
            writer.get("/api/v1/namespaces/default")
            writer.revision("/api/v1/namespaces/default/configmaps")  # 429 while its cache is filled, ready or not
            return True
        return False


class ControlPlane:
    """Apiservers that share an etcd, which its caller starts and ends; the first is at `url`.

    `flags` go to every apiserver and win over the ones given here; `link` is what they reach etcd through, if it is not
    its own address. `token` is an administrator's.
    """

    def __init__(
        self,
        folder: Path,
        program: Path,
        etcd: Etcd,
        *,
        apiservers: int = 1,
        flags: Sequence[str] = (),
        link: str | None = None,
    ) -> None:
        self.folder = folder
        self.etcd = etcd
        self._program = program
        self.token = secrets.token_hex(16)
        self.authority = Authority(folder / "certs")
        self.ca = self.authority.ca
        self.serving = self.authority.server("kube-apiserver", ("localhost", SERVICE_NAME))
        self._common = [*self._flags(), *flags]
        self.apiservers: list[Apiserver] = []
        for _ in range(apiservers):
            self.add(link or etcd.url)

    def __enter__(self) -> Self:
        try:
            for apiserver in self.apiservers:
                apiserver.start()
            for apiserver in self.apiservers:
                apiserver.wait_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for apiserver in self.apiservers:
            apiserver.close()

    def add(self, link: str) -> Apiserver:
        """Another apiserver, which reaches etcd through `link`; who adds it starts it."""
        name = f"apiserver-{len(self.apiservers)}"
        flags = [f"--etcd-servers={link}", *self._common]
        apiserver = Apiserver(self.folder, name, self._program, flags, (self.ca, self.token))
        self.apiservers.append(apiserver)
        return apiserver

    @property
    def url(self) -> str:
        return self.apiservers[0].url

    def writer(self, token: str | None = None) -> Writer:
        """A new client of the first apiserver: the administrator's, or the bearer's of `token`."""
        return self.apiservers[0].writer(token or self.token)

    def serve_as(self, pair: Pair, ca: Path) -> None:
        """Gives the apiservers another certificate, of the authority `ca`, and waits until they have noticed."""
        pair.replace(self.serving)
        for apiserver in self.apiservers:
            eventually(partial(apiserver.is_trusted_by, ca), RELOADED_SECONDS, "the new certificate is shown")

    def service_account(self, name: str, *rules: dict[str, list[str]], namespace: str = "default") -> str:
        """Makes a service account with the given ClusterRole rules, and returns its token when they are in force."""
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
            for rule in rules[:1]:  # all of a role are in force at once
                self.until_permitted(namespace, name, rule)
            return writer.service_account_token(namespace, name)

    def until_permitted(
        self, namespace: str, name: str, rule: dict[str, list[str]], within: str = "", *, permitted: bool = True
    ) -> None:
        """Waits until a service account may do what a rule says, or may not: an apiserver learns of roles by a watch.

        `within` is the namespace of a Role.
        """
        user = f"system:serviceaccount:{namespace}:{name}"
        first = {attribute: rule[key][0] for key, attribute in ATTRIBUTES.items() if key in rule}
        attributes = first | ({"namespace": within} if within else {})
        for apiserver in (one for one in self.apiservers if one.process.exit_code is None):
            with apiserver.writer(self.token) as writer:
                eventually(
                    lambda: writer.permits(user, **attributes) is permitted,
                    RBAC_SECONDS,
                    f"{permitted=}: {attributes}",
                )

    def client_certificate(self, user: str) -> Pair:
        """A certificate by which a client is `user` of `system:masters`."""
        return self.authority.client(user, group="system:masters")

    def kubeconfig(self, name: str = "admin", user: dict[str, Any] | None = None, **cluster: Any) -> Path:
        """Writes a kubeconfig for the first apiserver: the administrator's, or of the given `user` entry.

        Further keys of the cluster entry replace or join `server` and `certificate-authority`; None takes one out.
        """
        entry = {"server": self.url, "certificate-authority": str(self.ca)} | cluster
        kept = {key: value for key, value in entry.items() if value is not None}
        path = self.folder / f"{name}.kubeconfig"
        write_kubeconfig(path, kept, user or {"token": self.token})
        return path

    def _flags(self) -> list[str]:
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f'{self.token},admin,1,"system:masters"\n')
        signing = self.authority.key("service-accounts")
        flags: dict[str, str | Path] = {
            "tls-cert-file": self.serving.certificate,
            "tls-private-key-file": self.serving.key,
            "client-ca-file": self.ca,
            "service-account-key-file": signing,
            "service-account-signing-key-file": signing,
            "service-account-issuer": f"https://{SERVICE_NAME}",
            "token-auth-file": tokens,
            "authorization-mode": "RBAC",
            "service-cluster-ip-range": "10.0.0.0/24",
            "disable-admission-plugins": "ServiceAccount",
            "event-ttl": "24h",  # else what tests wrote an hour ago is deleted while others count
            "shutdown-watch-termination-grace-period": "5s",  # else open watches hold up its end for a minute
        }
        return _as_flags(flags)


def override(resource: str, url: str) -> str:
    """The apiserver flag that keeps a resource (`/events`, `apps/deployments`) in another etcd."""
    return f"--etcd-servers-overrides={resource}#{url}"


def write_kubeconfig(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> None:
    """Writes a kubeconfig with one context, `tests`, made of the two entries."""
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
