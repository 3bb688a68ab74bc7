"""Each strategy: the way to a watch, parallel and streamed lists, gaps and inventory. Random numbers are 0.5."""

from collections.abc import Callable

import pytest

from tests.unit.watch.test_machine import (
    EXPIRED,
    NOT_FOUND,
    REFUSED,
    SERVER_ERROR,
    THROTTLED,
    alarm,
    bookmark,
    change,
    emitted,
    facts,
    started,
)
from watchslo.snapshot import Guarantee
from watchslo.watch import inventory as inventory_module
from watchslo.watch.decode import Added, ApiStatus, Deleted, Details, Error, Frame, Frames, Modified, StatusCause
from watchslo.watch.failure import ENDED, Failure, Phase, Reason, because, classify_status
from watchslo.watch.inventory import Inventory
from watchslo.watch.listing import LONGEST_RELIST_SECONDS
from watchslo.watch.machine import Machine
from watchslo.watch.messages import (
    Batch,
    Begin,
    Cancel,
    Closed,
    Emit,
    Expired,
    Fact,
    FellBack,
    Gap,
    Garbage,
    GaveUp,
    Halt,
    InitialEvents,
    Input,
    ListDone,
    Listed,
    ListedObjects,
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
    Start,
    TimeTravel,
    Unparsable,
    Unseen,
    Violated,
    WakeAt,
    WatchClosed,
    WatchOpened,
    WatchRequest,
    Woken,
)
from watchslo.watch.strategy import CACHE, PAGED, PARALLEL, REPLAY, STREAM, TAIL, Strategy, StreamedLists
from watchslo.watch.transitions import State

STREAMED = WatchRequest(None, 450)
NO_STREAMS = classify_status(
    422,
    ApiStatus(
        code=422, reason="Invalid", details=Details(causes=[StatusCause("FieldValueForbidden", "sendInitialEvents")])
    ),
    None,
    Phase.OPEN,
)
TIME_TRAVEL = because(Reason.TIME_TRAVEL)


class Run:
    """A machine with its own time, which remembers the last list and the last watch that were requested."""

    def __init__(self, strategy: Strategy, *, inventory: bool = False, streaming: StreamedLists | None = None) -> None:
        self.inventory = Inventory() if inventory else None
        self.machine = Machine(strategy, 500, lambda: 0.5, streaming=streaming, inventory=self.inventory)
        self.now = 1000.0
        self.list = self.watch = 0
        self.begun = self.feed(Begin())

    def feed(self, happened: Input, *, after: float = 0.0) -> list[Output]:
        self.now += after
        outputs = self.machine.receive(happened, self.now)
        for output in outputs:
            match output:
                case Start(op, ListRequest()):
                    self.list = op
                case Start(op, WatchRequest()):
                    self.watch = op
        return outputs

    def page(
        self, revision: int | None, *, after: float = 0.0, token: str | None = None, **objects: int
    ) -> list[Output]:
        shown = (
            ListedObjects(list(objects), [str(at) for at in objects.values()]) if self.inventory is not None else None
        )
        return self.feed(Listed(self.list, revision, max(len(objects), 1), 100, token, shown), after=after)

    def open(self) -> list[Output]:
        return self.feed(Opened(self.watch))

    def bring(self, *events: Frame, garbage: int = 0, size: int = 0, after: float = 0.0) -> list[Output]:
        return self.feed(Received(self.watch, Frames(list(events), garbage), self.now + after, size), after=after)

    def fail_list(self, failure: Failure, *, after: float = 0.0) -> list[Output]:
        return self.feed(Closed(self.list, failure), after=after)

    def fail_watch(self, failure: Failure, *, after: float = 0.0) -> list[Output]:
        return self.feed(Closed(self.watch, failure), after=after)

    def wake(self, *, after: float) -> list[Output]:
        return self.feed(Woken(), after=after)


def parallel(*, inventory: bool = False) -> Run:
    """Return a machine that watches from revision 100 and has requested the second page."""
    run = Run(PARALLEL, inventory=inventory)
    run.page(100, token="two", a=1, b=2)
    run.open()
    return run


def streaming(*, inventory: bool = False) -> Run:
    run = Run(STREAM, inventory=inventory)
    run.open()
    return run


# Parallel


