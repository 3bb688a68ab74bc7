"""The objectives of a configuration as the service levels that SLO tools know: a target, a period and an indicator."""

from collections.abc import Iterator
from dataclasses import dataclass

from watchslo.config.model import Config
from watchslo.config.sections.objective import ObjectiveConfig
from watchslo.config.values import format_duration
from watchslo.rules.alerts.alert import EVENTS, MINUTES
from watchslo.rules.indicators import Indicator, events_indicator, minutes_indicator
from watchslo.rules.promql import number
from watchslo.rules.settings import RuleSettings
from watchslo.rules.watch_groups import watch_groups


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """The share `target` of an indicator must be good in each `period`, in seconds.

    `name` consists of small letters, digits and hyphens. `alert` is the name of its alerts, `runbook` their runbook.
    """

    name: str
    description: str
    target: float
    period: float
    indicator: Indicator
    alert: str
    runbook: str

    @property
    def percent(self) -> str:
        return number(100 * self.target)


def service_levels(config: Config, settings: RuleSettings) -> tuple[ServiceLevel, ...]:
    """Return one service level for each objective of events and, with judged minutes, for each of minutes."""
    return (*_of_events(config, settings), *(_of_minutes(config, settings) if config.mode == "cluster" else ()))


def _of_events(config: Config, settings: RuleSettings) -> Iterator[ServiceLevel]:
    proven = "" if config.mode == "cluster" else " Only events that are proven late count as late."
    for group in watch_groups(config, _events):
        events, threshold = group.objective.events, format_duration(group.objective.threshold)
        yield ServiceLevel(
            name=_name(EVENTS, config, group.objective, _events(group.objective)),
            description=f"{number(100 * events.target)}% of all watch events arrive within {threshold}.{proven}",
            target=events.target,
            period=events.period,
            indicator=events_indicator(settings, group.matcher),
            alert="KubeWatchEventsBudgetBurn",
            runbook=settings.runbook("KubeWatchLatencyBudgetBurn"),
        )


def _of_minutes(config: Config, settings: RuleSettings) -> Iterator[ServiceLevel]:
    for group in watch_groups(config, _minutes):
        minutes, threshold = group.objective.minutes, format_duration(group.objective.threshold)
        quantile, window = number(100 * minutes.quantile), format_duration(minutes.window)
        yield ServiceLevel(
            name=_name(MINUTES, config, group.objective, _minutes(group.objective)),
            description=f"{number(100 * minutes.target)}% of all judged windows of {window} are good: "
            f"P{quantile} of their watch events is within {threshold}.",
            target=minutes.target,
            period=group.objective.events.period,
            indicator=minutes_indicator(settings, group.matcher),
            alert="KubeWatchMinutesBudgetBurn",
            runbook=settings.runbook("KubeWatchLatencyBadMinutes"),
        )


def _name(slo: str, config: Config, objective: ObjectiveConfig, key: tuple[float, ...]) -> str:
    """Name a service level; the values tell those apart that differ from the common objective.

    So a name stays the same when watches are added or reordered.
    """
    if key == (_events if slo == EVENTS else _minutes)(config.objective):
        return slo
    threshold, period = format_duration(objective.threshold), format_duration(objective.events.period)
    minutes = objective.minutes
    shares = (
        (number(100 * objective.events.target),)
        if slo == EVENTS
        else (number(100 * minutes.target), f"p{number(100 * minutes.quantile)}", format_duration(minutes.window))
    )
    return "-".join((slo, threshold, *shares, period)).replace(".", "-")


def _events(objective: ObjectiveConfig) -> tuple[float, ...]:
    return objective.threshold, objective.events.target, objective.events.period


def _minutes(objective: ObjectiveConfig) -> tuple[float, ...]:
    minutes = objective.minutes
    return objective.threshold, minutes.quantile, minutes.window, minutes.target, objective.events.period
