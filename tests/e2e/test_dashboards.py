"""Every panel of every dashboard has data in each shipped profile for which it is meant, or says what it needs.

A real Prometheus scrapes one instance of each profile, which watches the simulated cluster, with the rules of `watchslo
rules`.
"""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.slo_pack.lanes import SIMULATED
from tests.support.control_plane import write_kubeconfig
from tests.support.daemon import Daemon, Simulator, config_file, watchslo
from tests.support.daemonset import OWN, shipped
from tests.support.process import until_equal
from tests.support.prometheus import Prometheus
from tools.dashboards.queries import DEFAULTS, all_values, fill, panels

DASHBOARDS = Path(__file__).parents[2] / "dashboards"
NODE = "watchslo-node.json"
PROFILES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("control-plane", "managed", "sharded"),
        ("watchslo-slo.json", "watchslo-protocol.json", "watchslo-trust.json", "watchslo-apiserver.json"),
    ),
    "node": (NODE,),
}
POD: Mapping[str, str] = {"NODE_NAME": "node-1", "POD_NAME": "watchslo-0"}
SHRINK = 30  # hours become minutes: recorded series of six hours need twelve minutes, of an hour two
LOOK_SECONDS = 5.0
SAYS_SO = (
    "No data",
    "`metrics: full`",
    "`list: stream`",
    "`inventory: true`",
    "`hops: true`",
    "`kubernetes.apiserverMetrics`",
    "fewer than 1,000 events",
)
"""What a panel says about data that not every instance has, or not always."""

FOREIGN = re.compile(r"\b(?:apiserver|etcd|watch_cache|process|go)_\w+\b(?!:)")
"""Metrics of the apiserver, which this Prometheus does not scrape: the dashboard says that it needs them."""


class Scraped:
    """One instance of each profile, and a Prometheus that scrapes them; `cluster` is the name of the profile."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        late = {**json.loads(SIMULATED), "latency": [{"client": "constant 40ms"}]}  # longer than a tick, so resolved
        simulator = stack.enter_context(Simulator(folder, "--config", json.dumps(late)))
        kubeconfig = folder / "kubeconfig"
        write_kubeconfig(kubeconfig, {"server": simulator.url}, {})
        daemons = {}
        for profile in PROFILES:
            place = folder / profile
            place.mkdir()
            config = config_file(place, **configuration(profile, simulator.url))
            daemon = Daemon(place / "daemon", "--config", config, "--kubeconfig", kubeconfig, env=dict(POD))
            daemons[profile] = stack.enter_context(daemon)
        (folder / "rules.yaml").write_text(rules(folder))
        targets = [target(profile, daemon.url) for profile, daemon in daemons.items()]
        self.prometheus = stack.enter_context(
            Prometheus(
                folder / "prometheus",
                {
                    "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
                    "rule_files": [str(folder / "rules.yaml")],
                    "scrape_configs": [{"job_name": "watchslo", "static_configs": targets}],
                },
            )
        )

    def silent(self, profile: str) -> list[str]:
        """Return the panels of the dashboards of a profile that have no data and do not say why."""
        return [
            f"{dashboard}: {panel['title']}"
            for dashboard in PROFILES[profile]
            for panel in self._silent(profile, json.loads((DASHBOARDS / dashboard).read_text()))
        ]

    def _silent(self, profile: str, dashboard: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        values = {**all_values(dashboard), **DEFAULTS, "cluster": profile}
        for panel in panels(dashboard):
            expressions = [fill(target["expr"], values) for target in panel["targets"]]
            ours = [expression for expression in expressions if not FOREIGN.search(expression)]
            says_so = any(phrase in panel["description"] for phrase in SAYS_SO)
            if ours and not says_so and not any(map(self.prometheus.query, ours)):
                yield panel


def configuration(profile: str, url: str) -> dict[str, Any]:
    """Return what the profile's instance is configured with: the address of the pod's node is the simulated one's."""
    config = shipped(profile)
    config.pop("startDelay", None)
    kubernetes = config.get("kubernetes", {})
    if kubernetes.get("apiservers") == [OWN]:
        config["kubernetes"] = {"apiservers": [url]}
    if profile == "node":
        config["clock"]["interval"] = "2s"  # a test does not wait for minutes
    return config


def rules(folder: Path) -> str:
    config = config_file(folder)
    done = watchslo(
        "rules", "--config", config, "--format", "plain", "--cluster-label", "cluster", "--shrink", str(SHRINK)
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def target(profile: str, url: str) -> dict[str, Any]:
    return {"targets": [urlsplit(url).netloc], "labels": {"cluster": profile}}


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    with contextlib.ExitStack() as stack:
        yield Scraped(tmp_path_factory.mktemp("profiles"), stack)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_panel_for_a_profile_has_data_or_says_what_it_needs(scraped: Scraped, profile: str) -> None:
    silent = scraped.silent(profile)

    def left() -> list[str]:
        """A panel needs data only once: a scrape that comes too late takes some of it away for a moment."""
        still = scraped.silent(profile)
        silent[:] = [panel for panel in silent if panel in still]
        return silent

    until_equal(left, [], "every panel has had data", LOOK_SECONDS)
