"""Watch caches that are switched on for events and off for config maps: they are found, and hide no lag."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.assets import Assets
from tests.support.control_plane import ControlPlane, Etcd, override
from tests.support.daemon import LOOK_SECONDS, Daemon, Proxy, config_file
from tests.support.process import eventually
from tests.support.writer import Writer, configmap

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"
FLAG = "--watch-cache-sizes=configmaps#0,events#1000"
LATE = 0.5
SAMPLES, TOGETHER = 30, 3
HOPS = {"storage_to_cache", "cache_to_client"}


@pytest.fixture
def late_events(assets: Assets, tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane whose cache of events is half a second behind; it was restarted, so that all caches are young."""
    with Etcd(tmp_path, assets.etcd) as etcd, Proxy(tmp_path, "storage", etcd.url) as storage:
        flags = [FLAG, override("/events", storage.url)]
        with ControlPlane(tmp_path, assets.kube_apiserver, etcd, flags=flags) as plane:
            etcd.compact(etcd.revision())
            plane.apiservers[0].restart()
            with storage.late(f"constant {1000 * LATE:.0f}ms"):
                yield plane


def test_caches_that_are_switched_on_and_off_are_found(late_events: ControlPlane, tmp_path: Path) -> None:
    config = config_file(
        tmp_path, watch=[{"resource": name, "hops": True} for name in ("configmaps", "events", "secrets")]
    )
    with Daemon(tmp_path, "--config", config, "--kubeconfig", late_events.kubeconfig()) as daemon:
        daemon.until_measuring("configmaps", "events", "secrets")
        daemon.until_said("ticking", on=["configmaps"], blind=False)
        with late_events.writer() as writer:
            for name, collection in (("configmaps", CONFIGMAPS), ("events", EVENTS)):
                daemon.until_sampled(name, SAMPLES, partial(create_some, writer, collection))

        def whole() -> dict[str, Any] | None:
            """Look again while the caches are not known, or the last samples are older than the window."""
            watches = daemon.streams()
            known = all(watch["cachedFound"] for watch in watches.values())
            return watches if known and watches["events"]["latency"]["windows"][0]["quantiles"] else None

        watches = eventually(whole, "caches and latencies are known", LOOK_SECONDS)
        assert {name: watches[name]["cached"] for name in watches} == {
            "configmaps": False,
            "events": True,
            "secrets": True,
        }
        assert {name for name in watches if watches[name]["probed"]} == {"events", "secrets"}
        median = watches["events"]["latency"]["windows"][0]["quantiles"][0]
        assert median["estimate"] > 0.8 * LATE, "ticks on events would wait for the same cache and show milliseconds"
        known = partial(hops_are, daemon, "events", HOPS)
        daemon.process.until(known, "its hops are known", LOOK_SECONDS)
        assert not watches["configmaps"]["latency"]["hops"]


def hops_are(daemon: Daemon, watch: str, hops: set[str]) -> bool:
    return {hop["hop"] for hop in daemon.streams()[watch]["latency"]["hops"]} == hops


def create_some(writer: Writer, collection: str, number: int) -> None:
    for part in range(TOGETHER):
        writer.create(collection, _object(collection, f"{number}-{part}"))


def _object(collection: str, name: str) -> dict[str, Any]:
    if collection == CONFIGMAPS:
        return configmap(f"object-{name}")
    return {"metadata": {"name": f"event-{name}"}, "involvedObject": {"namespace": "default"}}
