"""Two apiservers on one etcd, and the shipped DaemonSet: an instance sees how late its own apiserver's link is."""

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fidelity.cases import Traffic
from tests.fidelity.writing import Make, Writing
from tests.support.assets import Assets
from tests.support.control_plane import HOST, Port
from tests.support.daemon import LOOK_SECONDS, Daemon
from tests.support.daemonset import kubeconfig, profile_of
from tests.support.high_availability import HighAvailability, Member
from tests.support.sampled import Sampled
from tests.support.writer import configmap, pod

COLLECTIONS: dict[str, Make] = {
    "/api/v1/namespaces/default/pods": pod,
    "/api/v1/namespaces/default/configmaps": configmap,
}
TRAFFIC = Traffic("steady", rate=20.0)
LATE_SECONDS = 0.3
GOAL_SECONDS = 0.05


@pytest.fixture(scope="module")
def lab(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HighAvailability]:
    with HighAvailability(tmp_path_factory.mktemp("witnesses"), assets, count=2) as lab:
        yield lab


@pytest.fixture(scope="module")
def writings(lab: HighAvailability) -> Iterator[list[Writing]]:
    """Steady writes by the second apiserver, which is always prompt."""
    with contextlib.ExitStack() as stack:
        writer = partial(lab.writer, lab.members[1])
        yield [
            stack.enter_context(Writing(writer, collection, make, TRAFFIC, seed=5))
            for collection, make in COLLECTIONS.items()
        ]


@pytest.fixture
def late(lab: HighAvailability) -> Iterator[Member]:
    """Return an apiserver to which all that etcd sends is late."""
    with lab.members[0].storage.late(f"constant {LATE_SECONDS:g}s"):
        yield lab.members[0]


def instance(lab: HighAvailability, member: Member, folder: Path) -> Sampled:
    """Return the instance of the DaemonSet that runs next to an apiserver."""
    return Sampled(folder / "daemon", kubeconfig(lab), **profile_of(member.url))


def p50(daemon: Daemon) -> dict[str, Any]:
    """Return the P50 of the pods of the last minute; its estimate is 0 without quantiles."""
    windows = daemon.streams()["pods"]["latency"]["windows"]
    found = [one for window in windows if window["name"] == "1m" for one in window["quantiles"] if one["q"] == 0.5]
    return dict(found[0]) if found else {"estimate": 0.0, "resolved": False}


def test_late_link_is_seen_by_the_ticks_of_the_witness(
    lab: HighAvailability, writings: list[Writing], late: Member, tmp_path: Path
) -> None:
    witness = lab.members[1]
    with instance(lab, late, tmp_path) as daemon:
        daemon.until_measuring("pods", "configmaps")

        def causes() -> set[tuple[str, str | None]]:
            return {(cause["cause"], cause["apiserver"]) for cause in daemon.status()["causes"]}

        daemon.process.until(
            lambda: p50(daemon)["resolved"] and abs(p50(daemon)["estimate"] - LATE_SECONDS) < GOAL_SECONDS,
            "the median is the delay",
            LOOK_SECONDS,
        )
        daemon.process.until(lambda: ("cache_behind", late.name) in causes(), "the cause is named", LOOK_SECONDS)
        daemon.until(
            lambda scrape: scrape.value("watchslo_creation_to_watch_seconds_count", watch="pods") > 0,
            "creation timestamps are measured",
        )
        status, scrape = daemon.status(), daemon.scrape()
        print(p50(daemon), status["causes"])
        assert status["monitor"]["witnesses"] == {"announced": 1, "reached": 1, "why": None}
        assert {one["name"]: one["role"] for one in status["apiservers"]} == {
            "service": "service",
            late.name: "member",
            witness.name: "witness",
        }
        assert {stream["apiserver"] for stream in status["streams"]} == {late.name}
        assert scrape.value("watchslo_witnesses", state="reached") == 1
        requests = {row["kind"] for one in status["apiservers"] if one["role"] == "witness" for row in one["requests"]}
        assert requests <= {"tick", "version", "discovery"}, "nothing else is asked of a witness"
        checked, wrong = daemon.contradictions(write for writing in writings for write in writing.writes())
        assert checked > 0
        assert wrong == []


def test_unreachable_witness_is_reported_once(
    lab: HighAvailability, writings: list[Writing], late: Member, tmp_path: Path
) -> None:
    port = Port()
    closed = f"https://{HOST}:{port.number}"
    lab.withdraw(lab.members[1].url)
    lab.announce(closed)
    try:
        with instance(lab, late, tmp_path) as daemon:
            daemon.until_measuring("pods", "configmaps")
            daemon.until_said("witnesses_unreachable", addresses=[closed])
            daemon.until(
                lambda scrape: scrape.total("watchslo_watch_events_total", watch="pods") > 500,
                "many events came",
            )
            status = daemon.status()
            witnesses = status["monitor"]["witnesses"]
            assert (witnesses["announced"], witnesses["reached"]) == (1, 0)
            assert witnesses["why"]
            assert {one["role"] for one in status["apiservers"]} == {"service", "member"}
            assert not p50(daemon)["resolved"]
            assert "Witnesses" in status["trust"]["text"]
            assert len(daemon.log("witnesses_unreachable")) == 1
            assert daemon.scrape().total("watchslo_creation_to_watch_seconds_count") == 0
    finally:
        lab.withdraw(closed)
        lab.announce(lab.members[1].url)
        port.release()
    assert all(writing.writes() for writing in writings)
