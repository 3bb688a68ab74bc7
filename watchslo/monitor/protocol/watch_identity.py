"""What one watch is: the values that never change while it runs."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from watchslo.config.sections.watch import WatchConfig
from watchslo.kube.call import Selectors
from watchslo.model import Resource, Source
from watchslo.monitor.apiservers.apiserver import Apiserver
from watchslo.monitor.protocol.driver import WatchTarget
from watchslo.snapshot import Guarantee
from watchslo.watch.selection import Selection, selection_of
from watchslo.watch.strategy import REPLAY, STRATEGIES, TAIL, TAIL_OF_MANY, Strategy


@dataclass(frozen=True, slots=True, eq=False)
class WatchIdentity:
    """One watch of one resource at one apiserver.

    `number` is unique while the daemon runs; `label` names the watch in metrics and logs. No line of its answer may be
    longer than `longest_line` bytes. Reads next to the watch (probes, nudges, audits) use the namespace `probed_in`.
    `selection` is what its selectors select, if anything of that can be judged, else None.
    With `replay` it reads the past again, from the oldest revision in reach, and measures no latency.
    """

    number: int
    label: str
    config: WatchConfig
    resource: Resource
    apiserver: Apiserver
    longest_line: int
    probed_in: str
    replay: bool = field(default=False, kw_only=True)
    of_many: bool = field(default=False, kw_only=True)
    source: Source = field(init=False)
    selection: Selection | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", (self.apiserver.name, self.resource.key))  # all watches are asked often
        of = self.config
        is_exact = of.shard_selector is None
        selection = selection_of(self.namespace, of.field_selector, of.label_selector, is_exact=is_exact)
        object.__setattr__(self, "selection", selection)

    @property
    def namespace(self) -> str | None:
        """The namespace that is watched; None for all, and for objects that have none."""
        return self.config.namespace if self.resource.namespaced else None

    @property
    def cached(self) -> bool:
        """Whether the apiserver has a watch cache of the resource, as found or else as usual."""
        return self.apiserver.caches.has(self.resource)

    @property
    def has_reference_watch(self) -> bool:
        """Whether a watch of whole objects is opened next to it."""
        return self.config.reference and not self.replay

    @property
    def strategy(self) -> Strategy:
        if self.replay:
            return REPLAY
        found = STRATEGIES[self.config.strategy]
        return TAIL_OF_MANY if found is TAIL and self.of_many else found

    @property
    def selectors(self) -> Selectors:
        return Selectors(self.config.field_selector, self.config.label_selector, self.config.shard_selector)

    @property
    def checkable(self) -> Iterator[Guarantee]:
        """The guarantees that the watch can be checked for: types need an inventory, and selectors must be judged."""
        possible = {Guarantee.TYPED: self.config.inventory, Guarantee.FILTERED: self.selection is not None}
        return (guarantee for guarantee in Guarantee if possible.get(guarantee, True))

    @property
    def target(self) -> WatchTarget:
        """What the watch asks the apiserver for."""
        return WatchTarget(self.resource, self.namespace, self.selectors, self.longest_line)
