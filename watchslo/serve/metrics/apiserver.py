"""The apiservers: how they compare with each other, and whether their revisions can be trusted."""

from collections.abc import Mapping

from watchslo.changes import quantile
from watchslo.diagnose.own_figures import TOTAL
from watchslo.serve.metrics.family import gauge
from watchslo.serve.metrics.labels import CENTRE, DELAY_PART, END, OWN_DURATION, P99_ONLY, TICKS
from watchslo.serve.metrics.latency import BASIC_QUANTILES
from watchslo.serve.metrics.views import Found, Value, ends, latest_breakdowns, once, per_apiserver, per_resource
from watchslo.snapshot import ApiserverReading


def _by_ticks(apiserver: ApiserverReading) -> Mapping[tuple[str, ...], Value]:
    """The same minute by two clocks: the difference is what an apiserver's own ticks hide, which share its delays."""
    return {
        (str(quantile.q), ticks): quantile.estimate
        for ticks, window in (("all", apiserver.combined), ("own", apiserver.alone))
        if window and window.events
        for quantile in window.quantiles
        if quantile.resolved and quantile.q in BASIC_QUANTILES
    }


def _proven(apiserver: ApiserverReading) -> Found:
    """Unknown until the apiserver's version is known."""
    return not apiserver.unproven if apiserver.version else None


def _own_durations(apiserver: ApiserverReading) -> Mapping[tuple[str, str], Value] | None:
    """The P99 of what the apiserver timed itself; that of the dispatch is the highest of all resources."""
    own = apiserver.own_metrics
    if own is None or own.minute is None or own.processes > 1:
        return None
    minute = own.minute
    of_dispatch = [resource.dispatch[TOTAL] for resource in minute.resources.values() if TOTAL in resource.dispatch]
    timed = {"etcd": minute.etcd, "read_wait": minute.read_wait, "conversion": minute.conversion}
    timed["admission"] = minute.admission
    found = {name: quantile(histogram, 0.99) for name, histogram in timed.items() if histogram}
    if of_dispatch:
        found["dispatch"] = max(quantile(histogram, 0.99) for histogram in of_dispatch)
    return {(name, "0.99"): seconds for name, seconds in found.items()}


APISERVERS = (
    gauge(
        "apiserver_up",
        "1 if the apiserver answers, 0 if it has sent nothing for 10 s although it was asked.",
        basic=per_apiserver(lambda a: a.unresponsive_for is None),
        node=True,
        beta=True,
    ),
    gauge(
        "apiserver_timespan_by_ticks_seconds",
        "Quantile in seconds of the last minute of all its watches, by all ticks and by its own; only with several.",
        basic=per_apiserver(_by_ticks, CENTRE, TICKS),
        beta=True,
    ),
    gauge(
        "behind_fastest_seconds",
        "Quantiles in seconds by which events arrived later than at the apiserver that delivered them first, in the "
        "last minute; absent without another.",
        basic=per_resource(lambda excess: {"0.5": excess.p50, "0.99": excess.p99}, CENTRE),
        beta=True,
    ),
    gauge(
        "delay_part_seconds",
        "Parts in seconds of the P99 of the last minute, of the watch that is latest at the apiserver; only with "
        "kubernetes.apiserverMetrics.",
        basic=latest_breakdowns(DELAY_PART),
        beta=True,
    ),
    gauge(
        "apiserver_own_duration_seconds",
        "Quantile in seconds of the last minute by the apiserver's own metrics; only with kubernetes.apiserverMetrics.",
        basic=per_apiserver(_own_durations, OWN_DURATION, P99_ONLY),
        beta=True,
    ),
    gauge(
        "apiserver_watched",
        "1 if resources are watched there; 0 for witnesses, and for the service if its apiservers are watched instead.",
        basic=per_apiserver(lambda a: a.watched),
        beta=True,
    ),
    gauge(
        "witnesses_announced",
        "Number of announced apiservers that are not watched. Absent if witnesses are not wanted.",
        basic=once(lambda m: m.witnesses.announced if m.witnesses else None),
        beta=True,
    ),
    gauge(
        "witnesses_reached",
        "Number of announced apiservers that are not watched, answer, and so are ticked on. Absent if not wanted.",
        basic=once(lambda m: m.witnesses.reached if m.witnesses else None),
        beta=True,
    ),
    gauge(
        "apiserver_peers",
        "Number of apiservers behind its address; absent if unknown.",
        basic=per_apiserver(lambda a: a.peers),
        beta=True,
    ),
    gauge(
        "storage_proven",
        "1 if the storage is recognised, so that bounds are proven; else 0.",
        basic=per_apiserver(_proven),
        beta=True,
    ),
    gauge(
        "apiserver_clock_offset_seconds",
        "Bounds in seconds of the apiserver's wall clock minus that of watchslo; absent until known.",
        basic=per_apiserver(lambda a: ends(a.offset), END),
        beta=True,
    ),
)
