"""Dashboard "Protocol": opens, closes, relists and gaps of watches."""

from tools.dashboards.panels import (
    ALL_OR_NOTHING,
    APISERVER_LABELS,
    APISERVER_LEGEND,
    NEEDS_BASIC,
    NONE_IS_GOOD,
    OF_APISERVERS,
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
    high_is_bad,
    in_range,
    increase,
    low_is_bad,
    number_panel,
    quantile,
)

LISTS = "watchslo_list_duration_seconds"
BLIND = high_is_bad(1, 10)  # seconds
RARE = high_is_bad(1, 10)  # times


def _rounded_increase(counter: str, matchers: str) -> str:
    """Return a whole number: Prometheus extrapolates increases to fractions."""
    return f"round({in_range(counter, matchers)})"


def _by_watch(expr: str) -> tuple[Target, ...]:
    return (Target(expr, WATCH_LEGEND),)


def _rate(counter: str, labels: str = WATCH_LABELS) -> str:
    return f"sum by ({labels}) (rate({counter}{{{OF_WATCHES}}}[$__rate_interval]))"


NOW = Section(
    "Displayed range",
    (
        number_panel(
            "Open watches",
            "Watches that are open now, of all selected instances.",
            f"sum (watchslo_watch_up{{{OF_WATCHES}}})",
            ALL_OR_NOTHING,
        ),
        number_panel(
            "Stalled watches",
            "Watches that do not receive their events, or whose apiserver cache is frozen.",
            f"sum (watchslo_watch_stalled{{{OF_WATCHES}}})",
            NONE_IS_GOOD,
        ),
        number_panel(
            "Closed watches",
            "Watches that closed, for any reason. A healthy watch closes after 5 to 10 minutes; see Closes by reason.",
            _rounded_increase("watchslo_watches_closed_total", OF_APISERVERS),
            PLAIN,
        ),
        number_panel(
            "Relists",
            "Relists of watches that could not resume. Informers that were equally far behind had to relist as well.",
            _rounded_increase("watchslo_relists_total", f'{OF_WATCHES}, reason!~"start|inventory"'),
            RARE,
        ),
        number_panel(
            "410 Expired",
            "Requests for a revision that the apiserver no longer has.",
            _rounded_increase("watchslo_expired_total", OF_WATCHES),
            RARE,
        ),
        number_panel(
            "Gaps",
            "Time without events before relists, summed over all watches.",
            in_range("watchslo_gap_seconds_total", OF_WATCHES),
            BLIND,
            Unit.SECONDS,
        ),
        number_panel(
            "Violations",
            "Events and bookmarks that broke a guarantee of their watch: lost, repeated or out of order.",
            _rounded_increase("watchslo_watch_guarantee_violations_total", OF_WATCHES),
            NONE_IS_GOOD,
        ),
        number_panel(
            "Time travel",
            "Answers with an older state than before, for example after a restore from a backup.",
            _rounded_increase("watchslo_time_travel_total", OF_APISERVERS),
            NONE_IS_GOOD,
        ),
    ),
)

RELISTS = Section(
    "Relists and gaps",
    (
        Panel(
            "Relists by reason",
            "Relists by reason: 410 or repeated errors; with `metrics: full` also the start of the daemon, revisions "
            "that went back, and the inventory of the changes in a gap.",
            Look.STACK,
            Unit.COUNT,
            (Target(increase("watchslo_relists_total", OF_WATCHES, "reason"), "{{reason}}"),),
        ),
        Panel(
            "410 Expired by phase",
            "Answers 410 by phase: listing, opening a watch, or within an open watch.",
            Look.STACK,
            Unit.COUNT,
            (Target(increase("watchslo_expired_total", OF_WATCHES, "phase"), "410 {{phase}}"),),
            NONE_IS_GOOD,
        ),
        Panel(
            "Headroom and list duration",
            "Lower bound of the headroom (how far back a watch may begin before 410) and duration of a full list "
            "(`metrics: full`). If the list takes longer, clients relist without end.",
            Look.LINES,
            Unit.SECONDS,
            (
                Target(
                    f'min by ({WATCH_LABELS}) (watchslo_watch_headroom_seconds{{{OF_WATCHES}, bound="lower"}})',
                    f"headroom {WATCH_LEGEND}",
                ),
                Target(
                    f"max by ({WATCH_LABELS}) (watchslo_watch_headroom_list_seconds{{{OF_WATCHES}}})",
                    f"list {WATCH_LEGEND}",
                ),
            ),
            low_is_bad(10, 60),
        ),
        Panel(
            "Gaps in seconds",
            "Time without events before a relist, by watch.",
            Look.STACK,
            Unit.SECONDS,
            _by_watch(increase("watchslo_gap_seconds_total", OF_WATCHES, WATCH_LABELS)),
            BLIND,
        ),
        Panel(
            "Gaps in revisions",
            "Revisions skipped by relists. The watch never received the events of these revisions. Requires "
            "`metrics: full`.",
            Look.STACK,
            Unit.COUNT,
            _by_watch(increase("watchslo_gap_revisions_total", OF_WATCHES, WATCH_LABELS)),
            high_is_bad(1, 1000),
        ),
        Panel(
            "Unseen changes",
            "Objects that were created, changed or deleted in a gap. Only for watches with `inventory: true`; kinds "
            "require `metrics: full`.",
            Look.STACK,
            Unit.COUNT,
            (Target(increase("watchslo_unseen_changes_total", OF_WATCHES, "watch, kind"), "{{watch}} {{kind}}"),),
            NONE_IS_GOOD,
        ),
    ),
)

