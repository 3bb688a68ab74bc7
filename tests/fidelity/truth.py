"""The true latencies of the samples of one watch, and the comparison with a daemon's report."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Revisions = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Stamps:
    """The times of some step for each revision; revisions and times ascend."""

    revisions: Revisions
    at: Floats

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> "Stamps":
        """Return the stamps of the columns `revision` and `at`, in any order."""
        revisions = np.array(columns["revision"], dtype=np.int64)
        order = np.argsort(revisions, kind="stable")
        return cls(revisions[order], np.array(columns["at"], dtype=np.float64)[order])

    def when(self, revisions: Revisions) -> Floats:
        """Return the time of each of these revisions; all of them must be known."""
        place = np.minimum(np.searchsorted(self.revisions, revisions), len(self.revisions) - 1)
        assert np.array_equal(self.revisions[place], revisions), (
            "there are events that no writer wrote or no server sent"
        )
        return self.at[place]


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """The latencies of a watch's samples in seconds, in the order of their arrival.

    `most` is from the earliest possible commit to the daemon's own time stamp, `least` from the latest possible commit
    to the sending. The latency that the daemon's bounds are about lies between them. `likely` is from the middle of the
    possible commit times to the sending.
    """

    least: Floats
    likely: Floats
    most: Floats
    lag: Floats  # from the sending to the daemon's time stamp

    @classmethod
    def of(cls, received: Stamps, sent: Stamps, committed: tuple[Stamps, Stamps]) -> "Truth":
        """Return the truth, from the stamps of daemon and sender, and the latest and earliest times of each commit."""
        leaving = sent.when(received.revisions)
        last, first = (stamps.when(received.revisions) for stamps in committed)
        return cls(leaving - last, leaving - (first + last) / 2, received.at - first, received.at - leaving)

    def __len__(self) -> int:
        return len(self.least)

    def __getitem__(self, span: slice) -> "Truth":
        return Truth(self.least[span], self.likely[span], self.most[span], self.lag[span])


def quantile(latencies: Floats, q: float) -> float:
    """Return the ceil(q * n)-th smallest latency, as the daemon defines a quantile."""
    rank = ceil(round(q * len(latencies), 6))
    return float(np.partition(latencies, rank - 1)[rank - 1])


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile as the daemon reports it."""

    lower: float
    estimate: float
    upper: float


@dataclass(frozen=True, slots=True)
class Window:
    """The last `events` samples of a watch up to the `end`-th one, and their quantiles."""

    name: str
    end: int
    events: int
    quantiles: Mapping[float, Quantile]

    def of(self, truth: Truth) -> Truth:
        return truth[self.end - self.events : self.end]


@dataclass(frozen=True, slots=True)
class Shares:
    """A histogram: how many of `total` were at most each of the edges."""

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    total: int

    @property
    def shares(self) -> Floats:
        return np.array(self.counts) / max(self.total, 1)

    def since(self, earlier: "Shares") -> "Shares":
        """Return the samples since an earlier state of the same histogram."""
        counts = tuple(now - then for now, then in zip(self.counts, earlier.counts, strict=True))
        return Shares(self.edges, counts, self.total - earlier.total)


@dataclass(frozen=True, slots=True)
class Look:
    """A daemon's report on one watch at one moment: the number of samples, and of events that are not samples.

    `skipped` events came before the first tick, no tick confirmed the `dropped` events, and `tainted` events were read
    late.
    """

    total: int
    skipped: int
    dropped: int
    tainted: int
    windows: tuple[Window, ...]
    verdicts: Mapping[str, int]

    @classmethod
    def at(cls, stream: Mapping[str, Any]) -> "Look":
        """Return the look from a stream of `/api/v1/status`."""
        latency = stream["latency"]
        total, unmeasured = latency["events"], latency["unmeasured"]
        windows = tuple(_window(window, total) for window in latency["windows"])
        dropped = unmeasured["pending"] + unmeasured["domain"] + unmeasured["unsealed"]
        verdicts = latency["objective"]["verdicts"]
        return cls(total, unmeasured["before_clock"], dropped, unmeasured["tainted"], windows, verdicts)

    def contradictions(self, truth: Truth, threshold: float) -> int:
        """Return how many more events it reports within or beyond the threshold than are possible."""
        within = np.count_nonzero(truth.least[: self.total] <= threshold)
        beyond = np.count_nonzero(truth.most[: self.total] > threshold)
        return max(0, self.verdicts["within"] - int(within)) + max(0, self.verdicts["beyond"] - int(beyond))


def _window(window: Mapping[str, Any], total: int) -> Window:
    quantiles = {
        found["q"]: Quantile(found["lower"], found["estimate"], _finite(found["upper"]))
        for found in window["quantiles"]
    }
    return Window(window["name"], total, window["events"], quantiles)


def _finite(upper: float | None) -> float:
    return float("inf") if upper is None else upper


def violations(window: Window, truth: Truth) -> Iterator[tuple[float, float, float]]:
    """Yield the quantiles with a truth outside of their bounds: q, and the least and most possible truth."""
    part = window.of(truth)
    for q, said in window.quantiles.items():
        least, most = quantile(part.least, q), quantile(part.most, q)
        if said.lower > most or said.upper < least:
            yield q, least, most
