"""Everything together, in the forms that are applied: a PrometheusRule, a file of rules, a piece of Alertmanager's."""

from collections.abc import Mapping
from typing import Any

from watchslo.config import Config, format_duration
from watchslo.rules.alerts import alerting
from watchslo.rules.inhibitions import inhibitions
from watchslo.rules.options import Options
from watchslo.rules.recording import recording
from watchslo.rules.windows import Group, Rule


def rule_groups(config: Config, options: Options) -> tuple[Group, ...]:
    """All there are; what alerts stand on comes first."""
    return (*recording(config, options), *alerting(config, options))


def plain(config: Config, options: Options) -> dict[str, Any]:
    """What a file named in Prometheus' `rule_files` holds."""
    return {"groups": [_group(group) for group in rule_groups(config, options)]}


def prometheus_rule(config: Config, options: Options, labels: Mapping[str, str]) -> dict[str, Any]:
    """The same as an object for the Prometheus operator, which finds it by `labels`."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "watchslo", **({"labels": dict(labels)} if labels else {})},
        "spec": plain(config, options),
    }


def alertmanager(options: Options) -> dict[str, Any]:
    """What goes into Alertmanager's configuration."""
    return {"inhibit_rules": inhibitions(options)}


def _group(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "interval": format_duration(group.interval),
        "rules": [_rule(rule) for rule in group.rules],
    }


def _rule(rule: Rule) -> dict[str, Any]:
    if not rule.labels:
        return {"record": rule.name, "expr": rule.expression}
    return {
        "alert": rule.name,
        "expr": rule.expression,
        **({"for": rule.wait} if rule.wait else {}),
        "labels": dict(rule.labels),
        "annotations": dict(rule.annotations),
    }
