"""All alerts, in the groups that Prometheus evaluates."""

from watchslo.config.model import Config
from watchslo.rules import names
from watchslo.rules.alerts.alert_builder import AlertBuilder
from watchslo.rules.alerts.apiserver import apiserver_alerts
from watchslo.rules.alerts.clients import client_alerts
from watchslo.rules.alerts.clock import clock_alerts
from watchslo.rules.alerts.delivery import delivery_alerts
from watchslo.rules.alerts.latency import latency_alerts, latency_alerts_of_days
from watchslo.rules.alerts.monitor import monitor_alerts
from watchslo.rules.rule import RuleGroup
from watchslo.rules.settings import RuleSettings
from watchslo.rules.windows import RECORDED_EVERY, SLOWLY_RECORDED_EVERY

OFTEN = 15.0  # seconds between two evaluations of an alert that must fire within two minutes of an outage


def alert_groups(config: Config, settings: RuleSettings) -> tuple[RuleGroup, ...]:
    """Return all alerts; alerts on windows of days are evaluated as seldom as the rules that they use."""
    builder = AlertBuilder(settings, names.label_levels(settings))
    groups = (
        ("watchslo-latency", RECORDED_EVERY, latency_alerts(config, builder)),
        ("watchslo-latency-days", SLOWLY_RECORDED_EVERY, latency_alerts_of_days(config, builder)),
        ("watchslo-apiserver", OFTEN, apiserver_alerts(builder)),
        ("watchslo-delivery", RECORDED_EVERY, delivery_alerts(config, builder)),
        ("watchslo-clients", RECORDED_EVERY, client_alerts(config, builder)),
        ("watchslo-clock", RECORDED_EVERY, clock_alerts(config, builder)),
        ("watchslo-monitor", RECORDED_EVERY, monitor_alerts(config, builder)),
    )
    return tuple(
        RuleGroup(name, settings.interval(interval), rules)
        for name, interval, alerts in groups
        if (rules := tuple(alert.rule(settings) for alert in alerts))
    )
