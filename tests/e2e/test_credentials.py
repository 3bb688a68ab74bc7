"""Every way to configure the cluster and the credentials, all at once, watching the same writes.

After each rotation the watches resume at their revision, without a new list.
"""

import base64
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.assets import Assets
from tests.support.certs import Authority
from tests.support.control_plane import EVERYTHING_READABLE, HOST, ControlPlane, Etcd, write_kubeconfig
from tests.support.daemon import LOOK_SECONDS, Daemon, config_file, outside
from tests.support.process import Process
from tests.support.writer import Writer, configmap

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
WRITES = 3

HALF_SECONDS = 1.5  # three ticks
LIFETIME_SECONDS = 10  # of all tokens of a plugin but the last

PLUGIN = """\
#!{python}
import datetime, json, os, pathlib
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert asked["kind"] == "ExecCredential", asked
diary = pathlib.Path(os.environ["DIARY"])
with diary.open("a") as writing:
    writing.write("asked\\n")
tokens = {tokens}
token = tokens[min(len(tokens), len(diary.read_text().splitlines())) - 1]
credential = {{"token": token}}
if token != tokens[-1]:
    expiry = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds={lifetime})
    credential["expirationTimestamp"] = expiry.isoformat(timespec="seconds")
print(json.dumps({{"apiVersion": asked["apiVersion"], "kind": "ExecCredential", "status": credential}}))
"""


def exec_user(folder: Path, *tokens: str) -> dict[str, Any]:
    """Return a kubeconfig user with a plugin next to the kubeconfig; all its tokens but the last expire soon."""
    plugin = folder / "plugin"
    plugin.write_text(PLUGIN.format(python=sys.executable, tokens=tokens, lifetime=LIFETIME_SECONDS))
    plugin.chmod(0o700)
    api = "client.authentication.k8s.io/v1"
    env = [{"name": "DIARY", "value": str(folder / "diary")}]
    return {"exec": {"apiVersion": api, "command": "./plugin", "env": env, "interactiveMode": "Never"}}


