"""What watchslo writes for other SLO tools, read by these tools; the rules that they make of it run in promtool."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from tests.support import assets
from tests.support.exposed import HEALTH, World, bad, late
from tests.support.process import PATIENCE_SECONDS
from tests.support.promtool import Case, Rules, alerts, complaints_of_check, complaints_of_test, value
from tests.support.rule_document import document
from tests.unit.rules.test_rules import NODES
from tests.unit.rules.test_slo_formats import ONE_PERIOD, written
from tools.dashboards.files import files, perses_files
from watchslo.app.rules import RulesOptions, as_yaml
from watchslo.config.model import Config
from watchslo.rules.alert_selection import AlertSelection
from watchslo.rules.pack import rule_file, rule_groups
from watchslo.rules.settings import RuleSettings

ROOT = Path(__file__).parents[2]
CONFIGURATIONS = {"defaults": "{}", "several": ONE_PERIOD, "node": NODES}
IMPORTED = f"(import '{ROOT}/deploy/mixin/mixin.libsonnet')"


def run(tool: assets.Program, *arguments: str | Path, text: str = "") -> str:
    """Return the output of a tool, which must succeed."""
    command = [assets.find(os.environ, tool), *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@cache
def from_sloth(text: str, *options: str) -> Rules:
    """Return the rules that Sloth makes, of a file that it finds valid."""
    with TemporaryDirectory() as folder:
        path, output = Path(folder) / "sloth.yaml", Path(folder) / "rules.yaml"
        path.write_text(text)
        run(assets.SLOTH, "--no-log", "validate", "--input", path)
        run(assets.SLOTH, "--no-log", "generate", "--input", path, "--out", output, *options)
        (rule,) = yaml.safe_load_all(output.read_text())
    found: Rules = rule["spec"]
    return found


@cache
def from_pyrra(text: str) -> Rules:
    """Return the rules that Pyrra makes of all objectives, each of which it finds valid."""
    made = [yaml.safe_load(run(assets.PYRRA_RULES, text=document)) for document in text.split("---\n")]
    return {"groups": [group for rules in made for group in rules["groups"]]}


MAKERS: dict[str, Callable[[str], Rules]] = {"sloth": from_sloth, "pyrra": from_pyrra}
BUDGETS = {
    "sloth": 'slo:sli_error:ratio_rate5m{sloth_slo="watch-latency-events"}',
    "pyrra": 'watchslo_estimated_events:burnrate5m{slo="watch-latency-events"}',
}


def configured(folder: Path, name: str) -> Path:
    path = folder / "watchslo.yaml"
    path.write_text(CONFIGURATIONS[name])
    return path


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("tool", MAKERS)
def test_tool_accepts_the_objectives_and_promtool_its_rules(tool: str, name: str, tmp_path: Path) -> None:
    rules = MAKERS[tool](written(tool, configured(tmp_path, name)))
    assert complaints_of_check(tmp_path, rules) == ""
    assert any("alert" in rule for group in rules["groups"] for rule in group["rules"])


@pytest.mark.parametrize("tool", MAKERS)
def test_rules_of_a_tool_page_for_the_watch_that_is_late(tool: str, tmp_path: Path) -> None:
    budgets = value(40, f"sum by (watch) ({BUDGETS[tool]})", 0.5, '{watch="pods"}')
    budgets["exp_samples"].append({"labels": '{watch="deployments.apps"}', "value": 0})
    cases = {
        "late events": (late(0.5), ["KubeWatchEventsBudgetBurn pods"], [budgets]),
        "bad minutes": (bad(), ["KubeWatchMinutesBudgetBurn pods"], []),
        "healthy": (HEALTH, [], []),
    }
    critical = 'alertstate="firing",severity="critical"'
    tested = (
        (
            name,
            Case(
                World(40, faults={"a:9477": fault}).series(),
                [alerts(40, *fires, by="alertname watch", of=critical), *queries],
            ),
        )
        for name, (fault, fires, queries) in cases.items()
    )
    assert complaints_of_test(tmp_path, MAKERS[tool](written(tool)), tested) == ""


def test_sloth_with_the_documented_plugin_counts_the_events_of_a_period() -> None:
    (plugin,) = re.findall(r"`--slo-plugins '(.*?)'`", (ROOT / "docs/howto/formats.md").read_text())
    assert "sum_over_time" in str(from_sloth(written("sloth")))
    assert "sum_over_time" not in str(from_sloth(written("sloth"), "--slo-plugins", plugin))


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_oslo_accepts_the_documents(name: str, tmp_path: Path) -> None:
    path = tmp_path / "openslo.yaml"
    path.write_text(written("openslo", configured(tmp_path, name)))
    assert run(assets.OSLO, "validate", "-f", path).strip() == "Valid!"


def test_queries_of_openslo_return_one_counter(tmp_path: Path) -> None:
    """The share of them over half an hour is that of the late events."""
    _, events, _ = yaml.safe_load_all(written("openslo"))
    metric = events["spec"]["indicator"]["spec"]["ratioMetric"]
    good, total = (metric[name]["metricSource"]["spec"]["query"] for name in ("good", "total"))
    query = value(40, f"increase(({good})[30m:1m]) / increase(({total})[30m:1m])", 0.75)
    case = Case(World(40, faults={"a:9477": late(0.5)}).series(), [query])
    assert complaints_of_test(tmp_path, {"groups": []}, [("half of one of two watches", case)]) == ""


def test_percli_accepts_the_dashboards_of_perses(tmp_path: Path) -> None:
    """Without the plugins of Perses, percli checks all but what is inside of them; tests/unit/dashboards does that."""
    for name, text in perses_files().items():
        written_object = yaml.safe_load(text)
        metadata = {"name": written_object["metadata"]["name"], "project": "watchslo"}
        dashboard = {"kind": "Dashboard", "metadata": metadata, "spec": written_object["spec"]["config"]}
        path = tmp_path / name
        path.write_text(yaml.safe_dump(dashboard))
        assert "look good" in run(assets.PERCLI, "lint", "-f", path), name


# --- deploy/mixin in jsonnet ------------------------------------------------------------------------------------------


def mixin(field: str, config: str = "{}") -> Any:
    """Return what a field of the mixin evaluates to, with a configuration or another mixin added."""
    expression = config if IMPORTED in config else f"{IMPORTED} + {config}"
    return json.loads(run(assets.JSONNET, "-e", f"({expression}).{field}"))


def mixed_groups(config: str = "{}") -> list[Any]:
    return [*mixin("prometheusRules", config)["groups"], *mixin("prometheusAlerts", config)["groups"]]


def test_rules_of_the_mixin_are_those_of_watchslo_by_default() -> None:
    assert mixed_groups() == document(None, RulesOptions("plain"))["groups"]


@pytest.mark.parametrize("alerts", AlertSelection)
def test_alerts_of_the_mixin_are_chosen_as_those_of_watchslo(alerts: AlertSelection) -> None:
    written = mixed_groups(f"{{_config+:: {{watchsloAlerts: '{alerts}'}}}}")
    assert written == document(None, RulesOptions("plain", alerts=alerts.value))["groups"]


def test_rules_of_an_own_configuration_take_their_place(tmp_path: Path) -> None:
    expected = document(configured(tmp_path, "several"), RulesOptions("plain", cluster_label="cluster"))
    own = tmp_path / "own.yaml"
    own.write_text(as_yaml(expected))
    config = f"{{_config+:: {{watchsloGroups: std.parseYaml(importstr '{own}').groups}}}}"
    assert mixed_groups(config) == expected["groups"]


def test_selector_and_runbooks_of_the_mixin_are_replaced() -> None:
    settings = RuleSettings(job_selector='job=~"a|b"', runbooks="https://example.org")
    config = """{_config+:: {watchsloSelector: 'job=~"a|b"', watchsloRunbooks: 'https://example.org'}}"""
    assert mixed_groups(config) == rule_file(AlertSelection.ESSENTIAL.of(rule_groups(Config(), settings)))["groups"]


def test_dashboards_of_the_mixin_are_those_of_grafana() -> None:
    assert mixin("grafanaDashboards") == {name: json.loads(text) for name, text in files().items()}


def test_mixin_finds_its_dashboards_where_jsonnet_bundler_installs_both_folders(tmp_path: Path) -> None:
    """jsonnet-bundler installs a folder of a repository below the address of the repository."""
    repository = Path("github.com/watchslo/watchslo")
    for folder in ("deploy/mixin", "dashboards"):
        shutil.copytree(ROOT / folder, tmp_path / repository / folder)
    expression = f"(import '{repository}/deploy/mixin/mixin.libsonnet').grafanaDashboards"
    assert json.loads(run(assets.JSONNET, "-J", tmp_path, "-e", expression)).keys() == files().keys()


def test_mixin_can_be_added_to_another_one() -> None:
    other = "{prometheusAlerts+:: {groups+: [{name: 'other', rules: []}]}}"
    groups = [group["name"] for group in mixin("prometheusAlerts", f"{other} + {IMPORTED}")["groups"]]
    assert groups[0] == "other"
    assert "watchslo-latency" in groups