def test_parallel_watches_while_it_lists() -> None:
    run = Run(PARALLEL)
    assert started(run.begun) == ListRequest(limit=500)
    assert run.page(100, after=1.0, token="two") == [
        Start(2, WatchRequest(100, 450)),
        Start(3, ListRequest(limit=500, continue_token="two")),
    ]
    assert run.open() == [Note(WatchOpened(0.0))]
    assert emitted(run.bring(change(Added, 101))) == [101]
    assert run.page(100, after=1.0, token="three") == [Start(4, ListRequest(limit=500, continue_token="three"))]
    assert run.machine.state is State.WATCHING
    assert run.machine.is_listing
    assert run.page(100, after=1.0) == [Note(ListDone("parallel", 100, 3, 300, 3, took=3.0))]
    assert run.machine.revision == 101
    assert not run.machine.is_listing


def test_parallel_list_of_one_page_opens_one_watch() -> None:
    run = Run(PARALLEL)
    assert run.page(100) == [Note(ListDone("parallel", 100, 1, 100, 1, 0.0)), Start(2, WatchRequest(100, 450))]


def test_parallel_first_page_that_fails_is_requested_again() -> None:
    run = Run(PARALLEL)
    assert run.fail_list(REFUSED) == [Note(ListFailed(REFUSED, PARALLEL.name)), WakeAt(1001.2)]
    assert started(run.wake(after=1.2)) == ListRequest(limit=500)


def test_parallel_page_that_fails_is_requested_again() -> None:
    run = parallel()
    assert run.fail_list(REFUSED) == [Note(ListFailed(REFUSED, PARALLEL.name)), WakeAt(1001.2)]
    assert run.machine.state is State.WATCHING
    assert run.machine.failure is None
    assert run.wake(after=1.1) == [WakeAt(1001.2)]
    assert started(run.wake(after=0.1)) == ListRequest(limit=500, continue_token="two")
    assert emitted(run.bring(change(Added, 101))) == [101]


def test_parallel_page_waits_for_retry_after() -> None:
    assert alarm(parallel().fail_list(THROTTLED)) == 1007.4


def test_parallel_list_waits_for_retry_after() -> None:
    assert alarm(parallel().fail_list(because(Reason.EXPIRED, retry_after=30.0), after=20.0)) == 1050.4


def test_clean_end_of_a_list_is_a_failure() -> None:
    assert facts(Run(PARALLEL).fail_list(ENDED)) == [ListFailed(ENDED, PARALLEL.name)]
    run = parallel()
    run.bring(garbage=1)
    assert facts(run.fail_list(ENDED, after=450.0)) == [ListFailed(ENDED, PARALLEL.name)]


@pytest.mark.parametrize("failure", [EXPIRED, NOT_FOUND, because(Reason.OVERSIZE)])
def test_parallel_list_that_is_lost_begins_again(failure: Failure) -> None:
    run = parallel()
    outputs = run.fail_list(failure, after=1.0)
    assert Note(ListFailed(failure, PARALLEL.name)) in outputs
    assert not [fact for fact in facts(outputs) if isinstance(fact, Relisted | GaveUp)]
    assert alarm(outputs) == 1010.0
    assert run.machine.state is State.WATCHING
    assert started(run.wake(after=9.0)) == ListRequest(limit=500)
    assert facts(run.page(105)) == [ListDone("parallel", 105, 1, 100, 1, 0.0)]
    assert run.machine.revision == 100


def test_expired_token_continues_at_the_present_state() -> None:
    run = Run(PAGED)
    run.page(100, token="two")
    gone = because(Reason.EXPIRED, phase=Phase.LIST, status=410, continue_token="two, now")
    assert run.fail_list(gone) == [Note(Expired(Phase.LIST)), Note(ListFailed(gone, PAGED.name)), WakeAt(1001.2)]
    assert started(run.wake(after=1.2)) == ListRequest(limit=500, continue_token="two, now")
    run.page(150, token="three")
    assert run.page(150)[-1] == Start(5, WatchRequest(150, 450))


def test_inventory_restarts_a_list_whose_token_expired() -> None:
    run = Run(PAGED, inventory=True)
    run.page(100, token="two", a=1)
    run.fail_list(because(Reason.EXPIRED, status=410, continue_token="two, now"))
    assert started(run.wake(after=1.2)) == ListRequest(limit=500)


