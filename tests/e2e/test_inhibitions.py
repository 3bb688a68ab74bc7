"""A real Alertmanager silences what another alert explains, where it explains it, and nothing else."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path

import pytest

from tests.support.alertmanager import Alertmanager
from tests.support.process import eventually
from watchslo.config import Config
from watchslo.rules.options import Options
from watchslo.rules.pack import alertmanager, rule_groups

pytestmark = pytest.mark.patient

OPTIONS = Options(cluster_label="cluster")
CLUSTERS, APISERVERS = ("east", "west"), ("10.0.0.7:6443", "10.0.0.8:6443")
LATE = {"WatchLatencyBudgetBurn critical", "WatchLatencyBudgetBurn warning", "WatchLatencyBadMinutes critical"}
MISSED = {"WatchsloClockSlow warning", "WatchsloCoverageLow warning", "WatchsloUnmeasurable warning"}
SILENCED: Mapping[str, tuple[set[str], str]] = {
    "WatchsloOverloaded warning most": (LATE, "cluster"),
    "WatchsloOverloaded warning some": (set(), "cluster"),
    "WatchsloAbsent critical": ({"WatchsloTargetDown warning"}, "cluster"),
    "WatchsloClockStopped critical": (LATE | MISSED, "apiserver"),
    "WatchsloForbidden warning": ({"WatchDown critical"}, "apiserver"),
    "WatchExpiredLoop warning": ({"WatchRelistStorm warning"}, "apiserver"),
    "WatchLatencyBudgetBurn critical": ({"WatchLatencyBudgetBurn warning"}, "apiserver"),
}
"""What an alert silences, and whether in its whole cluster or at its apiserver only; all others silence nothing."""
TOLD = {
    " ".join(filter(None, (rule.name, rule.labels["severity"], rule.labels.get("instances")))): {
        "alertname": rule.name,
        **rule.labels,
    }
    for group in rule_groups(Config(), OPTIONS)
    for rule in group.rules
    if "severity" in rule.labels
}
"""The labels of each alert, by what it is called here."""
PLACES = [{"cluster": cluster, "apiserver": apiserver} for cluster, apiserver in product(CLUSTERS, APISERVERS)]
HERE = PLACES[0]
KNOWN_SECONDS = 120.0


@pytest.mark.parametrize("source", SILENCED)
def test_an_alert_silences_what_it_explains(source: str, tmp_path: Path) -> None:
    targets, scope = SILENCED[source]
    explained = [place for place in PLACES if place["cluster"] == HERE["cluster"] and place[scope] == HERE[scope]]
    everywhere = [TOLD[name] | place for name in TOLD.keys() - SILENCED.keys() for place in PLACES]
    firing = [TOLD[source] | HERE, *everywhere, *(TOLD[name] | HERE for name in targets & SILENCED.keys())]
    expected = {named(TOLD[name] | place) for name in targets for place in explained} & set(map(named, firing))
    with Alertmanager(tmp_path, alertmanager(OPTIONS)) as manager:
        manager.post(firing)
        eventually(lambda: len(manager.alerts()) == len(firing), KNOWN_SECONDS, "all alerts are known")
        # What inhibits takes them in one after the other, and apart from what is asked here.
        eventually(lambda: inhibited(manager) >= expected, KNOWN_SECONDS, "all that is explained is silenced")
        assert inhibited(manager) == expected


def inhibited(manager: Alertmanager) -> set[str]:
    return {named(alert["labels"]) for alert in manager.alerts() if alert["status"]["inhibitedBy"]}


def named(labels: Mapping[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in sorted(labels.items()))
