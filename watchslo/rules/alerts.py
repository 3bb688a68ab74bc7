"""Alerts about apiservers and about watchslo itself; the annotations name the worst watch or instance.

A problem that only one instance sees may be its own. So an alert about an apiserver needs more than half of the
instances that watch there, unless one instance can prove the problem. With `metrics: proven` every instance can; alerts
on metrics that such instances do not expose are left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from watchslo.config.model import Config, ObjectiveConfig
from watchslo.config.values import format_duration
from watchslo.model import SERVICE
from watchslo.rules import names
from watchslo.rules.alert_builder import AlertBuilder
from watchslo.rules.indicators import events_indicator
from watchslo.rules.promql import by, enclosed, joined, number, select
from watchslo.rules.rule import RuleDefinition, RuleGroup
from watchslo.rules.settings import RuleSettings
from watchslo.rules.watch_groups import WatchGroup, union_of_groups, watch_groups
from watchslo.rules.windows import (
    DAY,
    FEWEST_LATE_EVENTS,
    HOUR,
    LENGTHS,
    MINUTE,
    PAIRS,
    RATE_SECONDS,
    RECORDED_EVERY,
    SLOWLY_RECORDED_EVERY,
    WindowPair,
    error_budget,
)
from watchslo.snapshot import OverallVerdict

CRITICAL, WARNING = "critical", "warning"
LATE, UNNOTICED = "Pods may start late and endpoints go stale", "Late events may not be noticed"
WATCHES, INSTANCES = "Affected watches: {{ $value }}", "Affected instances: {{ $value }}"
EVENTS, MINUTES, DELIVERY, MONITOR = "watch-latency-events", "watch-latency-minutes", "watch-delivery", "watchslo"

LAST_WINDOWS = 15  # how many windows an alert on windows reads
BAD_WINDOWS = 10
LITTLE_HISTORY = 0.5  # of the long window of the alert that needs no history
MIN_COVERAGE = 0.1  # below this share of judged windows, coverage is low
NOT_JUDGED = 'verdict=~"no_data|undecided"'
STALLS, STALLS_SECONDS = 3, 30 * MINUTE
RELISTS, RELISTS_SECONDS = 6, HOUR
EXPIRIES, EXPIRIES_SECONDS = 4, 30 * MINUTE
PROOF_SECONDS = 15 * MINUTE  # how long a proven event keeps an alert firing
OFTEN = 15.0  # seconds between two evaluations of an alert that must fire within two minutes of an outage
REFUSALS, REFUSALS_SECONDS = 3, 10 * MINUTE
UNMEASURED_SHARE, UNMEASURED_EVENTS = 0.25, 30  # in five minutes: a share of fewer events is noise
SOME_INSTANCES = 0.01  # share of instances: of thousands of nodes, some are always down or short of CPU
TAINTED_SHARE, TAINTED_SECONDS = 0.05, 10 * MINUTE
COARSE_SHARE = 0.25  # of the threshold: the resolution of a clock that judges it must be below this
BEHIND_SHARE = 0.1  # of the threshold: a tick through one apiserver may take so much longer than through the fastest


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert before `shrink` is applied: `wait` is its `for` in seconds, `labels` are added to severity and slo.

    `impact` says what users of the cluster feel, or what they no longer learn; its runbook begins with it.
    """

    name: str
    severity: str
    slo: str
    expression: str
    wait: float
    impact: str
    summary: str
    description: str
    labels: dict[str, str] = field(default_factory=dict)

    def rule(self, settings: RuleSettings) -> RuleDefinition:
        return RuleDefinition(
            self.name,
            self.expression,
            settings.wait(self.wait) if self.wait else "",
            {"severity": self.severity, "slo": self.slo, **self.labels},
            {
                "summary": f"{self.impact}: {self.summary}",
                "description": self.description,
                "runbook_url": settings.runbook(self.name),
            },
        )


