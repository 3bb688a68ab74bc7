"""The verdict on all instances, their rows, and what only shows when they are compared."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.support.transcripts import of_states
from tests.unit.overview.instances import GOOD, LATE, PAUSED, report, silent, watch
from tests.unit.serve import readings
from watchslo.model import InstanceName
from watchslo.overview.merge import MOST_FINDINGS, STALE_SECONDS, InstanceAnswer, Overview, merge
from watchslo.snapshot import WatchReading
from watchslo.timeline.verdict import Level

REFUSED = "the connection is refused"
FAST, SLOW = watch(0.0, 0.51), watch(8.0, 8.5)
LATER, SOONER = watch(9.0, math.inf), watch(0.0, 0.1)
STRICT = readings.changed(FAST, track={"objective": replace(readings.TRACK.objective, threshold=0.6)})
SECOND_OF_TWO = InstanceName("prod-eu", "shard 2 of 2", host="copy")


def of(*reports: InstanceAnswer, obstacles: tuple[str, ...] = ()) -> Overview:
    return merge(reports, obstacles, 1_700_000_000.0)


def gone(before: InstanceAnswer, why: str = REFUSED, age: float = 30.0) -> InstanceAnswer:
    """An instance that answered once, and does not answer now."""
    return replace(before, failure=why, age=age)


def ticking(index: int, apiserver: str = "10.0.0.1:6443", **ticker: Any) -> InstanceAnswer:
    tickers = (replace(readings.TICKER, apiserver=apiserver, **ticker),)
    return report(index, 2, domains=(replace(readings.DOMAIN, tickers=tickers),))


def node(number: int, *said: Any) -> InstanceAnswer:
    return report(number, 1, *said, name=InstanceName("prod-eu", f"node n{number}", f"n{number}", f"n{number}"))


def many_late() -> Overview:
    names = [f"w{number}" for number in range(MOST_FINDINGS + 3)]
    slow, fast = ([watch(*bounds, watch=name) for name in names] for bounds in ((8.0, 9.0), (0.0, 0.1)))
    return of(report(0, 2, LATE, *slow), report(1, 2, GOOD, *fast))


def unordered() -> Overview:
    reports = [report(index, 12) for index in reversed(range(12))]
    reports[3], reports[5] = report(8, 12, LATE), report(6, 12, PAUSED)
    return of(*reports)


TIMED_OUT = [silent(f"http://n{number}:9477", "no answer within 5 s") for number in range(5)]
STATES = {
    "all are good": of(report(0, 2, GOOD, FAST), report(1, 2, GOOD, FAST, FAST)),
    "one good instance": of(replace(report(1, 3, GOOD, FAST), age=4.0)),
    "one instance alone is good": of(report()),
    "one instance alone is late": of(report(0, 1, LATE)),
    "one instance alone is paused": of(report(0, 1, PAUSED)),
    "one of two is late": of(report(0, 2), report(1, 2, LATE)),
    "one of two is paused": of(report(0, 2), report(1, 2, PAUSED)),
    "one is late and one is paused": of(report(0, 2, LATE), report(1, 2, PAUSED)),
    "one is late and one is silent": of(report(0, 2, LATE), silent("http://h1:9477")),
    "many are late": of(*(report(index, 5, LATE) for index in range(5))),
    "no instance": of(),
    "an obstacle": of(report(), obstacles=("Cannot tell: watchslo.test does not resolve.",)),
    "one has not judged yet": of(report(0, 2), report(1, 2, None)),
    "figures of one are old": of(report(0, 2), replace(report(1, 2), age=STALE_SECONDS + 15.0)),
    "figures are as old as they may be": of(replace(report(), age=STALE_SECONDS)),
    "shards in another order, one late and one paused": unordered(),
    "a silent instance that never answered": of(silent("http://h1:9477")),
    "a silent instance that answered before": of(gone(report(1, 3, GOOD, FAST))),
    "the silent instance must be the missing shard": of(report(0, 3), report(2, 3), silent("http://h1:9477")),
    "a known shard is silent": of(report(0, 2), gone(report(1, 2))),
    "two shards have no known instance": of(report(0, 3)),
    "silent for two reasons": of(report(), silent("http://x:9477"), *TIMED_OUT),
    "silent without a part": of(gone(report())),
    "silent without any name": of(gone(report(name=InstanceName()))),
    "a reason that is a sentence": of(silent("http://x:1", "It is down.")),
    "different numbers of shards": of(report(0, 2), report(1, 3)),
    "an instance that is no shard": of(
        report(0, 2), report(1, 2), report(name=InstanceName("prod-eu", host="other"), address="http://other")
    ),
    "a shard that runs twice": of(report(0, 2), report(1, 2), report(1, 2, name=SECOND_OF_TWO, address="http://copy")),
    "a shard that runs twice on unnamed hosts": of(
        *(report(0, 2, name=InstanceName(None, "shard 1 of 2"), address=f"http://{host}") for host in "ab")
    ),
    "late for one, in time for another": of(report(0, 2, LATE, SLOW), report(1, 2, GOOD, FAST)),
    "the worst and the best of four": of(
        report(0, 4, LATE, SLOW), report(1, 4, LATE, LATER), report(2, 4, GOOD, SOONER), report(3, 4)
    ),
    "more disagreements than are shown": many_late(),
    "nodes do not disagree": of(node(0, LATE, SLOW), node(1, GOOD, FAST)),
    "old figures do not disagree": of(
        report(0, 2, LATE, SLOW), replace(report(1, 2, GOOD, FAST), age=STALE_SECONDS + 1)
    ),
    "a silent instance does not disagree": of(report(0, 2, LATE, SLOW), gone(report(1, 2, GOOD, FAST))),
    "an apiserver answers one of two": of(ticking(0), ticking(1, failure="It cannot be reached.", answered_ago=None)),
    "different objectives": of(report(0, 2, GOOD, FAST), report(1, 2, GOOD, STRICT)),
    "different clusters": of(
        report(0, 3), report(2, 3), report(1, 2, name=InstanceName("prod-us", "shard 2 of 2", host="x"))
    ),
    "different versions": of(report(0, 2), report(1, 2, version="1.3.0")),
}


def lines(overview: Overview) -> Iterator[str]:
    yield f"{overview.cluster}, {overview.level}: {overview.text}"
    for one in overview.findings:
        yield f"  {'doubt' if one.doubt else 'note'}: {one.text}"
    for row in overview.rows:
        yield f"  {row.level}: {' / '.join(filter(None, (row.part, row.name, row.address)))}: {row.text}"
        if row.figures:
            yield f"    figures: {row.figures}"
        answers = "answers" if row.answers else "is silent"
        yield f"    {answers}; age {row.age} s, version {row.version}, watches {row.watches}"


def test_overviews_match_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("overview.txt", of_states({name: lines(overview) for name, overview in STATES.items()}))


@pytest.mark.parametrize("overview", STATES.values(), ids=STATES)
def test_good_verdict_needs_an_answer_of_each_instance_and_no_doubt(overview: Overview) -> None:
    if overview.level is Level.GOOD:
        assert overview.rows
        assert all(row.level is Level.GOOD and row.answers for row in overview.rows)
        assert not any(one.doubt for one in overview.findings)


@pytest.mark.parametrize(
    "other",
    [
        watch(0.0, 0.5, watch="pods-2"),
        replace(FAST, apiserver="10.0.0.2:6443"),
        watch(7.0, 9.0),
        watch(0.5, 2.0),
        readings.changed(FAST, track={"judged": None}),
    ],
)
def test_other_watches_and_other_verdicts_are_no_disagreement(other: WatchReading) -> None:
    assert of(report(0, 2, LATE, SLOW), report(1, 2, GOOD, other)).findings == ()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {}),
        ({"failure": "no"}, {"failure": "no"}),
        ({"failure": "no"}, {"answered_ago": 31.0}),
        ({"failure": "no"}, {"answered_ago": None}),
        ({"failure": "no"}, {"apiserver": "10.0.0.2:6443"}),
        ({"failure": "no", "apiserver": "service"}, {"apiserver": "service"}),
    ],
)
def test_other_apiservers_are_not_noted(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert of(ticking(0, **one), ticking(1, **other)).findings == ()
