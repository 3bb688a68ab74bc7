from dataclasses import replace

import pytest

from tests.unit.serve import readings
from tests.unit.timeline.test_condition import grown
from watchslo.snapshot import Snapshot, TimeTravelReading, WindowVerdict
from watchslo.timeline.events import EventKind, compare
from watchslo.timeline.self_checks import summary
from watchslo.timeline.timeline import MOST_EVENTS, Timeline

BEFORE = replace(readings.SNAPSHOT, causes=(), streams=(readings.TAIL,))


def of(now: Snapshot, before: Snapshot = BEFORE) -> list[tuple[EventKind, str]]:
    return [(one.kind, one.text) for one in compare(before, now)]


def of_stream(**changes: object) -> list[tuple[EventKind, str]]:
    return of(replace(BEFORE, streams=(readings.changed(readings.TAIL, **changes),)))


def test_compare_equal_snapshots_yields_no_event() -> None:
    assert of(BEFORE) == []


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        ({"outcomes": {"closed": {("network", "reset"): 2}}}, EventKind.CLOSED, "pods: closed by network (reset)"),
        (
            {"outcomes": {"closed": {("server", "forced"): 3}}},
            EventKind.CLOSED,
            "pods: closed by server (forced), 3 times",
        ),
        ({"lists": {"expired": {"stream": 1}}}, EventKind.EXPIRED, "pods: 410, the revision expired (stream)"),
        ({"lists": {"relists": {"expired": 1}}}, EventKind.RELISTED, "pods: started over (expired)"),
        ({"lists": {"relists": {"inventory": 1}}}, EventKind.RELISTED, "pods: listed again (inventory)"),
        (
            {"guarantees": {"violations": {"reliable": 2}}},
            EventKind.VIOLATED,
            "pods: 2 events lost: newer ones were delivered (reliable)",
        ),
        (
            {"guarantees": {"violations": {"unique": 1}}},
            EventKind.VIOLATED,
            "pods: 1 event delivered twice (unique)",
        ),
        (
            {"audit": {"stalled_for": 30.0}},
            EventKind.STALLED,
            "pods: stalled: the watch is open, but delivers no events",
        ),
    ],
)
def test_compare_change_of_a_watch_yields_its_event(changes: dict[str, object], kind: EventKind, text: str) -> None:
    assert of_stream(**changes) == [(kind, text)]


@pytest.mark.parametrize(
    "changes",
    [
        {"outcomes": {"closed": {("deadline", "deadline"): 9, ("own", "reload"): 1, ("expired", "expired"): 1}}},
        {"lists": {"relists": {"start": 2}}},
        {"received": {"events": {"ADDED": 1000}}},
    ],
)
def test_compare_routine_change_yields_no_event(changes: dict[str, object]) -> None:
    assert of_stream(**changes) == []


def test_compare_same_change_of_many_watches_yields_one_event() -> None:
    before = readings.many(9)
    streams = tuple(readings.changed(stream, lists={"expired": {"stream": 1}}) for stream in before.streams)
    found = [(EventKind.EXPIRED, "watch-0, watch-1, watch-2 and 6 more: 410, the revision expired (stream)")]
    assert of(replace(before, streams=streams), before) == found


def test_events_name_all_their_watches_by_shared_keys() -> None:
    before = readings.many(9)
    streams = tuple(readings.changed(stream, lists={"expired": {"stream": 1}}) for stream in before.streams)
    first, second = (next(compare(before, replace(before, streams=streams))) for _ in range(2))
    assert first.watches == tuple(("service", f"watch-{number}") for number in range(9))
    assert all(one is other for one, other in zip(first.watches, second.watches, strict=True)), "memory is bounded"


