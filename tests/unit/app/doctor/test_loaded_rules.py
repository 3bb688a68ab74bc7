"""Comparing loaded rules with ours: names, labels, expressions, waits, and equal expressions in another form."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from aiohttp import web
from msgspec.structs import replace as changed

from tests.unit.app.doctor.server import serving, success
from tests.unit.app.doctor.shown import findings_transcript
from watchslo.app.doctor.findings import DeploymentFinding, FindingLevel
from watchslo.app.doctor.loaded_rules import check_rules, compare_rules, loaded_selection, rule_findings, without_spaces
from watchslo.app.prometheus_client import LoadedGroup, LoadedRule, Prometheus
from watchslo.rules.rule import RuleDefinition, RuleGroup

PROBLEM, WARNING, UNCHECKED, GOOD = FindingLevel
RECORD = RuleDefinition("a:watchslo:sum", 'sum by (x) (\n  m{l="a  b"}\n)')
ALERT = RuleDefinition("KubeWatchDown", "up == 0", "10m", {"severity": "critical", "long": "1h"}, {"summary": "s"})
LONG = replace(ALERT, labels={"severity": "warning", "long": "6h"}, expression="up == 2")
OURS = (RuleGroup("watchslo-minutes", 30.0, (RECORD,)), RuleGroup("watchslo-delivery", 30.0, (ALERT, LONG)))
LOADED_RECORD = LoadedRule(RECORD.name, 'sum by (x) (m{l="a  b"})')
LOADED_ALERT = LoadedRule("KubeWatchDown", "up == 0", 600.0, {"severity": "critical", "long": "1h", "added": "x"})
LOADED_LONG = LoadedRule("KubeWatchDown", "up == 2", 600.0, {"severity": "warning", "long": "6h"})


def loaded(record: Sequence[LoadedRule], alerts: Sequence[LoadedRule]) -> list[LoadedGroup]:
    foreign = LoadedGroup("theirs", [LoadedRule("Foreign", "1", health="err"), LOADED_RECORD])
    return [foreign, LoadedGroup("watchslo-minutes", [*record]), LoadedGroup("watchslo-delivery", [*alerts])]


COMPLETE = loaded([LOADED_RECORD], [LOADED_ALERT, LOADED_LONG])


def test_spaces_do_not_matter_outside_of_strings() -> None:
    assert without_spaces('a + b{c="d \\" e"}\n* 2') == 'a+b{c="d \\" e"}*2'


def with_alert(**changes: Any) -> list[LoadedGroup]:
    return loaded([LOADED_RECORD], [changed(LOADED_ALERT, **changes), LOADED_LONG])


def with_records(*records: LoadedRule) -> list[LoadedGroup]:
    return loaded(records, [LOADED_ALERT, LOADED_LONG])


FAILING = changed(LOADED_RECORD, health="err")
LOADED = {
    "all rules are loaded, with other spaces": COMPLETE,
    "another profile has a rule of the same name": with_records(LoadedRule(RECORD.name, "sum(other)"), LOADED_RECORD),
    "spaces within a string differ": with_records(LoadedRule(RECORD.name, 'sum by (x) (m{l="a b"})')),
    "an expression differs": with_alert(query="up == 1"),
    "a wait differs": with_alert(duration=0.0),
    "a rule with its labels is missing": loaded([LOADED_RECORD], [LOADED_LONG]),
    "only essential alerts are loaded": loaded([LOADED_RECORD], [LOADED_ALERT]),
    "no alert is loaded": loaded([LOADED_RECORD], []),
    "a rule is in a group of others only": with_records(),
    "one rule fails": with_records(FAILING),
    "one rule is not ours": with_records(LOADED_RECORD, LoadedRule("Old", "1")),
    "a rule of each kind": loaded([FAILING, LoadedRule("Old", "1")], [changed(LOADED_LONG, query="up == 1")]),
    "no rule is loaded": loaded([], []),
    "no group is loaded": [],
}


def test_findings_match_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("doctor/rules.txt", findings_transcript({name: findings(groups) for name, groups in LOADED.items()}))


def findings(loaded: Sequence[LoadedGroup]) -> Iterable[DeploymentFinding]:
    selection = loaded_selection(OURS, loaded)
    ours = selection.of(OURS)
    return rule_findings(ours, selection, compare_rules(ours, loaded))


def rules(query: str) -> dict[str, object]:
    recorded = {"type": "recording", "name": RECORD.name, "query": query, "health": "ok", "lastEvaluation": "x"}
    alerts = [
        {"type": "alerting", "name": "KubeWatchDown", "query": one.query, "duration": 600, "labels": one.labels}
        for one in (LOADED_ALERT, LOADED_LONG)
    ]
    groups = [{"name": "watchslo-minutes", "rules": [recorded]}, {"name": "watchslo-delivery", "rules": alerts}]
    return success({"groups": groups})


OTHER_FORM = 'sum(m{l="a  b"}) by (x)'


async def test_prometheus_decides_whether_two_texts_are_equal() -> None:
    asked: list[web.Request] = []
    answers = {"/api/v1/rules": rules(OTHER_FORM), "/api/v1/format_query": success("the same")}
    async with serving(answers, asked) as endpoint:
        (finding,) = await check_rules(Prometheus(endpoint), OURS)
    assert finding.level is GOOD
    formatted = {request.query["query"] for request in asked if request.path == "/api/v1/format_query"}
    assert formatted == {OTHER_FORM, RECORD.expression}


async def test_equal_texts_need_no_further_request() -> None:
    asked: list[web.Request] = []
    async with serving({"/api/v1/rules": rules(LOADED_RECORD.query)}, asked) as endpoint:
        (finding,) = await check_rules(Prometheus(endpoint), OURS)
    assert finding.level is GOOD
    assert len(asked) == 1


async def test_servers_without_formatting_compare_texts() -> None:
    async with serving({"/api/v1/rules": rules(OTHER_FORM)}) as endpoint:
        (finding,) = await check_rules(Prometheus(endpoint), OURS)
    assert finding.level is PROBLEM
    assert RECORD.name in finding.text
