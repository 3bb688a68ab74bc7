"""The rules of a fleet in Thanos: two replicas of one cluster are one cluster, and a missing cluster stops no other."""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.slo_pack.place import OBJECTIVE
from tests.e2e.test_fleet import (
    LOOK_SECONDS,
    SIMULATED_LATE,
    WATCHES,
    configuration,
    reporting,
    until_firing,
    watchslo_rules,
)
from tests.support import assets
from tests.support.control_plane import write_kubeconfig
from tests.support.daemon import Daemon, Simulator, config_file
from tests.support.process import until_equal
from tests.support.prometheus import Prometheus
from tests.support.thanos import ThanosServer, querier, ruler, sidecar

TWICE, ONCE = "eu-1", "us-1"
SERVERS = ((TWICE, "a"), (TWICE, "b"), (ONCE, "a"))
LONG = "1h"  # the long window of the alert that fires first; labels are not shrunk
BURNS = tuple(("WatchFleetBudgetBurn", cluster) for cluster in (TWICE, ONCE))


@dataclass(frozen=True, slots=True)
class Member:
    """A Prometheus of a cluster and its sidecar."""

    prometheus: Prometheus
    sidecar: ThanosServer

    def stop(self) -> None:
        self.sidecar.process.stop()
        self.prometheus.process.stop()


class ThanosFleet:
    """A late daemon that three Prometheus servers scrape: two replicas of one cluster, and one of another cluster."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._program = assets.find(os.environ, assets.THANOS)
        self._daemon = self._late_daemon()
        self.members = {server: self._member(*server) for server in SERVERS}
        rules, queriers = watchslo_rules(folder, "--fleet", "global", "--format", "thanos"), folder / "queriers.json"
        self.ruler = ruler(folder / "rule", self._program, rules, queriers)
        stores = [*(member.sidecar.store for member in self.members.values()), self.ruler.store]
        self.querier = querier(folder / "query", self._program, stores, ("replica", "ruler_replica"))
        queriers.write_text(json.dumps([{"targets": [urlsplit(self.querier.url).netloc]}]))
        stack.enter_context(self.querier)
        stack.enter_context(self.ruler)

    def _late_daemon(self) -> Daemon:
        url = self._stack.enter_context(Simulator(self._folder, "--config", SIMULATED_LATE)).url
        write_kubeconfig(self._folder / "kubeconfig", {"server": url}, {})
        config = config_file(self._folder, watch=[{"resource": name} for name in WATCHES], objective=OBJECTIVE)
        folder = self._folder / "daemon"
        daemon = Daemon(folder, "--config", config, "--kubeconfig", self._folder / "kubeconfig")
        self._stack.enter_context(daemon)
        daemon.until_measuring(*WATCHES)
        return daemon

    def _member(self, cluster: str, replica: str) -> Member:
        rules = [watchslo_rules(self._folder), watchslo_rules(self._folder, "--fleet", "cluster")]
        target = {"targets": [urlsplit(self._daemon.url).netloc]}
        document = configuration(rules, [target], {"cluster": cluster, "replica": replica})
        folder = self._folder / f"prometheus-{cluster}-{replica}"
        prometheus = self._stack.enter_context(Prometheus(folder, document))
        store = sidecar(self._folder / f"sidecar-{cluster}-{replica}", self._program, prometheus, folder / "data")
        return Member(prometheus, self._stack.enter_context(store))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThanosFleet]:
    with contextlib.ExitStack() as stack:
        yield ThanosFleet(tmp_path_factory.mktemp("thanos"), stack)


def until_reporting(fleet: ThanosFleet, expected: dict[str, str]) -> None:
    """Wait until exactly these clusters are known, and report or not."""
    until_equal(lambda: reporting(fleet.querier), expected, "they report or not", LOOK_SECONDS)


class TestThanos:
    """One story: each test begins with what the former ones did to the fleet."""

    def test_replicas_of_a_cluster_are_one_cluster(self, fleet: ThanosFleet) -> None:
        expected = {TWICE: "1", ONCE: "1"}
        until_reporting(fleet, expected)
        counted: dict[str, float | None] = {
            f'count(rollup:watchslo_instances:count{{cluster="{TWICE}"}})': 1.0,
            "count(fleet:watchslo_instances:count)": float(len(expected)),
        }
        until_equal(
            lambda: {query: fleet.querier.value(query) for query in counted},
            counted,
            "each is counted once",
            LOOK_SECONDS,
        )

    def test_late_clusters_burn_once(self, fleet: ThanosFleet) -> None:
        """The alert of the shortest windows: the others join it after minutes."""
        until_firing(fleet.ruler, *BURNS)

        def burning() -> list[str]:
            firing = [alert["labels"] for alert in fleet.ruler.alerts() if alert["state"] == "firing"]
            return sorted(labels["cluster"] for labels in firing if labels.get("long") == LONG)

        until_equal(burning, [TWICE, ONCE], "each burns once", LOOK_SECONDS)

    def test_cluster_is_the_same_without_one_of_its_replicas(self, fleet: ThanosFleet) -> None:
        fleet.members[TWICE, "a"].stop()
        until_firing(fleet.ruler, *BURNS)
        until_reporting(fleet, {TWICE: "1", ONCE: "1"})

    def test_missing_cluster_is_silent_and_the_rules_of_the_other_one_continue(self, fleet: ThanosFleet) -> None:
        fleet.members[ONCE, "a"].stop()
        until_firing(fleet.ruler, BURNS[0], ("WatchsloClusterSilent", ONCE))
        until_reporting(fleet, {TWICE: "1", ONCE: "0"})
