"""The active causes, and the daemon itself: its requests, its lag, its configuration, its build."""

from collections import defaultdict
from collections.abc import Mapping

from watchslo.serve.metrics.family import counter, gauge, histogram
from watchslo.serve.metrics.labels import BUILD, CAUSE, CAUSE_APISERVER, CAUSE_WATCH, CODE, KIND, OVERALL_VERDICT
from watchslo.serve.metrics.views import Value, once, once_of_snapshot, per_apiserver
from watchslo.snapshot import ApiserverReading, Cause, HistogramReading, OverallVerdict, Snapshot

LATE_BEAT_SECONDS = 0.15  # by then the events read before it are tainted


def _causes(snapshot: Snapshot) -> Mapping[tuple[str, str, str], Value]:
    """Each cause has a series from the start, without apiserver and watch; active causes add theirs."""
    active = {(c.cause.value, c.apiserver or "", c.watch or ""): 1 for c in snapshot.causes}
    return {(cause.value, "", ""): 0 for cause in Cause} | active


def _verdicts(snapshot: Snapshot) -> Mapping[str, Value] | None:
    """Return 1 for the present verdict, and 0 for all others; None before the first evaluation."""
    now = snapshot.overall
    return {verdict.value: verdict is now for verdict in OverallVerdict} if now else None


def _verdict(snapshot: Snapshot) -> Mapping[str, Value] | None:
    return {snapshot.overall.value: 1} if snapshot.overall else None


def _by_code(apiserver: ApiserverReading) -> Mapping[str, Value]:
    codes: dict[str, int] = defaultdict(int)
    for (_, code), count in apiserver.requests.items():
        codes[code] += count
    return codes


def _late_beats(lag: HistogramReading) -> HistogramReading:
    """Return the histogram with one bucket: the heartbeats that were not late enough to taint for certain."""
    count = lag.counts[lag.edges.index(LATE_BEAT_SECONDS)]
    return HistogramReading((LATE_BEAT_SECONDS,), (count, lag.total), lag.sum)


CAUSES = (
    gauge(
        "cause_active",
        "1 if this cause of lateness is active, else 0; docs/causes.md lists the causes.",
        basic=once_of_snapshot(_causes, CAUSE, CAUSE_APISERVER, CAUSE_WATCH),
        beta=True,
    ),
)

MONITOR = (
    gauge(
        "verdict",
        "1 for the present verdict on all watches, which page, terminal and status show as well; else 0.",
        basic=once_of_snapshot(_verdicts, OVERALL_VERDICT),
        node=once_of_snapshot(_verdict, OVERALL_VERDICT),
        beta=True,
    ),
    counter(
        "api_requests_total",
        "Total number of requests to the apiserver: the load that watchslo adds.",
        basic=per_apiserver(lambda a: a.requests, KIND, CODE),
        node=per_apiserver(_by_code, CODE),
    ),
    histogram(
        "loop_lag_seconds",
        "Seconds by which watchslo's own heartbeats were late.",
        basic=once(lambda m: m.loop_lag),
        node=once(lambda m: _late_beats(m.loop_lag)),
    ),
    counter(
        "tainted_seconds_total",
        "Total seconds in which watchslo was late itself; events of that time are not samples.",
        basic=once(lambda m: m.tainted_seconds),
        node=True,
    ),
    gauge(
        "config_last_reload_successful",
        "1 if the newest configuration is in force, 0 if the previous one still is.",
        basic=once(lambda m: m.reload_succeeded),
        node=True,
    ),
    gauge(
        "config_last_reload_success_timestamp_seconds",
        "Unix time at which the configuration in force was loaded.",
        basic=once(lambda m: m.reloaded_wall),
        node=True,
    ),
    gauge(
        "build_info",
        "The running code; always 1.",
        basic=once(lambda m: {(m.build.version, m.build.revision, m.build.python_version): 1}, *BUILD),
        node=True,
    ),
)
