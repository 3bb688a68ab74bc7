"""What watchslo says of control planes of several parts: each statement is compared with what was written.

docs/operations.md has the table of these statements.
"""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import pytest

from tests.e2e.faults.daemon import Observed
from tests.e2e.faults.harness import USUAL, until_settled
from tests.e2e.faults.notes import judge
from tests.e2e.faults.scribe import Scribe
from tests.e2e.faults.stages import WRITTEN
from tests.support.assets import Assets
from tests.support.background import repeated
from tests.support.control_plane import SERVICE_NAME, ControlPlane, Etcd
from tests.support.daemon import LOOK_SECONDS
from tests.support.etcd_cluster import EtcdCluster
from tests.support.high_availability import HighAvailability
from tests.support.process import Process
from tests.support.writer import Writer, configmap

CONFIGMAPS, _ = WRITTEN["configmaps"]
WATCHES: tuple[dict[str, Any], ...] = (
    {"resource": "configmaps", "namespace": "default"},
    {"resource": "leases.coordination.k8s.io"},
)
STEADY_SECONDS = 6.0  # of events before and after a fault
HURT_SECONDS = 15.0
SLOW_SECONDS, SLOW_RUNNING_SECONDS = 0.4, 0.1  # between two moments in which a slow process runs, and how long it runs
OURS = "monitor_overloaded"  # true whenever this machine stands still; other causes are doubtful then
CALM = ("good", "monitor_problem")
OF_STOPPED_APISERVER = {"stall", "closed network/stalled"}  # a machine may stop it for longer than the watch allows


