"""Resources in several etcds, behind two apiservers: each is measured by the clock of its own storage."""

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fidelity.cases import Traffic
from tests.fidelity.writing import Make, Writing
from tests.support.assets import Assets
from tests.support.daemon import LOOK_SECONDS
from tests.support.partitioned import APART, Partitioned
from tests.support.sampled import Sampled
from tests.support.writer import Write, configmap, pod

NAMESPACE = "/api/v1/namespaces/default"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
TRAFFIC = Traffic("partitioned", rate=10.0)
SAMPLES = 100
INTERVAL = 0.5  # the default of `clock.interval`
FEW_TICKS = 10  # of all clocks while they begin


def plain(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def event(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "involvedObject": {"namespace": "default"}}


WRITTEN: dict[str, tuple[str, Make]] = {
    "pods": (f"{NAMESPACE}/pods", pod),
    "events": (f"{NAMESPACE}/events", event),
    "leases.coordination.k8s.io": (LEASES, plain),
    "configmaps": (f"{NAMESPACE}/configmaps", configmap),
    "secrets": (f"{NAMESPACE}/secrets", plain),
}
"""The collection of each watch, and what makes its objects."""
MOVED = ("pods", "events", "leases.coordination.k8s.io")
WATCHES = 2 * len(WRITTEN)  # at two apiservers
STAYING = ("configmaps", "secrets")
STORAGES = sorted([*((watch,) for watch in MOVED), STAYING])


@pytest.fixture(scope="module")
def lab(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Partitioned]:
    with Partitioned(tmp_path_factory.mktemp("partitioned"), assets, apart=()) as lab:
        yield lab


@contextlib.contextmanager
def daemon(lab: Partitioned, folder: Path, **keys: Any) -> Iterator[Sampled]:
    """Run a daemon that watches everything at both apiservers."""
    watch = [{"resource": resource} for resource in WRITTEN]
    with Sampled(folder, lab.plane.kubeconfig(), kubernetes=lab.kubernetes, watch=watch, **keys) as running:
        yield running


@contextlib.contextmanager
def writing(lab: Partitioned, seed: int) -> Iterator[Mapping[str, Writing]]:
    """Write to all watched resources, through the last apiserver."""
    writings = {
        watch: Writing(partial(lab.writer, 1), collection, make, TRAFFIC, seed)
        for watch, (collection, make) in WRITTEN.items()
    }
    with contextlib.ExitStack() as stack:
        for each in writings.values():
            stack.enter_context(each)
        yield writings


def counted(daemon: Sampled) -> dict[tuple[str, str], int]:
    """Return the number of samples by apiserver and watch."""
    streams = daemon.status()["streams"]
    return {(stream["apiserver"], stream["watch"]): stream["latency"]["events"] for stream in streams}


def until_measured(daemon: Sampled, watches: int) -> None:
    """Wait until so many watches are open, belong to the domains of their clocks, and have more samples than now."""
    before = counted(daemon)

    def measured() -> bool:
        settled = [stream["up"] and stream["membership"] == "member" for stream in daemon.status()["streams"]]
        more = [count >= before.get(key, 0) + SAMPLES for key, count in counted(daemon).items()]
        return settled == more == [True] * watches

    daemon.process.until(measured, "every watch is measured", LOOK_SECONDS)


def storages(daemon: Sampled) -> list[tuple[str, ...]]:
    """Return the watches of each domain, in order; a watch whose apiservers are in two domains appears twice."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for stream in daemon.status()["streams"]:
        found[stream["domain"]].add(stream["watch"])
    return sorted(tuple(sorted(watches)) for watches in found.values())


def verify(daemon: Sampled, writes: Mapping[str, list[Write]]) -> None:
    """Check all samples of these writes against the times of the writes."""
    for watch, of_watch in writes.items():
        checked, wrong = daemon.contradictions(of_watch, watch)
        assert checked >= SAMPLES, watch
        assert not wrong, f"{len(wrong)} of {checked} samples of {watch} cannot be true: {wrong[:3]}"


def all_writes(*phases: Mapping[str, Writing]) -> dict[str, list[Write]]:
    return {watch: [write for phase in phases for write in phase[watch].writes()] for watch in WRITTEN}


def test_storage_split_at_run_time_moves_only_what_has_moved(lab: Partitioned, tmp_path: Path) -> None:
    """The apiservers restart with overrides one after the other; the ticks are on a resource that moves."""
    lab.keep_apart()
    with daemon(lab, tmp_path) as running:
        with writing(lab, seed=1) as before:
            until_measured(running, WATCHES)
        assert storages(running) == [tuple(sorted(WRITTEN))]
        lab.keep_apart(*APART)
        with writing(lab, seed=2) as after:
            until_measured(running, WATCHES)
            running.process.until(lambda: storages(running) == STORAGES, "the storages are found", LOOK_SECONDS)
            until_measured(running, WATCHES)
        status = running.status()
        assert {domain["name"]: domain["resets"] for domain in status["domains"]}["main"] == 0
        assert {stream["domain"] for stream in status["streams"] if stream["watch"] in STAYING} == {"main"}
        for stream in status["streams"]:
            restored = stream["relists"].get("domain_reset", 0)
            assert restored <= (stream["watch"] in MOVED), (stream["watch"], restored)
        verify(running, all_writes(before, after))


def test_four_etcds_are_found_at_start(lab: Partitioned, tmp_path: Path) -> None:
    lab.keep_apart(*APART)
    with daemon(lab, tmp_path, clock={"burst": {"ticksPerHour": 0}}) as running, writing(lab, seed=3) as written:
        until_measured(running, WATCHES)
        status, scrape = running.status(), running.scrape()
        assert storages(running) == STORAGES
        assert scrape.total("watchslo_storage_info", kind="sequence") == len(STORAGES)
        assert not any(domain["resets"] for domain in status["domains"])
        assert not [stream for stream in status["streams"] if stream["latency"]["unmeasured"]["pending"]]
        verify_budget(running, len(lab.plane.apiservers))
        verify(running, all_writes(written))


def verify_budget(daemon: Sampled, apiservers: int) -> None:
    """Check that the clocks of the other storages together send no more ticks than the main one may."""
    status = daemon.status()
    began, now = (datetime.fromisoformat(moment) for moment in (status["monitor"]["startedAt"], status["at"]))
    most = (now - began).total_seconds() / INTERVAL + FEW_TICKS
    sent: defaultdict[str, int] = defaultdict(int)
    for domain in status["domains"]:
        for ticker in domain["tickers"] if domain["name"] != "main" else ():
            sent[ticker["apiserver"]] += sum(ticker["ticks"].values())
    assert len(sent) == apiservers
    assert max(sent.values()) <= most
