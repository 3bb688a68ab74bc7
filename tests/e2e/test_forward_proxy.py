"""Two apiservers, one behind a forward proxy and one that NO_PROXY names: each is asked as its own address needs."""

from pathlib import Path

from tests.support.assets import Assets
from tests.support.control_plane import SERVICE_NAME, ControlPlane, Etcd
from tests.support.daemon import Daemon, config_file, outside
from tests.support.forward_proxy import ForwardProxy
from tests.support.writer import configmap

NEAR = "0.0.0.0"  # Linux connects to this machine, but it is no loopback address, for which no proxy is used
FAR = "apiserver.invalid"


def test_only_the_apiserver_that_no_proxy_names_is_asked_directly(assets: Assets, tmp_path: Path) -> None:
    with (
        Etcd(tmp_path, assets.etcd) as etcd,
        ControlPlane(tmp_path, assets.kube_apiserver, etcd, apiservers=2) as plane,
        ForwardProxy() as proxy,
    ):
        near, far = (one.url.rpartition(":")[2] for one in plane.apiservers)
        urls = [f"https://{NEAR}:{near}", f"https://{FAR}:{far}"]
        config = config_file(
            tmp_path,
            kubernetes={"apiservers": urls, "tlsServerName": SERVICE_NAME},
            watch=[{"resource": "configmaps", "namespace": "default"}],
        )
        environment = outside(HTTPS_PROXY=proxy.url, NO_PROXY=f"elsewhere.invalid,{NEAR}")
        arguments = ("--config", config, "--kubeconfig", plane.kubeconfig())
        with Daemon(tmp_path / "daemon", *arguments, env=environment) as daemon, plane.writer() as writer:
            daemon.until_measuring("configmaps")
            writer.create("/api/v1/namespaces/default/configmaps", configmap("a"))

            def delivered() -> bool:
                scrape = daemon.scrape()
                names = (url.removeprefix("https://") for url in urls)
                return all(scrape.total("watchslo_watch_events_total", apiserver=name) > 0 for name in names)

            daemon.process.until(delivered, "both apiservers deliver the event")
        assert f"{FAR}:{far}" in proxy.wanted
        assert f"{NEAR}:{near}" not in proxy.wanted
