"""What watchslo writes for other SLO tools, read by these tools; the rules that they make of it run in promtool."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import assets
from tests.support.exposed import HEALTH, Fault, World, promtool_test
from tests.support.process import PATIENCE_SECONDS
from tests.support.prometheus import program
from tests.support.rule_document import document
from tests.tools.test_rules import bad, late
from tests.unit.rules.test_rules import PROVEN
from tests.unit.rules.test_slo_formats import ONE_PERIOD, written
from tools.dashboards.files import files, perses_files
from watchslo.app.rules import RulesOptions, as_yaml
from watchslo.config.model import Config
from watchslo.rules.pack import plain
from watchslo.rules.settings import RuleSettings

ROOT = Path(__file__).parents[2]

CONFIGURATIONS = {"defaults": "{}", "several": ONE_PERIOD, "proven": PROVEN}
FORMS = tuple((name, histograms) for name in CONFIGURATIONS for histograms in ("classic", "native"))
IMPORTED = f"(import '{ROOT}/deploy/mixin/mixin.libsonnet')"
Rules = dict[str, Any]
"""A rule file, as a document."""


def run(tool: assets.Program, *arguments: str | Path, text: str = "") -> str:
    """Return the output of a tool, which must succeed."""
    command = [assets.find(os.environ, tool), *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def from_sloth(folder: Path, text: str, *options: str) -> Rules:
    """Return the rules that Sloth makes, of a file that it finds valid."""
    path, output = folder / "sloth.yaml", folder / "rules-of-sloth.yaml"
    path.write_text(text)
    run(assets.SLOTH, "--no-log", "validate", "--input", path)
    run(assets.SLOTH, "--no-log", "generate", "--input", path, "--out", output, *options)
    (rule,) = yaml.safe_load_all(output.read_text())
    found: Rules = rule["spec"]
    return found


def from_pyrra(_: Path, text: str) -> Rules:
    """Return the rules that Pyrra makes of all objectives, each of which it finds valid."""
    made = [yaml.safe_load(run(assets.PYRRA_RULES, text=document)) for document in text.split("---\n")]
    return {"groups": [group for rules in made for group in rules["groups"]]}


MAKERS: dict[str, Callable[[Path, str], Rules]] = {"sloth": from_sloth, "pyrra": from_pyrra}
BUDGETS = {"sloth": "slo:sli_error:ratio_rate5m", "pyrra": "watchslo_apiserver_timespan_seconds:burnrate5m"}


def configured(folder: Path, name: str) -> Path:
    path = folder / "watchslo.yaml"
    path.write_text(CONFIGURATIONS[name])
    return path


def check(folder: Path, rules: Rules) -> None:
    """Let promtool check rules."""
    path = folder / "checked.yaml"
    path.write_text(yaml.safe_dump(rules))
    command: list[str | Path] = [program("promtool"), "check", "rules", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("tool", MAKERS)
class TestToolsThatMakeRules:
    @pytest.mark.parametrize(("name", "histograms"), FORMS)
    def test_tool_accepts_the_objectives_and_promtool_its_rules(
        self, tool: str, name: str, histograms: str, tmp_path: Path
    ) -> None:
        rules = MAKERS[tool](tmp_path, written(tool, configured(tmp_path, name), histograms=histograms))
        check(tmp_path, rules)
        assert any("alert" in rule for group in rules["groups"] for rule in group["rules"])

    @pytest.mark.parametrize(
        ("fault", "alert"),
        [(late(0.5), "WatchEventsBudgetBurn"), (bad(), "WatchMinutesBudgetBurn"), (HEALTH, None)],
        ids=["late events", "bad minutes", "healthy"],
    )
    def test_alerts_page_for_the_watch_that_is_late(
        self, tool: str, fault: Fault, alert: str | None, tmp_path: Path
    ) -> None:
        rules = MAKERS[tool](tmp_path, written(tool))
        firing = 'count by (alertname, watch) (ALERTS{alertstate="firing",severity="critical"} > 0)'
        expected = [] if alert is None else [{"labels": f'{{alertname="{alert}",watch="pods"}}', "value": 1}]
        query = {"expr": f"({firing}) * 0 + 1", "eval_time": "40m", "exp_samples": expected}
        test = {"input_series": World(40, faults={"a:9477": fault}).series(), "promql_expr_test": [query]}
        assert promtool_test(tmp_path, rules, test) == ""

    def test_budget_of_each_watch_is_computed(self, tool: str, tmp_path: Path) -> None:
        rules = MAKERS[tool](tmp_path, written(tool))
        ratio = f'sum by (watch) ({BUDGETS[tool]}{{slo="watch-latency-events"}})'
        if tool == "sloth":
            ratio = ratio.replace("{slo=", "{sloth_slo=")
        expected = [{"labels": '{watch="pods"}', "value": 0.5}, {"labels": '{watch="deployments.apps"}', "value": 0}]
        query = {"expr": ratio, "eval_time": "40m", "exp_samples": expected}
        test = {"input_series": World(40, faults={"a:9477": late(0.5)}).series(), "promql_expr_test": [query]}
        assert promtool_test(tmp_path, rules, test) == ""


def test_sloth_with_the_documented_plugin_counts_the_events_of_a_period(tmp_path: Path) -> None:
    (plugin,) = re.findall(r"`--slo-plugins '(.*?)'`", (ROOT / "docs/howto/formats.md").read_text())
    default, counting = (
        from_sloth(tmp_path, written("sloth")),
        from_sloth(tmp_path, written("sloth"), "--slo-plugins", plugin),
    )
    assert "sum_over_time" in str(default)
    assert "sum_over_time" not in str(counting)


class TestOpenSlo:
    @pytest.mark.parametrize(("name", "histograms"), FORMS)
    def test_oslo_accepts_the_documents(self, name: str, histograms: str, tmp_path: Path) -> None:
        path = tmp_path / "openslo.yaml"
        path.write_text(written("openslo", configured(tmp_path, name), histograms=histograms))
        assert run(assets.OSLO, "validate", "-f", path).strip() == "Valid!"

    def test_queries_return_one_counter(self, tmp_path: Path) -> None:
        """The share of them over half an hour is that of the late events."""
        _, events, _ = yaml.safe_load_all(written("openslo"))
        metric = events["spec"]["indicator"]["spec"]["ratioMetric"]
        good, total = (metric[name]["metricSource"]["spec"]["query"] for name in ("good", "total"))
        ratio = f"increase(({good})[30m:1m]) / increase(({total})[30m:1m])"
        query = {"expr": ratio, "eval_time": "40m", "exp_samples": [{"labels": "{}", "value": 0.75}]}
        test = {"input_series": World(40, faults={"a:9477": late(0.5)}).series(), "promql_expr_test": [query]}
        assert promtool_test(tmp_path, {"groups": []}, test) == ""


@pytest.mark.parametrize(("name", "text"), perses_files().items())
def test_percli_accepts_the_dashboards_of_perses(name: str, text: str, tmp_path: Path) -> None:
    """Without the plugins of Perses, percli checks all but what is inside of them; tests/unit/dashboards does that."""
    written_object = yaml.safe_load(text)
    path = tmp_path / name
    metadata = {"name": written_object["metadata"]["name"], "project": "watchslo"}
    dashboard = {"kind": "Dashboard", "metadata": metadata, "spec": written_object["spec"]["config"]}
    path.write_text(yaml.safe_dump(dashboard))
    assert "look good" in run(assets.PERCLI, "lint", "-f", path)


class TestMixin:
    """`deploy/mixin` in jsonnet."""

    def test_rules_and_alerts_are_those_of_watchslo(self) -> None:
        expected = document(None, RulesOptions("plain"))["groups"]
        assert [*mixin("prometheusRules")["groups"], *mixin("prometheusAlerts")["groups"]] == expected

    def test_rules_of_an_own_configuration_take_their_place(self, tmp_path: Path) -> None:
        options = RulesOptions("plain", cluster_label="cluster")
        expected = document(configured(tmp_path, "several"), options)
        own = tmp_path / "own.yaml"
        own.write_text(as_yaml(expected))
        config = f"{{_config+:: {{watchsloGroups: std.parseYaml(importstr '{own}').groups}}}}"
        made = [*mixin("prometheusRules", config)["groups"], *mixin("prometheusAlerts", config)["groups"]]
        assert made == expected["groups"]

    def test_selector_and_runbooks_are_replaced(self) -> None:
        settings = RuleSettings(job_selector='job=~"a|b"', runbooks="https://example.org")
        config = """{_config+:: {watchsloSelector: 'job=~"a|b"', watchsloRunbooks: 'https://example.org'}}"""
        made = [*mixin("prometheusRules", config)["groups"], *mixin("prometheusAlerts", config)["groups"]]
        assert made == plain(Config(), settings)["groups"]

    def test_dashboards_are_those_of_grafana(self) -> None:
        assert mixin("grafanaDashboards") == {name: json.loads(text) for name, text in files().items()}

    def test_mixin_can_be_added_to_another_one(self) -> None:
        other = "{prometheusAlerts+:: {groups+: [{name: 'other', rules: []}]}}"
        groups = [group["name"] for group in mixin("prometheusAlerts", f"{other} + {IMPORTED}")["groups"]]
        assert groups[0] == "other"
        assert "watchslo-latency" in groups


def mixin(field: str, config: str = "{}") -> Any:
    """Return what a field of the mixin evaluates to, with a configuration or another mixin added."""
    expression = config if IMPORTED in config else f"{IMPORTED} + {config}"
    return json.loads(run(assets.JSONNET, "-e", f"({expression}).{field}"))
