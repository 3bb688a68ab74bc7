"""The first sentences of a report, for each kind of period."""

from dataclasses import replace

import pytest

from tests.unit.report.incidents import BEGIN_WALL, LATE, QUIET, Story, incident, period
from watchslo.report.answer import answer, cause_sentence, violated
from watchslo.report.incident import (
    CurvePoint,
    EventCounts,
    IncidentReport,
    LatencyCurve,
    PresentVerdict,
    ReportPeriod,
    WatchRecord,
    highest,
    spans_of,
)
from watchslo.report.unknown import unknowns
from watchslo.report.wording import number, share, span, times
from watchslo.timeline.day import Minute
from watchslo.timeline.verdict import Level

BAD, GOOD, NONE, OPEN = Minute.BAD, Minute.GOOD, Minute.NO_DATA, Minute.UNDECIDED


def facts(report: IncidentReport) -> dict[str, str]:
    return dict(answer(report).facts)


def judged(*minutes: Minute, **changes: object) -> IncidentReport:
    """Return the report on one watch with these minutes, made two minutes after their end."""
    covered = period(0, len(minutes))
    watch = WatchRecord("pods", "service", LatencyCurve(threshold=1.0), minutes)
    made = IncidentReport("watchslo", "a test", covered.until_wall + 120, covered, BEGIN_WALL, BEGIN_WALL, (watch,))
    return replace(made, **changes)  # type: ignore[arg-type]


class TestText:
    def test_ended_lateness_has_both_times(self) -> None:
        found = answer(incident())
        assert (found.level, found.text) == (Level.BAD, "pods: late from 2023-11-14 22:20 to 22:28 UTC.")

    @pytest.mark.parametrize(
        ("now", "text"),
        [
            ("within", "pods: late, stalled or down from 2023-11-14 22:01 to 22:02 UTC."),
            ("late", "pods: late, stalled or down since 2023-11-14 22:01 UTC, and still at the end of this report."),
            (None, "pods: late, stalled or down since 2023-11-14 22:01 UTC, and still at the end of this report."),
        ],
    )
    def test_lateness_until_the_newest_minute_has_ended_if_the_watch_is_well_now(self, now: str, text: str) -> None:
        report = judged(GOOD, BAD)
        watches = (replace(report.watches[0], now=now),)
        assert answer(replace(report, watches=watches)).text == text
        past = replace(report, watches=watches, made_wall=report.made_wall + 3600.0)
        assert answer(past).text.endswith("still at the end of this report."), "it became well after the period"

    def test_lateness_that_goes_on_has_its_begin(self) -> None:
        found = answer(incident(minutes=24))
        assert found.text == "pods: late since 2023-11-14 22:20 UTC, and still at the end of this report."

    def test_many_late_watches_are_counted(self) -> None:
        watches = tuple(WatchRecord(f"w{number}", "service", LatencyCurve(), (BAD,)) for number in range(5))
        found = answer(judged(GOOD, watches=watches))
        assert found.text.startswith("5 of 5 watches: late, stalled or down")
        assert facts(judged(GOOD, watches=watches))["How long"].endswith("; and 2 more")

    def test_watches_that_were_late_or_stalled_have_one_list_of_words(self) -> None:
        prompt = LatencyCurve((CurvePoint(BEGIN_WALL + 30, 0.01, 0.005, 0.02),), threshold=1.0)
        stalled = WatchRecord("pods", "service", prompt, (BAD,))
        unknown = WatchRecord("nodes", "service", LatencyCurve(), (BAD,))
        found = answer(judged(BAD, watches=(stalled, unknown)))
        assert found.text.startswith("pods and nodes: late, stalled or down ")

    def test_bad_minutes_with_prompt_events_are_stalls(self) -> None:
        prompt = LatencyCurve((CurvePoint(BEGIN_WALL + 30, 0.01, 0.005, 0.02),), threshold=1.0)
        stalled = WatchRecord("pods", "service", prompt, (BAD,) + (GOOD,) * 9)
        assert answer(judged(*stalled.minutes, watches=(stalled,))).text.startswith("pods: stalled or down from")

    def test_quiet_period_is_good(self) -> None:
        found = answer(incident(QUIET))
        assert (found.level, found.text) == (Level.GOOD, "No watch was late between 2023-11-14 22:00 and 22:45 UTC.")
        assert "Why" not in facts(incident(QUIET))

    def test_violated_guarantee_is_bad_without_lateness(self) -> None:
        report = incident(Story(range(0), "leases", lost=2))
        assert answer(report).level is Level.BAD
        assert answer(report).text.endswith("but a guarantee was violated.")
        assert facts(report)["Guarantees"] == "6 events lost: newer ones were delivered (reliable)"

    def test_lateness_that_has_no_bad_minute_yet_is_bad(self) -> None:
        now = PresentVerdict(Level.BAD, "pods: late since 22:01 UTC")
        assert answer(judged(GOOD, GOOD, now=now)).text == now.text

    @pytest.mark.parametrize(
        ("report", "text"),
        [
            (judged(NONE, NONE), "Cannot tell: no minute between 2023-11-14 22:00 and 22:02 UTC was judged."),
            (judged(GOOD, OPEN), "No watch was proven late between 2023-11-14 22:00 and 22:02 UTC, but 1 of 2 minutes"),
            (judged(GOOD, NONE, NONE), "No watch was proven late between 2023-11-14 22:00 and 22:03 UTC, but 2 of 3"),
            (judged(NONE, proven_only=True), "No event is proven late between 2023-11-14 22:00 and 22:01 UTC; more is"),
            (judged(GOOD, causes=incident().causes), "No watch was proven late between"),
        ],
    )
    def test_what_is_not_known_is_no_good_verdict(self, report: IncidentReport, text: str) -> None:
        found = answer(report)
        assert found.level is Level.UNKNOWN
        assert found.text.startswith(text)

    def test_active_cause_is_named(self) -> None:
        found = answer(judged(GOOD, causes=incident().causes))
        assert found.text.endswith("but a cause of lateness was active: storage_slow.")


