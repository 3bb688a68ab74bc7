"""Writes alerts as Grafana provisions them from a file; Grafana then evaluates them itself, by asking Prometheus.

An alert of Prometheus fires for each element of its expression, whatever the value; one of Grafana fires for each value
that is not zero. So a second expression, which Grafana computes, turns each number into 1.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Any

from watchslo.config.values import format_duration
from watchslo.rules.rule import DISTINGUISHING, RuleDefinition, RuleGroup
from watchslo.rules.settings import RuleSettings

QUERY, CONDITION = "A", "B"
SERVER_SIDE = "__expr__"  # the data source of expressions that Grafana computes
SCHEDULER_SECONDS = 10  # Grafana evaluates groups at multiples of this
TIME_RANGE = {"from": 600, "to": 0}  # seconds; an instant query uses its end only

_WORST = re.compile(
    r"(?P<aside>[;,] (?:the [\w ]+ is|worst:|P99|threshold|such as|most often) )?"
    r"{{ with printf .*? \| query }}{{ \. \| first \| "
    r'(?:label "(?P<label>\w+)"|value \| humanizeDuration) }}{{ else }}unknown{{ end }}'
)
_VALUE = re.compile(r"{{ \$value(?: \| (\w+))? }}")


def grafana_alerts(
    folder: str, groups: Iterable[RuleGroup], settings: RuleSettings, datasource_uid: str
) -> dict[str, Any]:
    """Return a file for `provisioning/alerting` of Grafana: the alerts of the groups, without recording rules."""
    return {
        "apiVersion": 1,
        "groups": [
            {
                "orgId": 1,
                "name": group.name,
                "folder": folder,
                "interval": format_duration(_interval(group.interval)),
                "rules": [_rule(rule, settings, datasource_uid) for rule in group.rules if rule.is_alert],
            }
            for group in groups
            if any(rule.is_alert for rule in group.rules)
        ],
    }


def _interval(seconds: float) -> float:
    return max(seconds // SCHEDULER_SECONDS, 1) * SCHEDULER_SECONDS


def _rule(rule: RuleDefinition, settings: RuleSettings, datasource_uid: str) -> dict[str, Any]:
    return {
        "uid": _uid(rule, settings),
        "title": rule.name,
        "condition": CONDITION,
        "data": [
            _query(QUERY, datasource_uid, {"expr": rule.expression, "instant": True, "range": False}),
            _query(CONDITION, SERVER_SIDE, {"type": "math", "expression": f"is_number(${QUERY})"}),
        ],
        "for": rule.wait or "0s",
        "noDataState": "OK",  # the expression returns nothing as long as all is well
        "execErrState": "Error",
        "labels": dict(rule.labels),
        "annotations": {name: _translated(text) for name, text in rule.annotations.items()},
    }


def _query(ref: str, datasource_uid: str, model: dict[str, Any]) -> dict[str, Any]:
    return {
        "refId": ref,
        "relativeTimeRange": dict(TIME_RANGE),
        "datasourceUid": datasource_uid,
        "model": {"refId": ref, **model},
    }


def _uid(rule: RuleDefinition, settings: RuleSettings) -> str:
    """Return an identity that lasts while objectives change, of at most 40 characters.

    Alerts of one name differ in a label, and those of two profiles in the targets that they select.
    """
    own = [rule.labels[label] for label in DISTINGUISHING if label in rule.labels]
    targets = hashlib.sha256(settings.job_selector.encode()).hexdigest()[:6]
    return "-".join((rule.name.removeprefix("Kube"), *own, targets))


def _translated(template: str) -> str:
    """Return an annotation for Grafana, whose templates have another name for the value.

    They cannot query either, so the worst watch or instance has no name there, and asides about it are left out.
    """
    text = _WORST.sub(lambda match: "" if match["aside"] else f"one {match['label']}", template)
    return _VALUE.sub(lambda match: f"{{{{ {match[1] or ''} $values.{QUERY}.Value }}}}".replace("  ", " "), text)
