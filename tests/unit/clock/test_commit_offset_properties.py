"""Revisions that are commit times: the truth lies inside, and a storage's clock becomes known to milliseconds."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.clock.test_transcripts import UNIX
from watchslo.clock.offset import DRIFT
from watchslo.clock.revision import RevisionClock
from watchslo.model import Reading

TICK_SECONDS = 0.5
SEALED_SECONDS = 2.0  # from a commit to the end of the second in which its event arrives, at most


@dataclass
class Storage:
    """A storage whose clock is `ahead` of the local one and runs `fast` by seconds per second.

    A read answers with its own time, or with the last commit if `answers_commits`. From `changed` to `ended`, the clock
    runs faster by `smear` more; when that begins, it is set by `step`. If it is set back, it stands nearly still until
    it has caught up: a storage must not repeat revisions.
    """

    ahead: float
    fast: float
    answers_commits: bool
    changed: float = 0.0
    ended: float = 0.0
    smear: float = 0.0
    step: float = 0.0
    commits: list[float] = field(default_factory=list)

    def at(self, local: float) -> int:
        seconds = local * (1.0 + self.fast)
        if local > self.changed:
            seconds += self.smear * (min(local, self.ended) - self.changed) if self.ended else 0.0
            still = self.changed * (1.0 + self.fast) + 1e-6 * (local - self.changed)
            seconds = max(still, seconds + self.step)
        return UNIX + round(1e9 * (self.ahead + seconds))

    def read(self, local: float) -> int:
        if not self.answers_commits:
            return self.at(local)
        before = bisect_right(self.commits, local)
        return self.at(self.commits[before - 1] if before else -100.0)


def play(
    storage: Storage, random: Random, *, rate: float, latency: Callable[[], float], seconds: int, steps: bool = False
) -> list[float]:
    """Seal each second of a run; check every bound, and return the widths of the proven intervals of the last half.

    `steps` says whether the clock is set, which must be noticed. If it is set back, commits before the next tick, and
    those that are sealed with them, are not checked: nothing contradicts the step yet.
    """
    commits = sorted(seconds * random.random() for _ in range(round(rate * seconds)))
    arrivals = sorted((commit + latency(), commit) for commit in commits)
    storage.commits = commits
    clock, widths, sent = RevisionClock(), [], 0.0
    clock.use_times(is_known=True)
    for second in range(seconds + 5):
        while sent < second + 1:
            answered = sent + 0.002 + 0.003 * random.random()
            clock.tick(Reading("events", sent, answered, storage.read(sent + 0.001)))
            sent += TICK_SECONDS * (0.5 + random.random())
        seen = arrivals[bisect_left(arrivals, (second - 1.0,)) : bisect_left(arrivals, (float(second),))]
        if not seen:
            continue
        received = np.array([at for at, _ in seen])
        committed = np.array([commit for _, commit in seen])
        events = np.array([storage.at(commit) for commit in committed], dtype=np.int64)
        clock.learn(events, received)
        bounds = clock.measure(events, received)
        truth = received - committed
        since = committed - storage.changed
        near = (storage.step < 0) & (since > -SEALED_SECONDS) & (since < 1.5 * TICK_SECONDS)
        known = bounds.measurable & ~near
        for lower, upper in ((bounds.lower, bounds.upper), (bounds.proven, bounds.proven_upper)):
            assert np.all(lower[known] <= truth[known] + 1e-6)
            assert np.all(truth[known] <= upper[known] + 1e-6)
        if second > seconds / 2:
            widths += (bounds.proven_upper - bounds.proven)[known].tolist()
    assert clock.offset is not None
    assert (clock.offset.steps > 0) == steps
    return widths


def leap_second(step: float) -> st.SearchStrategy[Storage]:
    """Draw a storage whose clock is set."""
    return st.builds(
        Storage, st.just(0.0), st.just(20e-6), st.booleans(), changed=st.floats(5.0, 15.0), step=st.just(step)
    )


STORAGES = {
    "any clock": st.builds(Storage, st.floats(-1e6, 1e6), st.floats(-DRIFT, DRIFT), st.booleans()),
    "a smeared leap second": st.builds(
        Storage,
        st.just(0.0),
        st.floats(-100e-6, 100e-6),
        st.booleans(),
        changed=st.just(8.0),
        ended=st.just(25.0),
        smear=st.floats(-70e-6, 70e-6),
    ),
    "a leap second back": leap_second(-1.0),
    "a leap second ahead": leap_second(1.0),
}


@pytest.mark.parametrize("name", STORAGES)
@given(
    data=st.data(),
    delay=st.floats(0.0, 0.5) | st.floats(0.5, 3.0),
    random=st.integers(0, 2**32).map(Random),  # with any other draws, nothing may be committed after a step
)
def test_truth_is_inside_whatever_the_clock_does(name: str, data: st.DataObject, delay: float, random: Random) -> None:
    storage = data.draw(STORAGES[name])
    steps = storage.step != 0.0
    rate = data.draw(st.sampled_from([5.0, 50.0] if steps else [0.5, 5.0, 50.0]))
    late = min(delay, 0.5) if steps else delay
    seconds = 30 if storage.ended else 20
    play(storage, random, rate=rate, latency=lambda: late * random.random(), seconds=seconds, steps=steps)


@pytest.mark.parametrize("answers_commits", [False, True])
def test_busy_storage_dates_each_event_to_milliseconds(answers_commits: bool) -> None:  # noqa: FBT001 - a parameter
    random = Random(1)
    storage = Storage(12345.6, 50e-6, answers_commits)
    widths = play(storage, random, rate=60.0, latency=lambda: 0.002 + random.expovariate(10.0), seconds=120)
    assert len(widths) > 3000
    assert np.median(widths) < 0.008, "the least latency, and the least time from a tick to a commit"
    assert max(widths) < 0.02


@pytest.mark.parametrize("step", [-1.0, 1.0])
def test_clock_that_was_set_dates_each_event_to_milliseconds_again(step: float) -> None:
    random = Random(2)
    storage = Storage(0.0, 20e-6, answers_commits=False, changed=20.0, step=step)
    widths = play(storage, random, rate=60.0, latency=lambda: 0.002 + random.expovariate(10.0), seconds=120, steps=True)
    assert np.median(widths) < 0.008
