"""Compares the rules that a Prometheus evaluates with those that `watchslo rules` makes of the configuration."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from watchslo.app.doctor.findings import DeploymentFinding, good, problem, warning
from watchslo.app.prometheus_client import LoadedGroup, LoadedRule, Prometheus
from watchslo.config.values import parse_duration
from watchslo.errors import ConnectError
from watchslo.rules.alert_selection import AlertSelection
from watchslo.rules.rule import RuleDefinition, RuleGroup
from watchslo.timeline.format import counted, some_of

SUBJECT = "rules"
REMEDY = "Apply `watchslo rules --config FILE` again, with --job-selector, --cluster-label and --histograms as here."
_ALERTS = {
    AlertSelection.NONE: "no alerts",
    AlertSelection.ESSENTIAL: "the essential alerts",
    AlertSelection.ALL: "all alerts",
}
_PARTS = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')

Canonical = Callable[[str], str]
"""Returns one text for equal expressions."""


@dataclass(frozen=True, slots=True)
class RuleDifferences:
    """The names of rules: `missing` and `different` are ours, `extra` and `failing` are those of Prometheus.

    `texts` are the expressions of those that differ.
    """

    missing: Sequence[str]
    different: Sequence[str]
    extra: Sequence[str]
    failing: Sequence[str]
    texts: frozenset[str]


def without_spaces(expression: str) -> str:
    """Return the expression without spaces and line breaks outside of strings."""
    return _PARTS.sub(lambda part: part[1] or "", expression)


def compare_rules(
    ours: Sequence[RuleGroup], loaded: Sequence[LoadedGroup], canonical: Canonical = without_spaces
) -> RuleDifferences:
    """Compare by group, name, labels, expression and wait. Labels that were added to loaded rules do not matter.

    Several profiles load rules of the same names: one that is equal is enough.
    """
    names = {group.name for group in ours}
    known = {rule.name for group in ours for rule in group.rules}
    theirs = [(group.name, rule) for group in loaded if group.name in names for rule in group.rules]
    missing, different, texts = [], [], set[str]()
    for group in ours:
        for rule in group.rules:
            candidates = [candidate for name, candidate in theirs if name == group.name and _is_for(rule, candidate)]
            if not candidates:
                missing.append(rule.name)
            elif not any(_is_equal(rule, candidate, canonical) for candidate in candidates):
                different.append(rule.name)
                texts |= {rule.expression, *(candidate.query for candidate in candidates)}
    return RuleDifferences(
        missing=_distinct(missing),
        different=_distinct(different),
        extra=_distinct(rule.name for _, rule in theirs if rule.name not in known),
        failing=_distinct(rule.name for _, rule in theirs if rule.health == "err"),
        texts=frozenset(texts),
    )


def loaded_selection(ours: Iterable[RuleGroup], loaded: Iterable[LoadedGroup]) -> AlertSelection:
    """Return the smallest selection with all of our alerts that are loaded: users may choose any of them."""
    theirs = [rule for group in loaded for rule in group.rules]
    alerts = (rule for group in ours for rule in group.rules if rule.is_alert)
    found = [rule for rule in alerts if any(_is_for(rule, candidate) for candidate in theirs)]
    if not found:
        return AlertSelection.NONE
    return AlertSelection.ALL if any(rule.is_warning for rule in found) else AlertSelection.ESSENTIAL


def _distinct(names: Iterable[str]) -> Sequence[str]:
    return tuple(dict.fromkeys(names))


def _is_for(rule: RuleDefinition, candidate: LoadedRule) -> bool:
    return rule.name == candidate.name and rule.labels.items() <= (candidate.labels or {}).items()


def _is_equal(rule: RuleDefinition, candidate: LoadedRule, canonical: Canonical) -> bool:
    wait = parse_duration(rule.wait) if rule.wait else 0.0
    return wait == candidate.duration and canonical(rule.expression) == canonical(candidate.query)


def rule_findings(
    ours: Sequence[RuleGroup], selection: AlertSelection, differences: RuleDifferences
) -> Iterator[DeploymentFinding]:
    """Yield what the comparison found."""
    count = len({rule.name for group in ours for rule in group.rules})
    if len(differences.missing) == count:
        yield problem(SUBJECT, "Prometheus evaluates none of the rules of this configuration.", REMEDY)
        return
    if differences.missing:
        yield problem(SUBJECT, f"Prometheus does not evaluate {some_of(differences.missing)}.", REMEDY)
    if differences.different:
        yield problem(
            SUBJECT,
            f"{some_of(differences.different)} in Prometheus differ from the rules of this configuration.",
            REMEDY,
        )
    if differences.failing:
        yield problem(
            SUBJECT,
            f"Prometheus cannot evaluate {some_of(differences.failing)}.",
            "Its page of rules shows the error; two profiles with the same --job-selector are a common cause.",
        )
    if differences.extra:
        yield warning(
            SUBJECT,
            f"Prometheus also evaluates {some_of(differences.extra)}, which this configuration does not make.",
            "Remove the rules of older versions or other configurations, unless another profile needs them.",
        )
    if not (differences.missing or differences.different or differences.failing):
        evaluated = f"{counted(count, 'rule')} as this configuration makes them, with {_ALERTS[selection]}"
        yield good(SUBJECT, f"Prometheus evaluates {evaluated}.")


async def check_rules(prometheus: Prometheus, ours: Sequence[RuleGroup]) -> list[DeploymentFinding]:
    """Read the loaded rules and compare; Prometheus itself decides whether two texts are the same expression.

    `ours` are with all alerts.
    """
    loaded = await prometheus.rule_groups()
    selection = loaded_selection(ours, loaded)
    ours = selection.of(ours)
    differences = compare_rules(ours, loaded)
    if differences.different:
        formatted = await _formatted(prometheus, differences.texts)
        differences = compare_rules(ours, loaded, lambda text: formatted.get(text) or without_spaces(text))
    return [*rule_findings(ours, selection, differences)]


async def _formatted(prometheus: Prometheus, texts: frozenset[str]) -> Mapping[str, str]:
    """Return the canonical forms of expressions, one request after the other; none from servers without that API."""
    formatted: dict[str, str] = {}
    try:
        for text in sorted(texts):
            formatted[text] = await prometheus.formatted(text)
    except ConnectError:
        return {}
    return formatted
