"""Alerts on late events: the burn rates of error budgets, and bad minutes of watches and of the cluster."""

from collections.abc import Iterator

from watchslo.config.model import Config
from watchslo.config.sections.objective import ObjectiveConfig
from watchslo.config.values import format_duration
from watchslo.rules import names
from watchslo.rules.alerts.alert import EVENTS, LAST_WINDOWS, LATE, MINUTES, WATCHES, Alert
from watchslo.rules.alerts.alert_builder import AlertBuilder
from watchslo.rules.indicators import THRESHOLD, events_indicator
from watchslo.rules.promql import by, enclosed, joined, number, select
from watchslo.rules.rule import WARNING
from watchslo.rules.watch_groups import WatchGroup, judged_window, union_of_groups, watch_groups
from watchslo.rules.windows import (
    DAY,
    FEWEST_LATE_EVENTS,
    LENGTHS,
    MINUTE,
    PAIRS,
    RATE_SECONDS,
    RECORDED_EVERY,
    WindowPair,
    error_budget,
)

BAD_WINDOWS = 10
LITTLE_HISTORY = 0.5  # of the long window of the alert that needs no history


def latency_alerts(config: Config, builder: AlertBuilder) -> Iterator[Alert]:
    """Yield the alerts on windows of hours and on bad minutes."""
    for pair in _pairs_that_can_fire(config):
        if LENGTHS[pair.long] < DAY:
            yield _budget_burn(config, builder, pair)
    if config.mode == "cluster":
        yield _bad_minutes(config, builder)
        yield from _bad_minutes_of_all(config, builder)


def latency_alerts_of_days(config: Config, builder: AlertBuilder) -> Iterator[Alert]:
    """Yield the alerts on windows of days."""
    for pair in _pairs_that_can_fire(config):
        if LENGTHS[pair.long] >= DAY:
            yield _budget_burn(config, builder, pair)


def _pairs_that_can_fire(config: Config) -> Iterator[WindowPair]:
    return (pair for pair in PAIRS if _groups_that_can_fire(config, pair))


def _period_and_target(objective: ObjectiveConfig) -> tuple[float, ...]:
    return objective.events.period, objective.events.target


def _groups_that_can_fire(config: Config, pair: WindowPair) -> tuple[WatchGroup, ...]:
    """Return the groups of watches for which this pair of windows can fire."""
    groups = watch_groups(config, _period_and_target)
    return tuple(group for group in groups if pair.factor(group.objective))


def _budget_burn(config: Config, builder: AlertBuilder, pair: WindowPair) -> Alert:
    burning = joined("or", [_burning(config, builder, pair, group) for group in _groups_that_can_fire(config, pair)])
    by_rate = f"{names.burn_rate(pair.long)}{{PLACE}}"
    worst = builder.worst_watch(by_rate)
    p99 = f"{names.timespan(0.99)}{{PLACE}}"
    estimated = f", P99 {builder.duration_at_worst(p99, by_rate)}" if config.mode == "cluster" else ""
    threshold = builder.duration_at_worst(by("max", builder.kept.resource, f"{THRESHOLD}{{PLACE}}"), by_rate)
    return Alert(
        name="KubeWatchLatencyBudgetBurn",
        severity=pair.severity,
        slo=EVENTS,
        expression=by("max", builder.kept.apiserver, burning),
        wait=pair.wait,
        impact=LATE,
        summary=(
            f"watch events of {builder.apiserver} are late; worst: {worst}{estimated}, threshold {threshold}. "
            "The error budget burns {{ $value | humanize }} times too fast."
        ),
        description=(
            f"Over the last {pair.long}, and over the last {pair.short} as well, {worst} spent its error budget "
            "{{ $value | humanize }} times as fast as its objective allows. Controllers that depend on this watch act "
            "late."
        ),
        labels={"long": pair.long, "short": pair.short},
    )


def _burning(config: Config, builder: AlertBuilder, pair: WindowPair, group: WatchGroup) -> str:
    factor = pair.factor(group.objective)
    assert factor is not None
    late, every = select(names.LATE_EVENTS, group.matcher), select(names.INSTANCES, group.matcher)
    events_late = f"{builder.over('sum_over_time', late, LENGTHS[pair.long])} * {_seconds_per_rate(builder)}"
    burning = (
        f"{select(names.burn_rate(pair.long), group.matcher)} > {number(factor)}",
        f"{select(names.burn_rate(pair.short), group.matcher)} > {number(factor)}",
        *_history(builder, pair, group),
    )
    if config.mode == "node":  # proven events need no second instance, and each node has few events
        enough = [f"{events_late} >= {FEWEST_LATE_EVENTS}"]
    else:
        enough = [
            f"{events_late} >= {FEWEST_LATE_EVENTS} * {every}",
            f"{_late_instances(builder, pair, group)} > 0.5 * {every}",
        ]
    over = [] if pair.history else [_burned_out(builder, pair, group)]
    return joined("unless", (joined("and", (*burning, *enough)), *over))


