"""Selection by the Prometheus operator: selectors, namespaces, and what is said about them."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import yaml

from tests.conftest import GOLDEN
from tests.support.transcripts import Step, replay, shown
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


def begin(words: str) -> Step:
    """Return a step that asks a selector, the spec of a Prometheus, or whether an object of a kind is ours."""
    subject, _, text = words.partition(" ")
    match subject:
        case "selector":
            selector = msgspec.convert(parsed(text), LabelSelector)
            return lambda labels: shown(selector.matches(parsed(labels)))
        case "prometheus":
            return lambda place: selection(parsed(text), *place.partition(" with ")[::2])
    return lambda spec: shown(is_ours(text, made(**parsed(spec)), ["watchslo-minutes", "watchslo-days"]))


def parsed(text: str) -> Any:
    return yaml.load(text, yaml.BaseLoader)


def selection(spec: dict[str, Any], namespace: str, labels: str) -> str:
    """Return whether a Prometheus in a namespace selects our PodMonitor; labels are those of our namespace."""
    namespace_labels = None if labels == "unread labels" else parsed(labels or "{}")
    selected = selects(made(namespace, **spec), "PodMonitor", LABELS, found(namespace_labels=namespace_labels))
    return "unknown" if selected is None else shown(selected)


def test_selections_are_those_of_the_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("doctor/selections.txt", replay((GOLDEN / "doctor/selections.txt").read_text(), begin))


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
