"""Recording rules: the SLI over all windows, budgets, quantiles, good minutes and how many were judged.

With `metrics: proven` there are neither histograms nor judged minutes. Then late is what surely was, so that ratios and
burn rates are at least what they say; quantiles and good minutes are left out.
"""

from collections.abc import Iterator
from functools import partial

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
    RECORDED_EVERY,
    SELDOM_RECORDED_EVERY,
    SHORT_WINDOWS,
    SLOWLY_RECORDED_EVERY,
    STEP_SECONDS,
    Group,
    Rule,
    budget,
)

COUNT = "watchslo_apiserver_timespan_seconds_count"
BUCKET = "watchslo_apiserver_timespan_seconds_bucket"
VERDICTS = "watchslo_slo_events_total"
BEYOND = 'verdict="beyond"'
GOOD = 'verdict="good"'
PERCENTILES = (50, 90, 99)


def recording(config: Config, options: Options) -> tuple[Group, ...]:
    """Those of the last minutes, and those that look further back: the further, the less often they are evaluated.

    Every bucket of every instance goes into the quantiles, which no alert waits for.
    """
    kept = names.levels(options)
    recorded = (
        ("watchslo-minutes", RECORDED_EVERY, _minutes(config, options, kept)),
        ("watchslo-quantiles", SLOWLY_RECORDED_EVERY, _quantiles(options, kept) if config.judges_quantiles else ()),
        ("watchslo-days", SLOWLY_RECORDED_EVERY, _days(config, options)),
        ("watchslo-period", SELDOM_RECORDED_EVERY, _period(config, options)),
    )
    return tuple(
        Group(name, options.interval(interval), rules) for name, interval, each in recorded if (rules := tuple(each))
    )


def _minutes(config: Config, options: Options, kept: Levels) -> Iterator[Rule]:
    yield from _of_instances(config, options, kept)
    yield Rule(names.EVENTS, by("sum", kept.resource, names.INSTANCE_EVENTS))
    yield Rule(names.LATE_EVENTS, by("sum", kept.resource, names.INSTANCE_LATE_EVENTS))
    yield Rule(names.UNMEASURED, by("sum", kept.resource, names.INSTANCE_UNMEASURED))
    yield Rule(names.INSTANCES, by("count", kept.resource, names.INSTANCE_EVENTS))
    yield Rule(names.LATE_INSTANCES, by("count", kept.resource, either(config, _target, _spending)))
    yield Rule(names.late_ratio("5m"), f"{names.LATE_EVENTS} / ({names.EVENTS} > 0)")
    yield Rule(names.late_ratio("30m"), _summed_ratio(options.span(SHORT_WINDOWS["30m"])))
    yield Rule(names.late_ratio("1h"), either(config, _threshold, partial(_counted_ratio, config, options, kept)))
    yield Rule(names.late_ratio("2h"), _summed_ratio(options.span(SHORT_WINDOWS["2h"])))
    yield from (_burn_rate(config, window) for window in SHORT_WINDOWS)
    if config.judges_quantiles:
        judged = _rate(options, "watchslo_slo_windows_total", 'verdict=~"good|bad"')
        yield Rule(names.WINDOWS, by("sum", (*kept.resource, "verdict"), judged))


def _of_instances(config: Config, options: Options, kept: Levels) -> Iterator[Rule]:
    def late(share: Share) -> str:
        if not config.judges_quantiles:
            return by("sum", kept.instance_resource, _rate(options, VERDICTS, BEYOND, share.matcher))
        in_time = _rate(options, BUCKET, le(share.objective), share.matcher)
        return f"{select(names.INSTANCE_EVENTS, share.matcher)} - {by('sum', kept.instance_resource, in_time)}"

    events = COUNT if config.judges_quantiles else VERDICTS
    unmeasured = _rate(options, "watchslo_unmeasured_events_total", 'reason!="initial"')
    yield Rule(names.INSTANCE_EVENTS, by("sum", kept.instance_resource, _rate(options, events)))
    yield Rule(names.INSTANCE_LATE_EVENTS, either(config, _threshold, late))
    yield Rule(names.INSTANCE_UNMEASURED, by("sum", kept.instance_resource, unmeasured))


def _quantiles(options: Options, kept: Levels) -> Iterator[Rule]:
    yield Rule(names.TIMESPAN_BUCKET, by("sum", (*kept.resource, "le"), _rate(options, BUCKET)))
    for percentile in PERCENTILES:  # of no events there is none: NaN is not at least 0
        yield Rule(names.timespan(percentile), f"histogram_quantile({percentile / 100}, {names.TIMESPAN_BUCKET}) >= 0")