def test_parallel_list_continues_while_the_watch_fails() -> None:
    run = parallel()
    assert run.fail_watch(REFUSED) == [Note(WatchClosed(REFUSED, lived=0.0)), WakeAt(1001.2)]
    assert run.fail_list(REFUSED, after=0.5) == [Note(ListFailed(REFUSED, PARALLEL.name)), WakeAt(1001.2)]
    assert run.wake(after=0.7) == [Start(4, WatchRequest(100, 450)), WakeAt(1001.7)]
    assert run.wake(after=0.5) == [Start(5, ListRequest(limit=500, continue_token="two"))]


def test_expired_watch_drops_the_parallel_list() -> None:
    run = parallel()
    superseded = because(Reason.SUPERSEDED)
    assert run.fail_watch(EXPIRED) == [
        Note(WatchClosed(EXPIRED, lived=0.0)),
        Note(Expired(Phase.STREAM)),
        Cancel(3),
        Note(ListFailed(superseded, PARALLEL.name)),
        Note(Relisted(RelistReason.EXPIRED)),
        WakeAt(1010.0),
    ]
    assert started(run.wake(after=10.0)) == ListRequest(limit=500)
    assert facts(run.page(150, token="two")) == [Gap(100, 150, 10.0)]


def test_reopen_does_not_affect_the_parallel_list() -> None:
    run = parallel()
    rotated = because(Reason.ROTATED)
    assert run.feed(Reopen(Reason.ROTATED)) == [Cancel(2), Note(WatchClosed(rotated, 0.0)), WakeAt(1001.0)]
    assert run.machine.failure is None
    assert facts(run.page(100)) == [ListDone("parallel", 100, 3, 200, 2, 0.0)]


def test_reopen_keeps_the_shortest_gap_after_a_page() -> None:
    run = parallel()
    run.page(100, after=0.5, token="three")
    assert alarm(run.feed(Reopen())) == 1001.5


@pytest.mark.parametrize("command", [Halt(), Reset()])
def test_halt_and_reset_drop_list_and_watch(command: Input) -> None:
    outputs = parallel().feed(command)
    assert [output for output in outputs if isinstance(output, Cancel)] == [Cancel(2), Cancel(3)]


def test_parallel_list_may_be_older_than_the_watch_but_not_than_its_start() -> None:
    run = parallel()
    run.bring(change(Added, 150))
    assert facts(run.page(100, token="three")) == []
    assert facts(run.page(99)) == [TimeTravel(1), ListFailed(TIME_TRAVEL, PARALLEL.name)]
    run.wake(after=60.0)
    assert facts(run.page(149)) == [TimeTravel(1), ListFailed(TIME_TRAVEL, PARALLEL.name)]
    assert run.machine.state is State.WATCHING


# Streamed lists


def test_streamed_list_comes_from_the_watch() -> None:
    run = Run(STREAM)
    assert run.begun == [Note(Relisted(RelistReason.START)), Start(1, STREAMED)]
    assert run.bring(change(Added, 40)) == []
    assert run.open() == [Note(WatchOpened(0.0)), WakeAt(1030.0)]
    assert run.open() == []
    assert run.page(100) == []
    assert run.bring(change(Added, 40), change(Added, 30), size=300) == [Note(InitialEvents(2))]
    run.now += 1.0
    outputs = run.bring(change(Added, 50), bookmark(60), bookmark(100, end="true"), change(Added, 101), size=200)
    assert facts(outputs) == [InitialEvents(1), ListDone("stream", 100, 3, 500, 1, took=1.0)]
    assert emitted(outputs) == [101]
    assert run.machine.state is State.WATCHING
    assert run.machine.revision == 101
    assert emitted(run.bring(change(Modified, 102))) == [102]


def test_streamed_list_that_stays_silent_is_replaced_by_pages() -> None:
    """On a dead connection it would wait for the deadline of its watch, which is minutes away."""
    run = streaming()
    assert run.bring(change(Added, 40), after=20.0) == [Note(InitialEvents(1))]
    assert run.wake(after=10.0) == [WakeAt(1050.0)]  # set when it opened, and too early since an object came
    outputs = run.wake(after=20.0)
    assert outputs[0] == Cancel(1)
    assert facts(outputs) == [ListFailed(because(Reason.TIMEOUT), STREAM.name)]
    assert run.wake(after=10.0) == [Note(FellBack()), Start(2, ListRequest(limit=500))]


