from dataclasses import replace

import pytest

from tests.unit.serve import readings
from watchslo.history.chronicle import HAPPENINGS, Chronicle
from watchslo.history.happenings import Kind, compare
from watchslo.snapshot import Snapshot, StreamReading

BEFORE = replace(readings.SNAPSHOT, causes=(), streams=(readings.TAIL,))


def of(now: Snapshot, before: Snapshot = BEFORE) -> list[tuple[Kind, str]]:
    return [(one.kind, one.text) for one in compare(before, now)]


def of_stream(**changes: object) -> list[tuple[Kind, str]]:
    changed: StreamReading = replace(readings.TAIL, **changes)  # type: ignore[arg-type]
    return of(replace(BEFORE, streams=(changed,)))


def test_where_nothing_changed_nothing_happened() -> None:
    assert of(BEFORE) == []


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        ({"closed": {("network", "reset"): 2}}, Kind.CLOSED, "pods: closed by network (reset)"),
        ({"closed": {("server", "forced"): 3}}, Kind.CLOSED, "pods: closed by server (forced), 3 times"),
        ({"expired": {"stream": 1}}, Kind.EXPIRED, "pods: 410, the revision is forgotten (stream)"),
        ({"relists": {"expired": 1}}, Kind.RELISTED, "pods: started over (expired)"),
        ({"lost": 2}, Kind.LOST, "pods: 2 events lost: others came after"),
        ({"stalled_for": 30.0}, Kind.STALLED, "pods: stalled: it is open, and events are withheld"),
    ],
)
def test_of_a_watch(changes: dict[str, object], kind: Kind, text: str) -> None:
    assert of_stream(**changes) == [(kind, text)]


@pytest.mark.parametrize(
    "changes",
    [
        {"closed": {("deadline", "deadline"): 9, ("own", "reload"): 1, ("expired", "expired"): 1}},
        {"relists": {"start": 2}},
        {"events": {"ADDED": 1000}},
    ],
)
def test_what_is_routine_needs_no_word(changes: dict[str, object]) -> None:
    assert of_stream(**changes) == []


def test_what_many_met_is_told_once() -> None:
    before = readings.many(9)
    streams = tuple(replace(stream, expired={"stream": 1}) for stream in before.streams)
    told = [(Kind.EXPIRED, "watch-0, watch-1, watch-2 and 6 more: 410, the revision is forgotten (stream)")]
    assert of(replace(before, streams=streams), before) == told


def test_a_watch_that_begins_has_met_nothing() -> None:
    assert of(replace(BEFORE, streams=(readings.TAIL, readings.STALLED))) == []


def test_a_stall_that_ends() -> None:
    before = replace(BEFORE, streams=(readings.STALLED,))
    after = replace(BEFORE, streams=(replace(readings.STALLED, stalled_for=None),))
    assert of(after, before) == [(Kind.DELIVERS, "jobs: delivers again")]


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"reloaded_wall": 1_700_000_000.0}, Kind.RELOADED),
        ({"reload_succeeded": False}, Kind.RELOAD_FAILED),
        ({"paused": True}, Kind.PAUSED),
        ({"tainted_seconds": 2.0}, Kind.OVERLOADED),
    ],
)
def test_of_the_monitor(changes: dict[str, object], kind: Kind) -> None:
    (told,) = of(replace(BEFORE, monitor=replace(readings.MONITOR, **changes)))  # type: ignore[arg-type]
    assert told[0] is kind


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"version": "v1.37.0"}, Kind.UPGRADED),
        ({"offset_steps": 2}, Kind.WALL_CLOCK_SET),
        ({"time_travel": 1}, Kind.TIME_TRAVEL),
    ],
)
def test_of_an_apiserver(changes: dict[str, object], kind: Kind) -> None:
    changed = replace(readings.SERVICE, **changes)  # type: ignore[arg-type]
    (told,) = of(replace(BEFORE, apiservers=(changed, readings.OTHER)))
    assert told[0] is kind


def test_apiservers_come_and_go() -> None:
    one = replace(BEFORE, apiservers=(readings.SERVICE,))
    assert of(BEFORE, one) == [(Kind.APISERVER_CAME, "10.0.0.1:6443 is asked from now on")]
    assert of(one, BEFORE) == [(Kind.APISERVER_WENT, "10.0.0.1:6443 is asked no more")]


def test_a_clock_that_began_anew() -> None:
    (told,) = of(replace(BEFORE, domains=(replace(readings.DOMAIN, resets=1), readings.BLIND)))
    assert told[0] is Kind.CLOCK_RESET


def test_causes_begin_and_end() -> None:
    blamed = replace(BEFORE, causes=(readings.STUCK,))
    assert of(blamed) == [(Kind.CAUSE_BEGAN, "cause: The watch of jobs has said nothing for 33.5 s.")]
    assert of(BEFORE, blamed) == [(Kind.CAUSE_ENDED, "cause ended: stalled_stream of jobs of service")]
    surer = replace(readings.STUCK, evidence="It has said nothing for 40 s.")
    assert of(replace(BEFORE, causes=(surer,)), blamed) == []


class TestChronicle:
    def test_begins_with_the_start(self) -> None:
        (started,) = Chronicle().observe(BEFORE).happened
        assert (started.kind, started.at_wall) == (Kind.STARTED, readings.MONITOR.started_wall)

    def test_lateness_begins_and_ends_once(self) -> None:
        chronicle = Chronicle()
        told: list[str] = []
        late = readings.TRACK.objective
        for number, threshold in enumerate((1.0, 0.05, 0.05, 1.0, 1.0)):
            track = replace(readings.TRACK, objective=replace(late, threshold=threshold))
            stream = replace(readings.TAIL, track=track)
            account = chronicle.observe(replace(BEFORE, at_wall=BEFORE.at_wall + 5 * number, streams=(stream,)))
            assert account.number == number + 1
            told += [one.text for one in account.happened]
        assert told == ["watchslo started", "pods: late", "pods: in time again"]
        assert [one.text for one in chronicle.happened] == told

    def test_remembers_no_more_than_it_may(self) -> None:
        chronicle = Chronicle()
        for number in range(HAPPENINGS + 10):
            chronicle.observe(replace(BEFORE, streams=(replace(readings.TAIL, lost=number),)))
        assert len(chronicle.happened) == HAPPENINGS
