"""Every way to say where the cluster is and who we are, as users have them; all at once, watching the same writes."""

import base64
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.control_plane import EVERYTHING_READABLE, HOST, ControlPlane, write_kubeconfig
from tests.support.daemon import Daemon, config_file, outside
from tests.support.process import Process
from tests.support.writer import configmap

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
WRITES = 3
REJECTED_SECONDS = 30.0  # an apiserver believes in a token that it knows for 10 s more

PLUGIN = """\
#!{python}
import json, os, pathlib
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert asked["kind"] == "ExecCredential", asked
with pathlib.Path(os.environ["DIARY"]).open("a") as diary:
    diary.write("asked\\n")
credential = {{"token": "{token}"}}
print(json.dumps({{"apiVersion": asked["apiVersion"], "kind": "ExecCredential", "status": credential}}))
"""


def exec_user(folder: Path, token: str) -> dict[str, Any]:
    """A user whose token comes from a plugin beside the kubeconfig."""
    plugin = folder / "plugin"
    plugin.write_text(PLUGIN.format(python=sys.executable, token=token))
    plugin.chmod(0o700)
    api = "client.authentication.k8s.io/v1"
    env = [{"name": "DIARY", "value": str(folder / "diary")}]
    return {"exec": {"apiVersion": api, "command": "./plugin", "env": env, "interactiveMode": "Never"}}


def two_contexts(path: Path, plane: ControlPlane) -> None:
    """A kubeconfig whose current context leads nowhere."""
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
    """A command that shows `folder` where pods find their service account, to itself only."""
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
        proxy.until(lambda: "\n" in proxy.out, 15, "serving")
        found = re.search(rf"{re.escape(HOST)}:\d+", proxy.out)
        assert found is not None, proxy.out
        yield f"http://{found[0]}"


class Ways:
    """Starts daemons that find their way to one cluster, each in another manner."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.daemons: dict[str, Daemon] = {}
        self._plane = plane
        self._folder = folder
        self._right = {"server": plane.url, "certificate-authority": str(plane.ca)}

    def start(self, name: str, *arguments: str | Path, wrapper: Sequence[str] = (), **env: str) -> None:
        home = self.home(name)
        config = config_file(home, watch=[{"resource": "configmaps"}])
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
        """Who we are: by a token in ~/.kube/config, a certificate in $KUBECONFIG, a plugin, a file that changes."""
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
        """Where the cluster is: without its CA, behind `kubectl proxy`, in another context."""
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


@pytest.fixture(scope="module")
def daemons(
    control_plane: ControlPlane, reader: str, kubectl_proxy: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Daemon]]:
    ways = Ways(control_plane, tmp_path_factory.mktemp("credentials"))
    ways.start_in_pod(reader)
    ways.start_by_users(reader)
    ways.start_by_clusters(reader, kubectl_proxy)
    with contextlib.ExitStack() as stack, control_plane.writer() as writer:
        for daemon in ways.daemons.values():
            stack.callback(daemon.__exit__)
            daemon.until_listening()
        for daemon in ways.daemons.values():
            daemon.until_measuring("configmaps")
        for number in range(WRITES):
            writer.create(CONFIGMAPS, configmap(f"credentials-{number}"))
        # An open watch outlives its token; and for some seconds the apiserver still knows it on others.
        writer.delete("/api/v1/namespaces/default/serviceaccounts/credentials-first")
        yield ways.daemons
        for daemon in ways.daemons.values():
            daemon.process.signal(signal.SIGTERM)  # all at once takes less time


def kubeconfig_of(daemon: Daemon) -> Path:
    arguments = daemon.process.command
    return Path(arguments[arguments.index("--kubeconfig") + 1])


@pytest.mark.parametrize("way", ["token", "certificate", "plugin", "insecure", "http", "context", "pod", "token-file"])
def test_sees_what_is_written(daemons: Mapping[str, Daemon], way: str) -> None:
    daemon = daemons[way]
    daemon.until_samples("configmaps", WRITES)
    assert daemon.log("discovery_failed") == []
    assert daemon.scrape().value("watchslo_watch_events_total", watch="configmaps", type="added") == WRITES


def test_a_plugin_is_asked_once_while_its_token_is_good(daemons: Mapping[str, Daemon]) -> None:
    diary = kubeconfig_of(daemons["plugin"]).with_name("diary")
    assert diary.read_text() == "asked\n"


def test_no_credential_is_ever_shown(daemons: Mapping[str, Daemon], control_plane: ControlPlane, reader: str) -> None:
    for daemon in daemons.values():
        shown = [daemon.get(path)[1] for path in ("/", "/metrics", "/api/v1/status", "/readyz")]
        for text in (*shown, daemon.said):
            assert reader not in text
            assert control_plane.token not in text


def test_a_token_that_is_revoked_is_missed_and_a_new_one_found(
    daemons: Mapping[str, Daemon], control_plane: ControlPlane
) -> None:
    daemon = daemons["token-file"]
    daemon.until_said("tick_failed", REJECTED_SECONDS, reason="unauthorized")
    token = kubeconfig_of(daemon).with_name("token")
    fresh = token.with_suffix(".new")
    fresh.write_text(control_plane.service_account("credentials-second", EVERYTHING_READABLE))
    fresh.replace(token)
    daemon.until_ready()
    with control_plane.writer() as writer:
        writer.create(CONFIGMAPS, configmap("credentials-renewed"))
    daemon.until_samples("configmaps", WRITES + 1)
    (stream,) = daemon.status()["streams"]
    assert (stream["up"], stream["closed"]) == (True, [])