def alert_groups(config: Config, settings: RuleSettings) -> tuple[RuleGroup, ...]:
    """Return all alerts; alerts on windows of days are evaluated as seldom as the rules that they use."""
    builder = AlertBuilder(settings, names.label_levels(settings))
    pairs = tuple(pair for pair in PAIRS if _groups_that_can_fire(config, pair))
    hours = [_budget_burn(config, builder, pair) for pair in pairs if LENGTHS[pair.long] < DAY]
    days = [_budget_burn(config, builder, pair) for pair in pairs if LENGTHS[pair.long] >= DAY]
    groups = (
        ("watchslo-latency", RECORDED_EVERY, (*hours, *_minutes(config, builder))),
        ("watchslo-latency-days", SLOWLY_RECORDED_EVERY, days),
        ("watchslo-apiserver", OFTEN, (_unresponsive(builder), _storage_silent(builder))),
        ("watchslo-delivery", RECORDED_EVERY, _delivery(config, builder)),
        ("watchslo-clock", RECORDED_EVERY, _clock(config, builder)),
        ("watchslo-monitor", RECORDED_EVERY, _monitor(config, builder)),
    )
    return tuple(
        RuleGroup(name, settings.interval(interval), rules)
        for name, interval, alerts in groups
        if (rules := tuple(alert.rule(settings) for alert in alerts))
    )


# --- latency ---------------------------------------------------------------------------------------------------------


def _period_and_target(objective: ObjectiveConfig) -> tuple[float, ...]:
    return objective.events.period, objective.events.target


def _groups_that_can_fire(config: Config, pair: WindowPair) -> tuple[WatchGroup, ...]:
    """Return the groups of watches for which this pair of windows can fire."""
    groups = watch_groups(config, _period_and_target)
    return tuple(group for group in groups if pair.factor(group.objective))


