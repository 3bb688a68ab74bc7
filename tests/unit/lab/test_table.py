"""The table of faults is complete, and docs/faults.md agrees with it."""

from tests.lab import documents
from tests.lab.faults import CLUSTERS, FAULTS
from tests.lab.monitoring import DASHBOARDS, sources
from tests.lab.selections import clusters_of, lanes_of_counts
from tests.lab.statements import DISTRUSTED, NO_ANSWER
from watchslo.config.model import Config
from watchslo.rules.pack import rule_groups
from watchslo.rules.settings import RuleSettings
from watchslo.snapshot import Cause, OverallVerdict

RULES = [rule for group in rule_groups(Config(), RuleSettings(cluster_label="cluster")) for rule in group.rules]
OF_CLIENTS = {Cause.CONTROLLER_SLOW, Cause.CLIENT_CONNECTION, Cause.CLIENT_SLOW}
NOT_MADE = {Cause.STORAGE_POLLER, Cause.RESOURCE_FANOUT, *OF_CLIENTS, Cause.UNKNOWN}
"""Causes that need kine, an apiserver that sends one resource late, real controllers, or a fault without a name.

`tests.lab.controller_faults` has the controllers.
"""


def test_every_fault_has_a_name_of_its_own_and_a_judge() -> None:
    assert len({fault.name for fault in FAULTS}) == len({fault.words for fault in FAULTS}) == len(FAULTS)
    judged = [fault for fault in FAULTS if fault.counts or fault.raises or fault.on_call or fault.causes is not None]
    assert judged == [*FAULTS]


def test_verdicts_and_alerts_of_those_on_call_exist() -> None:
    called = [fault.on_call for fault in FAULTS if fault.on_call]
    assert all(expected.verdicts for expected in called)
    said = frozenset[str]().union(*(expected.verdicts | expected.tolerated for expected in called))
    assert said <= {*OverallVerdict, DISTRUSTED, NO_ANSWER}
    named = {name for expected in called for alert in expected.alerts for name in alert.names}
    named |= {name for expected in called for name in expected.allowed | expected.silenced}
    assert "KubeWatchStalled" in named
    assert named <= {rule.name for rule in RULES if rule.labels}


def test_every_alert_of_the_rules_has_one_fault_that_raises_it() -> None:
    own = [(rule.name, {k: v for k, v in rule.labels.items() if k not in {"severity", "slo"}}) for rule in RULES]
    alerts = [(name, labels) for (name, labels), rule in zip(own, RULES, strict=True) if rule.labels]
    raised = [(alert.name, dict(alert.labels)) for fault in FAULTS for some in fault.raises for alert in some.alerts]
    assert sorted(map(repr, raised)) == sorted(map(repr, alerts))


def test_every_cluster_has_a_fault() -> None:
    assert frozenset[str]().union(*(clusters_of(fault) for fault in FAULTS)) == {*CLUSTERS}


def test_every_cause_has_a_fault() -> None:
    assert {truth.cause for fault in FAULTS for truth in fault.causes or ()} == {*Cause} - NOT_MADE


def test_lanes_play_each_fault_once() -> None:
    played = [fault.name for lane in lanes_of_counts(FAULTS) for fault in lane.faults]
    assert sorted(played) == sorted(fault.name for fault in FAULTS if fault.counts)


def test_no_query_of_panels_has_a_constant_answer() -> None:
    found = dict(sources({"groups": []}))
    assert [*DASHBOARDS.glob("*.json")]
    assert found
    assert [query for query in found if "vector(" in query.replace(" ", "")] == []


def test_page_of_faults_agrees_with_the_table() -> None:
    """Measured values differ from run to run; everything else in the page was proven when it was written."""
    text = documents.PATH.read_text()
    promises = {fault.words: documents.promise(fault, counts) for fault, counts in documents.counted_faults()}
    assert documents.promised(text) == promises
    assert text.startswith(documents.HEAD)
    assert documents.without_night(text).endswith(documents.TAIL)
