"""Recording rules: the SLI over all windows, budgets, quantiles, good minutes and how many were judged."""

from collections.abc import Iterator

from watchslo.config import Config, ObjectiveConfig, format_duration
from watchslo.rules import names
from watchslo.rules.names import Levels
from watchslo.rules.options import Options
from watchslo.rules.promql import by, number, select
from watchslo.rules.watches import Share, either, shares
from watchslo.rules.windows import (
    DAY,
    LENGTHS,
    LONG_WINDOWS,
    RATE_SECONDS,
    RECORDED_EVERY,
    SHORT_WINDOWS,
    SLOWLY_RECORDED_EVERY,
    Group,
    Rule,
    budget,
)

COUNT = "watchslo_apiserver_timespan_seconds_count"
BUCKET = "watchslo_apiserver_timespan_seconds_bucket"
PERCENTILES = (50, 90, 99)


def recording(config: Config, options: Options) -> tuple[Group, ...]:
    """Those of the last minutes, and those that look further back, which are evaluated less often."""
    kept = names.levels(options)
    return (
        Group("watchslo-minutes", options.interval(RECORDED_EVERY), tuple(_minutes(config, options, kept))),
        Group("watchslo-days", options.interval(SLOWLY_RECORDED_EVERY), tuple(_days(config, options))),
    )


def _minutes(config: Config, options: Options, kept: Levels) -> Iterator[Rule]:
    yield from _of_instances(config, options, kept)
    yield Rule(names.EVENTS, by("sum", kept.resource, names.INSTANCE_EVENTS))
    yield Rule(names.LATE_EVENTS, by("sum", kept.resource, names.INSTANCE_LATE_EVENTS))
    yield Rule(names.INSTANCES, by("count", kept.resource, names.INSTANCE_EVENTS))
    for window in SHORT_WINDOWS:
        yield Rule(names.late_ratio(window), _late_ratio(config, options, kept, window))
        yield _burn_rate(config, window)
    buckets = by("sum", (*kept.resource, "le"), _rate(options, BUCKET))
    yield Rule(names.TIMESPAN_BUCKET, buckets)
    for percentile in PERCENTILES:  # of no events there is none: NaN is not at least 0
        yield Rule(names.timespan(percentile), f"histogram_quantile({percentile / 100}, {names.TIMESPAN_BUCKET}) >= 0")
    windows = _rate(options, "watchslo_slo_windows_total")
    yield Rule(names.WINDOWS, by("sum", (*kept.resource, "verdict"), windows))


def _days(config: Config, options: Options) -> Iterator[Rule]:
    for window, seconds in LONG_WINDOWS.items():
        yield Rule(names.late_ratio(window), _summed_ratio(options.span(seconds)))
        yield _burn_rate(config, window)
    for share in shares(config, lambda objective: (objective.events.period,)):
        period = share.objective.events.period
        if format_duration(period) not in LENGTHS:
            # In steps of their own range, rates cover a period once: there is no need to read each of them.
            steps = f"{options.span(period)}:{options.span(RATE_SECONDS)}"
            yield Rule(names.late_ratio(format_duration(period)), _summed_ratio(steps, share.matcher))
    yield Rule(names.BUDGET_REMAINING, either(config, _period_and_target, _remaining))
    good, judged = select(names.WINDOWS, 'verdict="good"'), select(names.WINDOWS, 'verdict=~"good|bad"')
    yield Rule(names.GOOD_WINDOWS, f"{_in_a_day(options, good)} / ({_in_a_day(options, judged)} > 0)")
    yield Rule(names.JUDGED_WINDOWS, either(config, _window, lambda share: _coverage(options, share)))


def _of_instances(config: Config, options: Options, kept: Levels) -> Iterator[Rule]:
    def late(share: Share) -> str:
        events = _rate(options, COUNT, share.matcher)
        in_time = _rate(options, BUCKET, le(share.objective), share.matcher)
        return f"{by('sum', kept.instance_resource, events)} - {by('sum', kept.instance_resource, in_time)}"

    yield Rule(names.INSTANCE_EVENTS, by("sum", kept.instance_resource, _rate(options, COUNT)))
    yield Rule(names.INSTANCE_LATE_EVENTS, either(config, _threshold, late))
    received = _rate(options, "watchslo_watch_events_total")
    yield Rule(names.INSTANCE_WATCH_EVENTS, by("sum", kept.instance_resource, received))


def _late_ratio(config: Config, options: Options, kept: Levels, window: str) -> str:
    """Of the shortest window from its recorded rates, of the others from counters."""
    if SHORT_WINDOWS[window] == RATE_SECONDS:
        return f"{names.LATE_EVENTS} / ({names.EVENTS} > 0)"

    def ratio(share: Share) -> str:
        events = _rate(options, COUNT, share.matcher, window=window)
        in_time = _rate(options, BUCKET, le(share.objective), share.matcher, window=window)
        return f"1 - {by('sum', kept.resource, in_time)} / ({by('sum', kept.resource, events)} > 0)"

    return either(config, _threshold, ratio)


def _burn_rate(config: Config, window: str) -> Rule:
    def burn(share: Share) -> str:
        return f"{select(names.late_ratio(window), share.matcher)} / {number(budget(share.objective))}"

    return Rule(names.burn_rate(window), either(config, _target, burn))


def _remaining(share: Share) -> str:
    spent = select(names.late_ratio(format_duration(share.objective.events.period)), share.matcher)
    return f"1 - {spent} / {number(budget(share.objective))}"


def _summed_ratio(span: str, matcher: str = "") -> str:
    late, events = select(names.LATE_EVENTS, matcher), select(names.EVENTS, matcher)
    return f"sum_over_time({late}[{span}]) / (sum_over_time({events}[{span}]) > 0)"


def _coverage(options: Options, share: Share) -> str:
    """Windows that were judged, of all that went by: as many as instances saw, and no fewer than fit into a day."""
    judged = select(names.WINDOWS, 'verdict=~"good|bad"', share.matcher)
    every = select(names.WINDOWS, share.matcher)
    rates = DAY / options.shrink / share.objective.minutes.window / options.interval(RECORDED_EVERY)
    return f"{_in_a_day(options, judged)} / clamp_min({_in_a_day(options, every)}, {number(rates)})"


def _in_a_day(options: Options, rates: str) -> str:
    return f"sum without (verdict) (sum_over_time({rates}[{options.span(DAY)}]))"


def _rate(options: Options, metric: str, *matchers: str, window: str = "5m") -> str:
    series = select(metric, options.job_selector, *matchers)
    return f"rate({series}[{options.span(SHORT_WINDOWS[window])}])"


def le(objective: ObjectiveConfig) -> str:
    """The matcher of the bucket that ends at the threshold, as the exposition writes it."""
    return f'le="{float(objective.threshold)}"'


def _threshold(objective: ObjectiveConfig) -> tuple[float, ...]:
    return (objective.threshold,)


def _target(objective: ObjectiveConfig) -> tuple[float, ...]:
    return (objective.events.target,)


def _period_and_target(objective: ObjectiveConfig) -> tuple[float, ...]:
    return objective.events.period, objective.events.target


def _window(objective: ObjectiveConfig) -> tuple[float, ...]:
    return (objective.minutes.window,)
