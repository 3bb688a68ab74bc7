"""`watchslo rules`: prints the rules of a configuration, or its objectives for other tools, as YAML."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click
import yaml

from watchslo.config.loading import load
from watchslo.config.model import Config
from watchslo.errors import ConfigError
from watchslo.rules.alert_selection import AlertSelection, with_labels
from watchslo.rules.fleet import fleet_groups
from watchslo.rules.grafana_alerts import grafana_alerts
from watchslo.rules.pack import (
    alertmanager,
    alertmanager_of_fleet,
    rule_file,
    rule_groups,
    rule_namespace,
    rule_object,
    tolerant_rule_file,
)
from watchslo.rules.rollup import rollup_groups
from watchslo.rules.rule import RuleGroup
from watchslo.rules.service_levels import service_levels
from watchslo.rules.settings import RuleSettings, parse_alert_labels, parse_labels
from watchslo.rules.slo_formats import openslo, pyrra, sloth
from watchslo.rules.timespans import Histograms

HEADER = "# Written by `watchslo rules`. Do not edit: change the configuration and run the command again.\n"
Format = Literal["prometheusrule", "plain", "thanos", "mimir", "inhibitions", "pyrra", "sloth", "openslo", "grafana"]
OF_OBJECTIVES = frozenset({"pyrra", "sloth", "openslo"})
"""The formats of the objectives alone, from which other tools make rules with windows of their own."""

WITH_ALERTS = frozenset({"prometheusrule", "plain", "thanos", "mimir", "grafana"})
"""The formats that contain alerts."""

OF_OBJECTS = frozenset({"prometheusrule", "pyrra", "sloth"})
"""The formats of Kubernetes objects, which have labels."""

FleetLevel = Literal["cluster", "global"]
DATASOURCE_UID = "prometheus"  # as in dashboards/provisioning
CLUSTER_LABEL = "cluster"  # at the global level of a fleet, where clusters must be distinguished


@dataclass(frozen=True, slots=True)
class RulesOptions:
    """The options of `watchslo rules`."""

    format: Format = "prometheusrule"
    cluster_label: str | None = None
    job_selector: str | None = None
    rule_labels: tuple[str, ...] = ()
    runbooks: str | None = None
    grafana: str | None = None
    shrink: int = 1
    fleet: FleetLevel | None = None
    replica_label: str | None = None
    histograms: Literal["classic", "native"] = "classic"
    datasource_uid: str | None = None
    alerts: Literal["none", "essential", "all"] | None = None
    alert_labels: tuple[str, ...] = ()


def rules(file: Path | None, options: RulesOptions) -> None:
    """Print the rules; raises ConfigError."""
    click.echo(HEADER + "---\n".join(as_yaml(document) for document in documents(file, options)), nl=False)


def documents(file: Path | None, options: RulesOptions) -> Sequence[dict[str, Any]]:
    """Return the documents that are printed as YAML; raises ConfigError."""
    settings, labels = _settings(options), _rule_labels(options)
    config = load(file)[0]
    if options.format not in OF_OBJECTIVES:
        return [_rules(config, settings, options, labels)]
    if options.fleet is not None or options.shrink != 1:
        option = "--shrink" if options.fleet is None else "--fleet"
        raise ConfigError(
            f"{option}: the file for {options.format} has objectives, and no rules that this changes; remove it"
        )
    levels = service_levels(config, settings)
    match options.format:
        case "pyrra":
            return pyrra(levels, settings, labels)
        case "sloth":
            return sloth(levels, settings, labels)
        case _:
            return openslo(levels, settings)


def _rule_labels(options: RulesOptions) -> dict[str, str]:
    labels = parse_labels(options.rule_labels)
    if labels and options.format not in OF_OBJECTS:
        raise ConfigError(
            f"--rule-labels: {options.format} has no labels; remove the option, or write -o prometheusrule"
        )
    return labels


def _rules(config: Config, settings: RuleSettings, options: RulesOptions, labels: Mapping[str, str]) -> dict[str, Any]:
    if options.format == "inhibitions":
        return _inhibitions(settings, options.fleet)
    name, make = _PACKS[options.fleet]
    groups, of_all_clusters = _with_alerts(make(config, settings), options), options.fleet == "global"
    match options.format:
        case "grafana" if options.fleet == "cluster":
            raise ConfigError("-o grafana: the rollup of a cluster has no alerts; write --fleet global")
        case "grafana":
            return grafana_alerts(name, groups, settings, options.datasource_uid or DATASOURCE_UID)
        case "plain":
            return rule_file(groups)
        case "thanos" if of_all_clusters:
            return tolerant_rule_file(groups)
        case "thanos":
            raise ConfigError("-o thanos: these are rules of one Prometheus; write --fleet global, or plain")
        case "mimir":
            return rule_namespace(name, groups)
        case _:  # the operator leaves out what only Thanos knows
            return rule_object(name, tolerant_rule_file(groups) if of_all_clusters else rule_file(groups), labels)


def _with_alerts(groups: Iterable[RuleGroup], options: RulesOptions) -> Sequence[RuleGroup]:
    selected = AlertSelection(options.alerts or AlertSelection.ESSENTIAL).of(groups)
    return with_labels(selected, parse_alert_labels(options.alert_labels))


_PACKS = {
    None: ("watchslo", rule_groups),
    "cluster": ("watchslo-rollup", rollup_groups),
    "global": ("watchslo-fleet", fleet_groups),
}
"""The name of the rules, and their groups, by the level of a fleet."""


def _settings(options: RulesOptions) -> RuleSettings:
    if options.replica_label is not None and options.fleet != "global":
        raise ConfigError("--replica-label: only the global level has replicas; write --fleet global, or remove it")
    if (options.alerts or options.alert_labels) and options.format not in WITH_ALERTS:
        option = "--alerts" if options.alerts else "--alert-labels"
        raise ConfigError(f"{option}: the file for {options.format} has no alerts; remove the option")
    if options.alerts == "none" and options.format == "grafana":
        raise ConfigError("--alerts none: the file for Grafana has alerts only; write essential or all")
    if options.datasource_uid is not None and options.format != "grafana":
        raise ConfigError("--datasource-uid: only alerts of Grafana have a data source; write -o grafana")
    optional = {
        "job_selector": options.job_selector,
        "runbooks": options.runbooks,
        "grafana": options.grafana,
        "replica_label": options.replica_label,
    }
    given = {name: value for name, value in optional.items() if value is not None}
    label = options.cluster_label
    if label is None and options.fleet == "global":
        label = CLUSTER_LABEL
    form = Histograms(options.histograms)
    return RuleSettings(cluster_label=label, shrink=options.shrink, histograms=form, **given)


def _inhibitions(settings: RuleSettings, fleet: FleetLevel | None) -> dict[str, Any]:
    match fleet:
        case None:
            return alertmanager(settings)
        case "global":
            return alertmanager_of_fleet(settings)
        case "cluster":
            raise ConfigError("-o inhibitions: the rollup of a cluster has no alerts; write --fleet global")


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and indents lists."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - PyYAML's own
        return super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def as_yaml(document: Mapping[str, Any]) -> str:
    """Return YAML that keeps the order of keys and adds no line breaks to texts."""
    return yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)
