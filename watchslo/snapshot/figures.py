"""Readings of distributions: histograms, quantiles of rolling windows, and the statistics of one watch."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from watchslo.model import Interval
from watchslo.snapshot.verdicts import WindowVerdict


@dataclass(frozen=True, slots=True)
class NativeBuckets:
    """The buckets of a native histogram of Prometheus.

    `zero` observations were at most `zero_threshold`. The bucket of `counts[k]` has the index `first + k`: bucket n
    ends at 2^(n / 2^schema). The first and the last count are positive; without any there are no buckets.
    """

    schema: int
    zero_threshold: float
    zero: int
    first: int
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HistogramReading:
    """A cumulative histogram: `counts[k]` observations were at most `edges[k]`; the last count is the total.

    `native` are the same observations in finer buckets, if they are known so finely.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float
    native: NativeBuckets | None = None

    @property
    def total(self) -> int:
        return self.counts[-1]

    def above(self, seconds: float) -> int:
        """Return how many observations were longer than an edge; of a time between two edges, than the next edge."""
        return self.total - self.counts[bisect_left(self.edges, seconds)]


@dataclass(frozen=True, slots=True)
class QuantileReading:
    """A quantile of one window: the estimate, and proven bounds of the window's true sample quantile.

    An estimate below its `resolution`, in seconds, is not a measurement: ticks were held as long. It is `rough` if the
    events do not determine it: it may be more than a quarter, and 10 ms, off. `probable` holds the true quantile in
    about 90% of windows, if latencies do not depend on ticks; None if the estimate is no measurement, or is proven.
    """

    q: float
    lower: float
    estimate: float
    upper: float
    resolution: float = 0.0
    rough: bool = False
    probable: Interval | None = None

    @property
    def resolved(self) -> bool:
        return self.estimate >= self.resolution


@dataclass(frozen=True, slots=True)
class WindowReading:
    """A rolling window of `length` seconds: its name as in metrics (`1m`), its number of events, their quantiles."""

    name: str
    length: float
    events: int
    quantiles: tuple[QuantileReading, ...]


@dataclass(frozen=True, slots=True)
class ObjectiveReading:
    """The objective in force for one watch; `verdicts` counts judged events, `windows` counts judged windows.

    A window of `window` seconds is judged by its `quantile`, and with fewer than `min_events` events by its proven
    bounds only.
    """

    threshold: float
    events_target: float
    minutes_target: float
    min_events: int
    verdicts: Mapping[str, int]
    windows: Mapping[str, int]
    quantile: float = 0.99
    window: float = 60.0


class Hop(StrEnum):
    """The parts of an event's way: to its commit, then into the apiserver's cache, then to watchslo.

    The last part is how much longer the way of the whole object takes than that of the small representation.
    """

    CREATION_TO_STORAGE = "creation_to_storage"
    STORAGE_TO_CACHE = "storage_to_cache"
    CACHE_TO_CLIENT = "cache_to_client"
    ENCODING_TO_CLIENT = "encoding_to_client"


@dataclass(frozen=True, slots=True)
class HopReading:
    """The durations of one hop, of the events of one watch whose hop could be measured."""

    hop: Hop
    histogram: HistogramReading
    windows: tuple[WindowReading, ...]


@dataclass(frozen=True, slots=True)
class TrackReading:
    """The statistics of one watch. `creation` is None unless the configuration asks for creation timestamps.

    `unresolved` counts samples below the round trip of the ticks, `unmeasured` events that are no samples, by reason.
    `hops` has the hops that were measured at least once. `judged` is the rolling window of the objective's length, with
    the objective's quantile, and `verdict` is the verdict on it. `proven_only` means without quantiles, because ticks
    are too slow for them: `windows` is then empty and `judged` None.
    """

    timespan: HistogramReading
    windows: tuple[WindowReading, ...]
    objective: ObjectiveReading
    unresolved: int
    unmeasured: Mapping[str, int]
    creation: HistogramReading | None
    hops: tuple[HopReading, ...] = ()
    judged: WindowReading | None = None
    verdict: WindowVerdict = WindowVerdict.NO_DATA
    proven_only: bool = False

    @property
    def late(self) -> int:
        """Samples later than the threshold, by their estimated distribution."""
        return self.timespan.above(self.objective.threshold)