@dataclass
class Watched:
    """A daemon and the writers of what it watches; `said` are the causes that it named, and of which apiserver.

    `sure` are those that it was confident of while this machine kept up, and `before` the counters of faults at the
    beginning.
    """

    daemon: Observed
    scribes: Mapping[str, Scribe]
    since: float
    said: dict[tuple[str, str | None], str] = field(default_factory=dict)
    sure: set[tuple[str, str | None]] = field(default_factory=set)
    before: Mapping[str, float] = field(default_factory=dict)
    verdicts: set[str] = field(default_factory=set)

    def look(self) -> None:
        """Record what the daemon says now."""
        status = self.daemon.status()
        self.verdicts.add(verdict_of(status))
        named = {(cause["cause"], cause["apiserver"]): cause["evidence"] for cause in status["causes"]}
        if not any(cause == OURS for cause, _ in named):
            certain = [cause for cause in status["causes"] if cause["confidence"] != "low"]
            self.sure |= {(cause["cause"], cause["apiserver"]) for cause in certain}
        self.said |= {key: evidence for key, evidence in named.items() if key[0] != OURS}

    def look_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()
            time.sleep(LOOK_SECONDS)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until a condition holds, and record what the daemon says."""

        def holds() -> bool:
            self.look()
            return condition()

        self.daemon.process.until(holds, what, LOOK_SECONDS)

    def until_open(self) -> None:
        """Wait until all watches are open."""
        self.until(lambda: all(stream["up"] for stream in self.daemon.status()["streams"]), "all watches are open")

    def forget(self) -> None:
        """Forget what was said and counted until now."""
        self.said.clear()
        self.sure.clear()
        self.verdicts.clear()
        self.before = self.daemon.counted()

    def until_calm(self) -> None:
        """Wait until all watches are open, no cause is active, and the verdict is good, but for this machine."""
        self.until(self._calm, "all is well")

    def judge(self) -> dict[str, float]:
        """Assert that no event was lost, no sample and no alarm is false, and no guarantee or domain was blamed.

        Returns how far the counters of faults have risen.
        """
        until = time.monotonic()
        counted = self.daemon.counted()
        print(f"{self.verdicts}\n{self.said}\n{ {name: count for name, count in counted.items() if count} }")
        for watch, scribe in self.scribes.items():
            writes = until_settled(self.daemon, watch, scribe, self.since, until)
            judgement = judge(self.daemon.notes(), watch, writes, until)
            print(f"{watch}: {judgement}")
            assert judgement.lost == ()
            assert judgement.wrong == ()
            assert judgement.false_alarms == 0
            assert judgement.samples > 0
        assert all(0 <= sample.least <= sample.most for sample in self.daemon.notes().samples)
        assert {name: count for name, count in counted.items() if name.startswith("violated") and count} == {}
        assert counted.get("clock reset", 0) == 0
        for stream in self.daemon.status()["streams"]:
            assert stream["membership"] == "member", stream
        return {name: count - self.before.get(name, 0.0) for name, count in counted.items()}

    def _calm(self) -> bool:
        status = self.daemon.status()
        others = {cause["cause"] for cause in status["causes"]} - {OURS}
        calm = verdict_of(status) in CALM and not others
        return calm and all(stream["up"] for stream in status["streams"])


def verdict_of(status: Any) -> str:
    """Return the verdict, which is unknown before the first evaluation."""
    return str(status["verdict"]["verdict"]) if status["verdict"] else "starting"


@contextlib.contextmanager
def watching(
    folder: Path,
    kubeconfig: Path,
    open_writer: Callable[[], Writer],
    watches: Sequence[dict[str, Any]] = WATCHES,
    **keys: Any,
) -> Iterator[Watched]:
    """Run a daemon that measures while config maps, and events if they are watched, are created."""
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(Observed(folder / "daemon", kubeconfig, watches, **keys))
        scribes = {}
        for watch in watches:
            name, resource = str(watch.get("name", watch["resource"])), str(watch["resource"])
            if resource in ("configmaps", "events"):
                scribe = Scribe(open_writer, *WRITTEN[resource], f"{folder.name.replace('_', '-')}-{name}"[-60:])
                scribes[name] = stack.enter_context(scribe)
        watched = Watched(daemon, scribes, 0.0)
        watched.until_calm()
        watched.since = time.monotonic()
        watched.look_for(STEADY_SECONDS)
        watched.forget()
        yield watched


# Three members of etcd, and three apiservers


@dataclass(frozen=True, slots=True)
class Stacked:
    """Three members of etcd, each with an apiserver that asks only it, and one apiserver more that asks all of them."""

    etcd: EtcdCluster
    plane: ControlPlane

    @property
    def external(self) -> str:
        """The name of the apiserver that asks all members."""
        return urlsplit(self.plane.url).netloc

    def name_of(self, number: int) -> str:
        """Return how watchslo calls the apiserver that asks only this member."""
        return urlsplit(self.plane.apiservers[1 + number].url).netloc

    def number_of_follower(self) -> int:
        return self.etcd.members.index(self.etcd.followers()[0])

    @contextlib.contextmanager
    def watching(self, folder: Path) -> Iterator[Watched]:
        """Watch the four apiservers, each by itself."""
        urls = [apiserver.url for apiserver in self.plane.apiservers]
        keys = {"apiservers": urls, "tlsServerName": SERVICE_NAME}
        with watching(folder, self.plane.kubeconfig(), self.open_writer, kubernetes=keys) as watched:
            yield watched

    def open_writer(self) -> Writer:
        """Return a writer of the apiserver next to the leader, which no test stops."""
        number = self.etcd.members.index(self.etcd.leader())
        return self.plane.apiservers[1 + number].writer(self.plane.token)


@pytest.fixture(scope="module")
def stacked(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stacked]:
    folder = tmp_path_factory.mktemp("stacked")
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(EtcdCluster(folder, assets.etcd))
        plane = ControlPlane(folder, assets.kube_apiserver, etcd)
        for member in etcd.members:
            plane.add(member.url)
        stack.enter_context(plane)
        for apiserver in plane.apiservers:
            stack.callback(apiserver.process.kill)  # a clean end takes seconds
        yield Stacked(etcd, plane)


def test_changed_etcd_leader_resets_no_domain_and_costs_no_event(stacked: Stacked, tmp_path: Path) -> None:
    with stacked.watching(tmp_path) as watched:
        for member in stacked.etcd.followers():
            stacked.etcd.lead(member)
            watched.look_for(STEADY_SECONDS)
        watched.until_calm()
        counted = watched.judge()
    assert faults(counted) <= {"tick failed", "beyond the threshold", *OF_STOPPED_APISERVER}
    assert {apiserver for _, apiserver in watched.sure} <= {None}


def test_killed_etcd_leader_is_reported_as_a_fault_of_the_apiserver_that_needs_it(
    stacked: Stacked, tmp_path: Path
) -> None:
    with stacked.watching(tmp_path) as watched:
        killed = stacked.etcd.leader()
        number = stacked.etcd.members.index(killed)
        killed.process.kill()
        watched.look_for(HURT_SECONDS)
        killed.start()
        watched.until_open()
        watched.look_for(STEADY_SECONDS)
        watched.judge()
    assert {apiserver for _, apiserver in watched.sure} <= {stacked.name_of(number), stacked.external, None}


def test_hurt_etcd_follower_is_reported_as_a_fault_of_the_apiservers_that_ask_it(
    stacked: Stacked, tmp_path: Path
) -> None:
    """It is stopped, and then slow: it runs for a tenth of a second of each half."""
    number = stacked.number_of_follower()
    with stacked.watching(tmp_path) as watched:
        behind = "cache_behind", stacked.name_of(number)
        for running in (0.0, SLOW_RUNNING_SECONDS):
            with hurt(stacked.etcd.members[number].process, running):
                watched.look_for(HURT_SECONDS)
                watched.until(lambda: behind in watched.said, "its apiserver is named")
        watched.until_open()
        watched.judge()
    assert {apiserver for _, apiserver in watched.sure} <= {stacked.name_of(number), stacked.external, None}


@contextlib.contextmanager
def hurt(process: Process, running: float) -> Iterator[None]:
    """Stop a process while the context is open, but let it run for `running` seconds of each `SLOW_SECONDS`."""

    def halt() -> None:
        process.signal(signal.SIGCONT)
        time.sleep(running)
        process.signal(signal.SIGSTOP)

    try:
        with repeated(SLOW_SECONDS, halt):
            yield
    finally:
        process.signal(signal.SIGCONT)


def faults(counted: Mapping[str, float]) -> set[str]:
    """Return the counters of faults that have risen, without those that a start or a busy machine may raise."""
    return {name for name, count in counted.items() if count} - USUAL


# A load balancer that moves connections


SPREAD_SECONDS = 3.0
SPREAD_TIMES = 5
LEASE_SECONDS = 20.0  # a lease counts for a minute
BEHIND = "constant 300ms"  # one cache is this much older than the others


def test_connections_spread_over_apiservers_of_different_age_violate_nothing(assets: Assets, tmp_path: Path) -> None:
    with HighAvailability(tmp_path, assets) as lab:
        for member in lab.members:
            lab.withdraw(member.url)
        lab.announce(lab.service.url)  # no apiserver has an address of its own
        with (
            repeated(LEASE_SECONDS, partial(announce_leases, lab)),
            lab.members[0].storage.late(BEHIND),
            watching(tmp_path, lab.kubeconfig(), lab.writer) as watched,
        ):
            watched.until(lambda: peers(watched.daemon) == [len(lab.members)], "the apiservers are counted")
            watched.said.clear()
            watched.sure.clear()
            for _ in range(SPREAD_TIMES):
                lab.service.switch_on("reset", connections="open")
                watched.look_for(SPREAD_SECONDS)
            watched.until_open()
            watched.look_for(STEADY_SECONDS)
            counted = watched.judge()
            hops = [hop for stream in watched.daemon.status()["streams"] for hop in stream["latency"]["hops"]]
        assert faults(counted) <= {"closed network/reset", "time travel", *OF_STOPPED_APISERVER}
        assert {cause for cause, _ in watched.sure} <= {"unknown"}, "no part of the way is to blame"
        assert {hop["hop"] for hop in hops if hop["events"]} <= {"creation_to_storage"}


def peers(daemon: Observed) -> list[int | None]:
    """Return the number of apiservers behind each watched address."""
    return [apiserver["peers"] for apiserver in daemon.status()["apiservers"] if apiserver["watched"]]


def announce_leases(lab: HighAvailability) -> None:
    """Create or renew the leases of two apiservers: those of one machine share a single lease."""
    for number in range(len(lab.members) - 1):
        lab.plane.lease(f"apiserver-more-{number}")


# Compaction during lists


COMPACTION_SECONDS = 0.3
COMPACTED_SECONDS = 12.0  # lists wait for up to ten seconds; on a busy machine, no cache would survive for long
STRATEGIES = ("tail", "paged", "parallel", "stream", "cache")
FILLED = 1_200  # three pages


@pytest.mark.version("1.36")
def test_lists_during_compactions_find_a_revision_and_report_what_they_missed(
    assets_of: Callable[[str], Assets], minor: str, tmp_path: Path
) -> None:
    """Each watch has to list again, because the apiserver has restarted with an empty cache."""
    found = assets_of(minor)
    watches = [
        {"resource": resource, "namespace": "default", "name": f"{resource}-{strategy}", "list": strategy}
        for resource in ("configmaps", "events")
        for strategy in STRATEGIES
    ]
    with Etcd(tmp_path, found.etcd) as etcd, ControlPlane(tmp_path, found.kube_apiserver, etcd, apiservers=2) as plane:
        first, second = plane.apiservers
        with second.writer(plane.token) as writer:
            for number in range(FILLED):
                writer.create(CONFIGMAPS, configmap(f"filled-{number}"))
        open_writer = partial(second.writer, plane.token)
        with watching(tmp_path, plane.kubeconfig(), open_writer, watches) as watched:
            with repeated(COMPACTION_SECONDS, partial(compact, etcd)):
                first.process.kill()
                first.start()
                first.wait_ready()
                watched.look_for(COMPACTED_SECONDS)
            watched.until_open()
            watched.look_for(STEADY_SECONDS)
            counted = watched.judge()
        assert counted["relist expired"] > 0
        first.process.kill()


def compact(etcd: Etcd) -> None:
    """Compact everything older than now, unless nothing has been written since the last time."""
    with contextlib.suppress(HTTPError):
        etcd.compact(etcd.revision())


# GOAWAY


REQUESTS = 500  # if each were refused with the chance of 2%, all would pass once in 24,000 times


def test_http_1_clients_get_no_goaway(assets: Assets, tmp_path: Path) -> None:
    flags = ["--goaway-chance=0.02"]  # the highest that is allowed
    with (
        Etcd(tmp_path, assets.etcd) as etcd,
        ControlPlane(tmp_path, assets.kube_apiserver, etcd, flags=flags) as plane,
        watching(tmp_path, plane.kubeconfig(), plane.writer) as watched,
    ):
        assert goaways(plane, "--http2") > 0
        assert goaways(plane, "--http1.1") == 0
        watched.look_for(STEADY_SECONDS)
        assert faults(watched.judge()) <= OF_STOPPED_APISERVER


def goaways(plane: ControlPlane, version: str) -> int:
    """Return how many more connections curl needed than one for all its requests."""
    url = f"{plane.url}/api/v1/namespaces/default/configmaps?limit=1&number=[1-{REQUESTS}]"
    trust = ["--cacert", str(plane.ca), "--header", f"Authorization: Bearer {plane.token}"]
    done = subprocess.run(
        [
            "curl",
            "--silent",
            version,
            *trust,
            "--output",
            "/dev/null",
            "--write-out",
            "%{num_connects} %{http_code}\n",
            url,
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [code for _, code in rows] == ["200"] * REQUESTS
    return sum(int(connects) for connects, _ in rows) - 1
