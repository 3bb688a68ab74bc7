"""Dashboard "Apiserver": the metrics of the apiserver, compared with what watchslo measures as a client.

The metrics are those of Kubernetes 1.36, from the package `storage/cacher/metrics` of the apiserver and related ones.
"""

from tools.dashboards.panels import (
    CLUSTER,
    NEEDS_BASIC,
    NONE_IS_GOOD,
    OF_APISERVERS,
    OF_INSTANCES,
    OF_WATCHES,
    VARIABLES,
    Board,
    Look,
    Panel,
    Section,
    Target,
    Unit,
    Variable,
    high_is_bad,
    low_is_bad,
    quantile,
)

RESOURCE = Variable("resource", "Resource", "watchslo_watch_up", 'cluster=~"$cluster", watch=~"$watch"')
WATCHSLO_MATCHERS = f'{OF_WATCHES}, resource=~"$resource"'
APISERVER_MATCHERS = 'cluster=~"$cluster", resource=~"$resource"'
BY = ("cluster", "resource")
LEGEND = "{{cluster}} {{resource}}"
SLOW = high_is_bad(0.1, 0.5)
BUSY = 1  # events a second

SCOPE_NOTE = "The apiserver counts all its clients, watchslo its own watch."
APISERVERS = f'and on (cluster, job, instance) apiserver_longrunning_requests{{{CLUSTER.name}=~"$cluster"}}'
"""Restricts metrics that every process exposes to those of apiservers."""


def _of_apiserver(counter: str, labels: str = "cluster, resource", matchers: str = APISERVER_MATCHERS) -> str:
    return f"sum by ({labels}) (rate({counter}{{{matchers}}}[$__rate_interval]))"


def _of_watchslo(counter: str, matchers: str = WATCHSLO_MATCHERS) -> str:
    """Return the highest rate of all instances: each instance opens its own watch."""
    rates = f"sum by (cluster, resource, instance) (rate({counter}{{{matchers}}}[$__rate_interval]))"
    return f"max by (cluster, resource) ({rates})"


def _increase(counter: str, matchers: str, labels: str = "cluster, resource") -> str:
    return f"sum by ({labels}) (increase({counter}{{{matchers}}}[$__rate_interval]))"


def _comparison(apiserver: str, watchslo: str) -> tuple[Target, ...]:
    return Target(apiserver, f"apiserver: {LEGEND}"), Target(watchslo, f"watchslo: {LEGEND}")


EVENTS = Section(
    "Events",
    (
        Panel(
            "Open watches",
            "Watches that each apiserver serves, by resource. The apiserver sends each event once per watch.",
            Look.STACK,
            Unit.COUNT,
            (
                Target(
                    "sum by (cluster, resource) "
                    f'(apiserver_longrunning_requests{{{APISERVER_MATCHERS}, verb="WATCH"}})',
                    f"apiserver: {LEGEND}",
                ),
                Target(f"sum by (cluster, resource) (watchslo_watch_up{{{WATCHSLO_MATCHERS}}})", f"watchslo: {LEGEND}"),
            ),
        ),
        Panel(
            "Events sent and received",
            f"{SCOPE_NOTE} Events per second that the apiserver sent on watches, and that watchslo received.",
            Look.LINES,
            Unit.EVENTS,
            _comparison(_of_apiserver("apiserver_watch_events_total"), _of_watchslo("watchslo_watch_events_total")),
        ),
        Panel(
            "Bytes sent and received",
            f"{SCOPE_NOTE} Bytes per second of watch events. watchslo requires `metrics: full` and requests the "
            "smallest representation.",
            Look.LINES,
            Unit.BYTE_RATE,
            _comparison(_of_apiserver("apiserver_watch_events_sizes_sum"), _of_watchslo("watchslo_watch_bytes_total")),
        ),
        Panel(
            "Events from etcd to the cache",
            "Events per second that the apiserver received from etcd, that its cache dispatched to watches, and that "
            "watchslo measured. If dispatched lags behind received, the cache is behind.",
            Look.LINES,
            Unit.EVENTS,
            (
                Target(_of_apiserver("apiserver_watch_cache_events_received_total"), f"received: {LEGEND}"),
                Target(_of_apiserver("apiserver_watch_cache_events_dispatched_total"), f"dispatched: {LEGEND}"),
                Target(_of_watchslo("watchslo_slo_events_total"), f"watchslo: {LEGEND}"),
            ),
        ),
        Panel(
            "Cache lag in revisions",
            "Newest revision known to watchslo minus the revision of the apiserver cache, for busy resources only: "
            "the cache of an idle resource advances only with bookmarks from etcd.",
            Look.LINES,
            Unit.COUNT,
            (
                Target(
                    f"max by (cluster) (watchslo_resource_version{{{OF_INSTANCES}}}) - on (cluster) "
                    "group_right min by (cluster, resource) "
                    f"(apiserver_watch_cache_resource_version{{{APISERVER_MATCHERS}}}) "
                    f"and {_of_apiserver('apiserver_watch_cache_events_received_total')} > {BUSY}",
                    LEGEND,
                ),
            ),
            high_is_bad(1000, 10_000),
        ),
        Panel(
            "Wait for a fresh cache",
            "P99 of how long reads waited for a fresh cache, and P99 of ApiserverTimeSpan. If the cache is behind, "
            "both rise together.",
            Look.LINES,
            Unit.SECONDS,
            _comparison(
                quantile(0.99, "apiserver_watch_cache_read_wait_seconds", APISERVER_MATCHERS, BY),
                quantile(0.99, "watchslo_apiserver_timespan_seconds", WATCHSLO_MATCHERS, BY),
            ),
            SLOW,
        ),
    ),
)

