"""Assembles all rules in the forms that users apply: a PrometheusRule, a rule file, or Alertmanager configuration."""

from collections.abc import Mapping
from typing import Any

from watchslo.config.model import Config
from watchslo.config.values import format_duration
from watchslo.rules.alerts import alert_groups
from watchslo.rules.inhibitions import inhibitions
from watchslo.rules.recording import recording_groups
from watchslo.rules.rule import RuleDefinition, RuleGroup
from watchslo.rules.settings import RuleSettings


def rule_groups(config: Config, settings: RuleSettings) -> tuple[RuleGroup, ...]:
    """Return all groups; the recording rules come before the alerts that use them."""
    return (*recording_groups(config, settings), *alert_groups(config, settings))


def plain(config: Config, settings: RuleSettings) -> dict[str, Any]:
    """Return the content of a file for `rule_files` of Prometheus."""
    return {"groups": [_group(group) for group in rule_groups(config, settings)]}


def prometheus_rule(config: Config, settings: RuleSettings, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return a PrometheusRule object; the Prometheus operator selects it by `labels`."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "watchslo", **({"labels": dict(labels)} if labels else {})},
        "spec": plain(config, settings),
    }


def alertmanager(settings: RuleSettings) -> dict[str, Any]:
    """Return the part for the configuration of Alertmanager."""
    return {"inhibit_rules": inhibitions(settings)}


def _group(group: RuleGroup) -> dict[str, Any]:
    return {
        "name": group.name,
        "interval": format_duration(group.interval),
        "rules": [_rule(rule) for rule in group.rules],
    }


def _rule(rule: RuleDefinition) -> dict[str, Any]:
    if not rule.labels:
        return {"record": rule.name, "expr": rule.expression}
    return {
        "alert": rule.name,
        "expr": rule.expression,
        **({"for": rule.wait} if rule.wait else {}),
        "labels": dict(rule.labels),
        "annotations": dict(rule.annotations),
    }
