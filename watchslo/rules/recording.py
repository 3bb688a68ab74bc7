"""Recording rules: late ratios and burn rates, the remaining budget, quantiles, good minutes and coverage.

With `mode: node` there are no histograms and no judged minutes. Only events that are proven late count, so ratios
and burn rates are lower bounds; quantiles and good minutes are left out.
"""

from collections.abc import Iterator
from functools import partial

from watchslo.config.model import Config
from watchslo.config.sections.objective import ObjectiveConfig
from watchslo.config.values import format_duration
from watchslo.rules import names
from watchslo.rules.cluster import cluster_days, cluster_minutes, determined_quantile
from watchslo.rules.indicators import EVENTS, GOOD, IN_TIME, JUDGED, WINDOWS, events_indicator
from watchslo.rules.names import LabelLevels
from watchslo.rules.promql import by, number, select
from watchslo.rules.rule import RuleDefinition, RuleGroup
from watchslo.rules.settings import RuleSettings
from watchslo.rules.watch_groups import WatchGroup, union_of_groups, watch_groups
from watchslo.rules.windows import (
    DAY,
    LENGTHS,
    LONG_WINDOWS,
    RATE_SECONDS,
    RECORDED_EVERY,
    SELDOM_RECORDED_EVERY,
    SHORT_WINDOWS,
    SLOWLY_RECORDED_EVERY,
    STEP_SECONDS,
    error_budget,
)

TICK_BUCKET = "watchslo_clock_tick_seconds_bucket"
REACTION_BUCKET = "watchslo_reaction_seconds_bucket"
QUANTILES = (0.5, 0.9, 0.99)


def recording_groups(config: Config, settings: RuleSettings) -> tuple[RuleGroup, ...]:
    """Return the recording rules by the length of their windows: long windows are evaluated less often.

    Quantiles read every bucket of every instance and no alert needs them, so they are in a slower group.
    """
    kept = names.label_levels(settings)
    recorded = (
        ("watchslo-minutes", RECORDED_EVERY, _minutes(config, settings, kept)),
        (
            "watchslo-quantiles",
            SLOWLY_RECORDED_EVERY,
            _quantiles(config, settings, kept) if config.mode == "cluster" else (),
        ),
        (
            "watchslo-cluster",
            RECORDED_EVERY,
            cluster_minutes(config, settings, kept) if config.mode == "cluster" else (),
        ),
        ("watchslo-days", SLOWLY_RECORDED_EVERY, _days(config, settings)),
        ("watchslo-cluster-days", SLOWLY_RECORDED_EVERY, cluster_days(settings) if config.mode == "cluster" else ()),
        ("watchslo-period", SELDOM_RECORDED_EVERY, _period(config, settings)),
    )
    return tuple(
        RuleGroup(name, settings.interval(interval), rules)
        for name, interval, each in recorded
        if (rules := tuple(each))
    )


def _minutes(config: Config, settings: RuleSettings, kept: LabelLevels) -> Iterator[RuleDefinition]:
    yield from _of_instances(settings, kept)
    yield RuleDefinition(names.EVENTS, by("sum", kept.resource, names.INSTANCE_EVENTS))
    yield RuleDefinition(names.LATE_EVENTS, by("sum", kept.resource, names.INSTANCE_LATE_EVENTS))
    yield RuleDefinition(names.UNMEASURED, by("sum", kept.resource, names.INSTANCE_UNMEASURED))
    yield RuleDefinition(names.INSTANCES, by("count", kept.resource, names.INSTANCE_EVENTS))
    yield RuleDefinition(
        names.LATE_INSTANCES, by("count", kept.resource, union_of_groups(config, _target, _late_instances))
    )
    yield RuleDefinition(names.late_ratio("5m"), f"{names.LATE_EVENTS} / ({names.EVENTS} > 0)")
    yield RuleDefinition(names.late_ratio("30m"), _summed_ratio(settings.span(SHORT_WINDOWS["30m"])))
    # The ratio of the window that pages first comes from counters: sums of recorded rates lag by some minutes.
    over_hour = partial(_rate_over, "1h", settings)
    yield RuleDefinition(names.late_ratio("1h"), events_indicator(settings).bad_ratio(kept.resource, over_hour))
    yield RuleDefinition(names.late_ratio("2h"), _summed_ratio(settings.span(SHORT_WINDOWS["2h"])))
    yield from (_burn_rate(config, window) for window in SHORT_WINDOWS)
    if config.mode == "cluster":
        ticks = by("sum", (*kept.instance, "apiserver", "domain", "le"), _rate(settings, TICK_BUCKET))
        yield RuleDefinition(names.INSTANCE_TICK, f"histogram_quantile(0.5, {ticks}) >= 0")
        known = _rate(settings, WINDOWS, 'verdict=~"good|bad|undecided"')
        yield RuleDefinition(names.WINDOWS, by("sum", (*kept.resource, "verdict"), known))


def _of_instances(settings: RuleSettings, kept: LabelLevels) -> Iterator[RuleDefinition]:
    def rate(metric: str, matcher: str = "") -> str:
        return by("sum", kept.instance_resource, _rate(settings, metric, matcher))

    yield RuleDefinition(names.INSTANCE_EVENTS, rate(EVENTS))
    yield RuleDefinition(names.INSTANCE_LATE_EVENTS, f"{names.INSTANCE_EVENTS} - {rate(EVENTS, IN_TIME)}")
    yield RuleDefinition(names.INSTANCE_UNMEASURED, rate("watchslo_unmeasured_events_total", 'reason!="initial"'))


