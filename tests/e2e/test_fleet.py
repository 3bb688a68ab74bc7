"""A small fleet: the Prometheus of each cluster sends its rollup, and a global one alerts on clusters.

Three clusters have real daemons and Prometheus servers of their own, one of them two replicas. Twenty further clusters
are replays of a recorded daemon, which one Prometheus scrapes. The rollups reach the global level by federation, and
those of one cluster by remote write. All windows are shrunk, and so is the time for which the global level keeps the
last value of a series.
"""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.slo_pack.lanes import SIMULATED
from tests.e2e.slo_pack.place import OBJECTIVE
from tests.support.control_plane import write_kubeconfig
from tests.support.daemon import Daemon, Simulator, config_file, start_all, watchslo
from tests.support.process import eventually, until_equal
from tests.support.prometheus import Prometheus, QueryServer
from tests.support.replayed import Recording, Replay
from tools.dashboards.queries import queries, variables

DASHBOARD = Path(__file__).parents[2] / "dashboards/watchslo-fleet.json"
SHRINK = 30
SIMULATED_LATE = json.dumps({**json.loads(SIMULATED), "latency": [{"client": "constant 2s"}]})
PROMPT, LATE, SENDER = "eu-1", "eu-2", "us-1"
REPLAYED = tuple(f"lab-{number:02}" for number in range(20))
ALL = {PROMPT, LATE, SENDER, *REPLAYED}
OVERLOADED, MISSING = 7, 13  # numbers of replayed clusters
WATCHES = ("nodes", "leases.coordination.k8s.io")
REPORTING, GOOD_MINUTES = "fleet:watchslo_reporting:bool1d", "fleet:watchslo_good_minutes:ratio_rate1d"
REPORT_SECONDS, ALERT_SECONDS, LOOK_SECONDS = 180.0, 300.0, 1.0
SELECTED = "rollup(_resource)?:watchslo_.+"
SILENT = {("WatchsloClusterSilent", SENDER), ("WatchsloClusterSilent", REPLAYED[MISSING])}
BURNS = ("WatchFleetBudgetBurn", LATE)
UNTRUSTED = ("WatchsloClusterUntrusted", REPLAYED[OVERLOADED])


