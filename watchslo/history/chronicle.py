"""Everything that is remembered and said of a run, moved on by one snapshot after the other."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from watchslo.history.day import Day
from watchslo.history.happenings import Happening, Kind, compare
from watchslo.history.headline import Headline, Level, headline
from watchslo.history.judgement import Condition, Judge, Line
from watchslo.history.series import Key, Series
from watchslo.history.trust import Check, Trust, summary
from watchslo.history.words import some_of
from watchslo.snapshot import Snapshot

HAPPENINGS = 500  # what is told of; a day of trouble, and a minute of chaos, as one sentence stands for many watches


@dataclass(frozen=True, slots=True)
class Account:
    """What there is to say of one moment; `number` counts them from 1. `happened` is what is new since the one before.

    Lines are in the order of the snapshot's streams.
    """

    number: int
    snapshot: Snapshot
    headline: Headline
    lines: tuple[Line, ...]
    checks: tuple[Check, ...]
    happened: tuple[Happening, ...]

    @property
    def trust(self) -> Check:
        """What the checks come to."""
        return summary(self.checks)


class Chronicle:
    """The owner of all history. Not safe for threads: hand it to one, and take away what it returns."""

    def __init__(self) -> None:
        self.series = Series()
        self.day = Day()
        self._happened: deque[Happening] = deque(maxlen=HAPPENINGS)
        self._judges: dict[Key, Judge] = {}
        self._trust = Trust()
        self._late: set[Key] = set()
        self.account: Account | None = None

    @property
    def happened(self) -> tuple[Happening, ...]:
        """What happened, the oldest first."""
        return tuple(self._happened)

    def observe(self, snapshot: Snapshot) -> Account:
        """Takes the snapshot of the newest evaluation."""
        streams = {(stream.apiserver, stream.watch): stream for stream in snapshot.streams}
        self._judges = {key: self._judges.get(key) or Judge() for key in streams}
        lines = {key: self._judges[key].line(stream, snapshot.at_wall) for key, stream in streams.items()}
        self.series.add(snapshot.at_wall, lines)
        self.day.add(snapshot.at_wall, {key: stream.track.objective.windows for key, stream in streams.items()})
        happened = tuple(self._news(snapshot, lines))
        self._happened.extend(happened)
        self.account = Account(
            number=self.account.number + 1 if self.account else 1,
            snapshot=snapshot,
            headline=headline(snapshot, tuple(lines.values())),
            lines=tuple(lines.values()),
            checks=self._trust.checks(snapshot),
            happened=happened,
        )
        return self.account

    def _news(self, snapshot: Snapshot, lines: Mapping[Key, Line]) -> Iterator[Happening]:
        if self.account is None:
            yield Happening(snapshot.monitor.started_wall, Kind.STARTED, Level.GOOD, "watchslo started")
            return
        yield from compare(self.account.snapshot, snapshot)
        late = {key for key, line in lines.items() if line.condition is Condition.LATE}
        within = {key for key, line in lines.items() if line.condition is Condition.WITHIN}
        was_late = self._late & lines.keys()
        for turned, kind, level, words in (
            (late - was_late, Kind.LATE, Level.BAD, "late"),
            (was_late & within, Kind.IN_TIME, Level.GOOD, "in time again"),
        ):
            if names := [line.name for key, line in lines.items() if key in turned]:
                yield Happening(snapshot.at_wall, kind, level, f"{some_of(names)}: {words}")
        self._late = (was_late - within) | late
