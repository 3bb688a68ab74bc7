"""Watch SLO: is it kept now, what is left of its budget, and which resource is the worst."""

from tools.dashboards.panels import (
    LATE,
    LATE_SHARE,
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
    high_is_bad,
    low_is_bad,
    quantile,
)

TIMESPAN = "watchslo_apiserver_timespan_seconds"
WINDOW = "watchslo_apiserver_timespan_window_seconds"
BURN_RATE = "apiserver_resource:watchslo_error_budget:burn_rate"
BUDGET_LEFT = "apiserver_resource:watchslo_error_budget:remaining_ratio"
GOOD_MINUTES = "apiserver_resource:watchslo_good_windows:ratio_increase1d"
COVERAGE = "apiserver_resource:watchslo_judged_windows:ratio_increase1d"
BURN_WINDOWS = ("1h", "6h", "1d", "3d")
BURN = high_is_bad(1, 6)  # spends the budget just by the period's end; pages
BUDGET = low_is_bad(0, 0.25)
MINUTES = low_is_bad(0.99, 0.999)  # the default objective, and a tenth of its budget's tenfold


def _p99(bound: str, by: str = "") -> str:
    grouping = f" by ({by})" if by else ""
    return f'max{grouping} ({WINDOW}{{{OF_WATCHES}, q="0.99", window="1m", bound="{bound}"}})'


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


def _number(title: str, description: str, unit: Unit, expr: str, thresholds: tuple[Step, ...]) -> Panel:
    return Panel(title, description, Look.NUMBER, unit, (Target(expr, title),), thresholds, width=3, height=4)


NOW = Section(
    "Now",
    (
        _number(
            "P99",
            "P99 of ApiserverTimeSpan in the last minute: from the commit of a change to the arrival of its event. "
            "That of the worst watch chosen; the objective is 1 s unless configured.",
            Unit.SECONDS,
            _p99("estimate"),
            LATE,
        ),
        _number(
            "Proven late",
            "Share of events whose whole interval lies beyond their threshold: late beyond doubt, "
            "whatever the threshold of each watch.",
            Unit.SHARE,
            f"{_proven('beyond')} / sum (rate(watchslo_slo_events_total{{{OF_WATCHES}}}[$__rate_interval]))",
            LATE_SHARE,
        ),
        _number(
            "Budget left",
            "Share of the error budget that the worst watch has left for the objective's period; below 0 the "
            "objective is missed. Needs the recording rules of `watchslo rules`.",
            Unit.SHARE,
            f"min ({BUDGET_LEFT}{{{RECORDED}}})",
            BUDGET,
        ),
        _number(
            "Burn rate, 1 h",
            "How many times faster than allowed the worst watch spent its error budget in the last hour: at 1 "
            "it lasts just for the period. Needs the recording rules.",
            Unit.TIMES,
            _burn("1h"),
            BURN,
        ),
        _number(
            "Good minutes, 1 d",
            "Share of the judged minutes of the last day whose P99 was within the threshold, for the worst watch. "
            "Needs the recording rules.",
            Unit.SHARE,
            f"min ({GOOD_MINUTES}{{{RECORDED}}})",
            MINUTES,
        ),
        _number(
            "Watches not open",
            "Watches that are not open at this moment. One that reopens is seen here for a second or two.",
            Unit.COUNT,
            f"sum (1 - watchslo_watch_up{{{OF_WATCHES}}})",
            NONE_IS_GOOD,
        ),
        _number(
            "Stalled",
            "Watches from which events are withheld, or whose cache in the apiserver is frozen. Nothing can be "
            "measured of them, so P99 does not tell.",
            Unit.COUNT,
            f"sum (watchslo_watch_stalled{{{OF_WATCHES}}})",
            NONE_IS_GOOD,
        ),
        _number(
            "Events behind P99",
            "Events of the last minute that the quantiles stand on, of all watches chosen. With fewer than a "
            "hundred a watch, P99 is that of one or two events.",
            Unit.COUNT,
            f'sum (watchslo_apiserver_timespan_window_events{{{OF_WATCHES}, window="1m"}})',
            (Step(None, "orange"), Step(100, "green")),
        ),
    ),
)

