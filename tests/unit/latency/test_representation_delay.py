"""The delay of whole objects: both copies must be read in time, by watches that were open."""

import numpy as np
import pytest

from watchslo.latency.bins import Bins
from watchslo.latency.estimate import TickSpacing, solve
from watchslo.latency.objective import Objective
from watchslo.latency.own_delay import OwnDelays
from watchslo.latency.representation_delay import LONGEST_SECONDS, MOST_WAITING, NoDelay, RepresentationDelay
from watchslo.latency.track import Track
from watchslo.model import AnsweredTicks
from watchslo.snapshot import Hop

NOW = 1000.0


@pytest.fixture
def own_delays() -> OwnDelays:
    return OwnDelays()


@pytest.fixture
def delay(own_delays: OwnDelays) -> RepresentationDelay:
    """A comparison whose watches have been open for long."""
    delay = RepresentationDelay(own_delays)
    delay.small.opened = delay.full.opened = 0.0
    return delay


def deliver(delay: RepresentationDelay, revision: int, small: float | None, full: float | None) -> None:
    for copies, received in ((delay.small, small), (delay.full, full)):
        if received is not None:
            copies.add([revision], received, tainted=False)


def delays(delay: RepresentationDelay, now: float = NOW + 10) -> list[tuple[float, float]]:
    _, bounds = delay.match(now)
    assert bounds.measurable.all()
    assert bounds.lower.tolist() == bounds.proven.tolist()
    assert bounds.upper.tolist() == bounds.proven_upper.tolist()
    return list(zip(bounds.lower.round(6).tolist(), bounds.upper.round(6).tolist(), strict=True))


def without(delay: RepresentationDelay) -> dict[NoDelay, int]:
    return {reason: count for reason, count in delay.without.items() if count}


def test_delay_is_how_much_later_the_whole_object_arrived(delay: RepresentationDelay) -> None:
    delay.small.add([1, 2], NOW, tainted=False)
    delay.full.add([1], NOW + 0.5, tainted=False)
    delay.full.add([2, 3], NOW + 2.0, tainted=False)
    received, bounds = delay.match(NOW + 10)
    assert received.tolist() == [NOW + 0.5, NOW + 2.0]
    assert bounds.lower.tolist() == bounds.upper.tolist() == [0.5, 2.0]
    assert delays(delay) == []
    assert (len(delay.small), len(delay.full)) == (0, 1)


def test_several_events_of_one_revision_are_one_delay(delay: RepresentationDelay) -> None:
    """For example, etcd deletes all keys of one lease at one revision."""
    delay.small.add([1, 1, 1, 2], NOW, tainted=False)
    assert delays(delay) == [], "none of them is a copy of another"
    delay.full.add([1, 1, 1, 2], NOW + 0.5, tainted=False)
    assert delays(delay) == [(0.5, 0.5), (0.5, 0.5)]
    assert (len(delay.small), len(delay.full), without(delay)) == (0, 0, {})


def test_whole_object_that_arrives_first_has_no_delay(delay: RepresentationDelay) -> None:
    deliver(delay, 1, NOW, NOW - 0.3)
    assert delays(delay) == [(0.0, 0.0)]


def test_event_waits_until_the_delays_of_this_process_are_known(
    delay: RepresentationDelay, own_delays: OwnDelays
) -> None:
    deliver(delay, 1, NOW, NOW + 1.0)
    assert delays(delay, NOW + 1.1) == []
    own_delays.known_until = NOW + 0.9
    assert delays(delay) == []
    own_delays.known_until = NOW + 1.1
    assert delays(delay) == [(1.0, 1.0)]


def test_own_delay_widens_the_interval(delay: RepresentationDelay, own_delays: OwnDelays) -> None:
    own_delays.add_late_reads(NOW, NOW + 0.01, since=NOW - 0.03)
    own_delays.add_late_reads(NOW + 1, NOW + 1.01, since=NOW + 0.9)
    deliver(delay, 1, NOW, NOW + 1.0)
    assert delays(delay) == [(0.9, 1.03)]


def test_whole_object_that_only_this_process_read_late_has_no_delay(
    delay: RepresentationDelay, own_delays: OwnDelays
) -> None:
    own_delays.add_late_reads(NOW, NOW + 0.2, since=NOW - 0.05)
    deliver(delay, 1, NOW, NOW + 0.1)
    assert delays(delay)[0][0] == 0.0


@pytest.mark.parametrize("copy", ["small", "full"])
def test_copy_that_was_read_very_late_is_no_sample(
    delay: RepresentationDelay, own_delays: OwnDelays, copy: str
) -> None:
    deliver(delay, 1, NOW, NOW + 1.0)
    at = NOW if copy == "small" else NOW + 1.0
    own_delays.add_late_reads(at, at + 0.1, since=at - 0.2)
    assert delays(delay) == []
    assert without(delay) == {NoDelay.TAINTED: 1}


