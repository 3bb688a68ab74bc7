"""Is it etcd, kine, a cluster, or several etcds? Each storage is recognised, and measured by its own clock."""

import contextlib
import itertools
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.watched import Watched, watching
from tests.support import assets as programs
from tests.support.assets import Assets
from tests.support.background import repeated
from tests.support.control_plane import SERVICE_NAME, ControlPlane, Etcd, override
from tests.support.daemon import LOOK_SECONDS, Daemon, Proxy, config_file
from tests.support.etcd_cluster import EtcdCluster
from tests.support.kept_up import while_kept_up
from tests.support.kine import Kine, PollProxy, Postgres, is_kine, sqlite
from tests.support.observed import Observed
from tests.support.scribe import WRITTEN, Scribe
from tests.support.writer import Writer

CONFIGMAPS = ({"resource": "configmaps"},)
SAMPLES = 50
RENEW_SECONDS = 10.0  # a lease counts for a minute


# kine, which finds the changes of other servers by a poll


def polls(daemon: Daemon) -> bool:
    return any(ticker["polls"] for domain in daemon.status()["domains"] for ticker in domain["tickers"])


def names_the_poll(daemon: Daemon) -> bool:
    """Return whether the poll of the storage is a cause."""
    return "storage_poller" in [one["cause"] for one in daemon.status()["causes"]]


def test_kine_on_sqlite_is_recognised_and_measured(tmp_path: Path, assets: Assets) -> None:
    kine = programs.find(os.environ, programs.KINE)
    with (
        Kine(tmp_path, kine, sqlite(tmp_path)) as storage,
        ControlPlane(tmp_path, assets.kube_apiserver, storage) as plane,
        Observed(tmp_path / "daemon", plane.kubeconfig(), CONFIGMAPS) as daemon,
        Scribe(plane.writer, *WRITTEN["configmaps"], "written") as scribe,
    ):
        daemon.until(is_kine, "kine is found")
        daemon.until_samples("configmaps", SAMPLES)
        assert not polls(daemon)
        daemon.verify(scribe.answered(), SAMPLES)


def test_kine_on_postgres_is_recognised_and_its_stopped_poll_is_named(tmp_path: Path, assets: Assets) -> None:
    """All writes go through another server, so that each event waits for a poll."""
    kine = programs.find(os.environ, programs.KINE)
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(Postgres(tmp_path))
        proxy = stack.enter_context(PollProxy(database))
        first = stack.enter_context(Kine(tmp_path, kine, proxy.endpoint))
        second = stack.enter_context(Kine(tmp_path, kine, database.endpoint, "other-kine"))
        plane = ControlPlane(tmp_path, assets.kube_apiserver, first)
        other = plane.add(second.url)
        stack.enter_context(plane)
        # Both apiservers have the lease of this host; the daemon must know that there are two.
        stack.enter_context(repeated(RENEW_SECONDS, lambda: plane.lease("other-host")))
        watches = (*CONFIGMAPS, {"resource": "secrets"})
        daemon = stack.enter_context(Observed(tmp_path / "daemon", plane.kubeconfig(), watches))
        scribe = stack.enter_context(Scribe(lambda: other.writer(plane.token), *WRITTEN["configmaps"], "written"))
        daemon.until_measuring("configmaps", "secrets")
        daemon.until(is_kine, "kine is found")
        daemon.process.until(lambda: polls(daemon), "polls are known", LOOK_SECONDS)

        def play() -> bool:
            """Stop the poll until it is named; return whether it was named while it ran."""
            daemon.until_samples("configmaps", daemon.samples("configmaps") + SAMPLES)
            named = names_the_poll(daemon)
            with proxy.stopped():
                daemon.process.until(lambda: names_the_poll(daemon), "the cause is named", LOOK_SECONDS)
            daemon.process.until(lambda: not names_the_poll(daemon), "the cause has ended", LOOK_SECONDS)
            return named

        def judge(named: bool) -> None:  # noqa: FBT001 - it is a statement to judge
            assert not named

        while_kept_up(lambda: daemon, play, judge)
        daemon.until_samples("configmaps", daemon.samples("configmaps") + SAMPLES)
        assert daemon.scrape().values("watchslo_storage_proven") == [1.0]
        assert daemon.status()["domains"][0]["resets"] == 0
        daemon.verify(scribe.answered(), SAMPLES)


# Resources in etcds of their own


