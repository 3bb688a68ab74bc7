"""Rules for the global level of a fleet: the rollup of each cluster without replicas, and alerts on clusters.

Several Prometheus replicas of a cluster may send the rollup. Values of different replicas are never mixed: of each
cluster, that replica is read which has recorded for longest, because one that has just started knows neither the day
nor long windows. A cluster that sends nothing has no values, so it is neither good nor bad: it is silent.
"""

from collections.abc import Iterator

from watchslo.config.model import Config
from watchslo.rules import names
from watchslo.rules.alerts.alert import EVENTS, LATE, MONITOR, UNNOTICED, Alert
from watchslo.rules.alerts.alert_builder import AlertBuilder
from watchslo.rules.alerts.clock import MIN_COVERAGE
from watchslo.rules.promql import by, joined, number
from watchslo.rules.rollup import rollup_names
from watchslo.rules.rule import CRITICAL, WARNING, RuleDefinition, RuleGroup
from watchslo.rules.settings import RuleSettings
from watchslo.rules.windows import (
    DAY,
    FEWEST_LATE_EVENTS,
    HOUR,
    LENGTHS,
    MINUTE,
    PAIRS,
    RECORDED_EVERY,
    SLOWLY_RECORDED_EVERY,
    WindowPair,
)

OWN_LABELS = {names.ROLLUP_WORST: ("watch",), names.ROLLUP_INSTANCES: ("version",)}
"""The labels of a series of the rollup besides that of the cluster."""

DASHBOARD = "watchslo-fleet"
COUNTED_SECONDS = 6 * HOUR  # late events are counted in no longer range: days of all clusters are many samples
TRUSTED_SHARE, TRUSTED_SECONDS = 0.9, 30 * MINUTE
MOST_OVERLOADED = 0.5  # share of the instances of a cluster: then lateness may be their own
BUSY_FACTOR = 2  # times the rate with which each minute has enough events to be judged


def fleet_groups(config: Config, settings: RuleSettings) -> tuple[RuleGroup, ...]:
    """Return the rules of the global level; `settings` must have a cluster label."""
    builder = AlertBuilder(settings, names.label_levels(settings))
    alerts = (*_burning(config, builder), *_untrusted(config, builder))
    return (
        RuleGroup("watchslo-fleet", settings.interval(RECORDED_EVERY), tuple(_clusters(config, settings))),
        RuleGroup(
            "watchslo-fleet-alerts",
            settings.interval(RECORDED_EVERY),
            tuple(alert.rule(settings) for alert in alerts),
        ),
        RuleGroup(
            "watchslo-fleet-silence",
            settings.interval(SLOWLY_RECORDED_EVERY),
            (_reporting(settings), *(alert.rule(settings) for alert in _silent(builder))),
        ),
    )


def _clusters(config: Config, settings: RuleSettings) -> Iterator[RuleDefinition]:
    """Yield each series of the rollup of the replica that is read, and the burn rate of the shortest window."""
    cluster, replica = settings.cluster, (*settings.cluster, settings.replica_label)
    recorded = by("max", replica, names.ROLLUP_RECORDED)
    yield RuleDefinition(names.FLEET_REPLICA, f"topk by ({', '.join(cluster)}) (1, {recorded})")
    read = f"and on ({', '.join(replica)}) {names.FLEET_REPLICA}"
    for name in rollup_names(config):
        labels = (*cluster, *OWN_LABELS.get(name, ()))
        yield RuleDefinition(names.in_fleet(name), by("max", labels, f"{name} {read}"))
    late, allowed = names.in_fleet(names.ROLLUP_LATE_EVENTS), names.in_fleet(names.ROLLUP_ALLOWED_EVENTS)
    yield RuleDefinition(_burn_rate("5m"), f"{late} / ({allowed} > 0)")


def _burn_rate(window: str) -> str:
    return names.in_fleet(names.rollup_burn_rate(window))


# --- alerts ----------------------------------------------------------------------------------------------------------


def _burning(config: Config, builder: AlertBuilder) -> Iterator[Alert]:
    """Yield an alert for each pair of windows that the rollup has and that can fire by the common objective."""
    recorded = {"5m", *(name.rpartition("burn_rate")[2] for name in rollup_names(config))}
    for pair in PAIRS:
        factor = pair.factor(config.objective)
        if factor is not None and {pair.long, pair.short} <= recorded:
            yield _budget_burn(builder, pair, factor)


