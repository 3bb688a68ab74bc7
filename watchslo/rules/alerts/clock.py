"""Alerts on what keeps events from being measured: slow ticks, few witnesses, few judged windows."""

from collections.abc import Iterator

from watchslo.config.model import Config
from watchslo.config.sections.objective import ObjectiveConfig
from watchslo.config.values import format_duration
from watchslo.model import SERVICE
from watchslo.rules import names
from watchslo.rules.alerts.alert import DELIVERY, INSTANCES, LAST_WINDOWS, MONITOR, UNNOTICED, WATCHES, Alert
from watchslo.rules.alerts.alert_builder import AlertBuilder
from watchslo.rules.indicators import THRESHOLD
from watchslo.rules.promql import by, joined, number, select
from watchslo.rules.rule import WARNING
from watchslo.rules.watch_groups import WatchGroup, judged_window, union_of_groups, watch_groups
from watchslo.rules.windows import MINUTE, RATE_SECONDS

MIN_COVERAGE = 0.1  # below this share of judged windows, coverage is low
NOT_JUDGED = 'verdict=~"no_data|undecided"'
UNMEASURED_SHARE, UNMEASURED_EVENTS = 0.25, 30  # in five minutes: a share of fewer events is noise
COARSE_SHARE = 0.25  # of the threshold: the resolution of a clock that judges it must be below this
BEHIND_SHARE = 0.1  # of the threshold: a tick through one apiserver may take so much longer than through the fastest


def clock_alerts(config: Config, builder: AlertBuilder) -> Iterator[Alert]:
    """Yield the alerts on ticks, witnesses and coverage; only the last one is left with `mode: node`."""
    if config.mode == "cluster":
        yield _slow(builder)
        yield _slow_through_one(builder)
        yield _unwitnessed(builder)
        yield _coverage(config, builder)
    yield _unmeasurable(builder)


def _slow(builder: AlertBuilder) -> Alert:
    """Return an alert on a clock whose fastest apiserver is slow; each instance may have another fastest one."""
    resolution = by("max", builder.kept.cluster, builder.exposed("watchslo_clock_resolution_seconds"))
    return Alert(
        name="WatchsloClockSlow",
        severity=WARNING,
        slo=MONITOR,
        expression=f"{resolution}\n> {COARSE_SHARE} * {_shortest_threshold(builder)}",
        wait=10 * MINUTE,
        impact="Writes and consistent reads may be slow for all clients",
        summary=f"a revision clock{builder.in_cluster} is too slow to judge the objective.",
        description=(
            "Latencies below {{ $value | humanizeDuration }} cannot be measured, because ticks take that long "
            f"through every apiserver that {builder.worst_instance('watchslo_clock_resolution_seconds{PLACE}')} "
            f"reaches. That is more than {COARSE_SHARE:.0%} of the shortest threshold."
        ),
    )


def _slow_through_one(builder: AlertBuilder) -> Alert:
    """Return an alert on an apiserver through which ticks take longer than through the fastest one."""
    by_domain, at_clock = (*builder.kept.apiserver, "domain"), (*builder.kept.instance, "domain")
    least = f"on ({', '.join(builder.kept.cluster)}) group_left () {BEHIND_SHARE} * {_shortest_threshold(builder)}"
    fastest = f"on ({', '.join(at_clock)}) group_left () {by('min', at_clock, names.INSTANCE_TICK)}"
    behind = by("count", by_domain, f"{names.INSTANCE_TICK} - {fastest}\n> {least}")
    slow = f"{behind}\n> 0.5 * {by('count', by_domain, names.INSTANCE_TICK)}"
    return Alert(
        name="KubeWatchApiserverTicksSlow",
        severity=WARNING,
        slo=DELIVERY,
        expression=by("max", builder.kept.apiserver, slow),
        wait=10 * MINUTE,
        impact="Clients of one apiserver wait longer for reads and writes",
        summary=f"consistent reads through {builder.apiserver} are slower than through other apiservers.",
        description=(
            f"{INSTANCES}. Their median through this apiserver exceeds that of the fastest one by more than "
            f"{BEHIND_SHARE:.0%} of the shortest threshold. Its watch caches may be behind as well."
        ),
    )


def _shortest_threshold(builder: AlertBuilder) -> str:
    return by("min", builder.kept.cluster, builder.exposed(THRESHOLD))


