"""Is a watch that says nothing idle, dead, or kept waiting by a frozen cache? What two reads by another way tell of it.

A *nudge* is a consistent list of nothing, of the watched resource itself: the apiserver answers it from its watch
cache, once that is as fresh as the storage is. An *audit* is a second, short watch. What it brings and the stream has
not brought after a while is withheld from the stream; where nothing comes from a fresh cache, the resource is idle.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from watchslo.model import Reading
from watchslo.watch.backoff import Backoff
from watchslo.watch.failure import Failure, Reason

QUIET_SECONDS = 5.0  # a stream that was heard of since then needs no audit
QUIET_INTERVAL_SECONDS = 12.0  # between two audits of a quiet stream, where the budget allows that
BUSY_INTERVAL_SECONDS = 300.0  # between two searches for lost events
JITTER = 0.2  # of an interval, to either side
SHORTEST_SLOT_SECONDS = 0.05  # whatever the budget, to look for what is due costs something too

SLOW_SECONDS = 3.0  # for so long a list waits for its cache (kube-apiserver, storage/cacher, `blockTimeout`)
WITNESS_SECONDS = 2.5  # into a nudge it is seen whether others are answered; after it, all may have recovered
CONFIRM_SECONDS = 1.0  # until a slow nudge is tried again: a moment's overload is over by then
NUDGE_SECONDS = 5.0  # the longest that one nudge takes
PROMPT_SECONDS = 1.0  # a read that takes longer does not show that all else is well
FROZEN_SECONDS = 2 * NUDGE_SECONDS + CONFIRM_SECONDS
DETECTION_SECONDS = 30.0

DELIVERED = 4_096  # revisions that a stream remembers, 32 KiB
LOOK_BACK = 500  # of them are asked for again when a busy stream is audited
WITHHELD = 1_024  # revisions that are remembered of a stall; more of them say nothing new

REOPEN_BASE_SECONDS = 15.0  # a stalled stream is reopened at once, and then ever more seldom
REOPEN_CAP_SECONDS = 300.0
REOPEN_RESET_SECONDS = 600.0

CONSISTENT_FROM_CACHE = (1, 31)  # the first version whose consistent lists are a proof of the cache


class Verdict(StrEnum):
    """What an audit found; a label of the metrics."""

    IDLE = "idle"  # nothing happened
    ALIVE = "alive"  # the stream delivers
    FROZEN = "frozen"  # the apiserver's cache of the resource is stuck
    STALLED = "stalled"  # events are there, and the stream does not deliver them
    LOST = "lost"  # the stream delivered newer events, but not these
    UNPROVEN = "unproven"  # nothing came; this apiserver cannot prove that nothing happened
    FAILED = "failed"  # nothing could be found out


class Freshness(StrEnum):
    """What nudges told of the cache; a frozen one is stuck, and `unknown` says nothing either way."""

    FRESH = "fresh"
    UNPROVEN = "unproven"
    FROZEN = "frozen"
    UNKNOWN = "unknown"


class Nudged(StrEnum):
    """How one nudge went. Only a slow one suggests a frozen cache: what is refused says nothing of it."""

    PROMPT = "prompt"
    SLOW = "slow"
    FAILED = "failed"


_SLOW = (Reason.TIMEOUT, Reason.SERVER_ERROR, Reason.FUTURE_REVISION)


def judge_nudge(answer: Reading | Failure) -> Nudged:
    """Tell how a nudge went by its answer."""
    if isinstance(answer, Failure):
        return Nudged.SLOW if answer.reason in _SLOW else Nudged.FAILED
    return Nudged.PROMPT if answer.round_trip < SLOW_SECONDS else Nudged.SLOW


def others_answer(reads: Iterable[Reading], resource: str, since: float) -> bool:
    """Whether a read of another resource, sent since then, was answered at once: then the apiserver is well."""
    return any(read.resource != resource and read.sent >= since and read.round_trip < PROMPT_SECONDS for read in reads)


def lists_prove_cache(version: str | None) -> bool:
    """Whether a consistent list of this version (`v1.36.3`) is answered from the watch cache, once that is fresh."""
    numbers = (version or "").removeprefix("v").split(".")[:2]
    return all(number.isdecimal() for number in numbers) and tuple(map(int, numbers)) >= CONSISTENT_FROM_CACHE


class Delivered:
    """Which revisions a stream has delivered, of the last few thousand since its watch opened.

    `epoch` changes with each opening: what an audit finds between two of them says nothing.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._revisions = array("q")
        self._floor = 0  # all up to here is unknown

    def begin(self, revision: int) -> None:
        """A watch of all after `revision` is open, or what came before it can no longer be vouched for."""
        self.epoch += 1
        self._floor = revision
        del self._revisions[:]

    def extend(self, revisions: Sequence[int]) -> None:
        """Takes in a batch, ascending as it arrived. This runs for every batch there is."""
        self._revisions.extend(revisions)
        if len(self._revisions) > DELIVERED:
            self._forget()

    def has(self, revision: int) -> bool | None:
        """Whether this was delivered; None where that is not known."""
        if revision <= self._floor:
            return None
        place = bisect_left(self._revisions, revision)
        return place < len(self._revisions) and self._revisions[place] == revision

    def before(self, count: int) -> int:
        """From where on the last `count` revisions are known."""
        return self._revisions[-count - 1] if len(self._revisions) > count else self._floor

    def _forget(self) -> None:
        excess = len(self._revisions) - DELIVERED // 2
        self._floor = self._revisions[excess - 1]
        del self._revisions[:excess]


