"""What decides the condition of a watch, in words."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from tests.support.transcripts import of_states
from tests.unit.serve import readings
from watchslo.snapshot import FailureReading, QuantileReading, WatchReading, WindowVerdict
from watchslo.timeline import explanation as explaining
from watchslo.timeline.condition import Condition, Judge
from watchslo.timeline.explanation import explanation, why_undated


def judged(upper: float, verdict: WindowVerdict, events: int = 120) -> WatchReading:
    p99 = QuantileReading(0.99, 0.003, 0.012, upper)
    return replace(readings.TAIL, track=replace(readings.judged(events, p99), verdict=verdict))


def of(stream: WatchReading) -> str:
    return explanation(Judge().condition(stream, 0.0))


NOTHING = replace(readings.TAIL, track=readings.judged(0))


WATCHES: Mapping[str, WatchReading] = {
    "It is proven within": judged(1.0, WindowVerdict.GOOD),
    "It is within by the times of the ticks": judged(1.19, WindowVerdict.GOOD),
    "It is within without figures": replace(NOTHING, track=replace(readings.judged(3), verdict=WindowVerdict.GOOD)),
    "It is proven late": judged(2.0, WindowVerdict.BAD),
    "It is undecided": judged(2.0, WindowVerdict.UNDECIDED),
    "It has few events": judged(2.0, WindowVerdict.NO_DATA, events=3),
    "It has none": NOTHING,
    "It is idle": readings.changed(NOTHING, audit={"result": "idle"}),
    "It is stalled": readings.STALLED,
    "It is set aside": replace(NOTHING, up=False, membership="unparsable"),
    "It is closed": replace(NOTHING, up=False),
    "It is closed for an unknown reason": readings.changed(NOTHING, up=False, session={"last_failure": None}),
    "Its apiserver is silent": replace(NOTHING, unresponsive=True),
    "Its apiserver refuses connections": replace(
        readings.changed(NOTHING, session={"last_failure": FailureReading("refused", "refused by 10.0.0.1", 0.0)}),
        unresponsive=True,
    ),
    "It has no quantiles": replace(NOTHING, track=replace(NOTHING.track, judged=None, proven_only=True)),
}


def test_explanations_are_those_of_the_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("explanations.txt", of_states({name: [of(stream)] for name, stream in WATCHES.items()}))


def test_each_condition_has_a_sentence() -> None:
    assert explaining._SENTENCES.keys() == {*Condition}


@pytest.mark.parametrize(
    ("unmeasured", "membership", "clock", "why"),
    [
        ({"initial": 9, "domain": 3, "tainted": 1}, "member", None, "of another revision sequence"),
        ({"unsealed": 3, "new": 4}, "member", None, "new"),
        ({"initial": 9}, "pending", "You may not list it.", "the revision clock does not tick. You may not list it"),
        ({}, "pending", None, "it is not proven yet that the revision clock applies to them; measure for longer"),
        ({}, "member", None, "no tick followed them yet"),
    ],
)
def test_events_without_a_sample_have_a_reason(
    unmeasured: dict[str, int], membership: str, clock: str | None, why: str
) -> None:
    assert why_undated(unmeasured, membership, clock) == why
