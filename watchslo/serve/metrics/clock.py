"""The revision clocks and their ticks."""

from watchslo.serve.metrics.family import counter, gauge, histogram
from watchslo.serve.metrics.labels import BURST_REASON, READ_USE, STORAGE_KIND, TICK_RESULT
from watchslo.serve.metrics.views import each, per_domain, per_ticker

CLOCK = (
    gauge(
        "resource_version",
        "Newest revision of the domain.",
        basic=per_domain(lambda d: d.revision),
    ),
    gauge(
        "storage_info",
        "1 for what revisions are: a `sequence` as in etcd, a `timestamp`, or a sequence of `kine`; else `unknown`.",
        basic=per_domain(lambda d: {d.kind: 1}, STORAGE_KIND),
        beta=True,
    ),
    counter(
        "clock_ticks_total",
        "Total number of ticks of the revision clock.",
        basic=per_ticker(lambda t: each(TICK_RESULT, t.ticks), TICK_RESULT),
        node=True,
    ),
    counter(
        "clock_reads_total",
        "Total number of consistent reads, without ticks, that date revisions.",
        full=per_domain(lambda d: each(READ_USE, d.reads), READ_USE),
    ),
    counter(
        "clock_bursts_total",
        "Total number of times ticks were sent more often for a while.",
        basic=per_domain(lambda d: each(BURST_REASON, d.bursts), BURST_REASON),
    ),
    counter(
        "clock_burst_ticks_total",
        "Total number of ticks that were sent in bursts.",
        basic=per_domain(lambda d: d.burst_ticks),
    ),
    histogram(
        "clock_tick_seconds",
        "Round trips of the ticks in seconds.",
        basic=per_ticker(lambda t: t.round_trips),
    ),
    gauge(
        "clock_interval_seconds",
        "Width in seconds of the newest commit interval; absent before the second tick.",
        basic=per_domain(lambda d: d.interval),
    ),
    gauge(
        "clock_resolution_seconds",
        "Latencies below so many seconds cannot be measured: the median round trip of the fastest apiserver's "
        "ticks, or the precision of revisions that are times.",
        basic=per_domain(lambda d: d.resolution),
    ),
    counter(
        "clock_resets_total",
        "Total number of times the revision went backwards, as after a restore of etcd.",
        basic=per_domain(lambda d: d.resets),
        node=True,
    ),
)
