"""What was rehearsed of one resource so far."""

from dataclasses import dataclass, field

from watchslo.model import Resource
from watchslo.rehearse.census import Census
from watchslo.rehearse.headroom import Headroom
from watchslo.rehearse.rehearsal import Rehearsal
from watchslo.rehearse.variant import Variant


@dataclass(slots=True)
class Trial:
    """A resource, its objects, which variants to rehearse, its rehearsals so far, and its headroom after the last one.

    `skipped` says why it is not rehearsed, or not any further.
    """

    resource: Resource
    census: Census | None = None
    variants: list[Variant] = field(default_factory=list)
    repeat: int = 1
    runs: list[Rehearsal] = field(default_factory=list)
    headroom: Headroom | None = None
    skipped: str | None = None

    @property
    def objects(self) -> int:
        return self.census.objects if self.census else 0

    @property
    def planned(self) -> list[Variant]:
        """All runs in their order: repetitions take turns, so that a slow minute hits all variants."""
        return self.variants * self.repeat

    @property
    def is_complete(self) -> bool:
        return len(self.runs) == len(self.planned)

    @property
    def expected_size(self) -> int:
        """The estimated bytes of all its lists; those of other forms count as whole objects, as an upper bound."""
        listing = sum(variant.strategy != "tail" for variant in self.planned)
        return listing * (self.census.size if self.census else 0)
