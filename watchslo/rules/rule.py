"""The values that Prometheus evaluates: a rule and a group of rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field

CRITICAL, WARNING = "critical", "warning"
"""The severities of alerts: a critical one pages, a warning is a ticket."""

DISTINGUISHING = ("long", "scope", "instances", "reason")
"""The labels in which alerts of one name differ."""


@dataclass(frozen=True, slots=True)
class RuleDefinition:
    """A recording rule, or an alert if it has labels; `wait` is the `for` of an alert."""

    name: str
    expression: str
    wait: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_alert(self) -> bool:
        """True for an alert, False for a recording rule."""
        return bool(self.labels)

    @property
    def is_warning(self) -> bool:
        """True if it is an alert that does not page."""
        return self.labels.get("severity") == WARNING


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules that are evaluated one after the other, every `interval` seconds."""

    name: str
    interval: float
    rules: tuple[RuleDefinition, ...]
