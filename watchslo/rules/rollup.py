"""Recording rules for the rollup: what the Prometheus of a cluster sends to the global level of a fleet.

It is at most 20 series for all watches and apiservers of a cluster together, built on the rules of `recording` and
`cluster`, which must be loaded as well. A rate here is that of one instance: several instances receive the same events,
so each watch counts with the mean of its instances. With `mode: node` each instance has its own events, and they
are added up. As for alerts, lateness that only a minority of the instances of a watch sees does not count.
"""

from collections.abc import Iterator

from watchslo.config.model import Config
from watchslo.config.sections.objective import ObjectiveConfig
from watchslo.rules import names
from watchslo.rules.names import LabelLevels
from watchslo.rules.promql import by, enclosed, joined, number, select
from watchslo.rules.rule import RuleDefinition, RuleGroup
from watchslo.rules.settings import RuleSettings
from watchslo.rules.watch_groups import WatchGroup, union_of_groups
from watchslo.rules.windows import (
    HOUR,
    LENGTHS,
    MINUTE,
    RATE_SECONDS,
    RECORDED_EVERY,
    SLOWLY_RECORDED_EVERY,
    error_budget,
)

MINUTE_WINDOWS, DAY_WINDOWS = ("30m", "1h"), ("6h", "1d", "3d")
WORST = 3  # watches
FEWEST_TICKS = 20  # in the range of a rate: several apiservers share the ticks
TAINTED_SHARE, TAINTED_SECONDS = 0.05, 10 * MINUTE  # above it, an instance is overloaded, as for its alert


def rollup_groups(config: Config, settings: RuleSettings) -> tuple[RuleGroup, ...]:
    """Return the rules of the rollup by the length of their windows."""
    kept = names.label_levels(settings)
    return (
        RuleGroup(
            "watchslo-rollup",
            settings.interval(RECORDED_EVERY),
            (*_events(config, settings, kept), *_trust(config, settings, kept), *_delivery(settings, kept)),
        ),
        RuleGroup("watchslo-rollup-days", settings.interval(SLOWLY_RECORDED_EVERY), tuple(_days(config, settings))),
    )


def rollup_names(config: Config) -> tuple[str, ...]:
    """Return the names of all series of the rollup."""
    return tuple(rule.name for group in rollup_groups(config, RuleSettings()) for rule in group.rules)


def _events(config: Config, settings: RuleSettings, kept: LabelLevels) -> Iterator[RuleDefinition]:
    def allowed(group: WatchGroup) -> str:
        return f"{number(error_budget(group.objective))} * {select(names.EVENTS, group.matcher)}"

    def of_one_instance(rates: str) -> str:
        operand = enclosed(rates) if "\n" in rates else rates
        return f"{operand} / {names.INSTANCES}" if config.mode == "cluster" else rates

    for name, rates in (
        (names.ROLLUP_EVENTS, names.EVENTS),
        (names.ROLLUP_LATE_EVENTS, _confirmed(config)),
        (names.ROLLUP_ALLOWED_EVENTS, union_of_groups(config, _target, allowed)),
    ):
        yield RuleDefinition(name, by("sum", kept.cluster, of_one_instance(rates)))
    yield from (_burn_rate(settings, window) for window in MINUTE_WINDOWS)
    summed = f"sum_over_time({names.LATE_EVENTS}[{settings.span(HOUR)}])"
    counted = f"{of_one_instance(summed)} * {number(settings.interval(RECORDED_EVERY))}"
    by_watch = by("sum", (*kept.cluster, "watch"), counted)
    yield RuleDefinition(names.ROLLUP_WORST, _top(WORST, kept.cluster, f"{by_watch} > 0"))


def _confirmed(config: Config) -> str:
    """Return the late events of each watch, 0 if only a minority of its instances is late."""
    if config.mode == "node":  # proven events need no second instance
        return names.LATE_EVENTS
    confirmed = f"{names.LATE_EVENTS} unless {names.LATE_INSTANCES} <= 0.5 * {names.INSTANCES}"
    return joined("or", (confirmed, f"0 * {names.LATE_EVENTS}"))


