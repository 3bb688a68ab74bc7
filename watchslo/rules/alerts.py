"""Alerts: each is about an apiserver, or about watchslo itself, and names the worst watch in its annotations.

What a single instance sees alone is about that instance. So what is said of an apiserver needs more than half of the
instances that watch there, unless one of them can prove it. With `metrics: proven` each of them can, and alerts on what
such instances do not expose are left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from watchslo.config import Config, ObjectiveConfig, format_duration
from watchslo.rules import names
from watchslo.rules.options import Options
from watchslo.rules.promql import by, joined, number, select
from watchslo.rules.watches import Share, either, shares
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
    Group,
    Pair,
    Rule,
)
from watchslo.rules.writer import Writer

CRITICAL, WARNING = "critical", "warning"
EVENTS, MINUTES, DELIVERY, MONITOR = "watch-latency-events", "watch-latency-minutes", "watch-delivery", "watchslo"

LAST_WINDOWS = 15  # that an alert on windows looks at
BAD_WINDOWS = 10
HARDLY_ANY_WINDOWS = 0.1  # of them
STALLS, STALLS_SECONDS = 3, 30 * MINUTE
RELISTS, RELISTS_SECONDS = 6, HOUR
EXPIRIES, EXPIRIES_SECONDS = 4, 30 * MINUTE
PROOF_SECONDS = 15 * MINUTE  # how long what is proven keeps an alert firing
REFUSALS, REFUSALS_SECONDS = 3, 10 * MINUTE
UNMEASURED_SHARE, UNMEASURED_EVENTS = 0.25, 30  # in five minutes: of a few events a share says nothing
SOME_INSTANCES = 0.01  # of them: of thousands of nodes, some are always down, or short of CPU
TAINTED_SHARE, TAINTED_SECONDS = 0.05, 10 * MINUTE
TICKS_SECONDS, FEWEST_TICKS = 2 * MINUTE, 20  # shared by all apiservers, of which there may be several
SLOW_SHARE = 0.5  # of the threshold


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert as it is written below: `wait` is its `for` in seconds, `also` are labels besides severity and slo."""

    name: str
    severity: str
    slo: str
    expression: str
    wait: float
    summary: str
    description: str
    also: dict[str, str] = field(default_factory=dict)

    def rule(self, options: Options) -> Rule:
        return Rule(
            self.name,
            self.expression,
            options.wait(self.wait) if self.wait else "",
            {"severity": self.severity, "slo": self.slo, **self.also},
            {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": f"{options.runbooks.rstrip('/')}/{self.name}.md",
            },
        )


def alerting(config: Config, options: Options) -> tuple[Group, ...]:
    """All alerts; those on days are evaluated as seldom as what they stand on."""
    writer = Writer(options, names.levels(options))
    pairs = tuple(pair for pair in PAIRS if _firing(config, pair))
    hours = [_budget_burn(config, writer, pair) for pair in pairs if LENGTHS[pair.long] < DAY]
    days = [_budget_burn(config, writer, pair) for pair in pairs if LENGTHS[pair.long] >= DAY]
    groups = (
        ("watchslo-latency", RECORDED_EVERY, (*hours, *_minutes(config, writer))),
        ("watchslo-latency-days", SLOWLY_RECORDED_EVERY, days),
        ("watchslo-delivery", RECORDED_EVERY, _delivery(config, writer)),
        ("watchslo-clock", RECORDED_EVERY, _clock(config, writer)),
        ("watchslo-monitor", RECORDED_EVERY, _monitor(config, writer)),
    )
    return tuple(
        Group(name, options.interval(interval), rules)
        for name, interval, alerts in groups
        if (rules := tuple(alert.rule(options) for alert in alerts))
    )


# --- latency ---------------------------------------------------------------------------------------------------------


def _period_and_target(objective: ObjectiveConfig) -> tuple[float, ...]:
    return objective.events.period, objective.events.target


def _firing(config: Config, pair: Pair) -> tuple[Share, ...]:
    """The watches for which a pair of windows can tell anything."""
    return tuple(share for share in shares(config, _period_and_target) if pair.factor(share.objective))


