"""A watch that says nothing: an apiserver's cache that froze, and a connection that died without a word."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.assets import Assets
from tests.support.control_plane import ControlPlane, Etcd, override
from tests.support.daemon import Daemon, Proxy, Scrape, config_file
from tests.support.writer import Writer, configmap

CORE = "/api/v1/namespaces/default"
SECRETS, CONFIGMAPS = f"{CORE}/secrets", f"{CORE}/configmaps"
PROMISED_SECONDS = 30.0
PATIENCE_SECONDS = 90.0

pytestmark = pytest.mark.timeout(400)
WRITES = 20


@dataclass(frozen=True, slots=True)
class Planes:
    """Two apiservers on one etcd: what is written by `other` comes to `plane`, to its cache of secrets by `storage`."""

    plane: ControlPlane
    other: ControlPlane
    storage: Proxy


@pytest.fixture(scope="module")
def planes(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planes]:
    folder, elsewhere = tmp_path_factory.mktemp("frozen"), tmp_path_factory.mktemp("other")
    with Etcd(folder, assets.etcd) as etcd, Proxy(folder, "storage", etcd.url) as storage:
        flags = [override("/secrets", storage.url)]
        with (
            ControlPlane(folder, assets.kube_apiserver, etcd, flags=flags) as plane,
            ControlPlane(elsewhere, assets.kube_apiserver, etcd) as other,
        ):
            yield Planes(plane, other, storage)


def write(writer: Writer, collection: str, prefix: str, count: int = WRITES) -> float:
    """So many objects; returns when the first of them was surely there, in monotonic seconds."""
    writes = [writer.create(collection, configmap(f"{prefix}-{number}") | _kind(collection)) for number in range(count)]
    return writes[0].after


def _kind(collection: str) -> dict[str, object]:
    return {"kind": "Secret", "data": {}} if collection == SECRETS else {}


def found(daemon: Daemon, watch: str, since: float) -> float:
    """Waits until a stall of a watch is counted, and returns how long that took."""
    daemon.until(
        lambda scrape: scrape.value("watchslo_stalls_total", watch=watch) == 1, PATIENCE_SECONDS, f"{watch} stalled"
    )
    return time.monotonic() - since


def all_found(daemon: Daemon, since: Mapping[str, float]) -> list[float]:
    """Waits until a stall of each of these watches is counted, and returns how long each took."""
    took: dict[str, float] = {}

    def look(scrape: Scrape) -> bool:
        for name, began in since.items():
            if name not in took and scrape.value("watchslo_stalls_total", watch=name):
                took[name] = time.monotonic() - began
        return len(took) == len(since)

    daemon.until(look, PATIENCE_SECONDS, "all stalled")
    return list(took.values())


def until_whole(daemon: Daemon, watch: str, events: float) -> None:
    """Waits until a watch has brought so many events and is stalled no more."""
    daemon.until(
        lambda scrape: (
            scrape.value("watchslo_watch_events_total", watch=watch, type="added") == events
            and scrape.value("watchslo_watch_stalled", watch=watch) == 0
        ),
        PATIENCE_SECONDS,
        f"{watch} whole again",
    )


def test_the_frozen_cache_of_one_resource_is_found(planes: Planes, tmp_path: Path) -> None:
    config = config_file(tmp_path, watch=[{"resource": "secrets"}, {"resource": "configmaps"}], metrics="full")
    kubeconfig = planes.plane.kubeconfig()
    with Daemon(tmp_path, "--config", config, "--kubeconfig", kubeconfig) as daemon, planes.other.writer() as writer:
        daemon.until_measuring("secrets", "configmaps")
        write(writer, SECRETS, "before")
        write(writer, CONFIGMAPS, "before")
        until_whole(daemon, "secrets", WRITES)
        with planes.storage.fault("frozen-link"):
            committed = write(writer, SECRETS, "withheld")
            took = found(daemon, "secrets", committed)
            print(f"a frozen cache was found after {took:.1f} s")
            write(writer, CONFIGMAPS, "meanwhile")
            until_whole(daemon, "configmaps", 2 * WRITES)
            assert daemon.scrape().value("watchslo_watch_stalled", watch="secrets") == 1
            assert daemon.streams()["secrets"]["lastAudit"] == "frozen"
            assert daemon.streams()["configmaps"]["lastAudit"] != "frozen"
        until_whole(daemon, "secrets", 2 * WRITES)
        scrape = daemon.scrape()
        assert scrape.value("watchslo_stalls_total", watch="secrets") == 1
        assert scrape.value("watchslo_stalls_total", watch="configmaps") == 0
        assert scrape.total("watchslo_lost_events_total") == 0
        assert scrape.total("watchslo_order_violations_total") == 0
        daemon.until_said("stall_over", watch="secrets")
        assert took <= PROMISED_SECONDS


def test_twenty_connections_that_die_silently_are_found_and_lose_nothing(planes: Planes, tmp_path: Path) -> None:
    plane, names = planes.other, [f"team-{number}" for number in range(20)]
    watches = [{"resource": "configmaps", "name": name, "labelSelector": f"team={name}"} for name in names]
    config = config_file(tmp_path, watch=watches, metrics="full")
    with Proxy(tmp_path, "link", plane.url) as link:
        kubeconfig = plane.kubeconfig("linked", server=link.url)
        with (
            Daemon(tmp_path / "daemon", "--config", config, "--kubeconfig", kubeconfig) as daemon,
            plane.writer() as writer,
        ):
            daemon.until_measuring(*names)
            link.switch_on("hole-to-client", connections="open")
            committed = {name: writer.create(CONFIGMAPS, configmap(f"{name}-1", team=name)).after for name in names}
            took = all_found(daemon, committed)
            print("dead connections were found after", " ".join(f"{seconds:.1f}" for seconds in sorted(took)), "s")
            for name in names:
                writer.create(CONFIGMAPS, configmap(f"{name}-2", team=name))
            for name in names:
                until_whole(daemon, name, 2)
            scrape = daemon.scrape()
            for name in names:
                assert scrape.value("watchslo_stalls_total", watch=name) == 1
                assert scrape.total("watchslo_watches_closed_total", watch=name, reason="stalled") == 1
                assert scrape.total("watchslo_relists_total", watch=name) == 1  # the first
            assert scrape.total("watchslo_lost_events_total") == 0
            assert scrape.total("watchslo_gap_revisions_total") == 0
            assert max(took) <= PROMISED_SECONDS