GUARANTEES = Section(
    "Guarantees",
    (
        Panel(
            "Violations by guarantee",
            "Events and bookmarks that broke a guarantee of their watch. Each is a defect of an apiserver, or of "
            "something between it and its clients.",
            Look.STACK,
            Unit.COUNT,
            (Target(increase("watchslo_watch_guarantee_violations_total", OF_WATCHES, "guarantee"), "{{guarantee}}"),),
            NONE_IS_GOOD,
            width=12,
        ),
        Panel(
            "Violations by watch",
            "Events and bookmarks that broke a guarantee of their watch, by watch and apiserver. One watch at one "
            "apiserver points to its watch cache, many watches at once to an intermediary.",
            Look.STACK,
            Unit.COUNT,
            _by_watch(increase("watchslo_watch_guarantee_violations_total", OF_WATCHES, WATCH_LABELS)),
            NONE_IS_GOOD,
            width=12,
        ),
    ),
)

WATCHES = Section(
    "Watches",
    (
        Panel(
            "Opened watches",
            "Watches that were opened. A peak means that many watches closed at once.",
            Look.STACK,
            Unit.COUNT,
            (
                Target(
                    increase("watchslo_watch_open_duration_seconds_count", OF_APISERVERS, APISERVER_LABELS),
                    APISERVER_LEGEND,
                ),
            ),
        ),
        Panel(
            "Closes by reason",
            "Closed watches by class and reason. The class deadline is normal. No data: none was closed.",
            Look.STACK,
            Unit.COUNT,
            (
                Target(
                    increase("watchslo_watches_closed_total", OF_APISERVERS, "class, reason") + " > 0",
                    "{{class}} {{reason}}",
                ),
            ),
        ),
        Panel(
            "Watch duration",
            "Quantiles of the duration of watches that closed in the preceding hour. Healthy watches close at their "
            "deadline of 5 to 10 minutes.",
            Look.LINES,
            Unit.SECONDS,
            tuple(
                Target(
                    quantile(q, "watchslo_watch_duration_seconds", OF_APISERVERS, ("cluster", "apiserver"), "1h"),
                    f"{APISERVER_LEGEND} P{q * 100:.0f}",
                )
                for q in (0.1, 0.5, 0.9)
            ),
            low_is_bad(10, 60),
        ),
        Panel(
            "Time to open a watch",
            "From the request of a watch to the headers of the response, in the preceding hour. The apiserver responds "
            "late while its cache initialises or when priority and fairness has no free seats.",
            Look.LINES,
            Unit.SECONDS,
            tuple(
                Target(
                    quantile(q, "watchslo_watch_open_duration_seconds", OF_APISERVERS, ("cluster", "apiserver"), "1h"),
                    f"{APISERVER_LEGEND} P{q * 100:.0f}",
                )
                for q in (0.5, 0.99)
            ),
            high_is_bad(1, 10),
        ),
        Panel(
            "Time since the last byte",
            "Time since the last data on a watch, including bookmarks. More than a minute is suspicious, but only an "
            "audit distinguishes an idle watch from a dead one.",
            Look.LINES,
            Unit.SECONDS,
            _by_watch(
                f"max by ({WATCH_LABELS}) (time() - watchslo_watch_last_received_timestamp_seconds{{{OF_WATCHES}}})"
            ),
            high_is_bad(90, 300),
        ),
        Panel(
            "Audits by result",
            "Audits of silent watches by result. Idle and alive are healthy; stalled, frozen and lost are not; failed "
            "and unproven are inconclusive.",
            Look.STACK,
            Unit.COUNT,
            (Target(increase("watchslo_audits_total", OF_APISERVERS, "result"), "{{result}}"),),
        ),
        Panel(
            "Bookmarks",
            "Bookmarks per second. They keep the revision of a quiet watch recent, so that it can resume. Usual is one "
            "a minute; none is promised.",
            Look.STACK,
            Unit.EVENTS,
            _by_watch(_rate("watchslo_bookmarks_total")),
        ),
        Panel(
            "Age of the newest bookmark",
            "Time since the newest bookmark by watch. Usual is one a minute, but none is promised. No data: none has "
            "come yet, as for resources without a watch cache, such as events.",
            Look.LINES,
            Unit.SECONDS,
            _by_watch(f"max by ({WATCH_LABELS}) (watchslo_bookmark_age_seconds{{{OF_WATCHES}}})"),
            high_is_bad(90, 300),
        ),
        Panel(
            "Network round trip",
            "Smoothed TCP round trip of the connection of each open watch, measured by the kernel. "
            "Requires `metrics: full` and Linux.",
            Look.LINES,
            Unit.SECONDS,
            _by_watch(f"max by ({WATCH_LABELS}) (watchslo_transport_round_trip_seconds{{{OF_WATCHES}}})"),
            high_is_bad(0.05, 0.25),
        ),
    ),
)

