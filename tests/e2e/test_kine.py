"""kine in place of etcd: it is recognised, and its events are measured."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fidelity.cases import Traffic
from tests.fidelity.writing import Writing
from tests.support import assets as programs
from tests.support.assets import Assets
from tests.support.background import repeated
from tests.support.control_plane import ControlPlane
from tests.support.daemon import Daemon
from tests.support.kine import Kine, Postgres, Sqlite, is_kine
from tests.support.sampled import Sampled
from tests.support.writer import configmap

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
SAMPLES = 50
RENEW_SECONDS = 10.0
TRAFFIC = Traffic("kine", rate=10.0)


@contextlib.contextmanager
def on_database(folder: Path, assets: Assets, database: str) -> Iterator[ControlPlane]:
    """Run one apiserver on SQLite, or two with a kine server each on Postgres."""
    kine = programs.find(os.environ, programs.KINE)
    with contextlib.ExitStack() as stack:
        if database == "sqlite":
            storage = stack.enter_context(Kine(folder, kine, Sqlite(folder)))
            yield stack.enter_context(ControlPlane(folder, assets.kube_apiserver, storage))
            return
        shared = stack.enter_context(Postgres(folder))
        first = stack.enter_context(Kine(folder, kine, shared))
        second = stack.enter_context(Kine(folder, kine, shared, "other-kine"))
        plane = ControlPlane(folder, assets.kube_apiserver, first)
        plane.add(second.url)
        stack.enter_context(plane)
        # Both apiservers have the lease of this host; the daemon must know that there are two.
        stack.enter_context(repeated(RENEW_SECONDS, lambda: plane.lease("other-host")))
        yield plane


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_no_sample_contradicts_the_writes(tmp_path: Path, assets: Assets, database: str) -> None:
    """With Postgres, all writes go through the other server, so each event waits for a poll."""
    with on_database(tmp_path, assets, database) as plane:
        writer = plane.apiservers[-1]
        writing = Writing(lambda: writer.writer(plane.token), CONFIGMAPS, configmap, TRAFFIC, seed=1)
        with (
            Sampled(tmp_path / "daemon", plane.kubeconfig(), watch=[{"resource": "configmaps"}]) as daemon,
            writing,
        ):
            daemon.until_measuring("configmaps")
            daemon.until(is_kine, "kine is found")
            if database == "postgres":
                daemon.process.until(lambda: polls(daemon), "polls are known")
            daemon.until_samples("configmaps", daemon.samples("configmaps") + SAMPLES)
            assert database == "postgres" or not polls(daemon)
        checked, wrong = daemon.contradictions(writing.writes())
    assert checked >= SAMPLES
    assert not wrong, f"{len(wrong)} of {checked} samples cannot be true: {wrong[:3]}"


def polls(daemon: Daemon) -> bool:
    return any(ticker["polls"] for domain in daemon.status()["domains"] for ticker in domain["tickers"])
