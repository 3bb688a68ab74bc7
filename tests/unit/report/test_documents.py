"""What a report takes from the documents of a daemon."""

import re
from dataclasses import replace

import msgspec
import pytest

from tests.unit.report import incidents
from tests.unit.report.incidents import BEGIN_WALL, QUIET, Story, bodies, documents, incident, period
from watchslo.api.status import StatusDocument
from watchslo.report.daemon import (
    MOST_CURVES,
    names_for_curves,
    report_of,
    with_curves,
)
from watchslo.snapshot import Confidence
from watchslo.timeline.day import Minute
from watchslo.timeline.format import ABSENT
from watchslo.timeline.verdict import Level

PART = re.compile(rb'"part":null')


def test_minutes_and_curves_are_those_of_the_period() -> None:
    report = incident(covered=period(15, 30))
    pods = next(one for one in report.watches if one.watch == "pods")
    assert [*pods.minutes] == [Minute.GOOD] * 5 + [Minute.BAD] * 8 + [Minute.GOOD] * 2
    assert pods.curve.points[0].at_wall == BEGIN_WALL + 15 * 60
    assert pods.curve.points[-1].at_wall == BEGIN_WALL + 30 * 60
    assert len(pods.curve.points) == 181
    (bad,) = pods.spans(report.period)
    assert (bad.since_wall, bad.until_wall, bad.minutes) == (BEGIN_WALL + 1200, BEGIN_WALL + 1680, 8)


@pytest.mark.parametrize(
    ("empty", "seconds"),
    [
        (range(21 * 12, 21 * 12 + 3), 70.0),  # the first empty window is of the minute before it
        (range(40 * 12, 40 * 12 + 3), 0.0),  # no minute was bad
        (range(21 * 12), 0.0),  # nothing had come before: it may have been idle
    ],
)
def test_time_without_events_is_that_of_a_busy_watch_in_its_bad_minutes(empty: range, seconds: float) -> None:
    kept = documents()
    watches = tuple(
        msgspec.structs.replace(past, events=tuple(0 if at in empty else 120 for at in range(len(past.events))))
        for past in kept.series.watches
    )
    kept = replace(kept, series=msgspec.structs.replace(kept.series, watches=watches))
    report = report_of(kept, period(), incidents.PLACE, BEGIN_WALL + 2700)
    (pods,) = (one for one in report.watches if one.watch == "pods")
    assert pods.silent == pytest.approx(seconds)


def test_minutes_before_the_day_have_no_data() -> None:
    report = incident(QUIET, covered=period(-5, 2))
    assert [*report.watches[0].minutes] == [Minute.NO_DATA] * 5 + [Minute.GOOD] * 2
    assert report.known_wall == BEGIN_WALL


def test_estimates_below_the_resolution_are_left_out() -> None:
    kept = documents(QUIET)
    coarse = [msgspec.structs.replace(domain, resolution=0.030) for domain in kept.status.domains]
    kept = replace(kept, status=msgspec.structs.replace(kept.status, domains=coarse))
    report = report_of(kept, period(), incidents.PLACE, BEGIN_WALL + 2700)
    estimates = {one.watch: {point.estimate for point in one.curve.points} for one in report.watches}
    assert estimates["leases"] == {None}
    assert None not in estimates["pods"]


def test_an_ended_cause_has_the_evidence_of_its_most_certain_moment() -> None:
    (cause,) = incident().causes
    assert (cause.cause, cause.place, cause.confidence) == ("storage_slow", "", Confidence.HIGH)
    assert cause.evidence == incidents.SLOW.evidence
    assert (cause.since_wall, cause.until_wall) == (incidents.SLOW.since_wall, BEGIN_WALL + 28.5 * 60)


def test_a_cause_that_is_active_or_ends_later_has_no_end() -> None:
    (active,) = incident(minutes=25).causes
    (later,) = incident(covered=period(0, 25)).causes
    assert active.until_wall is None
    assert later.until_wall is None


def test_causes_and_events_outside_of_the_period_are_left_out() -> None:
    report = incident(covered=period(30, 40))
    assert report.causes == ()
    assert [event.text for event in report.events] == ["watchslo itself could not keep up for 3 s"]


def test_violations_count_only_if_they_are_in_the_period() -> None:
    assert incident(Story(range(0), "leases", lost=2)).violated
    before = incident(Story(range(0), "leases", lost=2), covered=period(20, 40))
    assert not before.violated
    assert sum(one.violations for one in before.guarantees) == 6


def test_a_daemon_without_quantiles_has_no_curves() -> None:
    report = incident(Story(proven_only=True))
    assert report.proven_only
    assert all(one.curve.points == () for one in report.watches)
    assert report.watches[0].bad_minutes == 8


