"""Three apiservers, one of which fails: the daemon names it and the cause, and blames no other."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fidelity.cases import Traffic
from tests.fidelity.writing import Writing
from tests.support.assets import Assets
from tests.support.control_plane import SERVICE_NAME
from tests.support.daemon import LOOK_SECONDS, Daemon, config_file
from tests.support.high_availability import HighAvailability, Member
from tests.support.process import eventually
from tests.support.sampled import Sampled
from tests.support.writer import configmap

WATCHES = ("configmaps", "pods", "leases.coordination.k8s.io")
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
TRAFFIC = Traffic("incident", rate=40.0)
EACH = {"apiservers": "each"}

STEADY_SECONDS = 20.0  # of figures before the incident
INCIDENT_SECONDS = 20.0
CLEARED_SECONDS = 60.0
AFTERWARDS_SECONDS = 10.0  # without any active cause
OURS = {"monitor_overloaded"}  # true whenever this machine stands still, whichever apiserver fails
MANY_EVENTS = 100
LATE_SECONDS = 0.3  # above the P50 of each healthy apiserver
UNTOUCHED = ("closed", "relists", "expired", "gapRevisions", "stalls")
"""Counters of a watch that do not change while another apiserver fails."""


@pytest.fixture(scope="module")
def lab(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HighAvailability]:
    with HighAvailability(tmp_path_factory.mktemp("apiservers"), assets) as lab:
        yield lab


@pytest.fixture(scope="module")
def writing(lab: HighAvailability) -> Iterator[Writing]:
    """Steady writes by the last apiserver, which no test breaks."""
    with Writing(partial(lab.writer, lab.members[-1]), CONFIGMAPS, configmap, TRAFFIC, seed=5) as writing:
        yield writing


@contextlib.contextmanager
def daemon(folder: Path, kubeconfig: Path, **kubernetes: Any) -> Iterator[Daemon]:
    """Run a daemon that watches configmaps."""
    config = config_file(folder, kubernetes=kubernetes, watch=[{"resource": "configmaps"}])
    with Daemon(folder, "--config", config, "--kubeconfig", kubeconfig) as running:
        yield running


def watched(daemon: Daemon) -> set[str]:
    """Return the apiservers whose watches are open and dated."""
    return {
        stream["apiserver"] if stream["up"] and stream["membership"] == "member" else "not yet"
        for stream in daemon.status()["streams"]
    }


def peers(daemon: Daemon) -> list[int | None]:
    """Return the number of apiservers behind each watched address."""
    return [apiserver["peers"] for apiserver in daemon.status()["apiservers"] if apiserver["watched"]]


def until_watched(daemon: Daemon, *names: str) -> None:
    daemon.process.until(lambda: watched(daemon) == {*names}, f"{names} are watched", LOOK_SECONDS)


def until_measured(daemon: Daemon, count: int) -> None:
    """Wait until `count` watches have samples."""

    def measured() -> bool:
        return [stream["latency"]["events"] > 0 for stream in daemon.status()["streams"]] == [True] * count

    daemon.process.until(measured, f"{count} are measured", LOOK_SECONDS)


# How they are found


def test_service_is_watched_as_one_apiserver(lab: HighAvailability, writing: Writing, tmp_path: Path) -> None:
    with daemon(tmp_path, lab.kubeconfig()) as running:
        until_watched(running, "service")
        until_measured(running, 1)

        def all_counted() -> bool:
            return peers(running) == [len(lab.members)]

        running.process.until(all_counted, "all are counted", LOOK_SECONDS)
        roles = {apiserver["name"]: apiserver["role"] for apiserver in running.status()["apiservers"]}
        assert roles == {"service": "member"} | {member.name: "witness" for member in lab.members}
    assert writing.writes()


def test_each_listed_url_is_watched(lab: HighAvailability, writing: Writing, tmp_path: Path) -> None:
    urls = [member.url for member in lab.members[:2]]
    with daemon(tmp_path, lab.kubeconfig(), apiservers=urls, tlsServerName=SERVICE_NAME) as running:
        until_watched(running, *(member.name for member in lab.members[:2]))
        until_measured(running, 2)
        running.process.until(lambda: peers(running) == [1, 1], "counted", LOOK_SECONDS)
        assert running.log("apiservers_hidden") == [], "the third one is announced too, and behind neither of them"
    assert writing.writes()


def test_load_balancer_address_is_reported_as_hiding_apiservers(
    lab: HighAvailability, writing: Writing, tmp_path: Path
) -> None:
    """A load balancer is the only announced address."""
    with announced(lab, lab.service.url):
        for number in range(2):
            lab.plane.lease(f"apiserver-more-{number}")
        with daemon(tmp_path, lab.kubeconfig(), **EACH) as running:
            running.until_said("apiservers_hidden")
            until_measured(running, 1)
            (hidden,) = running.log("apiservers_hidden")
            assert (hidden["addresses"], hidden["apiservers"]) == (1, 3)
    assert writing.writes()


@contextlib.contextmanager
def announced(lab: HighAvailability, url: str) -> Iterator[None]:
    """Announce only this URL instead of those of the members."""
    for member in lab.members:
        lab.withdraw(member.url)
    lab.announce(url)
    try:
        yield
    finally:
        lab.withdraw(url)
        for member in lab.members:
            lab.announce(member.url)


# What happens to them


@dataclass(frozen=True, slots=True)
class Named:
    """An active cause at a moment (monotonic seconds)."""

    at: float
    cause: str
    apiserver: str | None
    watch: str | None
    confidence: str
    evidence: str


@dataclass
class Watcher:
    """Records the causes that a daemon names, and its figures of the healthy apiservers."""

    daemon: Sampled
    healthy: frozenset[str]
    named: list[Named] = field(default_factory=list)
    worst: float = 0.0

    def look(self) -> list[Named]:
        """Record and return the active causes."""
        status, now = self.daemon.status(), time.monotonic()
        named = [
            Named(now, *(cause[key] for key in ("cause", "apiserver", "watch", "confidence", "evidence")))
            for cause in status["causes"]
        ]
        self.named += named
        for stream in self._healthy(status):
            assert stream["up"], (stream["apiserver"], stream["watch"], stream["state"])
            self.worst = max(self.worst, *(_p50s(stream["latency"]["windows"])))
        return named

    def calm(self) -> float:
        """Return the seconds since an apiserver was last blamed; a stalled watch may be found only after its end."""
        self.look()
        return time.monotonic() - (self.last_blamed or 0.0)

    @property
    def blamed(self) -> list[Named]:
        """What was confidently named while this machine kept up: else its own overload is the likelier cause."""
        overloaded = {each.at for each in self.named if each.cause in OURS}
        return [each for each in self.named if each.at not in overloaded and each.confidence != "low"]

    @property
    def last_blamed(self) -> float | None:
        """When an apiserver was last named, not counting the overload of this machine."""
        return max((each.at for each in self.named if each.cause not in OURS), default=None)

    def look_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()
            time.sleep(LOOK_SECONDS)

    def first(self, name: str, causes: frozenset[str]) -> float | None:
        """Return when one of these causes was first named for an apiserver."""
        return next((each.at for each in self.named if each.apiserver == name and each.cause in causes), None)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        self.daemon.process.until(condition, what, LOOK_SECONDS)

    def counted(self) -> dict[tuple[str, str], Any]:
        """Return the counters of healthy apiservers by apiserver and watch, without closes at the deadline."""
        return {
            (stream["apiserver"], stream["watch"]): {name: stream[name] for name in UNTOUCHED}
            | stream["guarantees"]["violations"]
            | {"closed": [row for row in stream["closed"] if row["class"] != "deadline"]}
            for stream in self._healthy(self.daemon.status())
        }

    def _healthy(self, status: Any) -> list[Any]:
        return [stream for stream in status["streams"] if stream["apiserver"] in self.healthy]


def _p50s(windows: Sequence[Any]) -> list[float]:
    """Return the P50s of windows with many events; a short stall makes half of a few events late."""
    large = [window for window in windows if window["events"] >= MANY_EVENTS]
    return [0.0, *(found["estimate"] for window in large for found in window["quantiles"] if found["q"] == 0.5)]


@dataclass(frozen=True, slots=True)
class Incident:
    """A fault of one apiserver, the causes that may be named for it, and whether it answers nothing in that time."""

    strike: Callable[[Member], contextlib.AbstractContextManager[None]]
    causes: frozenset[str]
    silent: bool = False


INCIDENTS = {
    "paused": Incident(Member.paused, frozenset({"apiserver_sending"}), silent=True),
    "cut off from etcd": Incident(lambda member: member.storage.fault("frozen-link"), frozenset({"cache_behind"})),
    "throttled": Incident(lambda member: member.client.fault("thin-link", 3000), frozenset({"bandwidth"})),
}


@pytest.mark.parametrize("name", INCIDENTS)
def test_failing_apiserver_is_named_and_the_others_are_not(
    lab: HighAvailability, writing: Writing, tmp_path: Path, name: str
) -> None:
    incident, (hurt, *others) = INCIDENTS[name], lab.members
    with watching(lab, tmp_path, others) as watcher:
        before = watcher.counted()
        began = time.monotonic()
        with incident.strike(hurt):
            watcher.look_for(INCIDENT_SECONDS)
            if incident.silent:
                verify_silence(watcher, hurt)
        verify(watcher, writing, hurt, incident.causes, began)
        assert watcher.counted() == before


def test_killed_apiserver_is_named_and_its_replacement_is_watched(
    lab: HighAvailability, writing: Writing, tmp_path: Path
) -> None:
    killed, *others = lab.members
    with watching(lab, tmp_path, others) as watcher:
        before = watcher.counted()
        began = time.monotonic()
        lab.kill(killed)
        watcher.look_for(INCIDENT_SECONDS)
        lab.withdraw(killed.url)
        added = lab.add()
        verify(watcher, writing, killed, frozenset({"apiserver_sending"}), began)
        assert watcher.counted() == before
        until_watched(watcher.daemon, added.name, *(member.name for member in others))
        names = {apiserver["name"] for apiserver in watcher.daemon.status()["apiservers"]}
        assert killed.name not in names
        watcher.daemon.until(
            lambda scrape: f'apiserver="{killed.name}"' not in scrape.text,
            "no series of the killed apiserver is left",
        )


@contextlib.contextmanager
def watching(lab: HighAvailability, folder: Path, healthy: Sequence[Member]) -> Iterator[Watcher]:
    """Run a daemon that has measured all apiservers for `STEADY_SECONDS`."""
    watch = [{"resource": resource} for resource in WATCHES]
    with Sampled(folder, lab.kubeconfig(), kubernetes=EACH, watch=watch) as running:
        until_watched(running, *(member.name for member in lab.members))
        running.process.until(lambda: not running.status()["causes"], "all is well", LOOK_SECONDS)
        watcher = Watcher(running, frozenset(member.name for member in healthy))
        watcher.look_for(STEADY_SECONDS)
        watcher.until(lambda: not watcher.look(), "all is well")
        watcher.named.clear()
        watcher.worst = 0.0
        yield watcher


def verify_silence(watcher: Watcher, hurt: Member) -> None:
    """Check that everything says that this apiserver, and no other, answers nothing, and that its watches are down."""

    def said() -> bool:
        watcher.look()
        return bool(watcher.daemon.status()["verdict"]["verdict"] == "unresponsive")

    watcher.until(said, "the headline says it")
    watcher.look_for(INCIDENT_SECONDS)
    status, scrape = watcher.daemon.status(), watcher.daemon.scrape()
    assert status["verdict"]["level"] == "bad"
    assert status["verdict"]["text"].startswith(f"{hurt.name} answers nothing since ")
    assert scrape.value("watchslo_verdict", verdict="unresponsive") == 1
    assert {one["name"] for one in status["apiservers"] if one["unresponsiveFor"] is not None} == {hurt.name}
    assert scrape.value("watchslo_apiserver_up", apiserver=hurt.name) == 0
    assert [stream["up"] for stream in status["streams"] if stream["apiserver"] == hurt.name] == [False] * len(WATCHES)
    problems = status["trust"]["text"].partition("has a problem: ")[2]
    assert "Clock" not in problems, "it is not our problem; our own lag may be one, on a busy machine"


def verify(watcher: Watcher, writing: Writing, hurt: Member, causes: frozenset[str], began: float) -> None:
    """Check the causes named for an incident that is over: which apiserver, when, and the samples."""
    ended = time.monotonic()
    eventually(lambda: watcher.calm() >= AFTERWARDS_SECONDS, f"cleared: {watcher.named[-1:]}", LOOK_SECONDS)
    cleared = watcher.last_blamed or ended
    named = {(each.cause, each.apiserver, each.watch, each.confidence): each for each in reversed(watcher.named)}
    for each in named.values():
        print(f"{each.at - began:.1f} s: {each}")
    first = watcher.first(hurt.name, causes)
    print(f"named after {(first or time.monotonic()) - began:.1f} s, cleared after {cleared - ended:.1f} s")
    assert first is not None, f"{hurt.name} was never named with any of {sorted(causes)}"
    assert {each.apiserver for each in watcher.blamed} <= {hurt.name, None}, "another was blamed"
    sure = {each.cause for each in watcher.named if each.confidence == "high"}
    assert sure <= causes | OURS, "it was sure, and wrong"
    assert watcher.worst < LATE_SECONDS
    checked, wrong = watcher.daemon.contradictions(writing.writes())
    assert checked > 0
    assert not wrong, f"{len(wrong)} of {checked} samples cannot be true: {wrong[:3]}"
