"""Selection by the Prometheus operator: selectors, namespaces, and what is said about them."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from tests.unit.app.doctor.shown import findings_transcript
from watchslo.app.doctor.monitors import (
    LabelSelector,
    OperatorObject,
    OperatorObjects,
    is_ours,
    monitor_findings,
    selects,
)

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


NOT_INSTALLED = "the Prometheus operator is not installed here."
NO_POD_MONITORS = {"PodMonitor": NOT_INSTALLED}
STATES = {
    "one of two selects": found(made("monitoring"), EVERYTHING),
    "selectors ask for other labels": found(
        made(podMonitorSelector={"matchLabels": {"team": "secret"}}, ruleSelector={"matchLabels": {"team": "x"}})
    ),
    "only its own namespace is selected": found(made("monitoring", podMonitorSelector={}, ruleSelector={})),
    "no Prometheus object": found(),
    "the namespace cannot be read": found(
        made("m", podMonitorSelector={}, podMonitorNamespaceSelector={"matchLabels": {"scrape": "yes"}})
    ),
    "our objects are missing": OperatorObjects({}, [EVERYTHING], "watchslo", {}),
    "a ServiceMonitor in place of a PodMonitor": OperatorObjects(
        {"ServiceMonitor": [made()]},
        [made("m", serviceMonitorSelector={}, serviceMonitorNamespaceSelector={})],
        "watchslo",
        {},
    ),
    "Prometheus objects cannot be read": found(unread={"prometheuses": NOT_INSTALLED}),
    "PodMonitors cannot be read": OperatorObjects(
        {"PrometheusRule": [made()]}, [EVERYTHING], "watchslo", {}, NO_POD_MONITORS
    ),
}


def test_findings_match_golden_file_and_name_no_object(golden: Callable[[str, str], None]) -> None:
    said = findings_transcript({name: monitor_findings(objects) for name, objects in STATES.items()})
    assert "secret" not in said
    assert "theirs" not in said
    golden("doctor/monitors.txt", said)


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
