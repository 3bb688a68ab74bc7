"""How is my fleet? The Prometheus of each cluster sends its rollup, and a global one alerts on clusters.

One cluster is prompt, one is late and has two replicas of Prometheus, and one sends its rollup by remote write; the
others are federated. All windows are shrunk, and so is the time for which the global level keeps the last value of a
series. What the rules conclude in each case is proven by promtool, in `test_fleet_rules.py`.
"""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.lab.faults import OBJECTIVE
from tests.lab.ground import SIMULATED
from tests.support import assets
from tests.support.control_plane import write_kubeconfig
from tests.support.daemon import Daemon, Simulator, config_file, start_all, watchslo
from tests.support.process import eventually, until_equal
from tests.support.prometheus import Prometheus, QueryServer
from tests.support.thanos import ThanosServer, querier, ruler, sidecar

DASHBOARD = Path(__file__).parents[2] / "dashboards/watchslo-fleet.json"
SHRINK = 30
SIMULATED_LATE = json.dumps({**json.loads(SIMULATED), "latency": [{"client": "constant 2s"}]})
PROMPT, LATE, SENDER = ALL = ("eu-1", "eu-2", "us-1")
WATCHES = ("nodes", "leases.coordination.k8s.io")
REPORTING, GOOD_MINUTES = "fleet:watchslo_reporting:bool1d", "fleet:watchslo_good_minutes:ratio_rate1d"
LOOK_SECONDS = 1.0
SELECTED = "rollup(_resource)?:watchslo_.+"
BURNS = ("KubeWatchFleetBudgetBurn", LATE)
SILENT = ("WatchsloClusterSilent", SENDER)
UNTRUSTED = "WatchsloClusterUntrusted"
"""An alert about a daemon that lost time, as it may on a slow machine."""


def daemon(folder: Path, url: str) -> Daemon:
    folder.mkdir()
    write_kubeconfig(folder / "kubeconfig", {"server": url}, {})
    config = config_file(folder, watch=[{"resource": name} for name in WATCHES], objective=OBJECTIVE)
    return Daemon(folder / "daemon", "--config", config, "--kubeconfig", folder / "kubeconfig")