@dataclass(frozen=True, slots=True)
class Findings:
    """Revisions that an audit saw and the stream has not delivered: not yet, or passed over for newer ones."""

    withheld: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()


def compare(seen: Iterable[int], delivered: Delivered, newest: int) -> Findings:
    """Holds what an audit saw against what its stream delivered; `newest` is the stream's newest revision."""
    missing = sorted({revision for revision in seen if delivered.has(revision) is False})
    split = bisect_left(missing, newest + 1)
    return Findings(withheld=tuple(missing[split:]), lost=tuple(missing[:split]))


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that one audit brought to light.

    `complete` says that the audit was let run to its end or saw something, and that meanwhile the stream was open all
    the time and we were not too late to read it; `moved` that the stream delivered something of late, too.
    """

    freshness: Freshness
    complete: bool
    moved: bool
    findings: Findings


def judge(evidence: Evidence) -> Verdict:
    """What is proven; what is missing on the stream's own connection needs no fresh cache as a proof.

    A cache that still delivers is not frozen but late, which is for its latency to tell.
    """
    if evidence.freshness is Freshness.FROZEN:
        return Verdict.ALIVE if evidence.moved else Verdict.FROZEN
    if not evidence.complete:
        return Verdict.FAILED
    if evidence.findings.withheld:
        return Verdict.STALLED
    if evidence.findings.lost:
        return Verdict.LOST
    if evidence.moved:
        return Verdict.ALIVE
    return _SILENT[evidence.freshness]


_SILENT: Mapping[Freshness, Verdict] = {
    Freshness.FRESH: Verdict.IDLE,
    Freshness.UNPROVEN: Verdict.UNPROVEN,
    Freshness.UNKNOWN: Verdict.FAILED,
}


class Health:
    """What audits found of one stream: the last verdict, stalls and lost events so far, and what is withheld now.

    The stream hands what it delivers to `delivered`. A stall lasts while something that was found withheld has not
    been delivered, or passed by in a list; that of a frozen cache until a nudge is answered again.
    """

    def __init__(self, random: Callable[[], float]) -> None:
        self.delivered = Delivered()
        self.verdict: Verdict | None = None
        self.stalls = 0
        self.lost = 0
        self._searched = -1  # up to here nothing is lost that was not counted
        self._withheld: tuple[tuple[int, float], ...] = ()
        self._found_at = 0  # the stream's revision when it was found stalled
        self._frozen: float | None = None
        self._reopens = Backoff(random, REOPEN_BASE_SECONDS, REOPEN_CAP_SECONDS, REOPEN_RESET_SECONDS)
        self._reopen_from = float("-inf")

    def withheld(self, now: float, revision: int | None) -> list[float]:
        """For how many seconds, at least, events have been withheld from a stream that has come to `revision`."""
        return [now - committed for _, committed in self._missing(revision)]

    def stalled_for(self, now: float, revision: int | None) -> float | None:
        """The age of the oldest event withheld, or for how long the cache has been frozen; None: it is not stalled."""
        ages = self.withheld(now, revision)
        if self._frozen is not None:
            ages.append(now - self._frozen)
        return max(ages, default=None)

    def search_from(self) -> int:
        """The revision after which lost events are still to be looked for."""
        return max(self._searched, self.delivered.before(LOOK_BACK))

    def froze(self, since: float, revision: int) -> None:
        """The cache has not answered since then."""
        self._count(since, revision)
        self.verdict = Verdict.FROZEN
        self._frozen = since if self._frozen is None else self._frozen

    def stalled(self, withheld: Iterable[tuple[int, float]], revision: int, now: float) -> bool:
        """These revisions are withheld, committed at these times at the latest. True: reopen the watch now."""
        self._count(now, revision)
        self.verdict, self._frozen = Verdict.STALLED, None
        self._withheld = tuple(sorted(withheld))[:WITHHELD]
        self._found_at = revision
        if now < self._reopen_from:
            return False
        self._reopen_from = now + self._reopens.next(now)
        return True

    def found(self, verdict: Verdict) -> None:
        """Anything else came of an audit. Only one that failed does not prove that the cache is well."""
        self.verdict = verdict
        if verdict is not Verdict.FAILED:
            self._frozen = None

    def forget(self) -> None:
        """The storage went back: revisions that were searched, or withheld, will be given anew."""
        self._searched, self._withheld = -1, ()

    def rest(self) -> None:
        """Audits are off: what is withheld comes, or does not; of the cache nothing will be known."""
        self.verdict = self._frozen = None

    def lose(self, revisions: Iterable[int]) -> int:
        """These were lost; returns how many of them were not known to be."""
        new = [revision for revision in revisions if revision > self._searched]
        self._searched = max((self._searched, *new))
        self.lost += len(new)
        return len(new)

    def _count(self, now: float, revision: int) -> None:
        if self.stalled_for(now, revision) is None:
            self.stalls += 1

    def _missing(self, revision: int | None) -> tuple[tuple[int, float], ...]:
        if revision is None or revision < self._found_at:  # the storage went back: these revisions mean nothing now
            self._withheld = ()
        else:
            self._withheld = tuple(pair for pair in self._withheld if pair[0] > revision)
        return self._withheld


def detection_seconds(quiet: int, budget: float) -> float | None:
    """Within how long a stream is found that withholds an event, if so many are quiet; None: never, audits are off.

    In the worst case all of them fall silent at once, its turn comes last, and its cache is frozen: two nudges are
    waited for in vain. That is longer than an audit and its grace take, with a threshold of up to seven seconds.
    """
    if not budget:
        return None
    return max(DETECTION_SECONDS, QUIET_SECONDS + (quiet + 1) * slot_seconds(budget) + FROZEN_SECONDS)


def slot_seconds(budget: float) -> float:
    """How long the slot is in which one audit may begin, with a budget of audits a second."""
    return max(1.0 / budget, SHORTEST_SLOT_SECONDS)


class Schedule:
    """Whose turn it is. Streams are numbers; `random` returns numbers from [0, 1)."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._due: dict[int, tuple[float, float]] = {}  # when it was audited, and how much of an interval to wait

    def choose(self, intervals: Mapping[int, float], under_way: Container[int], now: float) -> int | None:
        """The stream to be audited now, of those that could be and the seconds between two audits of each.

        Those of the shortest interval go first, among them whoever has been due for longest. A new one is due
        somewhen within its interval. What is under way is not begun again.
        """
        self._due = {number: self._due.get(number) or self._welcome(now, intervals[number]) for number in intervals}
        due = [(interval, self._due_at(number, interval), number) for number, interval in intervals.items()]
        ready = [entry for entry in due if entry[1] <= now and entry[2] not in under_way]
        if not ready:
            return None
        _, _, number = min(ready)
        self._due[number] = now, 1.0 - JITTER + 2.0 * JITTER * self._random()
        return number

    def _welcome(self, now: float, interval: float) -> tuple[float, float]:
        return now - interval * self._random(), 1.0

    def _due_at(self, number: int, interval: float) -> float:
        audited, factor = self._due[number]
        return audited + factor * interval
