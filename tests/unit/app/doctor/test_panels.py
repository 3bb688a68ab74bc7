"""Which panels are empty, and why."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.app.doctor.server import serving, success, vector
from tests.unit.app.doctor.shown import findings_transcript
from tools.dashboards.files import files
from tools.dashboards.queries import queries
from watchslo.app.doctor.findings import DeploymentFinding, FindingLevel
from watchslo.app.doctor.panels import (
    CHECKOUT,
    OF_FLEET,
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
        "watchslo / Overview",
        "watchslo / SLO",
        "watchslo / Protocol",
        "watchslo / Trust",
        "watchslo / Apiserver",
        "watchslo / Nodes",
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


def empty(
    *expressions: str, present: str = "", detail: Detail = Detail.BASIC, board: str = "Board", panel: str = "Empty, now"
) -> list[DeploymentFinding]:
    """Return the findings about a panel whose queries have no data, next to one that shows data."""
    answers = {PanelQuery(board, panel, expression): False for expression in expressions}
    return [*panel_findings({SHOWN: True, **answers}, {present, "watchslo_watch_up"}, detail)]


SENT = "rate(watchslo_watch_bytes_total{}[5m])"
LATENCY = "rate(watchslo_apiserver_timespan_seconds_bucket{}[5m])"
OF_APISERVER = "rate(apiserver_watch_events_total{}[5m])"
HOPS = "rate(watchslo_hop_seconds{}[5m]) or rate(watchslo_hop_seconds_bucket{}[5m])"
STATES = {
    "needs more detail": empty(SENT),
    "with that detail, but unused": empty(SENT, detail=Detail.FULL),
    "not with mode: node": empty(LATENCY, detail=Detail.NODE),
    "latency, but unused": empty(LATENCY),
    "recorded by rules": empty("max(apiserver_resource:watchslo_error_budget:burn_rate1h{})"),
    "of the apiserver": empty(OF_APISERVER),
    "of the apiserver, without matchers": empty("rate(apiserver_watch_events_total[5m])"),
    "empty at the moment": empty("max(watchslo_watch_up{})"),
    "of etcd, empty at the moment": empty("max(etcd_x{})", present="etcd_x"),
    "one of two forms is there": empty(HOPS, present="watchslo_hop_seconds_bucket"),
    "two queries: the reason that explains most": empty(OF_APISERVER, SENT),
    "one of its queries is answered": empty("etcd_x{}", panel="Shown"),
    "an equal title on another board": empty("etcd_x{}", board="Other", panel="Shown"),
    "all panels are empty": [*panel_findings({SHOWN: False}, set(), Detail.BASIC)],
    "a refused query": [*panel_findings({SHOWN: True, PanelQuery("Board", "Odd", "x{}"): None}, set(), Detail.BASIC)],
}


def test_findings_match_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("doctor/panels.txt", findings_transcript(STATES))


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