ENDS = Section(
    "Closes and starts",
    (
        Panel(
            "Terminated watches",
            "Watches that the apiserver closed because their client read too slowly, by resource, and watches of "
            "watchslo that a server closed, by apiserver. The first one of a resource creates its series and is not "
            "displayed.",
            Look.STACK,
            Unit.COUNT,
            (
                Target(_increase("apiserver_terminated_watchers_total", APISERVER_MATCHERS), f"apiserver: {LEGEND}"),
                Target(
                    _increase(
                        "watchslo_watches_closed_total", f'{OF_APISERVERS}, class="server"', "cluster, apiserver"
                    ),
                    "watchslo: {{cluster}} {{apiserver}}",
                ),
            ),
            NONE_IS_GOOD,
        ),
        Panel(
            "Cache initialisations and relists",
            "Initialisations of an apiserver cache, each of which closes all watches of the resource, and relists of "
            "watchslo.",
            Look.STACK,
            Unit.COUNT,
            (
                Target(
                    _increase("apiserver_watch_cache_initializations_total", APISERVER_MATCHERS), f"apiserver: {LEGEND}"
                ),
                Target(
                    _increase("watchslo_relists_total", f'{WATCHSLO_MATCHERS}, reason!~"start|inventory"'),
                    f"watchslo: {LEGEND}",
                ),
            ),
            NONE_IS_GOOD,
        ),
        Panel(
            "Initial events",
            "Objects per second sent as initial events: to all clients that watch from resourceVersion 0 or stream "
            "their lists, and by apiserver to watchslo (`list: stream`).",
            Look.LINES,
            Unit.EVENTS,
            (
                Target(_of_apiserver("apiserver_init_events_total"), f"apiserver: {LEGEND}"),
                Target(
                    f"sum by (cluster, apiserver) (rate(watchslo_initial_events_total{{{OF_APISERVERS}}}"
                    "[$__rate_interval]))",
                    "watchslo: {{cluster}} {{apiserver}}",
                ),
            ),
            high_is_bad(1000, 10_000),
        ),
        Panel(
            "Streamed lists",
            "P99 duration of streamed lists in the preceding hour, measured by the apiserver and by watchslo "
            "(`list: stream`).",
            Look.LINES,
            Unit.SECONDS,
            (
                Target(
                    quantile(0.99, "apiserver_watch_list_duration_seconds", APISERVER_MATCHERS, BY, "1h"),
                    f"apiserver: {LEGEND}",
                ),
                Target(
                    quantile(
                        0.99,
                        "watchslo_list_duration_seconds",
                        f'{OF_APISERVERS}, strategy="stream"',
                        ("cluster", "apiserver"),
                        "1h",
                    ),
                    "watchslo: {{cluster}} {{apiserver}}",
                ),
            ),
            high_is_bad(5, 30),
        ),
        Panel(
            "Lists from the cache",
            "Lists per second served from the cache of the apiserver, and relists of watchslo. A peak means that many "
            "clients lost their watches.",
            Look.LINES,
            Unit.REQUESTS,
            _comparison(_of_apiserver("apiserver_cache_list_total"), _of_watchslo("watchslo_relists_total")),
        ),
        Panel(
            "Headroom of the cache",
            "Capacity of the cache in events, by resource; divided by events per second it is the headroom. watchslo "
            "measures it in revisions of the whole storage (`metrics: full`).",
            Look.LINES,
            Unit.COUNT,
            (
                Target(
                    f"min by (cluster, resource) (watch_cache_capacity{{{APISERVER_MATCHERS}}})", f"apiserver: {LEGEND}"
                ),
                Target(
                    f"min by (cluster, resource) (watchslo_watch_headroom_revisions{{{WATCHSLO_MATCHERS}}})",
                    f"watchslo: {LEGEND}",
                ),
            ),
            low_is_bad(50, 100),
        ),
    ),
)

