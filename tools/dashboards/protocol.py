"""Watch protocol: how streams open, end and start over, and what they hid meanwhile."""

from tools.dashboards.panels import (
    ALL_OR_NOTHING,
    APISERVER_LABELS,
    APISERVER_LEGEND,
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
    Step,
    Target,
    Unit,
    high_is_bad,
    in_range,
    increase,
    low_is_bad,
    quantile,
)

LISTS = "watchslo_list_duration_seconds"
BLIND = high_is_bad(1, 10)  # seconds
RARE = high_is_bad(1, 10)  # times


def _number(title: str, description: str, expr: str, thresholds: tuple[Step, ...], unit: Unit = Unit.COUNT) -> Panel:
    return Panel(title, description, Look.NUMBER, unit, (Target(expr, title),), thresholds, width=3, height=4)


def _times(counter: str, matchers: str) -> str:
    """Whole times: what Prometheus extrapolates is a fraction more or less."""
    return f"round({in_range(counter, matchers)})"


def _by_watch(expr: str) -> tuple[Target, ...]:
    return (Target(expr, WATCH_LEGEND),)


def _rate(counter: str, labels: str = WATCH_LABELS) -> str:
    return f"sum by ({labels}) (rate({counter}{{{OF_WATCHES}}}[$__rate_interval]))"


NOW = Section(
    "In the time shown",
    (
        _number(
            "Watches open",
            "Watches that are open at this moment, of all instances chosen.",
            f"sum (watchslo_watch_up{{{OF_WATCHES}}})",
            ALL_OR_NOTHING,
        ),
        _number(
            "Stalled now",
            "Watches from which events are withheld, or whose cache in the apiserver is frozen.",
            f"sum (watchslo_watch_stalled{{{OF_WATCHES}}})",
            NONE_IS_GOOD,
        ),
        _number(
            "Watches ended",
            "Watches that ended, for whatever reason. Every one ends after 5 to 10 minutes; what counts is why.",
            _times("watchslo_watches_closed_total", OF_WATCHES),
            PLAIN,
        ),
        _number(
            "Started over",
            "Times a stream could not resume where it was and had to start over, as every informer in the cluster "
            "that was behind as far had to list again.",
            _times("watchslo_relists_total", f'{OF_WATCHES}, reason!~"start|inventory"'),
            RARE,
        ),
        _number(
            "410 Expired",
            "Times the apiserver had forgotten the revision that was asked for.",
            _times("watchslo_expired_total", OF_WATCHES),
            RARE,
        ),
        _number(
            "Blind",
            "Time in which streams were blind before they started over, of all watches.",
            in_range("watchslo_gap_seconds_total", OF_WATCHES),
            BLIND,
            Unit.SECONDS,
        ),
        _number(
            "Events lost",
            "Events that a watch is proven to have passed over: it delivered newer ones, and never these.",
            _times("watchslo_lost_events_total", OF_WATCHES),
            NONE_IS_GOOD,
        ),
        _number(
            "Time travel",
            "Times an apiserver answered from the past, as one does that was restored from a backup or lags.",
            _times("watchslo_time_travel_total", OF_APISERVERS),
            NONE_IS_GOOD,
        ),
    ),
)

STARTING_OVER = Section(
    "Starting over",
    (
        Panel(
            "Relists by reason",
            "Times a stream started over: at the start, after a 410, after errors that did not end, after the "
            "revisions went back, or to look what a gap hid.",
            Look.STACK,
            Unit.COUNT,
            (Target(increase("watchslo_relists_total", OF_WATCHES, "reason"), "{{reason}}"),),
        ),
        Panel(
            "410 Expired by phase",
            "Where the apiserver said 410: on a list, opening a watch, or within its stream. The phase comes with "
            "`metrics: full`; otherwise they are one.",
            Look.STACK,
            Unit.COUNT,
            (Target(increase("watchslo_expired_total", OF_WATCHES, "phase"), "410 {{phase}}"),),
            NONE_IS_GOOD,
        ),
        Panel(
            "How far back the apiserver remembers",
            "How long a client may be away before it gets a 410, at the least, and how long a full list takes "
            "(`metrics: full`). Where the list takes longer, clients list again for ever.",
            Look.LINES,
            Unit.SECONDS,
            (
                Target(
                    f'min by ({WATCH_LABELS}) (watchslo_watch_history_seconds{{{OF_WATCHES}, bound="lower"}})',
                    f"history {WATCH_LEGEND}",
                ),
                Target(
                    f"max by ({WATCH_LABELS}) (watchslo_watch_history_list_seconds{{{OF_WATCHES}}})",
                    f"list {WATCH_LEGEND}",
                ),
            ),
            low_is_bad(10, 60),
        ),
        Panel(
            "Gaps, in time",
            "Time in which a stream was blind before it started over.",
            Look.STACK,
            Unit.SECONDS,
            _by_watch(increase("watchslo_gap_seconds_total", OF_WATCHES, WATCH_LABELS)),
            BLIND,
        ),
        Panel(
            "Gaps, in revisions",
            "Revisions passed over where a stream started over: what changed in them was never told.",
            Look.STACK,
            Unit.COUNT,
            _by_watch(increase("watchslo_gap_revisions_total", OF_WATCHES, WATCH_LABELS)),
            high_is_bad(1, 1000),
        ),
        Panel(
            "What gaps hid",
            "Objects that changed, came or went unseen in a gap. Only for watches with `inventory: true`; the kind "
            "comes with `metrics: full`.",
            Look.STACK,
            Unit.COUNT,
            (Target(increase("watchslo_unseen_changes_total", OF_WATCHES, "watch, kind"), "{{watch}} {{kind}}"),),
            NONE_IS_GOOD,
        ),
    ),
)

