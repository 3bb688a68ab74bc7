"""Dashboard "SLO": the current P99, the remaining error budget, and the worst watches."""

from tools.dashboards.panels import (
    APISERVER_LEGEND,
    LATE,
    LATE_SHARE,
    NEEDS_BASIC,
    NONE_IS_GOOD,
    OF_INSTANCES,
    OF_WATCHES,
    RECORDED,
    VARIABLES,
    WATCH_LABELS,
    WATCH_LEGEND,
    Board,
    Look,
    Panel,
    Section,
    Step,
    Target,
    Unit,
    distribution,
    high_is_bad,
    low_is_bad,
    number_panel,
    quantile,
)
from watchslo.serve.metrics.labels import BOUND

TIMESPAN = "watchslo_apiserver_timespan_seconds"
WINDOW = "watchslo_apiserver_timespan_window_seconds"
BURN_RATE = "apiserver_resource:watchslo_error_budget:burn_rate"
BUDGET_LEFT = "apiserver_resource:watchslo_error_budget:remaining_ratio"
GOOD_MINUTES = "apiserver_resource:watchslo_good_windows:ratio_increase1d"
COVERAGE = "apiserver_resource:watchslo_judged_windows:ratio_increase1d"
GOOD_MINUTES_OF = "watchslo_good_minutes:ratio_rate1d"
OF_APISERVERS_RECORDED = 'cluster=~"$cluster", apiserver=~"$apiserver"'
TOGETHER = "watchslo_apiserver_timespan_seconds"  # of all watches of a cluster, or of an apiserver
REACTION_P99 = "resource_step:watchslo_reaction_seconds:p99_rate5m"
OLDEST_PENDING = "watchslo_reaction_oldest_pending_seconds"
ESTIMATE = "estimate|limit"  # the limit is that of ticks which take too long for an estimate
STALENESS, AT_LEAST = "watchslo_informer_staleness_seconds", 'bound="lower"'
CACHE_LABELS, CACHE_LEGEND = "cluster, client, resource", "{{cluster}} {{client}} {{resource}}"
STEP_LABELS, STEP_LEGEND = "cluster, resource, step", "{{cluster}} {{resource}} {{step}}"
BURN_WINDOWS = ("1h", "6h", "1d", "3d")
BURN = high_is_bad(1, 6)  # spends the budget in exactly the period; pages
BUDGET = low_is_bad(0, 0.25)
MINUTES = low_is_bad(0.99, 0.999)  # ten times the default error budget, and the default objective


def _p99(bounds: str, by: str = "") -> str:
    grouping = f" by ({by})" if by else ""
    return f'max{grouping} ({WINDOW}{{{OF_WATCHES}, q="0.99", window="1m", bound=~"{bounds}"}})'


def _burn(window: str, by: str = "") -> str:
    grouping = f" by ({by})" if by else ""
    return f"max{grouping} ({BURN_RATE}{window}{{{RECORDED}}})"


def _proven(verdict: str) -> str:
    return f'sum (rate(watchslo_slo_events_total{{{OF_WATCHES}, verdict="{verdict}"}}[$__rate_interval]))'


def _proven_late(by: str, over: str) -> str:
    late = f'sum by ({by}) (rate(watchslo_slo_events_total{{{OF_WATCHES}, verdict="beyond"}}[{over}]))'
    return f"{late} / sum by ({by}) (rate(watchslo_slo_events_total{{{OF_WATCHES}}}[{over}]))"


def _windows(verdict: str) -> str:
    return f'sum (increase(watchslo_slo_windows_total{{{OF_WATCHES}, verdict="{verdict}"}}[$__rate_interval]))'


def _of_cluster(name: str) -> str:
    return f'cluster:{name}{{cluster=~"$cluster"}}'


def _of_apiservers(name: str) -> str:
    return f"apiserver:{name}{{{OF_APISERVERS_RECORDED}}}"


def _by_apiserver(name: str) -> str:
    """Return a query for a table: without the name of the metric, so that rows of several queries are merged."""
    return f"max by (cluster, apiserver) ({_of_apiservers(name)})"


