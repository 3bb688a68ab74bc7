"""The condition of a watch, moment by moment: transcripts in `tests/golden/conditions.txt`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from tests.support.transcripts import Step, replay
from tests.unit.serve import readings
from watchslo.snapshot import QuantileReading, WatchReading
from watchslo.timeline.condition import (
    P99,
    Judge,
    WatchVerdict,
    name_of,
    verdict_on,
)

GOLDEN = Path(__file__).parents[2] / "golden"
NOW = 1_700_000_000.0


def stream(lower: float, estimate: float, upper: float, events: int = 100) -> WatchReading:
    quantiles = (QuantileReading(P99, lower, estimate, upper),) if events else ()
    return replace(readings.TAIL, track=readings.judged(events, *quantiles))


WITHIN = stream(0.0, 0.1, 0.9)
LATE = stream(1.5, 2.3, 3.0)
FEW = stream(0.0, 0.1, 1.4, events=9)
UNDECIDED = stream(0.2, 0.3, 1.4)
SILENT = stream(0.0, 0.0, 0.0, events=0)


def grown(one: WatchReading, samples: int = 1) -> WatchReading:
    """Return the reading with more samples since the start."""
    track, more = one.track, one.track.timespan
    counts = tuple(count + samples for count in more.counts)
    return replace(one, track=replace(track, timespan=replace(more, counts=counts)))


def proven(beyond: int) -> WatchReading:
    """Return a watch without quantiles, with this number of events that were proven late."""
    track = replace(readings.judged(0), judged=None, windows=(), proven_only=True)
    objective = replace(track.objective, verdicts={"within": 30, "beyond": beyond, "uncertain": 900})
    return replace(SILENT, track=replace(track, objective=objective))


def beyond(count: int) -> WatchReading:
    """Return a watch that is within, although this number of events was late."""
    objective = replace(WITHIN.track.objective, verdicts={"beyond": count})
    return replace(WITHIN, track=replace(WITHIN.track, objective=objective))


WATCHES: Mapping[str, WatchReading] = {
    "within": WITHIN,
    "late": LATE,
    "few": FEW,
    "undecided": UNDECIDED,
    "silent": SILENT,
    "idle": readings.changed(SILENT, audit={"result": "idle"}),
    "unjudged": replace(readings.TAIL, track=replace(readings.judged(0), judged=None)),
    **{f"proven={count}": proven(count) for count in (0, 7, 8)},
    **{f"beyond={count}": beyond(count) for count in (0, 3)},
}
CHANGES: Mapping[str, Callable[[WatchReading], WatchReading]] = {
    "grown": grown,
    "closed": lambda one: replace(one, up=False),
    "stalled": lambda one: readings.changed(one, audit={"stalled_for": 3.0}),
    "unresponsive": lambda one: replace(one, unresponsive=True, up=False),
}


def judged(_: str) -> Step:
    """Return what one judge says of a watch, written as `seconds watch change ...`."""
    judge = Judge()

    def step(text: str) -> str:
        after, name, *changes = text.split()
        one = WATCHES[name]
        for change in changes:
            one = CHANGES[change](one)
        line = judge.condition(one, NOW + float(after))
        return f"{line.condition} since {line.since_wall - NOW:g}"

    return step


def test_conditions_are_those_of_the_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("conditions.txt", replay((GOLDEN / "conditions.txt").read_text(), judged))


def test_name_contains_apiserver_if_there_are_several() -> None:
    assert name_of(readings.TAIL) == "pods"
    assert name_of(replace(readings.TAIL, apiserver="10.0.0.1:6443")) == "pods at 10.0.0.1:6443"


def test_down_watch_is_beyond_and_stalled_one_is_not_measured() -> None:
    within, beyond, unmeasured = WatchVerdict.WITHIN, WatchVerdict.BEYOND, WatchVerdict.NOT_MEASURED
    for before, stalled_for, down_for, verdict in (
        (within, None, None, within),
        (within, 1.0, 1.0, within),
        (within, None, 1.1, beyond),
        (within, 1.1, None, unmeasured),
        (beyond, 1.1, None, beyond),
    ):
        assert verdict_on(before, 1.0, stalled_for=stalled_for, down_for=down_for) is verdict