@pytest.mark.parametrize("copy", ["small", "full"])
def test_tainted_copy_is_no_sample(delay: RepresentationDelay, copy: str) -> None:
    delay.small.add([1], NOW, tainted=copy == "small")
    delay.full.add([1], NOW, tainted=copy == "full")
    assert delays(delay) == []
    assert without(delay) == {NoDelay.TAINTED: 1}


def test_suspend_between_the_copies_is_no_sample(delay: RepresentationDelay, own_delays: OwnDelays) -> None:
    own_delays.add_stop(NOW + 0.5, NOW + 0.6)
    deliver(delay, 1, NOW, NOW + 1.0)
    deliver(delay, 2, NOW + 2, NOW + 3)
    assert delays(delay) == [(1.0, 1.0)]
    assert without(delay) == {NoDelay.TAINTED: 1}


@pytest.mark.parametrize("copy", ["small", "full"])
def test_watch_that_opened_after_the_first_copy_is_no_sample(delay: RepresentationDelay, copy: str) -> None:
    late, other = (delay.small, delay.full) if copy == "small" else (delay.full, delay.small)
    other.add([1, 2], NOW, tainted=False)
    late.opened = NOW + 5
    late.add([1, 2], NOW + 5.1, tainted=False)
    other.add([3], NOW + 5.2, tainted=False)
    late.add([3], NOW + 5.2, tainted=False)
    assert delays(delay) == [(0.0, 0.0)]
    assert without(delay) == {NoDelay.REOPENED: 2}


def test_event_of_one_watch_alone_is_counted_after_a_minute(delay: RepresentationDelay) -> None:
    deliver(delay, 1, NOW, None)
    deliver(delay, 2, None, NOW)
    deliver(delay, 3, NOW + 1, NOW + LONGEST_SECONDS - 1)
    assert delays(delay, NOW + LONGEST_SECONDS) == [(LONGEST_SECONDS - 2, LONGEST_SECONDS - 2)]
    assert without(delay) == {}
    assert delays(delay, NOW + LONGEST_SECONDS + 0.1) == []
    assert without(delay) == {NoDelay.ALONE: 2}
    assert (len(delay.small), len(delay.full)) == (0, 0)


def test_waiting_events_are_bounded(delay: RepresentationDelay) -> None:
    delay.small.add(range(MOST_WAITING + 10), NOW, tainted=False)
    assert len(delay.small) == MOST_WAITING
    deliver(delay, 9, None, NOW)
    deliver(delay, 10, None, NOW)
    assert len(delays(delay)) == 1
    assert without(delay) == {NoDelay.ALONE: 10}
    assert delays(delay) == []
    assert without(delay) == {NoDelay.ALONE: 10}


def test_reset_forgets_what_waits(delay: RepresentationDelay) -> None:
    deliver(delay, 7, NOW, NOW + 1)
    delay.reset()
    deliver(delay, 3, NOW + 2, NOW + 5)
    assert delays(delay) == [(3.0, 3.0)]


def test_withheld_is_the_age_of_the_oldest_event_whose_whole_object_is_missing(delay: RepresentationDelay) -> None:
    delay.match(NOW)
    assert delay.withheld == 0.0
    deliver(delay, 1, NOW, NOW + 0.1)
    deliver(delay, 2, NOW + 0.5, None)
    deliver(delay, 3, NOW + 1, None)
    delay.match(NOW + 5)
    assert delay.withheld == 4.5
    delay.full.opened = NOW + 3
    delay.match(NOW + 5)
    assert delay.withheld == 0.0


def test_event_is_not_withheld_if_both_copies_came_and_only_this_process_is_late(
    delay: RepresentationDelay, own_delays: OwnDelays
) -> None:
    deliver(delay, 1, NOW, NOW)
    own_delays.known_until = NOW - 1
    delay.match(NOW + 5)
    assert (delay.withheld, len(delay.small)) == (0.0, 1)


def test_delay_is_a_hop_that_is_resolved_whatever_ticks_take(delay: RepresentationDelay, own_delays: OwnDelays) -> None:
    track = Track(Bins(), Objective(), NOW - 60, own_delays)
    for revision in range(100):
        deliver(delay, revision, NOW + revision / 20, NOW + revision / 20 + 0.02)
    track.note_representation_delays(*delay.match(NOW + 10))
    slow_ticks = TickSpacing(1.0, 0.5)
    due = track.update(
        NOW + 10, [], NOW + 10, slow_ticks, lambda start, end: AnsweredTicks(start, end, np.empty(0), np.empty(0))
    )
    solve(due)
    track.publish()
    (hop,) = track.reading().hops
    assert hop.hop is Hop.ENCODING_TO_CLIENT
    assert hop.histogram.total == 100
    assert {edge: count for edge, count in zip(hop.histogram.edges, hop.histogram.counts, strict=False) if count} == (
        {edge: 100 for edge in hop.histogram.edges if edge > 0.02}
    )
    median = next(one for one in hop.windows[0].quantiles if one.q == 0.5)
    assert median.resolved
    assert 0.015 <= median.estimate <= 0.025
    assert not median.rough