MOVED = {"pods": "/pods", "events": "/events", "leases.coordination.k8s.io": "coordination.k8s.io/leases"}
"""The watches whose resources move to an etcd of their own, and how apiservers call these."""
STAYING = ("configmaps", "secrets")
WATCHED = (*MOVED, *STAYING)
STORAGES = sorted([*((watch,) for watch in MOVED), STAYING])
FIRST_REVISIONS = 1000  # of the etcd that all resources are in at first: no other one reaches them in the test
APART_REVISIONS = 100  # between two new etcds: with equal revisions they would look like one for some seconds


@contextlib.contextmanager
def writing_all(plane: ControlPlane, name: str) -> Iterator[Mapping[str, Scribe]]:
    """Write to all watched resources, through the last apiserver."""
    open_writer = partial(plane.apiservers[-1].writer, plane.token)
    with contextlib.ExitStack() as stack:
        yield {watch: stack.enter_context(Scribe(open_writer, *WRITTEN[watch], name)) for watch in WATCHED}


def until_measured(daemon: Observed) -> None:
    """Wait until all watches are open, belong to the domains of their clocks, and have more samples than now."""

    def counted() -> dict[tuple[str, str], int]:
        return {
            (stream["apiserver"], stream["watch"]): stream["latency"]["events"]
            for stream in daemon.status()["watches"]
            if stream["up"] and stream["membership"] == "member"
        }

    before = counted()

    def measured() -> bool:
        now = counted()
        return len(now) == 2 * len(WATCHED) and all(now[key] >= before.get(key, 0) + SAMPLES for key in now)

    daemon.process.until(measured, "every watch is measured", LOOK_SECONDS)


