"""Revisions that are commit times, as on GKE, by a proxy before a real apiserver: each event dates itself."""

import itertools
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import commit_times
from tests.support.background import repeated
from tests.support.control_plane import ControlPlane, write_kubeconfig
from tests.support.daemon import Daemon, config_file
from tests.support.process import Process
from tests.support.writer import configmap

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
LEAST_TIMESTAMP = 10**18
MAXIMUM = 1.0
EVENTS = 50
WRITE_SECONDS = 0.1
BEST_OF_TICKS_SECONDS = 0.25  # half of the mean gap of ticks: bounds by ticks alone are wider


@contextmanager
def with_commit_times(folder: Path, plane: ControlPlane, *, reads: bool) -> Iterator[str]:
    """Run the proxy before an apiserver, and yield its URL."""
    settings = {"to": plane.url, "ca": str(plane.ca), "etcd": plane.etcd.url, "ahead": 3600.0, "reads": reads}
    command = [sys.executable, commit_times.__file__, json.dumps(settings)]
    with Process(folder, "commit-times", command) as proxy:
        proxy.until(lambda: "\n" in proxy.out, "listening")
        yield json.loads(proxy.out.splitlines()[0])["url"]


def longest(daemon: Daemon) -> dict[str, Any] | None:
    """Return the maximum of the last seconds, once there is one of enough events."""
    windows = daemon.streams()["configmaps"]["latency"]["windows"]
    window = next(one for one in windows if one["name"] == "15s")
    found = [one for one in window["quantiles"] if one["q"] == MAXIMUM]
    return found[0] if found and window["events"] >= EVENTS else None


@pytest.mark.parametrize("reads", [True, False])
def test_events_are_dated_by_revisions_that_are_commit_times(
    tmp_path: Path, control_plane: ControlPlane, *, reads: bool
) -> None:
    kubeconfig, name, numbers = tmp_path / "kubeconfig", f"commit-times-{reads}".lower(), itertools.count()
    with with_commit_times(tmp_path, control_plane, reads=reads) as url, control_plane.writer() as writer:
        write_kubeconfig(kubeconfig, {"server": url}, {"token": control_plane.token})

        def write() -> None:
            writer.patch(f"{CONFIGMAPS}/{name}", {"data": {"number": str(next(numbers))}})

        config = config_file(tmp_path, watch=[{"resource": "configmaps", "namespace": "default"}])
        writer.create(CONFIGMAPS, configmap(name))
        with (
            Daemon(tmp_path, "--config", config, "--kubeconfig", kubeconfig) as daemon,
            repeated(WRITE_SECONDS, write),
        ):
            daemon.until_measuring("configmaps")
            daemon.until(
                lambda scrape: scrape.values("watchslo_storage_info", kind="timestamp") == [1.0],
                "revisions are found to be times",
            )
            found = daemon.process.until(lambda: longest(daemon), "a maximum")
            status, scrape = daemon.status(), daemon.scrape()
    (domain,), (stream,) = status["domains"], status["streams"]
    assert found["upper"] - found["lower"] < BEST_OF_TICKS_SECONDS
    assert int(domain["revision"]) > LEAST_TIMESTAMP
    assert isinstance(domain["revision"], str)
    assert isinstance(stream["revision"], str)
    assert "watchslo_gap_revisions" not in scrape.text
    assert stream["latency"]["events"] >= EVENTS
    assert domain["resets"] == 0