def _budget_burn(config: Config, writer: Writer, pair: Pair) -> Alert:
    burning = joined("or", [_burning(config, writer, pair, share) for share in _firing(config, pair)])
    worst = writer.worst_watch(f"{names.burn_rate(pair.long)}{{PLACE}}")
    return Alert(
        "WatchLatencyBudgetBurn",
        pair.severity,
        EVENTS,
        by("max", writer.kept.apiserver, burning),
        pair.wait,
        f"Watch events of {writer.at} are late: the error budget burns {{{{ $value | humanize }}}} times too fast.",
        f"Of the last {pair.long}, and of the last {pair.short} as well, so many events of {worst} were later than its "
        "objective allows that its error budget is spent {{ $value | humanize }} times as fast as it comes in. "
        "Whatever acts on this watch acts late: pods start late, endpoints go stale.",
        {"long": pair.long, "short": pair.short},
    )


def _burning(config: Config, writer: Writer, pair: Pair, share: Share) -> str:
    factor = pair.factor(share.objective)
    assert factor is not None
    late, every = select(names.LATE_EVENTS, share.matcher), select(names.INSTANCES, share.matcher)
    events_late = f"{writer.over('sum_over_time', late, LENGTHS[pair.long])} * {_number_of_rates(writer)}"
    burning = (
        f"{select(names.burn_rate(pair.long), share.matcher)} > {number(factor)}",
        f"{select(names.burn_rate(pair.short), share.matcher)} > {number(factor)}",
    )
    if not config.judges_quantiles:  # what is proven needs nobody to confirm it, and each node has few events
        return joined("and", (*burning, f"{events_late} >= {FEWEST_LATE_EVENTS}"))
    return joined(
        "and",
        (
            *burning,
            f"{events_late} >= {FEWEST_LATE_EVENTS} * {every}",
            f"{_late_themselves(writer, pair, share)} > 0.5 * {every}",
        ),
    )


def _number_of_rates(writer: Writer) -> str:
    """The seconds that each recorded rate stands for."""
    return number(writer.options.interval(RECORDED_EVERY))


def _late_themselves(writer: Writer, pair: Pair, share: Share) -> str:
    """How many instances are late themselves, on the average of the minutes in which any is."""
    late = select(names.LATE_INSTANCES, share.matcher)
    seconds = LENGTHS[pair.short]
    return late if seconds == RATE_SECONDS else writer.over("avg_over_time", late, seconds)


def _window(objective: ObjectiveConfig) -> tuple[float, ...]:
    return (objective.minutes.window,)


def _minutes(config: Config, writer: Writer) -> Iterator[Alert]:
    if config.judges_quantiles:
        yield _bad_minutes(config, writer)


def _bad_minutes(config: Config, writer: Writer) -> Alert:
    def bad(share: Share) -> str:
        matcher = 'verdict="bad"'
        condition = f"{writer.windows(share, matcher, LAST_WINDOWS)} >= {BAD_WINDOWS}"
        return writer.most(condition, share.matcher)

    longest = max(share.objective.minutes.window for share in shares(config, _window))
    span = format_duration(LAST_WINDOWS * longest)
    worst = writer.worst_watch(f'sum by (watch) (increase(watchslo_slo_windows_total{{verdict="bad",PLACE}}[{span}]))')
    return Alert(
        "WatchLatencyBadMinutes",
        CRITICAL,
        MINUTES,
        writer.affected(either(config, _window, bad)),
        0.0,
        f"Watch events of {writer.at} are late, minute after minute.",
        f"For {{{{ $value }}}} watches, {worst} the worst, P99 was over the threshold in at least {BAD_WINDOWS} of the "
        f"last {LAST_WINDOWS} minutes. Whatever acts on them acts late: pods start late, endpoints go stale.",
    )


# --- delivery --------------------------------------------------------------------------------------------------------


def _delivery(config: Config, writer: Writer) -> Iterator[Alert]:
    yield _stalled(writer)
    yield _down(writer)
    yield _repeated(
        writer,
        "WatchRelistStorm",
        'watchslo_relists_total{reason!~"start|inventory"}',
        RELISTS,
        RELISTS_SECONDS,
        f"Watches of {writer.at} start over again and again.",
        "Each time a client lists everything anew, which burdens the apiserver, and misses what happened in between.",
    )
    yield _repeated(
        writer,
        "WatchExpiredLoop",
        "watchslo_expired_total",
        EXPIRIES,
        EXPIRIES_SECONDS,
        f"Watches of {writer.at} get 410 Expired again and again.",
        "The apiserver forgets revisions faster than clients can come back with them: they list, get a 410, and list.",
    )
    yield _lost(writer)
    if config.judges_quantiles:
        yield _history(writer)