LOAD = Section(
    "Load",
    (
        Panel(
            "Latency of etcd requests",
            "P99 of the requests of the apiserver to etcd, and P99 of the ticks of watchslo, which read etcd or wait "
            "for it.",
            Look.LINES,
            Unit.SECONDS,
            (
                Target(
                    quantile(0.99, "etcd_request_duration_seconds", 'cluster=~"$cluster"', ("cluster", "operation")),
                    "apiserver: {{cluster}} {{operation}}",
                ),
                Target(
                    quantile(0.99, "watchslo_clock_tick_seconds", OF_APISERVERS, ("cluster", "apiserver")),
                    "watchslo: {{cluster}} {{apiserver}}",
                ),
            ),
            SLOW,
        ),
        Panel(
            "Requests in flight",
            "Highest number of concurrent requests of the apiservers in the last second, by kind. Near the limit "
            "requests queue, and watches open late.",
            Look.LINES,
            Unit.COUNT,
            (
                Target(
                    'sum by (cluster, request_kind) (apiserver_current_inflight_requests{cluster=~"$cluster"})',
                    "{{cluster}} {{request_kind}}",
                ),
            ),
            high_is_bad(200, 400),
        ),
        Panel(
            "CPU of the apiservers",
            "Cores used by each apiserver. Lack of CPU is the most frequent reason why watches are late.",
            Look.LINES,
            Unit.CORES,
            (Target(f"rate(process_cpu_seconds_total[$__rate_interval]) {APISERVERS}", "{{cluster}} {{instance}}"),),
            high_is_bad(4, 16),
        ),
    ),
)

PARTS = Section(
    "Where the time goes",
    (
        Panel(
            "Parts of the longest delay",
            "P99 of the watch that is latest at each apiserver: into the cache (measured by watchslo), dispatch "
            "(measured by the apiserver, since 1.37), and the rest, such as encoding and network. Requires "
            "`kubernetes.apiserverMetrics`.",
            Look.STACK,
            Unit.SECONDS,
            (
                Target(
                    f"max by (cluster, apiserver, part) (watchslo_delay_part_seconds{{{OF_APISERVERS}}})",
                    "{{cluster}} {{apiserver}} {{part}}",
                ),
            ),
            SLOW,
            width=12,
        ),
        Panel(
            "Times that the apiserver measured itself",
            "P99 of the last minute of each apiserver: dispatch of events, requests for single objects to etcd, reads "
            "that wait for the watch cache, and webhooks. Requires `kubernetes.apiserverMetrics`.",
            Look.LINES,
            Unit.SECONDS,
            (
                Target(
                    f"max by (cluster, apiserver, of) (watchslo_apiserver_own_duration_seconds{{{OF_APISERVERS}}})",
                    "{{cluster}} {{apiserver}} {{of}}",
                ),
            ),
            SLOW,
            width=12,
        ),
    ),
)

BOARD = Board(
    "watchslo-apiserver",
    "watchslo / Apiserver",
    f"Metrics of the apiserver compared with those of watchslo. Prometheus must scrape both. {NEEDS_BASIC}",
    (*VARIABLES, RESOURCE),
    (PARTS, EVENTS, ENDS, LOAD),
)
