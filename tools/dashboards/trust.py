"""Dashboard "Trust": the revision clock, the resolution of measurements, and the load of the monitor."""

from tools.dashboards.panels import (
    ALL_OR_NOTHING,
    APISERVER_LABELS,
    APISERVER_LEGEND,
    INSTANCE_LEGEND,
    NEEDS_BASIC,
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
    Target,
    Unit,
    distribution,
    high_is_bad,
    low_is_bad,
    number_panel,
    quantile,
    tick_targets,
)

TICKS = "watchslo_clock_tick_seconds"
CLOSE_TO_LATE = high_is_bad(0.1, 0.25)  # a quarter of the default objective's threshold: the alert on the resolution
LAG = high_is_bad(0.05, 0.25)
SOME = high_is_bad(0.01, 0.1)

WATCHSLO = f"and on (cluster, job, instance) watchslo_build_info{{{OF_INSTANCES}}}"
"""Restricts metrics that every process exposes to those of watchslo."""


def _instances(expr: str) -> tuple[Target, ...]:
    return (Target(expr, INSTANCE_LEGEND),)


def _by_watch(counter: str) -> str:
    return f"sum by ({WATCH_LABELS}) (rate({counter}{{{OF_WATCHES}}}[$__rate_interval]))"


NOW = Section(
    "Now",
    (
        number_panel(
            "Instances",
            "Instances of watchslo that Prometheus scrapes.",
            f"count (watchslo_build_info{{{OF_INSTANCES}}})",
            ALL_OR_NOTHING,
        ),
        number_panel(
            "Ticks per second",
            "Successful ticks of the revision clock, of all instances: about two per second each. Without ticks no "
            "event can be measured.",
            f'sum (rate(watchslo_clock_ticks_total{{{OF_APISERVERS}, result="ok"}}[$__rate_interval]))',
            low_is_bad(0.2, 1),
            Unit.REQUESTS,
        ),
        number_panel(
            "Commit interval",
            "Width of the newest interval between two ticks, of the widest clock. The commit time of a single event is "
            "known to this precision.",
            f"max (watchslo_clock_interval_seconds{{{OF_INSTANCES}}})",
            high_is_bad(2, 5),
            Unit.SECONDS,
        ),
        number_panel(
            "Storage proven",
            "1 if it is known what the revisions of every apiserver prove. With other storages latencies are unproven.",
            f"min (watchslo_storage_proven{{{OF_APISERVERS}}})",
            ALL_OR_NOTHING,
        ),
        number_panel(
            "Tainted time",
            "Share of the displayed range in which watchslo itself was late. Events received then are not measured.",
            f"sum (rate(watchslo_tainted_seconds_total{{{OF_INSTANCES}}}[$__range])) "
            f"/ count (watchslo_build_info{{{OF_INSTANCES}}})",
            SOME,
            Unit.SHARE,
        ),
        number_panel(
            "Unmeasured events",
            "Share of the received events that did not become samples, in the displayed range.",
            f"sum (rate(watchslo_unmeasured_events_total{{{OF_WATCHES}}}[$__range])) "
            f"/ sum (rate(watchslo_watch_events_total{{{OF_WATCHES}}}[$__range]))",
            SOME,
            Unit.SHARE,
        ),
        number_panel(
            "Judged minutes",
            "Share of judged minutes in the displayed range, of all watches. Idle watches have none.",
            f'sum (rate(watchslo_slo_windows_total{{{OF_WATCHES}, verdict=~"good|bad"}}[$__range])) '
            f"/ sum (rate(watchslo_slo_windows_total{{{OF_WATCHES}}}[$__range]))",
            low_is_bad(0.1, 0.5),
            Unit.SHARE,
        ),
        number_panel(
            "Configuration loaded",
            "1 if every instance runs its newest configuration; 0 if an instance refused it and keeps the old one.",
            f"min (watchslo_config_last_reload_successful{{{OF_INSTANCES}}})",
            ALL_OR_NOTHING,
        ),
    ),
)