class TestFacts:
    def test_facts_say_how_long_how_late_and_why(self) -> None:
        said = facts(incident())
        assert said["How long"] == "pods: 8 bad minutes from 22:20 to 22:28 UTC"
        assert said["How late"] == "pods: P99 up to 3.2 s at 22:20 UTC, proven 2.88 s to 4 s, threshold 1 s"
        assert said["Why"].startswith("storage_slow (high confidence) from 22:20 to 22:28 UTC: Every tick is slow")
        assert said["Look at"].startswith("Check etcd")
        assert said["Judged"] == "44 of 44 minutes: 8 bad, 0 undecided, 36 good"
        assert said["Now"] == "No watch is late (2 within 1 s, 1 not judged)"

    def test_several_spans_name_the_longest(self) -> None:
        report = judged(BAD, *[GOOD] * 5, BAD, BAD, *[GOOD] * 5)
        assert (
            facts(report)["How long"] == "pods: 3 bad minutes in 2 spans, the longest from 22:06 to 22:08 UTC (2 min)"
        )

    def test_missing_figures_and_causes_are_said(self) -> None:
        said = facts(judged(BAD, *[GOOD] * 5))
        assert (said["How late"], said["Why"]) == ("no figures of this time are kept", "no cause was named")

    def test_figures_of_another_time_say_nothing_of_bad_minutes(self) -> None:
        prompt = LatencyCurve((CurvePoint(BEGIN_WALL + 1200, 0.01, 0.005, 0.02),), threshold=1.0)
        watch = WatchRecord("pods", "service", prompt, (BAD,) + (GOOD,) * 24)
        report = judged(*watch.minutes, watches=(watch,))
        assert answer(report).text.startswith("pods: late, stalled or down")
        assert facts(report)["How late"] == "no figures of this time are kept"

    def test_events_that_are_proven_late_are_counted_without_quantiles(self) -> None:
        watch = WatchRecord("pods", "service", LatencyCurve(), (BAD,), EventCounts(5, 7, 1))
        report = judged(BAD, watches=(watch,), proven_only=True)
        assert answer(report).text.startswith("pods: late")
        assert facts(report)["How late"] == "at least 7 events later than the threshold"

    def test_minutes_without_a_verdict_are_a_share(self) -> None:
        assert facts(judged(GOOD, NONE))["Judged"].endswith("0 bad, 0 undecided, 1 good; 50% without a verdict")

    def test_causes_of_bad_minutes_come_first(self) -> None:
        (slow,) = incident().causes
        elsewhere = replace(slow, cause="bandwidth", since_wall=BEGIN_WALL, until_wall=BEGIN_WALL + 60)
        said = facts(replace(incident(), causes=(elsewhere, slow)))
        assert said["Why"].startswith("storage_slow")
        assert "bandwidth" in said["Why"]

    def test_cause_without_evidence_is_one_sentence(self) -> None:
        (slow,) = incident().causes
        bare = replace(slow, place="pods at a:1", confidence=None, evidence="", until_wall=None)
        assert cause_sentence(bare, period()) == "storage_slow at pods at a:1 since 22:20 UTC."


