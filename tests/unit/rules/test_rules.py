"""The rules of a configuration, as text; tests/tools/test_rules.py runs them in promtool."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.rule_document import document
from watchslo.app.rules import RulesOptions, as_yaml
from watchslo.config.model import Config
from watchslo.rules.inhibitions import inhibitions
from watchslo.rules.pack import rule_groups
from watchslo.rules.rule import RuleDefinition
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


def rules(text: str = "{}", **options: Any) -> list[RuleDefinition]:
    return [rule for group in rule_groups(config(text), RuleSettings(**options)) for rule in group.rules]


def expressions(text: str, name: str, **options: Any) -> list[str]:
    return [rule.expression for rule in rules(text, **options) if rule.name == name]


def burns(text: str) -> dict[str, str]:
    """Return the burn rates at which alerts fire, by long window."""
    found = (rule for rule in rules(text) if rule.name == "WatchLatencyBudgetBurn")
    return {rule.labels["long"]: re.findall(r"burn_rate\w+ > (\S+)", rule.expression)[0] for rule in found}


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
        )
        golden("rules-prometheusrule.yaml", as_yaml(document(several, options)))

    def test_inhibitions_with_a_cluster_label(self, golden: Golden) -> None:
        golden("rules-inhibitions.yaml", as_yaml(document(None, RulesOptions("inhibitions", cluster_label="cluster"))))

    def test_rules_divided_by_shrink(self, golden: Golden) -> None:
        golden("rules-shrunk.yaml", as_yaml(document(None, RulesOptions("plain", shrink=60))))

    def test_rules_of_metrics_proven(self, golden: Golden, tmp_path: Path) -> None:
        path = tmp_path / "watchslo.yaml"
        path.write_text(PROVEN)
        golden("rules-proven.yaml", as_yaml(document(path, RulesOptions("plain"))))

    def test_rules_of_native_histograms(self, golden: Golden, several: Path) -> None:
        golden("rules-native.yaml", as_yaml(document(several, RulesOptions("plain", histograms="native"))))

    def test_yaml_parses_back_to_the_document(self) -> None:
        expected = document(None, RulesOptions("plain"))
        assert yaml.safe_load(as_yaml(expected)) == expected


class TestObjectives:
    def test_rules_of_one_objective_have_no_matcher(self) -> None:
        assert not any(re.search("watch[=!]", rule.expression) for rule in rules("watch: [{resource: pods}]"))

    def test_objective_of_the_star_applies_to_unnamed_watches(self) -> None:
        text = 'watch: [{resource: pods}, {resource: "*", objective: {threshold: 2s}}]'
        (late,) = expressions(text, "apiserver_resource:watchslo_late_events:ratio_rate1h")
        assert re.findall(r'le="(.*?)",watch(..)', late) == [("1.0", "=~"), ("2.0", "!~")]

    def test_objective_of_a_divided_watch_applies_to_its_parts(self) -> None:
        divide = "divide: {by: namespace, values: [ci]}"
        text = f"watch: [{{resource: pods, {divide}, objective: {{threshold: 2s}}}}, {{resource: nodes}}]"
        (late,) = expressions(text, "apiserver_resource:watchslo_late_events:ratio_rate1h")
        assert re.findall(r'le="2.0",(watch.*?)\}', late)[0] == 'watch=~"pods/1|pods/rest"'

    def test_objective_without_watches_has_no_rule(self) -> None:
        text = "watch: [{resource: pods, objective: {threshold: 2s}}]\nobjective: {threshold: 5s}"
        of_watches = [rule for rule in rules(text) if "apiserver_resource" in rule.name]
        assert not any('le="5.0"' in rule.expression for rule in of_watches)

    @pytest.mark.parametrize(("threshold", "le"), [("1s", "1.0"), ("1ms", "0.001"), ("60s", "60.0"), ("1500ms", "1.5")])
    def test_bucket_label_is_formatted_as_in_the_exposition(self, threshold: str, le: str) -> None:
        (late,) = expressions(
            f"objective: {{threshold: {threshold}}}", "apiserver_resource:watchslo_late_events:ratio_rate1h"
        )
        assert f'le="{le}"' in late

    def test_watch_names_are_escaped_in_matchers(self) -> None:
        text = r"watch: [{resource: pods, name: 'a.b|c*\d', objective: {threshold: 2s}}, {resource: nodes}]"
        (late,) = expressions(text, "apiserver_resource:watchslo_late_events:ratio_rate1h")
        assert r'watch=~"a\\.b\\|c\\*\\\\d"' in late


class TestBurnRates:
    @pytest.mark.parametrize(
        ("events", "expected"),
        [
            pytest.param("{}", {"1h": "14.4", "6h": "6", "1d": "3", "3d": "1"}, id="30 days"),
            pytest.param("{period: 7d}", {"1h": "3.36", "6h": "1.4", "1d": "1", "3d": "1"}, id="at least 1"),
            pytest.param("{period: 1d}", {"1h": "1", "6h": "1", "1d": "1"}, id="no window longer than the period"),
            pytest.param("{target: 0.9}", {"6h": "6", "1d": "3", "3d": "1"}, id="none needs more than all events"),
        ],
    )
    def test_factors_follow_from_period_and_target(self, events: str, expected: dict[str, str]) -> None:
        assert burns(f"objective: {{events: {events}}}") == expected

    def test_long_windows_need_more_history_than_the_next_shorter_one(self) -> None:
        """In minutes, one rate each; the alert of an hour also fires in a cluster that is minutes old."""
        found = {
            rule.labels["long"]: re.findall(r"count_over_time\(\S+?\[(\w+)\]\) \* (\d+) >= (\d+)", rule.expression)
            for rule in rules()
            if rule.name == "WatchLatencyBudgetBurn"
        }
        assert found == {
            "1h": [],
            "6h": [("6h", "60", "3600")],
            "1d": [("1d", "60", "21600")],
            "3d": [("3d", "60", "86400")],
        }

    @pytest.mark.parametrize(("period", "name"), [("30d", "30d"), ("7d", "7d"), ("90m", "90m"), ("3d", "3d")])
    def test_remaining_budget_uses_the_ratio_of_the_period(self, period: str, name: str) -> None:
        (remaining,) = expressions(
            f"objective: {{events: {{period: {period}}}}}", "apiserver_resource:watchslo_error_budget:remaining_ratio"
        )
        assert remaining == f"1 - apiserver_resource:watchslo_late_events:ratio_rate{name} / 0.01"
        recorded = [rule.name for rule in rules(f"objective: {{events: {{period: {period}}}}}")]
        assert recorded.count(f"apiserver_resource:watchslo_late_events:ratio_rate{name}") == 1


class TestCluster:
    def test_common_objective_judges_all_watches_together(self) -> None:
        text = f"objective: {{threshold: 3s, minutes: {{quantile: 0.9, minEvents: 7}}}}\n{SEVERAL}"
        (good,) = expressions(text, "cluster:watchslo_good_minutes:bool_rate1m")
        assert re.findall(r'le="(.*?)"', good) == ["3.0", "+Inf"]
        assert ">= bool 0.9 *" in good
        assert good.endswith("* 60 >= 7)")

    @pytest.mark.parametrize(("window", "shrink", "span"), [("1m", 1, "90s"), ("5m", 1, "330s"), ("10s", 30, "11s")])
    def test_range_is_longer_than_the_window_by_one_scrape(self, window: str, shrink: int, span: str) -> None:
        """Shrink does not shorten windows."""
        (bucket,) = expressions(
            f"objective: {{minutes: {{window: {window}}}}}",
            "instance_apiserver:watchslo_apiserver_timespan_seconds_bucket:rate1m",
            shrink=shrink,
        )
        assert bucket.endswith(f"[{span}]))")

    def test_shards_confirm_nothing_of_each_other(self) -> None:
        """No other instance has the watches of a shard."""
        sharded = expressions("shard: {index: 0, count: 3}", "WatchClusterBadMinutes")
        assert len(sharded) == 2
        assert not any("instance" in expression for expression in sharded)
        assert all("instance" in expression for expression in expressions("{}", "WatchClusterBadMinutes"))

    def test_cluster_costs_as_many_rules_as_the_documentation_says(self) -> None:
        recorded = [rule.name for rule in rules() if re.match(r"(cluster|(instance_)?apiserver):", rule.name)]
        (said,) = re.findall(r"(\d+) recording rules for the cluster", (ROOT / "docs/objectives.md").read_text())
        assert len(recorded) == int(said)


class TestNativeHistograms:
    def test_forms_record_the_same_except_for_histograms(self) -> None:
        """So alerts and dashboards need not know the form."""
        classic, native = ({rule.name for rule in rules(SEVERAL, histograms=form)} for form in Histograms)
        timespan = "watchslo_apiserver_timespan_seconds"
        assert {name.replace(f"{timespan}_bucket:", f"{timespan}:") for name in classic} == native - {
            f"instance_apiserver_resource:{timespan}:rate5m"
        }

    def test_alerts_are_the_same_but_for_the_one_that_reads_the_last_minute(self) -> None:
        classic, native = ([rule for rule in rules(SEVERAL, histograms=form) if rule.labels] for form in Histograms)
        differ = [one for one, other in zip(classic, native, strict=True) if one != other]
        assert [(one.name, one.labels["long"]) for one in differ] == [("WatchLatencyBudgetBurn", "1h")]

    def test_no_rule_reads_classic_latencies(self) -> None:
        found = [rule.expression for rule in rules(SEVERAL, histograms=Histograms.NATIVE)]
        assert not any("timespan_seconds_" in expression or 'le="' in expression for expression in found)

    def test_proven_rules_have_no_histograms(self) -> None:
        assert rules(PROVEN, histograms=Histograms.NATIVE) == rules(PROVEN)


class TestSettings:
    def test_cluster_label_is_kept_by_every_aggregation(self) -> None:
        for rule in rules(cluster_label="region"):
            kept = re.findall(r"by \((.*?)\)", rule.expression)
            assert all("region" in labels.split(", ") for labels in kept), rule

    def test_job_selector_is_added_to_every_exposed_metric(self) -> None:
        for rule in rules(job_selector='job="a"'):
            raw = re.findall(r"(?<![:\w])(?:watchslo_\w+|up)(\{[^}]*\})?", rule.expression)
            assert all('job="a"' in matchers for matchers in raw), rule

    def test_shrink_shortens_ranges_to_at_least_10s(self) -> None:
        groups = rule_groups(Config(), RuleSettings(shrink=60))
        assert {group.interval for group in groups} == {1.0, 2.0, 4.0}
        spans = re.findall(r"\[(\w+)(?::\w+)?\]", " ".join(rule.expression for g in groups for rule in g.rules))
        assert {"10s", "30s", "1m", "12h"} <= set(spans)
        assert "15m" in spans  # of windows, which shrink does not shorten

    def test_values_recorded_seldom_stay_current_until_the_next(self) -> None:
        assert SELDOM_RECORDED_EVERY < RATE_SECONDS  # the lookback of Prometheus


class TestAlerts:
    def test_alerts_have_all_labels_and_annotations(self) -> None:
        for rule in rules(runbooks="https://example.org/"):
            if rule.labels:
                assert {"severity", "slo"} <= rule.labels.keys()
                assert rule.annotations.keys() == {"summary", "description", "runbook_url"}
                assert rule.annotations["runbook_url"] == f"https://example.org/{rule.name}.md"

    def test_runbooks_are_pages_of_the_documentation_by_default(self) -> None:
        urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
        documentation, _, page = urls["Documentation"].partition("/docs/")
        assert (ROOT / "docs" / page).exists()
        links = {rule.annotations["runbook_url"] for rule in rules() if rule.labels}
        for link in links:
            assert link.startswith(f"{documentation}/docs/runbooks/")
            assert (ROOT / link.removeprefix(f"{documentation}/")).exists()

    def test_alerts_and_recording_rules_are_unique(self) -> None:
        for text in ("{}", SEVERAL):
            found = [(rule.name, *sorted(rule.labels.items())) for rule in rules(text)]
            assert len(found) == len(set(found))

    def test_names_follow_the_conventions(self) -> None:
        for rule in rules():
            pattern = (
                r"Watch[A-Za-z]+"
                if rule.labels
                else r"(cluster|(instance_)?apiserver(_resource|_domain)?):watchslo_\w+:\w+"
            )
            assert re.fullmatch(pattern, rule.name)


class TestProven:
    def test_proven_rules_use_only_exposed_or_recorded_series(self) -> None:
        """A rule on a series that does not exist never fires."""
        proven = {family.name for family in FAMILIES if family.view(Detail.PROVEN)} | {"up"}
        recorded = {rule.name for rule in rules(PROVEN) if not rule.labels}
        for rule in rules(PROVEN):
            texts = (rule.expression, *re.findall(r"printf `(.*?)`", " ".join(rule.annotations.values())))
            named = {name for text in texts for name in re.findall(r"[a-z_0-9]*:?watchslo_\w+(?::\w+)?", text)}
            assert named <= proven | recorded, rule.name

    def test_proven_rules_leave_out_alerts_on_estimates(self) -> None:
        left = {rule.name for rule in rules() if rule.labels} - {rule.name for rule in rules(PROVEN) if rule.labels}
        assert left == {
            "WatchLatencyBadMinutes",
            "WatchClusterBadMinutes",
            "WatchHeadroomShort",
            "WatchApiserverTicksSlow",
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
