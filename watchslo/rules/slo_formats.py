"""Writes service levels for other SLO tools: Pyrra, Sloth, and whatever reads OpenSLO.

Pyrra and Sloth keep the labels of each watch, as our recording rules do. They have alerts of their own: burn rates of
several windows, without our conditions on the number of late events and on how many instances agree.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from watchslo.config.values import format_duration
from watchslo.errors import ConfigError
from watchslo.rules import names
from watchslo.rules.promql import by
from watchslo.rules.service_levels import ServiceLevel
from watchslo.rules.settings import RuleSettings

SERVICE = "watchslo"
SLOTH_RANGE = "{{.window}}"  # Sloth replaces it by each of its windows

Document = dict[str, Any]


def pyrra(levels: Iterable[ServiceLevel], settings: RuleSettings, labels: Mapping[str, str]) -> list[Document]:
    """Return a ServiceLevelObjective for each service level; Pyrra copies `labels` to its PrometheusRules."""
    grouping = list(names.label_levels(settings).resource)
    return [
        {
            "apiVersion": "pyrra.dev/v1alpha1",
            "kind": "ServiceLevelObjective",
            "metadata": {
                "name": level.name,
                **_labels(labels),
                "annotations": {"pyrra.dev/runbook_url": level.runbook},  # the prefix hands it to the alerts
            },
            "spec": {
                "description": level.description,
                "target": level.percent,
                "window": format_duration(level.period),
                "indicator": {
                    "ratio": {
                        "errors": {"metric": level.indicator.bad},
                        "total": {"metric": level.indicator.total},
                        "grouping": grouping,
                    }
                },
                "alerting": {"name": level.alert, "absent": False},  # WatchsloAbsent and WatchsloTargetDown say it
            },
        }
        for level in levels
    ]


def sloth(levels: Iterable[ServiceLevel], settings: RuleSettings, labels: Mapping[str, str]) -> list[Document]:
    """Return the PrometheusServiceLevel of all service levels; raises ConfigError if their periods differ."""
    kept, found = names.label_levels(settings).resource, tuple(levels)
    periods = [format_duration(period) for period in sorted({level.period for level in found})]
    if len(periods) > 1:
        raise ConfigError(
            f"-o sloth: Sloth has one period for all SLOs, and these have {' and '.join(periods)}; give all "
            "watches one `period`, or write -o pyrra"
        )
    slos = [
        {
            "name": level.name,
            "objective": float(level.percent),
            "description": level.description,
            "sli": {"raw": {"errorRatioQuery": level.indicator.bad_ratio(kept, _over_sloth_range)}},
            "alerting": {
                "name": level.alert,
                "labels": {"slo": level.name},
                "annotations": {"description": level.description, "runbook_url": level.runbook},
                "pageAlert": {"labels": {"severity": "critical"}},
                "ticketAlert": {"labels": {"severity": "warning"}},
            },
        }
        for level in found
    ]
    return [
        {
            "apiVersion": "sloth.slok.dev/v1",
            "kind": "PrometheusServiceLevel",
            "metadata": {"name": SERVICE, **_labels(labels)},
            "spec": {"service": SERVICE, "slos": slos},
        }
    ]


def _over_sloth_range(series: str) -> str:
    return f"rate({series}[{SLOTH_RANGE}])"


def openslo(levels: Iterable[ServiceLevel], settings: RuleSettings) -> list[Document]:
    """Return the Service and an SLO for each service level, whose queries return one counter for all watches of it.

    Raises ConfigError for a period of seconds, for which OpenSLO has no unit.
    """
    service = {
        "apiVersion": "openslo/v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "displayName": SERVICE},
        "spec": {"description": "How late the watch events of Kubernetes are."},
    }
    return [service, *(_openslo(level, settings) for level in levels)]


def _openslo(level: ServiceLevel, settings: RuleSettings) -> Document:
    period = format_duration(level.period)
    if period.endswith("s"):
        raise ConfigError(f"-o openslo: OpenSLO has no seconds; write a `period` of minutes instead of {period}")
    sources = {
        name: {"metricSource": {"type": "Prometheus", "spec": {"query": by("sum", settings.cluster, counter)}}}
        for name, counter in (("good", level.indicator.good), ("total", level.indicator.total))
    }
    return {
        "apiVersion": "openslo/v1",
        "kind": "SLO",
        "metadata": {"name": level.name, "annotations": {"watchslo/runbook": level.runbook}},
        "spec": {
            "description": level.description,
            "service": SERVICE,
            "indicator": {
                "metadata": {"name": level.name},
                "spec": {"ratioMetric": {"counter": True, **sources}},
            },
            "timeWindow": [{"duration": period, "isRolling": True}],
            "budgetingMethod": "Occurrences",
            "objectives": [{"displayName": level.description, "target": level.target}],
        },
    }


def _labels(labels: Mapping[str, str]) -> Document:
    return {"labels": dict(labels)} if labels else {}
