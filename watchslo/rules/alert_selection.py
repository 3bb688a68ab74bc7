"""Chooses the alerts among rules, and adds labels to them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import StrEnum

from watchslo.rules.rule import RuleDefinition, RuleGroup


class AlertSelection(StrEnum):
    """Which alerts there are: none, the essential ones, which page, or all. Recording rules are always there."""

    NONE = "none"
    ESSENTIAL = "essential"
    ALL = "all"

    def of(self, groups: Iterable[RuleGroup]) -> tuple[RuleGroup, ...]:
        """Return the groups without the other alerts, and without groups that are then empty."""
        return _rewritten(groups, lambda rules: (rule for rule in rules if self._has(rule)))

    def _has(self, rule: RuleDefinition) -> bool:
        match self:
            case AlertSelection.NONE:
                return not rule.is_alert
            case AlertSelection.ESSENTIAL:
                return not rule.is_warning
            case AlertSelection.ALL:
                return True


def with_labels(groups: Iterable[RuleGroup], labels: Mapping[str, str]) -> tuple[RuleGroup, ...]:
    """Return the groups with these labels at each alert, for example for the routes of Alertmanager."""
    return _rewritten(
        groups,
        lambda rules: (replace(rule, labels={**rule.labels, **labels}) if rule.is_alert else rule for rule in rules),
    )


def _rewritten(
    groups: Iterable[RuleGroup], rewrite: Callable[[Iterable[RuleDefinition]], Iterable[RuleDefinition]]
) -> tuple[RuleGroup, ...]:
    changed = (replace(group, rules=tuple(rewrite(group.rules))) for group in groups)
    return tuple(group for group in changed if group.rules)