NOW = Section(
    "Now",
    (
        number_panel(
            "P99",
            "P99 of ApiserverTimeSpan in the last minute, for the worst selected watch: from the commit of a change to "
            "the arrival of its event; at least what ticks resolve. No data: no events. The default threshold is 1 s.",
            _p99(ESTIMATE),
            LATE,
            Unit.SECONDS,
        ),
        number_panel(
            "Proven late",
            "Share of events that are proven late: their whole interval lies above the threshold of their watch.",
            f"{_proven('beyond')} / sum (rate(watchslo_slo_events_total{{{OF_WATCHES}}}[$__rate_interval]))",
            LATE_SHARE,
            Unit.SHARE,
        ),
        number_panel(
            "Remaining budget",
            "Share of the error budget that the worst watch has left in the period of its objective; below 0 the "
            "objective is missed. Requires the recording rules of `watchslo rules`.",
            f"min ({BUDGET_LEFT}{{{RECORDED}}})",
            BUDGET,
            Unit.SHARE,
        ),
        number_panel(
            "Burn rate, 1 h",
            "Burn rate of the worst watch in the last hour: at 1 the error budget lasts exactly for the period. "
            "Requires the recording rules.",
            _burn("1h"),
            BURN,
            Unit.TIMES,
        ),
        number_panel(
            "Good minutes, 1 d",
            "Share of the judged minutes of the last day with P99 within the threshold, for the worst watch. "
            "Requires the recording rules.",
            f"min ({GOOD_MINUTES}{{{RECORDED}}})",
            MINUTES,
            Unit.SHARE,
        ),
        number_panel(
            "Closed watches",
            "Watches that are closed now. A watch that reopens is counted for a second or two.",
            f"sum (1 - watchslo_watch_up{{{OF_WATCHES}}})",
            NONE_IS_GOOD,
        ),
        number_panel(
            "Stalled watches",
            "Watches that do not receive their events, or whose apiserver cache is frozen. P99 does not include them: "
            "without events there is nothing to measure.",
            f"sum (watchslo_watch_stalled{{{OF_WATCHES}}})",
            NONE_IS_GOOD,
        ),
        number_panel(
            "Samples of P99",
            "Events measured per minute, of all selected watches. With fewer than 100 per watch, P99 depends on one or "
            "two events.",
            f"sum (rate(watchslo_slo_events_total{{{OF_WATCHES}}}[$__rate_interval])) * 60",
            (Step(None, "orange"), Step(100, "green")),
        ),
    ),
)

ALL_WATCHES = Section(
    "All watches of a cluster together",
    (
        number_panel(
            "Good minutes, 1 d",
            "One number for a cluster: the share of the judged minutes of the last day in which P99 of all events "
            "was within the common threshold. With several clusters, the worst one. Requires the recording rules.",
            f"min ({_of_cluster(GOOD_MINUTES_OF)})",
            MINUTES,
            Unit.SHARE,
        ),
        number_panel(
            "Judged minutes, 1 d",
            "Share of the minutes of the last day with enough events to be judged.",
            f"min ({_of_cluster('watchslo_judged_minutes:ratio_rate1d')})",
            low_is_bad(0.1, 0.5),
            Unit.SHARE,
        ),
        number_panel(
            "P99, 1 d",
            "P99 of all watch events of the last day.",
            f"max ({_of_cluster(f'{TOGETHER}:p99_rate1d')})",
            LATE,
            Unit.SECONDS,
        ),
        number_panel(
            "P99.9, 1 d",
            "P99.9 of all watch events of the last day; absent with fewer than 1,000 events.",
            f"max ({_of_cluster(f'{TOGETHER}:p999_rate1d')})",
            LATE,
            Unit.SECONDS,
        ),
        number_panel(
            "Worst minute, 1 d",
            "The highest P99 of a minute of the last day.",
            f"max ({_of_cluster(f'{TOGETHER}:p99_max1d')})",
            LATE,
            Unit.SECONDS,
        ),
        Panel(
            "Good minutes and quantiles of the last day by apiserver",
            "All watches of each apiserver together: good minutes, P99, P99.9 and the worst minute of the last day.",
            Look.TABLE,
            Unit.SECONDS,
            (
                Target(_by_apiserver(f"{TOGETHER}:p99_rate1d"), "P99"),
                Target(_by_apiserver(f"{TOGETHER}:p999_rate1d"), "P99.9"),
                Target(_by_apiserver(f"{TOGETHER}:p99_max1d"), "Worst minute"),
                Target(_by_apiserver(GOOD_MINUTES_OF), "Good minutes", Unit.SHARE),
            ),
            LATE,
            width=9,
        ),
        Panel(
            "P99 of all watches by minute",
            "P99 of each minute, of the cluster and of each apiserver: all watches and instances added up.",
            Look.LINES,
            Unit.SECONDS,
            (
                Target(_of_cluster(f"{TOGETHER}:p99_rate1m"), "{{cluster}} all"),
                Target(_of_apiservers(f"{TOGETHER}:p99_rate1m"), APISERVER_LEGEND),
            ),
            LATE,
            width=12,
        ),
        Panel(
            "P99.9 of all watches over a day",
            "P99.9 of the day before each moment, of the cluster and of each apiserver; absent with fewer than 1,000 "
            "events.",
            Look.LINES,
            Unit.SECONDS,
            (
                Target(_of_cluster(f"{TOGETHER}:p999_rate1d"), "{{cluster}} all"),
                Target(_of_apiservers(f"{TOGETHER}:p999_rate1d"), APISERVER_LEGEND),
            ),
            LATE,
            width=12,
        ),
    ),
)

