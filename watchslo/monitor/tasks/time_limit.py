"""A time limit for short answers."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from watchslo.watch.failure import Failure, Reason, because

ANSWER_SECONDS = 20.0  # our own queue of requests may be long

_T = TypeVar("_T")


async def with_time_limit(answer: Awaitable[_T | Failure], seconds: float = ANSWER_SECONDS) -> _T | Failure:
    """Return the answer, or a timeout, so that one slow apiserver cannot block the others."""
    try:
        async with asyncio.timeout(seconds):
            return await answer
    except TimeoutError:
        return because(Reason.TIMEOUT)