@pytest.mark.parametrize(
    ("apiserver", "watch", "affected"),
    [
        ("service", "jobs", [("service", "jobs")]),
        ("service", None, [("service", "pods"), ("service", "jobs")]),
        (None, "pods", [("service", "pods")]),
        (None, None, [(one.apiserver, one.watch) for one in readings.SNAPSHOT.streams]),
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


def test_compare_new_watch_yields_no_event() -> None:
    assert of(replace(BEFORE, streams=(readings.TAIL, readings.STALLED))) == []


def test_compare_end_of_stall_yields_delivers() -> None:
    before = replace(BEFORE, streams=(readings.STALLED,))
    after = replace(BEFORE, streams=(readings.changed(readings.STALLED, audit={"stalled_for": None}),))
    assert of(after, before) == [(EventKind.DELIVERS, "jobs: delivers again")]


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"reloaded_wall": 1_700_000_000.0}, EventKind.RELOADED),
        ({"reload_succeeded": False}, EventKind.RELOAD_FAILED),
        ({"paused": True}, EventKind.PAUSED),
        ({"tainted_seconds": 2.0}, EventKind.OVERLOADED),
    ],
)
def test_compare_change_of_the_monitor_yields_its_event(changes: dict[str, object], kind: EventKind) -> None:
    (found,) = of(replace(BEFORE, monitor=replace(readings.MONITOR, **changes)))  # type: ignore[arg-type]
    assert found[0] is kind


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"version": "v1.37.0"}, EventKind.UPGRADED),
        ({"offset_steps": 2}, EventKind.WALL_CLOCK_SET),
        ({"time_travel": TimeTravelReading(1)}, EventKind.TIME_TRAVEL),
        ({"unresponsive_for": 12.0}, EventKind.UNRESPONSIVE),
    ],
)
def test_compare_change_of_an_apiserver_yields_its_event(changes: dict[str, object], kind: EventKind) -> None:
    changed = replace(readings.SERVICE, **changes)  # type: ignore[arg-type]
    (found,) = of(replace(BEFORE, apiservers=(changed, readings.OTHER)))
    assert found[0] is kind


def test_compare_added_and_removed_apiservers_yield_events() -> None:
    one = replace(BEFORE, apiservers=(readings.SERVICE,))
    assert of(BEFORE, one) == [(EventKind.APISERVER_CAME, "apiserver 10.0.0.1:6443 was added")]
    assert of(one, BEFORE) == [(EventKind.APISERVER_WENT, "apiserver 10.0.0.1:6443 was removed")]


def test_compare_clock_reset_yields_its_event() -> None:
    (found,) = of(replace(BEFORE, domains=(replace(readings.DOMAIN, resets=1), readings.BLIND)))
    assert found[0] is EventKind.CLOCK_RESET


def test_compare_causes_begin_and_end() -> None:
    blamed = replace(BEFORE, causes=(readings.STUCK,))
    assert of(blamed) == [(EventKind.CAUSE_BEGAN, "cause: The watch of jobs has said nothing for 33.5 s.")]
    assert of(BEFORE, blamed) == [(EventKind.CAUSE_ENDED, "stalled_stream ended: jobs at service")]
    surer = replace(readings.STUCK, evidence="It has said nothing for 40 s.")
    assert of(replace(BEFORE, causes=(surer,)), blamed) == []


def test_events_of_a_cause_have_the_cause_as_it_was_last_seen() -> None:
    blamed = replace(BEFORE, causes=(readings.STUCK,))
    assert [one.cause for one in (*compare(BEFORE, blamed), *compare(blamed, BEFORE))] == [readings.STUCK] * 2


class TestChronicle:
    def test_timeline_first_event_is_the_start(self) -> None:
        (started,) = Timeline().observe(BEFORE).happened
        assert (started.kind, started.at_wall) == (EventKind.STARTED, readings.MONITOR.started_wall)

    def test_account_has_all_self_checks_in_one(self) -> None:
        account = Timeline().observe(BEFORE)
        assert account.trust == summary(account.checks, measuring=True)
        account = Timeline().observe(replace(BEFORE, domains=(), streams=()))
        assert account.trust.text == "Cannot tell: nothing is measured."

    def test_timeline_lateness_begins_and_ends_once(self) -> None:
        chronicle = Timeline()
        found: list[str] = []
        good, bad = WindowVerdict.GOOD, WindowVerdict.BAD
        for number, (verdict, samples) in enumerate(((good, 0), (bad, 1), (bad, 2), (good, 2), (good, 3), (good, 4))):
            stream = grown(replace(readings.TAIL, track=replace(readings.TRACK, verdict=verdict)), samples)
            account = chronicle.observe(replace(BEFORE, at_wall=BEFORE.at_wall + 5 * number, streams=(stream,)))
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
            chronicle.observe(replace(BEFORE, streams=(stream,)))
        assert len(chronicle.happened) == MOST_EVENTS


def test_apiserver_that_answers_again_has_an_event() -> None:
    silent = replace(BEFORE, apiservers=(replace(BEFORE.apiservers[0], unresponsive_for=30.0), *BEFORE.apiservers[1:]))
    assert of(BEFORE, silent) == [(EventKind.ANSWERS, f"{BEFORE.apiservers[0].name} answers again")]