LATENCY = Section(
    "Latency",
    (
        Panel(
            "P50, P90 and P99 of all selected watches",
            "Quantiles of ApiserverTimeSpan from the histogram, valid for any selection of watches and instances. The "
            "threshold is the smallest in force.",
            Look.LINES,
            Unit.SECONDS,
            (
                *(
                    Target(quantile(q, TIMESPAN, OF_WATCHES, ("cluster",)), f"{{{{cluster}}}} P{q * 100:.0f}")
                    for q in (0.5, 0.9, 0.99)
                ),
                Target(f"min (watchslo_slo_threshold_seconds{{{OF_INSTANCES}}})", "threshold", colour="red"),
            ),
            LATE,
            width=12,
        ),
        Panel(
            "P99 bounds of the worst watch",
            "The worst P99 of the last minute. The true value lies between lower and upper, which are proven, and in "
            "about 90% of minutes between the probable ones. Each line is the maximum over all selected watches.",
            Look.LINES,
            Unit.SECONDS,
            tuple(Target(_p99(bound), bound.replace("_", " ")) for bound in BOUND.values),
            LATE,
            width=12,
        ),
        Panel(
            "P99 by watch",
            "P99 of the last minute by watch: the highest estimate of all instances, at least what ticks resolve. "
            "A gap means no events.",
            Look.LINES,
            Unit.SECONDS,
            (Target(_p99(ESTIMATE, WATCH_LABELS), WATCH_LEGEND),),
            LATE,
            width=12,
        ),
        Panel(
            "Latency histogram",
            "Events by latency over time. Two bands mean two paths, for example two apiservers.",
            Look.HEATMAP,
            Unit.SECONDS,
            (Target(distribution(TIMESPAN, OF_WATCHES), "{{le}}"),),
            LATE,
            width=12,
        ),
        Panel(
            "P99 by hop",
            "P99 by part of the path: creation to etcd, etcd to the cache of the apiserver, cache to client. Measured "
            "only while a watch is late, or with `hops: true`. With `reference: true`, also how much later whole "
            "objects arrive.",
            Look.LINES,
            Unit.SECONDS,
            (
                Target(
                    quantile(0.99, "watchslo_hop_seconds", OF_WATCHES, ("cluster", "apiserver", "hop")),
                    "{{cluster}} {{apiserver}} {{hop}}",
                ),
                Target(
                    quantile(0.99, "watchslo_representation_delay_seconds", OF_WATCHES, WATCH_LABELS.split(", ")),
                    f"{WATCH_LEGEND} whole objects",
                ),
            ),
            LATE,
        ),
        Panel(
            "P99 from creation to watch",
            "From creationTimestamp to the arrival of ADDED events, corrected for the clock offset. It includes "
            "admission and etcd, so it is longer. Only for watches with creation timestamps.",
            Look.LINES,
            Unit.SECONDS,
            (
                Target(
                    quantile(0.99, "watchslo_creation_to_watch_seconds", OF_WATCHES, WATCH_LABELS.split(", ")),
                    WATCH_LEGEND,
                ),
            ),
            LATE,
        ),
        Panel(
            "Active causes",
            "1 while watchslo reports this cause of lateness; docs/causes.md explains each cause. The affected "
            "watches and apiservers are on the status page and in the log.",
            Look.STACK,
            Unit.COUNT,
            (Target(f"max by (cluster, cause) (watchslo_cause_active{{{OF_INSTANCES}}})", "{{cluster}} {{cause}}"),),
            NONE_IS_GOOD,
        ),
    ),
)

