"""The protocol, step by step. Random numbers are 0.5: backoff waits 1.2, 2.4, 4.8 ... s, watches last 450 s."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from watchslo.snapshot import Guarantee
from watchslo.watch.decode import (
    Added,
    Annotations,
    ApiStatus,
    Bookmark,
    ChangedObject,
    Deleted,
    Details,
    Error,
    Frame,
    Frames,
    Mark,
    MarkMetadata,
    Modified,
    ObjectMetadata,
)
from watchslo.watch.failure import ENDED, RULES, Failure, Phase, Reason, because, classify_status
from watchslo.watch.machine import Machine
from watchslo.watch.messages import (
    Batch,
    Begin,
    BookmarkSeen,
    Cancel,
    Closed,
    Emit,
    Expired,
    Garbage,
    GaveUp,
    Halt,
    Input,
    ListDone,
    Listed,
    ListFailed,
    ListRequest,
    Note,
    Opened,
    Output,
    Received,
    Relisted,
    RelistReason,
    Reopen,
    Reset,
    Sent,
    Start,
    TimeTravel,
    Unparsable,
    Violated,
    WakeAt,
    WatchClosed,
    WatchOpened,
    WatchQueued,
    WatchRequest,
    Woken,
)
from watchslo.watch.strategy import PAGED, STREAM, TAIL, Strategy
from watchslo.watch.transitions import CONTRACTS, TRANSITIONS, State, Trigger, transitions_markdown

REVISION = 100
REFUSED = because(Reason.REFUSED)
EXPIRED = classify_status(410, None, None, Phase.OPEN)
SERVER_ERROR = classify_status(500, None, None, Phase.OPEN)
NOT_FOUND = classify_status(404, None, None, Phase.OPEN)
FORBIDDEN = classify_status(403, None, None, Phase.LIST)
THROTTLED = classify_status(429, None, 7.0, Phase.LIST)
UNPARSABLE = because(Reason.UNPARSABLE)
TIME_TRAVEL = because(Reason.TIME_TRAVEL)


class Run:
    """A machine with its own time, which remembers the request in flight."""

    def __init__(self, strategy: Strategy = TAIL, random: Callable[[], float] = lambda: 0.5) -> None:
        self.machine = Machine(strategy, 500, random)
        self.now = 1000.0
        self.op = 0

    def feed(self, happened: Input, *, after: float = 0.0) -> list[Output]:
        self.now += after
        outputs = self.machine.receive(happened, self.now)
        for output in outputs:
            if isinstance(output, Start):
                self.op = output.op
        return outputs

    def close(self, failure: Failure, *, after: float = 0.0) -> list[Output]:
        return self.feed(Closed(self.op, failure), after=after)

    def page(self, revision: int | None = REVISION, *, after: float = 0.0, token: str | None = None) -> list[Output]:
        return self.feed(Listed(self.op, revision, items=3, size=200, continue_token=token), after=after)

    def bring(self, *events: Frame, garbage: int = 0) -> list[Output]:
        return self.feed(Received(self.op, Frames(list(events), garbage), received=self.now - 0.001))

    def wake(self, *, after: float) -> list[Output]:
        return self.feed(Woken(), after=after)


def change(
    kind: type[Added | Modified | Deleted], revision: object, created: str | None = None, uid: str | None = None
) -> Frame:
    return kind(
        object=ChangedObject(
            metadata=ObjectMetadata(resource_version=str(revision), creation_timestamp=created, uid=uid)
        )
    )


def bookmark(revision: object, *, end: str | None = None) -> Frame:
    annotations = Annotations(initial_events_end=end)
    return Bookmark(object=Mark(metadata=MarkMetadata(resource_version=str(revision), annotations=annotations)))


def listing(strategy: Strategy = TAIL) -> Run:
    run = Run(strategy)
    run.feed(Begin())
    return run


def opening(strategy: Strategy = TAIL) -> Run:
    run = listing(strategy)
    run.page()
    run.feed(Sent(run.op))
    return run


def watching(strategy: Strategy = TAIL) -> Run:
    run = opening(strategy)
    run.feed(Opened(run.op))
    return run


def relisting() -> Run:
    run = listing()
    run.close(REFUSED)
    return run


def reopening() -> Run:
    run = opening()
    run.close(REFUSED)
    return run


def away() -> Run:
    run = listing()
    run.close(NOT_FOUND)
    return run


def halted() -> Run:
    run = listing()
    run.feed(Halt())
    return run


IN: dict[State, Callable[[], Run]] = {
    State.NEW: Run,
    State.LISTING: listing,
    State.RELISTING: relisting,
    State.OPENING: opening,
    State.WATCHING: watching,
    State.REOPENING: reopening,
    State.AWAY: away,
    State.HALTED: halted,
}


def facts(outputs: Sequence[Output]) -> list[object]:
    return [output.fact for output in outputs if isinstance(output, Note)]


def emitted(outputs: Sequence[Output]) -> list[int]:
    return [revision for output in outputs if isinstance(output, Emit) for revision in output.batch.revisions]


def started(outputs: Sequence[Output]) -> ListRequest | WatchRequest:
    [request] = [output.request for output in outputs if isinstance(output, Start)]
    return request


def alarm(outputs: Sequence[Output]) -> float:
    [time] = [output.time for output in outputs if isinstance(output, WakeAt)]
    return time


# The table


def test_every_state_can_be_reached() -> None:
    for state, reach in IN.items():
        assert reach().machine.state is state


def test_every_state_has_a_contract_and_transitions() -> None:
    assert set(CONTRACTS) == set(TRANSITIONS) == set(State)
    assert {trigger for ways in TRANSITIONS.values() for trigger in ways} == set(Trigger)


def test_every_state_accepts_halt() -> None:
    assert all(ways[Trigger.HALT] is State.HALTED for ways in TRANSITIONS.values())


def test_transitions_markdown_has_a_row_for_each_state() -> None:
    lines = transitions_markdown().splitlines()
    assert lines[:3] == [
        "| state | contract | goes to |",
        "|---|---|---|",
        "| `new` | Nothing is known, and no request was sent. | begin → `listing`; halt → `halted` |",
    ]
    assert len(lines) == 2 + len(State)
    assert transitions_markdown().endswith(" |\n")


# From a list to a watch


def test_new_machine_has_no_revision() -> None:
    machine = Run().machine
    assert machine.strategy is TAIL
    assert machine.revision is None
    assert machine.failure is None


def test_tail_watches_from_the_revision_of_an_empty_list() -> None:
    run = Run()
    assert run.feed(Begin()) == [Note(Relisted(RelistReason.START)), Start(1, ListRequest(absent_name=True))]
    assert run.page(after=0.25) == [
        Note(ListDone("tail", REVISION, items=3, size=200, pages=1, took=0.25)),
        Start(2, WatchRequest(REVISION, timeout=450, bookmarks=True)),
    ]
    assert run.machine.revision == REVISION
    assert run.feed(Opened(2), after=0.5) == [Note(WatchOpened(0.5))]
    assert run.machine.state is State.WATCHING
    assert run.machine.failure is None


def test_tail_does_not_continue_a_throttled_list() -> None:
    assert started(listing().page(token="more")) == WatchRequest(REVISION, 450)


def test_paged_requests_all_pages_before_the_watch() -> None:
    run = Run(PAGED)
    assert started(run.feed(Begin())) == ListRequest(limit=500)
    assert run.page(100, after=1.0, token="two") == [Start(2, ListRequest(limit=500, continue_token="two"))]
    assert run.machine.state is State.LISTING
    assert started(run.page(101, after=1.0, token="three")) == ListRequest(limit=500, continue_token="three")
    assert run.page(102, after=1.0, token="") == [
        Note(ListDone("paged", 100, items=9, size=600, pages=3, took=3.0)),
        Start(4, WatchRequest(100, timeout=450)),
    ]


def test_pages_have_the_configured_size() -> None:
    machine = Machine(PAGED, 7, lambda: 0.5)
    assert started(machine.receive(Begin(), 0.0)) == ListRequest(limit=7)


@pytest.mark.parametrize(("chance", "timeout"), [(0.0, 300), (0.5, 450), (0.9999, 599)])
def test_watch_timeout_is_five_to_ten_minutes(chance: float, timeout: int) -> None:
    run = Run(random=lambda: chance)
    run.feed(Begin())
    assert started(run.page()) == WatchRequest(REVISION, timeout)


def test_failed_page_is_requested_again() -> None:
    run = listing(PAGED)
    run.page(token="two", after=1.0)
    assert run.close(REFUSED, after=1.0) == [Note(ListFailed(REFUSED, PAGED.name)), WakeAt(1003.2)]
    assert run.machine.state is State.RELISTING
    assert run.wake(after=2.0) == [Start(3, ListRequest(limit=500, continue_token="two"))]
    assert facts(run.page(after=1.0)) == [ListDone("paged", REVISION, items=6, size=400, pages=2, took=5.0)]


def test_failed_first_page_does_not_count_in_the_duration() -> None:
    run = listing()
    run.close(REFUSED, after=1.0)
    run.wake(after=9.0)
    assert facts(run.page(after=0.5)) == [ListDone("tail", REVISION, 3, 200, 1, took=0.5)]


def test_expired_page_restarts_the_list() -> None:
    run = listing(PAGED)
    run.page(token="two")
    assert run.close(EXPIRED) == [Note(Expired(Phase.LIST)), Note(ListFailed(EXPIRED, PAGED.name)), WakeAt(1001.2)]
    assert run.machine.state is State.RELISTING
    assert run.wake(after=1.2) == [Start(3, ListRequest(limit=500))]
    assert facts(run.page()) == [ListDone("paged", REVISION, items=3, size=200, pages=1, took=0.0)]


def test_expired_page_does_not_expire_its_revision() -> None:
    run = watching(PAGED)
    run.feed(Reset())
    run.wake(after=10.0)
    run.page(REVISION, token="two")
    run.close(EXPIRED)
    run.wake(after=10.0)
    assert started(run.page(5)) == WatchRequest(5, 450)


def test_throttled_tail_uses_limit_one_until_a_list_succeeds() -> None:
    run = listing()
    assert run.close(THROTTLED) == [Note(ListFailed(THROTTLED, TAIL.name)), WakeAt(1007.4)]
    assert run.wake(after=7.4) == [Start(2, ListRequest(limit=1, absent_namespace=True))]
    run.close(REFUSED)
    assert started(run.wake(after=60.0)) == ListRequest(limit=1, absent_namespace=True)
    run.page()
    run.close(EXPIRED)
    assert started(run.wake(after=60.0)) == ListRequest(absent_name=True)


def test_throttled_watch_does_not_change_the_list() -> None:
    run = opening()
    run.close(THROTTLED)
    run.wake(after=7.4)
    run.close(EXPIRED)
    assert started(run.wake(after=60.0)) == ListRequest(absent_name=True)


def test_throttled_page_is_requested_again() -> None:
    run = listing(PAGED)
    run.page(token="two")
    run.close(THROTTLED)
    assert started(run.wake(after=7.4)) == ListRequest(limit=500, continue_token="two")


def test_repeatedly_failing_list_is_noted_as_relist_once() -> None:
    run = Run()
    outputs = run.feed(Begin())
    for _ in range(12):
        outputs += run.close(SERVER_ERROR)
        outputs += run.wake(after=60.0)
    assert facts(outputs) == [Relisted(RelistReason.START), *[ListFailed(SERVER_ERROR, TAIL.name)] * 12]


def test_repeatedly_failing_page_restarts_the_list() -> None:
    run = listing(PAGED)
    run.page(token="two")
    for _ in range(4):
        run.close(SERVER_ERROR)
        assert started(run.wake(after=60.0)) == ListRequest(limit=500, continue_token="two")
    run.close(SERVER_ERROR)
    assert started(run.wake(after=60.0)) == ListRequest(limit=500)


# Events


def test_live_events_are_emitted_in_order() -> None:
    run = watching()
    events = [change(Added, 101, "2026-11-21T11:58:25Z"), change(Modified, 103), change(Deleted, 104)]
    assert run.bring(*events) == [
        Emit(
            Batch(
                received=999.999,
                revisions=[101, 103, 104],
                types=["ADDED", "MODIFIED", "DELETED"],
                created=["2026-11-21T11:58:25Z", None, None],
            )
        )
    ]
    assert run.machine.revision == 104
    assert emitted(run.bring(change(Added, 105))) == [105]


def test_empty_chunk_gives_no_outputs() -> None:
    assert watching().bring() == []


@pytest.mark.parametrize("kind", [Added, Modified, Deleted])
def test_events_covered_by_the_list_are_not_emitted(kind: type[Added | Modified | Deleted]) -> None:
    run = watching()
    assert run.bring(change(kind, REVISION - 1), change(kind, REVISION)) == [
        Note(Violated(Guarantee.RESUMABLE, 2, REVISION - 1, REVISION))
    ]
    assert run.machine.revision == REVISION


def test_out_of_order_events_are_counted_and_not_emitted() -> None:
    run = watching()
    outputs = run.bring(change(Added, 105), change(Added, 104), change(Added, 106), change(Added, 105))
    assert emitted(outputs) == [105, 106]
    assert facts(outputs) == [Violated(Guarantee.ORDERED, 2, 104, 105)]
    assert run.machine.revision == 106


def test_several_events_of_one_revision_are_emitted() -> None:
    """For example, etcd deletes all keys of one lease at one revision."""
    run = watching()
    assert emitted(run.bring(change(Deleted, 105), change(Deleted, 105))) == [105, 105]
    assert emitted(run.bring(change(Deleted, 105), change(Deleted, 106))) == [105, 106]
    assert facts(run.bring(bookmark(107), change(Deleted, 106), change(Deleted, 107)))[1:] == [
        Violated(Guarantee.BOOKMARKABLE, 2, 106, 107)
    ]


def test_bookmarks_advance_the_revision_without_events() -> None:
    run = watching()
    outputs = run.bring(change(Added, 101), bookmark(110), change(Added, 110), change(Added, 111))
    assert outputs == [
        Note(BookmarkSeen(110)),
        Emit(Batch(999.999, [101, 111], ["ADDED", "ADDED"], [None, None])),
        Note(Violated(Guarantee.BOOKMARKABLE, 1, 110, 110)),
    ]
    assert run.bring(bookmark(120)) == [Note(BookmarkSeen(120))]
    assert run.machine.revision == 120


def test_bookmark_of_an_older_revision_violates_a_guarantee() -> None:
    run = watching()
    assert run.bring(bookmark(REVISION)) == [Note(BookmarkSeen(REVISION))]
    assert run.bring(bookmark(REVISION - 1)) == [Note(Violated(Guarantee.BOOKMARKABLE, 1, REVISION - 1, REVISION - 1))]
    assert run.machine.revision == REVISION


def test_unparsable_revisions_are_counted_and_not_emitted() -> None:
    run = watching()
    outputs = run.bring(change(Added, "abc"), bookmark("-5"), change(Added, 101), change(Added, 2**63))
    assert emitted(outputs) == [101]
    assert facts(outputs) == [Unparsable(3)]
    assert run.machine.revision == 101


def test_garbage_is_counted() -> None:
    run = watching()
    outputs = run.bring(change(Added, 101), garbage=2)
    assert emitted(outputs) == [101]
    assert facts(outputs) == [Garbage(2)]
    assert run.machine.state is State.WATCHING


def test_expiry_in_an_open_watch_starts_over() -> None:
    run = watching()
    error = Error(object=ApiStatus(code=410, reason="Expired"))
    run.now += 3.0
    expired = because(Reason.EXPIRED, status=410)
    assert run.bring(change(Added, 101), error, change(Added, 102)) == [
        Emit(Batch(1002.999, [101], ["ADDED"], [None])),
        Cancel(2),
        Note(WatchClosed(expired, lived=3.0)),
        Note(Expired(Phase.STREAM)),
        Note(Relisted(RelistReason.EXPIRED)),
        WakeAt(1010.0),
    ]
    assert run.machine.state is State.RELISTING
    assert run.machine.failure == expired
    assert run.wake(after=7.4) == [Start(3, ListRequest(absent_name=True))]
    assert started(run.page(101)) == WatchRequest(101, 450)


def test_other_error_in_an_open_watch_resumes() -> None:
    run = watching()
    error = Error(object=ApiStatus(code=429, details=Details(retry_after_seconds=9)))
    outputs = run.bring(change(Added, 101), error)
    assert outputs[1:] == [
        Cancel(2),
        Note(WatchClosed(because(Reason.THROTTLED, status=429, retry_after=9.0), lived=0.0)),
        WakeAt(1009.4),
    ]
    assert started(run.wake(after=9.4)) == WatchRequest(101, 450)


# How watches end


def test_watch_that_reached_its_timeout_is_reopened_at_once() -> None:
    run = watching()
    run.bring(bookmark(150))
    deadline = because(Reason.DEADLINE)
    assert run.close(ENDED, after=449.0) == [Note(WatchClosed(deadline, lived=449.0)), WakeAt(1449.0)]
    assert run.machine.state is State.REOPENING
    assert run.machine.failure is None
    assert run.wake(after=0.0) == [Start(3, WatchRequest(150, 450))]


def test_watch_that_ended_before_its_timeout_is_forced() -> None:
    run = watching()
    assert run.close(ENDED, after=448.5) == [Note(WatchClosed(ENDED, lived=448.5)), WakeAt(1448.5)]
    assert run.machine.failure == ENDED


@pytest.mark.parametrize(("lived", "wait"), [(10.0, 0.0), (9.75, 1.2)])
@pytest.mark.parametrize("reason", [Reason.RESET, Reason.EARLY_EOF, Reason.TIMEOUT, Reason.SERVER_ERROR])
def test_only_a_healthy_watch_is_resumed_at_once(reason: Reason, lived: float, wait: float) -> None:
    run = watching()
    outputs = run.close(because(reason), after=lived)
    assert facts(outputs) == [WatchClosed(because(reason), lived=lived)]
    assert alarm(outputs) == pytest.approx(run.now + wait)
    assert run.machine.state is State.REOPENING


def test_retry_after_applies_to_a_healthy_watch() -> None:
    run = watching()
    assert alarm(run.close(because(Reason.THROTTLED, retry_after=0.0), after=100.0)) == 1101.2


def test_list_waits_also_after_a_healthy_watch() -> None:
    run = watching()
    assert alarm(run.close(because(Reason.OVERSIZE), after=100.0)) == 1105.5


def test_oversized_event_is_skipped_by_a_list() -> None:
    run = watching()
    assert facts(run.close(because(Reason.OVERSIZE), after=1.0)) == [
        WatchClosed(because(Reason.OVERSIZE), lived=1.0),
        Relisted(RelistReason.ERRORS),
    ]
    assert run.machine.state is State.RELISTING


def test_watch_that_never_opened_has_no_lifetime() -> None:
    run = opening()
    assert run.close(REFUSED, after=2.0) == [Note(WatchClosed(REFUSED, lived=None)), WakeAt(1003.2)]
    assert run.machine.state is State.REOPENING
    assert run.machine.failure == REFUSED
    assert run.wake(after=1.2) == [Start(3, WatchRequest(REVISION, 450))]


def test_wait_for_the_turn_of_a_watch_is_noted_and_is_not_part_of_its_opening() -> None:
    run = listing()
    run.page()
    assert facts(run.feed(Sent(run.op), after=7.0)) == [WatchQueued(1000.0, 1007.0)]
    assert facts(run.feed(Opened(run.op), after=0.5)) == [WatchOpened(0.5)]


def test_wait_of_a_watch_that_is_given_up_before_its_turn_is_noted() -> None:
    run = listing()
    run.page()
    assert facts(run.feed(Reopen(), after=7.0))[0] == WatchQueued(1000.0, 1007.0)
    assert run.feed(Sent(run.op)) == []


def test_waits_for_turns_are_not_part_of_the_duration_of_a_list() -> None:
    """Both pages wait for 5 s, and take a second."""
    run = listing(PAGED)
    done: list[object] = []
    for token in ("more", None):
        assert run.feed(Sent(run.op), after=5.0) == []
        done = facts(run.page(token=token, after=1.0))
    assert [fact.took for fact in done if isinstance(fact, ListDone)] == [2.0]


def test_wait_for_its_turn_is_not_part_of_the_duration_of_a_streamed_list() -> None:
    run = listing(STREAM)
    run.feed(Sent(run.op), after=5.0)
    run.feed(Opened(run.op), after=0.5)
    done = facts(run.bring(bookmark(REVISION, end="true")))
    assert [fact.took for fact in done if isinstance(fact, ListDone)] == [0.5]


def test_clean_end_before_the_opening_is_not_a_deadline() -> None:
    run = opening()
    assert facts(run.close(ENDED, after=450.0)) == [WatchClosed(ENDED, lived=None)]


def test_waits_grow_and_reset_after_health() -> None:
    run = opening()
    waits = []
    for _ in range(7):
        waits.append(alarm(run.close(REFUSED)) - run.now)
        run.wake(after=waits[-1])
    assert waits == pytest.approx([1.2, 2.4, 4.8, 9.6, 19.2, 38.4, 45.0])
    run.feed(Opened(run.op))
    run.close(ENDED, after=120.1)
    run.wake(after=0.0)
    assert alarm(run.close(REFUSED)) == pytest.approx(run.now + 1.2)


def closed_for(run: Run, *, lived: float = 0.0) -> Failure:
    """Close the watch cleanly, open it again, and return the failure that the machine noted."""
    [closed] = [fact for fact in facts(run.close(ENDED, after=lived)) if isinstance(fact, WatchClosed)]
    run.wake(after=60.0)
    if run.machine.state is State.LISTING:
        run.page()
    run.feed(Opened(run.op))
    return closed.failure


def test_watches_closed_repeatedly_without_events_are_empty_closes() -> None:
    run = watching()
    reasons = [closed_for(run).reason for _ in range(3)]
    assert reasons == [Reason.FORCED, Reason.EMPTY_CLOSE, Reason.EMPTY_CLOSE]
    run.bring(bookmark(101))
    assert [closed_for(run).reason for _ in range(3)] == [Reason.FORCED, Reason.FORCED, Reason.EMPTY_CLOSE]


def test_healthy_watch_is_not_an_empty_close() -> None:
    run = watching()
    assert closed_for(run, lived=9.9).reason is Reason.FORCED
    assert closed_for(run, lived=10.0).reason is Reason.FORCED
    assert closed_for(run, lived=9.9).reason is Reason.EMPTY_CLOSE


def test_watch_with_a_bookmark_is_not_an_empty_close() -> None:
    run = watching()
    for _ in range(3):
        run.bring(bookmark(REVISION))
        assert closed_for(run).reason is Reason.FORCED


def test_watch_with_only_garbage_ends_as_garbage() -> None:
    run = watching()
    run.bring(garbage=1)
    run.bring()
    assert closed_for(run, lived=100.0) == because(Reason.GARBAGE)
    run.bring(garbage=1)
    run.bring(change(Added, 101))
    run.bring(garbage=1)
    assert closed_for(run).reason is Reason.FORCED


# Errors, and when to start over


def test_five_errors_at_one_revision_start_over() -> None:
    run = opening()
    for _ in range(4):
        assert facts(run.close(SERVER_ERROR)) == [WatchClosed(SERVER_ERROR, lived=None)]
        assert started(run.wake(after=60.0)) == WatchRequest(REVISION, 450)
    assert facts(run.close(SERVER_ERROR)) == [
        WatchClosed(SERVER_ERROR, lived=None),
        Relisted(RelistReason.ERRORS),
    ]
    assert run.machine.state is State.RELISTING
    assert started(run.wake(after=60.0)) == ListRequest(absent_name=True)
    run.page()
    for _ in range(4):
        run.close(SERVER_ERROR)
        assert started(run.wake(after=60.0)) == WatchRequest(REVISION, 450)
    assert Relisted(RelistReason.ERRORS) in facts(run.close(SERVER_ERROR))


def test_newer_revision_resets_the_errors() -> None:
    run = opening()
    for _ in range(4):
        run.close(SERVER_ERROR)
        run.wake(after=60.0)
    run.feed(Opened(run.op))
    run.bring(change(Added, 101))
    for _ in range(4):
        run.close(SERVER_ERROR)
        assert started(run.wake(after=60.0)) == WatchRequest(101, 450)
    run.close(SERVER_ERROR)
    assert run.machine.state is State.RELISTING


def test_healthy_watch_resets_the_errors_of_its_revision() -> None:
    run = opening()
    for _ in range(4):
        run.close(SERVER_ERROR)
        run.wake(after=60.0)
    run.feed(Opened(run.op))
    run.close(SERVER_ERROR, after=10.0)
    run.wake(after=0.0)
    for _ in range(4):
        run.close(SERVER_ERROR)
        assert started(run.wake(after=60.0)) == WatchRequest(REVISION, 450)
    run.close(SERVER_ERROR)
    assert run.machine.state is State.RELISTING


def test_list_errors_do_not_count_for_the_new_revision() -> None:
    run = opening()
    run.close(EXPIRED)
    run.wake(after=60.0)
    for _ in range(4):
        run.close(SERVER_ERROR)
        run.wake(after=60.0)
    run.page(101)
    for _ in range(4):
        run.close(SERVER_ERROR)
        assert started(run.wake(after=60.0)) == WatchRequest(101, 450)


def test_list_errors_do_not_count_for_the_same_revision() -> None:
    run = watching()
    run.close(because(Reason.OVERSIZE))
    run.wake(after=60.0)
    for _ in range(4):
        run.close(SERVER_ERROR)
        run.wake(after=60.0)
    run.page(REVISION)
    run.close(SERVER_ERROR)
    assert run.machine.state is State.REOPENING


@pytest.mark.parametrize(
    "reason",
    [Reason.REFUSED, Reason.THROTTLED, Reason.TIMEOUT, Reason.TLS, Reason.DNS, Reason.UNAUTHORIZED],
)
def test_failures_unrelated_to_the_revision_never_start_over(reason: Reason) -> None:
    run = opening()
    for _ in range(4):
        run.close(SERVER_ERROR)
        run.wake(after=60.0)
    for _ in range(20):
        run.close(because(reason))
        assert started(run.wake(after=60.0)) == WatchRequest(REVISION, 450)
    run.close(SERVER_ERROR)
    assert run.machine.state is State.RELISTING


def test_expiry_at_the_opening_starts_over() -> None:
    run = opening()
    assert run.close(EXPIRED) == [
        Note(WatchClosed(EXPIRED, lived=None)),
        Note(Expired(Phase.OPEN)),
        Note(Relisted(RelistReason.EXPIRED)),
        WakeAt(1010.0),
    ]


def test_expired_revision_is_never_requested_again() -> None:
    run = opening()
    run.close(EXPIRED)
    run.wake(after=10.0)
    unchanged = because(Reason.EXPIRED)
    assert run.page(REVISION) == [Note(ListFailed(unchanged, TAIL.name)), WakeAt(1020.0)]
    assert run.machine.state is State.RELISTING
    assert run.machine.revision == REVISION
    assert run.machine.failure == unchanged
    run.wake(after=10.0)
    assert started(run.page(REVISION + 1)) == WatchRequest(REVISION + 1, 450)


def test_list_older_than_the_watch_is_refused() -> None:
    run = watching()
    run.bring(change(Added, 150))
    run.close(because(Reason.OVERSIZE))
    run.wake(after=60.0)
    assert facts(run.page(149)) == [TimeTravel(back=1), ListFailed(TIME_TRAVEL, TAIL.name)]
    run.wake(after=60.0)
    assert facts(run.page(0)) == [TimeTravel(back=150), ListFailed(TIME_TRAVEL, TAIL.name)]
    run.wake(after=60.0)
    assert started(run.page(150)) == WatchRequest(150, 450)


def test_page_older_than_the_first_restarts_the_list() -> None:
    run = watching(PAGED)
    run.close(EXPIRED)
    run.wake(after=60.0)
    run.page(200, token="two")
    run.page(50)
    assert started(run.wake(after=60.0)) == ListRequest(limit=500)
    assert facts(run.page(200))[0] == ListDone("paged", 200, 3, 200, 1, 0.0)


def test_revision_zero_is_accepted() -> None:
    run = listing()
    assert started(run.page(0)) == WatchRequest(0, 450)
    run.feed(Opened(run.op))
    assert closed_for(run).reason is Reason.FORCED


# Resources that cannot be watched


@pytest.mark.parametrize("failure", [NOT_FOUND, FORBIDDEN])
def test_missing_resource_is_requested_again_after_a_wait(failure: Failure) -> None:
    run = listing()
    assert run.close(failure) == [Note(ListFailed(failure, TAIL.name)), Note(GaveUp(failure)), WakeAt(1001.2)]
    assert run.machine.state is State.AWAY
    assert run.machine.failure == failure
    waits = []
    for _ in range(7):
        run.wake(after=60.0)
        waits.append(alarm(run.close(failure)) - run.now)
    assert waits[-2:] == [45.0, 45.0]
    assert started(run.wake(after=60.0)) == ListRequest(absent_name=True)


def test_watch_resumes_when_a_missing_resource_returns() -> None:
    """Permissions that are removed and restored lose no event."""
    run = watching()
    run.close(ENDED, after=450.0)
    run.wake(after=0.0)
    assert facts(run.close(NOT_FOUND)) == [WatchClosed(NOT_FOUND, lived=None), GaveUp(NOT_FOUND)]
    assert run.machine.state is State.AWAY
    assert started(run.wake(after=60.0)) == WatchRequest(REVISION, 450)
    assert facts(run.close(EXPIRED))[-1] == Relisted(RelistReason.EXPIRED)
    assert started(run.wake(after=60.0)) == ListRequest(absent_name=True)


def test_list_with_an_unparsable_revision_waits() -> None:
    run = listing()
    assert run.page(None) == [Note(ListFailed(UNPARSABLE, TAIL.name)), Note(GaveUp(UNPARSABLE)), WakeAt(1001.2)]
    assert run.machine.state is State.AWAY
    assert run.machine.revision is None


# Commands


@pytest.mark.parametrize("reason", [Reason.SHUTDOWN, Reason.PAUSED])
def test_halt_closes_the_watch(reason: Reason) -> None:
    run = watching()
    assert run.feed(Halt(reason), after=5.0) == [Cancel(2), Note(WatchClosed(because(reason), lived=5.0))]
    assert run.machine.state is State.HALTED
    assert run.machine.failure is None
    assert run.feed(Halt(reason)) == []


def test_halt_reason_is_shutdown_by_default() -> None:
    assert facts(opening().feed(Halt())) == [WatchClosed(because(Reason.SHUTDOWN), lived=None)]


def test_halt_drops_the_list() -> None:
    assert listing().feed(Halt()) == [Cancel(1), Note(ListFailed(because(Reason.SHUTDOWN), TAIL.name))]


@pytest.mark.parametrize("state", [State.NEW, State.RELISTING, State.REOPENING, State.AWAY, State.HALTED])
def test_halt_without_requests_only_changes_the_state(state: State) -> None:
    run = IN[state]()
    assert run.feed(Halt()) == []
    assert run.machine.state is State.HALTED


def test_begin_after_a_halt_lists() -> None:
    run = listing(PAGED)
    run.page(token="two")
    run.feed(Halt())
    assert run.feed(Begin()) == [Note(Relisted(RelistReason.START)), Start(3, ListRequest(limit=500))]


def test_halt_does_not_let_the_revision_go_back() -> None:
    run = watching()
    run.feed(Halt())
    run.feed(Begin())
    assert facts(run.page(REVISION - 1)) == [TimeTravel(back=1), ListFailed(TIME_TRAVEL, TAIL.name)]


@pytest.mark.parametrize("state", sorted(set(State) - {State.NEW, State.HALTED}))
def test_begin_is_ignored_after_the_start(state: State) -> None:
    run = IN[state]()
    assert run.feed(Begin()) == []
    assert run.machine.state is state


def test_reopen_resumes_from_the_newest_revision() -> None:
    run = watching()
    run.bring(change(Added, 101))
    assert run.feed(Reopen(), after=5.0) == [
        Cancel(2),
        Note(WatchClosed(because(Reason.RELOAD), lived=5.0)),
        WakeAt(1005.0),
    ]
    assert run.machine.state is State.REOPENING
    assert started(run.wake(after=0.0)) == WatchRequest(101, 450)


def test_reopen_notes_its_reason() -> None:
    outputs = opening().feed(Reopen(Reason.PAUSED))
    assert facts(outputs) == [WatchClosed(because(Reason.PAUSED), lived=None)]


@pytest.mark.parametrize("state", sorted(set(State) - {State.OPENING, State.WATCHING}))
def test_reopen_without_a_watch_does_nothing(state: State) -> None:
    run = IN[state]()
    assert run.feed(Reopen()) == []
    assert run.machine.state is state


@pytest.mark.parametrize(("after", "at"), [(0.25, 1001.0), (1.0, 1001.0), (1.5, 1001.5)])
def test_reopen_keeps_the_shortest_gap_between_requests(after: float, at: float) -> None:
    assert alarm(watching().feed(Reopen(), after=after)) == at


def test_reset_forgets_the_revision() -> None:
    run = watching()
    run.bring(change(Added, 101))
    assert run.feed(Reset(), after=5.0) == [
        Cancel(2),
        Note(WatchClosed(because(Reason.DOMAIN_RESET), lived=5.0)),
        Note(Relisted(RelistReason.DOMAIN_RESET)),
        WakeAt(1010.5),
    ]
    assert run.machine.state is State.RELISTING
    assert run.machine.revision is None
    assert run.machine.failure is None
    run.wake(after=5.5)
    assert started(run.page(0)) == WatchRequest(0, 450)


def test_reset_forgets_the_expired_revision() -> None:
    run = opening()
    run.close(EXPIRED)
    run.feed(Reset())
    run.wake(after=10.0)
    assert started(run.page(REVISION)) == WatchRequest(REVISION, 450)


def test_reset_drops_the_list_in_flight() -> None:
    run = listing(PAGED)
    run.page(token="two")
    assert run.feed(Reset()) == [Cancel(2), Note(ListFailed(because(Reason.DOMAIN_RESET), PAGED.name)), WakeAt(1001.0)]
    assert started(run.wake(after=1.0)) == ListRequest(limit=500)
    assert alarm(run.feed(Reset(), after=1.5)) == run.now


@pytest.mark.parametrize("state", [State.RELISTING, State.REOPENING, State.AWAY])
def test_reset_while_waiting_lists(state: State) -> None:
    run = IN[state]()
    run.feed(Reset())
    assert run.machine.state is State.RELISTING


@pytest.mark.parametrize("state", [State.NEW, State.HALTED])
def test_reset_does_not_start_a_resting_machine(state: State) -> None:
    run = IN[state]()
    assert run.feed(Reset()) == []
    assert run.machine.state is state


def test_reset_clears_the_revision_of_a_resting_machine() -> None:
    run = watching()
    run.feed(Halt())
    run.feed(Reset())
    run.feed(Begin())
    assert started(run.page(7)) == WatchRequest(7, 450)


# Unexpected inputs


@pytest.mark.parametrize("state", State)
def test_answers_to_other_requests_are_ignored(state: State) -> None:
    run = IN[state]()
    for op in (0, run.op + 1, 99):
        strays: list[Input] = [
            Listed(op, 999, 1, 1),
            Opened(op),
            Received(op, Frames([change(Added, 999)]), 0.0),
            Closed(op, EXPIRED),
        ]
        for stray in strays:
            assert run.feed(stray) == []
    assert run.machine.state is state


def test_input_after_the_end_of_a_request_is_ignored() -> None:
    run = watching()
    run.close(ENDED)
    assert run.close(EXPIRED) == []
    assert run.bring(change(Added, 101)) == []
    assert run.machine.state is State.REOPENING


def test_answers_of_the_wrong_kind_are_ignored() -> None:
    run = listing()
    assert run.feed(Opened(run.op)) == []
    assert run.bring(change(Added, 101)) == []
    run = opening()
    assert run.page() == []
    assert run.bring(change(Added, 101)) == []
    run = watching()
    assert run.page() == []
    assert run.feed(Opened(run.op)) == []
    assert run.machine.state is State.WATCHING


def test_early_alarm_is_set_again() -> None:
    run = reopening()
    assert run.wake(after=1.19) == [WakeAt(1001.2)]
    assert run.machine.state is State.REOPENING
    assert started(run.wake(after=0.01)) == WatchRequest(REVISION, 450)


@pytest.mark.parametrize("state", sorted(set(State) - {State.RELISTING, State.REOPENING, State.AWAY}))
def test_alarm_in_a_state_without_wait_is_ignored(state: State) -> None:
    run = IN[state]()
    assert run.wake(after=100.0) == []
    assert run.machine.state is state


# The documentation

DOCS = Path(__file__).parents[3] / "docs" / "watching.md"


def test_documentation_has_the_transition_table() -> None:
    assert transitions_markdown() in DOCS.read_text()


@pytest.mark.parametrize("reason", Reason)
def test_documentation_explains_each_reason(reason: Reason) -> None:
    closed, action, message = RULES[reason]
    row = f"| `{closed}` | `{reason}` | {message.format(verb='watch')} | {action.replace('_', ' ')} |"
    assert row in DOCS.read_text().splitlines()


def test_watch_is_down_from_its_end_until_it_is_open_again() -> None:
    run = watching()
    assert run.machine.down.seconds(run.now) is None
    run.close(SERVER_ERROR)
    assert run.machine.down.seconds(run.now + 1) == 1
    run.wake(after=5)
    assert run.machine.state is State.OPENING
    assert run.machine.down.seconds(run.now) is None, "the request waits in this process"
    run.feed(Sent(run.op))
    assert run.machine.down.seconds(run.now) == 5
    run.feed(Opened(run.op), after=1)
    assert run.machine.down.seconds(run.now) is None


def test_watch_that_was_never_open_is_down_from_the_first_failure_on() -> None:
    run = listing()
    assert run.machine.down.seconds(run.now + 5) is None
    run.close(REFUSED, after=5)
    assert run.machine.down.seconds(run.now + 1) == 1
    run.wake(after=10)
    run.feed(Sent(run.op))
    run.page()
    run.feed(Sent(run.op))
    assert run.machine.down.seconds(run.now) == 10


def test_watch_is_down_until_a_streamed_list_is_complete() -> None:
    run = listing(STREAM)
    run.close(REFUSED)
    run.wake(after=5)
    run.feed(Sent(run.op))
    run.feed(Opened(run.op))
    assert run.machine.down.seconds(run.now) == 5
    run.bring(bookmark(REVISION, end="true"))
    assert run.machine.down.seconds(run.now) is None


@pytest.mark.parametrize("reason", [Reason.ROTATED, Reason.SUSPENDED])
def test_watch_that_we_reopen_is_not_down(reason: Reason) -> None:
    run = watching()
    run.feed(Reopen(reason))
    assert run.machine.down.seconds(run.now + 5) is None


def test_halt_ends_the_down_time() -> None:
    run = reopening()
    assert run.machine.down.seconds(run.now) == 0
    run.feed(Halt())
    assert run.machine.down.seconds(run.now) is None