def _history(writer: Writer) -> Alert:
    fits = writer.raw("watchslo_watch_history_fits")
    return Alert(
        "WatchHistoryShort",
        WARNING,
        DELIVERY,
        writer.affected(writer.most(f"{fits} == 0")),
        10 * MINUTE,
        f"A full list at {writer.at} takes longer than its history reaches back.",
        f"For {{{{ $value }}}} resources, such as {writer.worst_watch('1 - watchslo_watch_history_fits{PLACE}')}, a "
        "client that lists and then watches from the list's revision gets a 410, and lists again, for ever.",
    )


def _stalled(writer: Writer) -> Alert:
    stalled, stalls = writer.raw("watchslo_watch_stalled"), writer.raw("watchslo_stalls_total")
    often = f"{writer.over('increase', stalls, STALLS_SECONDS)} >= {STALLS}"
    span = writer.options.span(STALLS_SECONDS)
    worst = f"max by (watch) (watchslo_watch_stalled{{PLACE}} + increase(watchslo_stalls_total{{PLACE}}[{span}]))"
    return Alert(
        "WatchStalled",
        CRITICAL,
        DELIVERY,
        writer.affected(joined("or", (writer.most(f"{stalled} == 1"), writer.most(often)))),
        MINUTE,
        f"Watches of {writer.at} are open and deliver nothing of what happens.",
        f"{{{{ $value }}}} watches, {writer.worst_watch(worst)} the worst, withhold events, now or again and again: a "
        "dead connection, or a cache of the apiserver that is frozen. Clients believe that all is quiet.",
    )


def _down(writer: Writer) -> Alert:
    up = writer.raw("watchslo_watch_up")
    return Alert(
        "WatchDown",
        CRITICAL,
        DELIVERY,
        writer.affected(writer.most(f"{up} == 0")),
        10 * MINUTE,
        f"Watches of {writer.at} cannot be opened.",
        f"{{{{ $value }}}} watches, such as {writer.worst_watch('1 - watchslo_watch_up{PLACE}')}, have been closed for "
        "ten minutes, and every attempt to open them failed. Controllers that need them see nothing.",
    )


def _repeated(writer: Writer, name: str, counter: str, times: int, seconds: float, summary: str, meaning: str) -> Alert:
    """An alert on a counter that rises too often; the counter may have a matcher."""
    metric, _, matcher = counter.removesuffix("}").partition("{")
    rises = by("sum", writer.kept.instance_resource, writer.increase(metric, seconds, matcher))
    place = ",".join(filter(None, (matcher, "PLACE")))
    worst = f"sum by (watch) (increase({metric}{{{place}}}[{writer.options.span(seconds)}]))"
    return Alert(
        name,
        WARNING,
        DELIVERY,
        writer.affected(writer.most(f"{rises} >= {times}")),
        0.0,
        summary,
        f"That happened at least {times} times of late to {{{{ $value }}}} watches, most often to "
        f"{writer.worst_watch(worst)}. {meaning}",
    )


def _lost(writer: Writer) -> Alert:
    at_instance = (*writer.kept.instance, "apiserver")
    proofs = (
        by("sum", at_instance, writer.increase(metric, PROOF_SECONDS))
        for metric in ("watchslo_lost_events_total", "watchslo_time_travel_total")
    )
    lost = joined("or", [f"{by('max', writer.kept.apiserver, proof)} > 0" for proof in proofs])
    span = writer.options.span(PROOF_SECONDS)
    worst = writer.worst_watch(f"sum by (watch) (increase(watchslo_lost_events_total{{PLACE}}[{span}])) > 0")
    return Alert(
        "WatchEventsLost",
        CRITICAL,
        DELIVERY,
        lost,
        0.0,
        f"{writer.at} lost watch events, or answered from the past.",
        "About {{ $value | humanize }} times in the last quarter of an hour a watch passed over an event for good "
        f"(worst watch: {worst}), or the apiserver answered with a state older than one it had told. What clients "
        "believe may be wrong until they list again.",
    )


# --- can it be trusted? ----------------------------------------------------------------------------------------------


def _clock(config: Config, writer: Writer) -> Iterator[Alert]:
    apiserver, by_domain = writer.kept.apiserver, (*writer.kept.apiserver, "domain")
    seconds = max(TICKS_SECONDS, FEWEST_TICKS * config.clock.interval)
    answered = writer.over("rate", writer.raw("watchslo_clock_ticks_total", 'result=~"ok|slow"'), seconds)
    ticks = by("sum", (*writer.kept.instance, "apiserver", "domain"), answered)
    stopped = f"{by('count', by_domain, f'{ticks} == 0')}\n> 0.5 * {by('count', by_domain, ticks)}"
    yield Alert(
        "WatchsloClockStopped",
        CRITICAL,
        MONITOR,
        by("count", apiserver, stopped),
        3 * MINUTE,
        f"No tick of the revision clock is answered by {writer.at}.",
        "{{ $value }} clocks have stopped. Without ticks nobody knows how late events are: neither the objective nor "
        "its alerts can tell anything of this apiserver.",
    )
    if config.judges_quantiles:
        yield _slow(config, writer)
        yield _coverage(config, writer)
    yield _unmeasurable(writer)


