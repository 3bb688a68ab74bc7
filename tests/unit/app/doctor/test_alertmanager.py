"""Whether an Alertmanager has our inhibitions."""

import json

import pytest
import yaml

from tests.unit.app.doctor.server import serving
from watchslo.app.doctor.alertmanager import check_inhibitions, inhibition_findings
from watchslo.app.doctor.findings import FindingLevel
from watchslo.rules.inhibitions import inhibitions
from watchslo.rules.settings import RuleSettings

OURS = inhibitions(RuleSettings())


def status(*rules: object) -> str:
    original = yaml.safe_dump({"route": {"receiver": "x"}, "inhibit_rules": [*rules]})
    return json.dumps({"config": {"original": original}, "uptime": "x"})


def test_order_and_spaces_do_not_matter() -> None:
    theirs = [
        {
            "source_matchers": [one.replace("=", " = ", 1) for one in reversed(rule["source_matchers"])],
            "target_matchers": [*reversed(rule["target_matchers"])],
            "equal": [*reversed(rule.get("equal", []))],
        }
        for rule in reversed(OURS)
    ]
    (finding,) = inhibition_findings(OURS, theirs)
    assert finding.level is FindingLevel.GOOD


@pytest.mark.parametrize("key", ["source_matchers", "target_matchers", "equal"])
def test_inhibition_with_another_part_is_missing(key: str) -> None:
    changed = {**OURS[1], key: ['alertname="Other"']}
    (finding,) = inhibition_findings(OURS, [changed, *OURS[2:], OURS[0]])
    assert finding.level is FindingLevel.WARNING
    assert finding.text.startswith(f"Alertmanager lacks 1 of {len(OURS)} inhibitions")


@pytest.mark.parametrize(
    ("answer", "level"),
    [
        (status(*OURS), FindingLevel.GOOD),
        (status(*OURS[1:]), FindingLevel.WARNING),
        (json.dumps({"config": {"original": "route: {receiver: x}"}}), FindingLevel.WARNING),
        (json.dumps({"config": {"original": "inhibit_rules: x"}}), FindingLevel.UNCHECKED),
        (json.dumps({"config": {"original": "[]"}}), FindingLevel.UNCHECKED),
        (json.dumps({"config": {"original": ":"}}), FindingLevel.UNCHECKED),
        (json.dumps([]), FindingLevel.UNCHECKED),
        ("<html>", FindingLevel.UNCHECKED),
        ((500, status(*OURS)), FindingLevel.UNCHECKED),
    ],
)
async def test_check_inhibitions(answer: object, level: FindingLevel) -> None:
    async with serving({"/api/v2/status": answer}) as endpoint:
        (finding,) = await check_inhibitions(endpoint, OURS)
    assert finding.level is level