CLOCK = Section(
    "Revision clock",
    (
        Panel(
            "Ticks by result",
            "Ticks per second of the selected apiservers: ok, slow (no answer within a second, so the next one uses "
            "another apiserver) or failed.",
            Look.STACK,
            Unit.REQUESTS,
            tick_targets(OF_APISERVERS),
        ),
        Panel(
            "Round trip of ticks",
            "By apiserver. The resolution is the median through the fastest one: shorter latencies cannot be "
            "measured, and an alert fires if it is above a quarter of the threshold.",
            Look.LINES,
            Unit.SECONDS,
            (
                *(
                    Target(
                        quantile(q, TICKS, OF_APISERVERS, ("cluster", "apiserver")),
                        f"{APISERVER_LEGEND} P{q * 100:.0f}",
                    )
                    for q in (0.5, 0.99)
                ),
                Target(
                    f"max by (cluster, domain) (watchslo_clock_resolution_seconds{{{OF_INSTANCES}}})",
                    "{{cluster}} {{domain}} resolution",
                ),
            ),
            CLOSE_TO_LATE,
        ),
        Panel(
            "Round trip histogram",
            "Ticks by round trip. A second band is a second path, or a proxy that stalls at times.",
            Look.HEATMAP,
            Unit.SECONDS,
            (Target(distribution(TICKS, OF_APISERVERS), "{{le}}"),),
            CLOSE_TO_LATE,
        ),
        Panel(
            "Width of the commit interval",
            "Width of the newest interval between ticks, about half a second. The wider it is, the fewer quantiles are "
            "resolved.",
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
            "Clock offset of apiservers",
            "Bounds of the wall clock of the apiserver minus that of watchslo. Only creation timestamps depend on it. "
            "The interval is a second wide at first and narrows.",
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
            "Revisions per second",
            "Revisions per second of the whole storage: the write rate of etcd. Negative after a restore.",
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
    "Samples",
    (
        Panel(
            "Measured and unmeasured events",
            "Events per second that became samples, and those that did not, by reason.",
            Look.STACK,
            Unit.EVENTS,
            (
                Target(
                    f"sum (rate(watchslo_slo_events_total{{{OF_WATCHES}}}[$__rate_interval]))",
                    "measured",
                    colour="green",
                ),
                Target(
                    f"sum by (reason) (rate(watchslo_unmeasured_events_total{{{OF_WATCHES}}}[$__rate_interval]))",
                    "unmeasured: {{reason}}",
                ),
            ),
        ),
        Panel(
            "Unresolved events",
            "Share of the samples whose whole interval is below the round trip of a tick: fast, but not resolved. "
            "Requires `metrics: full`.",
            Look.LINES,
            Unit.SHARE,
            (
                Target(
                    f"{_by_watch('watchslo_unresolved_events_total')} / {_by_watch('watchslo_slo_events_total')}",
                    WATCH_LEGEND,
                ),
            ),
        ),
        Panel(
            "Inconclusive audits",
            "Audits that failed or proved nothing. Without conclusive audits, a dead watch looks idle.",
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
    "Monitor",
    (
        Panel(
            "Loop lag",
            "Lateness of the heartbeats of watchslo. Events that arrive while the loop lags are tainted and not "
            "measured.",
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
            "Tainted time by instance",
            "Share of time in which watchslo itself was late, by instance.",
            Look.LINES,
            Unit.SHARE,
            _instances(
                f"sum by (cluster, instance) (rate(watchslo_tainted_seconds_total{{{OF_INSTANCES}}}[$__rate_interval]))"
            ),
            SOME,
        ),
        Panel(
            "CPU",
            "Cores used by each instance. An instance near its CPU limit is throttled, and its loop lags.",
            Look.LINES,
            Unit.CORES,
            _instances(f"rate(process_cpu_seconds_total[$__rate_interval]) {WATCHSLO}"),
            high_is_bad(0.5, 0.9),
        ),
        Panel(
            "Memory",
            "Resident memory of each instance. It depends on the number of watches and the event rate, not on uptime.",
            Look.LINES,
            Unit.BYTES,
            _instances(f"process_resident_memory_bytes {WATCHSLO}"),
            high_is_bad(512 * 2**20, 2**30),
        ),
        Panel(
            "Scrape duration",
            "Duration of a scrape, by instance.",
            Look.LINES,
            Unit.SECONDS,
            _instances(f"scrape_duration_seconds {WATCHSLO}"),
            high_is_bad(0.5, 5),
        ),
        Panel(
            "Series",
            "Samples in a scrape, by instance: at most 53 per watch with `metrics: basic`.",
            Look.LINES,
            Unit.COUNT,
            _instances(f"scrape_samples_scraped {WATCHSLO}"),
            high_is_bad(25_000, 100_000),
        ),
        Panel(
            "Configuration age",
            "Time since the last successful reload, by instance. Later changes of the file are not in force.",
            Look.LINES,
            Unit.SECONDS,
            _instances(
                "max by (cluster, instance) "
                f"(time() - watchslo_config_last_reload_success_timestamp_seconds{{{OF_INSTANCES}}})"
            ),
        ),
        Panel(
            "Requests to the apiserver",
            "Requests per second by instance and apiserver; `limits` has the hard caps.",
            Look.LINES,
            Unit.REQUESTS,
            (
                Target(
                    "sum by (cluster, instance, apiserver) "
                    f"(rate(watchslo_api_requests_total{{{OF_APISERVERS}}}[$__rate_interval]))",
                    f"{INSTANCE_LEGEND} {{{{apiserver}}}}",
                ),
            ),
            high_is_bad(16, 20),
        ),
        Panel(
            "Versions",
            "Version, revision and Python version of the instances.",
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
    "watchslo / Trust",
    f"State of the revision clock, resolution of the measurements, and load of watchslo. {NEEDS_BASIC}",
    VARIABLES,
    (NOW, CLOCK, SAMPLES, MONITOR),
)
