"""The names of recorded series (`level:metric:operations`) and the labels of each level."""

from dataclasses import dataclass

from watchslo.rules.settings import RuleSettings

RESOURCE = ("apiserver", "group", "resource", "watch")
TARGET = ("job", "instance")

INSTANCE_EVENTS = "instance_apiserver_resource:watchslo_events:rate5m"
INSTANCE_LATE_EVENTS = "instance_apiserver_resource:watchslo_late_events:rate5m"
INSTANCE_UNMEASURED = "instance_apiserver_resource:watchslo_unmeasured_events:rate5m"
INSTANCE_TICK = "instance_apiserver_domain:watchslo_clock_tick_seconds:p50_rate5m"
EVENTS = "apiserver_resource:watchslo_events:rate5m"
EVENTS_30M = "apiserver_resource:watchslo_events:rate30m"
INSTANCES = "apiserver_resource:watchslo_events:count_rate5m"
LATE_INSTANCES = "apiserver_resource:watchslo_late_events:count_rate5m"
LATE_EVENTS = "apiserver_resource:watchslo_late_events:rate5m"
LATE_EVENTS_30M = "apiserver_resource:watchslo_late_events:rate30m"
UNMEASURED = "apiserver_resource:watchslo_unmeasured_events:rate5m"
BUDGET_REMAINING = "apiserver_resource:watchslo_error_budget:remaining_ratio"
WINDOWS = "apiserver_resource:watchslo_slo_windows:rate5m"
GOOD_WINDOWS = "apiserver_resource:watchslo_good_windows:ratio_increase1d"
GOOD_WINDOWS_AT_WORST = "apiserver_resource:watchslo_good_windows_worst:ratio_increase1d"
JUDGED_WINDOWS = "apiserver_resource:watchslo_judged_windows:ratio_increase1d"
REACTION_P99 = "resource_step:watchslo_reaction_seconds:p99_rate5m"

ROLLUP, FLEET = "rollup", "fleet"
"""The levels of a fleet: what a cluster sends of itself, and the same of every cluster at the global level."""

ROLLUP_EVENTS = "rollup:watchslo_events:rate5m"
ROLLUP_LATE_EVENTS = "rollup:watchslo_late_events:rate5m"
ROLLUP_ALLOWED_EVENTS = "rollup:watchslo_allowed_late_events:rate5m"
ROLLUP_WORST = "rollup_resource:watchslo_late_events:increase1h"
ROLLUP_GOOD_MINUTES = "rollup:watchslo_good_minutes:ratio_rate1d"
ROLLUP_JUDGED_MINUTES = "rollup:watchslo_judged_minutes:ratio_rate1d"
ROLLUP_MEASURED_TIME = "rollup:watchslo_measured_time:ratio_rate5m"
ROLLUP_OVERLOADED = "rollup:watchslo_overloaded_instances:ratio_rate10m"
ROLLUP_TICKING = "rollup:watchslo_ticking_clocks:ratio_rate5m"
ROLLUP_UNDELIVERED = "rollup:watchslo_stalled_or_down_watches:count"
ROLLUP_VIOLATIONS = "rollup:watchslo_guarantee_violations:increase1h"
ROLLUP_INSTANCES = "rollup:watchslo_instances:count"
ROLLUP_RECORDED = "rollup:watchslo_recorded_seconds:count3d"
FLEET_REPLICA = "fleet_replica:watchslo_recorded_seconds:topk"
FLEET_REPORTING = "fleet:watchslo_reporting:bool1d"


def late_ratio(window: str) -> str:
    """Name the share of events later than the threshold in a window; the series is absent without events."""
    return f"apiserver_resource:watchslo_late_events:ratio_rate{window}"


def burn_rate(window: str) -> str:
    """Name the burn rate of the error budget: 1 spends the budget in exactly the period."""
    return f"apiserver_resource:watchslo_error_budget:burn_rate{window}"


def rollup_burn_rate(window: str) -> str:
    """Name the burn rate of all watches of a cluster together."""
    return f"rollup:watchslo_error_budget:burn_rate{window}"


def in_fleet(rollup: str) -> str:
    """Name what the global level records of a series of the rollup: one for each cluster, without replicas."""
    return rollup.replace(ROLLUP, FLEET, 1)


def timespan(q: float) -> str:
    """Name a quantile of the last five minutes, from the histogram, in seconds."""
    return f"apiserver_resource:watchslo_apiserver_timespan_seconds:{_percentile(q)}_rate5m"


def histogram(metric: str) -> str:
    """Name the histogram of the last five minutes, in events per second, of all instances."""
    return f"apiserver_resource:{metric}:rate5m"


def minute_histogram(level: str, metric: str) -> str:
    """Name the histogram of the last minute, in events per second, of all watches of a level."""
    return f"{level}:{metric}:rate1m"


def cluster_timespan(level: str, q: float, operations: str) -> str:
    """Name a quantile of all watch events of a level, in seconds: `rate1m`, `rate1d` or `max1d`."""
    return f"{level}:watchslo_apiserver_timespan_seconds:{_percentile(q)}_{operations}"


def good_minute(level: str) -> str:
    """Name the judged minutes of a level: 1 for a good and 0 for a bad one; absent with too few events."""
    return f"{level}:watchslo_good_minutes:bool_rate1m"


def good_minutes(level: str) -> str:
    """Name the share of good minutes of a level among those of the last day that were judged."""
    return f"{level}:watchslo_good_minutes:ratio_rate1d"


def judged_minutes(level: str) -> str:
    """Name the share of the minutes of the last day that were judged."""
    return f"{level}:watchslo_judged_minutes:ratio_rate1d"


def _percentile(q: float) -> str:
    """Return the name of a quantile: `p99`, `p999`."""
    return f"p{100 * q:g}".replace(".", "")


@dataclass(frozen=True, slots=True)
class LabelLevels:
    """The labels that an aggregation keeps, by level."""

    cluster: tuple[str, ...]
    apiserver: tuple[str, ...]
    resource: tuple[str, ...]
    instance: tuple[str, ...]
    instance_resource: tuple[str, ...]


def label_levels(settings: RuleSettings) -> LabelLevels:
    """Return the labels of each level, with the cluster label if there is one."""
    return LabelLevels(
        cluster=settings.cluster,
        apiserver=(*settings.cluster, "apiserver"),
        resource=(*settings.cluster, *RESOURCE),
        instance=(*settings.cluster, *TARGET),
        instance_resource=(*settings.cluster, *TARGET, *RESOURCE),
    )
