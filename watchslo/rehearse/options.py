"""The options of `watchslo rehearse`, and what follows from them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from watchslo.errors import ConfigError
from watchslo.rehearse.strategies import IN_WATCH, NAMES
from watchslo.watch.strategy import STRATEGIES, TAIL

ALL = "all"
MOST_BYTES = 256 * 2**20
STARVED_OBJECTS = 100_000
"""From here on, streamed lists may delay the events of their watch cache. 50 streamed lists of 500,000 pods at once
kept its writer waiting for 472 ms (github.com/kubernetes/kubernetes/issues/139526)."""


@dataclass(frozen=True, slots=True)
class RehearseOptions:
    """Options of the command line; no namespace means all namespaces. With `every`, all resources of the cluster.

    `max_bytes` is the most that a list of one resource may have.
    """

    resources: tuple[str, ...]
    namespace: str | None = None
    strategies: tuple[str, ...] = tuple(STRATEGIES)
    repeat: int = 1
    max_bytes: int = MOST_BYTES
    every: bool = False
    dry_run: bool = False

    def check(self) -> None:
        """Raise ConfigError if the options contradict each other."""
        if self.every == bool(self.resources):
            raise ConfigError("name the resources to rehearse, or pass --all")

    @property
    def chosen(self) -> list[str]:
        """The strategies to rehearse, each once."""
        return [name for name in NAMES if {name, ALL} & set(self.strategies)]


def list_objects(strategies: Iterable[str]) -> bool:
    """Return True if any of the strategies receives the objects."""
    return any(name != TAIL.name for name in strategies)


def may_starve(strategies: Iterable[str], objects: int) -> bool:
    """Return True if the watch cache may be kept from taking in changes while it collects the objects of a watch."""
    return objects >= STARVED_OBJECTS and not set(IN_WATCH).isdisjoint(strategies)