def storages(daemon: Observed) -> list[tuple[str, ...]]:
    """Return the watches of each domain, in order; a watch whose apiservers are in two domains appears twice."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for stream in daemon.status()["watches"]:
        found[stream["domain"]].add(stream["watch"])
    return sorted(tuple(sorted(watches)) for watches in found.values())


def test_storage_split_at_run_time_moves_only_what_has_moved(assets: Assets, tmp_path: Path) -> None:
    """The apiservers restart with overrides one after the other; the ticks are on a resource that moves."""
    watches = [{"resource": resource} for resource in WATCHED]
    with contextlib.ExitStack() as stack:
        main = stack.enter_context(Etcd(tmp_path, assets.etcd))
        main.advance(FIRST_REVISIONS)
        flags = []
        for number, resource in enumerate(MOVED.values(), start=1):
            own = stack.enter_context(Etcd(tmp_path, assets.etcd, f"own-etcd-{number}"))
            own.advance(APART_REVISIONS * number)
            flags.append(override(resource, own.url))
        plane = stack.enter_context(ControlPlane(tmp_path, assets.kube_apiserver, main, apiservers=2))
        urls = [apiserver.url for apiserver in plane.apiservers]
        kubernetes = {"apiservers": urls, "tlsServerName": SERVICE_NAME, "witnesses": "none"}
        with Observed(tmp_path / "daemon", plane.kubeconfig(), watches, kubernetes=kubernetes) as daemon:
            with writing_all(plane, "before") as before:
                until_measured(daemon)
            assert storages(daemon) == [tuple(sorted(WATCHED))]
            for apiserver in plane.apiservers:
                apiserver.add_flags(flags)
                apiserver.restart()
            with writing_all(plane, "after") as after:
                daemon.process.until(lambda: storages(daemon) == STORAGES, "the storages are found", LOOK_SECONDS)
                until_measured(daemon)
            daemon.until(
                lambda scrape: scrape.total("watchslo_storage_info", kind="sequence") == len(STORAGES),
                "each storage is known",
            )
            status = daemon.status()
            assert {domain["name"]: domain["resets"] for domain in status["domains"]}["main"] == 0
            assert {stream["domain"] for stream in status["watches"] if stream["watch"] in STAYING} == {"main"}
            for stream in status["watches"]:
                restored = stream["relists"].get("domain_reset", 0)
                assert restored <= (stream["watch"] in MOVED), (stream["watch"], restored)
            for watch in WATCHED:
                daemon.verify([*before[watch].answered(), *after[watch].answered()], SAMPLES, watch)


# Three members of etcd


@dataclass(frozen=True, slots=True)
class Stacked:
    """Three members of etcd, and three apiservers: one asks all members, the others only the first or the second."""

    etcd: EtcdCluster
    plane: ControlPlane

    def names(self) -> list[str]:
        """Return how watchslo calls the apiservers."""
        return [urlsplit(apiserver.url).netloc for apiserver in self.plane.apiservers]

    def open_writer(self) -> Writer:
        """Return a writer of the apiserver whose member is not hurt."""
        return self.plane.apiservers[2].writer(self.plane.token)


@pytest.fixture
def stacked(assets: Assets, tmp_path: Path) -> Iterator[Stacked]:
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(EtcdCluster(tmp_path, assets.etcd))
        plane = ControlPlane(tmp_path, assets.kube_apiserver, etcd)
        for member in etcd.members[:2]:
            plane.add(member.url)
        yield Stacked(etcd, stack.enter_context(plane))


def test_members_of_etcd_that_lead_halt_and_die_cost_no_event_and_only_their_apiserver_is_blamed(
    stacked: Stacked, tmp_path: Path
) -> None:
    keys = {"apiservers": [apiserver.url for apiserver in stacked.plane.apiservers], "tlsServerName": SERVICE_NAME}
    folder = tmp_path / "watched"
    folder.mkdir()
    everyone, its_own, _ = stacked.names()
    hurt, sound, third = stacked.etcd.members

    def led() -> Watched:
        watched.forget()
        for member in (hurt, third, sound):
            stacked.etcd.lead(member)
            watched.until_steady()
        return watched

    def blames_no_apiserver(watched: Watched) -> None:
        assert {apiserver for _, apiserver in watched.sure} <= {None}
        assert watched.risen() <= {"stall", "closed network/stalled"}, "a machine may stop it for longer than allowed"

    def halted() -> Watched:
        watched.forget()
        stacked.etcd.lead(sound)
        with hurt.process.paused():
            watched.until(lambda _: ("cache_behind", its_own) in watched.named, "its apiserver is named")
        watched.until_steady()
        return watched

    def killed() -> Watched:
        watched.forget()
        stacked.etcd.lead(hurt)
        hurt.process.kill()
        watched.until(lambda _: any(apiserver == its_own for _, apiserver in watched.named), "its apiserver is named")
        hurt.start()
        watched.until_steady()
        return watched

    def blames_no_other(watched: Watched) -> None:
        assert {apiserver for _, apiserver in watched.sure} <= {its_own, everyone, None}

    with watching(folder, stacked.plane.kubeconfig(), stacked.open_writer, kubernetes=keys) as watched:
        while_kept_up(lambda: watched.daemon, led, blames_no_apiserver)
        watched.verify()
        for play in (halted, killed):
            while_kept_up(lambda: watched.daemon, play, blames_no_other)
        watched.verify()


# Watch caches


LATE_SECONDS = 0.5


def test_caches_that_are_switched_on_and_off_are_found_and_hide_no_lag(assets: Assets, tmp_path: Path) -> None:
    """That of events is half a second behind: a tick on events would wait for it, and prove no event that late."""
    watches = [{"resource": name, "hops": True} for name in ("configmaps", "events", "secrets")]
    with Etcd(tmp_path, assets.etcd) as etcd, Proxy(tmp_path, "storage", etcd.url) as storage:
        flags = ["--watch-cache-sizes=configmaps#0,events#1000", override("/events", storage.url)]
        with ControlPlane(tmp_path, assets.kube_apiserver, etcd, flags=flags) as plane:
            etcd.compact(etcd.revision())
            plane.apiservers[0].restart()  # so that all caches are young
            config, numbers = config_file(tmp_path, watch=watches), itertools.count()
            with (
                storage.late(f"constant {LATE_SECONDS:g}s"),
                Daemon(tmp_path, "--config", config, "--kubeconfig", plane.kubeconfig()) as daemon,
                plane.writer() as writer,
            ):
                daemon.until_measuring("configmaps", "events", "secrets")
                daemon.until_said("ticking", on=["configmaps"], blind=False)

                def whole() -> dict[str, Any] | None:
                    """Write on until the caches and hops are known, and an event was proven to be late."""
                    for name in ("configmaps", "events"):
                        collection, make = WRITTEN[name]
                        writer.create(collection, make(f"cached-{next(numbers)}"))
                    found = daemon.watches_by_name()
                    hops = {hop["hop"] for hop in found["events"]["latency"]["hops"]}
                    known = all(watch["cachedFound"] for watch in found.values())
                    quantiles = found["events"]["latency"]["windows"][0]["quantiles"]
                    late = any(quantile["lower"] > LATE_SECONDS / 2 for quantile in quantiles)
                    return found if known and late and hops == {"storage_to_cache", "cache_to_client"} else None

                found = daemon.process.until(whole, "caches, hops and a late event are known", LOOK_SECONDS)
    assert {name: found[name]["cached"] for name in found} == {"configmaps": False, "events": True, "secrets": True}
    assert {name for name in found if found[name]["probed"]} == {"events", "secrets"}
    uppers = [quantile["upper"] for quantile in found["events"]["latency"]["windows"][0]["quantiles"]]
    assert all(upper is None or upper >= LATE_SECONDS for upper in uppers)
    assert not found["configmaps"]["latency"]["hops"]