def _trust(config: Config, settings: RuleSettings, kept: LabelLevels) -> Iterator[RuleDefinition]:
    ticks_seconds = settings.span(max(RATE_SECONDS, FEWEST_TICKS * config.clock.interval))
    answered = _exposed(settings, "watchslo_clock_ticks_total", 'result=~"ok|slow"')
    tainted = _exposed(settings, "watchslo_tainted_seconds_total")
    ticks = by("sum", (*kept.instance, "domain"), f"rate({answered}[{ticks_seconds}])")
    prompt = f"1 - clamp_max(rate({tainted}[{settings.span(RATE_SECONDS)}]), 1)"
    up = by("count", kept.cluster, _exposed(settings, "up"))
    overloaded = f"rate({tainted}[{settings.span(TAINTED_SECONDS)}]) > bool {TAINTED_SHARE}"
    yield RuleDefinition(names.ROLLUP_TICKING, by("avg", kept.cluster, f"{ticks} > bool 0"))
    yield RuleDefinition(names.ROLLUP_OVERLOADED, by("avg", kept.cluster, overloaded))
    yield RuleDefinition(
        names.ROLLUP_MEASURED_TIME, f"{by('sum', kept.cluster, prompt)} / {up} * {names.ROLLUP_TICKING}"
    )


def _delivery(settings: RuleSettings, kept: LabelLevels) -> Iterator[RuleDefinition]:
    """Yield the rules on watches that do not deliver, on guarantees, and on the instances by their main version."""
    closed, stalled = (
        by("sum", kept.cluster, f"{by('avg', kept.resource, shown)} > bool 0.5")
        for shown in (f"1 - {_exposed(settings, 'watchslo_watch_up')}", _exposed(settings, "watchslo_watch_stalled"))
    )
    violated, travelled = (
        by("max", kept.cluster, by("sum", kept.instance, f"increase({_exposed(settings, metric)}[{span}])"))
        for span in (settings.span(HOUR),)
        for metric in ("watchslo_watch_guarantee_violations_total", "watchslo_time_travel_total")
    )
    info = _exposed(settings, "watchslo_build_info")
    main = _top(1, kept.cluster, by("count", (*kept.cluster, "version"), info))
    on = f"on ({', '.join(kept.cluster)})"
    yield RuleDefinition(names.ROLLUP_UNDELIVERED, f"{closed}\n+ ({stalled} or 0 * {closed})")
    yield RuleDefinition(names.ROLLUP_VIOLATIONS, f"{violated}\n+ {travelled}")
    yield RuleDefinition(names.ROLLUP_INSTANCES, f"{by('count', kept.cluster, info)} + {on} group_right () 0 * {main}")


def _days(config: Config, settings: RuleSettings) -> Iterator[RuleDefinition]:
    yield from (_burn_rate(settings, window) for window in DAY_WINDOWS)
    if config.mode == "cluster":
        yield RuleDefinition(names.ROLLUP_GOOD_MINUTES, names.good_minutes("cluster"))
        yield RuleDefinition(names.ROLLUP_JUDGED_MINUTES, names.judged_minutes("cluster"))
    count = f"count_over_time({names.ROLLUP_EVENTS}[{settings.span(LENGTHS['3d'])}])"
    measuring = f"on ({', '.join(settings.cluster)}) {names.ROLLUP_INSTANCES}"
    yield RuleDefinition(
        names.ROLLUP_RECORDED, f"{count} * {number(settings.interval(RECORDED_EVERY))}\nand {measuring}"
    )


def _burn_rate(settings: RuleSettings, window: str) -> RuleDefinition:
    span = settings.span(LENGTHS[window])
    late, allowed = (
        f"sum_over_time({series}[{span}])" for series in (names.ROLLUP_LATE_EVENTS, names.ROLLUP_ALLOWED_EVENTS)
    )
    return RuleDefinition(names.rollup_burn_rate(window), f"{late} / ({allowed} > 0)")


def _top(count: int, labels: tuple[str, ...], vector: str) -> str:
    return f"topk by ({', '.join(labels)}) ({count}, {vector})"


def _exposed(settings: RuleSettings, metric: str, *matchers: str) -> str:
    return select(metric, settings.job_selector, *matchers)


def _target(objective: ObjectiveConfig) -> tuple[float, ...]:
    return (objective.events.target,)
