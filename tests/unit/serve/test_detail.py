"""The details of one watch: all their texts, and which causes and events they have."""

from collections.abc import Callable
from dataclasses import replace

from tests.support.transcripts import of_states
from tests.unit.serve import readings
from watchslo.api.feed import MOST_HAPPENED, WatchDetail
from watchslo.serve.detail import details
from watchslo.snapshot import QuantileReading, Snapshot, TransportReading, WatchReading
from watchslo.timeline.explanation import NO_SAMPLE
from watchslo.timeline.timeline import Timeline


def timeline(*snapshots: Snapshot) -> Timeline:
    made = Timeline()
    for snapshot in snapshots:
        made.observe(snapshot)
    return made


def of(stream: WatchReading, **changes: object) -> WatchDetail:
    """Return the details of the only watch of a snapshot."""
    snapshot = replace(readings.SNAPSHOT, watches=(stream,), **changes)  # type: ignore[arg-type]
    (made,) = details(timeline(snapshot), stream.watch).watches
    return made


def judged(*more: QuantileReading, **changes: object) -> WatchReading:
    """Return a watch whose judged window has more quantiles than usual."""
    window = readings.window("1m", 60.0, 6000)
    return readings.changed(
        readings.TAIL, track={"judged": replace(window, quantiles=(*window.quantiles, *more)), **changes}
    )


P999 = readings.with_p999(readings.window("1m", 60.0, 6000)).quantiles[-1]
LONGEST = QuantileReading(1.0, 0.5, 0.502, 0.504)
STRICT = replace(readings.TRACK.objective, quantile=0.999)
OLD_HOPS = tuple(replace(hop, windows=()) for hop in readings.HOPS)
NOT_AUDITED = replace(readings.MONITOR, stall_detection=None)
TAIL = readings.TAIL
FACTS: dict[str, tuple[str, WatchDetail]] = {
    "list that takes longer": ("Headroom", of(readings.changed(TAIL, headroom={"list_seconds": 100.0}))),
    "list that may fit": ("Headroom", of(readings.changed(TAIL, headroom={"list_seconds": 96.0}))),
    "unknown headroom": ("Headroom", of(replace(TAIL, headroom=None))),
    "revisions are no counts": ("Headroom", of(readings.changed(TAIL, headroom={"revisions": None}))),
    "known P99.9": ("P99.9", of(judged(P999))),
    "judged P99.9, whose bounds are a fact of their own": ("P99.9", of(judged(P999, objective=STRICT))),
    "unknown P99.9": ("P99.9", of(TAIL)),
    "samples known one by one": ("Maximum", of(judged(LONGEST))),
    "connection that was not read": ("Connection", of(readings.changed(TAIL, session={"transport": None}))),
    "silent connection": (
        "Connection",
        of(readings.changed(TAIL, session={"transport": TransportReading(0.1, 1, 40.0)})),
    ),
    "no gap": ("Gaps", of(readings.changed(TAIL, gaps={"revisions": 0, "seconds": 95.5, "unseen": None}))),
    "gap in seconds": ("Gaps", of(readings.changed(TAIL, gaps={"revisions": None, "seconds": 95.5, "unseen": None}))),
    "no cache probe": ("Cache", of(TAIL)),
    "no peer": ("Lag behind peers", of(TAIL)),
    "clock that is gone": ("Resolution", of(TAIL, domains=())),
    "audits are off": ("Stall detection", of(TAIL, monitor=NOT_AUDITED)),
    "hop without recent events": ("Storage to cache", of(readings.changed(TAIL, track={"hops": OLD_HOPS}))),
}
"""Facts that the watches of the golden file `details.txt` do not have."""


def lines(label: str, watch: WatchDetail) -> list[str]:
    found = [one.text for section in watch.sections for one in section.facts if one.label == label]
    return [f"{label}: {' / '.join(found) or '(none)'}"]


def test_facts_of_other_states_match_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("details-cases.txt", of_states({title: lines(*fact) for title, fact in FACTS.items()}))


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
    both = timeline(replace(readings.SNAPSHOT, watches=(readings.TAIL, elsewhere)))
    assert [watch.key for watch in details(both, "pods").watches] == ["pods@service", "pods@10.0.0.1:6443"]
    assert [watch.name for watch in details(both, "pods@10.0.0.1:6443").watches] == ["pods at 10.0.0.1:6443"]
    assert details(both, "things").watches == ()
    assert details(Timeline(), "pods").watches == ()


NONE = readings.TAIL.guarantees.violations


def test_newest_events_of_the_watch_are_shown() -> None:
    before = replace(readings.SNAPSHOT, causes=())
    snapshots = [
        replace(before, watches=(readings.changed(readings.TAIL, guarantees={"violations": lost}), readings.STALLED))
        for lost in ({**NONE, "reliable": number} for number in range(MOST_HAPPENED + 2))
    ]
    (pods,) = details(timeline(*snapshots), "pods").watches
    assert len(pods.happened) == MOST_HAPPENED
    assert {event.text for event in pods.happened} == {"pods: 1 event lost: newer ones were delivered (reliable)"}
    assert details(timeline(*snapshots), "jobs").watches[0].happened == ()


def test_hour_has_median_and_highest_estimate() -> None:
    hour = []
    for number, estimate in enumerate((0.01, 3.0, 0.02)):
        judged = readings.window("1m", 60.0, 120)
        quantiles = tuple(replace(quantile, estimate=estimate) for quantile in judged.quantiles)
        stream = replace(readings.TAIL, track=replace(readings.TRACK, judged=replace(judged, quantiles=quantiles)))
        hour.append(replace(readings.SNAPSHOT, watches=(stream,), at_wall=readings.SNAPSHOT.at_wall + 5 * number))
    (pods,) = details(timeline(*hour), "pods").watches
    (past,) = [section.facts for section in pods.sections if section.title == "Last hour"]
    assert [one.text for one in past[:3]] == ["20 ms", "3 s at 2023-11-14 22:13:26 UTC", "3 of 3 have a P99"]


def test_each_reason_why_an_event_is_not_measured_is_explained() -> None:
    assert {*readings.TRACK.unmeasured} - {*NO_SAMPLE} == {"initial"}
