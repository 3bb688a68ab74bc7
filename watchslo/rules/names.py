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
TIMESPAN_BUCKET = "apiserver_resource:watchslo_apiserver_timespan_seconds_bucket:rate5m"
BUDGET_REMAINING = "apiserver_resource:watchslo_error_budget:remaining_ratio"
WINDOWS = "apiserver_resource:watchslo_slo_windows:rate5m"
GOOD_WINDOWS = "apiserver_resource:watchslo_good_windows:ratio_increase1d"
GOOD_WINDOWS_AT_WORST = "apiserver_resource:watchslo_good_windows_worst:ratio_increase1d"
JUDGED_WINDOWS = "apiserver_resource:watchslo_judged_windows:ratio_increase1d"


def late_ratio(window: str) -> str:
    """Name the share of events later than the threshold in a window; the series is absent without events."""
    return f"apiserver_resource:watchslo_late_events:ratio_rate{window}"


def burn_rate(window: str) -> str:
    """Name the burn rate of the error budget: 1 spends the budget in exactly the period."""
    return f"apiserver_resource:watchslo_error_budget:burn_rate{window}"


def timespan(percentile: int) -> str:
    """Name a percentile of the last five minutes, from the histogram, in seconds."""
    return f"apiserver_resource:watchslo_apiserver_timespan_seconds:p{percentile}_rate5m"


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
