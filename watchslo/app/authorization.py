"""Decides which requests may read, by access reviews of the cluster.

Decisions are cached on the serving loop. Reviews run on the measuring loop, which owns the client.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from watchslo.errors import UnavailableError
from watchslo.kube.reviews import Review
from watchslo.monitor.tasks.failure_log import FailureLog
from watchslo.serve.auth import Bearer
from watchslo.serve.auth_cache import AccessDecision, AccessDecisions, is_expired, key_of
from watchslo.watch.failure import Failure, Reason, because

PATIENCE_SECONDS = 5.0  # for a review, including its wait in watchslo's own queue of requests; scrapes wait for it

_DECISIONS = {
    Review.ALLOWED: AccessDecision.ALLOWED,
    Review.UNKNOWN: AccessDecision.UNKNOWN,
    Review.FORBIDDEN: AccessDecision.FORBIDDEN,
}
_NO_REVIEW = "Your access cannot be checked now: the apiserver gives no access review; watchslo's log has the reason."
_TOO_MANY = "Your access cannot be checked now: too many requests with unknown tokens; try again."

AskApiserver = Callable[[str, str], Awaitable[Review | Failure]]
"""Reviews the access of a token to a path; must be awaited on the measuring loop."""


class Authorizer:
    """Decides on the serving loop; only reviews run on the measuring loop, which owns the client."""

    def __init__(
        self,
        ask: AskApiserver,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._ask = ask
        self._loop = loop
        self._clock = clock
        self._wall = wall
        self._decisions = AccessDecisions()
        self._reviews: dict[bytes, asyncio.Task[AccessDecision | None]] = {}
        self._failures = FailureLog(structlog.get_logger())

    async def __call__(self, sent: Bearer, path: str) -> AccessDecision:
        """Return whether a bearer may read a path.

        Raises:
            UnavailableError: if neither a cached decision nor a review is available.
        """
        key = key_of(sent.token, path)
        decision = self._decisions.in_force(key, self._clock())
        if decision is not None:
            return decision
        if is_expired(sent.token, self._wall()):
            return AccessDecision.UNKNOWN
        if key not in self._reviews:
            if not self._decisions.may_review(key, sent.address, self._clock()):
                raise UnavailableError(_TOO_MANY)
            self._reviews[key] = asyncio.create_task(self._review(key, sent, path))
        # Shielded: other requests may wait for the same review when this one is cancelled.
        decision = await asyncio.shield(self._reviews[key])
        if decision is None:
            raise UnavailableError(_NO_REVIEW)
        return decision

    async def _review(self, key: bytes, sent: Bearer, path: str) -> AccessDecision | None:
        """Return the decision of a review; if that fails, an earlier one that is still trusted, or None."""
        try:
            reviewed = await self._reviewed(sent.token, path)
        finally:
            del self._reviews[key]
        if isinstance(reviewed, Failure):
            self._failures.record("reviews_failed", reviewed)
            return AccessDecision.ALLOWED if self._decisions.trusted(key, self._clock()) else None
        self._failures.resolve()
        if reviewed is Review.ALLOWED:
            self._decisions.forgive(sent.address)
        self._decisions.reviewed(key, _DECISIONS[reviewed], self._clock())
        return _DECISIONS[reviewed]

    async def _reviewed(self, token: str, path: str) -> Review | Failure:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._asked(token, path), self._loop))
        except TimeoutError:
            return because(Reason.TIMEOUT)

    async def _asked(self, token: str, path: str) -> Review | Failure:
        return await self._ask(token, path)
