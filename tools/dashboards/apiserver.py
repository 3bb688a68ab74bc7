"""Apiserver side: the apiserver's own figures of its watches beside what a client sees of the same resources.

Its metrics are those of Kubernetes 1.36, from the apiserver's package `storage/cacher/metrics` and its neighbours.
"""

from tools.dashboards.panels import (
    CLUSTER,
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
OURS = f'{OF_WATCHES}, resource=~"$resource"'
THEIRS = 'cluster=~"$cluster", resource=~"$resource"'
BY = ("cluster", "resource")
LEGEND = "{{cluster}} {{resource}}"
SLOW = high_is_bad(0.1, 0.5)
BUSY = 1  # events a second

PRELUDE = "Theirs is of all its clients, ours of one watch."
APISERVERS = f'and on (cluster, job, instance) apiserver_longrunning_requests{{{CLUSTER.name}=~"$cluster"}}'
"""Keeps, of what every scraped process exposes, that of apiservers."""


def _theirs(counter: str, labels: str = "cluster, resource", matchers: str = THEIRS) -> str:
    return f"sum by ({labels}) (rate({counter}{{{matchers}}}[$__rate_interval]))"


def _ours(counter: str, matchers: str = OURS) -> str:
    """Each instance watches for itself: the one that sees most stands for all."""
    rates = f"sum by (cluster, resource, instance) (rate({counter}{{{matchers}}}[$__rate_interval]))"
    return f"max by (cluster, resource) ({rates})"


def _grown(counter: str, matchers: str, labels: str = "cluster, resource") -> str:
    return f"sum by ({labels}) (increase({counter}{{{matchers}}}[$__rate_interval]))"


def _pair(theirs: str, ours: str) -> tuple[Target, ...]:
    return Target(theirs, f"apiserver: {LEGEND}"), Target(ours, f"watchslo: {LEGEND}")


EVENTS = Section(
    "Events",
    (
        Panel(
            "Watches open",
            "Watches that each apiserver serves, by resource: an event is encoded and sent as often.",
            Look.STACK,
            Unit.COUNT,
            (
                Target(
                    f'sum by (cluster, resource) (apiserver_longrunning_requests{{{THEIRS}, verb="WATCH"}})',
                    f"apiserver: {LEGEND}",
                ),
                Target(f"sum by (cluster, resource) (watchslo_watch_up{{{OURS}}})", f"watchslo: {LEGEND}"),
            ),
        ),
        Panel(
            "Events sent and received",
            f"{PRELUDE} Events a second that the apiserver sent on watches, and that came on ours.",
            Look.LINES,
            Unit.EVENTS,
            _pair(_theirs("apiserver_watch_events_total"), _ours("watchslo_watch_events_total")),
        ),
        Panel(
            "Bytes sent and received",
            f"{PRELUDE} Bytes a second of watch events. Ours need `metrics: full`, and are the smallest there are.",
            Look.LINES,
            Unit.BYTE_RATE,
            _pair(_theirs("apiserver_watch_events_sizes_sum"), _ours("watchslo_watch_bytes_total")),
        ),
        Panel(
            "From etcd into the cache",
            "Events a second that the apiserver received from etcd, and those that its cache handed on to watches. "
            "Where the second lags, the cache is behind; what reaches us is beside it.",
            Look.LINES,
            Unit.EVENTS,
            (
                Target(_theirs("apiserver_watch_cache_events_received_total"), f"received: {LEGEND}"),
                Target(_theirs("apiserver_watch_cache_events_dispatched_total"), f"dispatched: {LEGEND}"),
                Target(_ours("watchslo_apiserver_timespan_seconds_count"), f"watchslo: {LEGEND}"),
            ),
        ),
        Panel(
            "Revisions that the cache is behind",
            "Newest revision that watchslo knows minus that of the apiserver's cache, of resources that change: the "
            "cache of an idle one moves only with bookmarks from etcd, and is not behind.",
            Look.LINES,
            Unit.COUNT,
            (
                Target(
                    f"max by (cluster) (watchslo_resource_version{{{OF_INSTANCES}}}) - on (cluster) "
                    "group_right min by (cluster, resource) "
                    f"(apiserver_watch_cache_resource_version{{{THEIRS}}}) "
                    f"and {_theirs('apiserver_watch_cache_events_received_total')} > {BUSY}",
                    LEGEND,
                ),
            ),
            high_is_bad(1000, 10_000),
        ),
        Panel(
            "Waiting for a fresh cache",
            "P99 of how long reads waited for the cache to become fresh, beside the P99 of ApiserverTimeSpan. Both "
            "rise together where the cache is behind.",
            Look.LINES,
            Unit.SECONDS,
            _pair(
                quantile(0.99, "apiserver_watch_cache_read_wait_seconds", THEIRS, BY),
                quantile(0.99, "watchslo_apiserver_timespan_seconds", OURS, BY),
            ),
            SLOW,
        ),
    ),
)

ENDS = Section(
    "Ends and beginnings",
    (
        Panel(
            "Watches that the apiserver closed by force",
            "Watches that an apiserver closed because their clients did not read fast enough, beside ours that a "
            "server ended. A resource's first brings its series into being, and does not show.",
            Look.STACK,
            Unit.COUNT,
            (
                Target(_grown("apiserver_terminated_watchers_total", THEIRS), f"apiserver: {LEGEND}"),
                Target(
                    _grown("watchslo_watches_closed_total", f'{OURS}, class="server"'),
                    f"watchslo: {LEGEND}",
                ),
            ),
            NONE_IS_GOOD,
        ),
        Panel(
            "Caches initialised, streams started over",
            "Times that an apiserver filled a cache anew, which cuts all watches of the resource, beside our streams "
            "that started over.",
            Look.STACK,
            Unit.COUNT,
            (
                Target(_grown("apiserver_watch_cache_initializations_total", THEIRS), f"apiserver: {LEGEND}"),
                Target(
                    _grown("watchslo_relists_total", f'{OURS}, reason!~"start|inventory"'),
                    f"watchslo: {LEGEND}",
                ),
            ),
            NONE_IS_GOOD,
        ),
        Panel(
            "Initial events",
            "Objects a second that came as events to begin a watch with: of all clients that watch from "
            "resourceVersion 0 or stream their lists, and ours (`list: stream`, `metrics: full`).",
            Look.LINES,
            Unit.EVENTS,
            _pair(_theirs("apiserver_init_events_total"), _ours("watchslo_initial_events_total")),
            high_is_bad(1000, 10_000),
        ),
        Panel(
            "Streamed lists",
            "P99 of how long streamed lists took: as the apiserver counts, and as ours, in the hour before each point.",
            Look.LINES,
            Unit.SECONDS,
            (
                Target(
                    quantile(0.99, "apiserver_watch_list_duration_seconds", THEIRS, BY, "1h"), f"apiserver: {LEGEND}"
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
            "Lists a second that the apiserver served from its cache: a storm of them is what clients do that lost "
            "their watches. Beside it our own relists.",
            Look.LINES,
            Unit.REQUESTS,
            _pair(_theirs("apiserver_cache_list_total"), _ours("watchslo_relists_total")),
        ),
        Panel(
            "How much the cache remembers",
            "Events that the cache of each resource can remember. Over the events a second that is how long a client "
            "may be away; ours is that, in revisions of the whole storage (`metrics: full`).",
            Look.LINES,
            Unit.COUNT,
            (
                Target(f"min by (cluster, resource) (watch_cache_capacity{{{THEIRS}}})", f"apiserver: {LEGEND}"),
                Target(
                    f"min by (cluster, resource) (watchslo_watch_history_revisions{{{OURS}}})", f"watchslo: {LEGEND}"
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
            "Requests to etcd",
            "P99 of the apiserver's requests to etcd, beside the P99 of our ticks, which go to etcd or wait for it.",
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
            "Requests being served",
            "Most requests that each apiserver served at once, in the last second, by kind. Near its limits requests "
            "queue, and watches open late.",
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
            "Cores that each apiserver uses. An apiserver short of CPU is the likeliest reason for late watches.",
            Look.LINES,
            Unit.COUNT,
            (Target(f"rate(process_cpu_seconds_total[$__rate_interval]) {APISERVERS}", "{{cluster}} {{instance}}"),),
            high_is_bad(4, 16),
        ),
    ),
)

BOARD = Board(
    "watchslo-apiserver",
    "Apiserver side",
    "The apiserver's own figures of its watches beside ours, for those who scrape both. Needs its metrics.",
    (*VARIABLES, RESOURCE),
    (EVENTS, ENDS, LOAD),
)