TRAFFIC = Section(
    "Traffic and lists",
    (
        Panel(
            "Events by type",
            "Events per second received on watches, by type.",
            Look.STACK,
            Unit.EVENTS,
            (Target(_rate("watchslo_watch_events_total", "type"), "{{type}}"),),
        ),
        Panel(
            "Bytes of watches and lists",
            "Bytes per second received on watches and in lists. watchslo requests the smallest representation; "
            "controllers receive many times more. Requires `metrics: full`.",
            Look.STACK,
            Unit.BYTE_RATE,
            (
                Target(_rate("watchslo_watch_bytes_total"), f"{WATCH_LEGEND} watch"),
                Target(_rate("watchslo_list_bytes_total"), f"{WATCH_LEGEND} lists"),
            ),
        ),
        Panel(
            "Failed lists",
            "Lists that failed before they were complete, by strategy and reason, streamed ones included. A streamed "
            "list that is refused is followed by pages. No data: none failed.",
            Look.STACK,
            Unit.COUNT,
            (
                Target(
                    increase("watchslo_lists_failed_total", OF_APISERVERS, "strategy, reason") + " > 0",
                    "{{strategy}} {{reason}}",
                ),
            ),
            NONE_IS_GOOD,
        ),
        Panel(
            "List duration",
            "Median and P99 duration of complete lists in the preceding hour, by strategy. `tail` lists no objects: it "
            "only reads the revision.",
            Look.LINES,
            Unit.SECONDS,
            tuple(
                Target(
                    quantile(q, LISTS, OF_APISERVERS, ("cluster", "apiserver", "strategy"), "1h"),
                    f"{APISERVER_LEGEND} {{{{strategy}}}} P{q * 100:.0f}",
                )
                for q in (0.5, 0.99)
            ),
            high_is_bad(5, 30),
        ),
        Panel(
            "Listed objects",
            "Objects received in streamed lists (`list: stream`), and in all lists by watch (`metrics: full`).",
            Look.STACK,
            Unit.COUNT,
            (
                Target(
                    increase("watchslo_initial_events_total", OF_APISERVERS, APISERVER_LABELS),
                    f"{APISERVER_LEGEND} streamed",
                ),
                Target(increase("watchslo_list_items_total", OF_WATCHES, WATCH_LABELS), f"{WATCH_LEGEND} listed"),
            ),
        ),
        Panel(
            "Requests by kind",
            "Requests of watchslo per second, by kind and status code of the response.",
            Look.STACK,
            Unit.REQUESTS,
            (
                Target(
                    f"sum by (kind, code) (rate(watchslo_api_requests_total{{{OF_APISERVERS}}}[$__rate_interval]))",
                    "{{kind}} {{code}}",
                ),
            ),
        ),
    ),
)

BOARD = Board(
    "watchslo-protocol",
    "watchslo / Protocol",
    f"Opens, closes, relists and gaps of watches. {NEEDS_BASIC}",
    VARIABLES,
    (NOW, RELISTS, GUARANTEES, WATCHES, TRAFFIC),
)
