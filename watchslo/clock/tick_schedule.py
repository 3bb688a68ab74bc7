"""When the next tick of a clock is sent, and through which apiserver.

Theory of operation
===================

All ticks of a clock form one *train*, through whichever apiserver they go. Independent tickers would send several ticks
together and then none for a long time, and the widest gaps decide the upper bound of a P99. The gaps of the train are
random, by a quarter of their mean to either side, because writers are periodic too. More would only widen the bounds.

Each apiserver has a *gap* of its own, the mean seconds between two ticks through it. The train visits the apiservers in
the order in which they are due, and its rate is the sum of theirs. So

- n apiservers get n times as many ticks together, evenly spaced, and each gets no more than it would alone;
- while ticks through one of them fail, its own gap doubles, and `Retry-After` is obeyed for up to `SLOWEST_SECONDS`.
  Its ticks are sent *aside*, when they are due: in the train, each would leave a wide gap. The same is true of ticks
  that prove nothing yet;
- an apiserver that answers slowly is not visited again before its answer, or before `SLOW_SECONDS` have passed. Its
  ticks are not sent through the others instead.

Other reads prove as much as ticks. So the train starts again at each of them, with gaps that are shorter by the rate of
reads: then own ticks are as frequent as without them, and fall where no read was. But a tick is sent at the latest when
the widest gap without reads ends, because only ticks seal events.

In any W seconds at most `MOST_AHEAD` + 1 + W / gap ticks go through one apiserver. In a *burst* all gaps are shorter by
the same factor; a failed tick ends it. With a *reserve*, the train follows events: see `watchslo.clock.reserve`.

Bursts begin because of what was observed, when the law of latencies has just changed. If all their ticks cut, narrow
intervals would come from one law and wide ones from the other, and the estimate would mix them in wrong shares. So only
the *base* train cuts: the ticks that would have been sent without a burst, or rather the first one after each of these
times. The others are *extra*, and only prove. With a reserve nothing is estimated, so all ticks cut.
"""

from collections import deque
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from math import inf

from watchslo.clock.burst import Burst
from watchslo.clock.reserve import TickReserve

SLOW_SECONDS = 1.0  # after this long without an answer the next tick is sent, on another connection
SLOWEST_SECONDS = 10.0
LEAST_SLOWDOWN = 4.0  # also if ticks are rare: then thousands of daemons may tick
AT_ONCE = 6  # more are unanswered only if credentials or our own request queue block them
MOST_AHEAD = 2.0  # ticks through one apiserver that may be sent before they are due; the jitter needs about so many
LEAST_GAP = 0.5  # of the mean gap of an apiserver, between two ticks through it
JITTER = 0.25  # of a gap, to either side
READS_WIDEN = (1.0 + JITTER**2 / 3.0) / 2.0  # half of the mean square of a gap of mean 1
READ_SECONDS = 30.0  # by which the rate of reads is known
MOST_READS = 1024  # in that time; with so many, ticks only have to seal


@dataclass(slots=True)
class Slowdown:
    """By which factor requests are rarer because they fail, and until when none may be sent (monotonic seconds)."""

    factor: float = 1.0
    not_before: float = -inf

    def answered(self) -> None:
        """Note a request that succeeded."""
        self.factor = 1.0

    def failed(self, gap: float, retry_after: float | None, now: float) -> None:
        """Note a failed request; `gap` is the usual time between two of them, in seconds."""
        self.factor = min(2.0 * self.factor, max(LEAST_SLOWDOWN, SLOWEST_SECONDS / gap))
        self.not_before = now + (retry_after or 0.0)


@dataclass(slots=True)
class _Turns:
    """The ticks through one apiserver.

    `last` is when one was sent last, and `ahead` how many had been sent by then, that one included, beyond those due.
    `unanswered` are the times at which ticks without an answer were sent; `answer` is how long the last answer took.
    """

    gap: float
    proves: bool
    factor: float = 1.0  # of the gap, by a burst or a reserve
    slowdown: Slowdown = field(default_factory=Slowdown)
    last: float = -inf
    jitter: float = 1.0  # of the gap after the last tick
    ahead: float = 0.0
    unanswered: set[float] = field(default_factory=set)
    answer: float = 0.0

    @property
    def pace(self) -> float:
        """The mean seconds between two ticks at present."""
        return max(self.gap * self.factor * self.slowdown.factor, min(self.answer, SLOW_SECONDS))

    @property
    def due(self) -> float:
        return self.last + self.ahead * self.pace

    @property
    def possible(self) -> float:
        """The time of the next tick at the earliest; infinite until an answer arrives."""
        if len(self.unanswered) >= AT_ONCE:
            return inf
        wait = SLOW_SECONDS if self.last in self.unanswered else 0.0
        soonest = self.pace * max(LEAST_GAP, self.ahead - MOST_AHEAD)
        return max(self.last + max(wait, soonest), self.slowdown.not_before)

    @property
    def next_aside(self) -> float:
        """The time of the next tick if it is not part of the train."""
        return max(self.possible, self.last + self.jitter * self.pace)

    @property
    def in_train(self) -> bool:
        return self.proves and self.slowdown.factor == 1.0

    def sent(self, now: float, jitter: float) -> None:
        if self.last in self.unanswered:
            self.answer = SLOW_SECONDS
        self.ahead = max(0.0, self.ahead - (now - self.last) / self.pace) + 1.0
        self.last, self.jitter = now, jitter
        self.unanswered.add(now)

    def ended(self, sent: float, now: float) -> None:
        self.unanswered.discard(sent)
        self.answer = now - sent


