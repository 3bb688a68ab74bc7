"""The options of `watchslo rehearse`, and the plan that follows from them: which informers are started. Pure."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from watchslo.errors import ConfigError
from watchslo.kube.client import Selectors
from watchslo.kube.representation import Representation
from watchslo.model import Resource
from watchslo.rehearse.variant import ALL_OBJECTS, IN_PAGES, IN_WATCH, NAMES, Variant
from watchslo.watch.strategy import PAGE_SIZE, PAGED, STRATEGIES, TAIL

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
class Dimensions:
    """What the rehearsed informers differ in. Empty dimensions are not varied: one informer with the usual value."""

    strategies: tuple[str, ...] = tuple(STRATEGIES)
    representations: tuple[str, ...] = ()
    gzip: bool = False
    page_sizes: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    each_namespace: bool = False
    combine: bool = False

    @property
    def chosen(self) -> list[str]:
        return [name for name in NAMES if {name, ALL} & set(self.strategies)]

    @property
    def base(self) -> str:
        """The strategy with which the other dimensions are varied, one at a time."""
        listing = [name for name in self.chosen if name != TAIL.name]
        return PAGED.name if PAGED.name in listing or not listing else listing[0]

    @property
    def forms(self) -> list[Representation]:
        """The representations besides the plain one."""
        return [form for form in Representation if {str(form), ALL} & set(self.representations)]

    @property
    def selectors(self) -> list[Selectors]:
        return [Selectors(labels=text) for text in self.labels] + [Selectors(fields=text) for text in self.fields]


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
    dimensions: Dimensions = field(default_factory=Dimensions)
    repeat: int = 1
    limits: Limits = field(default_factory=Limits)
    every: bool = False
    exclude: tuple[str, ...] = ()
    dry_run: bool = False

    def check(self) -> None:
        """Raise ConfigError if the options contradict each other."""
        found = self.dimensions
        if self.every == bool(self.resources):
            raise ConfigError("name the resources to rehearse, or pass --all and --exclude")
        if self.exclude and not self.every:
            raise ConfigError("--exclude leaves resources out of --all; pass both")
        if found.each_namespace and self.namespace:
            raise ConfigError("--each-namespace starts an informer for each namespace; leave out --namespace")
        if found.page_sizes and not any(name in IN_PAGES for name in found.chosen):
            raise ConfigError(f"--page-size needs a strategy with pages; add --strategy {' or '.join(IN_PAGES)}")
        if found.gzip and all(name in IN_WATCH for name in found.chosen):
            raise ConfigError("--gzip needs a strategy with lists, as apiservers do not compress watches")


def plan(options: RehearseOptions, resource: Resource) -> list[Variant]:
    """Return the informers to start for a resource, each once; raise ConfigError if these are too many.

    By default only the strategies differ. Each other dimension adds informers of one strategy that differ from it in
    this alone; combined, each value is tried with all others.
    """
    dimensions = options.dimensions
    if not resource.namespaced:
        dimensions = replace(dimensions, each_namespace=False)
    found = list(dict.fromkeys(_combined(dimensions) if dimensions.combine else _one_by_one(dimensions)))
    runs = len(found) * options.repeat
    if runs > options.limits.runs:
        raise ConfigError(f"{resource.key}: the options ask for {runs:,} runs; choose fewer, or pass --max-runs {runs}")
    return found


def _one_by_one(dimensions: Dimensions) -> Iterator[Variant]:
    yield from map(Variant, dimensions.chosen)
    base = Variant(dimensions.base)
    if dimensions.forms or dimensions.gzip or dimensions.selectors or dimensions.each_namespace:
        yield base
    for form in dimensions.forms:
        yield replace(base, representation=form)
    if dimensions.gzip:
        for form in (Representation.PLAIN, *dimensions.forms):
            yield from _possible(replace(base, representation=form, gzip=True))
    for size in dimensions.page_sizes:
        for name in [base.strategy] if base.strategy in IN_PAGES else _in_pages(dimensions):
            yield Variant(name, page_size=size)
    for selectors in dimensions.selectors:
        yield replace(base, selectors=selectors)
    if dimensions.each_namespace:
        yield replace(base, each_namespace=True)


def _combined(dimensions: Dimensions) -> Iterator[Variant]:
    for values in itertools.product(
        dimensions.chosen,
        dict.fromkeys((Representation.PLAIN, *dimensions.forms)),
        (False, True) if dimensions.gzip else (False,),
        dict.fromkeys((PAGE_SIZE, *dimensions.page_sizes)),
        (ALL_OBJECTS, *dimensions.selectors),
        (False, True) if dimensions.each_namespace else (False,),
    ):
        yield from _possible(Variant(*values))


def _possible(variant: Variant) -> list[Variant]:
    """Return the variant, or nothing if its settings would not change what it costs."""
    if variant.strategy == TAIL.name and variant.settings:
        return []
    if variant.gzip and variant.strategy in IN_WATCH:
        return []
    if variant.page_size != PAGE_SIZE and variant.strategy not in IN_PAGES:
        return []
    return [variant]


def _in_pages(dimensions: Dimensions) -> Sequence[str]:
    return [name for name in dimensions.chosen if name in IN_PAGES][:1]


def list_objects(variants: Iterable[Variant]) -> bool:
    """Return True if any of the informers receives the objects."""
    return any(variant.strategy != TAIL.name for variant in variants)


def may_starve(strategies: Iterable[str], objects: int) -> bool:
    """Return True if the watch cache may be kept from taking in changes while it collects the objects of a watch."""
    return objects >= STARVED_OBJECTS and not set(IN_WATCH).isdisjoint(strategies)
