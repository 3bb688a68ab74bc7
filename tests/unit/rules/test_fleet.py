"""The rules of a fleet, as text; tests/tools/test_fleet_rules.py runs them in promtool."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.rule_document import document
from watchslo.app.rules import RulesOptions, as_yaml
from watchslo.config.model import Config
from watchslo.rules import names
from watchslo.rules.fleet import fleet_groups
from watchslo.rules.pack import rule_groups
from watchslo.rules.rollup import WORST, rollup_groups, rollup_names
from watchslo.rules.rule import RuleDefinition
from watchslo.rules.settings import RuleSettings

Golden = Callable[[str, str], None]
ROOT = Path(__file__).parents[3]
LARGEST_ROLLUP = 20  # series
SEVERAL = """
watch:
  - resource: pods
    objective: {events: {target: 0.999}}
  - resource: "*"
"""
NODES = "{mode: node, clock: {interval: 60s}}"


def config(text: str) -> Config:
    return Config.model_validate(yaml.load(text, yaml.BaseLoader))


def rollup(text: str = "{}", **options: Any) -> list[RuleDefinition]:
    return [rule for group in rollup_groups(config(text), RuleSettings(**options)) for rule in group.rules]


def fleet(text: str = "{}", **options: Any) -> list[RuleDefinition]:
    settings = RuleSettings(**{"cluster_label": "cluster", **options})
    return [rule for group in fleet_groups(config(text), settings) for rule in group.rules]


def expression(rules: list[RuleDefinition], name: str) -> str:
    (found,) = (rule.expression for rule in rules if rule.name == name)
    return found


class TestGoldenFiles:
    def test_rules_of_a_cluster_of_the_defaults(self, golden: Golden) -> None:
        golden("rules-fleet-cluster.yaml", as_yaml(document(None, RulesOptions("plain", fleet="cluster"))))

    def test_rules_of_the_global_level_for_mimir(self, golden: Golden) -> None:
        options = RulesOptions(
            "mimir", cluster_label="region", alerts="all", fleet="global", replica_label="prometheus_replica"
        )
        golden("rules-fleet-global.yaml", as_yaml(document(None, options)))

    def test_inhibitions_of_the_global_level(self, golden: Golden) -> None:
        golden("rules-fleet-inhibitions.yaml", as_yaml(document(None, RulesOptions("inhibitions", fleet="global"))))


class TestRollup:
    @pytest.mark.parametrize("text", ["{}", SEVERAL, NODES])
    def test_rollup_is_at_most_20_series(self, text: str) -> None:
        """Each rule records one series of a cluster, except for the worst watches."""
        single = [name for name in rollup_names(config(text)) if name != names.ROLLUP_WORST]
        assert len(single) == len(set(single))
        assert len(single) + WORST <= LARGEST_ROLLUP

    def test_only_series_of_the_rollup_begin_with_its_name(self) -> None:
        """So that a selection by that name sends nothing else."""
        assert all(name.startswith("rollup") for name in rollup_names(Config()))
        others = [rule.name for group in rule_groups(Config(), RuleSettings()) for rule in group.rules]
        assert not any(name.startswith(("rollup", "fleet")) for name in others)

    @pytest.mark.parametrize("text", ["{}", SEVERAL, NODES])
    def test_rollup_uses_only_exposed_series_and_those_that_are_recorded(self, text: str) -> None:
        recorded = {rule.name for group in rule_groups(config(text), RuleSettings()) for rule in group.rules}
        recorded |= set(rollup_names(config(text)))
        for rule in rollup(text):
            assert set(re.findall(r"\w+:watchslo_\w+:\w+", rule.expression)) <= recorded, rule.name

    def test_watches_count_by_the_budget_of_their_objective(self) -> None:
        allowed = expression(rollup(SEVERAL), names.ROLLUP_ALLOWED_EVENTS)
        assert re.findall(r"([\d.]+) \* \S+\{watch(..)", allowed) == [("0.001", "=~"), ("0.01", "!~")]

    def test_instances_in_node_mode_are_added_up(self) -> None:
        """Each of them has its own events, and needs no other one to prove that they are late."""
        assert names.INSTANCES not in "".join(rule.expression for rule in rollup(NODES))
        assert names.LATE_INSTANCES not in "".join(rule.expression for rule in rollup(NODES))

    def test_instances_in_node_mode_have_no_minutes(self) -> None:
        left = set(rollup_names(Config())) - set(rollup_names(config(NODES)))
        assert left == {names.ROLLUP_GOOD_MINUTES, names.ROLLUP_JUDGED_MINUTES}

    def test_clock_is_judged_over_20_ticks_of_the_interval(self) -> None:
        assert "[20m]" in expression(rollup(NODES), names.ROLLUP_TICKING)

    def test_page_explains_every_series(self) -> None:
        """Burn rates share a row, so the further windows have only the end of their names."""
        page = (ROOT / "docs/howto/fleet.md").read_text()
        for name in rollup_names(Config()):
            assert f"`{name}`" in page or f"`{name.rpartition(':')[2]}`" in page, name


class TestGlobal:
    @pytest.mark.parametrize("text", ["{}", SEVERAL, NODES])
    def test_every_series_of_the_rollup_is_recorded(self, text: str) -> None:
        recorded = {rule.name for rule in fleet(text) if not rule.labels}
        assert {names.in_fleet(name) for name in rollup_names(config(text))} <= recorded

    @pytest.mark.parametrize("text", ["{}", SEVERAL, NODES])
    def test_rules_use_only_the_rollup_and_what_they_record(self, text: str) -> None:
        known = {rule.name for rule in fleet(text) if not rule.labels} | set(rollup_names(config(text)))
        for rule in fleet(text):
            texts = (rule.expression, *re.findall(r"printf `(.*?)`", " ".join(rule.annotations.values())))
            named = {name for text in texts for name in re.findall(r"(?:\w+:)?watchslo_\w+(?::\w+)?", text)}
            assert named <= known, rule.name

    def test_series_are_recorded_before_they_are_used(self) -> None:
        """Within a group, a rule sees the values of the rules before it."""
        (first, *_) = fleet_groups(Config(), RuleSettings(cluster_label="cluster"))
        seen: set[str] = set()
        for rule in first.rules:
            assert set(re.findall(r"fleet\w*:watchslo_\w+:\w+", rule.expression)) <= seen, rule.name
            seen.add(rule.name)

    def test_labels_of_clusters_and_replicas_can_be_chosen(self) -> None:
        for rule in fleet(cluster_label="region", replica_label="p"):
            kept = re.findall(r"(?:by|on) \((.*?)\)", rule.expression)
            assert all("region" in labels.split(", ") for labels in kept), rule
            assert {"cluster", "replica"}.isdisjoint(label for labels in kept for label in labels.split(", "))
        assert "by (region, p)" in expression(fleet(cluster_label="region", replica_label="p"), names.FLEET_REPLICA)

    def test_burn_rates_follow_from_the_common_objective(self) -> None:
        found = {
            rule.labels["long"]: re.findall(r"burn_rate\w+ > (\S+)", rule.expression)
            for rule in fleet("objective: {events: {period: 7d}}")
            if rule.name == "KubeWatchFleetBudgetBurn"
        }
        assert found == {"1h": ["3.36", "3.36"], "6h": ["1.4", "1.4"], "3d": ["1", "1"]}

    def test_pairs_that_cannot_fire_are_left_out(self) -> None:
        rules = fleet("objective: {events: {target: 0.9}}")
        assert [rule.labels["long"] for rule in rules if rule.name == "KubeWatchFleetBudgetBurn"] == ["6h", "3d"]

    def test_coverage_is_not_judged_without_minutes(self) -> None:
        reasons = [rule.labels["reason"] for rule in fleet(NODES) if rule.name == "WatchsloClusterUntrusted"]
        assert reasons == ["time"]


class TestOptions:
    def test_packs_of_one_cluster_have_different_names(self) -> None:
        packs = [document(None, RulesOptions(fleet=level)) for level in (None, "cluster", "global")]
        assert [pack["metadata"]["name"] for pack in packs] == ["watchslo", "watchslo-rollup", "watchslo-fleet"]
        groups = [group["name"] for pack in packs for group in pack["spec"]["groups"]]
        assert len(groups) == len(set(groups))

    def test_mimir_gets_a_namespace_and_the_same_groups(self) -> None:
        pack = document(None, RulesOptions("mimir", fleet="global"))
        assert pack == {"namespace": "watchslo-fleet", **document(None, RulesOptions("plain", fleet="global"))}
        assert document(None, RulesOptions("mimir"))["namespace"] == "watchslo"

    def test_global_rules_survive_a_cluster_that_thanos_does_not_reach(self) -> None:
        """By default, a rule of the ruler fails if one of the stores does not answer."""
        pack = document(None, RulesOptions("thanos", fleet="global"))
        assert {group["partial_response_strategy"] for group in pack["groups"]} == {"warn"}
        assert document(None, RulesOptions(fleet="global"))["spec"] == pack
        for group in pack["groups"]:
            del group["partial_response_strategy"]
        assert document(None, RulesOptions("plain", fleet="global")) == pack

    def test_clusters_are_distinguished_at_the_global_level_only_by_default(self) -> None:
        assert "cluster" in expression(fleet(), names.FLEET_REPLICA)
        cluster = document(None, RulesOptions("plain", fleet="cluster"))
        assert "by (cluster" not in as_yaml(cluster)
        assert "topk by (cluster)" in as_yaml(document(None, RulesOptions("plain", fleet="global")))

    def test_instances_may_distinguish_replicas(self) -> None:
        """As they do where replicas are federated without an external label of their own."""
        assert "instance" in expression(fleet(replica_label="instance"), names.FLEET_REPLICA)
