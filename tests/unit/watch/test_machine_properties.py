"""Properties that hold for any order of answers, failures, alarms and commands, whatever the apiserver answers."""

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.watch.protocol import bookmark, change
from watchslo.watch.decode import (
    Added,
    ApiStatus,
    Bookmark,
    Deleted,
    Error,
    Frame,
    Frames,
    Modified,
    ObjectChange,
)
from watchslo.watch.failure import ENDED, Action, CloseClass, Failure, Phase, Reason, because, classify_status
from watchslo.watch.inventory import Inventory
from watchslo.watch.machine import Machine
from watchslo.watch.messages import (
    Begin,
    BookmarkSeen,
    Cancel,
    Closed,
    Emit,
    Expired,
    Fact,
    Gap,
    Halt,
    Hasten,
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
    Reopen,
    Reset,
    Start,
    WakeAt,
    WatchClosed,
    WatchOpened,
    WatchRequest,
    Woken,
)
from watchslo.watch.strategy import STRATEGIES, STREAM, Strategy
from watchslo.watch.transitions import TRANSITIONS, State, Trigger
from watchslo.watch.watch_attempt import HEALTHY_SECONDS

WAITING = {State.RELISTING, State.REOPENING, State.AWAY}
RESTING = {State.NEW, State.HALTED}

statuses = st.sampled_from([302, 400, 401, 403, 404, 405, 406, 410, 422, 429, 500, 503, 504])
http_failures = st.builds(
    classify_status, statuses, st.none(), st.none() | st.sampled_from([0.0, 5.0, 900.0]), st.sampled_from(Phase)
)
judged_by_the_machine = {
    Reason.DEADLINE,
    Reason.EMPTY_CLOSE,
    Reason.UNPARSABLE,
    Reason.TIME_TRAVEL,
    Reason.DOMAIN_RESET,
}
seen_on_the_way = st.sampled_from(sorted(set(Reason) - judged_by_the_machine)).map(because)
grave_ones = st.sampled_from([because(Reason.EXPIRED), because(Reason.SERVER_ERROR), because(Reason.OVERSIZE)])
failures = http_failures | seen_on_the_way | grave_ones | st.just(ENDED)
steps = st.sampled_from([0, 0, 1, 2, 5, -1, -3])  # of revisions, from the newest that the watch knows
changes = st.tuples(st.sampled_from([Added, Modified, Deleted, Bookmark]), steps)


def frame(kind: type[ObjectChange | Bookmark], revision: str | None, *, ends_list: bool = False) -> Frame:
    if issubclass(kind, Bookmark):
        return bookmark(revision, end="true" if ends_list else None)
    return change(kind, revision, uid=revision)  # type: ignore[arg-type]


