"""One audit of one watch: what its second watch saw, compared with what the audited watch delivered."""

from collections.abc import Sequence

from watchslo.kube.watch_response import WatchResponse
from watchslo.model import Reading
from watchslo.monitor.protocol.watch_identity import WatchIdentity
from watchslo.monitor.watches.monitored_watch import MonitoredWatch
from watchslo.watch.audit import Findings, Health, compare
from watchslo.watch.decode import FRAME, Bookmark, Error, Frames, parse_revision
from watchslo.watch.failure import ENDED, Action, Failure, Reason, classify_stream_error
from watchslo.watch.headroom import parse_oldest
from watchslo.watch.selection import SELECTABLE, SelectedEvents

ANSWERS = (Action.WAIT, Action.START_OVER, Action.FALL_BACK)  # about the request, not about a distressed apiserver


class WatchAudit:
    """One audit of one watch: what its second watch saw, compared with what the audited watch delivered.

    `seen` maps each revision to the time it was seen. `newest_before` is the newest revision that the watch knew when
    the audit began, `event_before` its newest event, or 0. `read` is the answer to the last nudge. `refusal` is why the
    apiserver did not answer, if it did not; `forbidden` says that a right is missing. `whole` says that the second
    watch ran to its end, `expired` that it got a 410, which may name the `oldest` revision to watch from. `selected`
    collects what selectors select of the events, if that is to be checked. `after` is the revision from which the
    second watch was requested last.
    """

    def __init__(self, watch: MonitoredWatch, health: Health, selected: SelectedEvents | None = None) -> None:
        self.watch = watch
        self.health = health
        self.selected = selected
        self.seen: dict[int, float] = {}
        self._in_time = True
        self.refusal: Failure | None = None
        self.forbidden = False
        self.read: Reading | Failure | None = None
        self.whole = self.expired = False
        self.oldest: int | None = None
        self.after = 0
        self._ended = False
        self.newest_before = self.newest
        self.event_before = watch.session.newest_event or 0
        self._epoch = health.delivered.epoch

    @property
    def identity(self) -> WatchIdentity:
        return self.watch.identity

    @property
    def newest(self) -> int:
        return self.watch.session.revision or 0

    @property
    def same(self) -> bool:
        """Whether the audited watch has stayed open since the audit began."""
        return self.watch.session.up and self.health.delivered.epoch == self._epoch

    def is_ahead_of(self, answer: Reading | Failure | None) -> bool:
        """Return True if the watch knew a newer revision before a consistent read than that read returned."""
        return isinstance(answer, Reading) and self.same and answer.revision < self.newest_before <= self.newest

    @property
    def findings(self) -> Findings:
        return compare(self.seen, self.health.delivered, self.newest)

    @property
    def complete(self) -> bool:
        return (self._ended or bool(self.seen)) and self._in_time and self.same

    @property
    def shows_nothing(self) -> bool:
        """Whether the second watch ran to its end, in time, and showed no event."""
        return self.whole and self.complete and not self.seen

    def covers(self, revisions: Sequence[int]) -> bool:
        """Return True if the second watch was asked for all of these ascending revisions, and must have shown them.

        It may have ended before it had shown everything that the audited watch delivered.
        """
        reached = max(self.seen, default=self.after)
        is_whole = reached >= revisions[-1] or (
            self.whole and not self.health.delivered.between(reached, revisions[-1])
        )
        return self.complete and self.after < revisions[0] and is_whole

    @property
    def moved(self) -> bool:
        return self.newest > self.newest_before or self.delivered

    @property
    def delivered(self) -> bool:
        return (self.watch.session.newest_event or 0) != self.event_before or self.shows_delivered

    @property
    def shows_delivered(self) -> bool:
        """Whether the second watch showed an event that the audited watch delivered: they are of one sequence."""
        return any(map(self.health.delivered.has, self.seen))

    def answered(self, answer: Reading | Failure | None) -> None:
        """Note how a request went."""
        if not isinstance(answer, Failure):
            return
        self.forbidden |= answer.reason is Reason.FORBIDDEN
        if answer.action not in ANSWERS:
            self.refusal = answer

    def ended(self, ended: Failure | None) -> None:
        """Note why the second watch ended; None if it had shown enough."""
        self._ended = ended in (None, ENDED)
        self.whole = ended == ENDED
        self.expired = ended is not None and ended.reason is Reason.EXPIRED
        if not self._ended:
            self.answered(ended)

    def finish(self, *, in_time: bool) -> None:
        """Note whether this process was prompt enough for a result."""
        self._in_time = in_time

    async def follow(self, response: WatchResponse, enough: int) -> Failure | None:
        """Note what the second watch delivers, until it ends or has delivered enough."""
        arrivals = response.frames(decoder=SELECTABLE if self.selected else FRAME)
        async for received, _, frames in arrivals:
            if frames is not None and (failure := self._note(frames, received)):
                return failure
            if len(self.seen) >= enough:
                return None
        return arrivals.failure

    def _note(self, frames: Frames, received: float) -> Failure | None:
        for event in frames.events:
            if isinstance(event, Error):
                self.oldest = parse_oldest(event.object.message)
                return classify_stream_error(event.object)
            revision = parse_revision(event.object.metadata.resource_version)
            if revision is not None and not isinstance(event, Bookmark):
                self.seen.setdefault(revision, received)
                self.watch.statistics.sight(received, revision)
                if self.selected is not None:
                    self.selected.add(revision, event)
        return None
