"""Groups the watches by objective: watches with equal values share a rule, selected by the label `watch`."""

from collections.abc import Callable
from dataclasses import dataclass

from watchslo.config.model import Config
from watchslo.config.sections.objective import ObjectiveConfig
from watchslo.rules.promql import joined, one_of

ObjectiveKey = Callable[[ObjectiveConfig], tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class WatchGroup:
    """Watches whose objectives agree in the compared values; an empty matcher selects all watches."""

    objective: ObjectiveConfig
    matcher: str


def watch_groups(config: Config, key: ObjectiveKey) -> tuple[WatchGroup, ...]:
    """Return the watches grouped by the values that `key` reads from their objectives.

    One group selects by exclusion: it takes every watch that no other group names, because the watches that `"*"` will
    find are not known yet. With `mode: node` several daemons often share a Prometheus, so each group without a
    `"*"` names its watches.
    """
    objectives: dict[tuple[float, ...], ObjectiveConfig] = {}
    labels: dict[tuple[float, ...], list[str]] = {}
    rest: tuple[float, ...] | None = key(config.objective)
    for watch in config.watch:
        objective = config.objective.overridden_by(watch.objective)
        objectives.setdefault(key(objective), objective)
        labels.setdefault(key(objective), []).extend(part.label for part in watch.parts)
        if watch.resource == "*":
            rest = key(objective)
    if config.mode == "node" and all(watch.resource != "*" for watch in config.watch):
        rest = None  # exclusion would also select the watches of daemons with stricter alerts
    named = [label for found, own in labels.items() if found != rest for label in own]
    return tuple(
        WatchGroup(
            objectives[found],
            one_of("watch", own) if found != rest else one_of("watch", named, negated=True) if named else "",
        )
        for found, own in labels.items()
    )


def judged_window(objective: ObjectiveConfig) -> tuple[float, ...]:
    """Return the key of watches whose judged windows have one length."""
    return (objective.minutes.window,)


def union_of_groups(config: Config, key: ObjectiveKey, expression: Callable[[WatchGroup], str]) -> str:
    """Return one expression for all watches: the expressions of all groups, joined by `or`."""
    return joined("or", (expression(group) for group in watch_groups(config, key)))