def _budget_burn(config: Config, builder: AlertBuilder, pair: WindowPair) -> Alert:
    burning = joined("or", [_burning(config, builder, pair, group) for group in _groups_that_can_fire(config, pair)])
    worst = builder.worst_watch(f"{names.burn_rate(pair.long)}{{PLACE}}")
    return Alert(
        "WatchLatencyBudgetBurn",
        pair.severity,
        EVENTS,
        by("max", builder.kept.apiserver, burning),
        pair.wait,
        LATE,
        f"watch events of {builder.apiserver} are late, with burn rate {{{{ $value | humanize }}}} over {pair.long}.",
        f"Over the last {pair.long}, and over the last {pair.short} as well, {worst} spent its error budget "
        "{{ $value | humanize }} times as fast as its objective allows. Controllers that depend on this watch act "
        "late.",
        {"long": pair.long, "short": pair.short},
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
    if not config.judges_quantiles:  # proven events need no second instance, and each node has few events
        enough = [f"{events_late} >= {FEWEST_LATE_EVENTS}"]
    else:
        enough = [
            f"{events_late} >= {FEWEST_LATE_EVENTS} * {every}",
            f"{_late_instances(builder, pair, group)} > 0.5 * {every}",
        ]
    over = [] if pair.history else [_burned_out(config, builder, pair, group)]
    return joined("unless", (joined("and", (*burning, *enough)), *over))


def _burned_out(config: Config, builder: AlertBuilder, pair: WindowPair, group: WatchGroup) -> str:
    """Return the condition that little is recorded yet, and that the last minute no longer burns.

    In a cluster that is minutes old, a fault of two minutes spends much of what is known: it pages only while it lasts.
    """
    factor, kept = pair.factor(group.objective), builder.kept.resource
    assert factor is not None
    ratio = events_indicator(config, builder.settings, group).bad_ratio(
        kept, lambda counter: builder.over("rate", counter, MINUTE)
    )
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


def _window(objective: ObjectiveConfig) -> tuple[float, ...]:
    return (objective.minutes.window,)


def _minutes(config: Config, builder: AlertBuilder) -> Iterator[Alert]:
    if config.judges_quantiles:
        yield _bad_minutes(config, builder)
        yield from _bad_minutes_of_all(config, builder)


def _bad_minutes(config: Config, builder: AlertBuilder) -> Alert:
    def bad(group: WatchGroup) -> str:
        matcher = 'verdict="bad"'
        condition = f"{builder.windows(group, matcher, LAST_WINDOWS)} >= {BAD_WINDOWS}"
        return builder.majority(condition, group.matcher)

    longest = max(group.objective.minutes.window for group in watch_groups(config, _window))
    span = format_duration(LAST_WINDOWS * longest)
    worst = builder.worst_watch(f'sum by (watch) (increase(watchslo_slo_windows_total{{verdict="bad",PLACE}}[{span}]))')
    return Alert(
        "WatchLatencyBadMinutes",
        CRITICAL,
        MINUTES,
        builder.watches_by_apiserver(union_of_groups(config, _window, bad)),
        0.0,
        LATE,
        f"watch events of {builder.apiserver} are late in most minutes.",
        f"{WATCHES}; the worst is {worst}. At least {BAD_WINDOWS} of the last {LAST_WINDOWS} minutes were over the "
        "threshold, or the watch was down. Controllers that depend on these watches act late.",
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

    threshold = f"{number(config.objective.threshold)} s"
    of_cluster = f"on ({', '.join(builder.kept.cluster)}) "
    slowest = builder.worst_apiserver(f"{names.cluster_timespan('apiserver', 0.99, 'rate1m')}{{PLACE}}")
    worst = builder.worst_watch(f"{names.timespan(0.99)}{{PLACE}}")
    for scope, expression, place, culprit in (
        ("cluster", confirmed("cluster", of_cluster), f"all apiservers{builder.in_cluster}", f"apiserver is {slowest}"),
        ("apiserver", confirmed("apiserver"), builder.apiserver, f"watch is {worst}"),
    ):
        yield Alert(
            "WatchClusterBadMinutes",
            CRITICAL,
            MINUTES,
            expression,
            0.0,
            LATE,
            f"the watch events of {place} are late, all watches together.",
            f"In {{{{ $value }}}} of the last {LAST_WINDOWS} minutes, more of their events were over {threshold} than "
            f"the objective allows; the slowest {culprit}. Controllers that depend on them act late.",
            {"scope": scope},
        )


# --- delivery --------------------------------------------------------------------------------------------------------


def _delivery(config: Config, builder: AlertBuilder) -> Iterator[Alert]:
    yield _stalled(builder)
    yield _down(builder)
    yield _repeated(
        builder,
        "WatchRelistStorm",
        'watchslo_relists_total{reason!~"start|inventory"}',
        RELISTS,
        RELISTS_SECONDS,
        "Controllers miss changes for a while, and requests may be slow",
        f"watches of {builder.apiserver} relist repeatedly.",
        "Each relist reads all objects again, which loads the apiserver, and hides the changes in between.",
    )
    yield _repeated(
        builder,
        "WatchExpiredLoop",
        "watchslo_expired_total",
        EXPIRIES,
        EXPIRIES_SECONDS,
        "Controllers that start or reconnect may never catch up",
        f"watches of {builder.apiserver} get 410 Expired repeatedly.",
        "Clients need longer to list than the apiserver keeps changes: they list, get a 410, and list again.",
    )
    yield _violated(builder)
    if config.judges_quantiles:
        yield _headroom(builder)


def _headroom(builder: AlertBuilder) -> Alert:
    fits = builder.exposed("watchslo_watch_headroom_fits")
    worst = builder.worst_watch("1 - watchslo_watch_headroom_fits{PLACE}")
    return Alert(
        "WatchHeadroomShort",
        WARNING,
        DELIVERY,
        builder.watches_by_apiserver(builder.majority(f"{fits} == 0")),
        10 * MINUTE,
        "Controllers that start or reconnect would list without end",
        f"a full list at {builder.apiserver} takes longer than the headroom (how far back a watch may begin).",
        f"{WATCHES}, such as {worst}. "
        "A client that lists and then watches from the revision of its list gets a 410 and lists again.",
    )


def _unresponsive(builder: AlertBuilder) -> Alert:
    """Return an alert on an apiserver that most of its instances get no answer from."""
    up, apiserver = builder.exposed("watchslo_apiserver_up"), builder.kept.apiserver
    return Alert(
        "WatchApiserverUnresponsive",
        CRITICAL,
        DELIVERY,
        f"{by('count', apiserver, f'{up} == 0')} > 0.5 * {by('count', apiserver, up)}",
        MINUTE,
        "Controllers, schedulers and kubelets act on old state",
        f"{builder.apiserver} answers nothing.",
        "It has sent no answer and no event to {{ $value }} of our instances for more than a minute although it was "
        "asked. Clients that are connected to it receive no changes.",
    )


def _storage_silent(builder: AlertBuilder) -> Alert:
    """Return an alert on a storage that answers no apiserver, as the verdict of most instances says."""
    said, cluster = builder.exposed("watchslo_verdict"), builder.kept.cluster
    silent = builder.exposed("watchslo_verdict", f'verdict="{OverallVerdict.STORAGE_SILENT}"')
    return Alert(
        "WatchStorageSilent",
        CRITICAL,
        DELIVERY,
        f"{by('count', cluster, f'{silent} == 1')} > 0.5 * {by('count', cluster, f'{said} == 1')}",
        MINUTE,
        "Nothing can be written, and nothing new happens",
        f"the storage answers no apiserver{builder.in_cluster}.",
        f"{INSTANCES}. No consistent read has been answered for more than a minute through any apiserver, while the "
        "apiservers answer other requests. etcd is down, has no quorum, or cannot be reached. The lateness of events "
        "is unknown until it answers.",
    )


def _stalled(builder: AlertBuilder) -> Alert:
    stalled, stalls = builder.exposed("watchslo_watch_stalled"), builder.exposed("watchslo_stalls_total")
    often = f"{builder.over('increase', stalls, STALLS_SECONDS)} >= {STALLS}"
    span = builder.settings.span(STALLS_SECONDS)
    worst = f"max by (watch) (watchslo_watch_stalled{{PLACE}} + increase(watchslo_stalls_total{{PLACE}}[{span}]))"
    return Alert(
        "WatchStalled",
        CRITICAL,
        DELIVERY,
        builder.watches_by_apiserver(joined("or", (builder.majority(f"{stalled} == 1"), builder.majority(often)))),
        MINUTE,
        "Controllers may believe that nothing changes, and not act",
        f"watches of {builder.apiserver} are open but do not deliver events.",
        f"{WATCHES}, now or repeatedly; the worst is {builder.worst_watch(worst)}. The connection is dead, or the "
        "cache of the apiserver is frozen.",
    )


def _down(builder: AlertBuilder) -> Alert:
    up = builder.exposed("watchslo_watch_up")
    worst = builder.worst_watch("1 - watchslo_watch_up{PLACE}")
    return Alert(
        "WatchDown",
        CRITICAL,
        DELIVERY,
        builder.watches_by_apiserver(builder.majority(f"{up} == 0")),
        10 * MINUTE,
        "Controllers may receive no changes, and not act",
        f"watches of {builder.apiserver} cannot be opened.",
        f"{WATCHES}, such as {worst}. They have been closed for ten minutes, and every attempt to open them failed.",
    )


def _repeated(
    builder: AlertBuilder, name: str, counter: str, times: int, seconds: float, impact: str, summary: str, meaning: str
) -> Alert:
    """Return an alert on a counter that rises too often; the counter may have a matcher."""
    metric, _, matcher = counter.removesuffix("}").partition("{")
    rises = by("sum", builder.kept.instance_resource, builder.increase(metric, seconds, matcher))
    place = ",".join(filter(None, (matcher, "PLACE")))
    worst = f"sum by (watch) (increase({metric}{{{place}}}[{builder.settings.span(seconds)}]))"
    return Alert(
        name,
        WARNING,
        DELIVERY,
        builder.watches_by_apiserver(builder.majority(f"{rises} >= {times}")),
        0.0,
        impact,
        summary,
        f"{WATCHES}, each at least {times} times in {format_duration(seconds)}, most often "
        f"{builder.worst_watch(worst)}. {meaning}",
    )


def _violated(builder: AlertBuilder) -> Alert:
    at_instance = (*builder.kept.instance, "apiserver")
    proofs = (
        by("sum", at_instance, builder.increase(metric, PROOF_SECONDS))
        for metric in ("watchslo_watch_guarantee_violations_total", "watchslo_time_travel_total")
    )
    found = joined("or", [f"{by('max', builder.kept.apiserver, proof)} > 0" for proof in proofs])
    span = builder.settings.span(PROOF_SECONDS)
    violations = f"increase(watchslo_watch_guarantee_violations_total{{PLACE}}[{span}])"
    worst = builder.worst_watch(f"sum by (watch) ({violations}) > 0")
    return Alert(
        "WatchGuaranteeViolated",
        CRITICAL,
        DELIVERY,
        found,
        0.0,
        "Controllers may act on a wrong state",
        f"{builder.apiserver} broke a guarantee of watches: events lost, repeated or out of order, or an older state.",
        "In the last 15 minutes, watches lost, repeated or reordered events, or the apiserver answered with an older "
        f"state than before, about {{{{ $value | humanize }}}} times; the worst watch is {worst}. Clients may hold a "
        "wrong state until they list again.",
    )


# --- monitor ---------------------------------------------------------------------------------------------------------


def _clock(config: Config, builder: AlertBuilder) -> Iterator[Alert]:
    if config.judges_quantiles:
        yield _slow(config, builder)
        yield _slow_through_one(config, builder)
        yield _unwitnessed(builder)
        yield _coverage(config, builder)
    yield _unmeasurable(builder)


def _slow(config: Config, builder: AlertBuilder) -> Alert:
    """Return an alert on a clock whose fastest apiserver is slow; each instance may have another fastest one."""
    resolution = builder.exposed("watchslo_clock_resolution_seconds")
    return Alert(
        "WatchsloClockSlow",
        WARNING,
        MONITOR,
        f"{by('max', builder.kept.cluster, resolution)} > {number(COARSE_SHARE * _shortest_threshold(config))}",
        10 * MINUTE,
        "Writes and consistent reads may be slow for all clients",
        f"a revision clock{builder.in_cluster} is too slow to judge the objective.",
        "Latencies below {{ $value | humanizeDuration }} cannot be distinguished, because ticks take that long through "
        f"every apiserver that {builder.worst_instance('watchslo_clock_resolution_seconds{PLACE}')} reaches. That is "
        f"more than {COARSE_SHARE:.0%} of the threshold.",
    )


def _slow_through_one(config: Config, builder: AlertBuilder) -> Alert:
    """Return an alert on an apiserver through which ticks take longer than through the fastest one."""
    by_domain, at_clock = (*builder.kept.apiserver, "domain"), (*builder.kept.instance, "domain")
    least = number(BEHIND_SHARE * _shortest_threshold(config))
    fastest = f"on ({', '.join(at_clock)}) group_left () {by('min', at_clock, names.INSTANCE_TICK)}"
    behind = by("count", by_domain, f"{names.INSTANCE_TICK} - {fastest} > {least}")
    slow = f"{behind}\n> 0.5 * {by('count', by_domain, names.INSTANCE_TICK)}"
    return Alert(
        "WatchApiserverTicksSlow",
        WARNING,
        DELIVERY,
        by("max", builder.kept.apiserver, slow),
        10 * MINUTE,
        "Clients of one apiserver wait longer for reads and writes",
        f"consistent reads through {builder.apiserver} are slower than through other apiservers.",
        f"{INSTANCES}. Their median through this apiserver is more than {least} s above that of the "
        "fastest one. Its watch caches may be behind as well.",
    )


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
        "WatchsloWitnessesUnreached",
        WARNING,
        MONITOR,
        by("count", builder.kept.cluster, f"{reached} == 0\nand {on} ({others})"),
        30 * MINUTE,
        "A slow link between an apiserver and etcd would not be noticed",
        f"instances of watchslo{builder.in_cluster} reach none of the other announced apiservers.",
        f"{INSTANCES}, such as {builder.worst_instance(unreached)}. They tick only through the apiserver that they "
        "watch. Its ticks share a delay between it and etcd and hide it, and creation timestamps are not measured.",
    )


def _shortest_threshold(config: Config) -> float:
    return min(group.objective.threshold for group in watch_groups(config, _threshold))


def _threshold(objective: ObjectiveConfig) -> tuple[float, ...]:
    return (objective.threshold,)


def _window_and_events(objective: ObjectiveConfig) -> tuple[float, ...]:
    return objective.minutes.window, objective.minutes.min_events


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

    longest = max(group.objective.minutes.window for group in watch_groups(config, _window))
    span = format_duration(LAST_WINDOWS * longest)
    increase = f"increase(watchslo_slo_windows_total{{{NOT_JUDGED},PLACE}}[{span}])"
    received = f"sum by (watch) ({names.EVENTS}{{PLACE}} + {names.UNMEASURED}{{PLACE}})"
    worst = builder.worst_watch(f"sum by (watch) ({increase}) * {received}")
    return Alert(
        "WatchsloCoverageLow",
        WARNING,
        MONITOR,
        builder.watches_by_apiserver(union_of_groups(config, _window_and_events, blind)),
        15 * MINUTE,
        UNNOTICED,
        f"coverage of busy watches of {builder.apiserver} is below {MIN_COVERAGE:.0%}.",
        f"{WATCHES}, such as {worst}. They always had enough events, but fewer than a tenth of their last minutes "
        "could be judged. The others had no data, or their proven bounds straddle the threshold. The ratio of good "
        "minutes says nothing about them.",
    )


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
        "WatchsloUnmeasurable",
        WARNING,
        MONITOR,
        builder.watches_by_apiserver(builder.majority(condition)),
        30 * MINUTE,
        UNNOTICED,
        f"more than {UNMEASURED_SHARE:.0%} of the events of {builder.apiserver} are not measured.",
        f"{WATCHES}; the worst is {worst}. Their latency figures describe only the events that were measured.",
    )


