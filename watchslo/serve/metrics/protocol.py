"""The protocol side of watches: what they received, why they ended and started over, what they missed."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import product

from watchslo.serve.metrics.family import counter, gauge, histogram
from watchslo.serve.metrics.labels import (
    AUDIT,
    CLASS,
    CLOSED,
    END,
    EVENT_TYPE,
    GUARANTEE,
    LIST_FAILURE,
    PHASE,
    RELIST,
    STRATEGY,
    UNSEEN,
)
from watchslo.serve.metrics.views import (
    Found,
    Value,
    each,
    ends,
    per_apiserver,
    per_audited_watch,
    per_headroom,
    per_transport,
    per_watch,
    summed_by_apiserver,
)
from watchslo.snapshot import OutcomeReading, WatchReading
from watchslo.watch.failure import FAILURE_RULES, LIST_FAILURES, CloseClass
from watchslo.watch.messages import RelistReason
from watchslo.watch.strategy import STRATEGIES, STREAM

NOT_OF_NODES = (CloseClass.OWN, CloseClass.EXPIRED)  # the second is in expired_total
RESTARTS = (RelistReason.EXPIRED, RelistReason.ERRORS)  # the start is no restart, and clocks count their resets
NO_CLOSES: Mapping[tuple[str, str], int] = {(class_, reason): 0 for reason, (class_, _, _) in FAILURE_RULES.items()}
WITH_FALLBACK = frozenset(name for name, strategy in STRATEGIES.items() if strategy.fallback)


def _events(watch: WatchReading) -> Mapping[str, Value]:
    return each(EVENT_TYPE, {type_.lower(): count for type_, count in watch.received.events.items()})


def _changes(watch: WatchReading) -> Mapping[str, Value]:
    return {type_: count for type_, count in _events(watch).items() if type_ != "error"}


def _closed(outcomes: OutcomeReading) -> Mapping[tuple[str, str], Value]:
    return {**NO_CLOSES, **outcomes.closed}


def _closed_by_class(watch: WatchReading) -> Mapping[str, Value]:
    classes: dict[str, int] = defaultdict(int)
    for (class_, _), count in watch.outcomes.closed.items():
        classes[class_] += count
    return {class_: count for class_, count in each(CLASS, classes).items() if class_ not in NOT_OF_NODES}


def _failed_lists(outcomes: OutcomeReading) -> Mapping[tuple[str, str], Value]:
    """Return the counts by strategy and reason, from 0 for each strategy that is used."""
    nothing: dict[tuple[str, str], int] = dict.fromkeys(product(outcomes.lists, LIST_FAILURES), 0)
    return {**nothing, **outcomes.failed_lists}


def _initial_events(outcomes: OutcomeReading) -> Found:
    return outcomes.initial_events if STREAM.name in outcomes.lists else None


def _fallbacks(outcomes: OutcomeReading) -> Found:
    """Return the number of lists by a fallback; None if no strategy has one."""
    return None if WITH_FALLBACK.isdisjoint(outcomes.lists) else outcomes.fallbacks


def _restarts(watch: WatchReading) -> Mapping[str, Value]:
    return {reason: count for reason, count in watch.lists.relists.items() if reason in RESTARTS}


def _unseen(watch: WatchReading) -> Found:
    return None if watch.gaps.unseen is None else each(UNSEEN, watch.gaps.unseen)


def _unseen_sum(watch: WatchReading) -> Found:
    return None if watch.gaps.unseen is None else sum(watch.gaps.unseen.values())


WATCHES = (
    gauge(
        "watch_up",
        "1 if the watch is open, else 0; absent if the resource can never be measured.",
        basic=per_watch(lambda s: s.up if s.measurable else None),
        node=True,
    ),
    gauge(
        "watch_last_received_timestamp_seconds",
        "Unix time at which the last byte arrived.",
        basic=per_watch(lambda s: s.received.last_wall),
        node=True,
    ),
    counter(
        "watch_events_total",
        "Total number of events received on watches.",
        basic=per_watch(_changes, EVENT_TYPE),
        full=per_watch(_events, EVENT_TYPE),
    ),
    counter(
        "watch_bytes_total",
        "Total number of bytes received on watches.",
        full=per_watch(lambda s: s.received.bytes),
    ),
    counter(
        "bookmarks_total",
        "Total number of bookmarks received.",
        basic=per_watch(lambda s: s.received.bookmarks),
        node=True,
    ),
    gauge(
        "bookmark_age_seconds",
        "Seconds since the newest bookmark; absent before the first.",
        basic=per_watch(lambda s: s.received.bookmark_age),
    ),
    counter(
        "watches_closed_total",
        "Total number of watches that ended, each for one reason.",
        basic=per_apiserver(lambda a: _closed(a.outcomes) if a.outcomes.lists else None, CLASS, CLOSED),
        full=per_watch(lambda s: _closed(s.outcomes), CLASS, CLOSED),
        node=per_watch(_closed_by_class, CLASS),
    ),
    histogram(
        "watch_open_duration_seconds",
        "Seconds from the request of a watch to the headers of its answer.",
        basic=per_apiserver(lambda a: a.outcomes.opens),
        full=per_watch(lambda s: s.outcomes.opens),
    ),
    histogram(
        "watch_duration_seconds",
        "Seconds that watches stayed open.",
        basic=per_apiserver(lambda a: a.outcomes.lifetimes),
        full=per_watch(lambda s: s.outcomes.lifetimes),
    ),
    counter(
        "watch_catch_ups_total",
        "Total number of times an open watch delivered nothing, and then many events at once, the first ones old.",
        full=per_watch(lambda s: s.received.catch_ups),
        beta=True,
    ),
    gauge(
        "behind_peers_seconds",
        "Seconds for which another apiserver's watch has had an event that this one lacks; absent without another.",
        full=per_watch(lambda s: s.cache.behind_peers),
        beta=True,
    ),
    gauge(
        "cache_behind_seconds",
        "Highest age in seconds of the apiserver's cache of the resource in the last seconds; only while it is probed.",
        basic=per_watch(lambda s: ends(s.cache.behind), END),
        beta=True,
    ),
    gauge(
        "transport_round_trip_seconds",
        "Smoothed round trip in seconds of the open watch's connection, as the kernel reports it.",
        full=per_transport(lambda t: t.round_trip),
        beta=True,
    ),
    counter(
        "transport_retransmits_total",
        "Total number of segments retransmitted by watchslo on the open watch's connection; 0 at each new connection.",
        full=per_transport(lambda t: t.retransmits),
        beta=True,
    ),
    gauge(
        "transport_silent_seconds",
        "Seconds since anything arrived on the open watch's connection, acknowledgements included.",
        full=per_transport(lambda t: t.silent),
        beta=True,
    ),
    counter(
        "time_travel_total",
        "Total number of answers of an apiserver that were older than an earlier answer.",
        basic=per_apiserver(lambda a: a.time_travel.count),
        node=True,
    ),
    counter(
        "time_travel_revisions_total",
        "Total number of revisions by which those answers were too old.",
        basic=per_apiserver(lambda a: a.time_travel.revisions),
        beta=True,
    ),
    counter(
        "time_travel_seconds_total",
        "Total seconds by which those answers were too old.",
        basic=per_apiserver(lambda a: a.time_travel.seconds),
        beta=True,
    ),
)

LISTS = (
    counter(
        "relists_total",
        "Total number of times a watch started over.",
        basic=per_watch(_restarts, RELIST),
        full=per_watch(lambda s: s.lists.relists, RELIST),
        node=True,
    ),
    counter(
        "expired_total",
        "Total number of 410 Expired answers.",
        basic=per_watch(lambda s: s.lists.expired, PHASE),
        node=per_watch(lambda s: sum(s.lists.expired.values())),
    ),
    gauge(
        "watch_headroom_seconds",
        "Headroom in seconds: how far back a watch of the resource may begin before a 410; absent until measured.",
        basic=per_headroom(lambda h: {"lower": h.seconds.lower}, END),  # the end that alerts use
        full=per_headroom(lambda h: ends(h.seconds), END),
        beta=True,
    ),
    gauge(
        "watch_headroom_revisions",
        "Headroom in revisions of the whole storage.",
        full=per_headroom(lambda h: h.revisions),
        beta=True,
    ),
    gauge(
        "watch_headroom_list_seconds",
        "Seconds that a full list of the resource takes, measured or computed from one page; absent if unknown.",
        full=per_headroom(lambda h: h.list_seconds),
        beta=True,
    ),
    gauge(
        "watch_headroom_fits",
        "1 if the headroom outlasts a full list; if 0, clients that list get a 410 and list again, forever.",
        basic=per_headroom(lambda h: h.fits),
        beta=True,
    ),
    histogram(
        "list_duration_seconds",
        "Seconds that lists took, with all their pages.",
        basic=per_apiserver(lambda a: a.outcomes.lists, STRATEGY),
        full=per_watch(lambda s: s.outcomes.lists, STRATEGY),
    ),
    counter(
        "lists_failed_total",
        "Total number of lists that failed before they were complete, streamed ones included.",
        basic=per_apiserver(lambda a: _failed_lists(a.outcomes), STRATEGY, LIST_FAILURE),
        full=per_watch(lambda s: _failed_lists(s.outcomes), STRATEGY, LIST_FAILURE),
        beta=True,
    ),
    counter(
        "list_items_total",
        "Total number of objects listed.",
        full=per_watch(lambda s: s.lists.items),
        beta=True,
    ),
    counter(
        "list_bytes_total",
        "Total number of bytes of lists received.",
        full=per_watch(lambda s: s.lists.bytes),
        beta=True,
    ),
    counter(
        "list_pages_total",
        "Total number of pages of lists received.",
        full=per_watch(lambda s: s.lists.pages),
        beta=True,
    ),
    counter(
        "list_fallbacks_total",
        "Total number of lists by the fallback of their strategy: refused, silent, or failed too often; absent without "
        "one.",
        basic=per_apiserver(lambda a: _fallbacks(a.outcomes)),
        full=per_watch(lambda s: _fallbacks(s.outcomes)),
        beta=True,
    ),
    counter(
        "initial_events_total",
        "Total number of events of streamed lists, which are existing objects and not changes; absent without any.",
        basic=per_apiserver(lambda a: _initial_events(a.outcomes)),
        full=per_watch(lambda s: _initial_events(s.outcomes)),
    ),
)

MISSED = (
    counter(
        "gap_revisions_total",
        "Total number of revisions skipped where a watch started over; changes in them were never delivered.",
        full=per_watch(lambda s: s.gaps.revisions),
    ),
    counter(
        "gap_seconds_total",
        "Total seconds in which a watch received nothing before it started over.",
        basic=per_watch(lambda s: s.gaps.seconds),
        node=True,
    ),
    counter(
        "unseen_changes_total",
        "Total number of objects whose change a gap hid, as the inventory found; only with an inventory.",
        basic=per_watch(_unseen_sum),
        full=per_watch(_unseen, UNSEEN),
    ),
    gauge(
        "inventory_objects",
        "Number of objects in the inventory; only with an inventory.",
        full=per_watch(lambda s: s.gaps.objects),
        beta=True,
    ),
    counter(
        "stalls_total",
        "Total number of times a watch withheld events or its apiserver's cache of the resource was frozen.",
        basic=per_watch(lambda s: s.audit.stalls),
        node=True,
    ),
    gauge(
        "watch_stalled",
        "1 if events are withheld or the apiserver's cache of the resource is frozen, else 0; absent without audits.",
        basic=per_audited_watch(lambda s: s.audit.stalled_for is not None),
        node=True,
    ),
    gauge(
        "stall_seconds",
        "Age in seconds of the oldest withheld event or of the frozen cache; absent unless stalled.",
        full=per_watch(lambda s: s.audit.stalled_for),
    ),
    counter(
        "audits_total",
        "Total number of audits, the reads that decide whether a silent watch is idle, stalled or frozen.",
        basic=per_apiserver(lambda a: each(AUDIT, a.audits), AUDIT),
    ),
)

GUARANTEES = (
    counter(
        "watch_guarantee_checked_total",
        "Total number of checks of a guarantee: of events, of openings of a watch for `resumable`.",
        basic=summed_by_apiserver(lambda s: s.guarantees.checked, lambda apiserver: apiserver.checked, GUARANTEE),
        full=per_watch(lambda s: s.guarantees.checked, GUARANTEE),
    ),
    counter(
        "watch_guarantee_violations_total",
        "Total number of events and bookmarks that violated a guarantee of the watch.",
        basic=per_watch(lambda s: s.guarantees.violations, GUARANTEE),
        node=per_watch(lambda s: sum(s.guarantees.violations.values())),
    ),
)
