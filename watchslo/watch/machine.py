"""The list+watch protocol of one stream, without I/O: what happened goes in, what to do comes out.

States are named after what is under way, `TRANSITIONS` is the protocol. Three rules hold whatever the server does: the
revision never goes back, a revision that expired is not asked for again, and no failure is answered without a wait.

A list that goes on while the watch is already asked for is *beside* it: the pages that follow the first one of
`parallel`, and what the inventory lists anew. It has no state, because nothing that becomes of it touches the watch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from watchslo.watch.backoff import Backoff
from watchslo.watch.decode import Added, Bookmark, Error, Frame, Frames, parse_revision
from watchslo.watch.failure import Action, CloseClass, Failure, Phase, Reason, because, classify_stream_error
from watchslo.watch.inventory import Inventory
from watchslo.watch.messages import (
    Batch,
    Begin,
    BookmarkSeen,
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
    ListFailed,
    ListRequest,
    Note,
    Objects,
    Opened,
    OutOfOrder,
    Output,
    Received,
    Relisted,
    RelistReason,
    Reopen,
    Reset,
    Start,
    TimeTravel,
    Unparsable,
    WakeAt,
    WatchClosed,
    WatchOpened,
    WatchRequest,
    Woken,
)
from watchslo.watch.strategy import Strategy, StreamedLists

SHORTEST_WATCH_SECONDS = 300  # client-go: each watch ends at random after five to ten minutes,
LONGEST_WATCH_SECONDS = 600  # so that not all clients come back at once
DEADLINE_SLACK_SECONDS = 1.0  # a watch that closes this close to its timeout has run its full time
HEALTHY_SECONDS = 10.0  # a watch that lived for this long is resumed at once, and proves its revision good
ERRORS_AT_ONE_REVISION = 5  # after so many, the revision itself is the likeliest cause
SHORTEST_GAP_SECONDS = 1.0  # between a request and the one that replaces it on our own account
SHORTEST_RELIST_SECONDS = 1.0  # an apiserver that restarts makes everybody's revision expire at once: a relist waits
LONGEST_RELIST_SECONDS = 10.0  # at random in between, and no longer, because the wait lengthens the gap
RELIST_INTERVAL_SECONDS = 10.0  # from the beginning of a list to that of the next: lists are what hurts an apiserver


class State(StrEnum):
    """What is under way. A stream is up while it is `watching`."""

    NEW = "new"
    LISTING = "listing"
    RELISTING = "relisting"
    OPENING = "opening"
    WATCHING = "watching"
    REOPENING = "reopening"
    AWAY = "away"
    HALTED = "halted"


class Trigger(StrEnum):
    """What moves the machine from one state to the next."""

    BEGIN = "begin"
    PAGE = "page"
    LISTED = "listed"
    STREAMED = "streamed"
    OPENED = "opened"
    RETRY = "retry"
    START_OVER = "start over"
    WAIT = "wait"
    WOKEN = "woken"
    RESUME = "resume"
    HALT = "halt"


CONTRACTS: Mapping[State, str] = {
    State.NEW: "Nothing is known and nothing asked.",
    State.LISTING: "A list, or its next page, is asked for or being streamed: it will tell a revision.",
    State.RELISTING: "No revision is of use. The list is asked for when the wait is over.",
    State.OPENING: "A revision is known. A watch from it is asked for.",
    State.WATCHING: "The watch is open: what arrives is live.",
    State.REOPENING: "A revision is known. The watch is asked for when the wait is over.",
    State.AWAY: "The resource cannot be listed or watched now. That is asked for again when the wait is over.",
    State.HALTED: "We were told to rest.",
}

TRANSITIONS: Mapping[State, Mapping[Trigger, State]] = {
    State.NEW: {
        Trigger.BEGIN: State.LISTING,
        Trigger.HALT: State.HALTED,
    },
    State.LISTING: {
        Trigger.PAGE: State.LISTING,
        Trigger.LISTED: State.OPENING,
        Trigger.STREAMED: State.WATCHING,
        Trigger.RETRY: State.RELISTING,
        Trigger.START_OVER: State.RELISTING,
        Trigger.WAIT: State.AWAY,
        Trigger.HALT: State.HALTED,
    },
    State.RELISTING: {
        Trigger.WOKEN: State.LISTING,
        Trigger.START_OVER: State.RELISTING,
        Trigger.HALT: State.HALTED,
    },
    State.OPENING: {
        Trigger.OPENED: State.WATCHING,
        Trigger.RETRY: State.REOPENING,
        Trigger.START_OVER: State.RELISTING,
        Trigger.WAIT: State.AWAY,
        Trigger.HALT: State.HALTED,
    },
    State.WATCHING: {
        Trigger.RETRY: State.REOPENING,
        Trigger.START_OVER: State.RELISTING,
        Trigger.WAIT: State.AWAY,
        Trigger.HALT: State.HALTED,
    },
    State.REOPENING: {
        Trigger.WOKEN: State.OPENING,
        Trigger.START_OVER: State.RELISTING,
        Trigger.HALT: State.HALTED,
    },
    State.AWAY: {
        Trigger.WOKEN: State.LISTING,
        Trigger.RESUME: State.OPENING,
        Trigger.START_OVER: State.RELISTING,
        Trigger.HALT: State.HALTED,
    },
    State.HALTED: {
        Trigger.BEGIN: State.LISTING,
        Trigger.HALT: State.HALTED,
    },
}


def transitions_markdown() -> str:
    """Render the protocol as a Markdown table: a line for each state."""
    lines = ["| state | contract | goes to |", "|---|---|---|"]
    for state, contract in CONTRACTS.items():
        arrows = "; ".join(f"{trigger} → `{target}`" for trigger, target in TRANSITIONS[state].items())
        lines.append(f"| `{state}` | {contract} | {arrows} |")
    return "\n".join(lines) + "\n"


@dataclass(slots=True)
class _List:
    """What is there of a list: asked for as `op`, or due at `wake` if it is beside a watch.

    Its revision is that of the first page: all pages are of one moment, until the apiserver lets an expired token go on
    from what there is by now (`moved`). What tells of all objects and is older than `newest` comes from the past.
    """

    way: Strategy
    op: int | None = None
    wake: float | None = None
    began: float = 0.0
    newest: int = -1
    revision: int = 0
    continue_token: str | None = None
    moved: bool = False
    items: int = 0
    size: int = 0
    pages: int = 0
    errors: int = 0
    live_from: int | None = None  # of a streamed list: its first live event; all that is newer is live too

    def add(self, page: Listed, revision: int) -> None:
        if self.pages == 0 or self.moved:
            self.revision = self.newest = revision
        self.continue_token = page.continue_token
        self.items += page.items
        self.size += page.size
        self.pages += 1

    @property
    def complete(self) -> bool:
        return not (self.way.paged and self.continue_token)


@dataclass(slots=True)
class _Doubts:
    """What speaks against asking for a revision: it expired, brought errors in a row, or clean ends without a word."""

    expired: int | None = None
    errors: int = 0
    errors_at: int | None = None
    empty_at: int | None = None


class Machine:
    """One stream. `random` returns numbers from [0, 1); `page_size` counts objects.

    `streaming` is shared by all streams of one apiserver; `inventory`, where one is kept, is this stream's own. Readers
    may look at `state`, at `revision`, the newest that is known, at `failure`, the last thing that went wrong with the
    way to the watch, and at the inventory. At most one list and one watch are out at any time.
    """

    def __init__(
        self,
        strategy: Strategy,
        page_size: int,
        random: Callable[[], float],
        *,
        streaming: StreamedLists | None = None,
        inventory: Inventory | None = None,
    ) -> None:
        self.strategy = strategy
        self.inventory = inventory
        self.state = State.NEW
        self.revision: int | None = None
        self.failure: Failure | None = None
        self._streaming = streaming or StreamedLists()
        self._page_size = page_size
        self._random = random
        self._outputs: list[Output] = []
        self._ops = 0
        self._asked = float("-inf")  # the last request
        self._wake: float | None = None  # when to leave a state that waits
        self._backoff = Backoff(random)
        # the watch
        self._op: int | None = None
        self._watch = WatchRequest(revision=0, timeout=0)
        self._watch_asked = 0.0
        self._opened: float | None = None
        self._told: int | None = None  # the revision of the last event that the watch brought
        self._heard = False  # whether it brought any, or a bookmark
        self._noise = False  # whether it brought anything else
        self._doubts = _Doubts()
        # the list
        self._list: _List | None = None
        self._list_backoff = Backoff(random)  # of those beside the watch, and of those after a watch that expired
        self._listed_at = float("-inf")  # the beginning of the last one
        self._throttled = self._instead = False  # until a list has succeeded
        self._relisting: RelistReason | None = None  # what it is needed for
        self._restocking = False  # whether the inventory needs one beside the watch
        self._blind_after: int | None = None  # the revision, and the time, since when nobody told
        self._blind_from = 0.0

    @property
    def lists(self) -> bool:
        """Whether a list is under way or due, be it beside the watch."""
        return self._list is not None

    def inherit(self, revision: int, now: float) -> None:
        """Take over, before the beginning, from a machine that had come to `revision` and ended at `now`."""
        self.revision, self._blind_from = revision, now

    def receive(self, happened: Input, now: float) -> list[Output]:
        """Take what happened at `now` and return what to do, in order.

        An answer to a request that is not out is ignored, and so is one that its request cannot have.
        """
        match happened:
            case Received():  # most often by far: a pattern that looks into it would cost more than all the rest
                if happened.op == self._op and self._opened is not None:
                    take = self._take if self.state is State.WATCHING else self._take_listed
                    take(happened, now)
            case Listed(op):
                if self._list is not None and op == self._list.op:
                    self._add_page(self._list, happened, now)
            case Opened(op):
                if op == self._op and self._opened is None:
                    self._open(now)
            case Closed(op, failure):
                self._close(op, failure, now)
            case Woken():
                self._wake_up(now)
            case _:
                self._obey(happened, now)
        outputs, self._outputs = self._outputs, []
        return outputs

    # What we are told

    def _obey(self, command: Begin | Halt | Reopen | Reset, now: float) -> None:
        match command:
            case Begin():
                self._begin(now)
            case Halt(reason):
                self._cancel(because(reason), now)
                self._go(Trigger.HALT, now)
            case Reopen(reason):
                self._reopen(because(reason), now)
            case _:
                self._reset(now)

    def _begin(self, now: float) -> None:
        if Trigger.BEGIN in TRANSITIONS[self.state]:
            has_inherited = self.state is State.NEW and self.revision is not None
            self._need_list(RelistReason.ERRORS if has_inherited else RelistReason.START)
            self._go(Trigger.BEGIN, now)

    def _reopen(self, why: Failure, now: float) -> None:
        if self.state in (State.OPENING, State.WATCHING):
            self._cancel_watch(why, now)
            self._go(Trigger.RETRY, now, self._pause(now))

    def _reset(self, now: float) -> None:
        self.revision = None
        self._doubts.expired = self._blind_after = None
        if Trigger.START_OVER in TRANSITIONS[self.state]:
            self._cancel(because(Reason.DOMAIN_RESET), now)
            self._need_list(RelistReason.DOMAIN_RESET)
            self._go(Trigger.START_OVER, now, max(self._pause(now), self._relist_wait(now)))

    # What the apiserver answers to a list

    def _add_page(self, pages: _List, page: Listed, now: float) -> None:
        pages.op = None
        if page.revision is None:
            self._fail_list(pages, because(Reason.UNPARSABLE), now)
        elif page.revision < pages.newest:
            self._note(TimeTravel(pages.newest - page.revision))
            self._fail_list(pages, because(Reason.TIME_TRAVEL), now)
        elif page.revision == self._doubts.expired and self.state is State.LISTING:
            # No time travel: nothing was written since. The next write will tell a revision to watch from.
            self._fail_list(pages, because(Reason.EXPIRED), now)
        else:
            pages.add(page, page.revision)
            self._list_objects(page.objects)
            self._go_on(pages, now)

    def _go_on(self, pages: _List, now: float) -> None:
        """Ask for what follows a page: the next one, and the watch as soon as the strategy has its revision."""
        if pages.complete:
            self._finish_list(pages, pages.revision, Trigger.LISTED, now)
        elif self.state is not State.LISTING:
            self._ask_page(pages, now)
        elif pages.way.parallel:
            self._adopt(pages.revision, pages.revision, now)
            self._go(Trigger.LISTED, now)
            self._ask_page(pages, now)
        else:
            self._go(Trigger.PAGE, now)

    def _finish_list(self, done: _List, until: int, trigger: Trigger, now: float) -> None:
        """Have all that there was at `until`. Where the watch has waited for it, it can begin."""
        self._list = None
        self._throttled = self._instead = self._restocking = False
        took = now - done.began
        self._note(ListDone(done.way.name, done.revision, done.items, done.size, done.pages, took))
        if self.state is State.LISTING:
            self._adopt(done.revision, until, now)
            self._go(trigger, now)
        if self.inventory is not None:
            self._take_stock(self.inventory, until, now)

    def _adopt(self, revision: int, until: int, now: float) -> None:
        """Watch from this revision. What came up to `until`, and was not told, is a gap."""
        if self._blind_after is not None and until > self._blind_after:
            self._note(Gap(self._blind_after, until, now - self._blind_from))
        self.revision = revision
        self._blind_from = now
        self._relisting = None
        self._doubts.errors = 0

    def _take_stock(self, inventory: Inventory, until: int, now: float) -> None:
        """Let the inventory say what no event told; where too much happened meanwhile, it needs another list."""
        assert self.revision is not None
        unseen = inventory.finish(until, told=self.revision)
        if unseen is not None:
            self._note(unseen)
        if not inventory.synced:
            self._list_beside(now)

    # What a watch brings

    def _open(self, now: float) -> None:
        self._note(WatchOpened(now - self._watch_asked))
        self._opened = now
        self._told = None
        self._heard = self._noise = False
        if self.state is State.OPENING:
            self._go(Trigger.OPENED, now)

    def _take(self, chunk: Received, now: float) -> None:
        """Pass on what is live and in order. This loop runs for every event there is.

        Several events may be of one revision: what etcd deletes with one lease, as `events` that have expired.
        """
        frames = chunk.frames
        newest = self.revision
        assert newest is not None
        late = unparsable = 0
        error = None
        batch = Batch(chunk.received, [], [], [])
        for event in frames.events:
            if isinstance(event, Error):
                error = event.object
                break
            metadata = event.object.metadata
            revision = parse_revision(metadata.resource_version)
            if revision is None:
                unparsable += 1
            elif isinstance(event, Bookmark) and revision >= newest:
                newest = revision
                self._note(BookmarkSeen(revision))
            elif revision > newest or revision == newest == (batch.revisions[-1] if batch.revisions else self._told):
                newest = revision
                batch.revisions.append(revision)
                batch.types.append(event.type)
                batch.created.append(metadata.creation_timestamp)
            else:
                late += 1
        self.revision = newest
        self._heard = self._heard or bool(frames.events)
        self._noise = self._noise or bool(frames.garbage)
        if batch.revisions:
            self._told = batch.revisions[-1]
            self._outputs.append(Emit(batch))
            if self.inventory is not None:
                _keep(self.inventory, batch, frames.events)
        self._note_flaws(late, unparsable, frames.garbage)
        if error is not None:
            self._break_off(classify_stream_error(error), now)

    def _take_listed(self, chunk: Received, now: float) -> None:
        """Take a chunk of a streamed list, up to what ends it; what follows the bookmark that does is live."""
        listed, events, garbage = self._list, chunk.frames.events, chunk.frames.garbage
        assert listed is not None
        self._heard = self._heard or bool(events)
        self._noise = self._noise or bool(garbage)
        listed.size += chunk.size
        place = next((place for place, event in enumerate(events) if _ends_list(event)), len(events))
        self._tell_apart(listed, Received(chunk.op, Frames(events[:place], garbage), chunk.received))
        match events[place:]:
            case [Error(object=status), *_]:
                self._break_off(classify_stream_error(status), now)
            case [Bookmark() as end, *live]:
                self._end_stream(listed, parse_revision(end.object.metadata.resource_version), now)
                if self.state is State.WATCHING:
                    self._take(Received(chunk.op, Frames(live), chunk.received), now)

    def _tell_apart(self, listed: _List, chunk: Received) -> None:
        """Tell the objects that were there, which are no changes, from what happens while they are sent.

        They come as ADDED, and all are older than the first change: an ADDED that is newer than a change is one, too.
        """
        late = unparsable = 0
        uids: list[str | None] = []
        revisions: list[str | None] = []
        batch = Batch(chunk.received, [], [], [])
        for event in chunk.frames.events:
            assert not isinstance(event, Error)
            metadata = event.object.metadata
            revision = parse_revision(metadata.resource_version)
            if revision is None:
                unparsable += 1
            elif isinstance(event, Bookmark):
                continue  # progress: a list that is not whole cannot be resumed
            elif isinstance(event, Added) and (listed.live_from is None or revision <= listed.newest):
                uids.append(metadata.uid)
                revisions.append(metadata.resource_version)
                listed.newest = max(listed.newest, revision)
            elif revision > listed.newest or revision == self._told:
                listed.newest = self._told = revision
                listed.live_from = listed.live_from or revision
                batch.revisions.append(revision)
                batch.types.append(event.type)
                batch.created.append(metadata.creation_timestamp)
            else:
                late += 1
        if uids:
            listed.items += len(uids)
            self._note(InitialEvents(len(uids)))
            self._list_objects(Objects(uids, revisions))
        if batch.revisions:
            self.revision = listed.newest
            self._outputs.append(Emit(batch))
            if self.inventory is not None:
                _keep(self.inventory, batch, chunk.frames.events)
        self._note_flaws(late, unparsable, chunk.frames.garbage)

    def _list_objects(self, objects: Objects | None) -> None:
        if self.inventory is not None and objects is not None:
            self.inventory.list(objects.uids, objects.revisions)

    def _end_stream(self, listed: _List, revision: int | None, now: float) -> None:
        if revision is None:
            self._break_off(because(Reason.UNPARSABLE), now)
        elif revision < listed.newest:
            self._note(TimeTravel(listed.newest - revision))
            self._break_off(because(Reason.TIME_TRAVEL), now)
        elif revision == self._doubts.expired:
            self._break_off(because(Reason.EXPIRED), now)
        else:
            listed.revision, listed.pages = revision, 1
            self._watch = replace(self._watch, revision=revision)
            until = revision if listed.live_from is None else listed.live_from - 1
            self._finish_list(listed, until, Trigger.STREAMED, now)

    def _note_flaws(self, late: int, unparsable: int, garbage: int) -> None:
        if late:
            self._note(OutOfOrder(late))
        if unparsable:
            self._note(Unparsable(unparsable))
        if garbage:
            self._note(Garbage(garbage))

    # How requests end: each with its answer, or for one reason

    def _close(self, op: int, failure: Failure, now: float) -> None:
        if self._list is not None and op == self._out(self._list):
            self._fail_list(self._list, self._end_of_list(failure, now), now)
        elif op == self._op:
            self._fail_watch(failure, now)

    def _out(self, listed: _List) -> int | None:
        """What a list is out as: a request of its own, or the watch that streams it."""
        return self._op if self.state is State.LISTING and listed.op is None else listed.op

    def _break_off(self, failure: Failure, now: float) -> None:
        """Drop a watch that is of no use any more, though it may still be open."""
        assert self._op is not None
        self._outputs.append(Cancel(self._op))
        self._close(self._op, failure, now)

    def _end_of_list(self, failure: Failure, now: float) -> Failure:
        """Tell why a list ended without its answer; that a streamed one ended cleanly is not all there is to know."""
        if failure.reason is Reason.EXPIRED:
            self._note(Expired(Phase.LIST))
        lived = self._lived(now)
        if failure.reason is not Reason.FORCED or self.state is not State.LISTING or lived is None:
            return failure
        if lived >= self._watch.timeout - DEADLINE_SLACK_SECONDS:
            return because(Reason.NO_STREAMED_LISTS)  # it took no notice, and was an ordinary watch
        return because(Reason.GARBAGE) if self._noise and not self._heard else failure

    def _fail_list(self, failed: _List, failure: Failure, now: float) -> None:
        beside = self.state is not State.LISTING
        self._end_list(failed, failure)
        self._throttled = self._throttled or failure.reason is Reason.THROTTLED
        trigger = self._judge_list(failed, failure)
        if beside:
            wait = self._list_backoff.next(now, failure.retry_after)
            if trigger is Trigger.RETRY:
                self._wait_beside(failed, now + wait)
            else:
                self._list_beside(now, wait)
            return
        self._blame(failure)
        if failure.reason is Reason.NO_STREAMED_LISTS and failed.way.first is None:
            self._streaming.refused(now)
            self._note(FellBack())
            self._go(Trigger.RETRY, now, self._pause(now))
        else:
            self._follow(trigger, failure, now, self._backoff.next(now, failure.retry_after))

    def _judge_list(self, failed: _List, failure: Failure) -> Trigger:
        if failure.action is Action.RESUME:
            failed.errors += 1
        if failed.continue_token and failure.continue_token and self.inventory is None:
            # What the token leads to is of a later moment: it tells a revision, but not which objects there are.
            failed.continue_token, failed.moved = failure.continue_token, True
            return Trigger.RETRY
        return _trigger(failure, failed.errors)

    def _fail_watch(self, failure: Failure, now: float) -> None:
        phase = Phase.OPEN if self._opened is None else Phase.STREAM
        lived = self._lived(now)
        healthy = _is_healthy(lived)
        if failure.reason is Reason.FORCED and lived is not None:
            failure = because(self._clean_end(lived))
        self._end_watch(failure, now)
        trigger = self._judge_watch(failure, healthy=healthy)
        if failure.reason is Reason.EXPIRED:
            self._note(Expired(phase))
            self._doubts.expired = self._watch.revision
        at_once = healthy and trigger is Trigger.RETRY and failure.retry_after is None
        # What made us wait until now does not count against a revision that expired: while we wait, more is lost.
        backoff = self._list_backoff if failure.reason is Reason.EXPIRED else self._backoff
        self._follow(trigger, failure, now, 0.0 if at_once else backoff.next(now, failure.retry_after))

    def _clean_end(self, lived: float) -> Reason:
        """Tell why a watch ended without an error: the reader of its connection cannot know."""
        if lived >= self._watch.timeout - DEADLINE_SLACK_SECONDS:
            return Reason.DEADLINE
        if self._heard:
            return Reason.FORCED
        if self._noise:
            return Reason.GARBAGE
        if lived >= HEALTHY_SECONDS:
            return Reason.FORCED
        again = self._doubts.empty_at == self.revision
        self._doubts.empty_at = self.revision
        return Reason.EMPTY_CLOSE if again else Reason.FORCED

    def _judge_watch(self, failure: Failure, *, healthy: bool) -> Trigger:
        if healthy or self._doubts.errors_at != self.revision:
            self._doubts.errors = 0
            self._doubts.errors_at = self.revision
        if failure.action is Action.RESUME and not healthy:
            self._doubts.errors += 1
        return _trigger(failure, self._doubts.errors)

    def _follow(self, trigger: Trigger, failure: Failure, now: float, wait: float) -> None:
        """Go on after a failure: with what was asked for, or with another list.

        A watch that has to wait keeps its revision: what happens until then may still be told.
        """
        if trigger is Trigger.START_OVER or (trigger is Trigger.WAIT and self.state is State.LISTING):
            self._instead = trigger is Trigger.START_OVER and self.state is State.LISTING
            self._need_list(RelistReason.EXPIRED if failure.reason is Reason.EXPIRED else RelistReason.ERRORS)
            wait = max(wait, self._relist_wait(now))
        if trigger is Trigger.WAIT:
            self._note(GaveUp(failure))
        self._go(trigger, now, wait)

    def _cancel(self, why: Failure, now: float) -> None:
        if self.state in (State.OPENING, State.WATCHING):
            self._cancel_watch(why, now)
        self._drop_list(why)

    def _cancel_watch(self, why: Failure, now: float) -> None:
        assert self._op is not None
        self._outputs.append(Cancel(self._op))
        self._end_watch(why, now)

    def _drop_list(self, why: Failure) -> None:
        dropped, self._list = self._list, None
        out = self._out(dropped) if dropped is not None else None
        if dropped is not None and out is not None:
            self._outputs.append(Cancel(out))
            self._end_list(dropped, why)
        if self.inventory is not None:
            self.inventory.abandon()

    def _end_watch(self, failure: Failure, now: float) -> None:
        lived = self._lived(now)
        self._note(WatchClosed(failure, lived))
        self._op = self._opened = None
        only_expired = failure.reason is Reason.EXPIRED and not self._heard and not _is_healthy(lived)
        if lived is not None and not only_expired:
            self._blind_from = now
        self._blame(failure)

    def _end_list(self, ended: _List, failure: Failure) -> None:
        self._note(ListFailed(failure))
        ended.op = None
        if self.state is State.LISTING:
            self._op = self._opened = None

    def _blame(self, failure: Failure) -> None:
        if failure.closed is not CloseClass.DEADLINE and failure.action is not Action.STOP:
            self.failure = failure

    def _lived(self, now: float) -> float | None:
        return None if self._opened is None else now - self._opened

    # How states are entered

    def _go(self, trigger: Trigger, now: float, wait: float = 0.0) -> None:
        self.state = TRANSITIONS[self.state][trigger]
        self._wake = None
        match self.state:
            case State.LISTING:
                assert self._list is not None
                self._ask_page(self._list, now)
            case State.OPENING:
                self._ask_watch(self.revision, now)
            case State.RELISTING | State.REOPENING | State.AWAY:
                self._wake = now + wait
                self._arm()

    def _wake_up(self, now: float) -> None:
        """Go on with what has waited; an alarm that goes off too early (clocks are rounded) is set again."""
        if self._wake is not None and now >= self._wake:
            resumes = self.state is State.AWAY and self._relisting is None
            self._go(Trigger.RESUME if resumes else Trigger.WOKEN, now)
        waiting = self._list
        if waiting is not None and waiting.wake is not None and now >= waiting.wake:
            self._ask_page(waiting, now)
        self._arm()

    def _arm(self) -> None:
        """Set the one alarm for whatever is due first."""
        beside = self._list.wake if self._list is not None else None
        times = [time for time in (self._wake, beside) if time is not None]
        if times:
            self._outputs.append(WakeAt(min(times)))

    def _need_list(self, reason: RelistReason) -> None:
        self._drop_list(because(Reason.SUPERSEDED))
        self._list = _List(self.strategy)
        self._restocking = False
        anew = reason in (RelistReason.START, RelistReason.DOMAIN_RESET)
        if anew and self.inventory is not None:
            self.inventory.forget()
        if self._relisting is None or reason is RelistReason.START:
            self._relisting = reason
            self._blind_after = None if anew else self.revision
            self._note(Relisted(reason))

    def _list_beside(self, now: float, wait: float = 0.0) -> None:
        """List anew beside the watch: all objects, for the inventory or as an informer would."""
        if self.inventory is not None:
            self.inventory.abandon()
            if not self._restocking:
                self._note(Relisted(RelistReason.INVENTORY))
            self._restocking = True
        self._list = _List(self.strategy.instead or self.strategy)
        self._wait_beside(self._list, now + max(wait, self._relist_wait(now)))

    def _wait_beside(self, waiting: _List, until: float) -> None:
        waiting.wake = until
        self._arm()

    def _relist_wait(self, now: float) -> float:
        """Seconds to wait so that the lists of a thousand clients, whose revision expired at once, are spread."""
        if self._relisting is RelistReason.START:
            return 0.0
        spread = LONGEST_RELIST_SECONDS - SHORTEST_RELIST_SECONDS
        return max(SHORTEST_RELIST_SECONDS + spread * self._random(), self._listed_at + RELIST_INTERVAL_SECONDS - now)

    def _pause(self, now: float) -> float:
        """Seconds to wait so that a change of our own does not make requests come thick and fast."""
        return max(0.0, self._asked + SHORTEST_GAP_SECONDS - now)

    # What is asked for

    def _ask_page(self, listed: _List, now: float) -> None:
        listed.wake = None
        if listed.pages == 0:
            self._begin_list(listed, now)
        if listed.way.first is None:
            self._ask_watch(None, now)
        else:
            listed.op = self._ask(self._next_page(listed), now)

    def _begin_list(self, listed: _List, now: float) -> None:
        if self.state is State.LISTING:
            listed.way = self._choose(now)
        listed.began = self._listed_at = now
        listed.newest = -1 if self.revision is None else self.revision
        listed.items = listed.size = 0
        listed.live_from = None
        if self.inventory is not None:
            self.inventory.begin()

    def _choose(self, now: float) -> Strategy:
        refused = self.strategy.first is None and not self._streaming.usable(now)
        return (self.strategy.instead if refused or self._instead else None) or self.strategy

    def _next_page(self, listed: _List) -> ListRequest:
        request = listed.way.throttled if self._throttled else listed.way.first
        assert request is not None
        if not listed.way.paged:
            return request
        return replace(request, limit=self._page_size, continue_token=listed.continue_token)

    def _ask_watch(self, revision: int | None, now: float) -> None:
        spread = LONGEST_WATCH_SECONDS - SHORTEST_WATCH_SECONDS
        self._watch = WatchRequest(revision, SHORTEST_WATCH_SECONDS + int(spread * self._random()))
        self._watch_asked = now
        self._op = self._ask(self._watch, now)

    def _ask(self, request: ListRequest | WatchRequest, now: float) -> int:
        self._ops += 1
        self._asked = now
        self._outputs.append(Start(self._ops, request))
        return self._ops

    def _note(self, fact: Fact) -> None:
        self._outputs.append(Note(fact))


def _is_healthy(lived: float | None) -> bool:
    return lived is not None and lived >= HEALTHY_SECONDS


def _trigger(failure: Failure, errors: int) -> Trigger:
    """What follows a failure after so many `errors` at one revision, or in one list."""
    if failure.action is Action.WAIT:
        return Trigger.WAIT
    if failure.action is Action.START_OVER or errors >= ERRORS_AT_ONE_REVISION:
        return Trigger.START_OVER
    return Trigger.RETRY


def _ends_list(event: Frame) -> bool:
    return isinstance(event, Error) or (isinstance(event, Bookmark) and event.ends_list)


def _keep(inventory: Inventory, batch: Batch, events: Sequence[Frame]) -> None:
    """Tell the inventory what is live: the batch is what of the events was in order."""
    uids: list[str | None] = []
    for event in events:
        if isinstance(event, Error):
            break
        metadata = event.object.metadata
        is_live = not isinstance(event, Bookmark) and len(uids) < len(batch.revisions)
        if is_live and parse_revision(metadata.resource_version) == batch.revisions[len(uids)]:
            uids.append(metadata.uid)
    inventory.apply(batch.types, uids, batch.revisions)