def _monitor(config: Config, builder: AlertBuilder) -> Iterator[Alert]:
    if config.judges_quantiles:  # otherwise requests have no `kind`, and some permissions are optional
        yield _forbidden(builder)
    yield from _overloaded(builder)
    cluster, down = builder.kept.cluster, f"{builder.exposed('up', 'PLACE')} == 0"
    yield Alert(
        "WatchsloTargetDown",
        WARNING,
        MONITOR,
        _missing(config, builder),
        10 * MINUTE,
        UNNOTICED,
        f"Prometheus cannot scrape all instances of watchslo{builder.in_cluster}.",
        f"{INSTANCES}, such as {builder.worst_instance(down)}. Watches that only these instances open are not "
        "monitored; other watches have fewer observers.",
    )
    yield _absent(builder)
    reloaded = builder.exposed("watchslo_config_last_reload_successful")
    failed = "1 - watchslo_config_last_reload_successful{PLACE}"
    yield Alert(
        "WatchsloConfigReloadFailed",
        WARNING,
        MONITOR,
        by("count", cluster, f"{reloaded} == 0"),
        5 * MINUTE,
        "Changed watches and objectives are not in force",
        f"watchslo{builder.in_cluster} refused its new configuration.",
        f"{INSTANCES}, such as {builder.worst_instance(failed)}. They keep their previous configuration, and their "
        "log names the error.",
    )


