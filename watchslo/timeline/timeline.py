"""The timeline: figures of the last hour and day, events, and the headline; each snapshot moves it on. Pure."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from watchslo.snapshot import Snapshot
from watchslo.timeline.condition import Condition, Judge, WatchCondition
from watchslo.timeline.day import DayHistory
from watchslo.timeline.events import EventKind, TimelineEvent, compare, keys_of
from watchslo.timeline.format import some_of
from watchslo.timeline.headline import MUCH_SECONDS, Assessment, Headline, headline
from watchslo.timeline.proven_hour import ProvenHistory
from watchslo.timeline.self_checks import SelfCheck, SelfChecks, summary
from watchslo.timeline.series import Key, Series
from watchslo.timeline.verdict import Level

RECENT_SECONDS = 300.0  # before now; what was earlier is usual
MOST_EVENTS = 500  # kept: a day of trouble, or a minute of chaos; one event stands for many watches


@dataclass(frozen=True, slots=True)
class Account:
    """All that is shown at one moment; `number` counts from 1. `happened` has the events since the previous account.

    `lines` has one condition for each watch of the snapshot, in the same order.
    """

    number: int
    snapshot: Snapshot
    headline: Headline
    lines: tuple[WatchCondition, ...]
    checks: tuple[SelfCheck, ...]
    happened: tuple[TimelineEvent, ...]

    @property
    def trust(self) -> SelfCheck:
        """All self checks in one."""
        return summary(self.checks, measuring=bool(self.snapshot.domains))


class Timeline:
    """Owns everything that is remembered. Not thread-safe: use it in one thread; what it returns may leave it."""

    def __init__(self) -> None:
        self.series = Series()
        self.day = DayHistory()
        self._happened: deque[TimelineEvent] = deque(maxlen=MOST_EVENTS)
        self._judges: dict[Key, Judge] = {}
        self._proven = ProvenHistory()
        self._trust = SelfChecks()
        self._late: set[Key] = set()
        self.account: Account | None = None

    @property
    def happened(self) -> tuple[TimelineEvent, ...]:
        """The events, the oldest first."""
        return tuple(self._happened)

    def observe(self, snapshot: Snapshot) -> Account:
        """Add the snapshot of the newest evaluation, and return what to show."""
        watches = {(watch.apiserver, watch.watch): watch for watch in snapshot.watches}
        self._judges = {key: self._judges.get(key) or Judge() for key in watches}
        lines = {key: self._judges[key].condition(watch, snapshot.at_wall) for key, watch in watches.items()}
        self.series.add(snapshot.at_wall, lines)
        self.day.add(snapshot.at_wall, {key: watch.track.objective.windows for key, watch in watches.items()})
        happened = tuple(self._new_events(snapshot, lines))
        self._happened.extend(happened)
        checks = self._trust.checks(snapshot)
        late = {key: watch.track.objective.verdicts.get("beyond", 0) for key, watch in watches.items()}
        violations = {key: sum(watch.guarantees.violations.values()) for key, watch in watches.items()}
        hour = self._proven.observe(snapshot.at_wall, late, violations)
        usual = {key: self._usual(key, line, snapshot.at_wall) for key, line in lines.items()}
        self.account = Account(
            number=self.account.number + 1 if self.account else 1,
            snapshot=snapshot,
            headline=headline(
                Assessment(
                    snapshot,
                    tuple(lines.values()),
                    self._trust.overloaded,
                    hour,
                    self.day.last_bad_wall,
                    {key: seconds for key, seconds in usual.items() if seconds},
                )
            ),
            lines=tuple(lines.values()),
            checks=checks,
            happened=happened,
        )
        return self.account

    def _usual(self, key: Key, line: WatchCondition, at_wall: float) -> float | None:
        """Return the usual P50 of a watch, if its present one is worth comparing; that of few milliseconds varies."""
        if line.p50 is None or line.p50.rough or not line.p50.resolved or line.p50.estimate < MUCH_SECONDS:
            return None
        return self.series.usual_p50(key, at_wall - RECENT_SECONDS)

    def _new_events(self, snapshot: Snapshot, lines: Mapping[Key, WatchCondition]) -> Iterator[TimelineEvent]:
        if self.account is None:
            yield TimelineEvent(snapshot.monitor.started_wall, EventKind.STARTED, Level.GOOD, "watchslo started")
            return
        yield from compare(self.account.snapshot, snapshot)
        late = {key for key, line in lines.items() if line.condition is Condition.LATE}
        within = {key for key, line in lines.items() if line.condition is Condition.WITHIN}
        was_late = self._late & lines.keys()
        for turned, kind, level, words in (
            (late - was_late, EventKind.LATE, Level.BAD, "late"),
            (was_late & within, EventKind.IN_TIME, Level.GOOD, "in time again"),
        ):
            if some := [line for key, line in lines.items() if key in turned]:
                text = f"{some_of([line.name for line in some])}: {words}"
                yield TimelineEvent(snapshot.at_wall, kind, level, text, keys_of(line.watch for line in some))
        self._late = (was_late - within) | late