def _days(config: Config, options: Options) -> Iterator[Rule]:
    for window, seconds in LONG_WINDOWS.items():
        yield Rule(names.late_ratio(window), _summed_ratio(options.span(seconds)))
        yield _burn_rate(config, window)
    if not config.judges_quantiles:
        return
    good = f"sum_over_time({select(names.WINDOWS, GOOD)}[{options.span(DAY)}])"
    yield Rule(names.GOOD_WINDOWS, f"sum without (verdict) ({good}) / ({_judged(options)} > 0)")
    yield Rule(names.JUDGED_WINDOWS, either(config, _window, lambda share: _coverage(options, share)))


def _period(config: Config, options: Options) -> Iterator[Rule]:
    half_an_hour = options.span(SHORT_WINDOWS["30m"])
    yield Rule(names.EVENTS_30M, f"avg_over_time({names.EVENTS}[{half_an_hour}])")
    yield Rule(names.LATE_EVENTS_30M, f"avg_over_time({names.LATE_EVENTS}[{half_an_hour}])")
    for share in shares(config, lambda objective: (objective.events.period,)):
        period = share.objective.events.period
        if format_duration(period) not in LENGTHS:
            yield Rule(names.late_ratio(format_duration(period)), _period_ratio(options, period, share.matcher))
    yield Rule(names.BUDGET_REMAINING, either(config, _period_and_target, _remaining))


def _spending(share: Share) -> str:
    """Instances that are late themselves: what they see spends the budget faster than it comes in."""
    late, events = select(names.INSTANCE_LATE_EVENTS, share.matcher), select(names.INSTANCE_EVENTS, share.matcher)
    return f"{late} > {number(budget(share.objective))} * {events}"


def _counted_ratio(config: Config, options: Options, kept: Levels, share: Share) -> str:
    """Of the window that pages first, from counters: a sum of recorded rates feels a fault some minutes late."""
    if not config.judges_quantiles:
        every = by("sum", kept.resource, _rate(options, VERDICTS, share.matcher, window="1h"))
        late = by("sum", kept.resource, _rate(options, VERDICTS, BEYOND, share.matcher, window="1h"))
        return f"{late} / ({every} > 0)"
    events = by("sum", kept.resource, _rate(options, COUNT, share.matcher, window="1h"))
    in_time = by("sum", kept.resource, _rate(options, BUCKET, le(share.objective), share.matcher, window="1h"))
    return f"1 - {in_time} / ({events} > 0)"


def _summed_ratio(span: str, matcher: str = "") -> str:
    late, events = select(names.LATE_EVENTS, matcher), select(names.EVENTS, matcher)
    return f"sum_over_time({late}[{span}]) / (sum_over_time({events}[{span}]) > 0)"


def _period_ratio(options: Options, period: float, matcher: str) -> str:
    """In steps of their own range, rates cover a period once: there is no need to read each of them."""
    if period <= LENGTHS["3d"]:
        return _summed_ratio(options.span(period), matcher)
    steps = f"{options.span(period)}:{options.span(STEP_SECONDS)}"
    late, events = select(names.LATE_EVENTS_30M, matcher), select(names.EVENTS_30M, matcher)
    return f"sum_over_time({late}[{steps}]) / (sum_over_time({events}[{steps}]) > 0)"


def _burn_rate(config: Config, window: str) -> Rule:
    def burn(share: Share) -> str:
        return f"{select(names.late_ratio(window), share.matcher)} / {number(budget(share.objective))}"

    return Rule(names.burn_rate(window), either(config, _target, burn))


def _remaining(share: Share) -> str:
    spent = select(names.late_ratio(format_duration(share.objective.events.period)), share.matcher)
    return f"1 - {spent} / {number(budget(share.objective))}"


def _judged(options: Options, matcher: str = "") -> str:
    return f"sum without (verdict) (sum_over_time({select(names.WINDOWS, matcher)}[{options.span(DAY)}]))"


def _coverage(options: Options, share: Share) -> str:
    """Windows that were judged, of all that went by: those of every instance, and no fewer than fit into a day."""
    window, interval = share.objective.minutes.window, options.interval(RECORDED_EVERY)
    elapsed = f"sum_over_time({select(names.INSTANCES, share.matcher)}[{options.span(DAY)}])"
    evaluations = number(DAY / options.shrink / interval)
    return f"{_judged(options, share.matcher)} * {number(window)} / clamp_min({elapsed}, {evaluations})"


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
