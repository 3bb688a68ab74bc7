"""The rules of a configuration, as text; tests/tools/test_rules.py runs them in promtool."""

import re
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import GOLDEN
from tests.support.rule_document import document
from tests.support.transcripts import Step, replay
from tools.dashboards.files import BOARDS
from watchslo import __version__
from watchslo.app.rules import RulesOptions, as_yaml
from watchslo.config.model import Config
from watchslo.rules.fleet import fleet_groups
from watchslo.rules.inhibitions import inhibitions
from watchslo.rules.pack import rule_groups
from watchslo.rules.rule import RuleDefinition, RuleGroup
from watchslo.rules.settings import RuleSettings
from watchslo.rules.timespans import Histograms
from watchslo.rules.windows import RATE_SECONDS, SELDOM_RECORDED_EVERY
from watchslo.serve.metrics import FAMILIES, Detail

Golden = Callable[[str, str], None]
ROOT = Path(__file__).parents[3]
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
NODES = """
watch:
  - resource: pods
    name: my-node
    fieldSelector: spec.nodeName=node-1
clock: {interval: 10s}
mode: node
"""


def config(text: str) -> Config:
    return Config.model_validate(yaml.load(text, yaml.BaseLoader))


def rules(text: str = "{}", **options: Any) -> list[RuleDefinition]:
    return [rule for group in rule_groups(config(text), RuleSettings(**options)) for rule in group.rules]


def expressions(text: str, name: str, **options: Any) -> list[str]:
    return [rule.expression for rule in rules(text, **options) if rule.name == name]


@pytest.fixture
def several(tmp_path: Path) -> Path:
    path = tmp_path / "watchslo.yaml"
    path.write_text(SEVERAL)
    return path


class TestGoldenFiles:
    def test_plain_rules_of_the_defaults(self, golden: Golden) -> None:
        golden("rules-plain.yaml", as_yaml(document(None, RulesOptions("plain"))))

    def test_prometheusrule_with_all_options(self, golden: Golden, several: Path) -> None:
        options = RulesOptions(
            cluster_label="cluster",
            job_selector='job=~"watchslo.*",namespace="monitoring"',
            rule_labels=("release=prometheus", "example.org/team=a"),
            runbooks="https://example.org/runbooks/",
            alerts="all",
            alert_labels=("team=platform",),
        )
        golden("rules-prometheusrule.yaml", as_yaml(document(several, options)))

    def test_inhibitions_with_a_cluster_label(self, golden: Golden) -> None:
        golden("rules-inhibitions.yaml", as_yaml(document(None, RulesOptions("inhibitions", cluster_label="cluster"))))

    def test_rules_divided_by_shrink(self, golden: Golden) -> None:
        golden("rules-shrunk.yaml", as_yaml(document(None, RulesOptions("plain", shrink=60, alerts="all"))))

    def test_rules_of_node_mode(self, golden: Golden, tmp_path: Path) -> None:
        path = tmp_path / "watchslo.yaml"
        path.write_text(NODES)
        golden("rules-node.yaml", as_yaml(document(path, RulesOptions("plain", alerts="all"))))

    def test_rules_of_native_histograms(self, golden: Golden, several: Path) -> None:
        golden(
            "rules-native.yaml", as_yaml(document(several, RulesOptions("plain", histograms="native", alerts="all")))
        )

    def test_yaml_parses_back_to_the_document(self) -> None:
        expected = document(None, RulesOptions("plain"))
        assert yaml.safe_load(as_yaml(expected)) == expected


LATE = "apiserver_resource:watchslo_late_events:ratio_rate"


