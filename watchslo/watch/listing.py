"""Lists of one watch: how far the current list has come, which request comes next, and how long a relist waits."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from watchslo.watch.backoff import Backoff
from watchslo.watch.doubts import trigger_of
from watchslo.watch.failure import Action, Failure, Reason
from watchslo.watch.messages import Listed, ListRequest, RelistReason
from watchslo.watch.strategy import Strategy, StreamedLists
from watchslo.watch.transitions import Trigger

SHORTEST_RELIST_SECONDS = 1.0  # a restarted apiserver expires the revisions of all clients at once: spread the relists
LONGEST_RELIST_SECONDS = 10.0  # no longer, because the wait lengthens the gap
PROMPT_RELIST_SECONDS = 0.5  # at most, in place of both for lists of nothing, which cost an apiserver 1 to 3 ms
PROMPT_BACKOFF_SECONDS = 0.25  # after the first expiry; each further one doubles the wait
RELIST_INTERVAL_SECONDS = 10.0  # between the starts of two lists, because lists cost an apiserver most


@dataclass(slots=True)
class ListProgress:
    """How far one list has come.

    `op` is its request in flight, `requested` at that time; `wake` is when to send the next request of a list in
    parallel to the watch. `revision` is that of the first page: all pages show one moment, until the apiserver lets an
    expired token continue at a newer moment (`moved`). An answer for all objects that is older than `newest` is stale.
    `live_from` is the revision of the first live event of a streamed list; all newer events are live too.
    """

    strategy: Strategy
    op: int | None = None
    requested: float = 0.0
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
    live_from: int | None = None

    def add(self, page: Listed, revision: int) -> None:
        """Add a page of this revision."""
        if self.pages == 0 or self.moved:
            self.revision = self.newest = revision
        self.continue_token = page.continue_token
        self.items += page.items
        self.size += page.size
        self.pages += 1

    def sent(self, now: float) -> None:
        """Leave out of the duration that the request in flight waited until `now` before it was sent."""
        self.began += now - self.requested

    def restart(self, newest: int, now: float) -> None:
        """Prepare for the first page; `newest` is the newest revision that the watch knows, or -1."""
        self.began = now
        self.newest = newest
        self.items = self.size = 0
        self.live_from = None

    def judge(self, failure: Failure, *, may_move: bool) -> Trigger:
        """Return what follows a failure of this list.

        With `may_move`, a list whose token expired continues by a new one that the apiserver offers. It leads to a
        later moment: good for a revision, not for the set of objects.
        """
        if failure.action is Action.RESUME:
            self.errors += 1
        if self.continue_token and failure.continue_token and may_move:
            self.continue_token, self.moved = failure.continue_token, True
            return Trigger.RETRY
        return trigger_of(failure, self.errors)

    @property
    def complete(self) -> bool:
        """Return True if no page is missing."""
        return not (self.strategy.paged and self.continue_token)


class ListPlanner:
    """Decides how and when to list. `reason` is why a list is needed before the watch can open, or None.

    `for_inventory` is True while the inventory needs a list in parallel to the watch. `backoff` is for lists in
    parallel to the watch, and for lists after a watch that expired. It is separate so that earlier failures do not
    lengthen these waits.
    """

    def __init__(
        self, strategy: Strategy, page_size: int, streaming: StreamedLists, random: Callable[[], float]
    ) -> None:
        self.reason: RelistReason | None = None
        self.for_inventory = False
        self.backoff = Backoff(random, PROMPT_BACKOFF_SECONDS) if strategy.prompt else Backoff(random)
        self._strategy = strategy
        self._page_size = page_size
        self._streaming = streaming
        self._random = random
        self._throttled = self._use_fallback = False  # until a list succeeds
        self._started = float("-inf")  # when the last list began, in monotonic seconds

    def start(self, progress: ListProgress, newest: int | None, now: float, *, blocks_watch: bool) -> bool:
        """Begin the list. One that the watch waits for may need the strategy's fallback: return whether it does now."""
        before = progress.strategy
        if blocks_watch:
            progress.strategy = self._choose(now)
        self._started = now
        progress.restart(-1 if newest is None else newest, now)
        return progress.strategy not in (before, self._strategy) and not self._strategy.replays

    def _choose(self, now: float) -> Strategy:
        refused = self._strategy.first is None and not self._streaming.usable(now)
        has_begun = self._strategy.replays and self.reason is not RelistReason.START
        use_fallback = refused or has_begun or self._use_fallback
        return (self._strategy.fallback if use_fallback else None) or self._strategy

    def request(self, progress: ListProgress) -> ListRequest:
        """Return the request for the next page."""
        request = progress.strategy.throttled if self._throttled else progress.strategy.first
        assert request is not None
        if not progress.strategy.paged:
            return request
        return replace(request, limit=self._page_size, continue_token=progress.continue_token)

    def succeeded(self) -> None:
        """Note that a list is complete."""
        self._throttled = self._use_fallback = self.for_inventory = False

    def failed(self, failure: Failure) -> None:
        """Note that a list, or a page of it, failed."""
        self._throttled = self._throttled or failure.reason in (Reason.THROTTLED, Reason.INITIALIZING)

    def refused_stream(self, now: float) -> None:
        """Note that the apiserver does not stream lists."""
        self._streaming.refused(now)

    def use_fallback(self, *, use: bool) -> None:
        """Set whether the next list uses the strategy's fallback, until a list succeeds."""
        self._use_fallback = use

    def wait(self, now: float) -> float:
        """Return the seconds until a list may begin, so that the lists of a thousand expired clients are spread."""
        if self.reason is RelistReason.START:
            return 0.0
        if self._strategy.prompt:
            return PROMPT_RELIST_SECONDS * self._random()
        spread = LONGEST_RELIST_SECONDS - SHORTEST_RELIST_SECONDS
        return max(SHORTEST_RELIST_SECONDS + spread * self._random(), self._started + RELIST_INTERVAL_SECONDS - now)
