"""The options of `watchslo rehearse`, and what follows from them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from watchslo.errors import ConfigError
from watchslo.model import Resource
from watchslo.rehearse.strategies import IN_WATCH, NAMES
from watchslo.watch.strategy import STRATEGIES, TAIL

ALL = "all"
DEFAULT_OBJECTS = 25_000
DEFAULT_BYTES = 256 * 2**20
DEFAULT_RUNS = 500
DEFAULT_TOTAL_BYTES = 2 * 2**30
DEFAULT_SECONDS = 900.0
STARVED_OBJECTS = 100_000
"""From here on, streamed lists may delay the events of their watch cache. 50 streamed lists of 500,000 pods at once
kept its writer waiting for 472 ms (github.com/kubernetes/kubernetes/issues/139526)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a rehearsal may cost: of one resource, and with `--all` of all of them; sizes are in bytes."""

    objects: int = DEFAULT_OBJECTS
    size: int = DEFAULT_BYTES
    runs: int = DEFAULT_RUNS
    total_size: int = DEFAULT_TOTAL_BYTES
    seconds: float = DEFAULT_SECONDS


@dataclass(frozen=True, slots=True)
class RehearseOptions:
    """Options of the command line; no namespace means all namespaces. With `every`, all resources of the cluster."""

    resources: tuple[str, ...]
    namespace: str | None = None
    strategies: tuple[str, ...] = tuple(STRATEGIES)
    repeat: int = 1
    limits: Limits = field(default_factory=Limits)
    every: bool = False
    exclude: tuple[str, ...] = ()
    dry_run: bool = False

    def check(self) -> None:
        """Raise ConfigError if the options contradict each other."""
        if self.every == bool(self.resources):
            raise ConfigError("name the resources to rehearse, or pass --all and --exclude")
        if self.exclude and not self.every:
            raise ConfigError("--exclude leaves resources out of --all; pass both")

    @property
    def chosen(self) -> list[str]:
        """The strategies to rehearse, each once."""
        return [name for name in NAMES if {name, ALL} & set(self.strategies)]


def plan(options: RehearseOptions, resource: Resource) -> list[str]:
    """Return the strategies to rehearse with a resource, each once; raise ConfigError if these are too many runs."""
    runs = len(options.chosen) * options.repeat
    if runs > options.limits.runs:
        raise ConfigError(f"{resource.key}: the options ask for {runs:,} runs; choose fewer, or pass --max-runs {runs}")
    return options.chosen


def list_objects(strategies: Iterable[str]) -> bool:
    """Return True if any of the strategies receives the objects."""
    return any(name != TAIL.name for name in strategies)


def may_starve(strategies: Iterable[str], objects: int) -> bool:
    """Return True if the watch cache may be kept from taking in changes while it collects the objects of a watch."""
    return objects >= STARVED_OBJECTS and not set(IN_WATCH).isdisjoint(strategies)
