"""Which watches should run: what the configuration asks for, of what the cluster serves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from watchslo.config import Config, WatchConfig
from watchslo.errors import ConfigError
from watchslo.kube.discovery import Catalogue
from watchslo.latency.objective import Objective
from watchslo.model import Resource


@dataclass(frozen=True, slots=True)
class Wanted:
    """A watch that should run: its configuration and the resource that discovery made of it."""

    watch: WatchConfig
    resource: Resource
    objective: Objective
    longest_line: int

    def same_stream(self, other: "Wanted") -> bool:
        """Whether both ask the apiserver for the same; only how they are judged may differ."""
        return self.question == other.question

    @property
    def question(self) -> tuple[object, ...]:
        """What the apiserver is asked, and how its answer is read; it does not matter by which name, or if by `"*"`."""
        told = self.watch.model_copy(update={"resource": None, "name": None, "objective": None, "hops": False})
        return told, self.resource, self.longest_line


@dataclass(frozen=True, slots=True)
class Plan:
    """The watches that should run, by label; why others cannot, in sentences; how many the limit leaves out.

    `elsewhere` is how many are left to other shards.
    """

    watches: Mapping[str, Wanted] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    left_out: int = 0
    elsewhere: int = 0


def plan(config: Config, catalogue: Catalogue, apiservers: int) -> Plan:
    """What of our shard should run at each of so many apiservers, up to the limit for all of them together.

    What is named goes before what `"*"` stands for.

    Only what the configuration itself asks for can be missing: of the default resources those are watched that exist.
    """
    found: dict[str, Wanted] = {}
    missing: list[str] = []
    for watch in sorted(config.watch, key=lambda watch: watch.resource == "*"):
        try:
            resources = _resources(watch, config, catalogue)
        except ConfigError as error:
            missing.append(str(error))
            continue
        for resource in resources:
            label = resource.key if watch.resource == "*" else watch.label
            wanted = Wanted(watch, resource, config.objective_of(watch), config.limits.max_line)
            found.setdefault(label, wanted)
    ours = {label: wanted for label, wanted in found.items() if config.shard.has(label)}
    watches = dict(islice(ours.items(), max(1, config.limits.watches // apiservers)))
    is_asked_for = "watch" in config.model_fields_set
    return Plan(
        watches,
        tuple(missing) if is_asked_for else (),
        left_out=len(ours) - len(watches),
        elsewhere=len(found) - len(ours),
    )


def _resources(watch: WatchConfig, config: Config, catalogue: Catalogue) -> list[Resource]:
    return catalogue.expand(config.exclude) if watch.resource == "*" else [catalogue.resolve(watch.resource)]
