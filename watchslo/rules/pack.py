"""Assembles rules in the forms that users apply: a PrometheusRule, rule files, or Alertmanager configuration."""

from collections.abc import Iterable, Mapping
from typing import Any

from watchslo.config.model import Config
from watchslo.config.values import format_duration
from watchslo.rules.alerts.alert_groups import alert_groups
from watchslo.rules.inhibitions import fleet_inhibitions, inhibitions
from watchslo.rules.recording import recording_groups
from watchslo.rules.rule import RuleDefinition, RuleGroup
from watchslo.rules.settings import RuleSettings


def rule_groups(config: Config, settings: RuleSettings) -> tuple[RuleGroup, ...]:
    """Return all groups; the recording rules come before the alerts that use them."""
    return (*recording_groups(config, settings), *alert_groups(config, settings))


def plain(config: Config, settings: RuleSettings) -> dict[str, Any]:
    """Return the content of a file for `rule_files` of Prometheus."""
    return rule_file(rule_groups(config, settings))


def prometheus_rule(config: Config, settings: RuleSettings, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return a PrometheusRule object; the Prometheus operator selects it by `labels`."""
    return rule_object("watchslo", plain(config, settings), labels)


def rule_file(groups: Iterable[RuleGroup]) -> dict[str, Any]:
    """Return groups as Prometheus loads them."""
    return {"groups": [_group(group) for group in groups]}


def tolerant_rule_file(groups: Iterable[RuleGroup]) -> dict[str, Any]:
    """Return groups for the ruler of Thanos, which by default fails all rules while one of many clusters is missing."""
    return {"groups": [{**_group(group), "partial_response_strategy": "warn"} for group in groups]}


def rule_object(name: str, spec: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the groups of a rule file as a PrometheusRule object."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": name, **({"labels": dict(labels)} if labels else {})},
        "spec": dict(spec),
    }


def rule_namespace(name: str, groups: Iterable[RuleGroup]) -> dict[str, Any]:
    """Return groups as `mimirtool rules load` reads them: with the namespace of the ruler that they replace."""
    return {"namespace": name, **rule_file(groups)}


def alertmanager(settings: RuleSettings) -> dict[str, Any]:
    """Return the part for the configuration of Alertmanager."""
    return {"inhibit_rules": inhibitions(settings)}


def alertmanager_of_fleet(settings: RuleSettings) -> dict[str, Any]:
    """Return the same for the alerts of the global level."""
    return {"inhibit_rules": fleet_inhibitions(settings)}


def _group(group: RuleGroup) -> dict[str, Any]:
    return {
        "name": group.name,
        "interval": format_duration(group.interval),
        "rules": [_rule(rule) for rule in group.rules],
    }


def _rule(rule: RuleDefinition) -> dict[str, Any]:
    if not rule.is_alert:
        return {"record": rule.name, "expr": rule.expression}
    return {
        "alert": rule.name,
        "expr": rule.expression,
        **({"for": rule.wait} if rule.wait else {}),
        "labels": dict(rule.labels),
        "annotations": dict(rule.annotations),
    }
