"""A real Alertmanager silences exactly the alerts that another alert explains, and only where it explains them."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import pytest

from tests.support.alertmanager import Alertmanager
from tests.support.process import eventually
from watchslo.config.model import Config
from watchslo.rules.pack import alertmanager, rule_groups
from watchslo.rules.settings import RuleSettings

OPTIONS = RuleSettings(cluster_label="cluster")
APISERVERS = ("10.0.0.7:6443", "10.0.0.8:6443")
TOGETHER = {"KubeWatchClusterBadMinutes warning cluster", "KubeWatchClusterBadMinutes warning apiserver"}
LATE = {
    "KubeWatchLatencyBudgetBurn critical",
    "KubeWatchLatencyBudgetBurn warning",
    "KubeWatchLatencyBadMinutes warning",
} | TOGETHER
MISSED = {"WatchsloCoverageLow warning", "WatchsloUnmeasurable warning"}
UNCLOCKED = {"WatchsloClockSlow warning", "WatchsloWitnessesUnreached warning"}
UNDELIVERED = {"KubeWatchDown critical", "KubeWatchStalled critical", "KubeWatchLatencyBadMinutes warning"} | TOGETHER
SILENCED: Mapping[str, Mapping[str, set[str]]] = {
    "WatchsloOverloaded warning most": {"cluster": LATE},
    "WatchsloOverloaded warning some": {},
    "WatchsloAbsent critical": {"cluster": {"WatchsloTargetDown warning"}},
    "KubeWatchApiserverUnresponsive critical": {
        "apiserver": UNDELIVERED | MISSED | {"KubeWatchApiserverTicksSlow warning"},
        "cluster": UNCLOCKED,
    },
    "KubeWatchStorageSilent critical": {
        "cluster": LATE | UNDELIVERED | MISSED | UNCLOCKED | {"KubeWatchApiserverTicksSlow warning"}
    },
    "WatchsloForbidden warning": {"apiserver": {"KubeWatchDown critical"} | MISSED},
    "KubeWatchExpiredLoop warning": {"apiserver": {"KubeWatchRelistStorm warning"}},
    "KubeWatchLatencyBudgetBurn critical": {"apiserver": {"KubeWatchLatencyBudgetBurn warning"}},
    "KubeWatchClusterBadMinutes warning cluster": {"cluster": {"KubeWatchClusterBadMinutes warning apiserver"}},
    "KubeWatchClusterBadMinutes warning apiserver": {"apiserver": {"KubeWatchLatencyBadMinutes warning"}},
}
"""The alerts that each alert silences, in its whole cluster or only at its apiserver. Other alerts silence nothing.

An alert on all apiservers has no label of one. Here all alerts have it, so that places can be compared.
"""
ALERTS = {
    " ".join(
        filter(None, (rule.name, rule.labels["severity"], rule.labels.get("instances"), rule.labels.get("scope")))
    ): {
        "alertname": rule.name,
        **rule.labels,
    }
    for group in rule_groups(Config(), OPTIONS)
    for rule in group.rules
    if "severity" in rule.labels
}
"""The labels of each alert, by its name in this test."""


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alertmanager]:
    """One Alertmanager for all tests: inhibitions never cross clusters, and each test has its own two clusters."""
    with Alertmanager(tmp_path_factory.mktemp("alertmanager"), alertmanager(OPTIONS)) as manager:
        yield manager


@pytest.mark.parametrize("source", SILENCED)
def test_firing_alert_silences_exactly_what_it_explains(manager: Alertmanager, source: str) -> None:
    clusters = [f"{side} of {source}" for side in ("east", "west")]
    places = [{"cluster": cluster, "apiserver": apiserver} for cluster, apiserver in product(clusters, APISERVERS)]
    here = places[0]
    everywhere = [ALERTS[name] | place for name in ALERTS.keys() - SILENCED.keys() for place in places]
    sources = [source, *sorted(explained_by(source) & SILENCED.keys())]  # a silenced alert silences others all the same
    firing = [*(ALERTS[name] | here for name in sources), *everywhere]
    expected = {
        named(ALERTS[name] | place)
        for source in sources
        for scope, targets in SILENCED[source].items()
        for name in targets
        for place in places
        if place["cluster"] == here["cluster"] and place[scope] == here[scope]
    } & set(map(named, firing))
    manager.post(firing)
    eventually(lambda: len(of(manager, clusters)) == len(firing), "all alerts are known")
    # The inhibitor takes in alerts one by one, independently of the API that is polled here.
    eventually(lambda: inhibited(manager, clusters) >= expected, "all explained alerts are silenced")
    assert inhibited(manager, clusters) == expected


def explained_by(source: str) -> set[str]:
    """Return the alerts that an alert silences, and those that they silence."""
    direct = {name for targets in SILENCED[source].values() for name in targets}
    return direct.union(*(explained_by(name) for name in direct & SILENCED.keys()))


def of(manager: Alertmanager, clusters: list[str]) -> list[dict[str, Any]]:
    """Return the alerts of these clusters."""
    return [alert for alert in manager.alerts() if alert["labels"]["cluster"] in clusters]


def inhibited(manager: Alertmanager, clusters: list[str]) -> set[str]:
    return {named(alert["labels"]) for alert in of(manager, clusters) if alert["status"]["inhibitedBy"]}


def named(labels: Mapping[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in sorted(labels.items()))
