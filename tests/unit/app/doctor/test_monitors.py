"""Selection by the Prometheus operator: selectors, namespaces, and what is said about them."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from watchslo.app.doctor.findings import FindingLevel
from watchslo.app.doctor.monitors import (
    LabelSelector,
    OperatorObject,
    OperatorObjects,
    is_ours,
    monitor_findings,
    selects,
)

PROBLEM, WARNING, UNCHECKED, GOOD = FindingLevel
LABELS = {"release": "prometheus"}


def made(namespace: str = "watchslo", labels: Mapping[str, str] | None = None, **spec: Any) -> OperatorObject:
    document = {"metadata": {"namespace": namespace, "labels": labels, "name": "theirs"}, "spec": spec}
    return msgspec.json.decode(json.dumps(document), type=OperatorObject)


def found(
    *selecting: OperatorObject,
    labels: Mapping[str, str] | None = LABELS,
    namespace_labels: Mapping[str, str] | None = None,
    unread: Mapping[str, str] | None = None,
) -> OperatorObjects:
    ours = {kind: [made(labels=labels)] for kind in ("PodMonitor", "PrometheusRule")}
    return OperatorObjects(ours, selecting, "watchslo", namespace_labels, unread or {})


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ({}, {}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "2"}, False),
        ({"matchLabels": {"a": "1", "b": "2"}}, {"a": "1"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, {"a": "2"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {"a": "1"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": ""}, False),
        (
            {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]},
            {"a": "1"},
            False,
        ),
    ],
)
def test_label_selector(selector: dict[str, object], labels: dict[str, str], *, matches: bool) -> None:
    assert msgspec.convert(selector, LabelSelector).matches(labels) is matches


@pytest.mark.parametrize(
    ("spec", "namespace", "namespace_labels", "selected"),
    [
        ({}, "watchslo", {}, False),
        ({"podMonitorSelector": {}}, "watchslo", {}, True),
        ({"podMonitorSelector": {}}, "monitoring", {}, False),
        ({"podMonitorSelector": {}, "podMonitorNamespaceSelector": {}}, "monitoring", {}, True),
        ({"podMonitorSelector": {}, "podMonitorNamespaceSelector": {}}, "monitoring", None, True),
        ({"podMonitorNamespaceSelector": {}}, "watchslo", {}, False),
        ({"podMonitorSelector": {"matchLabels": LABELS}}, "watchslo", {}, True),
        ({"podMonitorSelector": {"matchLabels": {"release": "other"}}}, "watchslo", {}, False),
        (
            {"podMonitorSelector": {}, "podMonitorNamespaceSelector": {"matchLabels": {"scrape": "yes"}}},
            "monitoring",
            {"scrape": "yes"},
            True,
        ),
        (
            {"podMonitorSelector": {}, "podMonitorNamespaceSelector": {"matchLabels": {"scrape": "yes"}}},
            "monitoring",
            {},
            False,
        ),
        (
            {"podMonitorSelector": {}, "podMonitorNamespaceSelector": {"matchLabels": {"scrape": "yes"}}},
            "monitoring",
            None,
            None,
        ),
        (
            {
                "podMonitorSelector": {},
                "podMonitorNamespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "watchslo"}},
            },
            "monitoring",
            None,
            True,
        ),
        ({"serviceMonitorSelector": {}, "ruleSelector": {}}, "watchslo", {}, False),
    ],
)
def test_selects(
    spec: dict[str, Any],
    namespace: str,
    namespace_labels: dict[str, str] | None,
    selected: bool | None,  # noqa: FBT001 - a row of the table
) -> None:
    reader = made(namespace, **spec)
    assert selects(reader, "PodMonitor", LABELS, found(namespace_labels=namespace_labels)) is selected


EVERYTHING = made(
    "monitoring",
    podMonitorSelector={},
    podMonitorNamespaceSelector={},
    ruleSelector={},
    ruleNamespaceSelector={},
)


def outcome(objects: OperatorObjects) -> list[tuple[str, FindingLevel]]:
    return [(finding.subject, finding.level) for finding in monitor_findings(objects)]


def test_one_selecting_prometheus_is_enough() -> None:
    assert outcome(found(made("monitoring"), EVERYTHING)) == [("monitor", GOOD), ("rules", GOOD)]


def test_wrong_labels_name_the_selector_and_no_object() -> None:
    reader = made(podMonitorSelector={"matchLabels": {"team": "secret"}}, ruleSelector={"matchLabels": {"team": "x"}})
    monitor, rules = monitor_findings(found(reader))
    assert (monitor.level, rules.level) == (PROBLEM, PROBLEM)
    assert monitor.text == "None of 1 Prometheus object selects 1 PodMonitor of watchslo."
    assert "`podMonitorSelector` of your Prometheus" in monitor.remedy
    assert "`ruleSelector`" in rules.remedy
    assert "--rule-labels" in rules.remedy
    assert "secret" not in str(monitor)
    assert "theirs" not in str(monitor)


def test_wrong_namespace_names_the_namespace_selector() -> None:
    reader = made("monitoring", podMonitorSelector={}, ruleSelector={})
    assert ["NamespaceSelector`" in finding.remedy for finding in monitor_findings(found(reader))] == [True, True]


def test_without_any_prometheus_object_nothing_selects() -> None:
    assert outcome(found()) == [("monitor", PROBLEM), ("rules", PROBLEM)]


def test_unreadable_namespace_is_not_checked() -> None:
    within = {"matchLabels": {"scrape": "yes"}}
    reader = made("m", podMonitorSelector={}, podMonitorNamespaceSelector=within)
    assert outcome(found(reader))[0] == ("monitor", UNCHECKED)


def test_missing_objects_are_problems() -> None:
    assert outcome(OperatorObjects({}, [EVERYTHING], "watchslo", {})) == [("monitor", PROBLEM), ("rules", PROBLEM)]


def test_service_monitor_replaces_a_pod_monitor() -> None:
    reader = made("m", serviceMonitorSelector={}, serviceMonitorNamespaceSelector={})
    objects = OperatorObjects({"ServiceMonitor": [made()]}, [reader], "watchslo", {})
    assert outcome(objects)[0] == ("monitor", GOOD)


def test_what_cannot_be_read_is_not_checked() -> None:
    why = "the Prometheus operator is not installed here."
    unread = found(unread={"prometheuses": why})
    assert outcome(unread) == [("monitor", UNCHECKED), ("rules", UNCHECKED)]
    assert why in next(iter(monitor_findings(unread))).text
    no_monitors = OperatorObjects({"PrometheusRule": [made()]}, [EVERYTHING], "watchslo", {}, {"PodMonitor": why})
    assert outcome(no_monitors) == [("monitor", UNCHECKED), ("rules", GOOD)]


@pytest.mark.parametrize(
    ("kind", "spec", "ours"),
    [
        ("PodMonitor", {"selector": {"matchLabels": {"app.kubernetes.io/name": "watchslo", "more": "x"}}}, True),
        ("PodMonitor", {"selector": {"matchLabels": {"app.kubernetes.io/name": "other"}}}, False),
        ("PodMonitor", {"selector": {}}, False),
        ("PodMonitor", {}, False),
        ("PrometheusRule", {"groups": [{"name": "theirs"}, {"name": "watchslo-minutes"}]}, True),
        ("PrometheusRule", {"groups": [{"name": "theirs"}]}, False),
        ("PrometheusRule", {}, False),
    ],
)
def test_is_ours(kind: str, spec: dict[str, Any], *, ours: bool) -> None:
    assert is_ours(kind, made(**spec), ["watchslo-minutes", "watchslo-days"]) is ours
