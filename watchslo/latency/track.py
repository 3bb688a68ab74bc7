"""The statistics of one watch, from its sealed events to the readings that are shown."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from watchslo.latency.bins import Bins
from watchslo.latency.creation import Creation, Creators
from watchslo.latency.distribution import Distribution
from watchslo.latency.estimate import Estimation, TickSpacing
from watchslo.latency.hops import CacheAges, Hops, cache_to_client, storage_to_cache
from watchslo.latency.objective import EventVerdict, Objective, Ticks, Windows, judge_events, judge_window
from watchslo.latency.own_delay import OwnDelays
from watchslo.latency.tally import BLOCK_SECONDS, Slot, Tally, later_than
from watchslo.model import Bounds, FloatArray, IntArray
from watchslo.snapshot import Hop, ObjectiveReading, TrackReading, WindowVerdict

INITIAL = "initial"  # not live: part of a list
BEFORE_CLOCK = "before_clock"  # committed before the first tick
PENDING = "pending"  # not known in time whether its revision belongs to the sequence of the clock
DOMAIN = "domain"  # its revision belongs to another sequence
TAINTED = "tainted"  # this process was late to read it
OWN_QUEUE = "own_queue"  # committed while this client alone could not receive: it waited, or lacked a right
UNSEALED = "unsealed"  # no tick came in time to seal it
UNPARSABLE = "unparsable"  # its revision is not a number
UNMEASURED = (INITIAL, BEFORE_CLOCK, PENDING, DOMAIN, TAINTED, OWN_QUEUE, UNSEALED, UNPARSABLE)
"""The reasons why an event is not a sample."""

ROLLING_WINDOWS = (("1m", 60.0), ("5m", 300.0), ("15s", 15.0))  # the last one is for diagnosis


class Track:
    """The statistics of one watch, from `start` (monotonic seconds) on.

    A domain clock seals the events of its watches and counts the samples. `seal` is only needed for what the counts
    lack: creations and hops. An evaluation, every few seconds, is `update`, then `solve` of what that returned, then
    `publish`, so that all parts of a reading agree with each other. Without `quantiles`, readings have no estimates,
    because the ticks are too slow for them.
    """

    def __init__(
        self,
        bins: Bins,
        objective: Objective,
        start: float,
        own_delays: OwnDelays,
        *,
        creation: bool = False,
        quantiles: bool = True,
    ) -> None:
        self._bins = bins
        self._objective = objective
        self._quantiles = quantiles
        self._distribution = Distribution(bins, _windows(objective), objective.quantile)
        self._hops = Hops(bins)
        self._creation = Creation(bins, own_delays) if creation else None
        self._windows = Windows(bins, objective, start)
        self._verdicts = Counter(dict.fromkeys(EventVerdict, 0))
        self._verdict = WindowVerdict.NO_DATA
        self._unresolved = 0
        self._unmeasured = dict.fromkeys(UNMEASURED, 0)
        self._reading = self._read()

    @property
    def measures_creation(self) -> bool:
        return self._creation is not None

    def note_creations(self, received: float, revisions: Sequence[int], created_wall: Sequence[float]) -> None:
        """Add the creation timestamps of live events that arrived together, if creation is enabled.

        The hop from creation to storage is measured for the events that are also sealed.
        """
        assert self._creation is not None
        self._creation.note(received, revisions, created_wall)

    def seal(
        self,
        received: FloatArray,
        revisions: IntArray,
        latency: Bounds,
        own_delay: FloatArray,
        cache: CacheAges | None = None,
    ) -> None:
        """Take in n sealed events with their latencies up to the arrival, for creations and hops.

        `own_delay` is how many seconds each may have waited for this process, infinite for what was committed while its
        watch did so; `latency` contains it. `cache` is the clock of
        the apiserver's cache, if it is probed.
        """
        if self._creation:
            self._creation.seal(received, revisions, latency, own_delay)
        if cache:
            located = cache.locate(revisions, received)
            to_cache = storage_to_cache(latency, received, *located)
            to_client = cache_to_client(latency, received, *located).less(own_delay)
            for hop, bounds in ((Hop.STORAGE_TO_CACHE, to_cache), (Hop.CACHE_TO_CLIENT, to_client)):
                self._hops.count(hop, received, bounds, cache.median_round_trip)

    def note_representation_delays(self, received: FloatArray, delays: Bounds) -> None:
        """Take in how much later whole objects arrived, at these times, than the events of the watch."""
        self._hops.count(Hop.ENCODING_TO_CLIENT, received, delays)

    def unmeasured(self, reason: str, count: int) -> None:
        """Count events that are not samples."""
        self._unmeasured[reason] += count

    def update(
        self,
        now: float,
        slots: Sequence[Slot],
        sealed: float,
        ticks: TickSpacing,
        times: Ticks,
        withheld: Sequence[float] = (),
        *,
        down_for: float | None = None,
        unjudgeable: bool = False,
        creators: Creators | None = None,
    ) -> list[Estimation]:
        """Take in the samples since the last evaluation; return the estimations that are due.

        All events received before `sealed` are sealed. `ticks` are those that cut them, and `times` returns when they
        were sent and answered. `withheld` are the ages, in seconds, of events that are proven to be undelivered: they
        count in the rolling windows of this reading only, and permanently when they arrive. `down_for` is how long the
        watch has been down, if it is; no event is known then, but its minutes are bad. `unjudgeable` means that the
        windows since the last evaluation have no data, as when this process was late. `creators` date the creations, if
        their clocks are known.
        """
        resolved = int(np.searchsorted(self._bins.edges, ticks.round_trip, side="right")) - 1
        for _, part in slots:
            self._verdicts.update(judge_events(part, self._objective.threshold))
            self._unresolved += part.within(resolved)
        waiting = withheld if down_for is None else (*withheld, down_for)
        self._windows.note(now, slots, waiting, unjudgeable=unjudgeable)
        self._windows.judge(now, sealed, times)
        late = (later_than(self._bins, withheld),) if withheld else ()
        due = self._distribution.update(now, slots, ticks, late)
        self._verdict = self._judge(now, sealed, times, late)
        if self._creation:
            due += self._creation.update(now, sealed, ticks, creators, self._hops)
        return due + self._hops.update(now, ticks)

    def _judge(self, now: float, sealed: float, times: Ticks, withheld: tuple[Tally, ...]) -> WindowVerdict:
        """Return the verdict on the rolling window of the objective."""
        objective = self._objective
        events = (*self._distribution.window(now, objective.window), *withheld)
        begin = now - objective.window - BLOCK_SECONDS  # at least of its first block
        return judge_window(events, objective, times(begin - objective.threshold, max(sealed, begin + BLOCK_SECONDS)))

    def publish(self) -> None:
        """Update the reading, once the estimations are solved."""
        self._distribution.publish()
        if self._creation:
            self._creation.distribution.publish()
        self._hops.publish()
        self._reading = self._read()

    def reading(self) -> TrackReading:
        """Return the reading of the last evaluation."""
        return self._reading

    def _read(self) -> TrackReading:
        judged = self._windows.verdicts if self._quantiles else {}
        objective = ObjectiveReading(
            threshold=self._objective.threshold,
            quantile=self._objective.quantile,
            window=self._objective.window,
            events_target=self._objective.events_target,
            minutes_target=self._objective.minutes_target,
            min_events=self._objective.min_events,
            verdicts={verdict.value: count for verdict, count in self._verdicts.items()},
            windows={verdict.value: count for verdict, count in judged.items()},
        )
        rolling = tuple(window.reading for window in self._distribution.rolling) if self._quantiles else ()
        return TrackReading(
            timespan=self._distribution.histogram.reading(),
            windows=rolling[: len(ROLLING_WINDOWS)],
            judged=next((window for window in rolling if window.length == self._objective.window), None),
            verdict=self._verdict if self._quantiles else WindowVerdict.NO_DATA,
            proven_only=not self._quantiles,
            objective=objective,
            unresolved=self._unresolved,
            unmeasured=dict(self._unmeasured),
            creation=self._creation.distribution.histogram.reading() if self._creation else None,
            hops=self._hops.reading(),
        )


def _windows(objective: Objective) -> tuple[tuple[str, float], ...]:
    """Return the rolling windows, and that of the objective unless it is among them."""
    known = {length for _, length in ROLLING_WINDOWS}
    return ROLLING_WINDOWS if objective.window in known else (*ROLLING_WINDOWS, ("objective", objective.window))