def relisted_silently(run: Run) -> list[Output]:
    """List again after a 410, by a stream that stays silent."""
    run.fail_watch(EXPIRED)
    assert started(run.wake(after=30.0)) == STREAMED
    run.open()
    return run.wake(after=30.0)


def test_apiserver_whose_streamed_lists_stay_silent_does_not_mark_their_end() -> None:
    """Some aggregated APIs ignore the parameter: they send objects and bookmarks, but none that ends the list."""
    run = streaming()
    run.bring(change(Added, 40))
    run.bring(bookmark(60), after=20.0)
    assert facts(run.wake(after=10.0)) == [ListFailed(because(Reason.TIMEOUT), STREAM.name)]
    run.wake(after=10.0)
    run.page(100)
    run.open()
    assert facts(relisted_silently(run)) == [ListFailed(because(Reason.NO_STREAMED_LISTS), STREAM.name)]
    assert started(run.wake(after=10.0)) == ListRequest(limit=500)


def test_only_silent_lists_in_a_row_show_that_their_end_is_not_marked() -> None:
    run = streaming()
    run.wake(after=30.0)
    run.wake(after=10.0)
    run.page(100)
    run.open()
    run.fail_watch(EXPIRED)
    run.wake(after=30.0)
    run.open()
    run.bring(bookmark(200, end="true"))
    assert facts(relisted_silently(run)) == [ListFailed(because(Reason.TIMEOUT), STREAM.name)]


def test_alarm_of_a_streamed_list_does_not_disturb_its_watch() -> None:
    run = streaming()
    run.bring(bookmark(100, end="true"))
    assert run.wake(after=30.0) == []
    assert run.machine.state is State.WATCHING


def test_changes_during_a_streamed_list_are_live() -> None:
    run = streaming()
    run.bring(change(Added, 40))
    outputs = run.bring(
        change(Added, 41), change(Modified, 60), change(Added, 60), change(Added, 61), change(Deleted, 59)
    )
    assert emitted(outputs) == [60, 61]
    assert facts(outputs) == [InitialEvents(2), Violated(Guarantee.ORDERED, 1, 59, 59)]
    assert run.machine.state is State.LISTING
    assert facts(run.bring(bookmark(61, end="true"))) == [ListDone("stream", 61, 3, 0, 1, 0.0)]


def test_bad_events_of_a_streamed_list_are_counted() -> None:
    run = streaming()
    assert facts(run.bring(change(Added, "abc"), garbage=2)) == [Unparsable(1), Garbage(2)]
    flaws = [change(Added, "abc"), change(Modified, "abc"), change(Modified, 50), change(Deleted, 50)]
    assert facts(run.bring(change(Added, 50), *flaws)) == [InitialEvents(1), Unparsable(2)]


def test_changes_during_a_streamed_list_are_emitted_in_order() -> None:
    run = streaming()
    assert run.bring(change(Deleted, 60, "2026-11-21T11:58:25Z")) == [
        Emit(Batch(1000.0, [60], ["DELETED"], ["2026-11-21T11:58:25Z"]))
    ]
    assert run.machine.revision == 60
    assert run.bring(bookmark(60, end="true"), change(Added, 61))[-1] == Emit(Batch(1000.0, [61], ["ADDED"], [None]))


def test_several_events_of_one_revision_during_a_streamed_list_are_emitted() -> None:
    """For example, etcd deletes all keys of one lease at one revision."""
    run = streaming(inventory=True)
    run.bring(*(change(Added, 40 + place, uid=uid) for place, uid in enumerate("abcd")))
    assert run.bring(change(Deleted, 43, uid="d")) == [], "it may be from before the list"
    assert emitted(run.bring(change(Deleted, 60, uid="a"), change(Deleted, 60, uid="b"))) == [60, 60]
    assert emitted(run.bring(change(Deleted, 60, uid="c"), bookmark(60, end="true"))) == [60]
    assert emitted(run.bring(change(Deleted, 60, uid="d"))) == [60]
    assert run.inventory is not None
    assert len(run.inventory) == 0


def test_plain_bookmark_does_not_end_a_streamed_list() -> None:
    run = streaming()
    assert run.bring(bookmark(60)) == []
    assert facts(run.bring(bookmark(60), change(Added, 40))) == [InitialEvents(1)]
    assert run.machine.state is State.LISTING
    assert run.machine.revision is None