def two_contexts(path: Path, plane: ControlPlane) -> None:
    """Write a kubeconfig whose current context names no server."""
    right = {"server": plane.url, "certificate-authority-data": base64.b64encode(plane.ca.read_bytes()).decode()}
    wrong = {"server": "https://apiserver.invalid:6443"}
    document = {
        "clusters": [{"name": "right", "cluster": right}, {"name": "wrong", "cluster": wrong}],
        "users": [{"name": "admin", "user": {"token": plane.token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin"}} for name in ("right", "wrong")],
        "current-context": "wrong",
    }
    path.write_text(yaml.safe_dump(document))


def as_pod(folder: Path) -> Sequence[str]:
    """Return a command that mounts `folder` at the service account path of pods, visible only to itself."""
    unshare = [shutil.which("unshare") or "unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    if subprocess.run([*unshare, "true"], check=False).returncode != 0:
        missing = "no mount namespaces here: nothing can look like a pod"
        if "CI" in os.environ:
            pytest.fail(missing)
        pytest.skip(missing)
    script = (
        f"mount -t tmpfs tmpfs /var/run && mkdir -p {SERVICE_ACCOUNT} && mount --bind {folder} {SERVICE_ACCOUNT}"
        ' && exec "$@"'
    )
    return [*unshare, "sh", "-c", script, "sh"]


@pytest.fixture(scope="module")
def reader(control_plane: ControlPlane) -> str:
    """A token of a service account that may read everything."""
    return control_plane.service_account("credentials-reader", EVERYTHING_READABLE)


@pytest.fixture(scope="module")
def kubectl_proxy(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a running `kubectl proxy`."""
    kubectl = shutil.which("kubectl")
    assert kubectl is not None, "there is no kubectl here"
    command: list[str | Path] = [kubectl, "--kubeconfig", control_plane.kubeconfig(), "proxy", "--port=0"]
    with Process(tmp_path_factory.mktemp("proxy"), "kubectl", command) as proxy:
        proxy.until(lambda: "\n" in proxy.out, "serving")
        found = re.search(rf"{re.escape(HOST)}:\d+", proxy.out)
        assert found is not None, proxy.out
        yield f"http://{found[0]}"


class Ways:
    """Starts daemons with different credentials for one cluster."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.daemons: dict[str, Daemon] = {}
        self._plane = plane
        self._folder = folder
        self._right = {"server": plane.url, "certificate-authority": str(plane.ca)}

    def start(self, name: str, *arguments: str | Path, wrapper: Sequence[str] = (), **env: str) -> None:
        home = self.home(name)
        config = config_file(home, watch=[{"resource": "configmaps", "namespace": "default"}], metrics="full")
        environment = outside(HOME=str(home), **env)
        self.daemons[name] = Daemon(home, "--config", config, *arguments, env=environment, wrapper=wrapper)
        self.daemons[name].process.start()

    def home(self, name: str) -> Path:
        path = self._folder / name
        path.mkdir(exist_ok=True)
        return path

    def kubeconfig(self, name: str, user: dict[str, Any], cluster: dict[str, Any] | None = None) -> Path:
        path = self.home(name) / "kubeconfig"
        write_kubeconfig(path, cluster or self._right, user)
        return path

    def start_by_users(self, token: str) -> None:
        """Start daemons with a token in ~/.kube/config, a certificate in $KUBECONFIG, a plugin, and a token file."""
        standard = self.home("token") / ".kube"
        standard.mkdir()
        self.kubeconfig("token", {"token": token}).rename(standard / "config")
        self.start("token")
        pair = self._plane.client_certificate("watcher")
        user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        self.start("certificate", KUBECONFIG=str(self.kubeconfig("certificate", user)))
        plugin = exec_user(self.home("plugin"), token)
        self.start("plugin", "--kubeconfig", self.kubeconfig("plugin", plugin))
        account = self._plane.service_account("credentials-first", EVERYTHING_READABLE)
        (self.home("token-file") / "token").write_text(account)
        self.start("token-file", "--kubeconfig", self.kubeconfig("token-file", {"tokenFile": "token"}))

    def start_by_clusters(self, token: str, proxy: str) -> None:
        """Start daemons without the CA, behind `kubectl proxy`, and with another context."""
        insecure = {"server": self._plane.url, "insecure-skip-tls-verify": True}
        self.start("insecure", "--kubeconfig", self.kubeconfig("insecure", {"token": token}, insecure))
        self.start("http", "--kubeconfig", self.kubeconfig("http", {}, {"server": proxy}))
        contexts = self.home("context") / "kubeconfig"
        two_contexts(contexts, self._plane)
        self.start("context", "--kubeconfig", contexts, "--context", "right")

    def start_in_pod(self, token: str) -> None:
        secrets = self.home("pod") / "serviceaccount"
        secrets.mkdir()
        (secrets / "token").write_text(f"{token}\n")
        shutil.copy(self._plane.ca, secrets / "ca.crt")
        host, port = self._plane.url.removeprefix("https://").split(":")
        self.start("pod", wrapper=as_pod(secrets), KUBERNETES_SERVICE_HOST=host, KUBERNETES_SERVICE_PORT=port)


@contextlib.contextmanager
def measuring(ways: Ways) -> Iterator[Mapping[str, Daemon]]:
    """Wait until all daemons measure; stop them all at once at the end, which takes less time."""
    with contextlib.ExitStack() as stack:
        for daemon in ways.daemons.values():
            stack.callback(daemon.__exit__)
            daemon.until_listening()
        for daemon in ways.daemons.values():
            daemon.until_measuring("configmaps")
        yield ways.daemons
        for daemon in ways.daemons.values():
            daemon.process.signal(signal.SIGTERM)


@pytest.fixture(scope="module")
def daemons(
    control_plane: ControlPlane, reader: str, kubectl_proxy: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Daemon]]:
    ways = Ways(control_plane, tmp_path_factory.mktemp("credentials"))
    ways.start_in_pod(reader)
    ways.start_by_users(reader)
    ways.start_by_clusters(reader, kubectl_proxy)
    with measuring(ways) as daemons, control_plane.writer() as writer:
        for number in range(WRITES):
            writer.create(CONFIGMAPS, configmap(f"credentials-{number}"))
        # An open watch outlives its token, and the apiserver caches the token for some seconds.
        writer.delete("/api/v1/namespaces/default/serviceaccounts/credentials-first")
        yield daemons


def kubeconfig_of(daemon: Daemon) -> Path:
    arguments = daemon.process.command
    return Path(arguments[arguments.index("--kubeconfig") + 1])


# The account of the first is deleted already, so a later discovery would fail.
@pytest.mark.parametrize("way", ["token-file", "token", "certificate", "plugin", "insecure", "http", "context", "pod"])
def test_daemon_sees_all_writes(daemons: Mapping[str, Daemon], way: str) -> None:
    daemon = daemons[way]
    until_seen(daemon, WRITES)
    assert daemon.log("discovery_failed") == []
    assert count(daemon) == WRITES


def test_plugin_runs_once_while_its_token_is_valid(daemons: Mapping[str, Daemon]) -> None:
    diary = kubeconfig_of(daemons["plugin"]).with_name("diary")
    assert diary.read_text() == "asked\n"


def test_credentials_are_never_shown(daemons: Mapping[str, Daemon], control_plane: ControlPlane, reader: str) -> None:
    for daemon in daemons.values():
        shown = [daemon.get(path)[1] for path in ("/", "/metrics", "/api/v1/status", "/readyz")]
        for text in (*shown, daemon.said):
            assert reader not in text
            assert control_plane.token not in text


def test_revoked_token_is_reported_and_its_successor_is_used(
    daemons: Mapping[str, Daemon], control_plane: ControlPlane
) -> None:
    daemon = daemons["token-file"]
    daemon.until_said("tick_failed", reason="unauthorized")
    token = kubeconfig_of(daemon).with_name("token")
    renew(token, control_plane.service_account("credentials-second", EVERYTHING_READABLE).encode())
    daemon.until_ready()
    until_reopened(daemon)
    with control_plane.writer() as writer:
        writer.create(CONFIGMAPS, configmap("credentials-renewed"))
    until_seen(daemon, WRITES + 1)
    assert_nothing_lost(daemon, WRITES + 1)


# Rotation


@pytest.fixture(scope="module")
def plane(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane whose certificates may change."""
    folder = tmp_path_factory.mktemp("rotated")
    with Etcd(folder, assets.etcd) as etcd, ControlPlane(folder, assets.kube_apiserver, etcd) as plane:
        yield plane


@pytest.fixture(scope="module")
def rotated(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Daemon]]:
    """Daemons whose credentials are in separate files, or come from a plugin and expire."""
    ways = Ways(plane, tmp_path_factory.mktemp("rotation"))
    first, second = (plane.service_account(f"rotated-{n}", EVERYTHING_READABLE) for n in ("first", "second"))
    start = {
        "token": {"tokenFile": "token"},
        "certificate": {"client-certificate": "client.crt", "client-key": "client.key"},
        "authority": {"token": first},
        "plugin": exec_user(ways.home("plugin"), first, second),
    }
    (ways.home("token") / "token").write_text(first)
    shutil.copy(plane.ca, ways.home("authority") / "ca.crt")
    pair = plane.client_certificate("rotated-first")
    shutil.copy(pair.certificate, ways.home("certificate") / "client.crt")
    shutil.copy(pair.key, ways.home("certificate") / "client.key")
    for name, user in start.items():
        ca = "ca.crt" if name == "authority" else str(plane.ca)
        cluster = {"server": plane.url, "certificate-authority": ca}
        ways.start(name, "--kubeconfig", ways.kubeconfig(name, user, cluster))
    with measuring(ways) as daemons:
        yield daemons


def renew(path: Path, content: bytes) -> None:
    """Replace a file atomically."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(path)


def until_reopened(daemon: Daemon) -> None:
    closed = "watchslo_watches_closed_total"
    labels = {"watch": "configmaps", "class": "credentials", "reason": "rotated"}
    daemon.until(lambda scrape: scrape.total(closed, **labels) == 1, "reopened")
    daemon.until_measuring("configmaps")


def assert_nothing_lost(daemon: Daemon, writes: int) -> None:
    """Assert that all writes were seen on two watches, the second of which resumed where the first ended."""
    scrape = daemon.scrape()
    assert scrape.value("watchslo_watch_events_total", watch="configmaps", type="added") == writes
    assert scrape.total("watchslo_watches_closed_total", watch="configmaps") == 1
    assert scrape.total("watchslo_relists_total", watch="configmaps", reason="start") == 1
    assert scrape.total("watchslo_relists_total", watch="configmaps") == 1


def count(daemon: Daemon) -> float:
    return daemon.scrape().total("watchslo_watch_events_total", watch="configmaps", type="added")


def until_seen(daemon: Daemon, writes: int) -> None:
    """Wait for events, not samples: an event received by a busy machine is no sample."""
    daemon.process.until(lambda: count(daemon) >= writes, f"{writes} seen", LOOK_SECONDS)


@contextlib.contextmanager
def written(daemon: Daemon, writer: Writer, later: Writer, name: str) -> Iterator[None]:
    """Write before and after a rotation; all writes must arrive, also those during the reopening."""
    known = len(writer.get(CONFIGMAPS)["items"])  # none is ever deleted, and the daemon started before the first
    for number in range(WRITES):
        writer.create(CONFIGMAPS, configmap(f"{name}-before-{number}"))
    yield
    for number in range(WRITES):
        later.create(CONFIGMAPS, configmap(f"{name}-after-{number}"))
    until_reopened(daemon)
    until_seen(daemon, known + 2 * WRITES)
    assert_nothing_lost(daemon, known + 2 * WRITES)


def test_replaced_token_reopens_the_watch_without_loss(rotated: Mapping[str, Daemon], plane: ControlPlane) -> None:
    daemon = rotated["token"]
    token = plane.service_account("rotated-third", EVERYTHING_READABLE)
    with plane.writer() as writer, written(daemon, writer, writer, "token"):
        renew(kubeconfig_of(daemon).with_name("token"), token.encode())


def test_replaced_client_certificate_is_used_once_its_key_is_there(
    rotated: Mapping[str, Daemon], plane: ControlPlane
) -> None:
    daemon = rotated["certificate"]
    folder = kubeconfig_of(daemon).parent
    pair = plane.client_certificate("rotated-second")
    with plane.writer() as writer, written(daemon, writer, writer, "certificate"):
        renew(folder / "client.crt", pair.certificate.read_bytes())
        time.sleep(HALF_SECONDS)
        assert daemon.scrape().total("watchslo_watches_closed_total") == 0
        renew(folder / "client.key", pair.key.read_bytes())
    failures = {entry["reason"] for entry in daemon.log("tick_failed")}
    assert failures <= {"timeout", "unreachable"}, "a machine that stands still is an excuse, the certificate is not"


def test_expired_plugin_token_reopens_the_watch_without_loss(
    rotated: Mapping[str, Daemon], plane: ControlPlane
) -> None:
    daemon = rotated["plugin"]
    with plane.writer() as writer, written(daemon, writer, writer, "plugin"):
        until_reopened(daemon)
    assert kubeconfig_of(daemon).with_name("diary").read_text() == "asked\n" * 2


def test_replaced_authority_reopens_the_watch_without_loss(
    rotated: Mapping[str, Daemon], plane: ControlPlane, tmp_path: Path
) -> None:
    """The last test: from then on, other clients do not trust this apiserver."""
    daemon = rotated["authority"]
    authority = Authority(tmp_path / "second")
    with contextlib.ExitStack() as stack:
        old = stack.enter_context(plane.writer())
        new = stack.enter_context(Writer(plane.url, authority.ca, plane.token))
        stack.enter_context(written(daemon, old, new, "authority"))
        plane.serve_as(authority.server("kube-apiserver"), authority.ca)
        assert daemon.streams()["configmaps"]["up"]  # open watches stay open
        renew(kubeconfig_of(daemon).with_name("ca.crt"), authority.ca.read_bytes())