def _slow(config: Config, writer: Writer) -> Alert:
    by_domain = (*writer.kept.apiserver, "domain")
    slow = SLOW_SHARE * min(share.objective.threshold for share in shares(config, _threshold))
    buckets = writer.over("rate", writer.raw("watchslo_clock_tick_seconds_bucket"), RATE_SECONDS)
    median = f"histogram_quantile(0.5, {by('sum', (*by_domain, 'le'), buckets)})"
    return Alert(
        "WatchsloClockSlow",
        WARNING,
        MONITOR,
        f"{by('max', writer.kept.apiserver, median)} > {number(slow)}",
        10 * MINUTE,
        f"The revision clock of {writer.at} is too slow to judge the objective.",
        "Half of the ticks take longer than {{ $value | humanizeDuration }}, and more than half the threshold. What is "
        "faster than a tick cannot be told apart, so latencies near the threshold are guesses.",
    )


def _threshold(objective: ObjectiveConfig) -> tuple[float, ...]:
    return (objective.threshold,)


def _window_and_events(objective: ObjectiveConfig) -> tuple[float, ...]:
    return objective.minutes.window, objective.minutes.min_events


def _coverage(config: Config, writer: Writer) -> Alert:
    """Watches that are busy all the time, and yet have hardly any window judged."""

    def blind(share: Share) -> str:
        missing = writer.windows(share, 'verdict="no_data"', LAST_WINDOWS)
        condition = f"{missing} > {number((1 - HARDLY_ANY_WINDOWS) * LAST_WINDOWS)}"
        span = format_duration(LAST_WINDOWS * share.objective.minutes.window)
        events, others = select(names.EVENTS, share.matcher), select(names.UNMEASURED, share.matcher)
        busy = f"min_over_time({events}[{span}]) + min_over_time({others}[{span}])"
        enough = f"{busy} > {number(_busy(share.objective))} * {select(names.INSTANCES, share.matcher)}"
        return joined("and", (writer.most(condition, share.matcher), enough))

    longest = max(share.objective.minutes.window for share in shares(config, _window))
    span = format_duration(LAST_WINDOWS * longest)
    increase = f'increase(watchslo_slo_windows_total{{verdict="no_data",PLACE}}[{span}])'
    received = f"sum by (watch) ({names.EVENTS}{{PLACE}} + {names.UNMEASURED}{{PLACE}})"
    worst = writer.worst_watch(f"sum by (watch) ({increase}) * {received}")
    return Alert(
        "WatchsloCoverageLow",
        WARNING,
        MONITOR,
        writer.affected(either(config, _window_and_events, blind)),
        15 * MINUTE,
        f"Hardly any minute of busy watches of {writer.at} can be judged.",
        f"{{{{ $value }}}} watches had events enough all the time, such as {worst}, and yet fewer than a tenth of "
        "their last minutes were judged. Good minutes say nothing of the others.",
    )


def _busy(objective: ObjectiveConfig) -> float:
    """Events a second that make sure, twice over, that a window is judged, even if all of them come in one burst.

    The range of a rate touches one window more than fits into it, and one of these must hold its share of the events.
    """
    touched = RATE_SECONDS / objective.minutes.window + 1
    return 2 * objective.minutes.min_events * touched / RATE_SECONDS


def _unmeasurable(writer: Writer) -> Alert:
    odds = number(UNMEASURED_SHARE / (1 - UNMEASURED_SHARE))
    some = f"({names.INSTANCE_UNMEASURED} > {number(UNMEASURED_EVENTS / RATE_SECONDS)})"
    condition = f"{some} > {odds} * {names.INSTANCE_EVENTS}"
    worst = writer.worst_watch(f"{names.UNMEASURED}{{PLACE}}")
    return Alert(
        "WatchsloUnmeasurable",
        WARNING,
        MONITOR,
        writer.affected(writer.most(condition)),
        30 * MINUTE,
        f"A large share of the events of {writer.at} cannot be measured.",
        f"Of {{{{ $value }}}} watches, {worst} the worst, more than {UNMEASURED_SHARE:.0%} of the events are no "
        "sample, so what is said of their latency is about the others only.",
    )


