"""Can I trust it?: whether the clock ticks, how finely it cuts, and whether the monitor itself keeps up."""

from tools.dashboards.panels import (
    ALL_OR_NOTHING,
    APISERVER_LABELS,
    APISERVER_LEGEND,
    INSTANCE_LEGEND,
    NONE_IS_GOOD,
    OF_APISERVERS,
    OF_INSTANCES,
    OF_WATCHES,
    PLAIN,
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

TICKS = "watchslo_clock_tick_seconds"
CLOSE_TO_LATE = high_is_bad(0.1, 0.5)  # half of the default objective's threshold
LAG = high_is_bad(0.05, 0.25)
SOME = high_is_bad(0.01, 0.1)

WATCHSLO = f"and on (cluster, job, instance) watchslo_build_info{{{OF_INSTANCES}}}"
"""Keeps, of what every scraped process exposes, that of watchslo."""


def _number(title: str, description: str, expr: str, thresholds: tuple[Step, ...], unit: Unit = Unit.COUNT) -> Panel:
    return Panel(title, description, Look.NUMBER, unit, (Target(expr, title),), thresholds, width=3, height=4)


def _instances(expr: str) -> tuple[Target, ...]:
    return (Target(expr, INSTANCE_LEGEND),)


def _by_watch(counter: str) -> str:
    return f"sum by ({WATCH_LABELS}) (rate({counter}{{{OF_WATCHES}}}[$__rate_interval]))"


NOW = Section(
    "Now",
    (
        _number(
            "Instances",
            "Instances of watchslo that are scraped.",
            f"count (watchslo_build_info{{{OF_INSTANCES}}})",
            ALL_OR_NOTHING,
        ),
        _number(
            "Ticks a second",
            "Ticks of the revision clock that succeeded, of all instances: two a second each. Without them nothing can "
            "be dated.",
            f'sum (rate(watchslo_clock_ticks_total{{{OF_APISERVERS}, result="ok"}}[$__rate_interval]))',
            low_is_bad(0.2, 1),
            Unit.REQUESTS,
        ),
        _number(
            "Commit interval",
            "Width of the newest interval that two ticks cut, the widest of all: the commit of a single event is "
            "known to no better than this.",
            f"max (watchslo_clock_interval_seconds{{{OF_INSTANCES}}})",
            high_is_bad(2, 5),
            Unit.SECONDS,
        ),
        _number(
            "Storage proven",
            "1 if the revisions of every apiserver are known to be etcd's. With k3s and others they are not, and "
            "latencies are unproven.",
            f"min (watchslo_storage_proven{{{OF_APISERVERS}}})",
            ALL_OR_NOTHING,
        ),
        _number(
            "Tainted",
            "Share of the time shown in which the monitor was too late itself to blame anybody. What arrived then is "
            "left out.",
            f"sum (rate(watchslo_tainted_seconds_total{{{OF_INSTANCES}}}[$__range])) "
            f"/ count (watchslo_build_info{{{OF_INSTANCES}}})",
            SOME,
            Unit.SHARE,
        ),
        _number(
            "Unmeasured",
            "Share of the events received in the time shown that are no sample.",
            f"sum (rate(watchslo_unmeasured_events_total{{{OF_WATCHES}}}[$__range])) "
            f"/ sum (rate(watchslo_watch_events_total{{{OF_WATCHES}}}[$__range]))",
            SOME,
            Unit.SHARE,
        ),
        _number(
            "Judged minutes",
            "Share of the minutes in the time shown that could be judged, of all watches. Idle watches have none.",
            f'sum (rate(watchslo_slo_windows_total{{{OF_WATCHES}, verdict=~"good|bad"}}[$__range])) '
            f"/ sum (rate(watchslo_slo_windows_total{{{OF_WATCHES}}}[$__range]))",
            low_is_bad(0.1, 0.5),
            Unit.SHARE,
        ),
        _number(
            "Configuration in force",
            "1 if every instance runs with its newest configuration; 0 if one was refused and the one before it stays.",
            f"min (watchslo_config_last_reload_successful{{{OF_INSTANCES}}})",
            ALL_OR_NOTHING,
        ),
    ),
)

CLOCK = Section(
    "The revision clock",
    (
        Panel(
            "Ticks by result",
            "Ticks a second: ok, slow (no answer within a second; the next one goes another way) or failed.",
            Look.STACK,
            Unit.REQUESTS,
            (
                Target(
                    "sum by (cluster, apiserver, result) "
                    f"(rate(watchslo_clock_ticks_total{{{OF_APISERVERS}}}[$__rate_interval]))",
                    f"{APISERVER_LEGEND} {{{{result}}}}",
                ),
            ),
        ),
        Panel(
            "Round trip of the ticks",
            "Nothing shorter is resolved. Over half of the threshold, late and in time cannot be told apart.",
            Look.LINES,
            Unit.SECONDS,
            tuple(
                Target(
                    quantile(q, TICKS, OF_APISERVERS, ("cluster", "apiserver")), f"{APISERVER_LEGEND} P{q * 100:.0f}"
                )
                for q in (0.5, 0.99)
            ),
            CLOSE_TO_LATE,
        ),
        Panel(
            "Ticks' round trips",
            "All ticks by their round trip. A second band is a second way, or a proxy that is asleep now and then.",
            Look.HEATMAP,
            Unit.SECONDS,
            (Target(f"sum by (le) (increase({TICKS}_bucket{{{OF_APISERVERS}}}[$__rate_interval]))", "{{le}}"),),
            CLOSE_TO_LATE,
        ),
        Panel(
            "Width of the commit interval",
            "Width of the newest interval that the ticks cut, about half a second. The wider, the fewer quantiles "
            "are resolved.",
            Look.LINES,
            Unit.SECONDS,
            (
                Target(
                    f"max by (cluster, domain) (watchslo_clock_interval_seconds{{{OF_INSTANCES}}})",
                    "{{cluster}} {{domain}}",
                ),
            ),
            high_is_bad(2, 5),
        ),
        Panel(
            "Offset of the apiservers' clocks",
            "Interval that holds the apiserver's wall clock minus ours. Only creation timestamps need it; latencies do "
            "not. It is a second wide at first, and narrows.",
            Look.LINES,
            Unit.SECONDS,
            (
                Target(
                    "max by (cluster, apiserver) "
                    f'(watchslo_apiserver_clock_offset_seconds{{{OF_APISERVERS}, bound="upper"}})',
                    f"{APISERVER_LEGEND} at most",
                ),
                Target(
                    "min by (cluster, apiserver) "
                    f'(watchslo_apiserver_clock_offset_seconds{{{OF_APISERVERS}, bound="lower"}})',
                    f"{APISERVER_LEGEND} at least",
                ),
            ),
            high_is_bad(1, 5),
        ),
        Panel(
            "Revisions",
            "Revisions a second, of the whole storage: how busy etcd is. Below 0 it went back, as after a restore.",
            Look.LINES,
            Unit.EVENTS,
            (
                Target(
                    f"max by (cluster, domain) (deriv(watchslo_resource_version{{{OF_INSTANCES}}}[$__rate_interval]))",
                    "{{cluster}} {{domain}}",
                ),
            ),
        ),
    ),
)

SAMPLES = Section(
    "What is measured",
    (
        Panel(
            "Events measured and not",
            "Events a second that became samples, and those that did not.",
            Look.STACK,
            Unit.EVENTS,
            (
                Target(
                    f"sum (rate(watchslo_apiserver_timespan_seconds_count{{{OF_WATCHES}}}[$__rate_interval]))",
                    "measured",
                    colour="green",
                ),
                Target(
                    f"sum by (reason) (rate(watchslo_unmeasured_events_total{{{OF_WATCHES}}}[$__rate_interval]))",
                    "not: {{reason}}",
                ),
            ),
        ),
        Panel(
            "Unresolved",
            "Share of the events whose whole interval lies below the ticks' round trip: fast, and nobody can say how "
            "fast. Needs `metrics: full`.",
            Look.LINES,
            Unit.SHARE,
            (
                Target(
                    f"{_by_watch('watchslo_unresolved_events_total')} / "
                    f"{_by_watch('watchslo_apiserver_timespan_seconds_count')}",
                    WATCH_LEGEND,
                ),
            ),
        ),
        Panel(
            "Audits that prove nothing",
            "Audits that failed, or that proved nothing: while they do, a dead watch looks idle.",
            Look.STACK,
            Unit.COUNT,
            (
                Target(
                    f"sum by ({APISERVER_LABELS}, result) (increase(watchslo_audits_total"
                    f'{{{OF_APISERVERS}, result=~"failed|unproven"}}[$__rate_interval]))',
                    f"{APISERVER_LEGEND} {{{{result}}}}",
                ),
            ),
            NONE_IS_GOOD,
        ),
    ),
)

MONITOR = Section(
    "The monitor itself",
    (
        Panel(
            "Loop lag",
            "How late the monitor's own heartbeats were. What arrives while it lags is tainted, and left out.",
            Look.LINES,
            Unit.SECONDS,
            tuple(
                Target(
                    quantile(q, "watchslo_loop_lag_seconds", OF_INSTANCES, ("cluster", "instance")),
                    f"{INSTANCE_LEGEND} P{q * 100:.0f}",
                )
                for q in (0.5, 0.99)
            ),
            LAG,
        ),
        Panel(
            "Tainted",
            "Share of the time in which the monitor was too late itself to blame anybody.",
            Look.LINES,
            Unit.SHARE,
            _instances(
                f"sum by (cluster, instance) (rate(watchslo_tainted_seconds_total{{{OF_INSTANCES}}}[$__rate_interval]))"
            ),
            SOME,
        ),
        Panel(
            "CPU",
            "Cores that each instance uses. Near its limit it is throttled, and lags.",
            Look.LINES,
            Unit.COUNT,
            _instances(f"rate(process_cpu_seconds_total[$__rate_interval]) {WATCHSLO}"),
            high_is_bad(0.5, 0.9),
        ),
        Panel(
            "Memory",
            "Resident memory of each instance. It grows with watches and their events a second, and not with time.",
            Look.LINES,
            Unit.BYTES,
            _instances(f"process_resident_memory_bytes {WATCHSLO}"),
            high_is_bad(512 * 2**20, 2**30),
        ),
        Panel(
            "Scrape duration",
            "How long Prometheus took for a scrape of each instance.",
            Look.LINES,
            Unit.SECONDS,
            _instances(f"scrape_duration_seconds {WATCHSLO}"),
            high_is_bad(0.5, 5),
        ),
        Panel(
            "Series",
            "Samples in a scrape of each instance: at most 50 a watch with `metrics: basic`.",
            Look.LINES,
            Unit.COUNT,
            _instances(f"scrape_samples_scraped {WATCHSLO}"),
            high_is_bad(25_000, 100_000),
        ),
        Panel(
            "Time since the configuration was loaded",
            "It starts anew with each reload that succeeded. What was changed later than that is not in force.",
            Look.LINES,
            Unit.SECONDS,
            _instances(
                "max by (cluster, instance) "
                f"(time() - watchslo_config_last_reload_success_timestamp_seconds{{{OF_INSTANCES}}})"
            ),
        ),
        Panel(
            "Requests to the apiserver",
            "Requests a second of each instance: what it costs. `limits.requestsPerSecond` is a hard cap.",
            Look.LINES,
            Unit.REQUESTS,
            (
                Target(
                    "sum by (cluster, instance, apiserver) "
                    f"(rate(watchslo_api_requests_total{{{OF_APISERVERS}}}[$__rate_interval]))",
                    f"{INSTANCE_LEGEND} {{{{apiserver}}}}",
                ),
            ),
            high_is_bad(8, 10),
        ),
        Panel(
            "Versions",
            "Which code each instance runs.",
            Look.TABLE,
            Unit.COUNT,
            (
                Target(
                    "count by (cluster, instance, version, revision, python_version) "
                    f"(watchslo_build_info{{{OF_INSTANCES}}})",
                    "Instances",
                ),
            ),
            PLAIN,
        ),
    ),
)

BOARD = Board(
    "watchslo-trust",
    "Can I trust it?",
    "Whether watchslo's own clock ticks, how finely it measures, and whether it keeps up.",
    VARIABLES,
    (NOW, CLOCK, SAMPLES, MONITOR),
)
