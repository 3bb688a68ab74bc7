"""The cache clock: bounds of when revisions reached a cache; `test_transcripts` has the rest."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from watchslo.clock.cache import CacheClock
from watchslo.model import Reading


@given(
    st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=30),
    st.lists(st.tuples(st.floats(0.0, 0.4), st.floats(0.0, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=30),
)
def test_located_time_always_contains_the_true_one(
    events: list[tuple[float, float]], reads: list[tuple[float, float, float]]
) -> None:
    """Events are given as (gap, time in the cache before the delivery); reads may overlap."""
    cached = np.cumsum([gap for gap, _ in events])
    received = np.maximum.accumulate(cached + [wait for _, wait in events])
    sent = np.cumsum([gap for gap, _, _ in reads])
    answers = [
        Reading("pods", at, at + took, int(cached.searchsorted(at + took * share, side="right")))
        for at, (_, took, share) in zip(sent.tolist(), reads, strict=True)
    ]
    clock = CacheClock()
    for answer in sorted(answers, key=lambda answer: answer.answered):
        clock.add(answer)
    start, end = clock.locate(np.arange(1, len(events) + 1), received)
    assert clock.contradictions == 0
    assert (start <= cached).all()
    assert (cached <= end).all()
    assert (end <= received).all()
