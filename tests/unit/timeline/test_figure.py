"""The texts of a quantile, of a reading as of a part of the API."""

from math import inf

import pytest

from watchslo.api.part import part_of
from watchslo.api.status import QuantileStatus
from watchslo.model import Interval
from watchslo.snapshot import QuantileReading
from watchslo.timeline.figure import bounds_text, estimate_text
from watchslo.timeline.format import ABSENT

FIGURES = {
    QuantileReading(0.99, 0.01, 0.0625, 0.5): ("62.5 ms", "proven 10 to 500 ms"),
    QuantileReading(0.99, 0.01, 0.377, inf, rough=True): ("~380 ms", "proven 10 ms to ∞"),
    QuantileReading(0.99, 0.01, inf, inf): ("∞", "proven 10 ms to ∞"),
    QuantileReading(0.99, 0.0, 0.003, 0.5, resolution=0.005): ("< 5 ms", "proven 0 to 500 ms"),
    QuantileReading(0.99, 0.01, 0.06, 0.5, probable=Interval(0.05, 0.07)): (
        "60 ms",
        "50 to 70 ms, proven 10 to 500 ms",
    ),
}


@pytest.mark.parametrize(("reading", "texts"), FIGURES.items())
def test_texts_of_a_figure(reading: QuantileReading, texts: tuple[str, str]) -> None:
    for figure in (reading, part_of(QuantileStatus, reading)):
        assert (estimate_text(figure), bounds_text(figure)) == texts


def test_no_figure_is_a_dash() -> None:
    assert (estimate_text(None), bounds_text(None)) == (ABSENT, ABSENT)
