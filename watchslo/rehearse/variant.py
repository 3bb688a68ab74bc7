"""One way to start an informer: what a rehearsal varies. A value, without I/O."""

from dataclasses import dataclass, replace

from watchslo.kube.client import Selectors
from watchslo.kube.representation import Representation
from watchslo.watch.strategy import PAGE_SIZE, PAGED, RELIST, RELIST_PAGED, STRATEGIES, Strategy, relist

ZERO = "watch-zero"
"""The strategy without a list and without a mark: a watch from resourceVersion=0 begins with the cached objects."""

IN_PAGES = (PAGED.name, "parallel", RELIST_PAGED)
IN_WATCH = ("stream", ZERO)
"""Strategies whose objects come in the watch, which apiservers do not compress."""

NAMES = (*STRATEGIES, RELIST, RELIST_PAGED, ZERO)
"""All strategies that can be rehearsed."""

ALL_OBJECTS = Selectors()


@dataclass(frozen=True, slots=True)
class Variant:
    """A strategy with the settings of its requests; with `each_namespace`, one informer for each namespace."""

    strategy: str
    representation: Representation = Representation.PLAIN
    gzip: bool = False
    page_size: int = PAGE_SIZE
    selectors: Selectors = ALL_OBJECTS
    each_namespace: bool = False

    @property
    def settings(self) -> tuple[str, ...]:
        """Return in words what differs from a plain start."""
        named = (
            (self.representation is not Representation.PLAIN, str(self.representation)),
            (self.gzip, "gzip"),
            (self.page_size != PAGE_SIZE, f"pages of {self.page_size:,}"),
            (self.selectors.labels is not None, f"-l {self.selectors.labels}"),
            (self.selectors.fields is not None, f"--field-selector {self.selectors.fields}"),
            (self.each_namespace, "each namespace"),
        )
        return tuple(name for differs, name in named if differs)

    @property
    def label(self) -> str:
        """Return the name of the variant: `paged`, `paged, metadata, gzip`."""
        return ", ".join((self.strategy, *self.settings))

    @property
    def needs_revision(self) -> bool:
        """Return True if its list needs a revision that was known before."""
        return self.strategy in (RELIST, RELIST_PAGED)

    def protocol(self, revision: int) -> Strategy:
        """Return the strategy as the machine interprets it; `revision` is what the informer knew before."""
        if self.needs_revision:
            found = relist(revision, paged=self.strategy == RELIST_PAGED)
        else:
            found = STRATEGIES[self.strategy]
        return _compressed(found) if self.gzip else found


USUAL = Variant(PAGED.name)
"""What controllers do without settings."""


def _compressed(strategy: Strategy) -> Strategy:
    """Return the strategy with compressed answers, also those of its fallback."""
    first, throttled = strategy.first, strategy.throttled
    return replace(
        strategy,
        first=first and replace(first, gzip=True),
        throttled=throttled and replace(throttled, gzip=True),
        fallback=strategy.fallback and _compressed(strategy.fallback),
    )
