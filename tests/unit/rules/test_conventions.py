"""What holds for the rules of a cluster, of its rollup, and of a fleet."""

import re
from collections.abc import Callable

import pytest

from tests.unit.rules.test_fleet import fleet, rollup
from tests.unit.rules.test_rules import SEVERAL, rules
from watchslo.rules.rule import RuleDefinition

Rules = Callable[..., list[RuleDefinition]]
NAMES = {
    rules: r"(cluster|resource_step|(instance_)?apiserver(_resource|_domain)?):watchslo_\w+:\w+",
    rollup: r"rollup(_\w+)?:watchslo_\w+:\w+",
    fleet: r"fleet(_resource|_replica)?:watchslo_\w+:\w+",
}
"""The names of what they record."""


@pytest.mark.parametrize("made", NAMES, ids=lambda made: made.__name__)
class TestConventions:
    def test_every_aggregation_keeps_the_cluster_label(self, made: Rules) -> None:
        for rule in made(cluster_label="region"):
            kept = re.findall(r"(?:by|on) \((.*?)\)", rule.expression)
            assert all("region" in labels.split(", ") for labels in kept), rule

    def test_job_selector_is_added_to_every_exposed_metric(self, made: Rules) -> None:
        for rule in made(job_selector='job="a"'):
            raw = re.findall(r"(?<![:\w])(?:watchslo_\w+|up)\b(\{[^}]*\})?(?!:)", rule.expression)
            assert all('job="a"' in matchers for matchers in raw), rule

    @pytest.mark.parametrize("text", ["{}", SEVERAL])
    def test_rules_are_unique(self, made: Rules, text: str) -> None:
        found = [(rule.name, *sorted(rule.labels.items())) for rule in made(text)]
        assert len(found) == len(set(found))

    def test_alerts_have_all_labels_and_annotations_and_names_have_their_form(self, made: Rules) -> None:
        for rule in made(runbooks="https://example.org/"):
            if not rule.labels:
                assert re.fullmatch(NAMES[made], rule.name)
                continue
            assert re.fullmatch(r"(Kube|Watch)[A-Za-z]+", rule.name)
            assert {"severity", "slo"} <= rule.labels.keys()
            assert rule.annotations.keys() == {"summary", "description", "runbook_url"}
            assert rule.annotations["runbook_url"] == f"https://example.org/{rule.name}.md"