def test_streamed_list_that_was_cut_starts_again() -> None:
    run = streaming()
    run.bring(change(Added, 40), change(Modified, 60))
    assert run.fail_watch(ENDED, after=5.0) == [Note(ListFailed(ENDED, STREAM.name)), WakeAt(1006.2)]
    assert run.machine.state is State.RELISTING
    assert started(run.wake(after=1.2)) == STREAMED
    run.open()
    assert emitted(run.bring(change(Added, 60), change(Modified, 61))) == [61]
    assert facts(run.bring(bookmark(61, end="true"))) == [ListDone("stream", 61, 1, 0, 1, 0.0)]


def test_error_in_a_streamed_list_ends_it() -> None:
    run = streaming()
    error = Error(object=ApiStatus(code=500))
    failure = because(Reason.SERVER_ERROR, status=500)
    assert run.bring(change(Added, 40), error) == [
        Note(InitialEvents(1)),
        Cancel(1),
        Note(ListFailed(failure, STREAM.name)),
        WakeAt(1001.2),
    ]


def test_error_right_after_a_streamed_list_ends_the_watch() -> None:
    outputs = streaming().bring(bookmark(100, end="true"), Error(object=ApiStatus(code=500)))
    assert WatchClosed(because(Reason.SERVER_ERROR, status=500), lived=0.0) in facts(outputs)
    assert alarm(outputs) == 1001.2


def test_refused_streamed_list_falls_back_to_pages_and_is_remembered() -> None:
    lists = StreamedLists()
    run = Run(STREAM, streaming=lists)
    assert run.fail_watch(NO_STREAMS, after=0.25) == [Note(ListFailed(NO_STREAMS, STREAM.name)), WakeAt(1001.0)]
    assert not lists.usable(run.now)
    assert run.wake(after=0.75) == [Note(FellBack()), Start(2, ListRequest(limit=500))]
    assert facts(run.page(100)) == [ListDone("paged", 100, 1, 100, 1, 0.0)]
    assert Run(STREAM, streaming=lists).begun[1:] == [Note(FellBack()), Start(1, ListRequest(limit=500))]


def test_streamed_list_without_end_until_the_timeout_counts_as_refused() -> None:
    run = streaming()
    assert facts(run.fail_watch(ENDED, after=449.0)) == [ListFailed(because(Reason.NO_STREAMED_LISTS), STREAM.name)]


def test_streamed_list_that_was_cut_late_is_not_a_refusal() -> None:
    reset = because(Reason.RESET)
    assert facts(streaming().fail_watch(reset, after=450.0)) == [ListFailed(reset, STREAM.name)]


def test_streamed_list_of_only_garbage_ends_as_garbage() -> None:
    run = streaming()
    run.bring(garbage=1)
    assert facts(run.fail_watch(ENDED)) == [ListFailed(because(Reason.GARBAGE), STREAM.name)]
    assert facts(streaming().fail_watch(ENDED)) == [ListFailed(ENDED, STREAM.name)]
    run = streaming()
    run.bring(change(Added, 40))
    run.bring(garbage=1)
    assert facts(run.fail_watch(ENDED)) == [ListFailed(ENDED, STREAM.name)]


def test_repeatedly_failing_streamed_list_falls_back_to_pages_once() -> None:
    run = Run(STREAM)
    for _ in range(4):
        run.fail_watch(SERVER_ERROR)
        assert started(run.wake(after=60.0)) == STREAMED
    run.fail_watch(SERVER_ERROR)
    assert run.wake(after=60.0) == [Note(FellBack()), Start(6, ListRequest(limit=500))]
    run.fail_list(REFUSED)
    assert facts(run.wake(after=60.0)) == [], "the same list was counted"
    run.page(100)
    run.fail_watch(EXPIRED)
    assert started(run.wake(after=60.0)) == STREAMED


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        ("x", [ListFailed(because(Reason.UNPARSABLE), STREAM.name)]),
        (38, [TimeTravel(2), ListFailed(TIME_TRAVEL, STREAM.name)]),
    ],
    ids=["unparsable", "past"],
)
def test_streamed_list_with_an_unusable_end_fails(mark: object, expected: list[Fact]) -> None:
    run = streaming()
    outputs = run.bring(change(Added, 40), bookmark(mark, end="true"), change(Added, 101))
    assert Cancel(1) in outputs
    assert facts(outputs)[1 : 1 + len(expected)] == expected
    assert run.machine.state in (State.RELISTING, State.AWAY)


