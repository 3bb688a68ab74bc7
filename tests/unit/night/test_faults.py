"""The faults of the night, compared with the alerts and verdicts that exist."""

from tests.night.faults import FAULTS
from tests.night.statements import DISTRUSTED, NO_ANSWER
from watchslo.config.model import Config
from watchslo.rules.pack import rule_groups
from watchslo.rules.settings import RuleSettings
from watchslo.snapshot import OverallVerdict

ALERTS = {rule.name for group in rule_groups(Config(), RuleSettings()) for rule in group.rules if rule.labels}


def test_names_of_faults_are_unique_and_each_has_a_right_verdict() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) == 10
    assert all(fault.expected.verdicts for fault in FAULTS)
    said = frozenset[str]().union(*(fault.expected.verdicts | fault.expected.tolerated for fault in FAULTS))
    assert said <= {*OverallVerdict, DISTRUSTED, NO_ANSWER}


def test_alerts_that_are_expected_or_allowed_exist() -> None:
    named = {name for fault in FAULTS for alert in fault.expected.alerts for name in alert.names}
    named |= {name for fault in FAULTS for name in fault.expected.allowed | fault.expected.silenced}
    assert "WatchStalled" in named
    assert named <= ALERTS
