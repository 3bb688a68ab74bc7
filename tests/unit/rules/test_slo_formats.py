"""The objectives of a configuration for other tools; tests/tools/test_formats.py gives them to these tools."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click
import pytest

from tests.unit.rules.test_rules import NODES, SEVERAL, config, expressions
from watchslo.app.rules import Format, RulesOptions, as_yaml, documents
from watchslo.cli.rules import rules as command
from watchslo.rules.service_levels import service_levels
from watchslo.rules.settings import RuleSettings
from watchslo.rules.slo_formats import openslo, pyrra, sloth

Golden = Callable[[str, str], None]
DEFAULTS = RuleSettings()
LABELS = ["apiserver", "group", "resource", "watch"]
ONE_PERIOD = SEVERAL.replace("period: 7d", "period: 30d")


def written(form: str, path: Path | None = None, **options: Any) -> str:
    return "---\n".join(as_yaml(document) for document in documents(path, RulesOptions(form, **options)))  # type: ignore[arg-type]


def indicators(text: str, settings: RuleSettings = DEFAULTS) -> dict[str, dict[str, Any]]:
    """Return the indicators of Pyrra by the name of their objective."""
    found = pyrra(service_levels(config(text), settings), settings, {})
    return {document["metadata"]["name"]: document["spec"]["indicator"] for document in found}


def sloth_queries(text: str, settings: RuleSettings = DEFAULTS) -> dict[str, str]:
    (document,) = sloth(service_levels(config(text), settings), settings, {})
    return {slo["name"]: slo["sli"]["raw"]["errorRatioQuery"] for slo in document["spec"]["slos"]}


def openslo_queries(text: str, settings: RuleSettings = DEFAULTS) -> dict[str, dict[str, str]]:
    """Return the queries by the name of the SLO, and by good, bad and total."""
    _, *slos = openslo(service_levels(config(text), settings), settings)
    return {
        slo["metadata"]["name"]: {
            name: source["metricSource"]["spec"]["query"]
            for name, source in slo["spec"]["indicator"]["spec"]["ratioMetric"].items()
            if name != "counter"
        }
        for slo in slos
    }


@pytest.fixture
def several(tmp_path: Path) -> Path:
    path = tmp_path / "watchslo.yaml"
    path.write_text(ONE_PERIOD)
    return path


class TestGoldenFiles:
    def test_pyrra_of_several_objectives(self, golden: Golden, several: Path) -> None:
        golden("rules-pyrra.yaml", written("pyrra", several, rule_labels=("release=prometheus",)))

    def test_sloth_of_several_objectives(self, golden: Golden, several: Path) -> None:
        golden("rules-sloth.yaml", written("sloth", several, cluster_label="cluster"))

    def test_openslo_of_several_objectives(self, golden: Golden, several: Path) -> None:
        golden("rules-openslo.yaml", written("openslo", several))


class TestNames:
    def test_common_objective_has_the_plain_name(self) -> None:
        found = [level.name for level in service_levels(config("{}"), DEFAULTS)]
        assert found == ["watch-latency-events", "watch-latency-minutes"]

    def test_names_do_not_change_when_watches_are_reordered(self) -> None:
        watches = ["{resource: pods, objective: {threshold: 2s}}", "{resource: nodes, objective: {threshold: 500ms}}"]
        names = [
            {level.name: level.indicator for level in service_levels(config(f"watch: [{a}, {b}]"), DEFAULTS)}
            for a, b in (watches, watches[::-1])
        ]
        assert names[0].keys() == names[1].keys()
        assert "watch-latency-events-500ms-99-30d" in names[0]

    def test_names_are_unique_and_short_enough_for_kubernetes(self) -> None:
        longest = (
            "{threshold: 1500ms, events: {target: 0.99999, period: 90d}, minutes: {quantile: 0.9999, target: 0.99999}}"
        )
        text = f"watch: [{{resource: pods, objective: {longest}}}, {{resource: nodes}}]"
        names = [level.name for level in service_levels(config(text), DEFAULTS)]
        assert len(set(names)) == 4
        assert max(map(len, names)) <= 63


class TestIndicators:
    def test_sloth_reads_what_the_recording_rule_of_an_hour_reads(self) -> None:
        for label in (None, "cluster"):
            query = sloth_queries("{}", RuleSettings(cluster_label=label))["watch-latency-events"]
            name = "apiserver_resource:watchslo_late_events:ratio_rate1h"
            (recorded,) = expressions("{}", name, cluster_label=label)
            assert query.replace("{{.window}}", "1h") == recorded

    def test_objectives_of_node_mode_have_no_minutes(self) -> None:
        counter = 'sum by () (watchslo_estimated_events_total{job="watchslo"'
        assert openslo_queries(NODES) == {
            "watch-latency-events": {
                "good": f'{counter},verdict="within",watch=~"my-node"}})',
                "total": f'{counter},watch=~"my-node"}})',
            }
        }

    def test_openslo_keeps_only_the_label_of_the_cluster(self) -> None:
        queries = openslo_queries("{}", RuleSettings(cluster_label="region"))["watch-latency-events"]
        assert queries.keys() == {"good", "total"}
        assert all(query.startswith("sum by (region) (") for query in queries.values())

    def test_runbooks_and_labels_are_handed_on(self) -> None:
        settings = RuleSettings(runbooks="https://example.org/runbooks/")
        first, second = pyrra(service_levels(config("{}"), settings), settings, {"team": "a"})
        assert first["metadata"]["labels"] == {"team": "a"}
        runbooks = [document["metadata"]["annotations"]["pyrra.dev/runbook_url"] for document in (first, second)]
        assert runbooks == [
            "https://example.org/runbooks/KubeWatchLatencyBudgetBurn.md",
            "https://example.org/runbooks/KubeWatchLatencyBadMinutes.md",
        ]


def test_command_line_has_every_format() -> None:
    """The command line does not import the rules, so it lists the formats itself."""
    (option,) = (option for option in command.params if option.name == "format")
    assert isinstance(option.type, click.Choice)
    assert tuple(option.type.choices) == get_args(Format)
