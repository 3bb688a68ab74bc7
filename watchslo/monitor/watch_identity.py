"""What one watch is: the values that never change while it runs."""

from dataclasses import dataclass, field

from watchslo.config.model import WatchConfig
from watchslo.kube.client import Selectors
from watchslo.model import Resource, Source
from watchslo.monitor.apiserver import Apiserver
from watchslo.monitor.driver import WatchTarget


@dataclass(frozen=True, slots=True, eq=False)
class WatchIdentity:
    """One watch of one resource at one apiserver.

    `number` is unique while the daemon runs; `label` names the watch in metrics and logs. No line of its answer may be
    longer than `longest_line` bytes. Reads next to the watch (probes, nudges, audits) use the namespace `probed_in`.
    """

    number: int
    label: str
    config: WatchConfig
    resource: Resource
    apiserver: Apiserver
    longest_line: int
    probed_in: str
    source: Source = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", (self.apiserver.name, self.resource.key))  # all watches are asked often

    @property
    def namespace(self) -> str | None:
        """The namespace that is watched; None for all."""
        return self.config.namespace

    @property
    def cached(self) -> bool:
        """Whether the apiserver has a watch cache of the resource, as found or else as usual."""
        return self.apiserver.caches.has(self.resource)

    @property
    def selectors(self) -> Selectors:
        return Selectors(self.config.field_selector, self.config.label_selector, self.config.shard_selector)

    @property
    def target(self) -> WatchTarget:
        """What the watch asks the apiserver for."""
        return WatchTarget(self.resource, self.namespace, self.selectors, self.longest_line)
