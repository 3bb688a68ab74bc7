"""How rules are made of a configuration; promtool judges them in tests/e2e/test_rules.py."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from watchslo.app.rules import Question, as_yaml, document
from watchslo.config import Config
from watchslo.errors import ConfigError
from watchslo.rules.inhibitions import inhibitions
from watchslo.rules.options import Options
from watchslo.rules.pack import rule_groups
from watchslo.rules.windows import RATE_SECONDS, SELDOM_RECORDED_EVERY, Rule
from watchslo.serve.metrics import FAMILIES, Detail

Golden = Callable[[str, str], None]
SEVERAL = """
watch:
  - resource: pods
    name: my "pods"
    objective: {threshold: 250ms, events: {target: 0.999, period: 7d}}
  - resource: nodes
  - resource: deployments.apps
    objective: {threshold: 2s, minutes: {window: 5m, minEvents: 20}}
  - resource: "*"
"""
PROVEN = """
watch:
  - resource: pods
    name: my-node
    fieldSelector: spec.nodeName=node-1
clock: {interval: 10s}
metrics: proven
"""


def config(text: str) -> Config:
    return Config.model_validate(yaml.load(text, yaml.BaseLoader))


def rules(text: str = "{}", **options: Any) -> list[Rule]:
    return [rule for group in rule_groups(config(text), Options(**options)) for rule in group.rules]


def expressions(text: str, name: str, **options: Any) -> list[str]:
    return [rule.expression for rule in rules(text, **options) if rule.name == name]


def burns(text: str) -> dict[str, str]:
    """The burn rates at which alerts fire, by the long window."""
    found = (rule for rule in rules(text) if rule.name == "WatchLatencyBudgetBurn")
    return {rule.labels["long"]: re.findall(r"burn_rate\w+ > (\S+)", rule.expression)[0] for rule in found}


@pytest.fixture
def several(tmp_path: Path) -> Path:
    path = tmp_path / "watchslo.yaml"
    path.write_text(SEVERAL)
    return path


class TestGolden:
    """Each form, for the defaults and for all there is to say."""

    def test_plain(self, golden: Golden) -> None:
        golden("rules-plain.yaml", as_yaml(document(None, Question("plain"))))

    def test_prometheusrule(self, golden: Golden, several: Path) -> None:
        question = Question(
            cluster_label="cluster",
            job_selector='job=~"watchslo.*",namespace="monitoring"',
            rule_labels=("release=prometheus", "example.org/team=a"),
            runbooks="https://example.org/runbooks/",
        )
        golden("rules-prometheusrule.yaml", as_yaml(document(several, question)))

    def test_inhibitions(self, golden: Golden) -> None:
        golden("rules-inhibitions.yaml", as_yaml(document(None, Question("inhibitions", cluster_label="cluster"))))

    def test_a_trial(self, golden: Golden) -> None:
        golden("rules-shrunk.yaml", as_yaml(document(None, Question("plain", shrink=60))))

    def test_of_what_is_proven(self, golden: Golden, tmp_path: Path) -> None:
        path = tmp_path / "watchslo.yaml"
        path.write_text(PROVEN)
        golden("rules-proven.yaml", as_yaml(document(path, Question("plain"))))

    def test_yaml_says_what_was_meant(self) -> None:
        meant = document(None, Question("plain"))
        assert yaml.safe_load(as_yaml(meant)) == meant


class TestObjectives:
    def test_watches_of_one_objective_share_a_rule(self) -> None:
        (late,) = expressions(SEVERAL, "apiserver_resource:watchslo_late_events:ratio_rate1h")
        matchers = re.findall(r'_bucket\{job="watchslo",(.*?)\}\[', late)
        assert matchers == [
            r'le="0.25",watch=~"my \"pods\""',
            r'le="1.0",watch!~"deployments\\.apps|my \"pods\""',
            r'le="2.0",watch=~"deployments\\.apps"',
        ]

    def test_one_objective_needs_no_matcher(self) -> None:
        assert not any(re.search("watch[=!]", rule.expression) for rule in rules("watch: [{resource: pods}]"))

    def test_what_the_star_finds_has_the_objective_of_the_star(self) -> None:
        text = 'watch: [{resource: pods}, {resource: "*", objective: {threshold: 2s}}]'
        (late,) = expressions(text, "apiserver_resource:watchslo_late_events:ratio_rate1h")
        assert re.findall(r'le="(.*?)",watch(..)', late) == [("1.0", "=~"), ("2.0", "!~")]

    def test_an_objective_of_no_watch_has_no_rule(self) -> None:
        text = "watch: [{resource: pods, objective: {threshold: 2s}}]\nobjective: {threshold: 5s}"
        assert not any('le="5.0"' in rule.expression for rule in rules(text))

    @pytest.mark.parametrize(("threshold", "le"), [("1s", "1.0"), ("1ms", "0.001"), ("60s", "60.0"), ("1500ms", "1.5")])
    def test_buckets_are_named_as_they_are_exposed(self, threshold: str, le: str) -> None:
        (late,) = expressions(
            f"objective: {{threshold: {threshold}}}", "apiserver_resource:watchslo_late_events:ratio_rate1h"
        )
        assert f'le="{le}"' in late

    def test_names_are_no_patterns(self) -> None:
        text = r"watch: [{resource: pods, name: 'a.b|c*\d', objective: {threshold: 2s}}, {resource: nodes}]"
        (late,) = expressions(text, "apiserver_resource:watchslo_late_events:ratio_rate1h")
        assert r'watch=~"a\\.b\\|c\\*\\\\d"' in late


class TestBurnRates:
    def test_of_a_month(self) -> None:
        assert burns("{}") == {"1h": "14.4", "6h": "6", "1d": "3", "3d": "1"}

    def test_are_scaled_to_the_period(self) -> None:
        """But never below what the objective allows: that is no reason to wake anybody."""
        assert burns("objective: {events: {period: 7d}}") == {"1h": "3.36", "6h": "1.4", "1d": "1", "3d": "1"}

    def test_no_window_is_longer_than_the_period(self) -> None:
        assert burns("objective: {events: {period: 1d}}") == {"1h": "1", "6h": "1", "1d": "1"}

    def test_none_needs_more_than_all_events_to_be_late(self) -> None:
        assert burns("objective: {events: {target: 0.9}}") == {"6h": "6", "1d": "3", "3d": "1"}

    @pytest.mark.parametrize(("period", "name"), [("30d", "30d"), ("7d", "7d"), ("90m", "90m"), ("3d", "3d")])
    def test_budgets_are_those_of_the_period(self, period: str, name: str) -> None:
        (remaining,) = expressions(
            f"objective: {{events: {{period: {period}}}}}", "apiserver_resource:watchslo_error_budget:remaining_ratio"
        )
        assert remaining == f"1 - apiserver_resource:watchslo_late_events:ratio_rate{name} / 0.01"
        recorded = [rule.name for rule in rules(f"objective: {{events: {{period: {period}}}}}")]
        assert recorded.count(f"apiserver_resource:watchslo_late_events:ratio_rate{name}") == 1


class TestOptions:
    def test_a_label_of_the_cluster_is_kept_everywhere(self) -> None:
        for rule in rules(cluster_label="region"):
            kept = re.findall(r"by \((.*?)\)", rule.expression)
            assert all("region" in labels.split(", ") for labels in kept), rule

    def test_without_one_nothing_is_said_of_clusters(self) -> None:
        assert not any("cluster" in rule.expression for rule in rules())

    def test_only_what_is_scraped_is_selected(self) -> None:
        for rule in rules(job_selector='job="a"'):
            raw = re.findall(r"(?<![:\w])(?:watchslo_\w+|up)(\{[^}]*\})?", rule.expression)
            assert all('job="a"' in matchers for matchers in raw), rule

    def test_a_trial_is_shorter_but_never_below_what_can_be_scraped(self) -> None:
        groups = rule_groups(Config(), Options(shrink=60))
        assert {group.interval for group in groups} == {1.0, 2.0, 4.0}
        spans = re.findall(r"\[(\w+)(?::\w+)?\]", " ".join(rule.expression for g in groups for rule in g.rules))
        assert {"10s", "30s", "1m", "12h"} <= set(spans)
        assert "15m" in spans  # of windows, which are as long as ever

    def test_recorded_values_last_until_the_next(self) -> None:
        assert SELDOM_RECORDED_EVERY < RATE_SECONDS  # for which Prometheus looks back

    @pytest.mark.parametrize(
        ("told", "said"),
        [
            ({"cluster_label": "a-b"}, "--cluster-label: a-b is no name of a label; write for example cluster"),
            ({"cluster_label": "job"}, "--cluster-label: job means something else here; write for example cluster"),
            (
                {"job_selector": "watchslo"},
                '--job-selector: watchslo selects nothing; write for example job="watchslo"',
            ),
            ({"job_selector": 'job=""'}, '--job-selector: job="" selects nothing; write for example job="watchslo"'),
            (
                {"format": "plain", "rule_labels": ("a=b",)},
                "--rule-labels: plain has no labels of its own; leave it out, or write --format prometheusrule",
            ),
            ({"rule_labels": ("a",)}, "--rule-labels: a is no label; write for example release=prometheus"),
            ({"rule_labels": ("a=b c",)}, "--rule-labels: a=b c is no label; write for example release=prometheus"),
            ({"rule_labels": ("a=b", "a=c")}, "--rule-labels: a has two values, b and c; keep one of them"),
        ],
    )
    def test_mistakes_are_named_with_their_remedy(self, told: dict[str, Any], said: str) -> None:
        with pytest.raises(ConfigError) as caught:
            document(None, Question(**told))
        assert str(caught.value) == said


class TestAlerts:
    def test_say_what_they_mean_and_where_to_read_on(self) -> None:
        for rule in rules(runbooks="https://example.org/"):
            if rule.labels:
                assert {"severity", "slo"} <= rule.labels.keys()
                assert rule.annotations.keys() == {"summary", "description", "runbook_url"}
                assert rule.annotations["runbook_url"] == f"https://example.org/{rule.name}.md"

    def test_no_two_are_the_same(self) -> None:
        """Neither are two recording rules: which of them would be true?"""
        for text in ("{}", SEVERAL):
            found = [(rule.name, *sorted(rule.labels.items())) for rule in rules(text)]
            assert len(found) == len(set(found))

    def test_names_say_what_they_are(self) -> None:
        for rule in rules():
            pattern = r"Watch[A-Za-z]+" if rule.labels else r"(instance_)?apiserver_resource:watchslo_\w+:\w+"
            assert re.fullmatch(pattern, rule.name)

    def test_none_counts_more_ticks_than_there_are(self) -> None:
        (stopped,) = expressions("clock: {interval: 60s}\nmetrics: proven", "WatchsloClockStopped")
        assert "[20m]" in stopped


class TestProven:
    def test_nothing_stands_on_what_is_not_exposed(self) -> None:
        """A rule on a series that nobody has would never fire, and nobody would know."""
        proven = {family.name for family in FAMILIES if family.view(Detail.PROVEN)} | {"up"}
        recorded = {rule.name for rule in rules(PROVEN) if not rule.labels}
        for rule in rules(PROVEN):
            texts = (rule.expression, *re.findall(r"printf `(.*?)`", " ".join(rule.annotations.values())))
            named = {name for text in texts for name in re.findall(r"[a-z_0-9]*:?watchslo_\w+(?::\w+)?", text)}
            assert named <= proven | recorded, rule.name

    def test_labels_are_those_that_are_there(self) -> None:
        assert "kind=" not in "".join(rule.expression for rule in rules(PROVEN))

    def test_late_is_what_surely_was(self) -> None:
        (late,) = expressions(PROVEN, "apiserver_resource:watchslo_late_events:ratio_rate1h")
        assert late.count('verdict="beyond"') == 1
        assert "within" not in late

    def test_no_instance_needs_another_to_confirm_it(self) -> None:
        for expression in expressions(PROVEN, "WatchLatencyBudgetBurn"):
            assert "count_rate5m" not in expression
            assert ">= 10" in expression

    def test_watches_of_others_are_none_of_theirs(self) -> None:
        for expression in expressions(PROVEN, "WatchLatencyBudgetBurn"):
            recorded = re.findall(r"apiserver_resource:\w+:\w+(.?)", expression)
            assert recorded
            assert set(recorded) == {"{"}

    def test_alerts_that_are_left(self) -> None:
        left = {rule.name for rule in rules() if rule.labels} - {rule.name for rule in rules(PROVEN) if rule.labels}
        assert left == {
            "WatchLatencyBadMinutes",
            "WatchHistoryShort",
            "WatchsloClockSlow",
            "WatchsloCoverageLow",
            "WatchsloForbidden",
        }


class TestInhibitions:
    @pytest.mark.parametrize("label", [None, "cluster"])
    def test_are_of_alerts_that_exist_and_share_what_they_equal(self, label: str | None) -> None:
        alerts = {rule.name: rule for rule in rules(cluster_label=label) if rule.labels}
        for entry in inhibitions(Options(cluster_label=label)):
            for matchers in (entry["source_matchers"], entry["target_matchers"]):
                named = re.search(r'alertname=~?"(.*?)"', " ".join(matchers))
                assert named
                for name in named[1].split("|"):
                    expression = alerts[name].expression
                    kept = [re.findall(r"by \((.*?)\)", line) for line in expression.splitlines()]
                    labels = next((found[0] for found in kept if found), "")
                    assert set(entry.get("equal", ())) <= {*filter(None, labels.split(", "))}, name

    def test_one_overloaded_instance_of_many_silences_nothing(self) -> None:
        (overloaded,) = (one for one in inhibitions(Options()) if "Overloaded" in one["source_matchers"][0])
        assert 'instances="most"' in overloaded["source_matchers"]