def _budget_burn(builder: AlertBuilder, pair: WindowPair, factor: float) -> Alert:
    settings, cluster = builder.settings, f"{{{{ $labels.{builder.settings.cluster_label} }}}}"
    late = builder.over(
        "sum_over_time", names.in_fleet(names.ROLLUP_LATE_EVENTS), min(LENGTHS[pair.long], COUNTED_SECONDS)
    )
    conditions = [
        f"{_burn_rate(pair.long)} > {number(factor)}",
        f"{_burn_rate(pair.short)} > {number(factor)}",
        f"{late} * {number(settings.interval(RECORDED_EVERY))} >= {FEWEST_LATE_EVENTS}",
    ]
    if pair.history:
        conditions.append(f"{names.in_fleet(names.ROLLUP_RECORDED)} >= {number(pair.history / settings.shrink)}")
    burning = joined("and", conditions)
    worst = builder.worst_watch_of_cluster(f"{names.in_fleet(names.ROLLUP_WORST)}{{PLACE}}")
    return Alert(
        name="KubeWatchFleetBudgetBurn",
        severity=pair.severity,
        slo=EVENTS,
        dashboard=DASHBOARD,
        expression=f"{burning}\nunless {names.in_fleet(names.ROLLUP_OVERLOADED)} > {MOST_OVERLOADED}",
        wait=pair.wait,
        impact=LATE,
        summary=(
            f"watch events of cluster {cluster} are late, and the error budget burns {{{{ $value | humanize }}}} times "
            "too fast."
        ),
        description=(
            f"Over the last {pair.long}, and over the last {pair.short} as well, all watches of the cluster together "
            "spent their error budget {{ $value | humanize }} times as fast as their objectives allow; most late "
            f"events of the last hour are of {worst}. Controllers that depend on them act late."
        ),
        labels={"long": pair.long, "short": pair.short},
    )


def _untrusted(config: Config, builder: AlertBuilder) -> Iterator[Alert]:
    """Yield an alert on time that was not measured, and one on busy clusters with few judged minutes."""
    cluster = f"{{{{ $labels.{builder.settings.cluster_label} }}}}"
    measured = builder.over("avg_over_time", names.in_fleet(names.ROLLUP_MEASURED_TIME), TRUSTED_SECONDS)
    yield Alert(
        name="WatchsloClusterUntrusted",
        severity=WARNING,
        slo=MONITOR,
        dashboard=DASHBOARD,
        expression=f"{measured} < {TRUSTED_SHARE}",
        wait=15 * MINUTE,
        impact=UNNOTICED,
        summary=f"watchslo could not measure cluster {cluster} all the time.",
        description=(
            "It measured only {{ $value | humanizePercentage }} of the last half hour: instances are down or "
            "overloaded, or their clocks do not tick. The figures of this cluster describe only the rest."
        ),
        labels={"reason": "time"},
    )
    if config.mode == "cluster":
        yield _uncovered(config, builder, cluster)


def _uncovered(config: Config, builder: AlertBuilder, cluster: str) -> Alert:
    """Return an alert on a cluster with enough events all day, and hardly any judged minute of all its watches."""
    minutes = config.objective.minutes
    busy = builder.over("min_over_time", names.in_fleet(names.ROLLUP_EVENTS), DAY)
    recorded = names.in_fleet(names.ROLLUP_RECORDED)
    conditions = (
        f"{names.in_fleet(names.ROLLUP_JUDGED_MINUTES)} < {MIN_COVERAGE}",
        f"{busy} > {number(BUSY_FACTOR * minutes.min_events / minutes.window)}",
        f"{recorded} >= {number(DAY / builder.settings.shrink)}",
    )
    return Alert(
        name="WatchsloClusterUntrusted",
        severity=WARNING,
        slo=MONITOR,
        dashboard=DASHBOARD,
        expression=joined("and", conditions),
        wait=15 * MINUTE,
        impact=UNNOTICED,
        summary=f"coverage of cluster {cluster} is below {MIN_COVERAGE:.0%}.",
        description=(
            "Only {{ $value | humanizePercentage }} of the minutes of the last day could be judged, although there "
            "were enough events all the time. The share of good minutes says nothing about this cluster."
        ),
        labels={"reason": "coverage"},
    )


def _reporting(settings: RuleSettings) -> RuleDefinition:
    """Return the rule for 1 if a cluster sends its rollup, and 0 if it did within the last day and does not now."""
    instances = names.in_fleet(names.ROLLUP_INSTANCES)
    now = by("group", settings.cluster, instances)
    known = by("group", settings.cluster, f"present_over_time({instances}[{settings.span(DAY)}])")
    return RuleDefinition(names.FLEET_REPORTING, joined("or", (now, f"0 * {known}")))


def _silent(builder: AlertBuilder) -> Iterator[Alert]:
    cluster = f"{{{{ $labels.{builder.settings.cluster_label} }}}}"
    yield Alert(
        name="WatchsloClusterSilent",
        severity=CRITICAL,
        slo=MONITOR,
        dashboard=DASHBOARD,
        expression=f"{names.FLEET_REPORTING} == 0",
        wait=10 * MINUTE,
        impact="Late events are not noticed",
        summary=f"cluster {cluster} sends no figures of watchslo.",
        description=(
            "It did within the last day. Either its Prometheus does not send, or it scrapes no instance of watchslo. "
            "Nothing is known about this cluster here."
        ),
        labels={"scope": "cluster"},
    )
    yield Alert(
        name="WatchsloClusterSilent",
        severity=CRITICAL,
        slo=MONITOR,
        dashboard=DASHBOARD,
        expression=f"absent({names.ROLLUP_INSTANCES})",
        wait=10 * MINUTE,
        impact="Late events are not noticed",
        summary="no cluster at all sends figures of watchslo.",
        description=(
            "Either the way to this global level is interrupted, or the rules of the rollup are not loaded in the "
            "clusters. Nothing is known about any cluster here."
        ),
        labels={"scope": "fleet"},
    )
