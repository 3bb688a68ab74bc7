"""An apiserver exposes the metrics that queries and pages name, with the listed types, labels and values."""

import contextlib
import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from tests.support.control_plane import EVERYTHING_READABLE, ControlPlane
from tests.support.names import apiserver_metrics, known, wrong_in_query
from tests.support.process import until_equal
from tests.support.writer import Writer, configmap

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
TYPE = re.compile(r"^# TYPE (\S+) (\S+)$", re.MULTILINE)
SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
SAMPLED = ("_bucket", "_count", "_sum")
OF_SAMPLES = frozenset({"le"})


@dataclass(slots=True)
class Seen:
    """One metric of a scrape: its type, and its labels with all their values."""

    type: str
    labels: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


def scrape(writer: Writer) -> dict[str, Seen]:
    text = writer.text("/metrics")
    found = {name: Seen(kind) for name, kind in TYPE.findall(text)}
    for name, labels in SAMPLE.findall(text):
        seen = found.get(name) or found[_family(name)]
        for label, value in LABEL.findall(labels):
            if label not in OF_SAMPLES:
                seen.labels[label].add(value)
    return found


def _family(sample: str) -> str:
    suffix = next(suffix for suffix in SAMPLED if sample.endswith(suffix))
    return sample.removesuffix(suffix)


def _happen(writer: Writer) -> None:
    """Send the requests that create each metric that every apiserver exposes."""
    writer.create(CONFIGMAPS, configmap("metrics"))
    writer.get(CONFIGMAPS)
    writer.get(CONFIGMAPS, resourceVersion="0")
    writer.get(CONFIGMAPS, fieldSelector="metadata.name=watchslo-reads-nothing")
    with contextlib.suppress(json.JSONDecodeError):  # initial events, one document each
        writer.get(CONFIGMAPS, watch="1", resourceVersion="0", timeoutSeconds="1")
    writer.delete(f"{CONFIGMAPS}/metrics")


@pytest.fixture(scope="module")
def scraped(control_plane: ControlPlane) -> dict[str, Seen]:
    """The metrics of a busy apiserver, once all expected ones exist."""
    wanted = {metric.name for metric in apiserver_metrics() if not metric.when}
    # For API priority and fairness, from which administrators are exempt.
    subject = control_plane.service_account("subject", EVERYTHING_READABLE)
    with control_plane.writer() as writer, control_plane.writer(subject) as reader:

        def missing() -> set[str]:
            _happen(writer)
            reader.get(CONFIGMAPS)
            return wanted - scrape(writer).keys()

        until_equal(missing, set(), "listed metrics that it does not expose")
        return scrape(writer)


def test_apiserver_metrics_have_the_listed_types_labels_and_values(scraped: Mapping[str, Seen]) -> None:
    wrong: list[str] = []
    for metric in apiserver_metrics():
        if (seen := scraped.get(metric.name)) is None:
            continue
        if seen.type != metric.type:
            wrong.append(f"{metric.name} is a {seen.type}")
        if (labels := set(seen.labels)) != set(metric.labels):
            wrong.append(f"{metric.name} has the labels {','.join(sorted(labels))}")
        for label, values in metric.labels.items():
            if values and (others := seen.labels.get(label, set()) - values):
                wrong.append(f"{metric.name}: {label} is also {'|'.join(sorted(others))}")
    assert wrong == []


def test_apiserver_bucket_bounds_match_the_queries(control_plane: ControlPlane) -> None:
    with control_plane.writer() as writer:
        text = writer.text("/metrics")
    bounds = set(re.findall(r'^apiserver_request_duration_seconds_bucket\{.*le="([^"]+)"', text, re.MULTILINE))
    assert bounds
    name = "apiserver_request_duration_seconds_bucket"
    assert name in known()
    assert [said for le in bounds for said in wrong_in_query(f'{name}{{le="{le}"}}')] == []
