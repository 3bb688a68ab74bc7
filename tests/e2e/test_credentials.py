"""Credentials: does watchslo survive the rotation of its token, certificate, CA or plugin, without losing an event?

All daemons watch one cluster. After each rotation a watch resumes at its revision, without a new list.
"""

import contextlib
import itertools
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.assets import Assets
from tests.support.certs import Authority
from tests.support.control_plane import EVERYTHING_READABLE, SERVICE_NAME, ControlPlane, Etcd, write_kubeconfig
from tests.support.daemon import LOOK_SECONDS, Daemon, config_file, outside, start_all
from tests.support.forward_proxy import ForwardProxy
from tests.support.writer import Writer, configmap

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
FAR = "apiserver.invalid"  # only the forward proxy knows where that is
WRITES = 3
NAMES = itertools.count()

PLUGIN = """\
#!{python}
import json, os, pathlib
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert asked["kind"] == "ExecCredential", asked
diary = pathlib.Path(os.environ["DIARY"])
with diary.open("a") as writing:
    writing.write("asked\\n")
token = {tokens}[len(diary.read_text().splitlines()) - 1]
print(json.dumps({{"apiVersion": asked["apiVersion"], "kind": "ExecCredential", "status": {{"token": token}}}}))
"""


def exec_user(folder: Path, *tokens: str) -> dict[str, Any]:
    """Return a kubeconfig user with a plugin next to the kubeconfig, which gives one token after the other."""
    plugin = folder / "plugin"
    plugin.write_text(PLUGIN.format(python=sys.executable, tokens=tokens))
    plugin.chmod(0o700)
    api = "client.authentication.k8s.io/v1"
    env = [{"name": "DIARY", "value": str(folder / "diary")}]
    return {"exec": {"apiVersion": api, "command": "./plugin", "env": env, "interactiveMode": "Never"}}