def test_expired_watch_of_strategy_stream_starts_over() -> None:
    run = streaming()
    run.bring(bookmark(100, end="true"))
    assert facts(run.bring(Error(object=ApiStatus(code=410))))[1:] == [
        Expired(Phase.STREAM),
        Relisted(RelistReason.EXPIRED),
    ]


def test_streamed_list_that_ends_at_an_expired_revision_fails() -> None:
    run = streaming()
    run.bring(bookmark(100, end="true"))
    run.fail_watch(EXPIRED)
    run.wake(after=10.0)
    run.open()
    outputs = run.bring(bookmark(100, end="true"))
    assert Note(ListFailed(because(Reason.EXPIRED), STREAM.name)) in outputs
    assert run.machine.state is State.RELISTING


def test_halt_drops_a_streamed_list() -> None:
    assert streaming().feed(Halt()) == [Cancel(1), Note(ListFailed(because(Reason.SHUTDOWN), STREAM.name))]


def test_reopen_does_not_affect_a_streamed_list() -> None:
    assert streaming().feed(Reopen()) == []


# From the cache


def test_cache_strategy_lists_from_the_watch_cache() -> None:
    run = Run(CACHE)
    assert started(run.begun) == ListRequest(from_cache=True)
    assert run.page(100, token="ignored")[-1] == Start(2, WatchRequest(100, 450))


def test_cache_strategy_refuses_an_older_list() -> None:
    run = Run(CACHE)
    run.page(100)
    run.fail_watch(EXPIRED)
    run.wake(after=10.0)
    assert facts(run.page(90)) == [TimeTravel(10), ListFailed(TIME_TRAVEL, CACHE.name)]
    assert started(run.wake(after=60.0)) == ListRequest(limit=500)
    assert facts(run.page(150))[0] == ListDone("paged", 150, 1, 100, 1, 0.0)
    run.fail_watch(EXPIRED)
    assert started(run.wake(after=60.0)) == ListRequest(from_cache=True)


def test_cache_strategy_retries_a_cache_that_is_not_ready() -> None:
    run = Run(CACHE)
    run.fail_list(THROTTLED)
    assert started(run.wake(after=7.4)) == ListRequest(from_cache=True)


# Gaps


def test_gap_begins_at_the_end_of_the_last_watch() -> None:
    run = Run(PAGED)
    run.page(100)
    run.open()
    run.bring(change(Added, 110))
    run.fail_watch(REFUSED, after=20.0)
    run.wake(after=1.2)
    run.fail_watch(EXPIRED)
    run.wake(after=10.0)
    [gap] = [fact for fact in facts(run.page(150)) if isinstance(fact, Gap)]
    assert (gap.after, gap.until) == (110, 150)
    assert gap.seconds == pytest.approx(11.2)


def test_no_gap_if_nothing_was_written() -> None:
    run = Run(PAGED)
    run.page(100)
    run.open()
    run.bring(change(Added, 110))
    run.fail_watch(because(Reason.OVERSIZE))
    run.wake(after=10.0)
    assert facts(run.page(110)) == [ListDone("paged", 110, 1, 100, 1, 0.0)]


def test_inherited_revision_after_a_crash_gives_a_gap() -> None:
    machine = Machine(CACHE, 500, lambda: 0.5)
    machine.inherit(100, 1000.0)
    assert facts(machine.receive(Begin(), 1005.0)) == [Relisted(RelistReason.ERRORS)]
    assert Gap(100, 150, 5.0) in facts(machine.receive(Listed(1, 150, 0, 100), 1005.0))


@pytest.mark.parametrize("commands", [[Halt(), Begin()], [Reset()]])
def test_own_commands_are_no_gap(commands: list[Input]) -> None:
    run = Run(PAGED)
    run.page(100)
    run.open()
    for command in commands:
        run.feed(command)
    run.wake(after=60.0)
    assert not [fact for fact in facts(run.page(150)) if isinstance(fact, Gap)]


def test_gap_before_a_streamed_list_ends_at_its_first_live_event() -> None:
    run = streaming()
    run.bring(bookmark(100, end="true"))
    run.fail_watch(EXPIRED)
    run.wake(after=10.0)
    run.open()
    outputs = run.bring(change(Added, 140), change(Modified, 150), bookmark(160, end="true"))
    assert Gap(100, 149, 10.0) in facts(outputs)
    assert run.machine.revision == 160


