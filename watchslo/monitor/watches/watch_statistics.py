"""The statistics of one watch: its track, the domain clock that dates its events, and what it records of each batch."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import numpy as np

from watchslo.clock.domain import Membership
from watchslo.clock.offset import Dating
from watchslo.clock.staircase import AFTER_ALL
from watchslo.kube.call import Page
from watchslo.latency.estimate import P99, Estimation, TickSpacing
from watchslo.latency.queue_waits import QueueWaits
from watchslo.latency.representation_delay import RepresentationDelay
from watchslo.latency.tally import Slot
from watchslo.latency.track import DOMAIN, TAINTED, Track
from watchslo.model import Interval, Reading
from watchslo.monitor.clocks.domain_clock import DomainClock
from watchslo.monitor.protocol.watch_identity import WatchIdentity
from watchslo.monitor.tasks.lag import Lag
from watchslo.snapshot import ReadUse
from watchslo.watch.catch_up import EventBurst
from watchslo.watch.messages import Batch


class WatchStatistics:
    """How late the events of one watch are.

    It owns the `track` and knows the domain `clock` that seals it. Both change only through
    `replace_track` and `date_by`. `queue_waits` is when requests to open the watch waited in this process.
    `creators` returns what converts creation timestamps, of the apiservers' wall clocks, to our monotonic clock.
    `reference` compares the arrivals with those of whole objects, if the configuration asks for that.
    """

    def __init__(
        self,
        identity: WatchIdentity,
        track: Track,
        clock: DomainClock,
        lag: Lag,
        creators: Callable[[], Dating | None],
    ) -> None:
        self.reference = RepresentationDelay(lag.own_delays) if identity.has_reference_watch else None
        self.track = track
        self.clock = clock
        self.queue_waits = QueueWaits()
        self._identity = identity
        self._lag = lag
        self._creators = creators
        self._slots: list[Slot] = []  # sealed by a clock that the watch has left
        self._measures_creation = identity.config.measures_creation(identity.resource)
        clock.attach(identity, track, self.queue_waits)

    @property
    def measured(self) -> bool:
        """Whether the clock can date the events: their source is a member of its domain."""
        return self.membership is Membership.MEMBER

    @property
    def counts(self) -> bool:
        """Whether the revisions are known to count the changes of one sequence, without gaps in time."""
        return self.measured and self.clock.domain.counts

    @property
    def membership(self) -> Membership:
        return self.clock.domain.membership(self._identity.source)

    @property
    def threshold(self) -> float:
        """The threshold of the objective, in seconds."""
        return self.track.reading().objective.threshold

    @property
    def slowest(self) -> float:
        """The P99 estimated for the shortest window, in seconds; 0 without events."""
        shortest = min(self.track.reading().windows, key=lambda window: window.length)
        return max((quantile.estimate for quantile in shortest.quantiles if quantile.q <= P99), default=0.0)

    @property
    def event_rate(self) -> float:
        """Measured events per second over the longest window."""
        longest = max(self.track.reading().windows, key=lambda window: window.length)
        return longest.events / longest.length

    # The clock and the objective

    def replace_track(self, track: Track) -> None:
        """Start new statistics by another objective."""
        self.track = track
        self._slots.clear()
        self.clock.attach(self._identity, track, self.queue_waits)

    def date_by(self, clock: DomainClock) -> None:
        """Move to the clock of another domain; what the old one has not sealed is unmeasured."""
        self.detach()
        self.clock = clock
        clock.attach(self._identity, self.track, self.queue_waits)

    def drop_unsealed(self) -> None:
        """Give up what is not sealed: the storage was restored, and its revisions mean something else now."""
        if self.reference is not None:
            self.reference.reset()
        self.clock.sealer.drop(self._identity.number)

    def detach(self) -> None:
        """Leave the clock: the watch ends."""
        self._slots += self.clock.detach(self._identity.number)

    # Events

    def record(self, batch: Batch) -> None:
        """Take in a batch of live events. This runs for every batch."""
        is_member = self.sight(batch.received, batch.revisions[-1])
        is_tainted = self._lag.tainted(batch.received)
        if self.reference is not None:
            self.reference.small.add(batch.revisions, batch.received, tainted=is_tainted)
        if is_tainted:
            self.track.unmeasured(TAINTED, len(batch.revisions))
            return
        if self._measures_creation:
            self._note_creations(batch)
        if is_member:
            self.clock.sealer.record(self._identity.number, batch.received, batch.revisions)
            self.clock.follow(batch.received)
        elif self.membership is Membership.PENDING:
            self.clock.sealer.hold(self._identity.number, batch.received, batch.revisions)
        else:
            self.track.unmeasured(DOMAIN, len(batch.revisions))

    def record_reference_watch(self, batch: Batch) -> None:
        """Take in a batch of the watch of whole objects."""
        assert self.reference is not None
        self.reference.full.add(batch.revisions, batch.received, tainted=self._lag.tainted(batch.received))

    def note_opened(self, at: float) -> None:
        """Note when the watch was opened."""
        if self.reference is not None:
            self.reference.small.opened = at

    def sight(self, received: float, revision: int) -> bool:
        """Note that a revision was received; return False if the source is not a member of the domain."""
        return self.clock.domain.sight(received, revision, self._identity.number)

    def mark(self, received: float, revision: int) -> None:
        """Note that a bookmark was received."""
        self.clock.domain.mark(received, revision, self._identity.number)

    def observe(self, reading: Reading, use: ReadUse) -> None:
        """Add a consistent read of the watched resource to the clock that dates the watch."""
        self.clock.observe(reading, use)

    def observe_list(self, page: Page) -> None:
        """Add the first page of a consistent list of the watched resource."""
        apiserver, resource = self._identity.source
        self.observe(Reading(resource, page.sent, page.answered, page.revision, apiserver), ReadUse.LIST)

    def _note_creations(self, batch: Batch) -> None:
        stamped = (
            (revision, _parse_time(created))
            for type_, revision, created in zip(batch.types, batch.revisions, batch.created, strict=True)
            if type_ == "ADDED" and created
        )
        known = [(revision, stamp) for revision, stamp in stamped if stamp is not None]
        self.track.note_creations(batch.received, [revision for revision, _ in known], [stamp for _, stamp in known])

    # Figures

    def ages(self, revisions: Sequence[int], now: float) -> Sequence[float]:
        """Return the proven minimum age of each revision, in seconds; 0 where the clock cannot date it."""
        if not self.measured:
            return [0.0] * len(revisions)
        bounds = self.clock.domain.clock.measure(np.array(revisions), np.full(len(revisions), now))
        return [float(age) for age in np.where(bounds.measurable, bounds.proven, 0.0)]

    def oldest_ticked(self, since: float) -> int | None:
        """Return the oldest revision of the ticks sent since then: newer ones were committed since; None if unknown."""
        oldest = self.clock.domain.clock.oldest_after(since) if self.measured else AFTER_ALL
        return None if oldest == AFTER_ALL else oldest

    def has_caught_up(self, burst: EventBurst) -> bool:
        """Return whether the watch was behind before a burst; not if this process may have read it late."""
        (oldest,), (newest,) = self.ages([burst.oldest], burst.began), self.ages([burst.newest], burst.ended)
        (own,) = self._lag.own_delays.of(np.array([burst.began]))
        return burst.has_caught_up(oldest - float(own), newest)

    def commit_bounds(self, revision: int, now: float) -> Interval | None:
        """Return how long before `now` a revision was committed, in seconds; None if no clock dates it.

        `upper` is infinite if the clock began after the commit, or this process has stood still since.
        """
        if not self.measured:
            return None
        bounds = self.clock.domain.clock.measure(np.array([revision]), np.array([now]))
        stopped = self._lag.own_delays.span_stop(now - bounds.upper, np.array([now]))
        is_known = bounds.measurable[0] and not stopped[0]
        return Interval(float(bounds.lower[0]), float(bounds.upper[0]) if is_known else float("inf"))

    def update(
        self, now: float, withheld: Sequence[float], *, down_for: float | None = None, unjudgeable: bool
    ) -> list[Estimation]:
        """Take in the samples since the last evaluation; return the estimations that `publish` needs.

        `withheld` are the ages, in seconds, of events that are proven to be withheld, and `down_for` is for how many
        seconds the watch has been down. `unjudgeable` says that this process was late, or that the cache is frozen: no
        window is then judged.
        """
        creators = self._creators() if self._measures_creation else None
        if self.reference is not None:
            self.track.note_representation_delays(*self.reference.match(now))
        slots, self._slots = [*self._slots, *self.clock.sealer.take(self._identity.number)], []
        clock = self.clock.domain.clock
        return self.track.update(
            now,
            slots,
            self.clock.sealer.sealed(self._identity.number),
            TickSpacing(clock.resolution or 0.0, self.clock.interval, clock.hidden),
            clock.times.between,
            withheld,
            down_for=down_for,
            unjudgeable=unjudgeable,
            creators=creators,
        )

    def publish(self) -> None:
        """Make a new reading, once the estimations are solved."""
        self.track.publish()


def _parse_time(text: str) -> float | None:
    """Return the Unix seconds of a metav1.Time, which is in UTC; None if it is malformed."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
