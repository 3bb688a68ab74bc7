"""Who may read, by the cluster's own authorization.

Verdicts are kept where one serves; reviews are made where one measures, because the client lives there.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from watchslo.errors import UnavailableError
from watchslo.kube.reviews import Review
from watchslo.monitor.trouble import Trouble
from watchslo.serve.verdicts import Verdict, Verdicts, key_of
from watchslo.watch.failure import Failure, Reason, because

PATIENCE_SECONDS = 5.0  # for a review, with its place in our own queue of requests; who scrapes waits for it

_VERDICTS = {Review.ALLOWED: Verdict.ALLOWED, Review.UNKNOWN: Verdict.UNKNOWN, Review.FORBIDDEN: Verdict.FORBIDDEN}
_NO_REVIEW = "Whether you may read this cannot be found out now: the apiserver gives no review; the log says why."
_TOO_MANY = "Whether you may read this cannot be found out now: too many ask who are unknown; try again."

AskApiserver = Callable[[str, str], Awaitable[Review | Failure]]
"""Reviews a token and a path; to be awaited on the measuring loop."""


class Authorizer:
    """Lives on the serving loop; only what needs a review goes to the measuring one, where the client is."""

    def __init__(
        self, ask: AskApiserver, loop: asyncio.AbstractEventLoop, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask = ask
        self._loop = loop
        self._clock = clock
        self._verdicts = Verdicts()
        self._reviews: dict[bytes, asyncio.Task[Verdict | None]] = {}
        self._trouble = Trouble(structlog.get_logger())

    async def __call__(self, token: str, path: str) -> Verdict:
        """Whether the bearer of a token may read a path; raises UnavailableError where nobody can say."""
        key = key_of(token, path)
        verdict = self._verdicts.in_force(key, self._clock())
        if verdict is not None:
            return verdict
        if key not in self._reviews:
            if not self._verdicts.may_review(key, self._clock()):
                raise UnavailableError(_TOO_MANY)
            self._reviews[key] = asyncio.create_task(self._review(key, token, path))
        # Shielded: whoever goes away must not take it from the others.
        verdict = await asyncio.shield(self._reviews[key])
        if verdict is None:
            raise UnavailableError(_NO_REVIEW)
        return verdict

    async def _review(self, key: bytes, token: str, path: str) -> Verdict | None:
        """The verdict of a review, or the one before it, if that may stand in for it."""
        try:
            reviewed = await self._reviewed(token, path)
        finally:
            del self._reviews[key]
        if isinstance(reviewed, Failure):
            self._trouble.happened("reviews_failed", reviewed)
            return Verdict.ALLOWED if self._verdicts.trusted(key, self._clock()) else None
        self._trouble.over()
        self._verdicts.reviewed(key, _VERDICTS[reviewed], self._clock())
        return _VERDICTS[reviewed]

    async def _reviewed(self, token: str, path: str) -> Review | Failure:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._asked(token, path), self._loop))
        except TimeoutError:
            return because(Reason.TIMEOUT)

    async def _asked(self, token: str, path: str) -> Review | Failure:
        return await self._ask(token, path)
