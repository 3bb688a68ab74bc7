"""The first sentences of a report, and what it says is unknown, for each kind of period."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.support.transcripts import of_states
from tests.unit.report.incidents import BEGIN_WALL, LATE, QUIET, Story, incident, period
from watchslo.report.answer import answer, cause_sentence
from watchslo.report.incident import (
    CauseRecord,
    CurvePoint,
    EventCounts,
    EventRecord,
    IncidentReport,
    LatencyCurve,
    OwnRecord,
    PresentVerdict,
    ReportPeriod,
    WatchRecord,
    highest,
    spans_of,
)
from watchslo.report.sections import sections
from watchslo.report.unknown import unknowns
from watchslo.report.wording import times
from watchslo.snapshot import Confidence
from watchslo.timeline.day import Minute
from watchslo.timeline.verdict import Level

BAD, GOOD, NONE, OPEN = Minute.BAD, Minute.GOOD, Minute.NO_DATA, Minute.UNDECIDED


def slow() -> CauseRecord:
    (cause,) = incident().causes
    return cause


def elsewhere() -> CauseRecord:
    return replace(slow(), cause="bandwidth", since_wall=BEGIN_WALL, until_wall=BEGIN_WALL + 60)


def judged(*minutes: Minute, **changes: object) -> IncidentReport:
    """Return the report on one watch with these minutes, made two minutes after their end."""
    covered = period(0, len(minutes))
    watch = WatchRecord("pods", "service", LatencyCurve(threshold=1.0), minutes)
    made = IncidentReport("watchslo", "a test", covered.until_wall + 120, covered, BEGIN_WALL, BEGIN_WALL, (watch,))
    return replace(made, **changes)  # type: ignore[arg-type]


def prompt(*minutes: Minute, second: float = 30.0) -> IncidentReport:
    """Return the report on one watch with these minutes, whose only figure is well within the threshold."""
    curve = LatencyCurve((CurvePoint(BEGIN_WALL + second, 0.01, 0.005, 0.02),), threshold=1.0)
    return judged(*minutes, watches=(WatchRecord("pods", "service", curve, minutes),))


def proven_late(*minutes: Minute) -> IncidentReport:
    """Return the report on one watch that is proven late from 22:00:40 to 22:01:55."""
    points = (CurvePoint(BEGIN_WALL + second, 7.9, 7.36, 9.1) for second in (100.0, 105.0, 110.0, 115.0))
    curve = LatencyCurve((CurvePoint(BEGIN_WALL + 5.0, 0.01, 0.005, 0.02), *points), threshold=1.0)
    return judged(*minutes, watches=(WatchRecord("pods", "service", curve, minutes),))


def ending_bad(now: str | None) -> IncidentReport:
    report = judged(GOOD, BAD)
    return replace(report, watches=(replace(report.watches[0], now=now),))


def with_gaps() -> IncidentReport:
    watch = WatchRecord("pods", "service", LatencyCurve(), (NONE, OPEN, NONE, GOOD), EventCounts(90, 0, 10, 25))
    report = judged(*watch.minutes, watches=(watch,), known_wall=BEGIN_WALL + 60)
    return replace(report, own=replace(report.own, overloaded_seconds=12.0, absent=frozenset({1}), notes=("A note.",)))


MANY = tuple(WatchRecord(f"w{number}", "service", LatencyCurve(), (BAD,)) for number in range(5))
UNKNOWN = WatchRecord("nodes", "service", LatencyCurve(), (BAD,))
PROVEN = WatchRecord("pods", "service", LatencyCurve(), (BAD,), EventCounts(5, 7, 1))
# Made by the tests: to play the story takes a second, and each process collects all tests.
REPORTS: dict[str, Callable[[], IncidentReport]] = {
    "late, because etcd was slow": incident,
    "late, and still at the end": lambda: incident(minutes=24),
    "the newest minute is bad, and the watch is within now": lambda: ending_bad("within"),
    "the newest minute is bad, and the watch is late now": lambda: ending_bad("late"),
    "the newest minute is bad, and nothing is known of now": lambda: ending_bad(None),
    "the watch became well only after the period": lambda: replace(
        ending_bad("within"), made_wall=judged(GOOD, BAD).made_wall + 3600.0
    ),
    "many watches are late": lambda: judged(GOOD, watches=MANY),
    "one stalled, and one late or stalled": lambda: judged(BAD, watches=(*prompt(BAD).watches, UNKNOWN)),
    "bad minutes with prompt events": lambda: prompt(BAD, *[GOOD] * 9),
    "bad minutes, and prompt events of another time": lambda: prompt(BAD, *[GOOD] * 24, second=1200.0),
    "several spans": lambda: judged(BAD, *[GOOD] * 5, BAD, BAD, *[GOOD] * 5),
    "late without figures and causes": lambda: judged(BAD, *[GOOD] * 5),
    "late by proven events only": lambda: judged(BAD, watches=(PROVEN,), proven_only=True),
    "late now, without a bad minute yet": lambda: judged(
        GOOD, GOOD, now=PresentVerdict(Level.BAD, "pods: late since 22:01 UTC")
    ),
    "a cause elsewhere, and one of the bad minutes": lambda: replace(incident(), causes=(elsewhere(), slow())),
    "proven late in minutes that were not judged": lambda: proven_late(NONE, NONE, GOOD),
    "bad, and proven late in the next minute, which was not judged": lambda: proven_late(BAD, NONE, GOOD),
    "down for a part of the bad minutes": lambda: replace(
        prompt(BAD, GOOD), watches=tuple(replace(one, silent=72.0) for one in prompt(BAD, GOOD).watches)
    ),
    "quiet": lambda: incident(QUIET),
    "violated guarantee": lambda: incident(Story(range(0), "leases", lost=2)),
    "nothing is judged": lambda: judged(NONE, NONE),
    "one minute undecided": lambda: judged(GOOD, OPEN),
    "one minute without a verdict": lambda: judged(GOOD, NONE),
    "most minutes without a verdict": lambda: judged(GOOD, NONE, NONE),
    "known late in its course": lambda: judged(NONE, NONE, NONE, GOOD, known_wall=BEGIN_WALL + 180),
    "proven events only": lambda: judged(NONE, proven_only=True),
    "good with an active cause": lambda: judged(GOOD, causes=(slow(),)),
    "good by answers that may be incomplete": lambda: replace(
        judged(GOOD), own=OwnRecord(doubts=("Prometheus warns: no store.",))
    ),
    "good and complete": lambda: judged(GOOD),
    "gaps of each kind": with_gaps,
}


def lines(report: IncidentReport) -> Iterator[str]:
    found = answer(report)
    yield f"{found.level}: {found.text}"
    yield from (f"  {name}: {text}" for name, text in found.facts)
    yield from (f"  unknown: {text}" for text in unknowns(report))


def test_answers_match_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("report-answers.txt", of_states({name: lines(made()) for name, made in REPORTS.items()}))


@pytest.mark.parametrize("made", REPORTS.values(), ids=REPORTS)
def test_only_a_period_that_is_known_without_bad_minutes_and_violations_is_good(
    made: Callable[[], IncidentReport],
) -> None:
    report = made()
    is_sound = not (report.bad_watches or report.violated or report.causes or report.proven_only or report.own.doubts)
    is_known = all(minute is GOOD for watch in report.watches for minute in watch.minutes[: report.expected_minutes])
    is_good = is_sound and is_known and not (report.now and report.now.level is Level.BAD)
    assert (answer(report).level is Level.GOOD) is is_good


def test_why_names_each_cause_once_in_the_order_of_time() -> None:
    """Those that were active in bad minutes come first."""
    again = replace(slow(), since_wall=BEGIN_WALL + 2400, until_wall=None)
    earlier = replace(slow(), cause="fanout", since_wall=BEGIN_WALL + 1000, confidence=Confidence.LOW)
    facts = dict(answer(replace(incident(), causes=(again, slow(), elsewhere(), earlier))).facts)
    assert re.findall(r"(\w+) \(\w+ confidence\) (.*?): ", facts["Why"]) == [
        ("fanout", "from 22:16 to 22:28 UTC"),
        ("storage_slow", "since 22:20 UTC (2 times)"),
        ("bandwidth", "from 22:00 to 22:01 UTC"),
    ]


def test_own_delays_in_a_row_are_one_event_of_the_timeline() -> None:
    seconds = (0.0, 60.0, 120.0, 180.0)
    delays = [EventRecord(BEGIN_WALL + at, Level.BAD, f"could not keep up at {at}", overloaded=True) for at in seconds]
    other = EventRecord(BEGIN_WALL + 150.0, Level.BAD, "pods: late")
    table = sections(replace(incident(), events=(*delays, other)))[0].table
    assert table is not None
    assert [text for *_, text in table.rows] == [
        "watchslo itself could not keep up, 3 times until 22:02",
        "pods: late",
        "could not keep up at 180.0",
    ]


def test_cause_without_evidence_is_one_sentence() -> None:
    bare = replace(slow(), place="pods at a:1", confidence=None, evidence="", until_wall=None)
    assert cause_sentence(bare, period()) == "storage_slow at pods at a:1 since 22:20 UTC."


def test_short_interruptions_do_not_divide_a_span() -> None:
    minutes = (BAD, GOOD, NONE, BAD, GOOD, GOOD, GOOD, BAD)
    found = spans_of(minutes, ReportPeriod(BEGIN_WALL + 10, BEGIN_WALL + 470))
    assert [(one.since_wall - BEGIN_WALL, one.until_wall - BEGIN_WALL, one.minutes) for one in found] == [
        (10, 240, 2),
        (420, 470, 1),
    ]


def test_highest_curve_has_the_highest_bounds() -> None:
    one = LatencyCurve((CurvePoint(1.0, 0.3, 0.1, 0.5), CurvePoint(2.0, None, 0.2, 0.4)), threshold=1.0)
    other = LatencyCurve((CurvePoint(1.0, 0.2, 0.15, 0.9),), threshold=2.0)
    both = highest([one, other])
    assert both.points == (CurvePoint(1.0, 0.3, 0.15, 0.9), CurvePoint(2.0, None, 0.2, 0.4))
    assert both.threshold is None


def test_minutes_that_cannot_be_judged_yet_are_not_expected() -> None:
    assert judged(*[GOOD] * 5).expected_minutes == 5
    assert judged(*[GOOD] * 5, made_wall=BEGIN_WALL + 300).expected_minutes == 4
    assert len([*LATE]) == 8


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (times(0.0, 60.0, ReportPeriod(0.0, 3600.0)), "from 00:00 to 00:01 UTC"),
        (times(0.0, 90000.0, ReportPeriod(0.0, 90000.0)), "from 1970-01-01 00:00 to 1970-01-02 01:00 UTC"),
        (times(0.0, None, ReportPeriod(86400.0, 90000.0)), "since 1970-01-01 00:00 UTC"),
    ],
)
def test_times_have_a_date_if_the_period_is_not_of_one_day(made: str, text: str) -> None:
    assert made == text
