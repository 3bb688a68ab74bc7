"""The list and watch protocol of one watch, without I/O: inputs and a time go in, outputs come out.

Theory of operation
===================

A client of the Kubernetes API follows a resource in two steps. It lists, which gives a revision (`resourceVersion`),
and it watches from that revision, which gives every later change in order. A watch ends often: by its own timeout, when
an apiserver restarts, when a connection breaks. The client then watches again from the newest revision that it has
seen. An apiserver keeps a limited headroom of past changes: if the revision is older, it answers 410 (Expired), and the
client must list again. All changes in between are a gap.

The machine is this protocol and nothing else. A driver sends its requests and feeds back what happens:

    driver: receive(Begin(), now)                   machine: [Start(op=1, ListRequest)]
    driver: receive(Listed(op=1, revision=7), now)  machine: [Note(ListDone), Start(op=2, WatchRequest(revision=7))]
    driver: receive(Sent(op=2), now)                machine: [Note(WatchQueued)]
    driver: receive(Opened(op=2), now)              machine: [Note(WatchOpened)]
    driver: receive(Received(op=2, frames), now)    machine: [Emit(batch)]
    driver: receive(Closed(op=2, failure), now)     machine: [Note(WatchClosed), WakeAt(time)]
    driver: receive(Woken(), now)                   machine: [Start(op=3, WatchRequest(revision=9))]

`transitions.TRANSITIONS` lists the states and where each trigger leads. Entering a state sends its request or sets its
alarm (`_go`). `failure.py` decides what a failure means; the machine only follows its `Action`: resume the watch, start
over with a list, wait, or stop.

Three rules hold whatever the server does:

1. The revision never goes back. A list that is older than what the watch has seen is refused (`TimeTravel`).
2. A revision that expired is never requested again.
3. No failure is answered by a request without a wait, except when a healthy watch ends, or when a streamed list turns
   out to be an ordinary watch after more than a second.

At most one list and one watch are in flight. A list can run in parallel to the watch: the later pages of the strategy
`parallel`, and the list that the inventory needs after a gap. Such a list has no state, because its outcome never
changes the watch. A streamed list is a watch that first sends all objects: while it lists, the list's request is the
watch's request.

An answer to a request that is no longer in flight is ignored; every request has its own number (`op`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from watchslo.watch.backoff import Backoff
from watchslo.watch.decode import Bookmark, Error, Frame, Frames, parse_revision
from watchslo.watch.doubts import Doubts
from watchslo.watch.down_time import DownTime
from watchslo.watch.failure import Action, CloseClass, Failure, Phase, Reason, because, classify_stream_error
from watchslo.watch.flaws import Flaws
from watchslo.watch.gap_start import GapStart
from watchslo.watch.inventory import Inventory
from watchslo.watch.inventory_feed import InventoryFeed
from watchslo.watch.listing import ListPlanner, ListProgress
from watchslo.watch.live_events import sort_live
from watchslo.watch.messages import (
    Batch,
    Begin,
    BookmarkSeen,
    Cancel,
    Closed,
    Emit,
    Expired,
    FellBack,
    GaveUp,
    Halt,
    Hasten,
    InitialEvents,
    Input,
    ListDone,
    Listed,
    ListFailed,
    Opened,
    Output,
    Received,
    Relisted,
    RelistReason,
    Reopen,
    Reset,
    Sent,
    TimeTravel,
    WakeAt,
    WatchClosed,
    WatchOpened,
    WatchQueued,
    WatchRequest,
    Woken,
)
from watchslo.watch.outbox import Outbox
from watchslo.watch.strategy import Strategy, StreamedLists
from watchslo.watch.streamed_list import position_of_end, separate
from watchslo.watch.transitions import TRANSITIONS, State, Trigger
from watchslo.watch.watch_attempt import WatchAttempt, is_healthy

SHORTEST_WATCH_SECONDS = 300  # client-go ends each watch at random after five to ten minutes,
LONGEST_WATCH_SECONDS = 600  # so that not all clients reconnect at once
SILENT_LIST_SECONDS = 30.0  # without an object of a streamed list, which a watch cache sends at once
SOON_SECONDS = 0.5  # within which the watches of an apiserver are opened again once it answers again
SHORTEST_SPACING_SECONDS = 1.0  # between a request and the one that replaces it for a reason of our own


class Machine:
    """The protocol of one watch. `random` returns numbers from [0, 1); `page_size` counts objects.

    `streaming` is shared by all watches of one apiserver; `inventory`, if one is kept, belongs to this watch. Readers
    may look at `state`, at `revision` (the newest that is known), at `failure` (the last thing that kept the watch from
    opening or closed it), at its `down` time and at the inventory.
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
        self.down = DownTime()
        self._random = random
        self._feed = InventoryFeed(inventory)
        self._out = Outbox()
        self._wake: float | None = None  # when to leave a state that waits
        self._backoff = Backoff(random)
        self._watch: WatchAttempt | None = None
        self._doubts = Doubts()
        self._list: ListProgress | None = None
        self._planner = ListPlanner(strategy, page_size, streaming or StreamedLists(), random)
        self._gap_start = GapStart()
        self._begins_in_past = strategy.replays  # until a watch has delivered anything

    @property
    def is_listing(self) -> bool:
        """Return True if a list is in progress or due, also one in parallel to the watch."""
        return self._list is not None

    def opening_for(self, now: float) -> float | None:
        """Return for how many seconds a watch has been requested without an answer; None if none is."""
        if self.state is not State.OPENING:
            return None
        assert self._watch is not None
        return self._watch.opening_for(now)

    def inherit(self, revision: int, now: float) -> None:
        """Continue, before `Begin`, from another machine that had reached `revision` and ended at `now`."""
        self.revision = revision
        self._gap_start.since = now

    def receive(self, happened: Input, now: float) -> list[Output]:
        """Take one input of time `now` and return what to do, in order.

        Answers to requests that are not in flight, and answers of the wrong kind, are ignored.
        """
        match happened:
            case Received():  # by far the most frequent: a pattern with fields would cost more than all the rest
                watch = self._watch
                if watch is not None and happened.op == watch.op and watch.opened is not None:
                    take = self._take if self.state is State.WATCHING else self._take_streamed
                    take(watch, happened, now)
            case Listed(op):
                if self._list is not None and op == self._list.op:
                    self._add_page(self._list, happened, now)
            case Sent(op):
                self._sent(op, now)
            case Opened(op):
                if self._watch is not None and op == self._watch.op and self._watch.opened is None:
                    self._open(self._watch, now)
            case Closed(op, failure):
                self._close(op, failure, now)
            case Woken():
                self._wake_up(now)
            case _:
                self._obey(happened, now)
        return self._out.take()

    # Commands

    def _obey(self, command: Begin | Halt | Reopen | Hasten | Reset, now: float) -> None:
        match command:
            case Begin():
                self._begin(now)
            case Halt(reason):
                self._cancel(because(reason), now)
                self._go(Trigger.HALT, now)
            case Reopen(reason):
                self._reopen(because(reason), now)
            case Hasten():
                self._hasten(now)
            case _:
                self._reset(command.reason, now)

    def _begin(self, now: float) -> None:
        if Trigger.BEGIN in TRANSITIONS[self.state]:
            has_inherited = self.state is State.NEW and self.revision is not None
            self._need_list(RelistReason.ERRORS if has_inherited else RelistReason.START)
            self._go(Trigger.BEGIN, now)

    def _reopen(self, why: Failure, now: float) -> None:
        if self.state in (State.OPENING, State.WATCHING):
            self._cancel_watch(why, now)
            self._go(Trigger.RETRY, now, self._pause(now))

    def _hasten(self, now: float) -> None:
        """Try soon what waits after a failure of the network; waits that an answer has caused stay as they are."""
        was_network = self.failure is not None and self.failure.closed is CloseClass.NETWORK
        if (
            self.strategy.prompt
            and was_network
            and self.state in (State.RELISTING, State.REOPENING)
            and self._wake is not None
        ):
            self._backoff = Backoff(self._random)
            self._wake = min(self._wake, now + SOON_SECONDS * self._random())
            self._set_alarm()

    def _reset(self, reason: Reason, now: float) -> None:
        self.revision = None
        self._doubts.expired = self._gap_start.after = None
        if Trigger.START_OVER in TRANSITIONS[self.state]:
            self._cancel(because(reason), now)
            self._need_list(RelistReason.DOMAIN_RESET if reason is Reason.DOMAIN_RESET else RelistReason.START)
            self._go(Trigger.START_OVER, now, max(self._pause(now), self._planner.wait(now)))

    # Answers to a list

    def _add_page(self, pages: ListProgress, page: Listed, now: float) -> None:
        pages.op = None
        if page.revision is None:
            self._fail_list(pages, because(Reason.UNPARSABLE), now)
        elif page.revision < pages.newest:
            self._out.note(TimeTravel(pages.newest - page.revision))
            self._fail_list(pages, because(Reason.TIME_TRAVEL), now)
        elif page.revision == self._doubts.expired and self.state is State.LISTING:
            # Not time travel: nothing was written since. The next write gives a revision to watch from.
            self._fail_list(pages, because(Reason.EXPIRED), now)
        else:
            pages.add(page, page.revision)
            self._feed.list(page.objects)
            self._continue_list(pages, now)

    def _continue_list(self, pages: ListProgress, now: float) -> None:
        """Request what follows a page: the next one, and the watch as soon as the strategy has its revision."""
        if pages.complete:
            self._finish_list(pages, pages.revision, Trigger.LISTED, now)
        elif self.state is not State.LISTING:
            self._request_page(pages, now)
        elif pages.strategy.parallel:
            self._adopt(pages.revision, pages.revision, now)
            self._go(Trigger.LISTED, now)
            self._request_page(pages, now)
        else:
            self._go(Trigger.PAGE, now)

    def _finish_list(self, done: ListProgress, until: int, trigger: Trigger, now: float) -> None:
        """Complete a list of everything that existed at `until`, and begin the watch if that has waited for it."""
        self._list = None
        self._planner.succeeded()
        took = now - done.began
        self._out.note(ListDone(done.strategy.name, done.revision, done.items, done.size, done.pages, took))
        if self.state is State.LISTING:
            self._adopt(done.revision, until, now)
            self._go(trigger, now)
        self._reconcile(until, now)

    def _adopt(self, revision: int, until: int, now: float) -> None:
        """Watch from this revision. Changes up to `until` that were not delivered are a gap."""
        self._out.note(*self._gap_start.gap(until, now))
        self.revision = revision
        self._gap_start.since = now
        self._planner.reason = None
        self._doubts.errors = 0

    def _reconcile(self, until: int, now: float) -> None:
        """Count what a gap hid. If the inventory could not hold all events during the list, it needs another list."""
        self._out.note(*self._feed.finish(until, delivered=self.revision))
        if self._feed.needs_list:
            self._list_in_parallel(now)

    # Events of a watch

    def _open(self, watch: WatchAttempt, now: float) -> None:
        self._out.note(WatchOpened(watch.opening_for(now)))
        watch.opened = now
        if self.state is State.OPENING:
            self._go(Trigger.OPENED, now)
        else:
            self._wake = now + SILENT_LIST_SECONDS
            self._set_alarm()

    def _take(self, watch: WatchAttempt, chunk: Received, now: float) -> None:
        """Emit the events that are live and in order."""
        frames = chunk.frames
        assert self.revision is not None
        live = sort_live(frames, chunk.received, self.revision, watch.position)
        self._feed.doubt(live.flaws)
        self.revision = live.newest
        watch.heard = watch.heard or (bool(frames.events) and not isinstance(frames.events[0], Error))
        watch.garbled = watch.garbled or bool(frames.garbage)
        for revision in live.bookmarks:
            self._out.note(BookmarkSeen(revision))
        if live.batch.revisions:
            self._emit(live.batch, frames.events, live.flaws)
        self._out.note(*live.flaws.facts)
        if live.error is not None:
            self._break_off(watch, classify_stream_error(live.error), now)

    def _take_streamed(self, watch: WatchAttempt, chunk: Received, now: float) -> None:
        """Take a chunk of a streamed list. Events after the bookmark that ends the list are live."""
        listed, events, garbage = self._list, chunk.frames.events, chunk.frames.garbage
        assert listed is not None
        if not all(isinstance(event, Bookmark) for event in events):
            self._wake = now + SILENT_LIST_SECONDS
        watch.heard = watch.heard or bool(events)
        watch.garbled = watch.garbled or bool(garbage)
        listed.size += chunk.size
        end = position_of_end(events)
        self._take_listed(watch, listed, Received(chunk.op, Frames(events[:end], garbage), chunk.received))
        match events[end:]:
            case [Error(object=status), *_]:
                self._break_off(watch, classify_stream_error(status), now)
            case [Bookmark() as bookmark, *live]:
                self._end_streamed(watch, listed, parse_revision(bookmark.object.metadata.resource_version), now)
                if self.state is State.WATCHING:
                    self._take(watch, Received(chunk.op, Frames(live), chunk.received), now)

    def _take_listed(self, watch: WatchAttempt, listed: ListProgress, chunk: Received) -> None:
        part = separate(listed, chunk.frames, chunk.received, watch.position)
        self._feed.doubt(part.flaws)
        if part.uids:
            self._out.note(InitialEvents(len(part.uids)))
            self._feed.list(part.objects)
        if part.batch.revisions:
            self.revision = listed.newest
            self._emit(part.batch, chunk.frames.events, part.flaws)
        self._out.note(*part.flaws.facts)

    def _end_streamed(self, watch: WatchAttempt, listed: ListProgress, revision: int | None, now: float) -> None:
        if revision is None:
            self._break_off(watch, because(Reason.UNPARSABLE), now)
        elif revision < listed.newest:
            self._out.note(TimeTravel(listed.newest - revision))
            self._break_off(watch, because(Reason.TIME_TRAVEL), now)
        elif revision == self._doubts.expired:
            self._break_off(watch, because(Reason.EXPIRED), now)
        else:
            listed.revision, listed.pages = revision, 1
            self._doubts.silent = False
            watch.request = replace(watch.request, revision=revision)
            until = revision if listed.live_from is None else listed.live_from - 1
            self._finish_list(listed, until, Trigger.STREAMED, now)

    def _emit(self, batch: Batch, events: Sequence[Frame], flaws: Flaws) -> None:
        self._out.put(Emit(batch))
        self._out.note(*self._feed.deliver(batch, events, flaws))

    # How requests end

    def _close(self, op: int, failure: Failure, now: float) -> None:
        if self._list is not None and op == self._op_of(self._list):
            self._fail_list(self._list, self._end_of_list(failure, now), now)
        elif self._watch is not None and op == self._watch.op:
            self._fail_watch(self._watch, failure, now)

    def _op_of(self, listed: ListProgress) -> int | None:
        """Return the request of a list: one of its own, or the watch that streams it."""
        is_streamed = self.state is State.LISTING and listed.op is None
        return self._watch.op if is_streamed and self._watch is not None else listed.op

    def _break_off(self, watch: WatchAttempt, failure: Failure, now: float) -> None:
        """End a watch that is useless now, although it may still be open."""
        self._out.put(Cancel(watch.op))
        self._close(watch.op, failure, now)

    def _end_of_list(self, failure: Failure, now: float) -> Failure:
        """Return why a list ended without its answer; for a streamed list, a clean end needs an explanation."""
        if failure.reason is Reason.EXPIRED:
            self._out.note(Expired(Phase.LIST))
        watch = self._watch
        lived = watch.lived(now) if watch is not None else None
        if watch is None or failure.reason is not Reason.FORCED or self.state is not State.LISTING or lived is None:
            return failure
        if watch.has_run_out(lived):
            return because(Reason.NO_STREAMED_LISTS)  # the apiserver ignored the parameter: an ordinary watch
        return because(Reason.GARBAGE) if watch.garbled and not watch.heard else failure

    def _fail_list(self, failed: ListProgress, failure: Failure, now: float) -> None:
        in_parallel = self.state is not State.LISTING
        self._end_list(failed, failure)
        self._planner.failed(failure)
        trigger = failed.judge(failure, may_move=self.inventory is None)
        if in_parallel:
            wait = self._planner.backoff.next(now, failure.retry_after)
            if trigger is Trigger.RETRY:
                self._delay_list(failed, now + wait)
            else:
                self._list_in_parallel(now, wait)
            return
        self._blame(failure, now)
        if failure.reason is Reason.NO_STREAMED_LISTS and failed.strategy.first is None:
            self._planner.refused_stream(now)
            self._go(Trigger.RETRY, now, self._pause(now))
        else:
            self._follow(trigger, failure, now, self._backoff.next(now, failure.retry_after))

    def _fail_watch(self, watch: WatchAttempt, failure: Failure, now: float) -> None:
        phase = Phase.OPEN if watch.opened is None else Phase.STREAM
        lived = watch.lived(now)
        healthy = is_healthy(lived)
        if failure.reason is Reason.FORCED and lived is not None:
            failure = because(self._doubts.clean_end(watch, lived, self.revision))
        self._end_watch(watch, failure, now)
        trigger = self._doubts.judge(failure, self.revision, healthy=healthy)
        if failure.reason is Reason.EXPIRED:
            self._out.note(Expired(phase))
            self._doubts.expired = watch.request.revision
        at_once = healthy and trigger is Trigger.RETRY and failure.retry_after is None
        # Earlier waits do not count against a revision that expired: each further wait loses more events.
        backoff = self._planner.backoff if failure.reason is Reason.EXPIRED else self._backoff
        self._follow(trigger, failure, now, 0.0 if at_once else backoff.next(now, failure.retry_after))

    def _follow(self, trigger: Trigger, failure: Failure, now: float, wait: float) -> None:
        """Continue after a failure, with the same request or with another list.

        A watch that has to wait keeps its revision: it may still deliver what happens until then.
        """
        if trigger is Trigger.START_OVER or (trigger is Trigger.WAIT and self.state is State.LISTING):
            self._planner.use_fallback(use=trigger is Trigger.START_OVER and self.state is State.LISTING)
            self._need_list(self._relist_reason(failure))
            wait = max(wait, self._planner.wait(now))
        if trigger is Trigger.WAIT:
            self._out.note(GaveUp(failure))
        self._go(trigger, now, wait)

    def _relist_reason(self, failure: Failure) -> RelistReason:
        """Return why a list is needed. Until a watch of the past has delivered anything, it is still at its start."""
        if self._begins_in_past:
            return RelistReason.START
        return RelistReason.EXPIRED if failure.reason is Reason.EXPIRED else RelistReason.ERRORS

    def _cancel(self, why: Failure, now: float) -> None:
        if self.state in (State.OPENING, State.WATCHING):
            self._cancel_watch(why, now)
        self._drop_list(why)

    def _cancel_watch(self, why: Failure, now: float) -> None:
        assert self._watch is not None
        self._out.put(Cancel(self._watch.op))
        self._end_watch(self._watch, why, now)

    def _drop_list(self, why: Failure) -> None:
        dropped, self._list = self._list, None
        op = self._op_of(dropped) if dropped is not None else None
        if dropped is not None and op is not None:
            self._out.put(Cancel(op))
            self._end_list(dropped, why)
        self._feed.abandon()

    def _end_watch(self, watch: WatchAttempt, failure: Failure, now: float) -> None:
        lived = watch.lived(now)
        if watch.sent is None and watch.opened is None:
            self._note_queue(watch, now)
        self._out.note(WatchClosed(failure, lived))
        self._watch = None
        self._begins_in_past = self._begins_in_past and not watch.heard
        only_expired = failure.reason is Reason.EXPIRED and not watch.heard and not is_healthy(lived)
        if lived is not None and not only_expired:
            self._gap_start.since = now
        self._blame(failure, now)

    def _end_list(self, ended: ListProgress, failure: Failure) -> None:
        self._out.note(ListFailed(failure, ended.strategy.name))
        ended.op = None
        if self.state is State.LISTING:
            self._watch = None

    def _blame(self, failure: Failure, now: float) -> None:
        self.down.failed(failure, now)
        if failure.closed is not CloseClass.DEADLINE and failure.action is not Action.STOP:
            self.failure = failure

    # How states are entered

    def _go(self, trigger: Trigger, now: float, wait: float = 0.0) -> None:
        self.state = TRANSITIONS[self.state][trigger]
        self._wake = None
        match self.state:
            case State.LISTING:
                assert self._list is not None
                self._request_page(self._list, now)
                self.down.requested(self._out.op)
            case State.OPENING:
                self._request_watch(self.revision, now)
                self.down.requested(self._out.op)
            case State.RELISTING | State.REOPENING | State.AWAY:
                self._wake = now + wait
                self._set_alarm()
            case _:  # open, or halted
                self.down.end()

    def _wake_up(self, now: float) -> None:
        """Continue what has waited. An alarm that rings too early, as clocks are rounded, is set again."""
        if self.state is State.LISTING:
            self._end_silent_list(now)
        elif self._wake is not None and now >= self._wake:
            resumes = self.state is State.AWAY and self._planner.reason is None
            self._go(Trigger.RESUME if resumes else Trigger.WOKEN, now)
        waiting = self._list
        if waiting is not None and waiting.wake is not None and now >= waiting.wake:
            self._request_page(waiting, now)
        self._set_alarm()

    def _end_silent_list(self, now: float) -> None:
        """End a streamed list that was silent for too long: on a dead connection it would wait for its deadline.

        The next list comes in pages. If the next streamed one is silent too, the server does not mark the end of its
        lists, as some aggregated APIs do not.
        """
        if self._wake is not None and now >= self._wake:
            assert self._watch is not None  # only a streamed list is expected
            reason = Reason.NO_STREAMED_LISTS if self._doubts.silent else Reason.TIMEOUT
            self._planner.use_fallback(use=True)
            self._doubts.silent = True
            self._break_off(self._watch, because(reason), now)

    def _set_alarm(self) -> None:
        """Set the one alarm to the earliest time that is due."""
        in_parallel = self._list.wake if self._list is not None else None
        times = [time for time in (self._wake, in_parallel) if time is not None]
        if times:
            self._out.put(WakeAt(min(times)))

    def _need_list(self, reason: RelistReason) -> None:
        self._drop_list(because(Reason.SUPERSEDED))
        self._list = ListProgress(self.strategy)
        self._planner.for_inventory = False
        from_scratch = reason in (RelistReason.START, RelistReason.DOMAIN_RESET)
        if from_scratch:
            self._feed.forget()
        if self._planner.reason is None or reason is RelistReason.START:
            self._planner.reason = reason
            self._gap_start.after = None if from_scratch else self.revision
            self._out.note(Relisted(reason))

    def _list_in_parallel(self, now: float, wait: float = 0.0) -> None:
        """List all objects again while the watch continues, for the inventory or as an informer would."""
        if self.inventory is not None:
            self._feed.abandon()
            if not self._planner.for_inventory:
                self._out.note(Relisted(RelistReason.INVENTORY))
            self._planner.for_inventory = True
        self._list = ListProgress(self.strategy.fallback or self.strategy)
        self._delay_list(self._list, now + max(wait, self._planner.wait(now)))

    def _delay_list(self, waiting: ListProgress, until: float) -> None:
        waiting.wake = until
        self._set_alarm()

    def _pause(self, now: float) -> float:
        """Return the seconds to wait so that changes of our own do not send requests in quick succession."""
        return max(0.0, self._out.requested + SHORTEST_SPACING_SECONDS - now)

    # Requests

    def _sent(self, op: int, now: float) -> None:
        """Take out of all durations that a request waited in this process until now."""
        listed, watch = self._list, self._watch
        if listed is not None and op == self._op_of(listed):
            listed.sent(now)
            self.down.sent(op, listed.requested, now)
        if watch is not None and op == watch.op:
            watch.sent = now
            self.down.sent(op, watch.requested, now)
            self._note_queue(watch, now)

    def _note_queue(self, watch: WatchAttempt, until: float) -> None:
        if until > watch.requested:
            self._out.note(WatchQueued(watch.requested, until))

    def _request_page(self, listed: ListProgress, now: float) -> None:
        listed.wake, listed.requested = None, now
        if listed.pages == 0:
            if self._planner.start(listed, self.revision, now, blocks_watch=self.state is State.LISTING):
                self._out.note(FellBack())
            self._feed.begin()
        if listed.strategy.first is None:
            self._request_watch(None, now)
        else:
            listed.op = self._out.request(self._planner.request(listed), now)

    def _request_watch(self, revision: int | None, now: float) -> None:
        spread = LONGEST_WATCH_SECONDS - SHORTEST_WATCH_SECONDS
        request = WatchRequest(revision, SHORTEST_WATCH_SECONDS + int(spread * self._random()))
        self._watch = WatchAttempt(self._out.request(request, now), request, now)
