"""Which cluster is chosen, and the credentials of a pod that are rotated."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.support.certs import Authority
from tests.support.transcripts import of_states
from tests.unit.kube.conftest import described, renewed
from watchslo.errors import ConnectError
from watchslo.kube.connect import connect

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def service_account(tmp_path: Path, authority: Authority) -> Path:
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("abc\n")
    (folder / "ca.crt").write_bytes(authority.ca.read_bytes())
    return folder


def kubeconfig(path: Path, server: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'{{"current-context": "c", "clusters": [{{"name": "c", "cluster": {{"server": "{server}"}}}}],'
        '"contexts": [{"name": "c", "context": {"cluster": "c"}}, {"name": "d", "context": {"cluster": "c"}}]}'
    )
    return str(path)


PROXY = {"HTTPS_PROXY": "http://proxy:3128"}
SERVICE = "KUBERNETES_SERVICE_HOST"
PORT = "KUBERNETES_SERVICE_PORT"
CASES: dict[str, tuple[str | None, str | None, dict[str, str], str]] = {
    "pod": (None, None, POD, "pod"),
    "pod with IPv6": (None, None, {SERVICE: "fd00::1", PORT: "443"}, "pod"),
    "pod with a name of the service": (None, None, {SERVICE: "kubernetes.default", PORT: "6443"}, "pod"),
    "pod without a port": (None, None, {SERVICE: "10.96.0.1", PORT: ""}, "pod"),
    "pod behind a proxy": (None, None, POD | PROXY, "pod"),
    "empty token": (None, None, POD, "empty token"),
    "no authority": (None, None, POD, "no authority"),
    "pod without a token": (None, None, POD, "no token"),
    "named kubeconfig in a pod": ("FOLDER/named", None, POD, "pod"),
    "named context in a pod": (None, "d", POD | {"HOME": "FOLDER/home"}, "pod"),
    "pod without a token, but with a kubeconfig": (None, None, POD | {"HOME": "FOLDER/home"}, "no token"),
    "$KUBECONFIG": (None, None, {"HOME": "FOLDER/home", "KUBECONFIG": "FOLDER/absent:FOLDER/named"}, "no token"),
    "nothing": (None, None, {"HOME": "FOLDER/nowhere"}, "no token"),
    "absent files in $KUBECONFIG": (None, None, {"HOME": "FOLDER/home", "KUBECONFIG": "/nowhere:/neither"}, "no token"),
    "absent kubeconfig": ("FOLDER/absent", None, {}, "no token"),
}
"""The kubeconfig, the context, the environment and the service account, by what is special about them."""


async def test_connections_match_golden_file(
    tmp_path: Path, service_account: Path, golden: Callable[[str, str], None]
) -> None:
    folders = {name: tmp_path / name for name in ("pod", "empty token", "no authority", "no token")}
    for folder in folders.values():
        shutil.copytree(service_account, folder)
    (folders["empty token"] / "token").write_text("")
    (folders["no authority"] / "ca.crt").unlink()
    (folders["no token"] / "token").unlink()
    kubeconfig(tmp_path / "home" / ".kube" / "config", "http://home")
    kubeconfig(tmp_path / "named", "http://named")
    states = {}
    for name, (given, context, environ, account) in CASES.items():
        path = given and given.replace("FOLDER", str(tmp_path))
        named = {key: text.replace("FOLDER", str(tmp_path)) for key, text in environ.items()}
        try:
            connection = connect(path, context, named, folders[account])
            states[name] = described(await connection.access())
        except ConnectError as error:
            states[name] = [str(error).replace(str(tmp_path), "FOLDER")]
    golden("kube/connections.txt", of_states(states))


class TestRotation:
    async def test_rotated_token(self, service_account: Path) -> None:
        connection = connect(environ=POD, service_account=service_account)
        await connection.access()
        (service_account / "token").write_text("rotated\n")
        assert (await renewed(connection)).headers == (("Authorization", "Bearer rotated"),)

    async def test_rotated_authority(self, service_account: Path, tmp_path: Path) -> None:
        connection = connect(environ=POD, service_account=service_account)
        before = await connection.access()
        ca = service_account / "ca.crt"
        ca.write_bytes(ca.read_bytes() + Authority(tmp_path / "other").ca.read_bytes())
        after = await renewed(connection)
        assert before.tls is not None
        assert after.tls is not None
        assert [len(tls.get_ca_certs()) for tls in (before.tls, after.tls)] == [1, 2]


@pytest.mark.parametrize(("mode", "is_warned"), [(0o600, False), (0o644, False), (0o646, True), (0o666, True)])
def test_kubeconfig_that_anyone_may_write_is_warned_of(tmp_path: Path, mode: int, *, is_warned: bool) -> None:
    path = Path(kubeconfig(tmp_path / "config", "https://here"))
    path.chmod(mode)
    with capture_logs() as logged:
        connect(str(path))
    assert [(one["event"], one["path"]) for one in logged] == [("kubeconfig_writable", str(path))] * is_warned