STREAMS = Section(
    "Streams",
    (
        Panel(
            "Opens",
            "Watches that were opened. As many end; a peak means that many clients lost theirs at once.",
            Look.STACK,
            Unit.COUNT,
            (Target(increase("watchslo_watch_open_seconds_count", OF_APISERVERS, APISERVER_LABELS), APISERVER_LEGEND),),
        ),
        Panel(
            "Ends by reason",
            "Watches that ended, by whose doing it was and why exactly (the latter with `metrics: full`). Those of the "
            "class deadline are the normal ones.",
            Look.STACK,
            Unit.COUNT,
            (
                Target(
                    increase("watchslo_watches_closed_total", OF_WATCHES, "class, reason") + " > 0",
                    "{{class}} {{reason}}",
                ),
            ),
        ),
        Panel(
            "How long watches lived",
            "Quantiles of the lives of watches that ended in the hour before each point. Healthy ones end by their own "
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
            "From the request of a watch to the headers of its answer, in the hour before each point. An apiserver "
            "answers late while its cache initialises or it is short of seats.",
            Look.LINES,
            Unit.SECONDS,
            tuple(
                Target(
                    quantile(q, "watchslo_watch_open_seconds", OF_APISERVERS, ("cluster", "apiserver"), "1h"),
                    f"{APISERVER_LEGEND} P{q * 100:.0f}",
                )
                for q in (0.5, 0.99)
            ),
            high_is_bad(1, 10),
        ),
        Panel(
            "Since the last byte",
            "Time since anything came on a watch, bookmarks included. Over a minute and more it is suspicious, but "
            "only an audit tells an idle one from a dead one.",
            Look.LINES,
            Unit.SECONDS,
            _by_watch(
                f"max by ({WATCH_LABELS}) (time() - watchslo_watch_last_received_timestamp_seconds{{{OF_WATCHES}}})"
            ),
            high_is_bad(90, 300),
        ),
        Panel(
            "Audits by result",
            "Looks at silent streams by a second way. Idle and alive are well; stalled, frozen and lost are not; after "
            "failed and unproven nothing is known.",
            Look.STACK,
            Unit.COUNT,
            (Target(increase("watchslo_audits_total", OF_APISERVERS, "result"), "{{result}}"),),
        ),
        Panel(
            "Bookmarks",
            "Bookmarks a second: about one a minute keeps a quiet watch's revision young, so that it can resume. "
            "Needs `metrics: full`.",
            Look.STACK,
            Unit.EVENTS,
            _by_watch(_rate("watchslo_bookmarks_total")),
        ),
        Panel(
            "Age of the newest bookmark",
            "Time since the newest bookmark of each watch. The apiserver promises one a minute, roughly. "
            "Needs `metrics: full`.",
            Look.LINES,
            Unit.SECONDS,
            _by_watch(f"max by ({WATCH_LABELS}) (watchslo_bookmark_age_seconds{{{OF_WATCHES}}})"),
            high_is_bad(90, 300),
        ),
        Panel(
            "Round trip of the connections",
            "Smoothed round trip of each open watch's connection, by the kernel: the network's part. "
            "Needs `metrics: full`, and Linux.",
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
            "Events received on watches, a second.",
            Look.STACK,
            Unit.EVENTS,
            (Target(_rate("watchslo_watch_events_total", "type"), "{{type}}"),),
        ),
        Panel(
            "Bytes of watches",
            "Bytes received on watches, a second. watchslo asks for the smallest representation there is: your "
            "controllers receive many times more. Needs `metrics: full`.",
            Look.STACK,
            Unit.BYTE_RATE,
            _by_watch(_rate("watchslo_watch_bytes_total")),
        ),
        Panel(
            "Bytes of lists",
            "Bytes of lists received, a second: what starting over costs. Needs `metrics: full`.",
            Look.STACK,
            Unit.BYTE_RATE,
            _by_watch(_rate("watchslo_list_bytes_total")),
        ),
        Panel(
            "How long lists took",
            "Median and P99 of lists with all their pages, by strategy, in the hour before each point. `tail` lists "
            "nothing: it only learns the revision.",
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
            "Objects listed",
            "Objects that came with lists, in pages or streamed. Needs `metrics: full`.",
            Look.STACK,
            Unit.COUNT,
            (
                Target(increase("watchslo_list_items_total", OF_WATCHES, WATCH_LABELS), f"{WATCH_LEGEND} listed"),
                Target(increase("watchslo_initial_events_total", OF_WATCHES, WATCH_LABELS), f"{WATCH_LEGEND} streamed"),
            ),
        ),
        Panel(
            "Requests by kind",
            "Requests that watchslo makes, by what for and how they were answered: what it costs, and who refuses it.",
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
    "Watch protocol",
    "How watches open, end and start over, and what was not told meanwhile.",
    VARIABLES,
    (NOW, STARTING_OVER, STREAMS, TRAFFIC),
)
