"""The hard caps on requests per second: every request to an apiserver waits here first.

Theory of operation
===================

Two token buckets permit requests. One is for requests that open a watch again after it was open; they are many at once
when an apiserver restarts. client-go does not limit watches at all (1.36, rest/request.go, `Request.Watch`); here they
are spread, so that hundreds of TLS handshakes do not come together. All apiservers share this bucket, because the
handshakes burden this process too. The other bucket is for all other requests; each apiserver has its own.

Requests of different classes share that bucket by start-time fair queueing. Each class has a share, and time is counted
in requests: a class is due again 1 / share after its last request, and the class that is due first is served. A class
without requests saves nothing: when it comes back, it is due now. If several classes are due at the same moment, they
are served in the order of `SHARES`. It follows that

- classes that always have requests waiting get the rate in proportion to their shares, so none starves;
- a class that sends less than its share waits for at most one request of every other class, and a tick for none.

Because requests take different times to arrive, an apiserver can count more than a bucket permits: in any W seconds at
most burst + rate x (W + D) requests reach it, where D is the longest travel time of a request, including connecting,
minus the shortest.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")

SHORTEST_WAIT_SECONDS = 1e-6  # a clock that counts in floats may not notice a shorter one
RESUME_BURST_SECONDS = 0.05  # of permits that are kept: the event loop may be busy with handshakes for as long


class RequestClass(Enum):
    """What a request is for."""

    TICK = "tick"
    OTHER = "other"
    AUDIT = "audit"
    PROBE = "probe"
    RESUME = "resume"


SHARES = {RequestClass.TICK: 0.5, RequestClass.OTHER: 0.3, RequestClass.AUDIT: 0.1, RequestClass.PROBE: 0.1}
"""The guaranteed share of each class in the requests per second.

A late tick widens every interval, a late list delays only its own watch, a late audit delays no watch, and a late probe
only makes a result coarser.
"""


class TokenBucket:
    """Permits `rate` requests per second, and after a pause the number due in `burst_seconds` at once, at least one.

    Times are monotonic seconds.
    """

    def __init__(self, rate: float, burst_seconds: float = 0.0) -> None:
        self.rate = rate
        self._burst_seconds = burst_seconds
        self._permits = self.burst
        self._at = 0.0  # when there were so many

    @property
    def burst(self) -> float:
        """The most permits that are kept."""
        return max(1.0, self.rate * self._burst_seconds)

    def take(self, now: float) -> float:
        """Return 0 and count a request if it may be sent at `now`; otherwise return the seconds until it may."""
        permits = self._permits_at(now)
        if permits < 1.0:
            return max((1.0 - permits) / self.rate, SHORTEST_WAIT_SECONDS)
        self._permits, self._at = permits - 1.0, now
        return 0.0

    def left(self, now: float) -> None:
        """Record that a permitted request is only sent at `now`: the bucket cannot be full at that time."""
        self._permits, self._at = min(self._permits_at(now), self.burst - 1.0), now

    def _permits_at(self, now: float) -> float:
        return min(self.burst, self._permits + (now - self._at) * self.rate)


class FairQueue(Generic[T]):
    """What waits, by class, and in which order it is served; see the theory of operation."""

    def __init__(self, shares: Mapping[RequestClass, float]) -> None:
        self._shares = shares
        self._waiting: dict[RequestClass, deque[T]] = {of: deque() for of in shares}
        self._due = dict.fromkeys(shares, 0.0)
        self._served = 0.0  # when the class that was served last was due

    def __bool__(self) -> bool:
        return any(self._waiting.values())

    def add(self, of: RequestClass, item: T) -> None:
        if not self._waiting[of]:
            self._due[of] = max(self._due[of], self._served)
        self._waiting[of].append(item)

    def remove(self, of: RequestClass, item: T) -> None:
        """Remove an item that is no longer wanted, if it still waits."""
        if item in self._waiting[of]:
            self._waiting[of].remove(item)

    def take(self) -> T:
        """Remove and return the item that is served next."""
        of = min((of for of, waiting in self._waiting.items() if waiting), key=self._due.__getitem__)
        self._served = self._due[of]
        self._due[of] += 1.0 / self._shares[of]
        return self._waiting[of].popleft()


class _RequestQueue:
    """The requests that wait for one bucket."""

    def __init__(self, bucket: TokenBucket, shares: Mapping[RequestClass, float], clock: Callable[[], float]) -> None:
        self._bucket = bucket
        self._clock = clock
        self._turns: FairQueue[asyncio.Future[None]] = FairQueue(shares)
        self._alarm: asyncio.TimerHandle | None = None

    def limit(self, rate: float) -> None:
        self._bucket.rate = rate
        if self._alarm is not None:
            self._alarm.cancel()
            self._admit()

    async def acquire(self, of: RequestClass) -> None:
        if not self._turns and self._bucket.take(self._clock()) == 0.0:
            return
        turn = asyncio.get_running_loop().create_future()
        self._turns.add(of, turn)
        if self._alarm is None:
            self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            self._turns.remove(of, turn)
            raise
        self._bucket.left(self._clock())  # the loop may have been busy, and two would be sent together

    def _admit(self) -> None:
        """Admit the requests that may be sent now, and set the alarm for the next one."""
        self._alarm = None
        while self._turns:
            wait = self._bucket.take(self._clock())
            if wait > 0.0:
                self._alarm = asyncio.get_running_loop().call_later(wait, self._admit)
                return
            turn = self._turns.take()
            if not turn.done():  # otherwise its request was cancelled just now
                turn.set_result(None)


class Limiter:
    """Queues the requests to one apiserver before two token buckets; use it on one event loop only.

    `resumes` is the rate, per second, of requests that open a watch again; by default, it is `rate`.
    """

    def __init__(
        self,
        rate: float,
        resumes: "float | _RequestQueue | None" = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not isinstance(resumes, _RequestQueue):
            resumes = _resume_queue(rate if resumes is None else resumes, clock)
        self._resumes = resumes
        self._others = _RequestQueue(TokenBucket(rate), SHARES, clock)

    def limit(self, rate: float) -> None:
        """Permit so many requests per second from now on, except those that open a watch again."""
        self._others.limit(rate)

    async def acquire(self, of: RequestClass) -> None:
        """Wait until a request of this class may be sent."""
        await (self._resumes if of is RequestClass.RESUME else self._others).acquire(of)


class Limiters:
    """The limiters of all apiservers: each permits `rate` requests per second, all together `resumes` that reopen.

    An address has one limiter as long as a client uses it.
    """

    def __init__(self, rate: float, resumes: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._resumes = _resume_queue(resumes, clock)
        self._limiters: WeakValueDictionary[str, Limiter] = WeakValueDictionary()

    def of(self, apiserver: str) -> Limiter:
        """Return the limiter of an apiserver, by its name."""
        limiter = self._limiters.get(apiserver)
        if limiter is None:
            limiter = self._limiters[apiserver] = Limiter(self._rate, self._resumes, self._clock)
        return limiter

    def limit(self, rate: float, resumes: float) -> None:
        """Permit so many requests per second and apiserver from now on, and so many that open a watch again."""
        self._rate = rate
        for limiter in self._limiters.values():
            limiter.limit(rate)
        self._resumes.limit(resumes)


def _resume_queue(rate: float, clock: Callable[[], float]) -> _RequestQueue:
    return _RequestQueue(TokenBucket(rate, RESUME_BURST_SECONDS), {RequestClass.RESUME: 1.0}, clock)
