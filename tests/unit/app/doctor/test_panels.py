"""Which panels are empty, and why."""

import json
from pathlib import Path

import pytest

from tests.unit.app.doctor.server import serving, success, vector
from tools.dashboards.files import files
from tools.dashboards.queries import queries
from watchslo.app.doctor.findings import DeploymentFinding, FindingLevel
from watchslo.app.doctor.panels import (
    CHECKOUT,
    OF_FLEET,
    Emptiness,
    PanelQuery,
    catalogue_queries,
    check_panels,
    dashboard_queries,
    panel_findings,
)
from watchslo.app.prometheus_client import Prometheus
from watchslo.config.model import Config
from watchslo.errors import ConfigError
from watchslo.rules.pack import rule_groups
from watchslo.rules.settings import RuleSettings
from watchslo.serve.metrics import FAMILIES, Detail

PROBLEM, WARNING, UNCHECKED, GOOD = FindingLevel
SHOWN = PanelQuery("Board", "Shown", "watchslo_watch_up{}")


def test_queries_are_those_that_grafana_sends_when_all_is_selected() -> None:
    filled = {
        query
        for name, text in files().items()
        if name != OF_FLEET
        for _, query in queries(json.loads(text), {"__rate_interval": "5m", "__range": "1h"})
    }
    found = dashboard_queries(CHECKOUT)
    assert {query.expression for query in found} == filled
    assert not [query for query in found if "$" in query.expression]
    assert {query.board for query in found} == {
        "Apiserver side",
        "Watch protocol",
        "Watch SLO",
        "Can I trust this?",
        "Nodes",
    }


def test_every_query_selects_known_metrics() -> None:
    exposed = {family.name for family in FAMILIES}
    recorded = {rule.name for group in rule_groups(Config(), RuleSettings()) for rule in group.rules}
    own = {
        metric
        for query in dashboard_queries(CHECKOUT)
        for metric in query.metrics
        if "watchslo" in metric and metric.removesuffix("_count").removesuffix("_bucket") not in exposed
    }
    assert own
    assert own <= recorded


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"templating": {"list": []}, "panels": [{"targets": [{}]}]}'])
def test_folder_without_dashboards_is_refused(content: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no dashboards"):
        dashboard_queries(tmp_path)
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(ConfigError, match="not a dashboard of Grafana"):
        dashboard_queries(tmp_path)


def empty(*expressions: str, present: frozenset[str] = frozenset(), detail: Detail = Detail.BASIC) -> DeploymentFinding:
    """Return the finding about a panel whose queries have no data."""
    panel = {PanelQuery("Board", "Empty, now", expression): False for expression in expressions}
    first, last = panel_findings({SHOWN: True, **panel}, {*present, "watchslo_watch_up"}, detail)
    assert (last.level, last.text) == (GOOD, "1 of 2 panels show data.")
    assert first.text.startswith('Board: 1 panel without data ("Empty, now"). ')
    return first


@pytest.mark.parametrize(
    ("expression", "present", "detail", "reason", "level"),
    [
        ("rate(watchslo_watch_bytes_total{}[5m])", "", Detail.BASIC, Emptiness.DETAIL, GOOD),
        ("rate(watchslo_watch_bytes_total{}[5m])", "", Detail.FULL, Emptiness.UNUSED, GOOD),
        ("rate(watchslo_apiserver_timespan_seconds_bucket{}[5m])", "", Detail.PROVEN, Emptiness.DETAIL, GOOD),
        ("rate(watchslo_apiserver_timespan_seconds_bucket{}[5m])", "", Detail.BASIC, Emptiness.UNUSED, GOOD),
        ("max(apiserver_resource:watchslo_error_budget:burn_rate1h{})", "", Detail.BASIC, Emptiness.RULES, WARNING),
        ("rate(apiserver_watch_events_total{}[5m])", "", Detail.BASIC, Emptiness.FOREIGN, WARNING),
        ("rate(apiserver_watch_events_total[5m])", "", Detail.BASIC, Emptiness.FOREIGN, WARNING),
        ("max(watchslo_watch_up{})", "", Detail.BASIC, Emptiness.MOMENT, GOOD),
        ("max(etcd_x{})", "etcd_x", Detail.BASIC, Emptiness.MOMENT, GOOD),
        (
            "rate(watchslo_hop_seconds{}[5m]) or rate(watchslo_hop_seconds_bucket{}[5m])",
            "watchslo_hop_seconds_bucket",
            Detail.BASIC,
            Emptiness.MOMENT,
            GOOD,
        ),
    ],
)
def test_reason_of_an_empty_panel(
    expression: str, present: str, detail: Detail, reason: Emptiness, level: FindingLevel
) -> None:
    finding = empty(expression, present=frozenset({present}), detail=detail)
    assert finding.text.endswith(reason.value)
    assert finding.level is level
    assert bool(finding.remedy) is (level is WARNING)


def test_reason_that_explains_most_is_shown() -> None:
    finding = empty("rate(apiserver_watch_events_total{}[5m])", "rate(watchslo_watch_bytes_total{}[5m])")
    assert finding.text.endswith(Emptiness.DETAIL.value)


def test_panel_with_one_answered_query_is_not_empty() -> None:
    other = PanelQuery("Board", "Shown", "etcd_x{}")
    (finding,) = panel_findings({SHOWN: True, other: False}, set(), Detail.BASIC)
    assert finding.text == "1 of 1 panels show data."


def test_equal_titles_on_two_boards_are_two_panels() -> None:
    other = PanelQuery("Other", "Shown", "etcd_x{}")
    first, last = panel_findings({SHOWN: True, other: False}, set(), Detail.BASIC)
    assert first.text.startswith("Other: 1 panel")
    assert last.text == "1 of 2 panels show data."


def test_all_panels_empty_is_one_warning() -> None:
    (finding,) = panel_findings({SHOWN: False}, set(), Detail.BASIC)
    assert finding.level is WARNING


def test_refused_query_is_no_missing_data() -> None:
    first, _ = panel_findings({SHOWN: True, PanelQuery("Board", "Odd", "x{}"): None}, set(), Detail.BASIC)
    assert first.level is WARNING
    assert first.text.endswith(Emptiness.SERVER.value)


def test_catalogue_queries_have_one_series_for_each_metric() -> None:
    found = {query.panel: query.expression for query in catalogue_queries('job="w"')}
    assert found.keys() == {family.name for family in FAMILIES}
    assert found["watchslo_watch_up"] == 'watchslo_watch_up{job="w"}'
    assert found["watchslo_clock_tick_seconds"] == 'watchslo_clock_tick_seconds_count{job="w"}'
    native = "watchslo_apiserver_timespan_seconds"
    assert found[native] == f'{native}_count{{job="w"}} or {native}{{job="w"}}'


async def test_check_panels_asks_each_query() -> None:
    missing = PanelQuery("Board", "Missing", "etcd_x{}")
    answers = {
        "/api/v1/query": lambda request: vector(({}, 1)) if request.query["query"] == SHOWN.expression else vector(),
        "/api/v1/label/__name__/values": success(["watchslo_watch_up"]),
    }
    async with serving(answers) as endpoint:
        found = await check_panels(Prometheus(endpoint), [SHOWN, missing], Detail.BASIC)
    assert [finding.level for finding in found] == [WARNING, GOOD]


async def test_server_that_refuses_all_queries_is_not_checked() -> None:
    async with serving({}) as endpoint:
        (finding,) = await check_panels(Prometheus(endpoint), [SHOWN], Detail.BASIC)
    assert finding.level is UNCHECKED