class Fleet:
    """All processes of the fleet, until `stack` is closed; `servers` are by cluster and replica."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self.daemons = self._daemons()
        self._rules = rules_of_cluster(folder)
        targets = folder / "targets.json"
        targets.write_text("[]")
        self.everywhere = stack.enter_context(
            Prometheus(
                folder / "global",
                configuration([watchslo_rules(folder, "--fleet", "global")], federating=targets),
                "--web.enable-remote-write-receiver",
                "--query.lookback-delta=30s",
            )
        )
        self.servers = {
            (PROMPT, "a"): self._server(PROMPT, "a"),
            (LATE, "a"): self._server(LATE, "a"),
            (LATE, "b"): self._server(LATE, "b"),
            (SENDER, "a"): self._server(SENDER, "a", to=self.everywhere.url),
        }
        federated = [urlsplit(server.url).netloc for (cluster, _), server in self.servers.items() if cluster != SENDER]
        targets.write_text(json.dumps([{"targets": federated}]))

    def _daemons(self) -> dict[str, Daemon]:
        urls = {}
        for cluster, config in ((PROMPT, SIMULATED), (LATE, SIMULATED_LATE)):
            folder = self._folder / f"simulator-{cluster}"
            folder.mkdir()
            urls[cluster] = self._stack.enter_context(Simulator(folder, "--config", config)).url
        urls[SENDER] = urls[PROMPT]
        daemons = {cluster: daemon(self._folder / cluster, url) for cluster, url in urls.items()}
        start_all(self._stack, daemons.values())
        for each in daemons.values():
            each.until_measuring(*WATCHES)
        return daemons

    def _server(self, cluster: str, replica: str, to: str = "") -> Prometheus:
        folder = self._folder / f"prometheus-{cluster}-{replica}"
        return self._stack.enter_context(of_cluster(folder, self.daemons[cluster], cluster, replica, self._rules, to))


def of_cluster(
    folder: Path, scraped: Daemon, cluster: str, replica: str, rules: Iterable[Path], to: str = ""
) -> Prometheus:
    """Return a Prometheus of a cluster with these rules."""
    external, target = {"cluster": cluster, "replica": replica}, {"targets": [urlsplit(scraped.url).netloc]}
    return Prometheus(folder, configuration(rules, [target], external, to=to))


def until_firing(server: QueryServer, *alerts: tuple[str, str]) -> list[dict[str, Any]]:
    """Wait until exactly these alerts fire, by name and cluster; return them as they were at that moment."""
    found: list[dict[str, Any]] = []

    def firing() -> list[tuple[str, str]]:
        found[:] = [alert for alert in server.alerts() if alert["state"] == "firing"]
        names = {(alert["labels"]["alertname"], alert["labels"].get("cluster", "")) for alert in found}
        return sorted(name for name in names if name[0] != UNTRUSTED)

    until_equal(firing, sorted(alerts), "the alerts fire", LOOK_SECONDS)
    return [alert for alert in found if alert["labels"]["alertname"] != UNTRUSTED]


def reporting(server: QueryServer) -> dict[str, str]:
    """Return the value of `fleet:watchslo_reporting:bool1d` of each cluster."""
    found = server.query(REPORTING)
    return {one["metric"]["cluster"]: one["value"][1] for one in found}


def watchslo_rules(folder: Path, *options: str) -> Path:
    """Write the rules with these options to a file and return its path."""
    path = folder / f"rules{'-'.join(options)}.yaml"
    config = config_file(folder, objective=OBJECTIVE)
    form = () if "-o" in options else ("-o", "plain")
    done = watchslo("rules", "--config", config, "--alerts", "all", "--shrink", str(SHRINK), *form, *options)
    assert done.returncode == 0, done.stderr
    path.write_text(done.stdout)
    return path


def rules_of_cluster(folder: Path) -> list[Path]:
    return [watchslo_rules(folder), watchslo_rules(folder, "--fleet", "cluster")]


def configuration(
    rules: Iterable[Path],
    targets: Iterable[Mapping[str, Any]] = (),
    external: Mapping[str, str] | None = None,
    *,
    to: str = "",
    federating: Path | None = None,
) -> dict[str, Any]:
    """Return the configuration of a Prometheus that scrapes instances or federates, and may write to another one."""
    keep = {"source_labels": ["__name__"], "regex": SELECTED, "action": "keep"}
    federation = {
        "job_name": "rollups",
        "metrics_path": "/federate",
        "honor_labels": True,
        "params": {"match[]": [f'{{__name__=~"{SELECTED}"}}']},
        "file_sd_configs": [{"files": [str(federating)], "refresh_interval": "1s"}],
    }
    instances = {"job_name": "watchslo", "static_configs": [dict(target) for target in targets]}
    return {
        "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "external_labels": dict(external or {})},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [federation if federating else instances],
        **({"remote_write": [{"url": f"{to}/api/v1/write", "write_relabel_configs": [keep]}]} if to else {}),
    }


def until_reporting(server: QueryServer, expected: Mapping[str, str]) -> None:
    """Wait until exactly these clusters are known, and report or not."""
    until_equal(lambda: reporting(server), expected, "they report or not", LOOK_SECONDS)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with contextlib.ExitStack() as stack:
        yield Fleet(tmp_path_factory.mktemp("fleet"), stack)


class TestFleet:
    """One story: each test begins with what the former ones did to the fleet."""

    def test_every_cluster_reports_once_whatever_its_way_and_only_the_late_one_burns(self, fleet: Fleet) -> None:
        def counted() -> tuple[list[str], set[str]]:
            """Return the cluster of each count of instances, and the replicas of the late cluster."""
            instances = fleet.everywhere.query("fleet:watchslo_instances:count")
            sent = fleet.everywhere.query(f'count by (replica) ({{__name__=~"rollup.+", cluster="{LATE}"}})')
            return sorted(one["metric"]["cluster"] for one in instances), {one["metric"]["replica"] for one in sent}

        until_equal(counted, (sorted(ALL), {"a", "b"}), "each is counted once, and sent by all replicas", LOOK_SECONDS)
        until_reporting(fleet.everywhere, dict.fromkeys(ALL, "1"))
        burning = until_firing(fleet.everywhere, BURNS)
        assert any(f"are of {watch}" in burning[0]["annotations"]["description"] for watch in WATCHES)

    def test_silent_cluster_is_neither_good_nor_bad_and_a_lost_replica_changes_nothing(self, fleet: Fleet) -> None:
        fleet.daemons[SENDER].stop()
        until_firing(fleet.everywhere, BURNS, SILENT)
        named = f'count by (__name__) ({{__name__=~"fleet.+", cluster="{SENDER}"}})'
        until_equal(
            lambda: {one["metric"]["__name__"] for one in fleet.everywhere.query(named)},
            {REPORTING},
            "of a silent cluster only its silence is known",
            LOOK_SECONDS,
        )
        good = {one["metric"]["cluster"] for one in fleet.everywhere.query(GOOD_MINUTES)}
        assert good == {PROMPT, LATE}

        read = f'fleet_replica:watchslo_recorded_seconds:topk{{cluster="{LATE}"}}'
        (one,) = eventually(lambda: fleet.everywhere.query(read), "one replica is read", LOOK_SECONDS)
        replica = one["metric"]["replica"]
        fleet.servers[LATE, replica].process.stop()

        def replicas() -> list[str]:
            return [one["metric"]["replica"] for one in fleet.everywhere.query(read)]

        until_equal(replicas, ["ab".replace(replica, "")], "the other replica is read", LOOK_SECONDS)
        until_firing(fleet.everywhere, BURNS, SILENT)
        # Prometheus warns of rules that fail, and of two series where there should be one.
        servers = [fleet.everywhere, *fleet.servers.values()]
        assert [line for server in servers for line in server.warnings() if "rule" in line.lower()] == []


# Thanos

SERVERS = ((LATE, "a"), (LATE, "b"), (SENDER, "a"))
LONG = "1h"  # the long window of the alert that fires first; labels are not shrunk
BOTH_BURN = (BURNS, ("KubeWatchFleetBudgetBurn", SENDER))


@dataclass(frozen=True, slots=True)
class Member:
    """A Prometheus of a cluster and its sidecar."""

    prometheus: Prometheus
    sidecar: ThanosServer

    def stop(self) -> None:
        self.sidecar.process.stop()
        self.prometheus.process.stop()


@pytest.mark.long
def test_thanos_merges_replicas_and_a_missing_cluster_stops_the_rules_of_no_other_one(tmp_path: Path) -> None:
    """One late daemon is scraped by three servers: two replicas of one cluster, and one of another cluster."""
    program = assets.find(os.environ, assets.THANOS)
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(Simulator(tmp_path, "--config", SIMULATED_LATE)).url
        late = stack.enter_context(daemon(tmp_path / LATE, url))
        late.until_measuring(*WATCHES)
        members, rules = {}, rules_of_cluster(tmp_path)
        for cluster, replica in SERVERS:
            folder = tmp_path / f"prometheus-{cluster}-{replica}"
            prometheus = stack.enter_context(of_cluster(folder, late, cluster, replica, rules))
            store = sidecar(tmp_path / f"sidecar-{cluster}-{replica}", program, prometheus, folder / "data")
            members[cluster, replica] = Member(prometheus, stack.enter_context(store))
        queriers = tmp_path / "queriers.json"
        of_fleet = watchslo_rules(tmp_path, "--fleet", "global", "-o", "thanos")
        rule = ruler(tmp_path / "rule", program, of_fleet, queriers)
        stores = [*(member.sidecar.store for member in members.values()), rule.store]
        query = querier(tmp_path / "query", program, stores, ("replica", "ruler_replica"))
        queriers.write_text(json.dumps([{"targets": [urlsplit(query.url).netloc]}]))
        stack.enter_context(query)
        stack.enter_context(rule)

        until_reporting(query, {LATE: "1", SENDER: "1"})
        counts: dict[str, float | None] = {
            f'count(rollup:watchslo_instances:count{{cluster="{LATE}"}})': 1.0,
            "count(fleet:watchslo_instances:count)": 2.0,
        }
        until_equal(lambda: {of: query.value(of) for of in counts}, counts, "each is counted once", LOOK_SECONDS)
        until_firing(rule, *BOTH_BURN)

        def burning() -> list[str]:
            """Return the cluster of each alert of the shortest windows: the others join it after minutes."""
            firing = [alert["labels"] for alert in rule.alerts() if alert["state"] == "firing"]
            return sorted(labels["cluster"] for labels in firing if labels.get("long") == LONG)

        until_equal(burning, [LATE, SENDER], "each burns once", LOOK_SECONDS)
        members[LATE, "a"].stop()
        until_firing(rule, *BOTH_BURN)
        until_reporting(query, {LATE: "1", SENDER: "1"})
        members[SENDER, "a"].stop()
        until_firing(rule, BURNS, SILENT)
        until_reporting(query, {LATE: "1", SENDER: "0"})
