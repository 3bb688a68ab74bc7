"""The poll by which kine finds changes: one that stands still is named, and its events come later."""

import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import assets as programs
from tests.support.arrivals import WatchArrivals
from tests.support.assets import Assets
from tests.support.background import repeated
from tests.support.control_plane import ControlPlane
from tests.support.daemon import Daemon, config_file
from tests.support.kine import Kine, PollProxy, Postgres, is_kine
from tests.support.process import eventually
from tests.support.writer import Writer, configmap

NAMESPACE = "/api/v1/namespaces/default"
CONFIGMAPS = f"{NAMESPACE}/configmaps"
EVENTS = f"{NAMESPACE}/events"
SILENT_SECONDS = 5.0  # five polls
SAMPLES = 50
WRITE_SECONDS = 0.1


@pytest.fixture(scope="module")
def proxied(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, PollProxy]]:
    """An apiserver on a kine server, with a proxy between that and Postgres."""
    folder = tmp_path_factory.mktemp("kine")
    kine = programs.find(os.environ, programs.KINE)
    with (
        Postgres(folder) as database,
        PollProxy(database) as proxy,
        Kine(folder, kine, database, through=proxy.endpoint) as storage,
        ControlPlane(folder, assets.kube_apiserver, storage) as plane,
    ):
        yield plane, proxy


def test_stopped_poll_silences_watches_while_lists_stay_fresh(proxied: tuple[ControlPlane, PollProxy]) -> None:
    plane, proxy = proxied
    with plane.writer() as writer, WatchArrivals(plane, plane.apiservers[0], CONFIGMAPS) as watch:
        before = writer.create(CONFIGMAPS, configmap("before")).revision
        eventually(lambda: before in watch.at, "the first event arrives")
        with proxy.stopped():
            during = writer.create(CONFIGMAPS, configmap("during")).revision
            assert during is not None
            assert writer.revision(EVENTS) >= during
            assert "during" in {found["metadata"]["name"] for found in writer.get(CONFIGMAPS)["items"]}
            time.sleep(SILENT_SECONDS)
            assert writer.revision(EVENTS) >= during
            assert during not in watch.at
        eventually(lambda: during in watch.at, "the event of the silence arrives")


def keep_changing(writer: Writer, number: int) -> None:
    """Change a config map and a secret."""
    for kind in ("configmaps", "secrets"):
        writer.patch(f"{NAMESPACE}/{kind}/watched", {"metadata": {"annotations": {"number": str(number)}}})


def test_kine_is_recognised_and_its_stopped_poll_is_named(
    proxied: tuple[ControlPlane, PollProxy], tmp_path: Path
) -> None:
    plane, proxy = proxied
    numbers = itertools.count()
    config = config_file(tmp_path, watch=[{"resource": "configmaps"}, {"resource": "secrets"}])
    with plane.writer() as writer:
        for kind in ("configmaps", "secrets"):
            writer.create(f"{NAMESPACE}/{kind}", {"metadata": {"name": "watched"}})
        with (
            Daemon(tmp_path, "--config", config, "--kubeconfig", plane.kubeconfig()) as daemon,
            repeated(WRITE_SECONDS, lambda: keep_changing(writer, next(numbers))),
        ):
            daemon.until_measuring("configmaps", "secrets")
            daemon.until(is_kine, "kine is found")
            daemon.until_samples("configmaps", SAMPLES)
            assert daemon.scrape().values("watchslo_storage_proven") == [1.0]
            assert not named(daemon)
            with proxy.stopped():
                daemon.process.until(lambda: named(daemon), "the cause is named")
            daemon.process.until(lambda: not named(daemon), "the cause has ended")
            daemon.until_samples("configmaps", daemon.samples("configmaps") + SAMPLES)
            assert daemon.status()["domains"][0]["resets"] == 0


def named(daemon: Daemon) -> bool:
    """Return whether the poll of the storage is a cause."""
    return "storage_poller" in [one["cause"] for one in daemon.status()["causes"]]
