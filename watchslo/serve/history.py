"""What an instance remembers of its run, and its verdict; the thread that owns this encodes all answers, too."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

import structlog

from watchslo.errors import error_location
from watchslo.serve.lane import Lane
from watchslo.snapshot import Snapshot
from watchslo.timeline.timeline import Account, Timeline
from watchslo.timeline.verdict import Level

T = TypeVar("T")


class History:
    """Observes snapshots. Only its `thread` touches the `timeline`.

    All encoding uses the same thread: each thread that computes delays the thread that measures. Work for readers gets
    there by a lane, so an observation waits for at most one piece of it. `account` is the newest one; None before the
    first evaluation.
    """

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="encode")
        self.queries = Lane(self.thread)
        self.account: Account | None = None
        self.timeline = Timeline()
        self._observing: Future[Account] | None = None
        self._closed = False

    def observe(self, snapshot: Snapshot) -> None:
        """Process the snapshot of an evaluation in the thread; skipped while the previous one is processed."""
        if not self._closed and (self._observing is None or self._observing.done()):
            self._observing = self.thread.submit(self._observe, snapshot)
            self._observing.add_done_callback(_log_failure)

    def _observe(self, snapshot: Snapshot) -> Account:
        account = self.timeline.observe(snapshot)
        _log_verdict(self.account, account)
        self.account = account
        return account

    def judged(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the newest verdict."""
        account = self.account
        return replace(snapshot, overall=account.headline.verdict) if account else snapshot

    async def ask(self, client: str, query: Callable[[Timeline], T]) -> T:
        """Return the result of a client's query of the timeline, which runs in the thread."""
        return await self.queries.run(client, lambda: query(self.timeline))

    def close(self) -> None:
        """Stop observing."""
        self._closed = True


def _log_verdict(before: Account | None, now: Account) -> None:
    """Log a verdict that differs from the previous one."""
    said = now.headline
    if before and before.headline.verdict is said.verdict:
        return
    log = structlog.get_logger()
    write = log.warning if said.level is Level.BAD else log.info
    write("verdict", verdict=said.verdict.value, level=said.level.value, text=said.text)


def _log_failure(done: Future[Account]) -> None:
    """Log a failed observation; the timeline then lacks one evaluation."""
    if not done.cancelled() and (error := done.exception()):
        structlog.get_logger().error("history_failed", error=error_location(error))