def _unwitnessed(builder: AlertBuilder) -> Alert:
    """Return an alert on instances that reach no apiserver but those that they watch.

    One of the announced addresses is that of the service, if the service is watched.
    """
    announced, reached = (builder.exposed(f"watchslo_witnesses_{state}") for state in ("announced", "reached"))
    service = builder.exposed("watchslo_apiserver_watched", f'apiserver="{SERVICE}"')
    on = f"on ({', '.join(builder.kept.instance)})"
    others = f"{announced} - {on} ({service} or {on} 0 * {announced}) > 0"
    unreached = "watchslo_witnesses_announced{PLACE} - watchslo_witnesses_reached{PLACE}"
    return Alert(
        name="WatchsloWitnessesUnreached",
        severity=WARNING,
        slo=MONITOR,
        expression=by("count", builder.kept.cluster, f"{reached} == 0\nand {on} ({others})"),
        wait=30 * MINUTE,
        impact="A slow link between an apiserver and etcd would not be noticed",
        summary=f"instances of watchslo{builder.in_cluster} reach none of the other announced apiservers.",
        description=(
            f"{INSTANCES}, such as {builder.worst_instance(unreached)}. They tick only through the apiserver that they "
            "watch. Its ticks share a delay between it and etcd and hide it, and creation timestamps are not measured."
        ),
    )


def _coverage(config: Config, builder: AlertBuilder) -> Alert:
    """Return an alert on watches that are always busy, but have few judged windows."""

    def blind(group: WatchGroup) -> str:
        missing = builder.windows(group, NOT_JUDGED, LAST_WINDOWS)
        condition = f"{missing} > {number((1 - MIN_COVERAGE) * LAST_WINDOWS)}"
        span = format_duration(LAST_WINDOWS * group.objective.minutes.window)
        events, others = select(names.EVENTS, group.matcher), select(names.UNMEASURED, group.matcher)
        busy = f"min_over_time({events}[{span}]) + min_over_time({others}[{span}])"
        enough = f"{busy} > {number(_busy(group.objective))} * {select(names.INSTANCES, group.matcher)}"
        return joined("and", (builder.majority(condition, group.matcher), enough))

    longest = max(group.objective.minutes.window for group in watch_groups(config, judged_window))
    span = format_duration(LAST_WINDOWS * longest)
    increase = f"increase(watchslo_slo_windows_total{{{NOT_JUDGED},PLACE}}[{span}])"
    received = f"sum by (watch) ({names.EVENTS}{{PLACE}} + {names.UNMEASURED}{{PLACE}})"
    worst = builder.worst_watch(f"sum by (watch) ({increase}) * {received}")
    return Alert(
        name="WatchsloCoverageLow",
        severity=WARNING,
        slo=MONITOR,
        expression=builder.watches_by_apiserver(union_of_groups(config, _window_and_events, blind)),
        wait=15 * MINUTE,
        impact=UNNOTICED,
        summary=f"coverage of busy watches of {builder.apiserver} is below {MIN_COVERAGE:.0%}.",
        description=(
            f"{WATCHES}, such as {worst}. They always had enough events, but fewer than a tenth of their last minutes "
            "could be judged. The others had no data, or their proven bounds straddle the threshold. The ratio of good "
            "minutes says nothing about them."
        ),
    )


def _window_and_events(objective: ObjectiveConfig) -> tuple[float, ...]:
    return objective.minutes.window, objective.minutes.min_events


def _busy(objective: ObjectiveConfig) -> float:
    """Return twice the event rate with which a window is certainly judged, even if all events come in one burst.

    The range of a rate touches one window more than fits into it, and one of these windows holds its share of events.
    """
    touched = RATE_SECONDS / objective.minutes.window + 1
    return 2 * objective.minutes.min_events * touched / RATE_SECONDS


def _unmeasurable(builder: AlertBuilder) -> Alert:
    odds = number(UNMEASURED_SHARE / (1 - UNMEASURED_SHARE))
    some = f"({names.INSTANCE_UNMEASURED} > {number(UNMEASURED_EVENTS / RATE_SECONDS)})"
    condition = f"{some} > {odds} * {names.INSTANCE_EVENTS}"
    worst = builder.worst_watch(f"{names.UNMEASURED}{{PLACE}}")
    return Alert(
        name="WatchsloUnmeasurable",
        severity=WARNING,
        slo=MONITOR,
        expression=builder.watches_by_apiserver(builder.majority(condition)),
        wait=30 * MINUTE,
        impact=UNNOTICED,
        summary=f"more than {UNMEASURED_SHARE:.0%} of the events of {builder.apiserver} are not measured.",
        description=(
            f"{WATCHES}; the worst is {worst}. Their latency figures describe only the events that were measured."
        ),
    )