@pytest.fixture(scope="module")
def plane(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane whose certificates may change."""
    folder = tmp_path_factory.mktemp("rotated")
    with Etcd(folder, assets.etcd) as etcd, ControlPlane(folder, assets.kube_apiserver, etcd) as plane:
        yield plane


@pytest.fixture(scope="module")
def proxy() -> Iterator[ForwardProxy]:
    with ForwardProxy() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def homes(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The home folders of the daemons, each with a kubeconfig."""
    folder = tmp_path_factory.mktemp("homes")
    homes = {name: folder / name for name in ("token", "certificate", "plugin", "authority")}
    for home in homes.values():
        (home / ".kube").mkdir(parents=True)
    first, second, leaving = (
        plane.service_account(name, EVERYTHING_READABLE) for name in ("first", "second", "leaving")
    )
    (homes["token"] / ".kube" / "token").write_text(plane.service_account("revoked", EVERYTHING_READABLE))
    shutil.copy(plane.ca, homes["authority"] / ".kube" / "ca.crt")
    pair = plane.client_certificate("rotated-first")
    shutil.copy(pair.certificate, homes["certificate"] / ".kube" / "client.crt")
    shutil.copy(pair.key, homes["certificate"] / ".kube" / "client.key")
    users = {
        "token": {"tokenFile": "token"},
        "certificate": {"client-certificate": "client.crt", "client-key": "client.key"},
        "plugin": exec_user(homes["plugin"] / ".kube", leaving, second),
        "authority": {"token": first},
    }
    for name, home in homes.items():
        cluster = {"server": plane.url, "certificate-authority": str(plane.ca)}
        if name == "token":
            cluster |= {"server": f"https://{FAR}:{plane.url.rpartition(':')[2]}", "tls-server-name": SERVICE_NAME}
        if name == "authority":
            cluster["certificate-authority"] = "ca.crt"
        write_kubeconfig(home / ".kube" / "config", cluster, users[name])
    return homes


@pytest.fixture(scope="module")
def daemons(homes: Mapping[str, Path], proxy: ForwardProxy) -> Iterator[Mapping[str, Daemon]]:
    """Daemons that measure with different credentials; only the one with a token file needs the forward proxy."""
    daemons = {}
    for name, home in homes.items():
        config = config_file(home, watch=[{"resource": "configmaps", "namespace": "default"}], metrics="full")
        env = outside(HOME=str(home), **({"HTTPS_PROXY": proxy.url} if name == "token" else {}))
        daemons[name] = Daemon(home, "--config", config, env=env)
    with contextlib.ExitStack() as stack:
        start_all(stack, daemons.values())
        for daemon in daemons.values():
            daemon.until_measuring("configmaps")
        yield daemons


def renew(path: Path, content: bytes) -> None:
    """Replace a file atomically."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.replace(path)


def seen(daemon: Daemon) -> float:
    return daemon.scrape().total("watchslo_watch_events_total", watch="configmaps", type="added")


def write(writer: Writer) -> None:
    for _ in range(WRITES):
        writer.create(CONFIGMAPS, configmap(f"rotation-{next(NAMES)}"))


@contextlib.contextmanager
def rotation(daemon: Daemon, writer: Writer, later: Writer | None = None) -> Iterator[None]:
    """Write before and after a rotation; the watch is reopened once, and all writes arrive once, with one list."""
    known = len(writer.get(CONFIGMAPS)["items"])  # none is ever deleted, and the daemon started before the first
    write(writer)
    yield
    write(later or writer)
    closed = {"watch": "configmaps", "class": "credentials", "reason": "rotated"}
    daemon.until(lambda scrape: scrape.total("watchslo_watches_closed_total", **closed) == 1, "reopened")
    daemon.process.until(lambda: seen(daemon) >= known + 2 * WRITES, "all writes seen", LOOK_SECONDS)
    scrape = daemon.scrape()
    assert scrape.value("watchslo_watch_events_total", watch="configmaps", type="added") == known + 2 * WRITES
    assert scrape.total("watchslo_relists_total", watch="configmaps", reason="start") == 1
    assert scrape.total("watchslo_relists_total", watch="configmaps") == 1


def test_revoked_token_is_reported_and_its_successor_is_used(
    daemons: Mapping[str, Daemon], homes: Mapping[str, Path], plane: ControlPlane, proxy: ForwardProxy
) -> None:
    daemon = daemons["token"]
    successor = plane.service_account("successor", EVERYTHING_READABLE)
    with plane.writer() as writer, rotation(daemon, writer):
        writer.delete(f"{ACCOUNTS}/revoked")
        daemon.until_said("tick_failed", reason="unauthorized")
        renew(homes["token"] / ".kube" / "token", successor.encode())
    daemon.until_ready()
    assert {target.partition(":")[0] for target in proxy.wanted} == {FAR}
    for text in (*(daemon.get(path)[1] for path in ("/", "/metrics", "/api/v1/status", "/readyz")), daemon.said):
        assert successor not in text


def test_replaced_client_certificate_is_used_once_its_key_is_there(
    daemons: Mapping[str, Daemon], homes: Mapping[str, Path], plane: ControlPlane
) -> None:
    daemon, folder = daemons["certificate"], homes["certificate"] / ".kube"
    pair = plane.client_certificate("rotated-second")

    def ticks() -> float:
        return daemon.scrape().total("watchslo_clock_ticks_total", result="ok")

    with plane.writer() as writer, rotation(daemon, writer):
        before = ticks()
        renew(folder / "client.crt", pair.certificate.read_bytes())
        daemon.process.until(lambda: ticks() > before + 3, "ticks with the former pair", LOOK_SECONDS)
        assert daemon.scrape().total("watchslo_watches_closed_total", reason="rotated") == 0
        renew(folder / "client.key", pair.key.read_bytes())
    failures = {entry["reason"] for entry in daemon.log("tick_failed")}
    assert not failures & {"tls", "credentials", "unauthorized"}, "half a pair is no reason to fail"


def test_plugin_is_run_again_when_its_token_is_revoked(
    daemons: Mapping[str, Daemon], homes: Mapping[str, Path], plane: ControlPlane
) -> None:
    diary = homes["plugin"] / ".kube" / "diary"
    assert diary.read_text() == "asked\n", "once while its token is valid"
    with plane.writer() as writer, rotation(daemons["plugin"], writer):
        writer.delete(f"{ACCOUNTS}/leaving")
    assert diary.read_text() == "asked\n" * 2


def test_replaced_authority_reopens_the_watch_without_loss(
    daemons: Mapping[str, Daemon], homes: Mapping[str, Path], plane: ControlPlane, tmp_path: Path
) -> None:
    """The last test: from then on, other clients do not trust this apiserver."""
    authority = Authority(tmp_path / "second")
    with (
        plane.writer() as old,
        Writer(plane.url, authority.ca, plane.token) as new,
        rotation(daemons["authority"], old, new),
    ):
        plane.serve_as(authority.server("kube-apiserver"), authority.ca)
        assert daemons["authority"].watches_by_name()["configmaps"]["up"], "open watches stay open"
        renew(homes["authority"] / ".kube" / "ca.crt", authority.ca.read_bytes())
