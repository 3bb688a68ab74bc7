"""Dashboard "Fleet": which clusters burn their budget, are silent, or cannot be trusted; from the global level only."""

from tools.dashboards.panels import (
    NONE_IS_GOOD,
    PLAIN,
    Board,
    Look,
    Panel,
    Section,
    Step,
    Target,
    Unit,
    Variable,
    high_is_bad,
    low_is_bad,
    number_panel,
)
from tools.dashboards.slo import BURN, MINUTES

REPORTING = "fleet:watchslo_reporting:bool1d"
BURN_RATE = "fleet:watchslo_error_budget:burn_rate"
LATE_EVENTS = "fleet:watchslo_late_events:rate5m"
EVENTS = "fleet:watchslo_events:rate5m"
GOOD_MINUTES = "fleet:watchslo_good_minutes:ratio_rate1d"
JUDGED_MINUTES = "fleet:watchslo_judged_minutes:ratio_rate1d"
MEASURED_TIME = "fleet:watchslo_measured_time:ratio_rate5m"
OVERLOADED = "fleet:watchslo_overloaded_instances:ratio_rate10m"
TICKING = "fleet:watchslo_ticking_clocks:ratio_rate5m"
UNDELIVERED = "fleet:watchslo_stalled_or_down_watches:count"
VIOLATIONS = "fleet:watchslo_guarantee_violations:increase1h"
WORST = "fleet_resource:watchslo_late_events:increase1h"
INSTANCES = "fleet:watchslo_instances:count"
CLUSTER_LEGEND = "{{cluster}}"
SHOWN = 10  # clusters in a panel
MEASURED = low_is_bad(0.5, 0.9)  # below 0.9 an alert fires


def _of(name: str) -> str:
    return f'{name}{{cluster=~"$cluster"}}'


def _highest(vector: str) -> str:
    return f"topk ({SHOWN}, {vector})"


def _lowest(vector: str) -> str:
    return f"bottomk ({SHOWN}, {vector})"


def _of_burning(vector: str) -> str:
    """Return the values of the clusters with the highest burn rates, without names: a table merges equal labels."""
    return f"max by (cluster) ({vector}) and on (cluster) {_highest(_of(f'{BURN_RATE}1h'))}"


def _lines(title: str, description: str, unit: Unit, expr: str, thresholds: tuple[Step, ...]) -> Panel:
    return Panel(title, description, Look.LINES, unit, (Target(expr, CLUSTER_LEGEND),), thresholds)


NOW = Section(
    "Now",
    (
        number_panel(
            "Reporting",
            "Clusters that send their figures. A cluster that has sent none for a day is not known.",
            f"sum ({_of(REPORTING)})",
            PLAIN,
        ),
        number_panel(
            "Silent",
            "Clusters that sent figures within the last day and do not now: nothing is known about them, good or bad.",
            f"sum (1 - {_of(REPORTING)})",
            NONE_IS_GOOD,
        ),
        number_panel(
            "Burning",
            "Clusters that spent their error budget in the last hour faster than their objectives allow.",
            f"sum ({_of(f'{BURN_RATE}1h')} > bool 1)",
            NONE_IS_GOOD,
        ),
        number_panel(
            "Not measured",
            "Clusters of which watchslo measures less than 90% of the time: instances are down or overloaded, or "
            "clocks do not tick.",
            f"sum ({_of(MEASURED_TIME)} < bool 0.9)",
            NONE_IS_GOOD,
        ),
        number_panel(
            "Not delivered",
            "Watches of all clusters that are stalled or closed, as most of their instances see it. Without events "
            "there is no lateness to measure.",
            f"sum ({_of(UNDELIVERED)})",
            NONE_IS_GOOD,
        ),
        number_panel(
            "Violations, 1 h",
            "Violated guarantees of the last hour in all clusters: events that were lost, repeated or out of order, or "
            "an older state.",
            f"sum ({_of(VIOLATIONS)})",
            NONE_IS_GOOD,
        ),
        number_panel(
            "Burn rate, 1 h",
            "Burn rate of the worst cluster in the last hour: at 1 the error budget lasts exactly for the period.",
            f"max ({_of(f'{BURN_RATE}1h')})",
            BURN,
            Unit.TIMES,
        ),
        number_panel(
            "Good minutes, 1 d",
            "Share of the judged minutes of the last day that were good, for the worst cluster: all of its watches "
            "together.",
            f"min ({_of(GOOD_MINUTES)})",
            MINUTES,
            Unit.SHARE,
        ),
    ),
)

