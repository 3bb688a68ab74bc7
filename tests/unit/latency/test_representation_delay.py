"""The delay of whole objects is a hop; `test_transcripts` has what it is."""

import numpy as np

from watchslo.latency.bins import Bins
from watchslo.latency.estimate import TickSpacing, solve
from watchslo.latency.objective import Objective
from watchslo.latency.own_delay import OwnDelays
from watchslo.latency.representation_delay import RepresentationDelay
from watchslo.latency.track import Track
from watchslo.model import AnsweredTicks
from watchslo.snapshot import Hop

NOW = 1000.0


def test_delay_is_a_hop_that_is_resolved_whatever_ticks_take() -> None:
    own_delays = OwnDelays()
    delay, track = RepresentationDelay(own_delays), Track(Bins(), Objective(), NOW - 60, own_delays)
    delay.small.opened = delay.full.opened = 0.0
    for revision in range(100):
        delay.small.add([revision], NOW + revision / 20, tainted=False)
        delay.full.add([revision], NOW + revision / 20 + 0.02, tainted=False)
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
