"""Which watches share an objective: they share rules, told apart by matchers of the label `watch`."""

from collections.abc import Callable
from dataclasses import dataclass

from watchslo.config import Config, ObjectiveConfig
from watchslo.rules.promql import joined, one_of

Key = Callable[[ObjectiveConfig], tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Share:
    """Watches that have something of their objectives in common; an empty matcher is for all there are."""

    objective: ObjectiveConfig
    matcher: str


def shares(config: Config, key: Key) -> tuple[Share, ...]:
    """The watches by what `key` reads from their objectives.

    What `"*"` finds has no name yet. It belongs with the watches that say nothing else, and so does whatever else there
    may be: these are told by not being any other. But instances that only tell what is proven are seldom alone, so
    their watches are told by name.
    """
    objectives: dict[tuple[float, ...], ObjectiveConfig] = {}
    labels: dict[tuple[float, ...], list[str]] = {}
    rest: tuple[float, ...] | None = key(config.objective)
    for watch in config.watch:
        objective = config.objective.overridden_by(watch.objective)
        objectives.setdefault(key(objective), objective)
        labels.setdefault(key(objective), []).append(watch.label)
        if watch.resource == "*":
            rest = key(objective)
    if not config.judges_quantiles and all(watch.resource != "*" for watch in config.watch):
        rest = None  # beside others in one Prometheus, whose alerts ask for more
    named = [label for found, own in labels.items() if found != rest for label in own]
    return tuple(
        Share(
            objectives[found],
            one_of("watch", own) if found != rest else one_of("watch", named, negated=True) if named else "",
        )
        for found, own in labels.items()
    )


def either(config: Config, key: Key, expression: Callable[[Share], str]) -> str:
    """One expression for all watches: each share has its own part."""
    return joined("or", (expression(share) for share in shares(config, key)))
