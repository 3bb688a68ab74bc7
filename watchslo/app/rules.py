"""`watchslo rules`: prints the recording rules and alerts of a configuration as YAML."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click
import yaml

from watchslo.config.loading import load
from watchslo.errors import ConfigError
from watchslo.rules.pack import alertmanager, plain, prometheus_rule
from watchslo.rules.settings import RuleSettings, parse_labels

HEADER = "# Written by `watchslo rules`. Do not edit: change the configuration and run the command again.\n"
Format = Literal["prometheusrule", "plain", "inhibitions"]


@dataclass(frozen=True, slots=True)
class RulesOptions:
    """The options of `watchslo rules`."""

    format: Format = "prometheusrule"
    cluster_label: str | None = None
    job_selector: str | None = None
    rule_labels: tuple[str, ...] = ()
    runbooks: str | None = None
    shrink: int = 1


def rules(file: Path | None, options: RulesOptions) -> None:
    """Print the rules; raises ConfigError."""
    click.echo(HEADER + as_yaml(document(file, options)), nl=False)


def document(file: Path | None, options: RulesOptions) -> dict[str, Any]:
    """Return the document that is printed as YAML; raises ConfigError."""
    optional = {"job_selector": options.job_selector, "runbooks": options.runbooks}
    given = {name: value for name, value in optional.items() if value is not None}
    settings = RuleSettings(cluster_label=options.cluster_label, shrink=options.shrink, **given)
    labels = parse_labels(options.rule_labels)
    if labels and options.format != "prometheusrule":
        raise ConfigError(
            f"--rule-labels: {options.format} has no labels; remove the option, or write --format prometheusrule"
        )
    config = load(file)[0]
    match options.format:
        case "prometheusrule":
            return prometheus_rule(config, settings, labels)
        case "plain":
            return plain(config, settings)
        case "inhibitions":
            return alertmanager(settings)


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
