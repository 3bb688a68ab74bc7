"""Every way to say where the cluster is and who we are, as users have them; all at once, watching the same writes."""

import base64
import contextlib
import json
import os
import re
import shutil
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


@pytest.fixture(scope="module")
def daemons(
    control_plane: ControlPlane, reader: str, kubectl_proxy: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Daemon]]:
    plane, folder = control_plane, tmp_path_factory.mktemp("credentials")
    pair = plane.client_certificate("watcher")
    right = {"server": plane.url, "certificate-authority": str(plane.ca)}
    with contextlib.ExitStack() as stack:
        daemons: dict[str, Daemon] = {}

        def start(name: str, *arguments: str | Path, wrapper: Sequence[str] = (), **env: str) -> None:
            home = folder / name
            config = config_file(home, watch=[{"resource": "configmaps"}])
            environment = outside(HOME=str(home), **env)
            daemons[name] = Daemon(home, "--config", config, *arguments, env=environment, wrapper=wrapper)
            daemons[name].process.start()
            stack.callback(daemons[name].__exit__)

        def home(name: str) -> Path:
            path = folder / name
            path.mkdir()
            return path

        kubeconfig = home("token") / ".kube" / "config"
        kubeconfig.parent.mkdir()
        write_kubeconfig(kubeconfig, right, {"token": reader})
        start("token")

        kubeconfig = home("certificate") / "kubeconfig"
        write_kubeconfig(kubeconfig, right, {"client-certificate": str(pair.certificate), "client-key": str(pair.key)})
        start("certificate", KUBECONFIG=str(kubeconfig))

        kubeconfig = home("plugin") / "kubeconfig"
        write_kubeconfig(kubeconfig, right, exec_user(kubeconfig.parent, reader))
        start("plugin", "--kubeconfig", kubeconfig)

        kubeconfig = home("insecure") / "kubeconfig"
        write_kubeconfig(kubeconfig, {"server": plane.url, "insecure-skip-tls-verify": True}, {"token": reader})
        start("insecure", "--kubeconfig", kubeconfig)

        kubeconfig = home("http") / "kubeconfig"
        write_kubeconfig(kubeconfig, {"server": kubectl_proxy}, {})
        start("http", "--kubeconfig", kubeconfig)

        kubeconfig = home("context") / "kubeconfig"
        two_contexts(kubeconfig, plane)
        start("context", "--kubeconfig", kubeconfig, "--context", "right")

        secrets = home("pod") / "serviceaccount"
        secrets.mkdir()
        (secrets / "token").write_text(f"{reader}\n")
        shutil.copy(plane.ca, secrets / "ca.crt")
        host, port = plane.url.removeprefix("https://").split(":")
        service = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        start("pod", wrapper=as_pod(secrets), **service)

        for daemon in daemons.values():
            daemon.until_listening()
        for daemon in daemons.values():
            daemon.until_measuring("configmaps")
        with plane.writer() as writer:
            for number in range(WRITES):
                writer.create(CONFIGMAPS, configmap(f"credentials-{number}"))
        yield daemons


@pytest.mark.parametrize("way", ["token", "certificate", "plugin", "insecure", "http", "context", "pod"])
def test_sees_what_is_written(daemons: Mapping[str, Daemon], way: str) -> None:
    daemon = daemons[way]
    daemon.until_samples("configmaps", WRITES)
    assert daemon.log("discovery_failed") == []
    assert daemon.scrape().value("watchslo_watch_events_total", watch="configmaps", type="added") == WRITES


def test_a_plugin_is_asked_once_while_its_token_is_good(daemons: Mapping[str, Daemon]) -> None:
    arguments = daemons["plugin"].process.command
    diary = Path(arguments[arguments.index("--kubeconfig") + 1]).with_name("diary")
    assert diary.read_text() == "asked\n"


def test_no_credential_is_ever_shown(daemons: Mapping[str, Daemon], control_plane: ControlPlane, reader: str) -> None:
    for daemon in daemons.values():
        shown = [daemon.get(path)[1] for path in ("/", "/metrics", "/api/v1/status", "/readyz")]
        for text in (*shown, daemon.said):
            assert reader not in text
            assert control_plane.token not in text


def test_a_token_that_is_revoked_is_missed_and_a_new_one_found(control_plane: ControlPlane, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(control_plane.service_account("credentials-first", EVERYTHING_READABLE))
    kubeconfig = control_plane.kubeconfig("token-file", {"tokenFile": str(token)})
    config = config_file(tmp_path, watch=[{"resource": "configmaps"}])
    with Daemon(tmp_path, "--config", config, "--kubeconfig", kubeconfig) as daemon, control_plane.writer() as writer:
        daemon.until_measuring("configmaps")
        writer.delete("/api/v1/namespaces/default/serviceaccounts/credentials-first")
        daemon.until_not_ready("does not accept who we are", REJECTED_SECONDS)
        fresh = token.with_suffix(".new")
        fresh.write_text(control_plane.service_account("credentials-second", EVERYTHING_READABLE))
        fresh.replace(token)
        daemon.until_ready()
        assert daemon.scrape().total("watchslo_watch_up") == 1
        writer.create(CONFIGMAPS, configmap("credentials-renewed"))
        daemon.until_samples("configmaps", 1)
        assert json.loads(daemon.get("/api/v1/status")[1])["streams"][0]["closed"] == []