BUDGET = Section(
    "Budget",
    (
        Panel(
            "Worst clusters",
            "The ten clusters with the highest burn rates of the last hour, their other windows, what is left of the "
            "budget of a day, their good minutes and the share of time that was measured.",
            Look.TABLE,
            Unit.TIMES,
            (
                Target(_highest(f"max by (cluster) ({_of(f'{BURN_RATE}1h')})"), "Burn rate, 1 h"),
                Target(_of_burning(_of(f"{BURN_RATE}6h")), "Burn rate, 6 h"),
                Target(_of_burning(_of(f"{BURN_RATE}3d")), "Burn rate, 3 d"),
                Target(_of_burning(f"1 - {_of(f'{BURN_RATE}1d')}"), "Budget of the day", Unit.SHARE),
                Target(_of_burning(_of(GOOD_MINUTES)), "Good minutes, 1 d", Unit.SHARE),
                Target(_of_burning(_of(MEASURED_TIME)), "Measured time", Unit.SHARE),
            ),
            BURN,
            width=12,
        ),
        Panel(
            "Worst watches",
            "Late events of the last hour, of the three worst watches of each cluster. No data: no event was late.",
            Look.TABLE,
            Unit.COUNT,
            (Target(f"topk (20, max by (cluster, watch) ({_of(WORST)}))", "Late events"),),
            high_is_bad(10, 1000),
            width=12,
        ),
        _lines(
            "Burn rate over 1 h",
            "The ten highest burn rates of a cluster, all of its watches together. 14.4 pages with the default period.",
            Unit.TIMES,
            _highest(_of(f"{BURN_RATE}1h")),
            BURN,
        ),
        _lines(
            "Budget of the day",
            "What is left of the budget of a day, of the ten clusters with the least. Below 0, the last day has spent "
            "more than its share of the period.",
            Unit.SHARE,
            _lowest(f"1 - {_of(f'{BURN_RATE}1d')}"),
            low_is_bad(0, 0.25),
        ),
        _lines(
            "Good minutes in 1 d",
            "Share of the judged minutes of the preceding day that were good, of the ten worst clusters.",
            Unit.SHARE,
            _lowest(_of(GOOD_MINUTES)),
            MINUTES,
        ),
        _lines(
            "Share of late events",
            "Share of the events of five minutes that were late, of the ten worst clusters.",
            Unit.SHARE,
            _highest(f"{_of(LATE_EVENTS)} / {_of(EVENTS)}"),
            high_is_bad(0.005, 0.01),
        ),
        _lines(
            "Events",
            "Events per second of the ten busiest clusters, as one instance receives them.",
            Unit.EVENTS,
            _highest(_of(EVENTS)),
            PLAIN,
        ),
        _lines(
            "Watches that do not deliver",
            "Watches that are stalled or closed, of the ten worst clusters.",
            Unit.COUNT,
            _highest(_of(UNDELIVERED)),
            NONE_IS_GOOD,
        ),
    ),
)

TRUST = Section(
    "Trust",
    (
        _lines(
            "Measured time",
            "Share of time in which instances are up, not late themselves, and their clocks tick; the ten lowest.",
            Unit.SHARE,
            _lowest(_of(MEASURED_TIME)),
            MEASURED,
        ),
        _lines(
            "Judged minutes in 1 d",
            "Coverage of the last day, of the ten clusters with the lowest. Quiet clusters have a low coverage without "
            "any fault; their share of good minutes is not representative.",
            Unit.SHARE,
            _lowest(_of(JUDGED_MINUTES)),
            low_is_bad(0.1, 0.5),
        ),
        _lines(
            "Overloaded instances",
            "Share of the instances that are late themselves for more than 5% of the time, of the ten worst clusters.",
            Unit.SHARE,
            _highest(_of(OVERLOADED)),
            high_is_bad(0.01, 0.5),
        ),
        _lines(
            "Ticking clocks",
            "Share of the clocks that tick, of the ten worst clusters. Without ticks, nothing can be measured.",
            Unit.SHARE,
            _lowest(_of(TICKING)),
            low_is_bad(0.5, 1),
        ),
        Panel(
            "Silent clusters",
            "1 for a cluster that sent its figures within the last day and does not now, 0 for one that sends them. "
            "Silent clusters come first.",
            Look.TABLE,
            Unit.COUNT,
            (Target(f"topk (20, 1 - {_of(REPORTING)})", "Silent"),),
            NONE_IS_GOOD,
        ),
        Panel(
            "Clusters by version",
            "Number of clusters by the version of watchslo that most of their instances run.",
            Look.STACK,
            Unit.COUNT,
            (Target(f"count by (version) ({_of(INSTANCES)})", "{{version}}"),),
        ),
        Panel(
            "Versions and instances",
            "Number of instances of each cluster, and the version of watchslo that most of them run.",
            Look.TABLE,
            Unit.COUNT,
            (Target(f"max by (cluster, version) ({_of(INSTANCES)})", "Instances"),),
            width=24,
        ),
    ),
)

BOARD = Board(
    "watchslo-fleet",
    "watchslo / Fleet",
    "All clusters of a fleet: which burn their budget, are silent, or cannot be trusted. It reads only what the rules "
    "of `watchslo rules --fleet global` record, and no metrics of instances.",
    (Variable("cluster", "Cluster", REPORTING),),
    (NOW, BUDGET, TRUST),
)
