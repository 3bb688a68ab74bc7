"""How stale the cache of an informer is, by a page that shows its revision and by our own watch of the same resource.

Theory of operation. A page asked for at s and complete at e shows that a cache has reached revision S. Its staleness is
the time since the first event after S was committed: it lacks that event, and everything it has is older. Our own watch
knows that event, and the revision clock bounds its commit. So the staleness is at least s - latest(commit), and at most
e - earliest(commit). If our watch had received no event after S before s, the cache lacks nothing that is known, and
the lower bound is 0: a resource without events is never stale, and what the server withholds from everyone is not held
against the client.

Pages are judged once a tick was sent after e: then every revision on the page is known to be of the past.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from watchslo.clock.domain import Horizon
from watchslo.informer.delivered_runs import DeliveredRuns, MissedEvent
from watchslo.informer.page import InformerPage
from watchslo.model import Interval, Measure, Resource
from watchslo.own_metrics.history import REVISION_MODULUS
from watchslo.snapshot import StoreVerdict


class NotJudged(StrEnum):
    """Why the staleness of a cache is unknown."""

    UNWATCHED = "unwatched"  # no watch of all objects of the resource runs here
    OWN_WATCH = "own_watch"  # our own watch is not dated, or not known to be current
    UNDATED = "undated"  # no tick was sent after the page
    EMPTY = "empty"  # the informer has not listed yet
    AHEAD = "ahead"  # the storage has no such revision: the client is one of another cluster
    BEGINNING = "beginning"  # our own watch began later
    SELECTED = "selected"  # the informer has selectors, and lacks events that it did not ask for


@dataclass(frozen=True, slots=True)
class OwnWatch:
    """Our watch of all objects of a resource: what it has `delivered`, and the clock that dates it.

    `horizon` is that of the clock; None unless the watch is dated and known to be current. `threshold` is in seconds.
    Only revisions of one `domain` can be compared.
    """

    resource: Resource
    domain: str
    delivered: DeliveredRuns
    threshold: float
    horizon: Horizon | None
    measure: Measure

    def has_passed(self, ended: float) -> bool:
        """Return True if a page that was complete at `ended` can be judged, or never will be."""
        return self.horizon is None or self.horizon.sent >= ended


@dataclass(frozen=True, slots=True)
class JudgedStore:
    """How stale a cache is, in seconds, None if nothing is known; `reason` says why it is not judged.

    `reached` is the revision of the cache, and `missed` at least that of the first event that it lacks.
    """

    verdict: StoreVerdict
    staleness: Interval | None = None
    reason: NotJudged | None = None
    reached: int | None = None
    missed: int | None = None


def judge(shown: int, page: InformerPage, own: OwnWatch | None, *, is_selected: bool) -> JudgedStore:
    """Judge a cache by the revision that a page shows; with `is_selected`, its informer has selectors."""
    if own is None:
        return _unknown(NotJudged.UNWATCHED)
    revision = _revision(shown, page, own)
    if isinstance(revision, NotJudged):
        return _unknown(revision)
    missed = own.delivered.after(revision)
    if missed is not None:
        judged = _judge_missed(missed, page, own, is_selected=is_selected)
        return replace(judged, reached=revision, missed=missed.newest)
    is_known = revision >= own.delivered.floor
    judged = JudgedStore(StoreVerdict.CURRENT, Interval(0.0, 0.0)) if is_known else _unknown(NotJudged.BEGINNING)
    return replace(judged, reached=revision)


def _revision(shown: int, page: InformerPage, own: OwnWatch) -> int | NotJudged:
    """Return the revision of which a page shows the last digits, or why it cannot be compared."""
    if own.horizon is None:
        return NotJudged.OWN_WATCH
    if not own.has_passed(page.ended):
        return NotJudged.UNDATED
    if shown == 0:
        return NotJudged.EMPTY
    newest = own.horizon.revision
    revision = newest - (newest - shown) % REVISION_MODULUS
    return revision if revision > 0 else NotJudged.AHEAD


def _judge_missed(missed: MissedEvent, page: InformerPage, own: OwnWatch, *, is_selected: bool) -> JudgedStore:
    staleness = _staleness(missed, page, own.measure)
    if is_selected:
        upper = Interval(0.0, staleness.upper)
        is_current = staleness.upper <= own.threshold
        return JudgedStore(StoreVerdict.CURRENT, upper) if is_current else _unknown(NotJudged.SELECTED, upper)
    if page.began - missed.received > own.threshold:
        return JudgedStore(StoreVerdict.STALE, staleness)
    return _unknown(NotJudged.BEGINNING) if missed.oldest is None else JudgedStore(StoreVerdict.CURRENT, staleness)


def _staleness(missed: MissedEvent, page: InformerPage, measure: Measure) -> Interval:
    """Return the bounds of the time since the commit of an event that a cache lacks."""
    oldest = missed.newest if missed.oldest is None else missed.oldest
    bounds = measure(np.array([oldest, missed.newest]), np.full(2, missed.received))
    earliest, latest = -math.inf, missed.received  # it was committed before it arrived
    if missed.oldest is not None and bounds.measurable[0]:
        earliest = missed.received - float(bounds.proven_upper[0])
    if bounds.measurable[1]:
        latest = min(latest, missed.received - float(bounds.proven[1]))
    lower = page.began - latest if missed.received < page.began else 0.0
    return Interval(max(0.0, lower), max(0.0, page.ended - earliest))


def _unknown(reason: NotJudged, staleness: Interval | None = None) -> JudgedStore:
    return JudgedStore(StoreVerdict.UNKNOWN, staleness, reason)
