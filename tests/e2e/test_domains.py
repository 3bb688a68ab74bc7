"""Events in an etcd of their own, as large clusters keep them: two sequences of revisions, and neither is mistaken."""

from collections.abc import Iterator

import pytest

from tests.support.assets import Assets
from tests.support.control_plane import ControlPlane, Etcd, override
from tests.support.daemon import Daemon, config_file
from tests.support.writer import configmap

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"
AHEAD = 300  # the main etcd's revisions at the start; the second one's begin with 1
WRITES = 150
LATE_SECONDS = 1.0


@pytest.fixture(scope="module")
def plane(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder = tmp_path_factory.mktemp("two-etcds")
    with Etcd(folder, assets.etcd) as etcd, Etcd(folder, assets.etcd, "second") as second:
        flags = [override("/events", second.url)]
        with ControlPlane(folder, assets.kube_apiserver, etcd, flags=flags) as plane:
            yield plane


def write(plane: ControlPlane, prefix: str, count: int) -> None:
    """So many config maps, and as many events, in turn."""
    involved = {"kind": "Pod", "namespace": "default", "name": "none"}
    with plane.writer() as writer:
        for number in range(count):
            writer.create(CONFIGMAPS, configmap(f"{prefix}-{number}"))
            writer.create(EVENTS, {"metadata": {"name": f"{prefix}-{number}"}, "involvedObject": involved})


def test_each_sequence_has_a_clock_of_its_own(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("domains")
    watches = [{"resource": resource} for resource in ("configmaps", "pods", "events")]
    config = config_file(folder, watch=watches, metrics="full")
    with plane.writer() as writer:
        while (revision := writer.revision(CONFIGMAPS)) < AHEAD:
            writer.create(CONFIGMAPS, configmap(f"ahead-{revision}"))
    with Daemon(folder, "--config", config, "--kubeconfig", plane.kubeconfig()) as daemon:
        daemon.until_measuring("configmaps", "pods", "events")
        assert {name: stream["domain"] for name, stream in daemon.streams().items()} == {
            "configmaps": "main",
            "pods": "main",
            "events": "events",
        }
        domains = {domain["name"]: domain for domain in daemon.status()["domains"]}
        assert sorted(domains["main"]["ticksOn"]) == ["configmaps", "pods"]
        assert domains["events"]["ticksOn"] == ["events"]
        before = daemon.scrape().total("watchslo_unmeasured_events_total")

        write(plane, "domains", WRITES)
        for watch in ("configmaps", "events"):
            daemon.until_samples(watch, WRITES)
        scrape = daemon.scrape()
        assert scrape.total("watchslo_unmeasured_events_total") == before
        for watch in ("configmaps", "events"):
            assert scrape.value("watchslo_watch_events_total", watch=watch, type="added") == WRITES
            assert scrape.value("watchslo_slo_events_total", watch=watch, verdict="beyond") == 0
            p99 = daemon.streams()[watch]["latency"]["windows"][0]["quantiles"][-1]
            assert p99["estimate"] < LATE_SECONDS, p99
        with plane.writer() as writer:
            assert scrape.value("watchslo_resource_version", domain="main") <= writer.revision(CONFIGMAPS)
            assert scrape.value("watchslo_resource_version", domain="events") <= writer.revision(EVENTS)
            assert writer.revision(EVENTS) < writer.revision(CONFIGMAPS)
        assert scrape.total("watchslo_clock_resets_total") == 0
        assert scrape.total("watchslo_order_violations_total") == 0