class Fleet:
    """All processes of the fleet, until `stack` is closed; `cluster_servers` are the Prometheus servers by name."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self.daemons = self._daemons()
        self.replay = stack.enter_context(Replay(Recording.of(self.daemons[PROMPT], WATCHES[0])))
        rules = watchslo_rules(folder, "--fleet", "global")
        self.everywhere = stack.enter_context(
            Prometheus(
                folder / "global",
                configuration([rules], federating=self._federated_later()),
                "--web.enable-remote-write-receiver",
                "--query.lookback-delta=30s",
            )
        )
        self.cluster_servers = {
            "eu-1-a": self._of_cluster(PROMPT, "a"),
            "eu-2-a": self._of_cluster(LATE, "a"),
            "eu-2-b": self._of_cluster(LATE, "b"),
            "us-1-a": self._of_cluster(SENDER, "a", to=self.everywhere.url),
            "labs-a": self._of_replays(),
        }
        self._targets.write_text(json.dumps([{"targets": [*self._federated()]}]))

    @property
    def _targets(self) -> Path:
        return self._folder / "targets.json"

    def _federated_later(self) -> Path:
        self._targets.write_text("[]")
        return self._targets

    def _federated(self) -> Iterator[str]:
        """Yield the addresses of the servers that send nothing themselves."""
        for name, server in self.cluster_servers.items():
            if not name.startswith(SENDER):
                yield urlsplit(server.url).netloc

    def _daemons(self) -> dict[str, Daemon]:
        simulated = {PROMPT: SIMULATED, LATE: SIMULATED_LATE}
        urls = {}
        for cluster, config in simulated.items():
            folder = self._folder / f"simulator-{cluster}"
            folder.mkdir()
            urls[cluster] = self._stack.enter_context(Simulator(folder, "--config", config)).url
        urls[SENDER] = urls[PROMPT]
        daemons = {cluster: self._daemon(cluster, url) for cluster, url in urls.items()}
        start_all(self._stack, daemons.values())
        for daemon in daemons.values():
            daemon.until_measuring(*WATCHES)
        return daemons

    def _daemon(self, cluster: str, url: str) -> Daemon:
        folder = self._folder / cluster
        folder.mkdir()
        write_kubeconfig(folder / "kubeconfig", {"server": url}, {})
        config = config_file(folder, watch=[{"resource": name} for name in WATCHES], objective=OBJECTIVE)
        return Daemon(folder / "daemon", "--config", config, "--kubeconfig", folder / "kubeconfig")

    def _of_cluster(self, cluster: str, replica: str, to: str = "") -> Prometheus:
        rules = [watchslo_rules(self._folder), watchslo_rules(self._folder, "--fleet", "cluster")]
        target = {"targets": [urlsplit(self.daemons[cluster].url).netloc]}
        external = {"cluster": cluster, "replica": replica}
        document = configuration(rules, [target], external, to=to)
        return self._stack.enter_context(Prometheus(self._folder / f"prometheus-{cluster}-{replica}", document))

    def _of_replays(self) -> Prometheus:
        by_cluster = ("--cluster-label", "cluster")
        rules = [watchslo_rules(self._folder, *by_cluster, *more) for more in ((), ("--fleet", "cluster"))]
        targets = [
            {"targets": [self.replay.address], "labels": {"cluster": cluster, "__metrics_path__": f"/{number}/metrics"}}
            for number, cluster in enumerate(REPLAYED)
        ]
        document = configuration(rules, targets, {"replica": "a"})
        return self._stack.enter_context(Prometheus(self._folder / "prometheus-labs", document))


def until_firing(server: QueryServer, *alerts: tuple[str, str]) -> list[dict[str, Any]]:
    """Wait until exactly these alerts fire, by name and cluster; return them as they were at that moment.

    A real daemon may lose time on a slow machine: that its cluster cannot be trusted is left out.
    """
    found: list[dict[str, Any]] = []

    def name(alert: dict[str, Any]) -> tuple[str, str]:
        return alert["labels"]["alertname"], alert["labels"].get("cluster", "")

    def of_real_daemon(alert: dict[str, Any]) -> bool:
        of, cluster = name(alert)
        return of == UNTRUSTED[0] and cluster not in REPLAYED

    def firing() -> list[tuple[str, str]]:
        found[:] = [alert for alert in server.alerts() if alert["state"] == "firing" and not of_real_daemon(alert)]
        return sorted({name(alert) for alert in found})

    until_equal(firing, sorted(alerts), "the alerts fire", LOOK_SECONDS)
    return found


def reporting(server: QueryServer) -> dict[str, str]:
    """Return the value of `fleet:watchslo_reporting:bool1d` of each cluster."""
    found = server.query(REPORTING)
    return {one["metric"]["cluster"]: one["value"][1] for one in found}


def watchslo_rules(folder: Path, *options: str) -> Path:
    """Write the rules with these options to a file and return its path."""
    path = folder / f"rules{'-'.join(options)}.yaml"
    config = config_file(folder, objective=OBJECTIVE)
    form = () if "--format" in options else ("--format", "plain")
    done = watchslo("rules", "--config", config, "--shrink", str(SHRINK), *form, *options)
    assert done.returncode == 0, done.stderr
    path.write_text(done.stdout)
    return path


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


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with contextlib.ExitStack() as stack:
        yield Fleet(tmp_path_factory.mktemp("fleet"), stack)


class TestFleet:
    """One story: each test begins with what the former ones did to the fleet."""

    def test_every_cluster_reports_once_whatever_its_way(self, fleet: Fleet) -> None:
        def whole() -> bool:
            instances = fleet.everywhere.query("fleet:watchslo_instances:count")
            counted = sorted(one["metric"]["cluster"] for one in instances)
            sent[:] = fleet.everywhere.query('count by (cluster, replica) ({__name__=~"rollup.+"})')
            of_late = {one["metric"]["replica"] for one in sent if one["metric"]["cluster"] == LATE}
            once = counted == sorted(ALL) and of_late == {"a", "b"}
            return once and reporting(fleet.everywhere) == dict.fromkeys(ALL, "1")

        sent: list[Any] = []
        eventually(whole, "all report, by all replicas, and are counted once", LOOK_SECONDS)
        assert max(float(one["value"][1]) for one in sent) <= 20

    def test_only_the_cluster_that_is_late_burns(self, fleet: Fleet) -> None:
        burning = until_firing(fleet.everywhere, BURNS)
        assert any(f"are of {watch}" in burning[0]["annotations"]["description"] for watch in WATCHES)

    def test_cluster_that_loses_time_is_not_trusted(self, fleet: Fleet) -> None:
        fleet.replay.overloaded.add(OVERLOADED)
        until_firing(fleet.everywhere, BURNS, UNTRUSTED)

    def test_silent_clusters_are_neither_good_nor_bad(self, fleet: Fleet) -> None:
        """The instance of one cluster ends, and that of another one does not answer any more."""
        fleet.daemons[SENDER].stop()
        fleet.replay.missing.add(MISSING)
        until_firing(fleet.everywhere, BURNS, UNTRUSTED, *SILENT)
        silent = {cluster: {REPORTING} for _, cluster in SILENT}
        named = 'count by (cluster, __name__) ({__name__=~"fleet.+"})'

        def known() -> tuple[set[str], dict[str, set[str]]]:
            """Return the clusters with good minutes, and the names of all series of the other ones."""
            names: dict[str, set[str]] = {}
            for one in fleet.everywhere.query(named):
                names.setdefault(one["metric"]["cluster"], set()).add(one["metric"]["__name__"])
            good = {cluster for cluster in names if GOOD_MINUTES in names[cluster]}
            return good, {cluster: names[cluster] for cluster in names.keys() - good}

        expected = ALL - silent.keys(), silent
        until_equal(known, expected, "of silent clusters only their silence is known", LOOK_SECONDS)

    def test_every_panel_has_data(self, fleet: Fleet) -> None:
        dashboard = json.loads(DASHBOARD.read_text())
        asked = (*queries(dashboard), *variables(dashboard))
        empty = {query: title for title, query in asked}

        def left() -> dict[str, str]:
            for query in [*empty]:
                if fleet.everywhere.finite(query):
                    del empty[query]
            return empty

        until_equal(left, {}, "every panel has had data", LOOK_SECONDS)

    def test_cluster_is_the_same_without_one_of_its_replicas(self, fleet: Fleet) -> None:
        read = f'fleet_replica:watchslo_recorded_seconds:topk{{cluster="{LATE}"}}'
        (one,) = eventually(lambda: fleet.everywhere.query(read), "one is read", LOOK_SECONDS)
        replica = one["metric"]["replica"]
        fleet.cluster_servers[f"{LATE}-{replica}"].process.stop()

        def other() -> bool:
            return [one["metric"]["replica"] for one in fleet.everywhere.query(read)] == ["ab".replace(replica, "")]

        eventually(other, "the other replica is read", LOOK_SECONDS)
        until_firing(fleet.everywhere, BURNS, UNTRUSTED, *SILENT)

    def test_cluster_that_returns_is_not_silent(self, fleet: Fleet) -> None:
        fleet.replay.missing.clear()
        until_firing(fleet.everywhere, BURNS, UNTRUSTED, ("WatchsloClusterSilent", SENDER))

    def test_no_rule_fails(self, fleet: Fleet) -> None:
        """Prometheus warns of rules that fail, and of two series where there should be one."""
        servers = [fleet.everywhere, *fleet.cluster_servers.values()]
        warned = [line for server in servers for line in server.warnings() if "rule" in line.lower()]
        assert warned == []