def of_configuration(text: str) -> Step:
    """Return a step that shows a part of the rules of a configuration."""

    def selectors(name: str, **options: Any) -> str:
        (expression,) = expressions(text, name, **options)
        return "\n".join(dict.fromkeys(re.findall(r"\{.*?\}(?:\[\w+\])?", expression)))

    def step(words: str) -> str:
        match words.split():
            case ["budgets"]:
                return expressions(text, "apiserver_resource:watchslo_error_budget:burn_rate1h")[0]
            case ["burn", "rates"]:
                burning = (rule for rule in rules(text) if rule.name == "KubeWatchLatencyBudgetBurn")
                rates = {rule.labels["long"]: re.findall(r"burn_rate\w+ > (\S+)", rule.expression) for rule in burning}
                return ", ".join(f"{long}: {rate[0]}" for long, rate in rates.items())
            case ["remaining", "budget"]:
                (expression,) = expressions(text, "apiserver_resource:watchslo_error_budget:remaining_ratio")
                (ratio,) = re.findall(rf"{LATE}\w+", expression)
                return f"{expression} ({len(expressions(text, ratio))} such rule)"
            case ["good", "minutes"]:
                return expressions(text, "cluster:watchslo_good_minutes:bool_rate1m")[0]
            case ["range", *shrink]:
                timespan = "apiserver:watchslo_apiserver_timespan_seconds_bucket:rate1m"
                return selectors(timespan, shrink=int(shrink[-1]) if shrink else 1)
        raise AssertionError(words)

    return step


def test_rules_of_objectives_match_golden_file(golden: Golden) -> None:
    golden("rules-objectives.txt", replay((GOLDEN / "rules-objectives.txt").read_text(), of_configuration))


class TestObjectives:
    def test_rules_of_one_objective_have_no_matcher(self) -> None:
        assert not any(re.search("watch[=!]", rule.expression) for rule in rules("watch: [{resource: pods}]"))

    def test_no_rule_depends_on_a_threshold(self) -> None:
        """So a threshold can change without new rules: the daemon counts what is late."""
        text = "watch: [{resource: pods, objective: {threshold: 250ms}}]\nobjective: {threshold: 5s}"
        assert rules(text) == rules("watch: [{resource: pods}]")

    def test_objective_without_watches_has_no_rule(self) -> None:
        text = "watch: [{resource: pods, objective: {events: {target: 0.9}}}]\nobjective: {events: {target: 0.75}}"
        of_watches = [rule for rule in rules(text) if "apiserver_resource" in rule.name]
        assert not any("/ 0.25" in rule.expression for rule in of_watches)


class TestBurnRates:
    def test_long_windows_need_more_history_than_the_next_shorter_one(self) -> None:
        """In minutes, one rate each; the alert of an hour also fires in a cluster that is minutes old."""
        found = {
            rule.labels["long"]: re.findall(r"count_over_time\(\S+?\[(\w+)\]\) \* (\d+) >= (\d+)", rule.expression)
            for rule in rules()
            if rule.name == "KubeWatchLatencyBudgetBurn"
        }
        assert found == {
            "1h": [],
            "6h": [("6h", "60", "3600")],
            "1d": [("1d", "60", "21600")],
            "3d": [("3d", "60", "86400")],
        }


class TestCluster:
    def test_shards_confirm_nothing_of_each_other(self) -> None:
        """No other instance has the watches of a shard."""
        sharded = expressions("shard: {index: 0, count: 3}", "KubeWatchClusterBadMinutes")
        assert len(sharded) == 2
        assert not any("instance" in expression for expression in sharded)
        assert all("instance" in expression for expression in expressions("{}", "KubeWatchClusterBadMinutes"))

    def test_cluster_costs_as_many_rules_as_the_documentation_says(self) -> None:
        recorded = [rule.name for rule in rules() if re.match(r"(cluster|(instance_)?apiserver):", rule.name)]
        (said,) = re.findall(r"(\d+) recording rules for the cluster", (ROOT / "docs/objectives.md").read_text())
        assert len(recorded) == int(said)


class TestNativeHistograms:
    def test_forms_record_the_same_except_for_histograms(self) -> None:
        """So alerts and dashboards need not know the form."""
        classic, native = ({rule.name for rule in rules(SEVERAL, histograms=form)} for form in Histograms)
        timespan = "watchslo_apiserver_timespan_seconds"
        assert {name.replace(f"{timespan}_bucket:", f"{timespan}:") for name in classic} == native

    def test_alerts_are_the_same(self) -> None:
        classic, native = ([rule for rule in rules(SEVERAL, histograms=form) if rule.labels] for form in Histograms)
        assert classic == native

    def test_no_rule_reads_classic_latencies(self) -> None:
        found = [rule.expression for rule in rules(SEVERAL, histograms=Histograms.NATIVE)]
        assert not any("timespan_seconds_" in expression or 'le="' in expression for expression in found)

    def test_rules_of_node_mode_have_no_histograms(self) -> None:
        assert rules(NODES, histograms=Histograms.NATIVE) == rules(NODES)


