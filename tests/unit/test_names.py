"""Pages, dashboards and rules name only existing metrics, labels and values; each metric is explained on a page."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import GOLDEN
from tests.support import names, written
from tests.support.transcripts import Step, replay
from watchslo.serve.metrics import FAMILIES, Family

ROOT = Path(__file__).parents[2]
FOLDERS = ("", "docs/**/", "dashboards/**/", "deploy/**/", "tests/**/")
PAGES = sorted(path for folder in FOLDERS for path in ROOT.glob(f"{folder}*.md"))
DASHBOARDS = sorted(ROOT.glob("dashboards/*.json"))
GENERATED = frozenset({"metrics.md", "CHANGELOG.md"})  # lists without explanations
LABELS = frozenset(label for metric in names.exposed().values() for label in metric.labels)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_name_only_existing_metrics(page: Path) -> None:
    text = page.read_text()
    wrong = [finding for query in written.queries_of_page(text) for finding in names.wrong_in_query(query)]
    assert wrong + names.wrong_in_text(written.prose_of_page(text)) == []


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=name_of)
def test_dashboards_query_only_existing_metrics(dashboard: Path) -> None:
    queries = written.queries_of_dashboard(dashboard)
    assert queries
    assert [finding for query in queries for finding in names.wrong_in_query(query)] == []


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=name_of)
def test_dashboard_descriptions_name_only_existing_metrics(dashboard: Path) -> None:
    assert names.wrong_in_text("\n".join(written.descriptions_of_dashboard(dashboard))) == []


@pytest.mark.parametrize("rule", written.rules(), ids=lambda rule: rule.get("record", rule.get("alert")))
def test_rules_name_only_existing_metrics(rule: Mapping[str, Any]) -> None:
    notes = "\n".join(rule.get("annotations", {}).values())
    notes = re.sub(r"%\[\d\]q", '"$label"', notes)  # its queries are templates
    assert names.wrong_in_query(rule["expr"]) + names.wrong_in_text(notes) == []


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_metric_is_listed_and_explained(family: Family) -> None:
    named = re.compile(rf"\b{family.name}(?:_bucket|_count|_sum)?\b")
    pages = {page.name for page in PAGES if named.search(page.read_text())}
    assert "metrics.md" in pages
    assert pages - GENERATED, "no page explains this metric"


def test_metrics_page_lists_every_label() -> None:
    text = (ROOT / "docs/metrics.md").read_text()
    assert {label for label in LABELS if label != "le" and f"`{label}`" not in text} == set()


def test_golden_exposition_has_only_known_metrics_and_labels() -> None:
    exposition = (GOLDEN / "metrics-full.txt").read_text() + (GOLDEN / "metrics-basic.txt").read_text()
    samples = re.findall(r"^(watchslo_\w+)(?:\{(.*)\})? \S+$", exposition, re.MULTILINE)
    assert samples
    for name, labels in samples:
        assert set(re.findall(r'(\w+)="', labels)) <= names.exposed()[name].labels.keys(), name


def test_apiserver_metrics_are_sorted_and_unique() -> None:
    listed = [metric.name for metric in names.apiserver_metrics()]
    assert listed == sorted(set(listed))
    assert {metric.type for metric in names.apiserver_metrics()} == {"counter", "gauge", "histogram", "summary"}


def begin(kind: str) -> Step:
    wrong = {"query": names.wrong_in_query, "text": names.wrong_in_text}[kind]
    return lambda text: "\n".join(wrong(text)) or "nothing"


def test_findings_are_those_of_the_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("wrong-names.txt", replay((GOLDEN / "wrong-names.txt").read_text(), begin))


def test_queries_of_dashboard_finds_nested_panels_and_variables(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    panel = {"targets": [{"expr": "up"}]}
    row = {"description": "of `x`", "panels": [panel, {"targets": [{"expr": "$wanted"}]}]}
    variables = [
        {"type": "query", "query": {"query": 'label_values(watchslo_watch_up{a="b"}, watch)'}},
        {"type": "query", "definition": "label_values(job)"},
        {"type": "datasource", "query": "prometheus"},
    ]
    path.write_text(json.dumps({"panels": [row], "templating": {"list": variables}}))
    assert written.queries_of_dashboard(path) == ["up", "$wanted", 'count by (watch) (watchslo_watch_up{a="b"})']
    assert written.descriptions_of_dashboard(path) == ["of `x`"]