def watching_again() -> Run:
    """Return a machine whose watch from revision 100 was reset after a minute and is open again."""
    run = Run(PAGED)
    run.page(100)
    run.open()
    run.fail_watch(because(Reason.RESET), after=60.0)
    run.wake(after=0.0)
    run.open()
    return run


@pytest.mark.parametrize(
    "expire",
    [
        pytest.param(lambda run: run.fail_watch(EXPIRED, after=1.0), id="answer"),
        pytest.param(lambda run: run.bring(Error(object=ApiStatus(code=410)), after=1.0), id="event"),
    ],
)
def test_gap_begins_at_the_end_of_the_last_useful_watch(expire: Callable[[Run], object]) -> None:
    """A watch that opens and then sends only that its revision expired does not count."""
    run = watching_again()
    expire(run)
    run.wake(after=10.0)
    assert Gap(100, 150, 11.0) in facts(run.page(150))


def test_gap_begins_at_the_end_of_a_watch_that_delivered_before_its_410() -> None:
    run = watching_again()
    run.bring(bookmark(100))
    run.fail_watch(EXPIRED, after=1.0)
    run.wake(after=10.0)
    assert Gap(100, 150, 10.0) in facts(run.page(150))


def test_gap_begins_at_the_end_of_a_silent_watch_that_lived_long_before_its_410() -> None:
    run = watching_again()
    run.fail_watch(EXPIRED, after=60.0)
    run.wake(after=10.0)
    assert Gap(100, 150, 10.0) in facts(run.page(150))


def test_gap_begins_at_the_end_of_a_short_silent_watch_without_a_410() -> None:
    run = watching_again()
    run.fail_watch(because(Reason.RESET), after=1.0)
    run.wake(after=5.0)
    run.fail_watch(EXPIRED)
    run.wake(after=10.0)
    assert Gap(100, 150, 15.0) in facts(run.page(150))


def test_backoff_of_an_outage_does_not_delay_the_list_after_it() -> None:
    run = Run(PAGED)
    run.page(100)
    run.open()
    run.fail_watch(because(Reason.RESET), after=60.0)
    run.wake(after=0.0)
    for _ in range(6):
        run.fail_watch(because(Reason.REFUSED))
        run.wake(after=60.0)
    assert alarm(run.fail_watch(EXPIRED)) - run.now <= LONGEST_RELIST_SECONDS


# The inventory


def test_inventory_counts_what_a_gap_hid() -> None:
    run = Run(PAGED, inventory=True)
    assert facts(run.page(100, a=1, b=2, c=3)) == [ListDone("paged", 100, 3, 100, 1, 0.0)]
    run.open()
    run.bring(change(Modified, 101, uid="a"), bookmark(102), change(Added, 102, uid="late"))
    run.fail_watch(EXPIRED)
    run.wake(after=10.0)
    assert facts(run.page(150, a=101, b=140, d=141)) == [
        ListDone("paged", 150, 3, 100, 1, 0.0),
        Gap(102, 150, 10.0),
        Unseen(changed=1, created=1, deleted=1),
    ]


def test_inventory_applies_all_events_of_one_revision() -> None:
    run = Run(PAGED, inventory=True)
    run.page(100, a=1, b=2, c=3)
    run.open()
    run.bring(change(Modified, 99, uid="c"), change(Deleted, 101, uid="a"), change(Deleted, 101, uid="b"))
    assert run.inventory is not None
    assert len(run.inventory) == 1


def test_inventory_waits_for_the_end_of_a_parallel_list() -> None:
    run = parallel(inventory=True)
    run.bring(change(Deleted, 101, uid="a"), change(Added, 102, uid="d"), Error(object=ApiStatus(code=500)))
    assert run.inventory is not None
    assert run.inventory.held == 2
    run.page(100, c=3)
    assert len(run.inventory) == 3


