"""Windows that only the times of the ticks can decide, against simulated truth."""

from collections import Counter
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from tests.unit.latency.truth import BINS, Simulation, World, cut_by, lognormal, stalled, tallied, tally_of
from watchslo.latency.confidence import CONFIDENCE, late_events, most_late
from watchslo.latency.objective import Objective, judge_window
from watchslo.model import AnsweredTicks, FloatArray
from watchslo.snapshot import WindowVerdict

SECONDS, THRESHOLD = 60.0, 1.0
WINDOWS = 200  # of each case: so many wrong verdicts as `MOST_WRONG` are rare if 5% are expected
MOST_WRONG = (1 - CONFIDENCE) * WINDOWS

Delays = Callable[[np.random.Generator, FloatArray], FloatArray]
"""Draws the latencies of the events committed at these times, which ascend."""


def delayed(share: float, seconds: float) -> Delays:
    """Return a healthy law, with a share of events that are late one by one."""

    def draw(rng: np.random.Generator, commit: FloatArray) -> FloatArray:
        healthy = lognormal(0.005, 1.0)(rng, len(commit))
        return np.where(rng.uniform(size=len(commit)) < share, seconds, healthy)

    return draw


def burst(share: float, seconds: float) -> Delays:
    """Return a healthy law, with a share of the events that are committed together and late together."""

    def draw(rng: np.random.Generator, commit: FloatArray) -> FloatArray:
        latency, count = lognormal(0.005, 1.0)(rng, len(commit)), int(np.ceil(share * len(commit)))
        first = int(rng.integers(len(commit) - count))
        commit[first : first + count] = commit[first] + np.linspace(0, 0.02, count)
        latency[first : first + count] = seconds
        return latency

    return draw


def simulate(seed: int, delays: Delays, answered: float) -> tuple[World, AnsweredTicks]:
    """Simulate a minute of about 400 events, with ticks of which a share is answered."""
    rng = np.random.default_rng(seed)
    sent = np.cumsum(rng.uniform(0.25, 0.75, 800)) - 100
    sent = sent[rng.uniform(size=len(sent)) < answered]
    seen = sent + 0.002
    commit = np.sort(rng.uniform(0, SECONDS, rng.poisson(400)))
    latency = delays(rng, commit)
    received = commit + latency
    bounds = cut_by(sent, seen, commit, received)
    at = (sent >= -THRESHOLD) & (sent <= SECONDS + 10)
    return World(latency, received, bounds), AnsweredTicks(-THRESHOLD, SECONDS, sent[at], seen[at])


def verdicts(simulated: Simulation) -> Counter[tuple[str, WindowVerdict]]:
    """Judge many simulated minutes; count them by the truth and the verdict."""
    counts: Counter[tuple[str, WindowVerdict]] = Counter()
    for seed in range(WINDOWS):
        world, ticks = simulated(seed)
        truth = "good" if world.quantile(0.99) <= THRESHOLD else "bad"
        counts[truth, judge_window([tally_of(world.bounds)], Objective(), ticks)] += 1
    return counts


