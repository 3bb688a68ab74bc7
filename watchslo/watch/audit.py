"""Decide whether a silent watch is idle, stalled, or behind a frozen cache, from two independent reads.

A *nudge* is a consistent list that selects no object of the watched resource. The apiserver answers it from its watch
cache as soon as the cache is as fresh as the storage. An *audit* is a second, short watch. Events that the audit
brings and the watch still lacks after a while are withheld from the watch. If a fresh cache brings no events, the
resource is idle.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from watchslo.model import Reading
from watchslo.snapshot import Guarantee
from watchslo.watch.backoff import Backoff
from watchslo.watch.failure import Failure, Reason
from watchslo.watch.messages import Violated
from watchslo.watch.proven_idle import ProvenIdle

QUIET_SECONDS = 5.0  # a watch that delivered something this recently needs no audit
QUIET_INTERVAL_SECONDS = 12.0  # between two audits of a quiet watch, if the budget allows it
BOOKMARKED_INTERVAL_SECONDS = 600.0  # the same, if audits are rare and bookmarks show that the watch lacks nothing old
BUSY_INTERVAL_SECONDS = 300.0  # between two searches for lost events
REPLAY_INTERVAL_SECONDS = 10.0  # the same, where all events are read a second time
JITTER = 0.2  # share of an interval by which it varies in both directions
SHORTEST_SLOT_SECONDS = 0.05  # whatever the budget: looking for due audits costs something too

SLOW_SECONDS = 3.0  # how long a list waits for its cache (kube-apiserver, storage/cacher, `blockTimeout`)
OTHERS_SECONDS = 2.5  # into a nudge, reads of others are checked: after the nudge, everything may have recovered
CONFIRM_SECONDS = 1.0  # until a slow nudge is repeated: a short overload is over by then
NUDGE_SECONDS = 5.0  # the longest that one nudge takes
PROMPT_SECONDS = 1.0  # a slower read does not prove that the apiserver is healthy
FROZEN_SECONDS = 2 * NUDGE_SECONDS + CONFIRM_SECONDS
DETECTION_SECONDS = 30.0

DELIVERED = 8_192  # revisions of the last minute that are remembered for each watch, at least
LEAST_DELIVERED = 768  # revisions that are remembered however old they are: the look-back and the events of an audit
REPLAYED = 131_072  # of a watch that replays the past; a watch cache holds at most 102,400 changes
FORGOTTEN = 64  # at once; so a watch has 7 KiB of revisions, or 65 KiB with many events in a minute
LOOK_BACK = 500  # of them are requested again when a busy watch is audited
WITHHELD = 1_024  # revisions remembered of a stall; more would add no information

REOPEN_BASE_SECONDS = 15.0  # a stalled watch is reopened at once, and then at growing intervals
REOPEN_CAP_SECONDS = 300.0
REOPEN_RESET_SECONDS = 600.0

CONSISTENT_FROM_CACHE = (1, 31)  # the first version whose consistent lists prove that the cache is fresh


class AuditResult(StrEnum):
    """What an audit found; a label of the metrics."""

    IDLE = "idle"  # nothing happened
    ALIVE = "alive"  # the watch delivers
    FROZEN = "frozen"  # the apiserver's cache of the resource is stuck
    STALLED = "stalled"  # there are events that the watch does not deliver
    LOST = "lost"  # the watch delivered newer events, but not these
    UNPROVEN = "unproven"  # no events came, but this apiserver cannot prove that there were none
    FAILED = "failed"  # the audit has no result
    FORBIDDEN = "forbidden"  # it has none because a right is missing, so the watch will not be opened again either


class Freshness(StrEnum):
    """What nudges showed about the cache; `unknown` means no evidence for either fresh or frozen."""

    FRESH = "fresh"
    UNPROVEN = "unproven"
    FROZEN = "frozen"
    UNKNOWN = "unknown"


class Nudged(StrEnum):
    """The outcome of one nudge. Only a slow nudge suggests a frozen cache: a refused one proves nothing."""

    PROMPT = "prompt"
    SLOW = "slow"
    FAILED = "failed"


_SLOW = (Reason.TIMEOUT, Reason.SERVER_ERROR, Reason.FUTURE_REVISION)


def judge_nudge(answer: Reading | Failure) -> Nudged:
    """Return the outcome of a nudge from its answer."""
    if isinstance(answer, Failure):
        return Nudged.SLOW if answer.reason in _SLOW else Nudged.FAILED
    return Nudged.PROMPT if answer.round_trip < SLOW_SECONDS else Nudged.SLOW


def others_answer(reads: Iterable[Reading], resource: str, since: float) -> bool:
    """Return True if a read of another resource, sent after `since`, was prompt: the apiserver is then healthy."""
    return any(read.resource != resource and read.sent >= since and read.round_trip < PROMPT_SECONDS for read in reads)


def lists_prove_cache(version: str | None) -> bool:
    """Return True if an apiserver of this version (`v1.36.3`) answers consistent lists from a fresh watch cache."""
    numbers = (version or "").removeprefix("v").split(".")[:2]
    return all(number.isdecimal() for number in numbers) and tuple(map(int, numbers)) >= CONSISTENT_FROM_CACHE


_NOT_KNOWN = 2**62  # above all revisions: whether anything was delivered is unknown


class Delivered:
    """The last revisions that a watch has delivered since it opened: those of a minute, at least 768, at most 8,255.

    With `replay` they are those of all times, at most 131,135: the past arrives within seconds, and is compared later.
    `epoch` changes each time the watch opens: an audit that spans two epochs proves nothing.
    """

    def __init__(self, *, replay: bool = False) -> None:
        self._least = REPLAYED if replay else LEAST_DELIVERED
        self._most = REPLAYED if replay else DELIVERED
        self.epoch = 0
        self.first: int | None = None  # the first one of the epoch
        self._earlier: int | None = None  # the last one before the epoch
        self.floor = 0  # whether revisions up to this one were delivered is unknown
        self._revisions = array("q")

    def begin(self, revision: int, *, listed: bool = False) -> None:
        """Start a new epoch after `revision`: a watch opened there, or earlier deliveries are no longer certain.

        After a list, the events before it may be out of reach for another watch.
        """
        self.epoch += 1
        self._earlier = None if listed else self._revisions[-1] if self._revisions else self._earlier
        self.first = None
        self.floor = revision
        del self._revisions[:]

    def begin_later(self) -> None:
        """Start a new epoch after the next event or bookmark, because a line before that could not be read."""
        self.begin(_NOT_KNOWN)

    def mark(self, revision: int) -> None:
        """Note a bookmark: what comes after it is known again."""
        if self.floor == _NOT_KNOWN:
            self.floor = revision

    def extend(self, revisions: Sequence[int]) -> None:
        """Add the ascending revisions of a batch. This runs for every batch."""
        if self.floor == _NOT_KNOWN and revisions:
            self.floor = revisions[0]
        self._revisions.extend(revisions)
        if self.first is None and revisions:
            self.first = revisions[0]
        if len(self._revisions) >= self._most + FORGOTTEN:
            self._forget(len(self._revisions) - self._most)

    def forget(self, before: int) -> None:
        """Forget some of the revisions before this one, if there are enough newer ones."""
        if len(self._revisions) >= self._least + FORGOTTEN and self._revisions[FORGOTTEN - 1] < before:
            self._forget(FORGOTTEN)

    def has(self, revision: int) -> bool | None:
        """Return whether the revision was delivered, or None if that is unknown."""
        if revision <= self.floor:
            return None
        place = bisect_left(self._revisions, revision)
        return place < len(self._revisions) and self._revisions[place] == revision

    def between(self, after: int, until: int) -> "array[int]":
        """Return the delivered revisions after one revision and up to another, in ascending order."""
        revisions = self._revisions
        return revisions[bisect_right(revisions, after) : bisect_right(revisions, until)]

    def start_before(self, revision: int) -> int:
        """Return from where another watch shows at least one known event before any event after this revision.

        An apiserver that skips the first event of each watch would otherwise hide the event that is looked for.
        """
        place = bisect_right(self._revisions, revision)
        known = self._revisions[place - 1] if place else self._earlier
        return revision if known is None else min(revision, known - 1)

    def after(self, revision: int, count: int) -> int | None:
        """Return the last of the first `count` revisions delivered after this one; None if there are fewer."""
        place = bisect_right(self._revisions, revision) + count - 1
        return self._revisions[place] if place < len(self._revisions) else None

    def before(self, count: int) -> int:
        """Return the revision after which the last `count` delivered revisions are known."""
        return self._revisions[-count - 1] if len(self._revisions) > count else self.floor

    def _forget(self, excess: int) -> None:
        self.floor = self._revisions[excess - 1]
        del self._revisions[:excess]


@dataclass(frozen=True, slots=True)
class Findings:
    """Revisions that an audit saw and the watch has not delivered.

    `withheld` are newer than everything delivered; `lost` were skipped, because newer revisions were delivered.
    """

    withheld: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()


def compare(seen: Iterable[int], delivered: Delivered, newest: int) -> Findings:
    """Compare what an audit saw with what its watch delivered; `newest` is the newest revision of the watch."""
    missing = sorted({revision for revision in seen if delivered.has(revision) is False})
    split = bisect_left(missing, newest + 1)
    return Findings(withheld=tuple(missing[split:]), lost=tuple(missing[:split]))


@dataclass(frozen=True, slots=True)
class AuditEvidence:
    """The evidence of one audit.

    `complete` means that the audit ran to its end or saw events, while the watch stayed open and this process read it
    in time. `moved` means that the watch delivered something during the audit, and `delivered` that this was an event:
    a bookmark, which comes every minute, shows that a cache is not stuck, but not that there was an event.
    """

    freshness: Freshness
    complete: bool
    moved: bool
    delivered: bool
    findings: Findings


def judge(evidence: AuditEvidence) -> AuditResult:
    """Return what the evidence proves. Withheld and lost events need no fresh cache as a proof.

    A cache that still delivers is late and not frozen: its latency is measured instead.
    """
    if evidence.freshness is Freshness.FROZEN:
        return AuditResult.ALIVE if evidence.moved else AuditResult.FROZEN
    if not evidence.complete:
        return AuditResult.FAILED
    if evidence.findings.withheld:
        return AuditResult.STALLED
    if evidence.findings.lost:
        return AuditResult.LOST
    if evidence.delivered or (evidence.moved and evidence.freshness is not Freshness.FRESH):
        return AuditResult.ALIVE
    return _SILENT[evidence.freshness]


_SILENT: Mapping[Freshness, AuditResult] = {
    Freshness.FRESH: AuditResult.IDLE,
    Freshness.UNPROVEN: AuditResult.UNPROVEN,
    Freshness.UNKNOWN: AuditResult.FAILED,
}


class Health:
    """What audits found for one watch: the last verdict, the number of stalls, and the withheld events.

    The watch adds what it delivers to `delivered`. A stall lasts until the withheld events are delivered or a list
    passes them. A stall by a frozen cache lasts until a nudge is answered again.
    """

    def __init__(self, random: Callable[[], float], delivered: Delivered | None = None, now: float = 0.0) -> None:
        self.delivered = delivered or Delivered()
        self.proven = ProvenIdle(now)
        self.verdict: AuditResult | None = None
        self.stalls = 0
        self._failed = False  # the last audit
        self._lost: deque[int] = deque(maxlen=WITHHELD)  # those found last, which are not counted again
        self._ahead: int | None = None  # a revision of the watch that was newer than consistent reads
        self._searched = -1  # everything up to this revision was searched for lost events
        self._compared = -1  # revisions up to this one are counted as compared
        self._withheld: tuple[tuple[int, float], ...] = ()
        self._found_at = 0  # the revision of the watch when it was found stalled
        self._frozen: float | None = None
        self._reopens = Backoff(random, REOPEN_BASE_SECONDS, REOPEN_CAP_SECONDS, REOPEN_RESET_SECONDS)
        self._reopen_from = float("-inf")

    def withheld(self, now: float, revision: int | None) -> list[float]:
        """Return the least ages, in seconds, of the events withheld from a watch that has reached `revision`."""
        return [now - committed for _, committed in self._missing(revision)] if self._withheld else []

    def stalled_for(self, now: float, revision: int | None) -> float | None:
        """Return the age of the oldest withheld event or of the frozen cache, in seconds; None if not stalled."""
        if not self._withheld and self._frozen is None:  # nearly always, and all watches are asked often
            return None
        ages = self.withheld(now, revision)
        if self._frozen is not None:
            ages.append(now - self._frozen)
        return max(ages, default=None)

    def search_from(self, look_back: int = LOOK_BACK) -> int:
        """Return the revision after which an audit should search for lost events, at most so many events back."""
        return max(self._searched, self.delivered.before(look_back))

    def froze(self, since: float, revision: int) -> None:
        """Record that the cache has been frozen since this time."""
        self._count(since, revision)
        self.verdict, self._failed = AuditResult.FROZEN, False
        self._frozen = since if self._frozen is None else self._frozen

    def stalled(self, withheld: Iterable[tuple[int, float]], revision: int, now: float) -> bool:
        """Record withheld revisions with their latest commit times; return True if the watch must be reopened now."""
        self._count(now, revision)
        self.verdict, self._frozen, self._failed = AuditResult.STALLED, None, False
        self._withheld = tuple(sorted(withheld))[:WITHHELD]
        self._found_at = revision
        return self.may_reopen(now)

    def may_reopen(self, now: float) -> bool:
        """Return True if the watch was not reopened too recently; it is then counted as reopened now."""
        if now < self._reopen_from:
            return False
        self._reopen_from = now + self._reopens.next(now)
        return True

    def found(self, verdict: AuditResult) -> None:
        """Record any other verdict. All but audits without a result prove that the cache is not frozen.

        A single failed audit leaves the verdict: the watch may have reopened during it. The second one replaces it.
        """
        failed_before, self._failed = self._failed, verdict is AuditResult.FAILED
        if verdict not in (AuditResult.FAILED, AuditResult.FORBIDDEN):
            self._frozen = None
        elif self._failed and self.verdict is not None and not failed_before:
            return
        self.verdict = verdict

    def forget(self, now: float) -> None:
        """Forget all revisions: the storage went back to an earlier state and will use them again."""
        self.proven.forget(now)
        self._lost.clear()
        self._searched = self._compared = -1
        self._withheld = ()

    def suspend(self) -> None:
        """Drop the verdict because audits are off. Withheld events stay known until they arrive."""
        self.verdict = self._frozen = None

    def lose(self, revisions: Sequence[int], first: int | None) -> list[Violated]:
        """Return which guarantees these lost revisions broke, in ascending order; those known before are left out.

        `first` is the first revision that the watch delivered after it opened.
        """
        known = set(self._lost)
        new = [revision for revision in revisions if revision not in known]
        self._lost.extend(new)
        at_start = sum(first is not None and revision < first for revision in new)
        parts = ((Guarantee.RESUMABLE, new[:at_start]), (Guarantee.RELIABLE, new[at_start:]))
        return [Violated(guarantee, len(lost), lost[0], lost[-1]) for guarantee, lost in parts if lost]

    def runs_ahead(self, revision: int) -> bool:
        """Note that the watch knows a revision that does not exist yet; return False if that was known."""
        known, self._ahead = self._ahead, revision
        return revision != known

    def searched(self, until: int) -> None:
        """Note that a search has ended: it compared everything up to this revision."""
        self._searched = max(self._searched, until)

    def compare(self, seen: Collection[int]) -> int:
        """Return how many of the revisions that an audit saw are compared for the first time."""
        new = sum(revision > self._compared for revision in seen)
        self._compared = max((self._compared, *seen))
        return new

    def _count(self, now: float, revision: int) -> None:
        if self.stalled_for(now, revision) is None:
            self.stalls += 1

    def _missing(self, revision: int | None) -> tuple[tuple[int, float], ...]:
        if revision is None or revision < self._found_at:  # the storage went back: these revisions are void
            self._withheld = ()
        else:
            self._withheld = tuple(pair for pair in self._withheld if pair[0] > revision)
        return self._withheld


def detection_seconds(quiet: int, budget: float) -> float | None:
    """Return the seconds within which a stalled watch is found, with `quiet` silent watches; None if audits are off.

    In the worst case all watches fall silent at once, the stalled one is audited last, and its cache is frozen, so
    that two nudges time out. That takes longer than an audit and its grace, with a threshold of up to seven seconds. If
    audits are rare, a bookmark may have put off the audit for as long as a slot.
    """
    if not budget:
        return None
    slot = slot_seconds(budget)
    return max(DETECTION_SECONDS, max(QUIET_SECONDS, slot) + (quiet + 1) * slot + FROZEN_SECONDS)


def slot_seconds(budget: float) -> float:
    """Return the seconds between the starts of two audits, with a budget in audits per second."""
    return max(1.0 / budget, SHORTEST_SLOT_SECONDS)


class Schedule:
    """Chooses the next watch to audit. Watches are numbers; `random` returns numbers from [0, 1)."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._due: dict[int, tuple[float, float]] = {}  # time of the last audit, and the share of an interval to wait

    def choose(self, intervals: Mapping[int, float], under_way: Container[int], now: float) -> int | None:
        """Return the watch to audit now, or None. `intervals` has the seconds between two audits of each watch.

        The shortest interval goes first, then the audit that has been due for longest. A new watch becomes due at a
        random time within its interval. Audits that are `under_way` are not started again.
        """
        self._due = {number: self._due.get(number) or self._first_due(now, intervals[number]) for number in intervals}
        due = [(interval, self._due_at(number, interval), number) for number, interval in intervals.items()]
        ready = [entry for entry in due if entry[1] <= now and entry[2] not in under_way]
        if not ready:
            return None
        _, _, number = min(ready)
        self._due[number] = now, 1.0 - JITTER + 2.0 * JITTER * self._random()
        return number

    def _first_due(self, now: float, interval: float) -> tuple[float, float]:
        return now - interval * self._random(), 1.0

    def _due_at(self, number: int, interval: float) -> float:
        audited, factor = self._due[number]
        return audited + factor * interval
