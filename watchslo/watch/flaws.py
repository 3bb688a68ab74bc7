"""What was wrong with the lines of one chunk."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from watchslo.snapshot import Guarantee
from watchslo.watch.decode import Frame
from watchslo.watch.messages import Garbage, Unparsable, Violated


@dataclass(slots=True)
class Flaws:
    """The events of one chunk that were not emitted: those that broke a guarantee, and counts of unreadable ones."""

    unparsable: int = 0
    garbage: int = 0
    _late: list[tuple[Guarantee, int, Frame]] = field(default_factory=list)

    def add(self, broken: Guarantee, revision: int, event: Frame) -> None:
        """Add an event, or a bookmark, that broke a guarantee."""
        self._late.append((broken, revision, event))

    def has(self, event: Frame) -> bool:
        """Return True if this event broke a guarantee."""
        return any(event is late for _, _, late in self._late)

    @property
    def violations(self) -> Iterable[Violated]:
        """One fact for each guarantee that was broken."""
        if not self._late:
            return
        for guarantee in Guarantee:
            revisions = [revision for broken, revision, _ in self._late if broken is guarantee]
            if revisions:
                yield Violated(guarantee, len(revisions), min(revisions), max(revisions))

    @property
    def facts(self) -> Iterable[Violated | Unparsable | Garbage]:
        """What is to be said of this chunk."""
        yield from self.violations
        if self.unparsable:
            yield Unparsable(self.unparsable)
        if self.garbage:
            yield Garbage(self.garbage)
