"""The details of one watch: all their texts, and which causes and events they have."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.serve import readings
from watchslo.model import Interval
from watchslo.serve.detail import MOST_HAPPENED, NOT_MEASURED, WatchDetail, details
from watchslo.snapshot import QuantileReading, Snapshot, StreamReading, TransportReading
from watchslo.timeline.format import ABSENT
from watchslo.timeline.timeline import Timeline


def timeline(*snapshots: Snapshot) -> Timeline:
    made = Timeline()
    for snapshot in snapshots:
        made.observe(snapshot)
    return made


def of(stream: StreamReading, **changes: object) -> WatchDetail:
    """Return the details of the only watch of a snapshot."""
    snapshot = replace(readings.SNAPSHOT, streams=(stream,), **changes)  # type: ignore[arg-type]
    (made,) = details(timeline(snapshot), stream.watch).watches
    return made


def fact(stream: StreamReading, label: str, **changes: object) -> str:
    (text,) = [one.text for part in of(stream, **changes).sections for one in part.facts if one.label == label]
    return text


def test_details_match_golden_file(golden: Callable[[str, str], None]) -> None:
    made = [
        watch
        for name in ("pods", readings.IDLE.watch, "jobs")
        for watch in details(timeline(readings.SNAPSHOT), name).watches
    ]
    lines = []
    for watch in made:
        lines += [f"# {watch.name}: {watch.condition}", watch.explanation]
        for section in watch.sections:
            lines += ["", section.title, *(f"  {one.label:24} {one.text}" for one in section.facts)]
        lines += ["", *(cause.evidence for cause in watch.causes), ""]
    golden("details.txt", "\n".join(lines))


def test_names_select_watches_at_all_apiservers_and_keys_select_one() -> None:
    elsewhere = replace(readings.TAIL, apiserver="10.0.0.1:6443")
    both = timeline(replace(readings.SNAPSHOT, streams=(readings.TAIL, elsewhere)))
    assert [watch.key for watch in details(both, "pods").watches] == ["pods@service", "pods@10.0.0.1:6443"]
    assert [watch.name for watch in details(both, "pods@10.0.0.1:6443").watches] == ["pods at 10.0.0.1:6443"]
    assert details(both, "things").watches == []
    assert details(Timeline(), "pods").watches == []


def test_causes_are_those_of_the_watch_and_its_apiserver() -> None:
    assert [cause.cause for cause in of(readings.STALLED).causes] == ["stalled_stream"]
    assert [cause.cause for cause in of(readings.IDLE).causes] == ["cache_behind"]
    assert of(readings.TAIL).causes == []


NONE = readings.TAIL.guarantees.violations


def test_newest_events_of_the_watch_are_shown() -> None:
    before = replace(readings.SNAPSHOT, causes=())
    snapshots = [
        replace(before, streams=(readings.changed(readings.TAIL, guarantees={"violations": lost}), readings.STALLED))
        for lost in ({**NONE, "reliable": number} for number in range(MOST_HAPPENED + 2))
    ]
    (pods,) = details(timeline(*snapshots), "pods").watches
    assert len(pods.happened) == MOST_HAPPENED
    assert {event.text for event in pods.happened} == {"pods: 1 event lost: newer ones were delivered (reliable)"}
    assert details(timeline(*snapshots), "jobs").watches[0].happened == []


def test_hour_has_median_and_highest_estimate() -> None:
    hour = []
    for number, estimate in enumerate((0.01, 3.0, 0.02)):
        judged = readings.window("1m", 60.0, 120)
        quantiles = tuple(replace(quantile, estimate=estimate) for quantile in judged.quantiles)
        stream = replace(readings.TAIL, track=replace(readings.TRACK, judged=replace(judged, quantiles=quantiles)))
        hour.append(replace(readings.SNAPSHOT, streams=(stream,), at_wall=readings.SNAPSHOT.at_wall + 5 * number))
    (pods,) = details(timeline(*hour), "pods").watches
    (past,) = [section.facts for section in pods.sections if section.title == "Last hour"]
    assert [one.text for one in past[:3]] == ["20 ms", "3 s at 2023-11-14 22:13:26 UTC", "3 of 3 have a P99"]


@pytest.mark.parametrize(
    ("headroom", "text"),
    [
        (readings.HEADROOM, "95.5 s (24,460 revisions); a list takes 12.5 s: it fits"),
        (replace(readings.HEADROOM, list_seconds=100.0), "95.5 s (24,460 revisions); a list takes 100 s: too long"),
        (
            replace(readings.HEADROOM, list_seconds=96.0, seconds=Interval(95.5, 96.25)),
            "95.5 s (24,460 revisions); a list takes 96 s: it may fit",
        ),
        (None, ABSENT),
    ],
)
def test_headroom_is_compared_with_the_list(headroom: object, text: str) -> None:
    assert fact(replace(readings.TAIL, headroom=headroom), "Headroom") == text  # type: ignore[arg-type]


def test_p999_is_shown_with_its_bounds_if_it_is_known() -> None:
    window = readings.with_p999(readings.window("1m", 60.0, 6000))
    busy = replace(readings.TAIL, track=replace(readings.TRACK, judged=window))
    assert fact(busy, "P99.9") == "~380 ms, proven 250 ms to 500 ms"
    objective = replace(readings.TRACK.objective, quantile=0.999)
    strict = replace(readings.TAIL, track=replace(readings.TRACK, judged=window, objective=objective))
    assert fact(strict, "P99.9") == "~380 ms", "it is the judged quantile, whose bounds are a fact of their own"
    labels = {one.label for part in of(readings.TAIL).sections for one in part.facts}
    assert "P99.9" not in labels


def test_maximum_is_shown_where_samples_are_known_one_by_one() -> None:
    judged = readings.window("1m", 60.0, 120)
    longest = QuantileReading(1.0, 0.5, 0.502, 0.504, resolved=True)
    exact = replace(judged, quantiles=(*judged.quantiles, longest))
    stream = replace(readings.TAIL, track=replace(readings.TRACK, judged=exact))
    assert fact(stream, "Maximum") == "502 ms, proven 500 ms to 504 ms"


def test_unusual_findings_have_their_own_facts() -> None:
    wrong = readings.changed(readings.TAIL, session={"transport": None})
    labels = {one.label for part in of(wrong).sections for one in part.facts}
    assert not {"Connection", "Gaps", "Cache", "Lag behind peers"} & labels
    silent = readings.changed(readings.TAIL, session={"transport": TransportReading(0.1, 1, 40.0)})
    assert fact(silent, "Connection") == "round trip 100 ms, 1 retransmit, silent for 40 s"


def test_guarantees_have_their_checks_and_violations() -> None:
    assert fact(readings.TAIL, "Ordered") == "no violation in 401 checks"
    assert fact(readings.STALLED, "Ordered") == "2 violations in 401 checks"
    assert fact(readings.IDLE, "Reliable") == "no violation, not checked"


def test_watch_whose_clock_is_gone_has_no_resolution() -> None:
    assert fact(readings.TAIL, "Resolution", domains=()) == ABSENT
    off = replace(readings.MONITOR, stall_detection=None)
    assert fact(readings.TAIL, "Stall detection", monitor=off) == "off"


def test_hop_without_recent_events_says_so() -> None:
    old = tuple(replace(hop, windows=()) for hop in readings.HOPS)
    stream = replace(readings.TAIL, track=replace(readings.TRACK, hops=old))
    assert fact(stream, "Storage to cache") == "no event in the last minute"


def test_each_reason_why_an_event_is_not_measured_is_explained() -> None:
    assert {*readings.TRACK.unmeasured} - {*NOT_MEASURED} == {"initial"}


def test_details_are_valid_json() -> None:
    found = json.loads(details(timeline(readings.SNAPSHOT), "jobs").model_dump_json(by_alias=True))
    assert found["apiVersion"] == "v1"
    assert found["watches"][0]["causes"][0]["next"]


@pytest.mark.parametrize(
    ("gaps", "shown"), [({"revisions": None, "seconds": 95.5}, ["95.5 s"]), ({"revisions": 0, "seconds": 95.5}, [])]
)
def test_gap_is_given_in_seconds_where_revisions_are_no_counts(gaps: dict[str, object], shown: list[str]) -> None:
    made = of(readings.changed(readings.TAIL, gaps=gaps | {"unseen": None}))
    assert [one.text for part in made.sections for one in part.facts if one.label == "Gaps"] == shown


def test_headroom_is_given_in_seconds_where_revisions_are_no_counts() -> None:
    known = next(stream for stream in readings.SNAPSHOT.streams if stream.headroom is not None)
    counted = fact(known, "Headroom")
    assert "revision" in counted
    assert "revision" not in fact(readings.changed(known, headroom={"revisions": None}), "Headroom")