OBJECTIVE = Section(
    "Objectives",
    (
        Panel(
            "Burn rate",
            "Burn rate of the worst watch over four windows. At the default objective, 14.4 over 1 h and 6 over 6 h "
            "page; 3 over 1 d and 1 over 3 d warn. Requires the recording rules.",
            Look.LINES,
            Unit.TIMES,
            tuple(Target(_burn(window), window) for window in BURN_WINDOWS),
            BURN,
        ),
        Panel(
            "Remaining error budget by watch",
            "Share of the error budget that is left in the period of the objective. Requires the recording rules.",
            Look.LINES,
            Unit.SHARE,
            (Target(f"min by ({WATCH_LABELS}) ({BUDGET_LEFT}{{{RECORDED}}})", WATCH_LEGEND),),
            BUDGET,
        ),
        Panel(
            "Good minutes in 1 d by watch",
            "Share of the judged minutes of the preceding day with P99 within the threshold. Requires the recording "
            "rules.",
            Look.LINES,
            Unit.SHARE,
            (Target(f"min by ({WATCH_LABELS}) ({GOOD_MINUTES}{{{RECORDED}}})", WATCH_LEGEND),),
            MINUTES,
        ),
        Panel(
            "Minutes by verdict",
            "Minutes of all watches by verdict. undecided: the threshold lies between the proven bounds. no_data: too "
            "few events, or the monitor itself was late. A minute in which an event is proven to be withheld, or the "
            "watch is down, is bad.",
            Look.STACK,
            Unit.COUNT,
            tuple(
                Target(_windows(verdict), verdict, colour=colour)
                for verdict, colour in (
                    ("good", "green"),
                    ("bad", "red"),
                    ("undecided", "yellow"),
                    ("no_data", "text"),
                )
            ),
        ),
        Panel(
            "Events by proven verdict",
            "Events per second whose interval is proven to be within the threshold, beyond it, or neither (uncertain).",
            Look.STACK,
            Unit.EVENTS,
            tuple(
                Target(_proven(verdict), verdict, colour=colour)
                for verdict, colour in (("within", "green"), ("uncertain", "orange"), ("beyond", "red"))
            ),
        ),
        Panel(
            "Coverage by watch",
            "Share of the minutes of the last day that were judged. With low coverage, the ratio of good minutes is "
            "not representative. Requires the recording rules.",
            Look.LINES,
            Unit.SHARE,
            (Target(f"min by ({WATCH_LABELS}) ({COVERAGE}{{{RECORDED}}})", WATCH_LEGEND),),
            low_is_bad(0.1, 0.5),
        ),
        Panel(
            "Worst watches",
            "All watches over the displayed range, the slowest first: P99 from the histogram, share of events proven "
            "late, events per second, burn rate, remaining budget and good minutes.",
            Look.TABLE,
            Unit.SECONDS,
            (
                Target(quantile(0.99, TIMESPAN, OF_WATCHES, WATCH_LABELS.split(", "), "$__range"), "P99"),
                Target(_proven_late(WATCH_LABELS, "$__range"), "Proven late", Unit.SHARE),
                Target(
                    f"max by ({WATCH_LABELS}) (sum by ({WATCH_LABELS}, instance) "
                    f"(rate(watchslo_slo_events_total{{{OF_WATCHES}}}[$__range])))",
                    "Events",
                    Unit.EVENTS,
                ),
                Target(_burn("1h", WATCH_LABELS), "Burn rate, 1 h", Unit.TIMES),
                Target(f"min by ({WATCH_LABELS}) ({BUDGET_LEFT}{{{RECORDED}}})", "Remaining budget", Unit.SHARE),
                Target(f"min by ({WATCH_LABELS}) ({GOOD_MINUTES}{{{RECORDED}}})", "Good minutes, 1 d", Unit.SHARE),
            ),
            LATE,
            width=24,
        ),
    ),
)

CLIENTS = Section(
    "Controllers and other clients",
    (
        Panel(
            "P99 of reactions by step",
            "From the commit that asks for something to the commit that shows that its controller acted, over five "
            "minutes. Requires the recording rules.",
            Look.LINES,
            Unit.SECONDS,
            (Target(f'max by ({STEP_LABELS}) ({REACTION_P99}{{cluster=~"$cluster"}})', STEP_LEGEND),),
        ),
        Panel(
            "Oldest pending by step",
            "For how long the oldest object is proven to have waited. A line that rises is a controller that does not "
            "act. A gap: the watch may withhold events.",
            Look.LINES,
            Unit.SECONDS,
            (Target(f"max by ({STEP_LABELS}) ({OLDEST_PENDING}{{{OF_INSTANCES}}})", STEP_LEGEND),),
        ),
        Panel(
            "Staleness of caches by client",
            "For how long the cache of another program is proven to have lacked an event, for the programs whose page "
            "of metrics is read.",
            Look.LINES,
            Unit.SECONDS,
            (Target(f"max by ({CACHE_LABELS}) ({STALENESS}{{{OF_INSTANCES}, {AT_LEAST}}})", CACHE_LEGEND),),
        ),
    ),
)

BOARD = Board(
    "watchslo-slo",
    "watchslo / SLO",
    "Lateness of watch events against the objective. Budget, burn rate and good minutes require the recording rules. "
    + NEEDS_BASIC,
    VARIABLES,
    (NOW, ALL_WATCHES, LATENCY, OBJECTIVE, CLIENTS),
)
