"""Prometheus and Alertmanager as an operator runs them: the rules and the inhibitions that watchslo writes."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.night.statements import AlertsStatement, FiringAlert
from tests.support.alertmanager import Alertmanager
from tests.support.daemon import watchslo
from tests.support.prometheus import Prometheus

SCRAPE_SECONDS = 5
"""The PodMonitor that is shipped scrapes every 30 s; the rules are evaluated once a minute, as shipped."""


def written_rules(config: Path, *arguments: str) -> dict[str, Any]:
    """Return what `watchslo rules` writes for a configuration."""
    done = watchslo("rules", "--config", config, *arguments)
    assert done.returncode == 0, done.stderr
    rules: dict[str, Any] = yaml.safe_load(done.stdout)
    return rules


def monitoring(
    stack: contextlib.ExitStack, folder: Path, rules: Mapping[str, Any], job: str, urls: Sequence[str]
) -> tuple[Prometheus, Alertmanager]:
    """Start an Alertmanager, and a Prometheus that scrapes these daemons as one job and sends it the alerts."""
    folder.mkdir()
    inhibitions = watchslo("rules", "--format", "inhibitions")
    manager = stack.enter_context(Alertmanager(folder / "alertmanager", yaml.safe_load(inhibitions.stdout)))
    (folder / "rules.yaml").write_text(yaml.safe_dump(dict(rules), sort_keys=False))
    targets = [{"targets": [urlsplit(url).netloc]} for url in urls]
    configuration = {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": f"{SCRAPE_SECONDS}s"},
        "rule_files": [str(folder / "rules.yaml")],
        "scrape_configs": [{"job_name": job, "static_configs": targets}],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [urlsplit(manager.url).netloc]}]}]},
    }
    return stack.enter_context(Prometheus(folder / "prometheus", configuration)), manager


def alerts_now(at: float, prometheus: Prometheus, manager: Alertmanager) -> AlertsStatement:
    """Return the alerts that fire, and those of them that notify: Alertmanager has them and does not inhibit them."""
    firing = _alerts(alert["labels"] for alert in prometheus.alerts() if alert["state"] == "firing")
    active = _alerts(alert["labels"] for alert in manager.alerts() if alert["status"]["state"] == "active")
    return AlertsStatement(at, firing, firing & active)


def _alerts(labels: Iterable[Mapping[str, str]]) -> frozenset[FiringAlert]:
    return frozenset(FiringAlert(one["alertname"], one.get("apiserver", "")) for one in labels)