def _missing(config: Config, builder: AlertBuilder) -> str:
    """Count the instances that are down; with shards, also those that Prometheus does not know as targets."""
    cluster, up = builder.kept.cluster, builder.exposed("up")
    if config.shard.count > 1:
        return f"{config.shard.count} - {by('sum', cluster, up)} > 0"
    return f"{by('count', cluster, f'{up} == 0')} > {SOME_INSTANCES} * {by('count', cluster, up)}"


def _forbidden(builder: AlertBuilder) -> Alert:
    refusals = builder.increase("watchslo_api_requests_total", REFUSALS_SECONDS, 'kind=~"list|watch"', 'code="403"')
    at_instance = (*builder.kept.instance, "apiserver")
    return Alert(
        "WatchsloForbidden",
        WARNING,
        MONITOR,
        f"{by('max', builder.kept.apiserver, by('sum', at_instance, refusals))} >= {REFUSALS}",
        5 * MINUTE,
        UNNOTICED,
        f"watchslo lacks permissions at {builder.apiserver}.",
        "{{ $value | humanize }} lists and watches of the last ten minutes were answered with 403 Forbidden. Resources "
        "that watchslo may not watch are not measured.",
    )


def _overloaded(builder: AlertBuilder) -> Iterator[Alert]:
    """Yield an alert for most and one for some instances: only the first silences the alerts on latency."""
    cluster, tainted = builder.kept.cluster, builder.exposed("watchslo_tainted_seconds_total")
    busy = by("count", cluster, f"{builder.over('rate', tainted, TAINTED_SECONDS)} > {TAINTED_SHARE}")
    every = by("count", cluster, tainted)
    span = builder.settings.span(TAINTED_SECONDS)
    worst = builder.worst_instance(f"rate(watchslo_tainted_seconds_total{{PLACE}}[{span}])")
    for share, compared in (("most", f"> 0.5 * {every}"), ("some", f"> {SOME_INSTANCES} * {every} <= 0.5 * {every}")):
        yield Alert(
            "WatchsloOverloaded",
            WARNING,
            MONITOR,
            f"{busy} {compared}",
            10 * MINUTE,
            UNNOTICED,
            f"{share} instances of watchslo{builder.in_cluster} are overloaded and late themselves.",
            f"{INSTANCES}; the worst is {worst}. For more than {TAINTED_SHARE:.0%} of the time they lacked CPU or "
            "their loop was blocked. Events that arrive in that time are tainted and not measured.",
            {"instances": share},
        )


def _absent(builder: AlertBuilder) -> Alert:
    cluster, info = builder.kept.cluster, builder.exposed("watchslo_build_info")
    absent = f"absent({info})"
    if cluster:  # if other clusters report, only past samples show which cluster is missing
        known = by("group", cluster, builder.over("present_over_time", info, DAY))
        absent = joined("or", (f"{known} unless {by('group', cluster, info)}", absent))
    return Alert(
        "WatchsloAbsent",
        CRITICAL,
        MONITOR,
        absent,
        10 * MINUTE,
        "Late events are not noticed",
        f"Prometheus scrapes no instance of watchslo{builder.in_cluster}.",
        "No watch is monitored, and no other alert of watchslo can fire.",
    )