def test_notes_say_what_a_daemon_does_not_keep() -> None:
    def notes(minutes: float, first: float) -> str:
        return " ".join(incident(QUIET, minutes, period(first, minutes)).own.notes)

    assert notes(45, 0) == ""
    assert notes(45, 10) == (
        "Events, guarantees and lag are counted since watchslo started, at 2023-11-14 22:00 UTC, not for the period."
    )
    assert "curves for an hour, so they begin at 2023-11-14 22:10 UTC" in notes(70, 0)


def test_controllers_and_clients_are_those_of_the_last_five_minutes_of_the_daemon() -> None:
    reaching, earlier = incident(covered=period(0, 41)), incident(covered=period(0, 40))
    assert [(each.name, each.step) for each in reaching.reactions] == [
        ("pods", "scheduled"),
        ("deployments.apps", "observed"),
    ]
    assert [line.cells[1] for line in reaching.clients] == ["jobs.batch", "deployments.apps", "others", ABSENT]
    assert (earlier.reactions, earlier.clients) == ((), ())
    note = "A daemon knows controllers and clients of the last five minutes only; --prometheus has them for longer."
    assert [note in report.own.notes for report in (reaching, earlier)] == [False, True]


def test_part_and_full_timeline_are_noted() -> None:
    kept = documents(QUIET)
    shard = replace(
        kept, status=msgspec.json.decode(PART.sub(b'"part":"shard 1 of 2"', bodies(QUIET)[0]), type=StatusDocument)
    )
    event = kept.update.happened[-1]
    busy = replace(kept, update=msgspec.structs.replace(kept.update, happened=[event] * 500))
    made_wall = BEGIN_WALL + 2700
    assert report_of(shard, period(), incidents.PLACE, made_wall).own.notes == ("Only shard 1 of 2 is shown here.",)
    assert report_of(busy, period(), incidents.PLACE, made_wall).own.notes == (
        "A daemon keeps 500 events of its timeline: those before 2023-11-14 22:35 UTC are gone.",
    )


def test_texts_have_no_control_characters() -> None:
    report = incident(replace(QUIET, second="a\x1b[31m\nb"))
    assert {one.watch for one in report.watches} == {"pods", "a?[31m?b", "nodes"}


def test_unknown_levels_and_confidences_of_newer_daemons_are_accepted() -> None:
    kept = documents(minutes=25)
    update = kept.update
    odd = [msgspec.structs.replace(event, level="new", cause=None) for event in update.happened]
    altered = [msgspec.structs.replace(cause, confidence="new") for cause in kept.status.causes]
    changed = replace(
        kept,
        update=msgspec.structs.replace(update, happened=odd),
        status=msgspec.structs.replace(kept.status, causes=altered),
    )
    report = report_of(changed, period(0, 25), incidents.PLACE, BEGIN_WALL + 1500)
    assert {event.level for event in report.events} == {Level.UNKNOWN}
    assert report.causes[0].confidence is None


class TestCurves:
    def test_worst_watches_come_first_and_each_name_once(self) -> None:
        kept = documents()
        assert names_for_curves(kept.series, kept.update, period())[0] == "pods"
        assert len(names_for_curves(kept.series, kept.update, period())) == 3
        (pods,) = (past for past in kept.series.watches if past.watch == "pods")
        many = [msgspec.structs.replace(pods, watch=f"w{n // 2}", apiserver=f"{n % 2}", minutes="") for n in range(100)]
        crowd = msgspec.structs.replace(kept.series, watches=[*many, pods])
        names = names_for_curves(crowd, kept.update, period())
        assert names[0] == "pods"
        assert len(names) == len({*names}) == MOST_CURVES

    def test_watches_whose_curve_was_not_read_keep_their_minutes(self) -> None:
        kept = documents()
        one = msgspec.structs.replace(kept.series, watches=kept.series.watches[:1])
        some = replace(kept, series=with_curves(kept.series, [one]))
        report = report_of(some, period(), incidents.PLACE, BEGIN_WALL + 2700)
        assert [bool(watch.curve.points) for watch in report.watches] == [True, False, False]
        assert all(watch.judged_minutes == 44 for watch in report.watches)
        assert report.own.notes == ("Curves of the worst watches only were read; 2 watches more have none here.",)

    def test_without_a_day_no_minute_is_known(self) -> None:
        kept = documents()
        bare = replace(kept, update=msgspec.structs.replace(kept.update, day=None))
        report = report_of(bare, period(), incidents.PLACE, BEGIN_WALL + 2700)
        assert {*report.overall} == {Minute.NO_DATA}