class TestVerdicts:
    @pytest.mark.parametrize("answered", [1.0, 0.9, 0.5, 0.2])
    @pytest.mark.parametrize(
        "delays",
        [
            delayed(0.0, 0.0),
            delayed(0.008, 2.0),
            delayed(0.015, 1.05),
            delayed(0.03, 2.0),
            burst(0.012, 1.001),
            burst(0.03, 1.05),
            burst(0.03, 2.0),
        ],
        ids=["healthy", "0.8% by 2 s", "1.5% by 1.05 s", "3% by 2 s", "burst of 1.2%", "burst of 3%", "burst by 2 s"],
    )
    def test_are_rarely_wrong_about_good_and_never_about_bad(self, delays: Delays, answered: float) -> None:
        counts = verdicts(partial(simulate, delays=delays, answered=answered))
        assert counts["bad", WindowVerdict.GOOD] <= MOST_WRONG
        assert not counts["good", WindowVerdict.BAD]

    @pytest.mark.parametrize(
        "stall",
        [
            stalled(-9.99, 10.0),
            stalled(-9.7, 10.0),
            stalled(-29.9, 30.0),
            stalled(30.0, 1.5, bunched=100),
            stalled(30.0, 1.3, bunched=100),
            stalled(30.0, 1.5),
        ],
        ids=["ends at once", "ends soon", "of 30 s", "of a bunch", "of a late bunch", "of little"],
    )
    def test_are_rarely_wrong_about_good_if_ticks_are_held_like_events(self, stall: Simulation) -> None:
        assert verdicts(stall)["bad", WindowVerdict.GOOD] <= MOST_WRONG

    def test_are_good_for_healthy_minutes_with_all_ticks(self) -> None:
        assert verdicts(partial(simulate, delays=delayed(0.0, 0.0), answered=1.0)) == {
            ("good", WindowVerdict.GOOD): WINDOWS
        }

    def test_are_never_good_if_3_percent_are_late_and_half_of_the_ticks_are_refused(self) -> None:
        counts = verdicts(partial(simulate, delays=delayed(0.03, 2.0), answered=0.5))
        assert not counts["good", WindowVerdict.GOOD]
        assert not counts["bad", WindowVerdict.GOOD]
        assert counts["bad", WindowVerdict.BAD] > WINDOWS / 2

    @pytest.mark.parametrize("before", [2.0, 4.0, 12.0])
    def test_are_rarely_wrong_about_good_if_late_events_start_a_burst(self, before: float) -> None:
        """All events are late until ticks become five times as frequent, so late events lie between rare ticks."""
        wrong = 0
        for seed in range(WINDOWS):
            rng = np.random.default_rng(seed)
            gaps = rng.uniform(0.25, 0.75, 900)
            sent = np.cumsum(np.where(np.arange(900) < 100, gaps, gaps / 5))
            sent += before - sent[99]
            commit = np.sort(rng.uniform(0, SECONDS, 400))
            latency = np.where(commit < before, 1.05, lognormal(0.005, 1.0)(rng, 400))
            counted = tally_of(cut_by(sent, sent, commit, commit + latency))
            ticks = AnsweredTicks(-THRESHOLD, SECONDS, sent[sent >= -THRESHOLD], sent[sent >= -THRESHOLD])
            wrong += judge_window([counted], Objective(), ticks) is WindowVerdict.GOOD
        assert wrong <= MOST_WRONG


class TestMostLate:
    def test_is_twice_what_is_shown(self) -> None:
        world, ticks = simulate(1, delayed(0.02, 1.1), 1.0)
        counted = tally_of(world.bounds)
        late = int((world.latency > THRESHOLD).sum())
        assert late_events([counted], THRESHOLD).lower < late
        assert late <= most_late([counted], THRESHOLD, ticks) <= 2 * late

    def test_ticks_of_a_burst_say_nothing_about_the_time_before_it(self) -> None:
        """In the first quarter there is a tick each half second, so r is 0.4875 s there, and less in the whole."""
        sent = np.concatenate((np.arange(-1, 14.25, 0.5), np.arange(14.25, 61, 0.05)))
        ticks = AnsweredTicks(-1, 60, sent, sent)
        assert most_late([tallied(*[(0.5, 1.2)] * 100)], THRESHOLD, ticks) == 100

    def test_counts_undecided_events_whose_commit_no_tick_showed_within_the_threshold(self) -> None:
        """In a stall of 1.5 s the ticks wait as well, so they show no event of its first half second."""
        sent = np.delete(np.arange(-1, 61, 0.5), slice(60, 62))
        ticks = AnsweredTicks(-1, 60, sent, sent)
        shown, hidden, late = (0.4, 1.2), (0.3, 1.5), (1.0, 2.5)
        assert most_late([tallied(*[shown] * 97, *[hidden] * 3)], THRESHOLD, ticks) == 3
        assert most_late([tallied(*[shown] * 95, *[hidden] * 3, *[late] * 2)], THRESHOLD, ticks) == 5

    def test_is_everything_if_ticks_are_rarer_than_the_threshold(self) -> None:
        sent = np.arange(-1, 62, 2.0)
        assert most_late([tallied(*[(0.1, 2.0)] * 50)], THRESHOLD, AnsweredTicks(-1, 60, sent, sent)) == 50

    def test_is_everything_without_ticks(self) -> None:
        nothing = np.empty(0)
        assert most_late([tallied(*[(0.1, 2.0)] * 50)], THRESHOLD, AnsweredTicks(-1, 60, nothing, nothing)) == 50

    def test_uses_the_edges_of_the_bins(self) -> None:
        """With a tick each half second, r is 0.4875 s: half a second later than 0.5 s is no proof, but 0.55 s is."""
        sent = np.arange(-1, 60.1, 0.5)
        ticks = AnsweredTicks(-1, 60, sent, sent)
        edges = BINS.edges
        edge = edges[edges.searchsorted(1 - 0.4875, side="right") - 1]
        below = edges[edges.searchsorted(edge) - 1]
        assert most_late([tallied(*[(below, 1.2)] * 100)], THRESHOLD, ticks) == 0
        assert most_late([tallied(*[(below, 1.2)] * 90, *[(edge, 1.2)] * 10)], THRESHOLD, ticks) == 20