class Protocol(RuleBasedStateMachine):
    """Drives a machine with random inputs, and checks each output against what was output before."""

    @initialize(
        strategy=st.sampled_from(list(STRATEGIES.values())), seed=st.integers(0, 2**32), kept=st.sampled_from([0, 1])
    )
    def create(self, strategy: Strategy, seed: int, kept: int) -> None:
        inventory = Inventory() if kept else None
        self.machine = Machine(strategy, 500, Random(seed).random, inventory=inventory)
        self.now = 0.0
        self.out: dict[int, ListRequest | WatchRequest] = {}
        self.alarm: float | None = None
        self.retry_from = self.list_from = 0.0  # no request is allowed before; the latter is for parallel lists
        self.last: ListRequest | WatchRequest | None = None  # the request that was answered last
        self.newest = -1  # revision that was listed, emitted or bookmarked
        self.last_event: int | None = None  # revision of the last event of the open watch
        self.expired: set[int] = set()
        self.starts = self.ends = 0
        self.in_a_row = 0  # errors of watches at one revision
        self.row_at = -1

    def feed(self, happened: Input) -> None:
        self.before = before = self.machine.state
        self.known = self.newest
        outputs = self.machine.receive(happened, self.now)
        for output in outputs:
            self.check(output, happened)
        after = self.machine.state
        between = {State.WATCHING} & set(
            TRANSITIONS[before].values()
        )  # a chunk may end a streamed list, and then the watch
        ways = {after for state in {before} | between for after in TRANSITIONS[state].values()}
        assert after is before or after in ways

    # Checks of each output

    def check(self, output: Output, cause: Input) -> None:
        match output:
            case Start(op, request):
                self.check_start(op, request, cause)
            case Cancel(op):
                self.last = self.out.pop(op)
            case WakeAt(time):
                assert time >= self.now or time == self.alarm, "an overdue alarm stays"
                self.alarm = time
            case Emit(batch):
                assert len(batch.revisions) == len(batch.types) == len(batch.created) > 0
                assert "BOOKMARK" not in batch.types
                assert batch.revisions[0] > self.known or batch.revisions[0] == self.known == self.last_event
                assert batch.revisions == sorted(batch.revisions)
                self.last_event = batch.revisions[-1]
                self.newest = max(self.newest, self.last_event)
            case Note(WatchOpened()):
                self.last_event = None
            case Note(fact):
                self.check_fact(fact)

    def check_start(self, op: int, request: ListRequest | WatchRequest, cause: Input) -> None:
        assert op == self.starts + 1
        assert not isinstance(cause, Closed | Received)
        assert type(request) not in map(type, self.out.values()), "at most one list and one watch are in flight"
        self.out[op] = request
        self.starts += 1
        is_parallel = isinstance(request, ListRequest) and State.LISTING not in (self.before, self.machine.state)
        assert self.now >= (self.list_from if is_parallel else self.retry_from)
        if isinstance(request, ListRequest):
            return
        assert 300 <= request.timeout <= 600
        if request.revision is None:
            assert self.machine.strategy is STREAM
        else:
            assert request.revision >= self.newest
            assert request.revision not in self.expired
            self.newest = request.revision

    def check_fact(self, fact: Fact) -> None:
        match fact:
            case ListFailed(failure):
                self.ends += 1
                if self.before is State.LISTING:
                    self.note_wait(failure, None)
                elif failure.action is not Action.STOP:
                    self.list_from = self.now + max(0.8, failure.retry_after or 0.0)
            case WatchClosed(failure, lived):
                self.ends += 1
                self.note_wait(failure, lived)
                self.count_errors(failure, lived)
            case Expired(Phase.OPEN | Phase.STREAM):
                assert isinstance(self.last, WatchRequest)
                if self.last.revision is not None:
                    self.expired.add(self.last.revision)
            case BookmarkSeen(revision):
                assert revision >= self.newest
                self.newest = revision
            case ListDone(revision=revision) if self.before is State.LISTING:
                assert revision >= self.newest
                self.newest = revision
                self.in_a_row = 0
            case Gap(after, until, seconds):
                assert after < until
                assert after <= self.known
                assert seconds >= 0.0

    def note_wait(self, failure: Failure, lived: float | None) -> None:
        if failure.action is Action.STOP or failure.reason is Reason.NO_STREAMED_LISTS:
            return
        if failure.reason is Reason.DEADLINE:
            assert lived is not None
            assert lived >= 299.0
        if lived is None or lived < HEALTHY_SECONDS or failure.retry_after is not None:
            is_prompt = self.machine.strategy.prompt and failure.reason is Reason.EXPIRED
            self.retry_from = self.now + max(0.25 if is_prompt else 0.8, failure.retry_after or 0.0)

    def count_errors(self, failure: Failure, lived: float | None) -> None:
        healthy = lived is not None and lived >= HEALTHY_SECONDS
        if healthy or self.newest != self.row_at:
            self.in_a_row = 0
            self.row_at = self.newest
        if failure.reason in (Reason.SERVER_ERROR, Reason.FORCED, Reason.EMPTY_CLOSE, Reason.RESET) and not healthy:
            self.in_a_row += 1
        assert self.in_a_row <= 5

    # Inputs

    @rule(seconds=st.sampled_from([0.001, 0.5, 1.0, 9.0, 30.0, 299.5, 400.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(step=steps | st.none(), token=st.sampled_from([None, "", "more"]))
    def the_next_step_succeeds(self, step: int | None, token: str | None) -> None:
        """Take one step towards an open watch; if `step` is None, the revision is not a number."""
        revision = None if step is None else max(self.newest + step, 0)
        listing = self.op_of(ListRequest)
        watching = self.op_of(WatchRequest)
        if self.machine.state in RESTING:
            self.command_arrives(Begin())
        elif self.machine.state in WAITING or not self.out:
            self.the_alarm_goes_off()
        elif listing is not None:
            self.a_page_is_answered(listing, revision, token)
        elif watching is not None and self.machine.state is State.OPENING:
            self.feed(Opened(watching))
        elif watching is not None and self.machine.state is State.LISTING:
            self.feed(Opened(watching))
            self.read(watching, [frame(Bookmark, None if revision is None else str(revision), ends_list=True)])

    def op_of(self, kind: type[ListRequest | WatchRequest]) -> int | None:
        return next((op for op, request in self.out.items() if isinstance(request, kind)), None)

    def read(self, op: int, frames: list[Frame], garbage: int = 0) -> None:
        self.last = self.out[op]
        ended = self.ends
        self.feed(Received(op, Frames(frames, garbage), self.now))
        assert self.ends - ended <= 1

    @rule(step=steps)
    def the_watch_opens(self, step: int) -> None:
        """Take all steps to an open watch."""
        for _ in range(4):
            self.the_next_step_succeeds(step, token=None)

    def the_alarm_goes_off(self) -> None:
        assert self.alarm is not None
        self.now = max(self.now, self.alarm)
        self.alarm = None
        self.feed(Woken())

    def a_page_is_answered(self, op: int, revision: int | None, token: str | None) -> None:
        del self.out[op]
        failed = self.ends
        objects = ListedObjects(["a", "b"], ["1", str(revision)]) if self.machine.inventory else None
        self.feed(Listed(op, revision, 2, 100, token, objects))
        self.ends += self.ends == failed

    @precondition(lambda self: self.op_of(WatchRequest) is not None)
    @rule(
        events=st.lists(changes, max_size=4),
        end=st.none() | st.integers(0, 4),
        unparsable=st.lists(st.sampled_from([None, "", "abc", "9" * 30]), max_size=1),
        garbage=st.integers(0, 2),
        error=st.none() | statuses,
    )
    def a_chunk_arrives(
        self,
        events: list[tuple[type[ObjectChange | Bookmark], int]],
        end: int | None,
        unparsable: list[str | None],
        garbage: int,
        error: int | None,
    ) -> None:
        op = self.op_of(WatchRequest)
        assert op is not None
        frames: list[Frame] = [
            frame(kind, str(max(self.newest + step, 0)), ends_list=place == end)
            for place, (kind, step) in enumerate(events)
        ]
        frames += [frame(Modified, revision) for revision in unparsable]
        if error is not None:
            frames += [Error(object=ApiStatus(code=error)), frame(Added, "999999")]
        self.read(op, frames, garbage)

    @precondition(lambda self: bool(self.out))
    @rule(failure=failures, which=st.integers(0, 1))
    def a_request_fails(self, failure: Failure, which: int) -> None:
        op = sorted(self.out)[which % len(self.out)]
        self.last = self.out.pop(op)
        self.feed(Closed(op, failure))

    @rule(command=st.sampled_from([Begin(), Begin(), Reopen(), Reopen(), Hasten(), Reset(), Halt(Reason.PAUSED)]))
    def command_arrives(self, command: Begin | Halt | Reopen | Hasten | Reset) -> None:
        match command:
            case Begin() if self.machine.state in RESTING:
                self.retry_from = self.now
            case Hasten() if self.machine.failure and self.machine.failure.closed is CloseClass.NETWORK:
                self.retry_from = self.now if self.machine.strategy.prompt else self.retry_from
            case Reset():
                self.newest = -1
                self.expired = set()
                self.retry_from = self.now
        self.feed(command)

    @rule(op=st.integers(-1, 50), failure=failures)
    def an_unknown_request_is_answered(self, op: int, failure: Failure) -> None:
        state = self.machine.state
        stray = Frames([frame(Added, "999999")])
        answers: list[Input] = [
            Listed(op, 999999, 1, 1),
            Opened(op),
            Received(op, stray, self.now),
            Closed(op, failure),
        ]
        for answer in answers if op not in self.out else []:
            assert self.machine.receive(answer, self.now) == []
        if self.alarm is None or self.now < self.alarm:
            self.feed(Woken())
        assert self.machine.state is state

    # Invariants

    @invariant()
    def a_request_or_an_alarm_is_pending(self) -> None:
        state = self.machine.state
        if state in RESTING:
            assert not self.out
        else:
            assert self.out or self.alarm is not None
        if state in WAITING:
            assert self.alarm is not None
        assert (self.op_of(WatchRequest) is not None) or state not in (State.OPENING, State.WATCHING)

    @invariant()
    def every_request_ends_once(self) -> None:
        assert self.starts == self.ends + len(self.out)

    @invariant()
    def attributes_are_consistent(self) -> None:
        machine = self.machine
        assert (machine.revision is None) == (self.newest == -1)
        assert machine.revision is None or machine.revision == self.newest
        if machine.failure is not None:
            assert machine.failure.action is not Action.STOP
            assert machine.failure.closed is not CloseClass.DEADLINE
        assert Trigger.HALT in TRANSITIONS[machine.state]


Protocol.TestCase.settings = settings(max_examples=100, stateful_step_count=50)
TestProtocol = Protocol.TestCase