def _burned_out(builder: AlertBuilder, pair: WindowPair, group: WatchGroup) -> str:
    """Return the condition that little is recorded yet, and that the last minute no longer burns.

    In a cluster that is minutes old, a fault of two minutes spends much of what is known: it pages only while it lasts.
    """
    factor, kept = pair.factor(group.objective), builder.kept.resource
    assert factor is not None
    indicator = events_indicator(builder.settings, group.matcher)
    ratio = indicator.bad_ratio(kept, lambda counter: builder.over("rate", counter, MINUTE))
    recorded = builder.over("count_over_time", select(names.EVENTS, group.matcher), LENGTHS[pair.long])
    little = LITTLE_HISTORY * LENGTHS[pair.long] / builder.settings.shrink
    return joined(
        "and",
        (
            f"{ratio} <= {number(factor * error_budget(group.objective))}",
            f"{recorded} * {_seconds_per_rate(builder)} < {number(little)}",
        ),
    )


def _seconds_per_rate(builder: AlertBuilder) -> str:
    """Return the seconds between recorded rates: a sum of rates times this is a number of events."""
    return number(builder.settings.interval(RECORDED_EVERY))


def _history(builder: AlertBuilder, pair: WindowPair, group: WatchGroup) -> Iterator[str]:
    """Yield the condition that the long window holds enough recorded rates, if the pair needs history.

    It counts rates of all instances together, so neither a gap nor a new name of an instance begins a new history.
    """
    if pair.history:
        recorded = builder.over("count_over_time", select(names.EVENTS, group.matcher), LENGTHS[pair.long])
        yield f"{recorded} * {_seconds_per_rate(builder)} >= {number(pair.history / builder.settings.shrink)}"


def _late_instances(builder: AlertBuilder, pair: WindowPair, group: WatchGroup) -> str:
    """Return how many instances measure lateness themselves, averaged over the minutes in which any does."""
    late = select(names.LATE_INSTANCES, group.matcher)
    seconds = LENGTHS[pair.short]
    return late if seconds == RATE_SECONDS else builder.over("avg_over_time", late, seconds)


def _bad_minutes(config: Config, builder: AlertBuilder) -> Alert:
    def bad(group: WatchGroup) -> str:
        matcher = 'verdict="bad"'
        condition = f"{builder.windows(group, matcher, LAST_WINDOWS)} >= {BAD_WINDOWS}"
        return builder.majority(condition, group.matcher)

    longest = max(group.objective.minutes.window for group in watch_groups(config, judged_window))
    span = format_duration(LAST_WINDOWS * longest)
    worst = builder.worst_watch(f'sum by (watch) (increase(watchslo_slo_windows_total{{verdict="bad",PLACE}}[{span}]))')
    return Alert(
        name="KubeWatchLatencyBadMinutes",
        severity=WARNING,
        slo=MINUTES,
        expression=builder.watches_by_apiserver(union_of_groups(config, judged_window, bad)),
        wait=0.0,
        impact=LATE,
        summary=f"watch events of {builder.apiserver} are late in most minutes.",
        description=(
            f"{WATCHES}; the worst is {worst}. At least {BAD_WINDOWS} of the last {LAST_WINDOWS} minutes were over the "
            "threshold, or the watch was down. Controllers that depend on these watches act late."
        ),
    )


def _bad_minutes_of_all(config: Config, builder: AlertBuilder) -> Iterator[Alert]:
    """Yield the alerts on the sum of all watches: of the cluster, and of each apiserver.

    The sum may be late because one instance is. So more than half of the instances at an apiserver must see most of
    their own minutes bad. Shards have different watches: none of them can confirm what another one sees.
    """
    seconds = (LAST_WINDOWS - 0.5) * RECORDED_EVERY  # a range that begins with an evaluation may count that one, too

    def bad(level: str) -> str:
        minutes = (
            builder.over(f"{function}_over_time", names.good_minute(level), seconds) for function in ("count", "sum")
        )
        return f"{' - '.join(minutes)} >= {BAD_WINDOWS}"

    def confirmed(level: str, matching: str = "") -> str:
        if config.shard.count > 1:
            return bad(level)
        own, apiserver = names.good_minute("instance_apiserver"), builder.kept.apiserver
        judged = builder.over("count_over_time", own, seconds)
        instances = f"{by('count', apiserver, bad('instance_apiserver'))}\n> 0.5 * {by('count', apiserver, judged)}"
        return f"{bad(level)}\nand {matching}{enclosed(instances)}"

    of_cluster = f"on ({', '.join(builder.kept.cluster)}) "
    slowest = builder.worst_apiserver(f"{names.cluster_timespan('apiserver', 0.99, 'rate1m')}{{PLACE}}")
    worst = builder.worst_watch(f"{names.timespan(0.99)}{{PLACE}}")
    for scope, expression, place, culprit in (
        ("cluster", confirmed("cluster", of_cluster), f"all apiservers{builder.in_cluster}", f"apiserver is {slowest}"),
        ("apiserver", confirmed("apiserver"), builder.apiserver, f"watch is {worst}"),
    ):
        yield Alert(
            name="KubeWatchClusterBadMinutes",
            severity=WARNING,
            slo=MINUTES,
            expression=expression,
            wait=0.0,
            impact=LATE,
            summary=f"the watch events of {place} are late, all watches together.",
            description=(
                f"In {{{{ $value }}}} of the last {LAST_WINDOWS} minutes, more of their events were late than the "
                f"objective allows; the slowest {culprit}. Controllers that depend on them act late."
            ),
            labels={"scope": scope},
        )
