from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.support.certs import Authority
from tests.unit.kube.conftest import renewed
from watchslo.errors import ConnectError
from watchslo.kube.connect import connect
from watchslo.kube.proxy_rule import DIRECT, ProxyRule

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


class TestInCluster:
    async def test_access(self, service_account: Path) -> None:
        access = await connect(environ=POD, service_account=service_account).access()
        assert access.url == "https://10.96.0.1:443"
        assert access.headers == (("Authorization", "Bearer abc"),)
        assert access.tls is not None
        assert access.proxy == DIRECT

    @pytest.mark.parametrize(
        ("host", "port", "url"),
        [
            ("fd00::1", "443", "https://[fd00::1]:443"),
            ("kubernetes.default", "6443", "https://kubernetes.default:6443"),
            ("10.96.0.1", "", "https://10.96.0.1:443"),
        ],
    )
    async def test_address(self, service_account: Path, host: str, port: str, url: str) -> None:
        environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        assert (await connect(environ=environ, service_account=service_account).access()).url == url

    async def test_proxy(self, service_account: Path) -> None:
        environ = POD | {"HTTPS_PROXY": "http://proxy:3128"}
        access = await connect(environ=environ, service_account=service_account).access()
        assert access.proxy == ProxyRule(https="http://proxy:3128")

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

    async def test_remounted_files_with_equal_content_are_no_change(self, service_account: Path) -> None:
        changes: list[str] = []
        connection = connect(environ=POD, service_account=service_account)
        connection.on_change(lambda: changes.append("change"))
        before = await connection.access()
        for path in (service_account / "token", service_account / "ca.crt"):
            fresh = path.with_suffix(".new")
            fresh.write_bytes(path.read_bytes())
            fresh.replace(path)
        assert await renewed(connection) is before
        assert changes == []

    async def test_empty_token_is_refused(self, service_account: Path) -> None:
        (service_account / "token").write_text("")
        with pytest.raises(ConnectError, match="token: contains no token; put one there"):
            await connect(environ=POD, service_account=service_account).access()

    async def test_missing_authority_is_refused(self, service_account: Path) -> None:
        (service_account / "ca.crt").unlink()
        with pytest.raises(ConnectError, match=r"ca\.crt: contains no CA certificate"):
            await connect(environ=POD, service_account=service_account).access()

    def test_pod_without_token_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConnectError, match="give the pod a service account and mount its token"):
            connect(environ=POD | {"HOME": str(tmp_path)}, service_account=tmp_path)


class TestChoice:
    async def test_named_kubeconfig_is_preferred(self, tmp_path: Path, service_account: Path) -> None:
        named = kubeconfig(tmp_path / "named", "http://named")
        assert (await connect(named, environ=POD, service_account=service_account).access()).url == "http://named"

    async def test_named_context_selects_a_kubeconfig(self, tmp_path: Path, service_account: Path) -> None:
        kubeconfig(tmp_path / ".kube" / "config", "http://home")
        connection = connect(None, "d", POD | {"HOME": str(tmp_path)}, service_account)
        assert (await connection.access()).url == "http://home"

    async def test_kubeconfig_is_used_in_a_pod_without_token(self, tmp_path: Path) -> None:
        kubeconfig(tmp_path / ".kube" / "config", "http://home")
        connection = connect(environ=POD | {"HOME": str(tmp_path)}, service_account=tmp_path)
        assert (await connection.access()).url == "http://home"

    async def test_kubeconfig_variable_is_preferred_to_home(self, tmp_path: Path) -> None:
        kubeconfig(tmp_path / ".kube" / "config", "http://home")
        named = kubeconfig(tmp_path / "named", "http://named")
        environ = {"HOME": str(tmp_path), "KUBECONFIG": f"{tmp_path / 'absent'}:{named}"}
        assert (await connect(environ=environ, service_account=tmp_path).access()).url == "http://named"

    @pytest.mark.parametrize(
        ("environ", "message"),
        [
            (
                {},
                r"no cluster: this is not a pod, and there is no ~/\.kube/config; name a kubeconfig with",
            ),
            (
                {"KUBECONFIG": "/nowhere:/neither"},
                "no cluster: \\$KUBECONFIG names /nowhere:/neither, which does not exist; ",
            ),
        ],
    )
    def test_no_cluster_is_refused(self, tmp_path: Path, environ: dict[str, str], message: str) -> None:
        with pytest.raises(ConnectError, match=f"^{message}"):
            connect(environ={"HOME": str(tmp_path), **environ}, service_account=tmp_path)

    def test_missing_kubeconfig_is_refused(self, tmp_path: Path) -> None:
        path = str(tmp_path / "absent")
        with pytest.raises(ConnectError) as caught:
            connect(path, environ={}, service_account=tmp_path)
        assert str(caught.value) == f"{path}: no such kubeconfig; name a file that exists"


@pytest.mark.parametrize(("mode", "is_warned"), [(0o600, False), (0o644, False), (0o646, True), (0o666, True)])
def test_kubeconfig_that_anyone_may_write_is_warned_of(tmp_path: Path, mode: int, *, is_warned: bool) -> None:
    path = Path(kubeconfig(tmp_path / "config", "https://here"))
    path.chmod(mode)
    with capture_logs() as logged:
        connect(str(path))
    assert [(one["event"], one["path"]) for one in logged] == [("kubeconfig_writable", str(path))] * is_warned
