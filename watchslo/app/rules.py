"""`watchslo rules`: the rules of a configuration, as YAML that can be applied."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click
import yaml

from watchslo.config import load
from watchslo.errors import ConfigError
from watchslo.rules.options import Options, parse_labels
from watchslo.rules.pack import alertmanager, plain, prometheus_rule

HEADER = "# Written by `watchslo rules`: change the configuration and write it anew, instead of this.\n"
Format = Literal["prometheusrule", "plain", "inhibitions"]


@dataclass(frozen=True, slots=True)
class Question:
    """What the command line asks for."""

    format: Format = "prometheusrule"
    cluster_label: str | None = None
    job_selector: str | None = None
    rule_labels: tuple[str, ...] = ()
    runbooks: str | None = None
    shrink: int = 1


def rules(file: Path | None, question: Question) -> None:
    """Prints them; raises ConfigError."""
    click.echo(HEADER + as_yaml(document(file, question)), nl=False)


def document(file: Path | None, question: Question) -> dict[str, Any]:
    """What is printed, before it is YAML; raises ConfigError."""
    told = {"job_selector": question.job_selector, "runbooks": question.runbooks}
    given = {name: value for name, value in told.items() if value is not None}
    options = Options(cluster_label=question.cluster_label, shrink=question.shrink, **given)
    labels = parse_labels(question.rule_labels)
    if labels and question.format != "prometheusrule":
        raise ConfigError(
            f"--rule-labels: {question.format} has no labels of its own; leave it out, or write --format prometheusrule"
        )
    config = load(file)[0]
    match question.format:
        case "prometheusrule":
            return prometheus_rule(config, options, labels)
        case "plain":
            return plain(config, options)
        case "inhibitions":
            return alertmanager(options)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as such, and lists indented, as people do."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - PyYAML's own
        return super().increase_indent(flow, indentless=False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def as_yaml(document: Mapping[str, Any]) -> str:
    """YAML in the order that is given, and with no line broken that was none."""
    return yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)