class TestSettings:
    def test_shrink_shortens_ranges_to_at_least_10s(self) -> None:
        groups = rule_groups(Config(), RuleSettings(shrink=60))
        assert {group.interval for group in groups} == {1.0, 2.0, 4.0}
        spans = re.findall(r"\[(\w+)(?::\w+)?\]", " ".join(rule.expression for g in groups for rule in g.rules))
        assert {"10s", "30s", "1m", "12h"} <= set(spans)
        assert "15m" in spans  # of windows, which shrink does not shorten

    def test_values_recorded_seldom_stay_current_until_the_next(self) -> None:
        assert SELDOM_RECORDED_EVERY < RATE_SECONDS  # the lookback of Prometheus


class TestAlerts:
    def test_runbooks_are_pages_of_the_documentation_by_default(self) -> None:
        urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
        documentation, _, page = urls["Documentation"].partition("/docs/")
        assert (ROOT / "docs" / page).exists()
        links = {rule.annotations["runbook_url"] for rule in rules() if rule.labels}
        for link in links:
            address, _, path = link.partition(f"/v{__version__}/")
            assert f"{address}/main" == documentation
            assert (ROOT / path).exists()

    @pytest.mark.parametrize("make", [rule_groups, fleet_groups])
    def test_alerts_link_to_dashboards_of_a_named_grafana(self, make: Callable[..., Iterable[RuleGroup]]) -> None:
        found = [
            rule.annotations.get("dashboard_url", "")
            for grafana in ("https://grafana.example.org/", "")
            for group in make(Config(), RuleSettings(grafana=grafana, cluster_label="cluster"))
            for rule in group.rules
            if rule.labels
        ]
        named, unnamed = found[: len(found) // 2], found[len(found) // 2 :]
        uids = {board.uid for board in BOARDS}
        assert {url.removeprefix("https://grafana.example.org/d/") for url in named} <= uids
        assert {*unnamed} == {""}


class TestNodeMode:
    def test_rules_use_only_exposed_or_recorded_series(self) -> None:
        """A rule on a series that does not exist never fires."""
        exposed = {family.name for family in FAMILIES if family.view(Detail.NODE)} | {"up"}
        recorded = {rule.name for rule in rules(NODES) if not rule.labels}
        for rule in rules(NODES):
            texts = (rule.expression, *re.findall(r"printf `(.*?)`", " ".join(rule.annotations.values())))
            named = {name for text in texts for name in re.findall(r"[a-z_0-9]*:?watchslo_\w+(?::\w+)?", text)}
            assert named <= exposed | recorded, rule.name

    def test_rules_leave_out_alerts_on_estimates(self) -> None:
        left = {rule.name for rule in rules() if rule.labels} - {rule.name for rule in rules(NODES) if rule.labels}
        assert left == {
            "KubeWatchLatencyBadMinutes",
            "KubeWatchClusterBadMinutes",
            "KubeWatchHeadroomShort",
            "KubeReactionSlow",
            "KubeInformerStale",
            "KubeWatchApiserverTicksSlow",
            "WatchsloClockSlow",
            "WatchsloWitnessesUnreached",
            "WatchsloCoverageLow",
            "WatchsloForbidden",
        }


class TestInhibitions:
    @pytest.mark.parametrize("label", [None, "cluster"])
    def test_inhibitions_name_alerts_that_have_their_equal_labels(self, label: str | None) -> None:
        alerts = {rule.name: rule for rule in rules(cluster_label=label) if rule.labels}
        for entry in inhibitions(RuleSettings(cluster_label=label)):
            for matchers in (entry["source_matchers"], entry["target_matchers"]):
                named = re.search(r'alertname=~?"(.*?)"', " ".join(matchers))
                assert named
                for name in named[1].split("|"):
                    expression = alerts[name].expression
                    kept = [re.findall(r"by \((.*?)\)", line) for line in expression.splitlines()]
                    labels = next((found[0] for found in kept if found), "")
                    assert set(entry.get("equal", ())) <= {*filter(None, labels.split(", "))}, name

    def test_only_a_majority_of_overloaded_instances_inhibits(self) -> None:
        (overloaded,) = (entry for entry in inhibitions(RuleSettings()) if "Overloaded" in entry["source_matchers"][0])
        assert 'instances="most"' in overloaded["source_matchers"]
