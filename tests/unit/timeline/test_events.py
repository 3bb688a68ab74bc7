"""The events between two snapshots: `tests/golden/events.txt` has a paragraph for each change."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.support.transcripts import of_states
from tests.unit.serve import readings
from tests.unit.timeline.test_condition import grown
from watchslo.snapshot import Snapshot, TimeTravelReading, WindowVerdict
from watchslo.timeline.events import EventKind, compare
from watchslo.timeline.self_checks import summary
from watchslo.timeline.timeline import MOST_EVENTS, Timeline

BEFORE = replace(readings.SNAPSHOT, causes=(), watches=(readings.TAIL,))


def watch(**changes: object) -> Snapshot:
    return replace(BEFORE, watches=(readings.changed(readings.TAIL, **changes),))


def monitor(**changes: Any) -> Snapshot:
    return replace(BEFORE, monitor=replace(readings.MONITOR, **changes))


def apiserver(**changes: Any) -> Snapshot:
    return replace(BEFORE, apiservers=(replace(readings.SERVICE, **changes), readings.OTHER))


def expired(before: Snapshot) -> Snapshot:
    """Return the snapshot after the revisions of all watches expired."""
    return replace(
        before, watches=tuple(readings.changed(one, lists={"expired": {"stream": 1}}) for one in before.watches)
    )


ROUTINE = {("deadline", "deadline"): 9, ("own", "reload"): 1, ("expired", "expired"): 1}
MANY = readings.many(9)
STALLED = replace(BEFORE, watches=(readings.STALLED,))
ALONE = replace(BEFORE, apiservers=(readings.SERVICE,))
SILENT = apiserver(unresponsive_for=30.0)
BLAMED = replace(BEFORE, causes=(readings.STUCK,))

CHANGES: Mapping[str, tuple[Snapshot, Snapshot]] = {
    "Nothing": (BEFORE, BEFORE),
    "Routine closes": (BEFORE, watch(outcomes={"closed": ROUTINE})),
    "A first list": (BEFORE, watch(lists={"relists": {"start": 2}})),
    "Events": (BEFORE, watch(received={"events": {"ADDED": 1000}})),
    "A new watch": (BEFORE, replace(BEFORE, watches=(readings.TAIL, readings.STALLED))),
    "A close": (BEFORE, watch(outcomes={"closed": {("network", "reset"): 2}})),
    "A close of a watch that started again": (
        watch(outcomes={"closed": {("network", "reset"): 5}}),
        watch(outcomes={"closed": {("network", "reset"): 1}}),
    ),
    "Several closes": (BEFORE, watch(outcomes={"closed": {("server", "forced"): 3}})),
    "A 410": (BEFORE, watch(lists={"expired": {"stream": 1}})),
    "The same of many watches": (MANY, expired(MANY)),
    "A list after a 410": (BEFORE, watch(lists={"relists": {"expired": 1}})),
    "A list for the inventory": (BEFORE, watch(lists={"relists": {"inventory": 1}})),
    "A violation": (BEFORE, watch(guarantees={"violations": {"unique": 1}})),
    "Several violations": (BEFORE, watch(guarantees={"violations": {"reliable": 2}})),
    "A stall": (BEFORE, watch(audit={"stalled_for": 30.0})),
    "The end of a stall": (
        STALLED,
        replace(BEFORE, watches=(readings.changed(readings.STALLED, audit={"stalled_for": None}),)),
    ),
    "A reload": (BEFORE, monitor(reloaded_wall=1_700_000_000.0)),
    "A failed reload": (BEFORE, monitor(reload_succeeded=False)),
    "A pause": (BEFORE, monitor(paused=True)),
    "An overload": (BEFORE, monitor(tainted_seconds=2.0)),
    "An upgrade": (BEFORE, apiserver(version="v1.37.0")),
    "A step of a wall clock": (BEFORE, apiserver(offset_steps=2)),
    "An older revision": (BEFORE, apiserver(time_travel=TimeTravelReading(1))),
    "A silent apiserver": (BEFORE, SILENT),
    "The end of its silence": (SILENT, BEFORE),
    "A new apiserver": (ALONE, BEFORE),
    "An apiserver that left": (BEFORE, ALONE),
    "A reset of a clock": (BEFORE, replace(BEFORE, domains=(replace(readings.DOMAIN, resets=1), readings.BLIND))),
    "A cause": (BEFORE, BLAMED),
    "More evidence of it": (
        BLAMED,
        replace(BEFORE, causes=(replace(readings.STUCK, evidence="It has said nothing for 40 s."),)),
    ),
    "The end of a cause": (BLAMED, BEFORE),
}


def test_events_are_those_of_the_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("events.txt", of_states({name: _lines(*change) for name, change in CHANGES.items()}))


def _lines(before: Snapshot, now: Snapshot) -> list[str]:
    return [f"{one.kind}, {one.level.value}: {one.text}" for one in compare(before, now)] or ["(no event)"]


def test_events_name_all_their_watches_by_shared_keys() -> None:
    first, second = (next(compare(MANY, expired(MANY))) for _ in range(2))
    assert first.watches == tuple(("service", f"watch-{number}") for number in range(9))
    assert all(one is other for one, other in zip(first.watches, second.watches, strict=True)), "memory is bounded"


@pytest.mark.parametrize(
    ("apiserver", "watch", "affected"),
    [
        ("service", "jobs", [("service", "jobs")]),
        ("service", None, [("service", "pods"), ("service", "jobs")]),
        (None, "pods", [("service", "pods")]),
        (None, None, [(one.apiserver, one.watch) for one in readings.SNAPSHOT.watches]),
    ],
)
def test_events_of_a_cause_name_the_watches_that_it_affects(
    apiserver: str | None, watch: str | None, affected: list[tuple[str, str]]
) -> None:
    without = replace(readings.SNAPSHOT, causes=())
    cause = replace(readings.STUCK, apiserver=apiserver, watch=watch)
    blamed = replace(without, causes=(cause,))
    assert [[*one.watches] for one in compare(without, blamed)] == [affected]
    assert [[*one.watches] for one in compare(blamed, without)] == [affected]


def test_events_of_a_cause_have_the_cause_as_it_was_last_seen() -> None:
    assert [one.cause for one in (*compare(BEFORE, BLAMED), *compare(BLAMED, BEFORE))] == [readings.STUCK] * 2


class TestChronicle:
    def test_timeline_first_event_is_the_start(self) -> None:
        (started,) = Timeline().observe(BEFORE).happened
        assert (started.kind, started.at_wall) == (EventKind.STARTED, readings.MONITOR.started_wall)

    def test_account_has_all_self_checks_in_one(self) -> None:
        account = Timeline().observe(BEFORE)
        assert account.trust == summary(account.checks, measuring=True)
        account = Timeline().observe(replace(BEFORE, domains=(), watches=()))
        assert account.trust.text == "Cannot tell: nothing is measured."

    def test_timeline_lateness_begins_and_ends_once(self) -> None:
        chronicle = Timeline()
        found: list[str] = []
        good, bad = WindowVerdict.GOOD, WindowVerdict.BAD
        for number, (verdict, samples) in enumerate(((good, 0), (bad, 1), (bad, 2), (good, 2), (good, 3), (good, 4))):
            stream = grown(replace(readings.TAIL, track=replace(readings.TRACK, verdict=verdict)), samples)
            account = chronicle.observe(replace(BEFORE, at_wall=BEFORE.at_wall + 5 * number, watches=(stream,)))
            assert account.number == number + 1
            found += [one.text for one in account.happened]
            assert all(one.watches == (("service", "pods"),) for one in account.happened if "pods" in one.text)
        assert found == ["watchslo started", "pods: late", "pods: in time again"]
        assert [one.text for one in chronicle.happened] == found
        assert chronicle.happened[-1].at_wall == BEFORE.at_wall + 20, "only once an event has come"

    def test_timeline_keeps_a_bounded_number_of_events(self) -> None:
        chronicle = Timeline()
        for number in range(MOST_EVENTS + 10):
            violations = {"reliable": number}
            stream = readings.changed(readings.TAIL, guarantees={"violations": violations})
            chronicle.observe(replace(BEFORE, watches=(stream,)))
        assert len(chronicle.happened) == MOST_EVENTS
