"""Which watches should run: the configured watches of resources that the cluster serves."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from watchslo.config.model import Config
from watchslo.config.sections.watch import WatchConfig
from watchslo.errors import ConfigError
from watchslo.kube.discovery import Catalogue
from watchslo.latency.objective import Objective
from watchslo.model import Resource


@dataclass(frozen=True, slots=True)
class DesiredWatch:
    """A watch that should run: its configuration and the resource that discovery found for it."""

    watch: WatchConfig
    resource: Resource
    objective: Objective
    longest_line: int

    def same_request(self, other: "DesiredWatch") -> bool:
        """Return True if both make the same requests; only how they are judged may differ."""
        return self == other or self.request == other.request  # equal ones are compared in a fiftieth of the time

    @property
    def request(self) -> tuple[object, ...]:
        """What the apiserver is asked and how its answer is read; the configured name, or a `"*"`, does not matter."""
        asked = self.watch.model_copy(update={"resource": None, "name": None, "objective": None, "hops": False})
        return asked, self.resource, self.longest_line


@dataclass(frozen=True, slots=True)
class DesiredWatches:
    """The watches that should run, by label.

    `missing` says in sentences why others cannot run. `left_out` counts those beyond the limit, `elsewhere` those of
    other shards.
    """

    watches: Mapping[str, DesiredWatch] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    left_out: int = 0
    elsewhere: int = 0


def desired_watches(config: Config, catalogue: Catalogue, apiservers: int) -> DesiredWatches:
    """Return the watches of our shard that should run at each of `apiservers` apiservers.

    The limit is for all apiservers together; named resources come before those that `"*"` stands for. Only resources
    that the configuration names can be missing: default resources that do not exist are left out.
    """
    found: dict[str, DesiredWatch] = {}
    missing: list[str] = []
    for watch in sorted(config.watch, key=lambda watch: watch.resource == "*"):
        try:
            resources = _resources(watch, config, catalogue)
        except ConfigError as error:
            missing.append(str(error))
            continue
        objective = config.objective_of(watch)  # once, because "*" stands for hundreds of resources
        for resource in resources:
            label = resource.key if watch.resource == "*" else watch.label
            wanted = watch
            if config.has_reference_watch(watch, resource) and not watch.reference:
                wanted = watch.model_copy(update={"reference": True})
            found.setdefault(label, DesiredWatch(wanted, resource, objective, config.limits.max_line))
    ours = _ours(config, found)
    watches = dict(islice(ours.items(), max(1, config.limits.watches // apiservers)))
    is_asked_for = "watch" in config.model_fields_set
    return DesiredWatches(
        watches,
        tuple(missing) if is_asked_for else (),
        left_out=len(ours) - len(watches),
        elsewhere=sum(len(desired.watch.parts) for desired in found.values()) - len(ours),
    )


def _ours(config: Config, found: Mapping[str, DesiredWatch]) -> dict[str, DesiredWatch]:
    """Return the watches of our shard, and our parts of those that are divided."""
    return {
        part.label if desired.watch.divide else label: replace(desired, watch=part)
        for label, desired in found.items()
        for number, part in enumerate(desired.watch.parts)
        if config.shard.has(label, number)
    }


def _resources(watch: WatchConfig, config: Config, catalogue: Catalogue) -> list[Resource]:
    if watch.resource == "*":
        return catalogue.expand(config.exclude)
    resource = catalogue.resolve(watch.resource)
    if watch.divide is not None and watch.divide.by == "namespace" and not resource.namespaced:
        raise ConfigError(
            f"{watch.resource} cannot be divided by namespace, because its objects have none; divide it by label"
        )
    return [resource]