LATENCY = Section(
    "How late",
    (
        Panel(
            "P50, P90 and P99 of all watches chosen",
            "Quantiles of ApiserverTimeSpan, from the histogram, so that they hold for any choice of watches and "
            "instances. The threshold is the smallest in force.",
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
            "P99 of the worst watch, with its bounds",
            "The worst P99 of the last minute. Its true value lies between the two bounds, which need no "
            "statistics: they are the worst of all watches' bounds. Choose one watch to see its own.",
            Look.LINES,
            Unit.SECONDS,
            tuple(Target(_p99(bound), bound) for bound in ("lower", "estimate", "upper")),
            LATE,
            width=12,
        ),
        Panel(
            "P99 by watch",
            "P99 of the last minute of each watch, as the instance estimates it that sees it worst. A gap means "
            "no events, or all of them faster than a tick's round trip.",
            Look.LINES,
            Unit.SECONDS,
            (Target(_p99("estimate", WATCH_LABELS), WATCH_LEGEND),),
            LATE,
            width=12,
        ),
        Panel(
            "Histogram",
            "All events by how late they came, over time. Two bands mean two ways to you, such as two apiservers.",
            Look.HEATMAP,
            Unit.SECONDS,
            (Target(f"sum by (le) (increase({TIMESPAN}_bucket{{{OF_WATCHES}}}[$__rate_interval]))", "{{le}}"),),
            LATE,
            width=12,
        ),
        Panel(
            "P99 by hop",
            "Where the time goes: creation to etcd, etcd to the apiserver's cache, cache to you. Measured only "
            "while a watch is late, or with `hops: true`.",
            Look.LINES,
            Unit.SECONDS,
            (
                Target(
                    quantile(0.99, "watchslo_hop_seconds", OF_WATCHES, ("cluster", "apiserver", "hop")),
                    "{{cluster}} {{apiserver}} {{hop}}",
                ),
            ),
            LATE,
        ),
        Panel(
            "P99 from creation to watch",
            "From creationTimestamp to the arrival of ADDED events, the clocks' offset removed: with admission and "
            "etcd, so it is longer. Only where creation timestamps are measured.",
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
            "Why, as far as can be told",
            "1 while watchslo names this as the cause of late watches; docs/causes.md says what each means. The "
            "names of watches and apiservers are in its page and its log.",
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
            "How many times faster than allowed the worst watch spends its budget, over four windows: 14.4 over 1 h "
            "and 6 over 6 h page, 3 over 1 d and 1 over 3 d warn. Needs the recording rules.",
            Look.LINES,
            Unit.TIMES,
            tuple(Target(_burn(window), window) for window in BURN_WINDOWS),
            BURN,
        ),
        Panel(
            "Error budget left, by watch",
            "Share of the budget of late events that is left for the objective's period. Needs the recording rules.",
            Look.LINES,
            Unit.SHARE,
            (Target(f"min by ({WATCH_LABELS}) ({BUDGET_LEFT}{{{RECORDED}}})", WATCH_LEGEND),),
            BUDGET,
        ),
        Panel(
            "Good minutes a day, by watch",
            "Share of the judged minutes of the day before each point whose P99 was within the threshold. "
            "Needs the recording rules.",
            Look.LINES,
            Unit.SHARE,
            (Target(f"min by ({WATCH_LABELS}) ({GOOD_MINUTES}{{{RECORDED}}})", WATCH_LEGEND),),
            MINUTES,
        ),
        Panel(
            "Minutes by verdict",
            "Minutes that were judged, of all watches: no_data had too few events, or the monitor itself was late. "
            "One in which an event was proven to be withheld is bad.",
            Look.STACK,
            Unit.COUNT,
            tuple(
                Target(_windows(verdict), verdict, colour=colour)
                for verdict, colour in (("good", "green"), ("bad", "red"), ("no_data", "text"))
            ),
        ),
        Panel(
            "Events by proof",
            "Events a second by what their interval proves of the threshold: within, beyond, or neither (uncertain).",
            Look.STACK,
            Unit.EVENTS,
            tuple(
                Target(_proven(verdict), verdict, colour=colour)
                for verdict, colour in (("within", "green"), ("uncertain", "orange"), ("beyond", "red"))
            ),
        ),
        Panel(
            "Coverage, by watch",
            "Share of the last day's minutes that were judged at all. A good ratio over few judged minutes says "
            "little. Needs the recording rules.",
            Look.LINES,
            Unit.SHARE,
            (Target(f"min by ({WATCH_LABELS}) ({COVERAGE}{{{RECORDED}}})", WATCH_LEGEND),),
            low_is_bad(0.1, 0.5),
        ),
        Panel(
            "Worst watches",
            "Each watch over the time shown, the slowest first: P99 from the histogram, the share proven late, its "
            "events, and what is left of its budget and of its day.",
            Look.TABLE,
            Unit.SECONDS,
            (
                Target(quantile(0.99, TIMESPAN, OF_WATCHES, WATCH_LABELS.split(", "), "$__range"), "P99"),
                Target(_proven_late(WATCH_LABELS, "$__range"), "Proven late", Unit.SHARE),
                Target(
                    f"max by ({WATCH_LABELS}) (sum by ({WATCH_LABELS}, instance) "
                    f"(rate({TIMESPAN}_count{{{OF_WATCHES}}}[$__range])))",
                    "Events",
                    Unit.EVENTS,
                ),
                Target(_burn("1h", WATCH_LABELS), "Burn rate, 1 h", Unit.TIMES),
                Target(f"min by ({WATCH_LABELS}) ({BUDGET_LEFT}{{{RECORDED}}})", "Budget left", Unit.SHARE),
                Target(f"min by ({WATCH_LABELS}) ({GOOD_MINUTES}{{{RECORDED}}})", "Good minutes, 1 d", Unit.SHARE),
            ),
            LATE,
            width=24,
        ),
    ),
)

BOARD = Board(
    "watchslo-slo",
    "Watch SLO",
    "How late watch events are, against the objective. Budget, burn rate and good minutes need the recording rules.",
    VARIABLES,
    (NOW, LATENCY, OBJECTIVE),
)
