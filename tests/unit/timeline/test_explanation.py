"""What decides the condition of a watch, in words."""

import math
from dataclasses import replace

import pytest

from tests.unit.serve import readings
from watchslo.snapshot import FailureReading, QuantileReading, StreamReading, WindowVerdict
from watchslo.timeline import explanation as explaining
from watchslo.timeline.condition import Condition, Judge
from watchslo.timeline.explanation import explanation, labelled, why_undated


def judged(upper: float, verdict: WindowVerdict, events: int = 120) -> StreamReading:
    p99 = QuantileReading(0.99, 0.003, 0.012, upper)
    return replace(readings.TAIL, track=replace(readings.judged(events, p99), verdict=verdict))


def of(stream: StreamReading) -> str:
    return explanation(Judge().condition(stream, 0.0))


BY_TICKS = (
    "The proven bounds do not decide, but the times of the ticks show with 95% confidence that at most 1% of the "
    "events took longer than 1 s. The estimate is no part of the verdict."
)
NOTHING = replace(readings.TAIL, track=readings.judged(0))


@pytest.mark.parametrize(
    ("stream", "sentence"),
    [
        (
            judged(1.0, WindowVerdict.GOOD),
            "At most 1% of the events took longer than 1 s: this is proven.",
        ),
        (
            judged(1.19, WindowVerdict.GOOD),
            BY_TICKS,
        ),
        (
            judged(2.0, WindowVerdict.BAD),
            "More than 1% of the events took longer than 1 s: this is proven.",
        ),
        (
            judged(2.0, WindowVerdict.UNDECIDED),
            "The threshold of 1 s is between the proven bounds, and the times of the ticks do not decide.",
        ),
        (
            judged(2.0, WindowVerdict.NO_DATA, events=3),
            "The proven bounds do not decide, and any other verdict needs 50 events.",
        ),
        (NOTHING, "No event of the last 60 s was measured."),
        (
            readings.changed(NOTHING, audit={"result": "idle"}),
            "No event came, and an audit proved that there was none to deliver.",
        ),
        (readings.STALLED, "The watch is open, but has withheld events for 33.5 s."),
        (
            replace(NOTHING, up=False, membership="unparsable"),
            "The resource is set aside. the connection was reset",
        ),
        (replace(NOTHING, up=False), "The watch is not open. the connection was reset"),
        (
            replace(NOTHING, unresponsive=True),
            "The apiserver answers nothing, so no event of this watch can arrive.",
        ),
        (
            replace(
                readings.changed(
                    NOTHING, session={"last_failure": FailureReading("refused", "refused by 10.0.0.1", 0.0)}
                ),
                unresponsive=True,
            ),
            "The apiserver refuses connections, so no event of this watch can arrive.",
        ),
        (
            replace(NOTHING, track=replace(NOTHING.track, judged=None, proven_only=True)),
            "The watch is open, and no event of the last minute is proven late; without quantiles no more is known.",
        ),
        (readings.changed(NOTHING, up=False, session={"last_failure": None}), "The watch is not open."),
    ],
)
def test_explanation_says_what_decides(stream: StreamReading, sentence: str) -> None:
    assert of(stream) == sentence


def test_watch_within_without_figures_is_not_proven() -> None:
    assert "95% confidence" in of(replace(NOTHING, track=replace(readings.judged(3), verdict=WindowVerdict.GOOD)))


def test_each_condition_has_a_sentence() -> None:
    assert explaining._SENTENCES.keys() == {*Condition}


@pytest.mark.parametrize(
    ("condition", "upper", "text"),
    [
        ("within", 1.0, "within"),
        ("within", 1.19, "within (95%)"),
        ("within", math.inf, "within (95%)"),
        ("within", None, "within (95%)"),
        ("late", None, "late"),
        ("late", 0.5, "late"),
    ],
)
def test_within_is_marked_unless_proven(condition: str, upper: float | None, text: str) -> None:
    assert labelled(condition, upper, 1.0) == text


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
