"""Where a gap begins, if the next list shows that there is one."""

from collections.abc import Iterator
from dataclasses import dataclass

from watchslo.watch.messages import Gap


@dataclass(slots=True)
class GapStart:
    """Since when changes may have been missed: the last revision that is known, if any, and the time."""

    after: int | None = None
    since: float = 0.0

    def gap(self, until: int, now: float) -> Iterator[Gap]:
        """Yield the gap if there were changes up to `until` that were not delivered."""
        if self.after is not None and until > self.after:
            yield Gap(self.after, until, now - self.since)