def _monitor(config: Config, writer: Writer) -> Iterator[Alert]:
    if config.judges_quantiles:  # else requests are not told apart, and some rights are optional
        yield _forbidden(writer)
    yield from _overloaded(writer)
    cluster, down = writer.kept.cluster, f"{writer.raw('up', 'PLACE')} == 0"
    yield Alert(
        "WatchsloTargetDown",
        WARNING,
        MONITOR,
        _missing(config, writer),
        10 * MINUTE,
        f"Prometheus cannot scrape {{{{ $value }}}} instances of watchslo{writer.where}.",
        f"One of them is {writer.worst_instance(down)}. "
        "What they alone watch is unknown, and of what others watch as well there is one witness less.",
    )
    yield _absent(writer)
    reloaded = writer.raw("watchslo_config_last_reload_successful")
    failed = "1 - watchslo_config_last_reload_successful{PLACE}"
    yield Alert(
        "WatchsloConfigReloadFailed",
        WARNING,
        MONITOR,
        by("count", cluster, f"{reloaded} == 0"),
        5 * MINUTE,
        f"watchslo{writer.where} does not accept its new configuration.",
        f"{{{{ $value }}}} instances, such as {writer.worst_instance(failed)}, go on with the one before it, so what "
        "has been changed is not watched, or held to the old objective. Their log says what is wrong.",
    )


def _missing(config: Config, writer: Writer) -> str:
    """Instances that are down. Of shards it is known how many there must be, also of those that are no targets."""
    cluster, up = writer.kept.cluster, writer.raw("up")
    if config.shard.count > 1:
        return f"{config.shard.count} - {by('sum', cluster, up)} > 0"
    return f"{by('count', cluster, f'{up} == 0')} > {SOME_INSTANCES} * {by('count', cluster, up)}"


def _forbidden(writer: Writer) -> Alert:
    refusals = writer.increase("watchslo_api_requests_total", REFUSALS_SECONDS, 'kind=~"list|watch"', 'code="403"')
    at_instance = (*writer.kept.instance, "apiserver")
    return Alert(
        "WatchsloForbidden",
        WARNING,
        MONITOR,
        f"{by('max', writer.kept.apiserver, by('sum', at_instance, refusals))} >= {REFUSALS}",
        5 * MINUTE,
        f"watchslo lacks rights at {writer.at}.",
        "{{ $value | humanize }} lists and watches of the last ten minutes were answered with 403 Forbidden. What may "
        "not be watched is not measured.",
    )


def _overloaded(writer: Writer) -> Iterator[Alert]:
    """Where most instances are overloaded, what they say of latency is to be silenced; where some are, it is not."""
    cluster, tainted = writer.kept.cluster, writer.raw("watchslo_tainted_seconds_total")
    busy = by("count", cluster, f"{writer.over('rate', tainted, TAINTED_SECONDS)} > {TAINTED_SHARE}")
    every = by("count", cluster, tainted)
    span = writer.options.span(TAINTED_SECONDS)
    worst = writer.worst_instance(f"rate(watchslo_tainted_seconds_total{{PLACE}}[{span}])")
    for share, compared in (("most", f"> 0.5 * {every}"), ("some", f"> {SOME_INSTANCES} * {every} <= 0.5 * {every}")):
        yield Alert(
            "WatchsloOverloaded",
            WARNING,
            MONITOR,
            f"{busy} {compared}",
            10 * MINUTE,
            f"{{{{ $value }}}} instances of watchslo{writer.where} are too late themselves to blame anybody.",
            f"More than {TAINTED_SHARE:.0%} of the time they had no CPU, or a blocked loop; the worst is {worst}. "
            "Events that arrive meanwhile are not measured.",
            {"instances": share},
        )


def _absent(writer: Writer) -> Alert:
    cluster, info = writer.kept.cluster, writer.raw("watchslo_build_info")
    absent = f"absent({info})"
    if cluster:  # where others are still there, only the past knows who is missing
        known = by("group", cluster, writer.over("present_over_time", info, DAY))
        absent = joined("or", (f"{known} unless {by('group', cluster, info)}", absent))
    return Alert(
        "WatchsloAbsent",
        CRITICAL,
        MONITOR,
        absent,
        10 * MINUTE,
        f"No watchslo is there{writer.where}.",
        "Prometheus has no sample of any instance: nobody watches the watches, and no other alert of them can fire.",
    )