class TestUnknown:
    def test_nothing_unknown_is_said(self) -> None:
        assert unknowns(judged(GOOD)) == ("Nothing is missing: every minute and every event was judged.",)

    def test_watch_is_not_called_idle_before_anything_is_known(self) -> None:
        report = judged(NONE, NONE, NONE, GOOD, known_wall=BEGIN_WALL + 180)
        assert unknowns(report) == (
            "Nothing is known before 2023-11-14 22:03 UTC.",
            "3 of 4 minutes have no verdict on any watch.",
        )

    def test_each_gap_is_a_sentence(self) -> None:
        watch = WatchRecord("pods", "service", LatencyCurve(), (NONE, OPEN, NONE, GOOD), EventCounts(90, 0, 10, 25))
        report = judged(*watch.minutes, watches=(watch,), known_wall=BEGIN_WALL + 60)
        own = replace(report.own, overloaded_seconds=12.0, absent=frozenset({1}), notes=("A note.",))
        assert unknowns(replace(report, own=own)) == (
            "Nothing is known before 2023-11-14 22:01 UTC.",
            "In 1 minute of the period, no instance of watchslo was scraped.",
            "2 of 4 minutes have no verdict on any watch.",
            "In 1 minute, neither the proven bounds nor the times of the ticks decided.",
            "Less than half of the minutes were judged for pods: idle watches have no events to judge.",
            "watchslo itself could not keep up for 12 s since 2023-11-14 22:00 UTC; events of that time are left out.",
            "25 events since 2023-11-14 22:00 UTC could not be measured (20%).",
            "10 events since 2023-11-14 22:00 UTC (10%) are neither proven late nor in time.",
            "A note.",
        )


class TestIncident:
    def test_short_interruptions_do_not_divide_a_span(self) -> None:
        minutes = (BAD, GOOD, NONE, BAD, GOOD, GOOD, GOOD, BAD)
        found = spans_of(minutes, ReportPeriod(BEGIN_WALL + 10, BEGIN_WALL + 470))
        assert [(one.since_wall - BEGIN_WALL, one.until_wall - BEGIN_WALL, one.minutes) for one in found] == [
            (10, 240, 2),
            (420, 470, 1),
        ]

    def test_highest_curve_has_the_highest_bounds(self) -> None:
        one = LatencyCurve((CurvePoint(1.0, 0.3, 0.1, 0.5), CurvePoint(2.0, None, 0.2, 0.4)), threshold=1.0)
        other = LatencyCurve((CurvePoint(1.0, 0.2, 0.15, 0.9),), threshold=2.0)
        both = highest([one, other])
        assert both.points == (CurvePoint(1.0, 0.3, 0.15, 0.9), CurvePoint(2.0, None, 0.2, 0.4))
        assert both.threshold is None

    def test_minutes_that_cannot_be_judged_yet_are_not_expected(self) -> None:
        assert judged(*[GOOD] * 5).expected_minutes == 5
        assert judged(*[GOOD] * 5, made_wall=BEGIN_WALL + 300).expected_minutes == 4
        assert len([*LATE]) == 8


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (number(1.0, "event"), "1 event"),
        (number(4210.4, "event"), "about 4,210 events"),
        (share(2.0, 300.0), "0.667%"),
        (share(3.0, 3.0), "100%"),
        (span(0.0, 90000.0, "to"), "1970-01-01 00:00 to 1970-01-02 01:00 UTC"),
        (times(0.0, 60.0, ReportPeriod(0.0, 3600.0)), "from 00:00 to 00:01 UTC"),
        (times(0.0, 90000.0, ReportPeriod(0.0, 90000.0)), "from 1970-01-01 00:00 to 1970-01-02 01:00 UTC"),
        (times(0.0, None, ReportPeriod(86400.0, 90000.0)), "since 1970-01-01 00:00 UTC"),
        (violated("reliable", 2), "2 events lost: newer ones were delivered (reliable)"),
        (violated("new", 1), "1 event (new)"),
    ],
)
def test_texts(made: str, text: str) -> None:
    assert made == text
