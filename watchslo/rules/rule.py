"""The values that Prometheus evaluates: a rule and a group of rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RuleDefinition:
    """A recording rule, or an alert if it has labels; `wait` is the `for` of an alert."""

    name: str
    expression: str
    wait: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules that are evaluated one after the other, every `interval` seconds."""

    name: str
    interval: float
    rules: tuple[RuleDefinition, ...]
