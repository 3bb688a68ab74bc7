"""The estimator alone: windows of a minute with known latencies, without a daemon, and the tables of its errors."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from tests.fidelity.goals import aligned
from tests.unit.latency.truth import (
    BINS,
    MINUTE_SECONDS,
    Law,
    changing,
    constant,
    exponential,
    lognormal,
    mostly,
    normal,
    pareto,
    simulate,
    stalled,
    tally_of,
    uniform,
)
from watchslo.clock.answered import HiddenTimes
from watchslo.latency.estimate import Estimation, TickSpacing, solve
from watchslo.model import AnsweredTicks, BoolArray, FloatArray

LAWS: dict[str, Law] = {
    "lognormal 5 ms": lognormal(0.005, 0.5),
    "lognormal 20 ms": lognormal(0.02, 0.5),
    "always 20 ms": constant(0.02),
    "always 300 ms": constant(0.3),
    "always 1 s": constant(1.0),
    "normal 500 ± 100 ms": normal(0.5, 0.1),
    "2% at 80 ms, else 5 ms": mostly(lognormal(0.005, 0.5), constant(0.08), 0.02),
    "0.5% at 3 s, else 20 ms": mostly(lognormal(0.02, 0.5), constant(3.0), 0.005),
    "uniform 0 to 200 ms": uniform(0.0, 0.2),
    "exponential 100 ms": exponential(0.1),
    "heavy tail from 5 ms": pareto(0.005, 1.5),
    "5 ms, for 20 s 100 ms": changing(lognormal(0.005, 0.5), lognormal(0.1, 0.2), 1 / 3),
    "100 ms, after 20 s 5 ms": changing(lognormal(0.1, 0.2), lognormal(0.005, 0.5), 2 / 3),
}
STALLS = ((30.0, 1.5), (30.0, 3.0), (20.0, 8.0), (20.0, 20.0), (-5.0, 10.0))
"""When each begins, in seconds since the beginning of the window, and how long it holds ticks and events."""
EVENTS = (300, 1200, 6000)
GAPS = (0.5, 0.25)  # mean seconds between two ticks: one apiserver; two, or with other reads
WINDOWS = 96  # of each kind: the standard error of a share is up to 5 points
ROUND_TRIP = 0.002  # seconds, as `simulate` does

TYPICAL, LEAST = 0.1, 0.01  # share of the true P99, or seconds, by which the median may be wrong
WIDE, WITHIN_WIDE = 0.25, 0.8  # share of the true P99 by which so many windows may be wrong at most
MOSTLY = 0.5  # share of rough windows from which the typical error has no goal


@dataclass(frozen=True, slots=True)
class Cell:
    """The windows of one law, number of events and clock: their true and their estimated P99 in seconds.

    `inside` says which of the probable intervals hold the truth.
    """

    name: str
    true: FloatArray
    found: FloatArray
    rough: BoolArray
    inside: BoolArray

    @property
    def _near(self) -> BoolArray:
        near: BoolArray = np.abs(self.found - self.true) <= np.maximum(WIDE * self.true, LEAST)
        return near

    def text(self) -> str:
        """Return the typical ratio to the truth, how many are near it, rough, and probably where they are."""
        ratio, mark = np.median(self.found / self.true), "" if self._is_reached else " ✗"
        return f"{ratio:.2f} / {self._near.mean():.0%} / {self.rough.mean():.0%} / {self.inside.mean():.0%}{mark}"

    @property
    def _is_reached(self) -> bool:
        error = abs(float(np.median(self.found - self.true)))
        return error <= max(TYPICAL * float(np.median(self.true)), LEAST) and self._near.mean() >= WITHIN_WIDE

    def missed(self) -> Iterator[str]:
        """Yield a sentence if the goal is missed and the figures are not marked as rough."""
        if not self._is_reached and self.rough.mean() < MOSTLY:
            yield f"{self.name}: the P99 is {self.text()}"
        if (wrong := np.mean(~self._near & ~self.rough)) > 1 - WITHIN_WIDE:
            yield f"{self.name}: {wrong:.0%} of the figures are wrong and not marked"


def measured(seed: int, windows: int = WINDOWS) -> list[Cell]:
    """Simulate and estimate all windows."""
    return [
        _cell(name, law, events, gap, range(seed, seed + windows))
        for (name, law), events, gap in product(LAWS.items(), EVENTS, GAPS)
    ]


def _cell(name: str, law: Law, events: int, gap: float, seeds: Sequence[int]) -> Cell:
    worlds = [simulate(seed, law, events, gap=gap) for seed in seeds]
    ticks = TickSpacing(ROUND_TRIP, gap)
    estimations = [Estimation((tally_of(world.bounds),), BINS.uniform, ticks) for world in worlds]
    solve(estimations)
    true = np.array([world.quantile(0.99) for world in worlds])
    least, most = np.array([one.probable[2] for one in estimations]).T
    return Cell(
        f"{name}, {events:,} events, ticks {gap:g} s apart",
        true,
        np.array([one.figures[2][1] for one in estimations]),
        np.array([one.rough[2] for one in estimations]),
        (least <= true) & (true <= most),
    )


def table(cells: Sequence[Cell]) -> str:
    """Return the table: a row for each law and number of events, and a column for each clock."""
    width = len(GAPS)
    names = [(name, f"{events:,}") for name, events in product(LAWS, EVENTS)]
    rows = [(*name, *(cell.text() for cell in cells[width * k : width * (k + 1)])) for k, name in enumerate(names)]
    return aligned([("latencies", "events", *(f"ticks {gap:g} s apart" for gap in GAPS)), *rows])


def stalls(seed: int, windows: int = WINDOWS) -> str:
    """Return the table of stalls that hold ticks and events alike: the truth, the estimate, and what ticks hid."""
    rows: list[tuple[str, ...]] = [
        ("a stall of", "quantile", "true", "estimated", "hidden by ticks", "shown as a measurement")
    ]
    for begins, seconds in STALLS:
        made = [stalled(begins, seconds)(seed + number) for number in range(windows)]
        hidden = [_hidden(ticks) for _, ticks in made]
        estimations = [
            Estimation((tally_of(world.bounds),), BINS.uniform, TickSpacing(ROUND_TRIP, GAPS[0], one))
            for (world, _), one in zip(made, hidden, strict=True)
        ]
        solve(estimations)
        readings = [one.readings() for one in estimations]
        for place, q in enumerate((0.5, 0.9, 0.99)):
            found = [one[place] for one in readings]
            true = [world.quantile(q) for world, _ in made]
            columns = (true, [one.estimate for one in found], [one(MINUTE_SECONDS, q) for one in hidden])
            figures = (f"{1e3 * float(np.median(column)):,.0f} ms" for column in columns)
            shown = np.mean([one.resolved and not one.rough for one in found])
            rows.append((f"{seconds:g} s, from {begins:g} s on", f"P{100 * q:g}", *figures, f"{shown:.0%}"))
    return aligned(rows)


def _hidden(ticks: AnsweredTicks) -> Callable[[float, float], float]:
    known = ticks.sent <= MINUTE_SECONDS
    times = HiddenTimes(ticks.sent[known], ticks.answered[known])
    return lambda _, q: times.quantile(q)