def _quantiles(config: Config, settings: RuleSettings, kept: LabelLevels) -> Iterator[RuleDefinition]:
    form = settings.timespans
    histogram = names.histogram(form.metric)
    yield RuleDefinition(histogram, form.summed(kept.resource, _rate(settings, form.metric)))
    for q in QUANTILES:  # `>= 0` drops the NaN of a histogram without events
        yield RuleDefinition(names.timespan(q), f"histogram_quantile({q}, {histogram}) >= 0")
    yield RuleDefinition(names.timespan(0.999), determined_quantile(form, 0.999, histogram, RATE_SECONDS))
    if config.reactions.resources != "none":
        of_step = (*kept.cluster, "group", "resource", "step", "le")
        reactions = by("sum", of_step, _rate(settings, REACTION_BUCKET))
        yield RuleDefinition(names.REACTION_P99, f"histogram_quantile(0.99, {reactions}) >= 0")


def _days(config: Config, settings: RuleSettings) -> Iterator[RuleDefinition]:
    for window, seconds in LONG_WINDOWS.items():
        yield RuleDefinition(names.late_ratio(window), _summed_ratio(settings.span(seconds)))
        yield _burn_rate(config, window)
    if config.mode == "node":
        return
    good, judged, known = (_windows_of_a_day(settings, matcher) for matcher in (GOOD, JUDGED, ""))
    yield RuleDefinition(names.GOOD_WINDOWS, f"{good} / ({judged} > 0)")
    yield RuleDefinition(names.GOOD_WINDOWS_AT_WORST, f"{good} / ({known} > 0)")
    yield RuleDefinition(
        names.JUDGED_WINDOWS, union_of_groups(config, _window, lambda group: _coverage(settings, group))
    )


def _period(config: Config, settings: RuleSettings) -> Iterator[RuleDefinition]:
    half_an_hour = settings.span(SHORT_WINDOWS["30m"])
    yield RuleDefinition(names.EVENTS_30M, f"avg_over_time({names.EVENTS}[{half_an_hour}])")
    yield RuleDefinition(names.LATE_EVENTS_30M, f"avg_over_time({names.LATE_EVENTS}[{half_an_hour}])")
    for group in watch_groups(config, lambda objective: (objective.events.period,)):
        period = group.objective.events.period
        if format_duration(period) not in LENGTHS:
            yield RuleDefinition(
                names.late_ratio(format_duration(period)), _period_ratio(settings, period, group.matcher)
            )
    yield RuleDefinition(names.BUDGET_REMAINING, union_of_groups(config, _period_and_target, _remaining))


def _late_instances(group: WatchGroup) -> str:
    """Select the instances that measure a burn rate above 1."""
    late, events = select(names.INSTANCE_LATE_EVENTS, group.matcher), select(names.INSTANCE_EVENTS, group.matcher)
    return f"{late} > {number(error_budget(group.objective))} * {events}"


def _summed_ratio(span: str, matcher: str = "") -> str:
    late, events = select(names.LATE_EVENTS, matcher), select(names.EVENTS, matcher)
    return f"sum_over_time({late}[{span}]) / (sum_over_time({events}[{span}]) > 0)"


def _period_ratio(settings: RuleSettings, period: float, matcher: str) -> str:
    """Return the ratio of a period, read in steps: 30m rates at steps of 30m cover the period exactly once."""
    if period <= LENGTHS["3d"]:
        return _summed_ratio(settings.span(period), matcher)
    steps = f"{settings.span(period)}:{settings.span(STEP_SECONDS)}"
    late, events = select(names.LATE_EVENTS_30M, matcher), select(names.EVENTS_30M, matcher)
    return f"sum_over_time({late}[{steps}]) / (sum_over_time({events}[{steps}]) > 0)"


def _burn_rate(config: Config, window: str) -> RuleDefinition:
    def burn(group: WatchGroup) -> str:
        return f"{select(names.late_ratio(window), group.matcher)} / {number(error_budget(group.objective))}"

    return RuleDefinition(names.burn_rate(window), union_of_groups(config, _target, burn))


def _remaining(group: WatchGroup) -> str:
    spent = select(names.late_ratio(format_duration(group.objective.events.period)), group.matcher)
    return f"1 - {spent} / {number(error_budget(group.objective))}"


def _windows_of_a_day(settings: RuleSettings, *matchers: str) -> str:
    return f"sum without (verdict) (sum_over_time({select(names.WINDOWS, *matchers)}[{settings.span(DAY)}]))"


def _coverage(settings: RuleSettings, group: WatchGroup) -> str:
    """Return judged windows as a share of the windows of all instances, and at least of those of one full day."""
    window, interval = group.objective.minutes.window, settings.interval(RECORDED_EVERY)
    elapsed = f"sum_over_time({select(names.INSTANCES, group.matcher)}[{settings.span(DAY)}])"
    evaluations = number(DAY / settings.shrink / interval)
    judged = _windows_of_a_day(settings, JUDGED, group.matcher)
    return f"{judged} * {number(window)} / clamp_min({elapsed}, {evaluations})"


def _rate(settings: RuleSettings, metric: str, *matchers: str) -> str:
    return _rate_over("5m", settings, select(metric, settings.job_selector, *matchers))


def _rate_over(window: str, settings: RuleSettings, series: str) -> str:
    return f"rate({series}[{settings.span(SHORT_WINDOWS[window])}])"


def _target(objective: ObjectiveConfig) -> tuple[float, ...]:
    return (objective.events.target,)


def _period_and_target(objective: ObjectiveConfig) -> tuple[float, ...]:
    return objective.events.period, objective.events.target


def _window(objective: ObjectiveConfig) -> tuple[float, ...]:
    return (objective.minutes.window,)
