"""No page, dashboard or rule names a metric, a label or a value that nobody exposes; and every metric is explained."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import GOLDEN
from tests.support import names, written
from watchslo.serve.metrics import FAMILIES, Family

ROOT = Path(__file__).parents[2]
FOLDERS = ("", "docs/**/", "dashboards/**/", "deploy/**/", "tests/**/")
PAGES = sorted(path for folder in FOLDERS for path in ROOT.glob(f"{folder}*.md"))
DASHBOARDS = sorted(ROOT.glob("dashboards/*.json"))
GENERATED = frozenset({"metrics.md", "CHANGELOG.md"})  # lists, which explain nothing
LABELS = frozenset(label for metric in names.exposed().values() for label in metric.labels)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_name_what_exists(page: Path) -> None:
    text = page.read_text()
    wrong = [said for query in written.queries_of_page(text) for said in names.wrong_in_query(query)]
    assert wrong + names.wrong_in_text(written.prose_of_page(text)) == []


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=name_of)
def test_dashboards_query_what_exists(dashboard: Path) -> None:
    queries = written.queries_of_dashboard(dashboard)
    assert queries
    assert [said for query in queries for said in names.wrong_in_query(query)] == []


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=name_of)
def test_dashboards_describe_what_exists(dashboard: Path) -> None:
    assert names.wrong_in_text("\n".join(written.descriptions_of_dashboard(dashboard))) == []


@pytest.mark.parametrize("rule", written.rules(), ids=lambda rule: rule.get("record", rule.get("alert")))
def test_rules_name_what_exists(rule: Mapping[str, Any]) -> None:
    notes = "\n".join(rule.get("annotations", {}).values())
    notes = re.sub(r"%\[\d\]q", '"$label"', notes)  # its queries are templates
    assert names.wrong_in_query(rule["expr"]) + names.wrong_in_text(notes) == []


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_metric_is_listed_and_explained(family: Family) -> None:
    named = re.compile(rf"\b{family.name}(?:_bucket|_count|_sum)?\b")
    pages = {page.name for page in PAGES if named.search(page.read_text())}
    assert "metrics.md" in pages
    assert pages - GENERATED, "no page says what it is good for"


def test_every_label_is_listed() -> None:
    text = (ROOT / "docs/metrics.md").read_text()
    assert {label for label in LABELS if label != "le" and f"`{label}`" not in text} == set()


def test_what_is_known_is_what_is_exposed() -> None:
    """The golden exposition has no sample and no label that this check does not know."""
    exposition = (GOLDEN / "metrics-full.txt").read_text() + (GOLDEN / "metrics-basic.txt").read_text()
    samples = re.findall(r"^(watchslo_\w+)(?:\{(.*)\})? \S+$", exposition, re.MULTILINE)
    assert samples
    for name, labels in samples:
        assert set(re.findall(r'(\w+)="', labels)) <= names.exposed()[name].labels.keys(), name


def test_the_apiservers_list_has_each_metric_once() -> None:
    listed = [metric.name for metric in names.apiserver_metrics()]
    assert listed == sorted(set(listed))
    assert {metric.type for metric in names.apiserver_metrics()} == {"counter", "gauge", "histogram", "summary"}


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("watchslo_watch_down", "nobody exposes watchslo_watch_down"),
        (
            "rate(watchslo_hop_seconds[5m])",
            "nobody exposes watchslo_hop_seconds: a histogram has only _bucket, _count and _sum",
        ),
        ("apiserver_watch_cache_capacity", "nobody exposes apiserver_watch_cache_capacity"),
        ("apiserver_resource:nothing:rate5m", "nobody exposes apiserver_resource:nothing:rate5m"),
        ('watchslo_watch_up{verdict="bad"}', "watchslo_watch_up: has no label verdict"),
        ('watchslo_slo_windows_total{verdict="late"}', "watchslo_slo_windows_total: verdict is never late"),
        ('watchslo_slo_windows_total{verdict=~"good|late"}', "watchslo_slo_windows_total: verdict is never late"),
        ('watchslo_slo_windows_total{verdict=~"no_.+e"}', "watchslo_slo_windows_total: verdict is never no_.+e"),
        (
            'watchslo_apiserver_timespan_seconds_bucket{le="1"}',
            "watchslo_apiserver_timespan_seconds_bucket: le is 1.0, and never 1",
        ),
        (
            'apiserver_request_duration_seconds_bucket{le="1.0"}',
            "apiserver_request_duration_seconds_bucket: le is 1, and never 1.0",
        ),
        ('apiserver_request_total{verb="LISTS"}', "apiserver_request_total: verb is never LISTS"),
        ("sum by (watcher) (watchslo_watch_up)", "no metric here has a label watcher"),
        ("sum(watchslo_watch_up) without (wach)", "no metric here has a label wach"),
        ("up * on (pot) up", "no metric here has a label pot"),
        ('{__name__="up"}', '{__name__="up"}: selects by no name'),
        ("up ; up", "up ; up: '; up' is no PromQL"),
        ('up{job="a"', "a { is not closed"),
        ("up{job}", "['job'] are no matchers"),
    ],
)
def test_what_is_wrong_is_found_in_queries(query: str, wrong: str) -> None:
    assert names.wrong_in_query(query) == [wrong]


@pytest.mark.parametrize(
    "query",
    [
        'sum by (watch, le) (rate(watchslo_apiserver_timespan_seconds_bucket{le="1.0"}[5m] offset 1h)) > bool 0.5',
        'watchslo_slo_windows_total{verdict=~"good|bad", job="a", watch=~"$watch", cluster=~"${cluster:regex}"}',
        'watchslo_slo_windows_total{verdict!~"no_.*"} # with a "comment"',
        "histogram_quantile(0.99, sum by (le) (rate(apiserver_request_duration_seconds_bucket[$__rate_interval])))",
        'label_replace(up, "host", "$1", "instance", "(.*):.*") * on (host) group_left () up',
        'count_values("version", watchslo_build_info) + 1e3 ^ -2',
        "topk(10, max_over_time(watchslo_watch_stalled[1h:5m])) unless on (apiserver) ALERTS",
    ],
)
def test_what_is_right_is_not(query: str) -> None:
    assert names.wrong_in_query(query) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("see `watchslo_watch_down`", ["nobody exposes watchslo_watch_down"]),
        ("`watchslo_lists_*` count", ["nobody exposes anything like watchslo_lists_*"]),
        ('`apiserver_request_total{verb="LISTS"}`', ["apiserver_request_total: verb is never LISTS"]),
        ("`watchslo_hop_seconds{hop}` and apiserver_sending and watchslo_list_*", []),
        ("watchslo_hop_seconds, etcd_request_duration_seconds, and tests/golden/etcd_none.txt", []),
        ('`watchslo_hop_seconds{hop="none"}`', ["watchslo_hop_seconds_bucket: hop is never none"]),
    ],
)
def test_what_is_wrong_is_found_in_prose(text: str, wrong: list[str]) -> None:
    assert names.wrong_in_text(text) == wrong


def test_queries_are_found_in_dashboards(tmp_path: Path) -> None:
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
