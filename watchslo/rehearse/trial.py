"""What was rehearsed of one resource so far."""

from dataclasses import dataclass, field

from watchslo.model import Resource
from watchslo.rehearse.census import Census
from watchslo.rehearse.headroom import Headroom
from watchslo.rehearse.rehearsal import Rehearsal
from watchslo.watch.strategy import TAIL


@dataclass(slots=True)
class Trial:
    """A resource, its objects, the strategies to rehearse, its rehearsals so far, and its headroom after the last one.

    `skipped` says why it is not rehearsed, or not any further.
    """

    resource: Resource
    census: Census | None = None
    strategies: list[str] = field(default_factory=list)
    repeat: int = 1
    runs: list[Rehearsal] = field(default_factory=list)
    headroom: Headroom | None = None
    skipped: str | None = None

    @property
    def objects(self) -> int:
        return self.census.objects if self.census else 0

    @property
    def planned(self) -> list[str]:
        """All runs in their order: repetitions take turns, so that a slow minute hits all strategies."""
        return self.strategies * self.repeat

    @property
    def is_complete(self) -> bool:
        return len(self.runs) == len(self.planned)

    @property
    def expected_size(self) -> int:
        """The estimated bytes of all its lists."""
        listing = sum(name != TAIL.name for name in self.planned)
        return listing * (self.census.size if self.census else 0)