def test_lost_parallel_list_affects_only_the_inventory() -> None:
    run = parallel(inventory=True)
    outputs = run.fail_list(EXPIRED, after=1.0)
    assert facts(outputs) == [Expired(Phase.LIST), ListFailed(EXPIRED, PARALLEL.name), Relisted(RelistReason.INVENTORY)]
    assert facts(run.wake(after=9.0)) == []
    assert facts(run.fail_list(NOT_FOUND)) == [ListFailed(NOT_FOUND, PARALLEL.name)]
    run.wake(after=60.0)
    run.page(110, a=1)
    assert run.inventory is not None
    assert run.inventory.synced


def test_too_many_held_events_relist_only_the_inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory_module, "MOST_HELD", 1)
    run = parallel(inventory=True)
    run.bring(change(Modified, 101, uid="a"), change(Modified, 102, uid="a"))
    outputs = run.page(100, c=3)
    assert facts(outputs) == [ListDone("parallel", 100, 3, 200, 2, 0.0), Relisted(RelistReason.INVENTORY)]
    assert alarm(outputs) == 1010.0
    assert run.machine.state is State.WATCHING
    assert started(run.wake(after=10.0)) == ListRequest(limit=500)
    assert facts(run.page(105, a=102, b=2, c=3)) == [ListDone("parallel", 105, 3, 100, 1, 0.0)]
    assert run.inventory is not None
    assert len(run.inventory) == 3


def test_streamed_list_fills_the_inventory() -> None:
    run = streaming(inventory=True)
    run.bring(change(Added, 40, uid="a"), change(Added, 41, uid="b"))
    run.bring(change(Modified, 60, uid="a"), change(Deleted, 61, uid="b"), bookmark(61, end="true"))
    assert run.inventory is not None
    assert run.inventory.synced
    assert len(run.inventory) == 1
    run.fail_watch(EXPIRED)
    run.wake(after=10.0)
    run.open()
    outputs = run.bring(change(Added, 60, uid="a"), bookmark(70, end="true"))
    assert Unseen(0, 0, 0) in facts(outputs)


def test_reset_clears_the_inventory() -> None:
    run = Run(PAGED, inventory=True)
    run.page(100, a=1)
    run.feed(Reset())
    run.wake(after=60.0)
    assert facts(run.page(50, b=1)) == [ListDone("paged", 50, 1, 100, 1, 0.0)]


def test_inventory_does_not_change_the_emitted_events() -> None:
    run = parallel(inventory=True)
    [output] = run.bring(change(Added, 101, uid="x"))
    assert isinstance(output, Emit)
    assert output.batch.revisions == [101]


# Replay


def test_oldest_revision_that_expires_before_the_watch_is_found_again() -> None:
    run = Run(REPLAY)
    assert started(run.begun) == ListRequest(oldest=True)
    assert started(run.page(50)) == WatchRequest(50, 450)
    run.open()
    outputs = run.bring(Error(object=ApiStatus(code=410, reason="Expired")), after=0.5)
    assert facts(outputs) == [WatchClosed(EXPIRED, 0.5), Expired(Phase.STREAM), Relisted(RelistReason.START)]
    assert started(run.wake(after=2.0)) == ListRequest(oldest=True)
    outputs = run.page(60)
    assert facts(outputs) == [ListDone("replay", 60, 1, 100, 1, 0.0)], "no gap: nothing was delivered before"
    assert started(outputs) == WatchRequest(60, 450)


def test_replay_that_cannot_be_opened_begins_in_the_past_again() -> None:
    run = Run(REPLAY)
    run.page(50)
    for _ in range(4):
        run.fail_watch(SERVER_ERROR)
        assert started(run.wake(after=60.0)) == WatchRequest(50, 450)
    assert facts(run.fail_watch(SERVER_ERROR)) == [WatchClosed(SERVER_ERROR, None), Relisted(RelistReason.START)]
    assert started(run.wake(after=60.0)) == ListRequest(oldest=True)


def test_replay_that_has_delivered_events_goes_on_now_after_a_410() -> None:
    run = Run(REPLAY)
    run.page(50)
    run.open()
    assert emitted(run.bring(change(Modified, 51), after=1.0)) == [51]
    run.fail_watch(EXPIRED)
    assert started(run.wake(after=30.0)) == TAIL.first
    assert [fact for fact in facts(run.page(90)) if isinstance(fact, Gap)] == [Gap(51, 90, 30.0)]


def test_replay_goes_on_now_after_a_reset() -> None:
    run = Run(REPLAY)
    run.page(50)
    run.open()
    run.feed(Reset())
    assert started(run.wake(after=30.0)) == TAIL.first
