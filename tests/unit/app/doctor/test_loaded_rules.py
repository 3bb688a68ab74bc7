"""Comparing loaded rules with ours: names, labels, expressions, waits, and equal expressions in another form."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from aiohttp import web

from tests.unit.app.doctor.server import serving, success
from tests.unit.app.doctor.shown import findings_transcript
from watchslo.app.doctor.findings import FindingLevel
from watchslo.app.doctor.loaded_rules import RuleDifferences, check_rules, compare_rules, rule_findings, without_spaces
from watchslo.app.prometheus_client import LoadedGroup, LoadedRule, Prometheus
from watchslo.rules.rule import RuleDefinition, RuleGroup

PROBLEM, WARNING, UNCHECKED, GOOD = FindingLevel
RECORD = RuleDefinition("a:watchslo:sum", 'sum by (x) (\n  m{l="a  b"}\n)')
ALERT = RuleDefinition("WatchDown", "up == 0", "10m", {"severity": "warning", "long": "1h"}, {"summary": "s"})
LONG = replace(ALERT, labels={"severity": "warning", "long": "6h"}, expression="up == 2")
OURS = (RuleGroup("watchslo-minutes", 30.0, (RECORD,)), RuleGroup("watchslo-delivery", 30.0, (ALERT, LONG)))
LOADED_RECORD = LoadedRule(RECORD.name, 'sum by (x) (m{l="a  b"})')
LOADED_ALERT = LoadedRule("WatchDown", "up == 0", 600.0, {"severity": "warning", "long": "1h", "added": "x"})
LOADED_LONG = LoadedRule("WatchDown", "up == 2", 600.0, {"severity": "warning", "long": "6h"})


def loaded(record: Sequence[LoadedRule], alerts: Sequence[LoadedRule]) -> list[LoadedGroup]:
    foreign = LoadedGroup("theirs", [LoadedRule("Foreign", "1", health="err"), LOADED_RECORD])
    return [foreign, LoadedGroup("watchslo-minutes", [*record]), LoadedGroup("watchslo-delivery", [*alerts])]


ALL = loaded([LOADED_RECORD], [LOADED_ALERT, LOADED_LONG])
SAME = RuleDifferences((), (), (), (), frozenset())


def test_spaces_do_not_matter_outside_of_strings() -> None:
    assert compare_rules(OURS, ALL) == SAME
    assert without_spaces('a + b{c="d \\" e"}\n* 2') == 'a+b{c="d \\" e"}*2'
    other = LoadedRule(RECORD.name, 'sum by (x) (m{l="a b"})')
    assert compare_rules(OURS, loaded([other], [LOADED_ALERT, LOADED_LONG])).different == (RECORD.name,)


@pytest.mark.parametrize(
    "change",
    [{"query": "up == 1"}, {"duration": 0.0}],
    ids=["expression", "wait"],
)
def test_changed_rule_is_different(change: dict[str, object]) -> None:
    changed = LoadedRule(**{"name": "WatchDown", "query": "up == 0", "duration": 600.0, **change})  # type: ignore[arg-type]
    changed.labels = LOADED_ALERT.labels
    found = compare_rules(OURS, loaded([LOADED_RECORD], [changed, LOADED_LONG]))
    assert (found.missing, found.different) == ((), ("WatchDown",))


def test_rule_with_other_labels_is_missing() -> None:
    found = compare_rules(OURS, loaded([LOADED_RECORD], [LOADED_ALERT]))
    assert (found.missing, found.different) == (("WatchDown",), ())


def test_rule_in_a_foreign_group_is_missing() -> None:
    found = compare_rules(OURS, loaded([], [LOADED_ALERT, LOADED_LONG]))
    assert found.missing == (RECORD.name,)


def test_one_of_several_profiles_is_enough() -> None:
    other = LoadedRule(RECORD.name, "sum(other)")
    assert compare_rules(OURS, loaded([other, LOADED_RECORD], [LOADED_ALERT, LOADED_LONG])) == SAME


def test_extra_and_failing_rules() -> None:
    old = LoadedRule("Old", "1")
    broken = LoadedRule(RECORD.name, LOADED_RECORD.query, health="err")
    found = compare_rules(OURS, loaded([broken, old], [LOADED_ALERT, LOADED_LONG]))
    assert found == RuleDifferences((), (), ("Old",), (RECORD.name,), frozenset())


FINDINGS = {
    "all rules are loaded": SAME,
    "all rules are missing": replace(SAME, missing=(RECORD.name, "WatchDown")),
    "one rule is missing": replace(SAME, missing=(RECORD.name,)),
    "one rule is different": replace(SAME, different=("WatchDown",)),
    "one rule fails": replace(SAME, failing=("WatchDown",)),
    "one rule is not ours": replace(SAME, extra=("Old",)),
    "all of these": replace(SAME, missing=("x",), different=("y",), failing=("z",), extra=("o",)),
    "no group is loaded": compare_rules(OURS, []),
}


def test_findings_match_golden_file(golden: Callable[[str, str], None]) -> None:
    found = {name: rule_findings(OURS, differences) for name, differences in FINDINGS.items()}
    golden("doctor/rules.txt", findings_transcript(found))


def rules(query: str) -> dict[str, object]:
    recorded = {"type": "recording", "name": RECORD.name, "query": query, "health": "ok", "lastEvaluation": "x"}
    alerts = [
        {"type": "alerting", "name": "WatchDown", "query": one.query, "duration": 600, "labels": one.labels}
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