class TickSchedule:
    """The times of the ticks of one clock; see the theory of operation. All times are monotonic seconds."""

    def __init__(self, random: Callable[[], float], burst: Burst, reserve: TickReserve | None = None) -> None:
        self.burst = burst
        self._reserve = reserve
        self.random = random
        self._turns: dict[str, _Turns] = {}
        self._last = -inf  # when the last tick of the train was sent
        self._read = -inf  # when a read was sent since
        self._reads: deque[float] = deque(maxlen=MOST_READS)  # recent ones, when they were sent
        self._jitter = self._draw()
        self._base_due = -inf  # when the next tick of the base train is due
        self._factor = 1.0  # of the gaps of the train, by a burst or a reserve

    def allow(self, gaps: Mapping[str, float], now: float, aside: Container[str] = ()) -> None:
        """Tick through these apiservers, with a mean gap in seconds for each; others are forgotten.

        The ticks through those of `aside` prove nothing.
        """
        former, self._turns = self._turns, {}
        for name, gap in gaps.items():
            turns = self._turns[name] = former.get(name) or _Turns(gap, proves=True)
            turns.gap, turns.proves = gap, name not in aside
        train = self._train
        rate = sum(1.0 / turns.gap for turns in train.values())
        self._factor = self.burst.shortening(rate, now) * (self._reserve.factor(rate, now) if self._reserve else 1.0)
        for name, turns in self._turns.items():
            turns.factor = self._factor if name in train else 1.0

    @property
    def mean_gap(self) -> float:
        """The mean seconds between two ticks of the train, or of all if each is sent aside.

        It is that without bursts, and over so long that a reserve spends what it saves.
        """
        rate = sum(1.0 / turns.gap for turns in self._train.values() or self._turns.values())
        return 1.0 / rate if rate else inf

    @property
    def _train(self) -> dict[str, _Turns]:
        return {name: turns for name, turns in self._turns.items() if turns.in_train}

    def next(self) -> tuple[float, str] | None:
        """Return when to send the next tick, and through which apiserver; None if an answer must arrive first."""
        train = self._train
        planned = [(turns.next_aside, name) for name, turns in self._turns.items() if name not in train]
        possible = {name: turns.possible for name, turns in train.items()}
        if possible:
            at = max(min(possible.values()), self._next_of_train(sum(1.0 / turns.pace for turns in train.values())))
            ready = [name for name, time in possible.items() if time <= at]
            planned.append((at, min(ready, key=lambda name: train[name].due)))
        first = min(planned, default=(inf, ""))
        return None if first[0] == inf else first

    def _next_of_train(self, rate: float) -> float:
        """Return the time of the next tick of the train, with so many ticks a second."""
        if self._read < self._last:
            return self._last + self._jitter * self._gap_after(self._last, rate)
        latest = self._last + (1.0 + JITTER) / rate
        return min(self._read + self._jitter * self._gap_after(self._read, rate), latest)

    def _gap_after(self, time: float, rate: float) -> float:
        """Return the mean gap of a train that starts again at reads, so that `rate` ticks a second remain.

        With r reads a second, independent of the train, a gap g ends without a read with the probability exp(-r g).
        """
        reads = sum(read > time - READ_SECONDS for read in self._reads) / READ_SECONDS
        return (1.0 + READS_WIDEN * reads / (rate + reads)) / (rate + reads)

    def read(self, sent: float) -> None:
        """Note a read that proves as much as a tick; the train starts again when it was sent."""
        self._reads.append(sent)
        while self._reads[0] < sent - READ_SECONDS:
            self._reads.popleft()
        if sent > max(self._last, self._read):
            self._read, self._jitter = sent, self._draw()

    def follow(self, received: float) -> bool:
        """Note events that were received; return True if a tick is to follow them, after the next call of `allow`."""
        return self._reserve is not None and self._reserve.follow(received)

    def sent(self, apiserver: str, now: float) -> bool:
        """Note that a tick is being sent; return whether it may cut, because it is no extra one."""
        turns, jitter = self._turns[apiserver], self._draw()
        cuts = True
        if turns.in_train:
            cuts = self._reserve is not None or self._is_base(now, jitter)
            self._last, self._jitter = now, jitter
            self.burst.sent(now)
        if self._reserve:
            self._reserve.sent(now)
        turns.sent(now, jitter)
        return cuts

    def _is_base(self, now: float, jitter: float) -> bool:
        """Return whether a tick of the train that is sent now is of the base train; `jitter` is of the next gap."""
        if self._factor < 1.0 and now < self._base_due:
            return False
        since = self._base_due if self._factor < 1.0 and now - self._base_due < self.mean_gap else now
        self._base_due = since + jitter * self.mean_gap
        return True

    def answered(self, apiserver: str, sent: float, now: float) -> None:
        """Note the answer to the tick that was sent at `sent`."""
        if turns := self._turns.get(apiserver):
            turns.ended(sent, now)
            turns.slowdown.answered()

    def failed(self, apiserver: str, sent: float, retry_after: float | None, now: float) -> None:
        """Note that the tick that was sent at `sent` failed; the server may have asked for a pause in seconds."""
        if turns := self._turns.get(apiserver):
            turns.ended(sent, now)
            turns.slowdown.failed(turns.gap, retry_after, now)
            self.burst.failed(retry_after, now)
            if self._reserve:
                self._reserve.failed(retry_after, now)

    def _draw(self) -> float:
        return 1.0 - JITTER + 2.0 * JITTER * self.random()
