"""What the ticks of a node prove: ticks at fixed gaps compared with ticks that also follow events.

`python -m benchmarks.follow` replays the pod events of a simulated node through the schedule, the clock and the counts
of the product, in simulated time. Other nodes write too, so the revision of a change is its time in microseconds.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import click
import numpy as np

from watchslo.clock.burst import Burst, BurstBudget
from watchslo.clock.reserve import TickReserve
from watchslo.clock.revision import RevisionClock
from watchslo.clock.tick_schedule import TickSchedule
from watchslo.latency.bins import Bins
from watchslo.latency.objective import EventVerdict, judge_events
from watchslo.latency.tally import tally
from watchslo.model import FloatArray, Reading

GAP_SECONDS = 30.0  # as the profile `node` ships
THRESHOLD_SECONDS = 1.0
ROUND_TRIP_SECONDS = 0.003
HANDLED_SECONDS = 0.05  # by then the daemon has handled what it received
MICROSECONDS = 1e6
SEED = 20

EVENTS = "events"
APISERVER = "apiserver"


@dataclass(frozen=True, slots=True)
class Result:
    """Shares of all events that are proven to be within the threshold, and beyond it; ticks a minute."""

    within: float
    beyond: float
    ticks: float

    def __str__(self) -> str:
        return f"{self.within:.1%} / {self.beyond:.1%}, {self.ticks:.2f}"


def pod_changes(random: Random, hours: float, every: float, starts: Callable[[Random], Sequence[float]]) -> FloatArray:
    """Return when the pods of a node change: one starts `every` seconds on average, and one changes alone as often."""
    changes: list[float] = []
    for bursts in (starts, lambda _: (0.0,)):
        at = 60.0 + random.expovariate(1 / every)
        while at < 3600 * hours:
            changes += [at + after for after in bursts(random)]
            at += random.expovariate(1 / every)
    return np.array(sorted(changes))


def evenly(random: Random) -> Sequence[float]:
    """Return the changes of a pod that starts, at any time of ten seconds."""
    return (0.0, *(random.uniform(0, 10) for _ in range(random.choice((4, 5)))))


def like_kubelet(random: Random) -> Sequence[float]:
    """Return the changes of a pod that starts: bound, seen by the kubelet, sandbox, images, running and soon ready."""
    running = random.uniform(2, 9)
    steps = (0.0, random.uniform(0.02, 0.3), random.uniform(0.5, 2.0), running, running + random.uniform(0.05, 0.8))
    return steps if random.random() < 0.5 else (*steps, random.uniform(2, 10))


class Replay:
    """A node in simulated time: `changes` are committed at these times and received later, in the same order."""

    def __init__(self, changes: FloatArray, delay: float, reserve: TickReserve | None) -> None:
        self._random = Random(SEED)
        latencies = np.array([delay + self._random.lognormvariate(-4.6, 0.8) for _ in changes])
        self._revisions = np.rint(changes * MICROSECONDS).astype(np.int64)
        self._received = np.maximum.accumulate(changes + latencies)
        self._schedule = TickSchedule(self._random.random, Burst(BurstBudget(10.0, 0.0)), reserve)
        self._clock, self._bins = RevisionClock(), Bins((THRESHOLD_SECONDS,))
        self._verdicts = Counter[EventVerdict]()
        self._measured = 0

    def run(self) -> Result:
        """Deliver all changes, and return what the ticks prove."""
        now, ticks, arrivals = 0.0, 0, iter(self._received)
        arrival = next(arrivals, None)
        handled = self._handled(arrival)
        while self._measured < len(self._received):
            self._schedule.allow({APISERVER: GAP_SECONDS}, now)
            planned = self._schedule.next()
            assert planned is not None
            if arrival is not None and handled < planned[0]:
                now = max(now, handled)
                self._schedule.follow(arrival)
                arrival = next(arrivals, None)
                handled = self._handled(arrival)
            else:
                now = max(now, planned[0])
                self._tick(now)
                ticks += 1
        within, beyond = self._verdicts[EventVerdict.WITHIN], self._verdicts[EventVerdict.BEYOND]
        return Result(within / self._measured, beyond / self._measured, 60 * ticks / now)

    def _handled(self, received: float | None) -> float:
        return np.inf if received is None else received + self._random.uniform(0, HANDLED_SECONDS)

    def _tick(self, now: float) -> None:
        """Send a tick, and measure what was received before."""
        answered, revision = now + ROUND_TRIP_SECONDS, int((now + ROUND_TRIP_SECONDS / 2) * MICROSECONDS)
        self._schedule.sent(APISERVER, now)
        self._schedule.answered(APISERVER, now, answered)
        self._clock.tick(Reading(EVENTS, now, answered, revision, APISERVER))
        until = int(self._received.searchsorted(now))
        new = slice(self._measured, until)
        bounds = self._clock.measure(self._revisions[new], self._received[new])
        counts = tally(self._bins, bounds.lower, bounds.upper, bounds.proven, bounds.proven_upper)
        self._verdicts += judge_events(counts, THRESHOLD_SECONDS)
        self._measured = until


@click.command()
@click.option("--hours", type=float, default=48.0, show_default=True, help="Simulated hours of each line.")
def main(hours: float) -> None:
    print("share of events proven within / beyond 1 s, and ticks a minute; the mean gap is 30 s")
    print(f"{'':<48}{'fixed gaps':>24}{'following events':>24}")
    for starts, every in itertools.product((evenly, like_kubelet), (120.0, 600.0)):
        changes = pod_changes(Random(SEED), hours, every, starts)
        for delay in (0.0, 3.0, 30.0):
            fixed = Replay(changes, delay, None).run()
            following = Replay(changes, delay, TickReserve(THRESHOLD_SECONDS)).run()
            what = f"{starts.__name__}, a pod each {every:.0f} s, {f'{delay:.0f} s late' if delay else 'healthy'}"
            print(f"{what:<48}{fixed!s:>24}{following!s:>24}", flush=True)


if __name__ == "__main__":
    main()
