"""What stops a new user at the first `check`: each error says what is wrong, where, and what to do.

All commands run at once against a real apiserver, because each waits for ten seconds or more.
"""

import re
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.certs import Authority
from tests.support.control_plane import HOST, ControlPlane, Port
from tests.support.daemon import outside, watchslo
from tests.support.process import PATIENCE_SECONDS, eventually
from tests.support.tokens import expired

CHECK = ("check", "--duration", "5s", "--resource", "configmaps")
CHECK_SECONDS = PATIENCE_SECONDS
AT_ONCE = 4
TOKEN = "no-such-token"
SILENT = "silent server"

Kubeconfig = Callable[[ControlPlane, Path], Path]


def at(url: str, **cluster: Any) -> Kubeconfig:
    """Return a kubeconfig of an administrator whose cluster entry is this."""
    return lambda plane, folder: plane.kubeconfig(folder.name, None, server=url, **cluster)


def as_user(**user: Any) -> Kubeconfig:
    """Return a kubeconfig with this user entry."""
    return lambda plane, folder: plane.kubeconfig(folder.name, user)


def without_rights(plane: ControlPlane, folder: Path) -> Path:
    return plane.kubeconfig(folder.name, {"token": plane.service_account("newcomer")})


def of_unknown_authority(plane: ControlPlane, folder: Path) -> Path:
    return plane.kubeconfig(folder.name, None, **{"certificate-authority": str(Authority(folder / "other").ca)})


def with_expired_token(plane: ControlPlane, folder: Path) -> Path:
    return plane.kubeconfig(folder.name, {"token": expired(plane.service_account("former"), plane.signing_key)})


def with_expired_certificate(plane: ControlPlane, folder: Path) -> Path:
    pair = plane.authority.client("former", days=-1)
    return plane.kubeconfig(folder.name, {"client-certificate": str(pair.certificate), "client-key": str(pair.key)})


def through_closed_proxy(plane: ControlPlane, folder: Path) -> Path:
    port = Port()
    port.release()
    return plane.kubeconfig(folder.name, None, **{"proxy-url": f"http://{HOST}:{port.number}"})


ERRORS: Mapping[str, tuple[Kubeconfig, str]] = {
    "rejected token": (as_user(token=TOKEN), r"The apiserver rejects the credentials; renew them\."),
    "expired token": (with_expired_token, r"The apiserver rejects the credentials; renew them\."),
    "expired certificate": (with_expired_certificate, r"The apiserver rejects the credentials; renew them\."),
    "no rights": (
        without_rights,
        r"This identity may not list and watch configmaps: grant it these two verbs \(`watchslo rbac` writes",
    ),
    "closed port": (
        at(f"https://{HOST}:1"),
        rf"Connection refused by https://{HOST}:1; check that the apiserver runs there\.",
    ),
    "unknown name": (
        at("https://no-such-host.invalid:6443"),
        r"The host name in https://no-such-host\.invalid:6443 does not resolve; check the address and the DNS\.",
    ),
    "closed proxy": (
        through_closed_proxy,
        r"The proxy for https://\S+ cannot be reached; check the proxy and its address\.",
    ),
    "unknown authority": (
        of_unknown_authority,
        r"The certificate of https://\S+ is not accepted \(.+\); name the CA of the cluster as certificate-authority\.",
    ),
    "other name in the certificate": (
        lambda plane, folder: plane.kubeconfig(folder.name, None, **{"tls-server-name": "other.example.org"}),
        r"The certificate of https://\S+ is not accepted \(.+\); set tls-server-name to a name in the certificate\.",
    ),
    "missing plugin": (
        as_user(exec={"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}),
        r"context tests: the plugin no-such-plugin cannot be run \(No such file or directory\); install it, or add",
    ),
    "plugin that fails": (
        as_user(exec={"apiVersion": "client.authentication.k8s.io/v1", "command": "false"}),
        r"context tests: the plugin false exited with status 1; run it by hand to see why\.",
    ),
    "missing file of a token": (
        as_user(tokenFile="/no/such/token"),
        r"/no/such/token: no such file or directory; put a",
    ),
}
MESSAGES = {name: message for name, (_, message) in ERRORS.items()} | {
    SILENT: r"No connection to https://\S+ in time; check the network path\."
}
TOO_LATE = re.compile(r"No connection to \S+ in time|No answer from|The cluster is being discovered")
Checked = Mapping[str, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def checked(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checked]:
    """Results of the command, by the name of the error."""
    made = {
        name: write(control_plane, tmp_path_factory.mktemp(re.sub(r"\W", "-", name)))
        for name, (write, _) in ERRORS.items()
    }
    env = outside()

    def run(name: str) -> subprocess.CompletedProcess[str]:
        def answered() -> subprocess.CompletedProcess[str] | None:
            done = watchslo(*CHECK, "--kubeconfig", made[name], env=env)
            return None if name != SILENT and TOO_LATE.search(done.stdout) else done

        return eventually(answered, f"{name}: the apiserver is in time")

    with socket.create_server((HOST, 0)) as silent, ThreadPoolExecutor(AT_ONCE) as threads:
        made[SILENT] = control_plane.kubeconfig("silent", server=f"https://{HOST}:{silent.getsockname()[1]}")
        yield dict(zip(made, threads.map(run, made), strict=True))


@pytest.mark.parametrize("name", MESSAGES)
def test_first_error_says_what_where_and_what_to_do(checked: Checked, name: str) -> None:
    done = checked[name]
    assert re.search(MESSAGES[name], done.stdout), done.stdout + done.stderr
    assert done.returncode in (1, 2)
    assert TOKEN not in done.stdout + done.stderr
