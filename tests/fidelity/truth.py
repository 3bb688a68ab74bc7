"""What really happened to the samples of one watch, and whether a daemon's words agree with it."""

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
    """When something happened to each of some revisions: both ascend."""

    revisions: Revisions
    at: Floats

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> "Stamps":
        """From columns `revision` and `at`, in any order."""
        revisions = np.array(columns["revision"], dtype=np.int64)
        order = np.argsort(revisions, kind="stable")
        return cls(revisions[order], np.array(columns["at"], dtype=np.float64)[order])

    def when(self, revisions: Revisions) -> Floats:
        """Of each of these revisions; all of them must be there."""
        place = np.minimum(np.searchsorted(self.revisions, revisions), len(self.revisions) - 1)
        assert np.array_equal(self.revisions[place], revisions), "events came that nobody has written or sent"
        return self.at[place]


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """The latencies of a watch's samples in seconds, in the order of their arrival.

    `most` is from the first moment that the commit can have been to the daemon's own stamp, `least` from the last such
    moment to the sending: between them lies what the daemon's bounds are about. `likely` is from the middle of these
    moments to the sending.
    """

    least: Floats
    likely: Floats
    most: Floats
    lag: Floats  # from the sending to the stamp

    @classmethod
    def of(cls, received: Stamps, sent: Stamps, committed: tuple[Stamps, Stamps]) -> "Truth":
        """From the stamps of the daemon and of the sender, and the last and the first moment of each commit."""
        leaving = sent.when(received.revisions)
        last, first = (stamps.when(received.revisions) for stamps in committed)
        return cls(leaving - last, leaving - (first + last) / 2, received.at - first, received.at - leaving)

    def __len__(self) -> int:
        return len(self.least)

    def __getitem__(self, span: slice) -> "Truth":
        return Truth(self.least[span], self.likely[span], self.most[span], self.lag[span])


def quantile(latencies: Floats, q: float) -> float:
    """The ceil(q * n)-th smallest, as the daemon defines it."""
    rank = ceil(round(q * len(latencies), 6))
    return float(np.partition(latencies, rank - 1)[rank - 1])


@dataclass(frozen=True, slots=True)
class Quantile:
    """As the daemon says it."""

    lower: float
    estimate: float
    upper: float


@dataclass(frozen=True, slots=True)
class Window:
    """The last `events` of a watch's samples up to the `end`-th, and their quantiles."""

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
        """What came after an earlier look at the same histogram."""
        counts = tuple(now - then for now, then in zip(self.counts, earlier.counts, strict=True))
        return Shares(self.edges, counts, self.total - earlier.total)


@dataclass(frozen=True, slots=True)
class Look:
    """What a daemon said of one watch at one moment: how many samples it had, and how many events were none.

    The `skipped` came before the first tick, nobody vouched for the `dropped`, and the `tainted` were read late.
    """

    total: int
    skipped: int
    dropped: int
    tainted: int
    windows: tuple[Window, ...]
    verdicts: Mapping[str, int]

    @classmethod
    def at(cls, stream: Mapping[str, Any]) -> "Look":
        """From a stream of `/api/v1/status`."""
        latency = stream["latency"]
        total, unmeasured = latency["events"], latency["unmeasured"]
        windows = tuple(_window(window, total) for window in latency["windows"])
        dropped = unmeasured["domain"] + unmeasured["unsealed"]
        verdicts = latency["objective"]["verdicts"]
        return cls(total, unmeasured["before_clock"], dropped, unmeasured["tainted"], windows, verdicts)

    def contradictions(self, truth: Truth, threshold: float) -> int:
        """How many events it calls within or beyond the threshold in excess of those that can be."""
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
    """The quantiles of a window whose truth lies outside of their bounds: q, least and most of the truth."""
    part = window.of(truth)
    for q, said in window.quantiles.items():
        least, most = quantile(part.least, q), quantile(part.most, q)
        if said.lower > most or said.upper < least:
            yield q, least, most
