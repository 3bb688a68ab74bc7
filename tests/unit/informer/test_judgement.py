"""The age of a cache: examples, and a property over storages whose commits are known."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.informer.cluster import PODS, OurWatch, page
from watchslo.clock.domain import Horizon
from watchslo.informer.delivered_runs import DeliveredRuns
from watchslo.informer.judgement import JudgedStore, NotJudged, OwnWatch, judge
from watchslo.model import Bounds, FloatArray, IntArray, Interval, Measure
from watchslo.snapshot import StoreVerdict


@pytest.fixture
def ours() -> OurWatch:
    """A clock that ticks each second until 105 s, at revision 50 from 90 s on; one event of pods is revision 40."""
    made = OurWatch()
    for second in range(80, 106):
        made.tick(second, 30 if second < 85 else 50)
    made.deliver(84.5, 40)
    return made


def test_cache_that_has_the_newest_event_is_current_however_long_nothing_happened(ours: OurWatch) -> None:
    for store in (40, 45, 50):
        assert judge(store, page(), ours.own, is_selected=False) == JudgedStore(
            StoreVerdict.CURRENT, Interval(0.0, 0.0), reached=store
        )


def test_age_counts_from_the_commit_of_the_first_event_that_the_cache_lacks(ours: OurWatch) -> None:
    stale = judge(35, page(began=100.0, seconds=0.5), ours.own, is_selected=False)
    assert stale.verdict is StoreVerdict.STALE
    assert stale.staleness is not None
    assert stale.staleness.lower == pytest.approx(100.0 - 84.5), "it was committed before it arrived"
    assert stale.staleness.upper == pytest.approx(100.5 - 84.0), "the tick at 84 s did not have it"


def test_event_that_our_watch_had_for_less_than_the_threshold_makes_no_cache_stale(ours: OurWatch) -> None:
    ours.deliver(99.25, 48)
    found = judge(45, page(), ours.own, is_selected=False)
    assert found.verdict is StoreVerdict.CURRENT
    assert found.staleness is not None
    assert found.staleness.lower == pytest.approx(15 - 0.01, abs=0.02), "the server was late: the tick at 85 s had it"


def test_event_that_our_watch_received_after_the_page_was_asked_for_has_an_upper_bound_only(ours: OurWatch) -> None:
    ours.deliver(100.05, 48)
    found = judge(45, page(), ours.own, is_selected=False)
    assert found.verdict is StoreVerdict.CURRENT
    assert found.staleness is not None
    assert found.staleness.lower == 0.0
    assert found.staleness.upper > 10.0


def test_revisions_are_compared_by_their_last_digits() -> None:
    ours = OurWatch(floor=2 * 10**15)
    for second in range(90, 106):
        ours.tick(second, 2 * 10**15 + 50)
    ours.deliver(95.0, 2 * 10**15 + 40)
    assert judge(45, page(), ours.own, is_selected=False).verdict is StoreVerdict.CURRENT
    assert judge(39, page(), ours.own, is_selected=False).verdict is StoreVerdict.STALE


@pytest.mark.parametrize(
    ("store", "change", "reason"),
    [
        (0, lambda _: None, NotJudged.EMPTY),
        (51, lambda _: None, NotJudged.AHEAD),
        (9, lambda ours: ours.delivered.begin(20), NotJudged.BEGINNING),
        (9, lambda ours: ours.deliver(99.5, 48), NotJudged.BEGINNING),
        (45, lambda ours: setattr(ours, "is_current", False), NotJudged.OWN_WATCH),
    ],
)
def test_cache_that_nothing_is_known_of_is_not_judged(
    store: int, change: Callable[[OurWatch], object], reason: NotJudged
) -> None:
    ours = OurWatch()
    ours.tick(101.0, 50)
    change(ours)
    found = judge(store, page(), ours.own, is_selected=False)
    assert (found.verdict, found.staleness, found.reason) == (StoreVerdict.UNKNOWN, None, reason)


def test_cache_of_a_resource_that_is_not_watched_is_not_judged() -> None:
    assert judge(5, page(), None, is_selected=False).reason is NotJudged.UNWATCHED


def test_page_that_no_tick_has_passed_is_not_judged(ours: OurWatch) -> None:
    assert judge(45, page(began=105.5), ours.own, is_selected=False).reason is NotJudged.UNDATED


def test_cache_from_before_our_watch_is_stale_if_it_lacks_what_our_watch_has_had_for_long() -> None:
    ours = OurWatch()
    ours.tick(101.0, 50)
    ours.deliver(90.0, 40)
    assert judge(5, page(), ours.own, is_selected=False) == JudgedStore(
        StoreVerdict.STALE, Interval(10.0, math.inf), reached=5, missed=40
    )


def test_informer_with_selectors_has_an_upper_bound_only(ours: OurWatch) -> None:
    late = judge(35, page(), ours.own, is_selected=True)
    assert (late.verdict, late.reason) == (StoreVerdict.UNKNOWN, NotJudged.SELECTED)
    assert late.staleness is not None
    assert late.staleness.lower == 0.0
    assert late.staleness.upper == pytest.approx(16.1)
    ours.threshold = 20.0
    found = judge(35, page(), ours.own, is_selected=True)
    assert (found.verdict, found.staleness) == (StoreVerdict.CURRENT, late.staleness)


# --- a property -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of the storage: of pods or of something else, and by how much later it arrives, in seconds."""

    at: float
    is_pod: bool
    ours: float
    theirs: float


FIRST = 100  # revision
SECONDS = st.floats(0.0, 4.0)
COMMITS = st.lists(
    st.builds(Commit, SECONDS | st.sampled_from([1.0, 1.03, 1.06]), st.booleans(), st.floats(0.0, 0.5), SECONDS),
    max_size=30,
)


def measure_by(commits: Sequence[float], spread: float) -> Measure:
    """Return a clock that dates the revisions from `FIRST` on, up to so many seconds too early and too late."""

    def measure(revisions: IntArray, received: FloatArray) -> Bounds:
        latencies = received - np.array([commits[revision - FIRST] for revision in revisions.tolist()])
        ends = latencies - spread, latencies + spread
        return Bounds(*ends, *ends, np.full(len(revisions), fill_value=True))

    return measure


def arrivals(commits: Sequence[Commit], delay: Callable[[Commit], float]) -> list[tuple[float, int]]:
    """Return when the events of pods arrive at a watch, in their order, and their revisions."""
    arrived, last = [], 0.0
    for revision, commit in enumerate(commits, FIRST):
        if commit.is_pod:
            last = max(last, commit.at + delay(commit))
            arrived.append((last, revision))
    return arrived


@given(COMMITS, st.sampled_from([0.0, 0.25]), SECONDS, st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.booleans())
def test_bounds_contain_the_true_age(
    drawn: list[Commit],
    spread: float,
    began: float,
    seconds: float,
    share: float,
    is_complete: bool,  # noqa: FBT001 - drawn
) -> None:
    commits = sorted(drawn, key=lambda commit: commit.at)
    delivered = DeliveredRuns()
    delivered.begin(FIRST - 1)
    for received, revision in arrivals(commits, lambda commit: commit.ours):
        if is_complete or received <= began + seconds:
            delivered.add(received, [revision])
    sampled = began + share * seconds
    has = [revision for arrived, revision in arrivals(commits, lambda commit: commit.theirs) if arrived <= sampled]
    store = max(has, default=FIRST - 1)
    lacks = [
        commit.at
        for revision, commit in enumerate(commits, FIRST)
        if commit.is_pod and revision > store and commit.at <= sampled
    ]
    truth = sampled - lacks[0] if lacks else 0.0
    horizon = Horizon(began + seconds, FIRST + len(commits))
    own = OwnWatch(PODS, "default", delivered, 0.5, horizon, measure_by([commit.at for commit in commits], spread))
    found = judge(store, page(store, began, seconds), own, is_selected=False)
    assert found.staleness is not None
    assert found.staleness.lower <= truth + 1e-9
    if is_complete:
        assert truth <= found.staleness.upper + 1e-9
    if not lacks:
        assert found.verdict is StoreVerdict.CURRENT, "a cache that has everything is never stale"
    if found.verdict is StoreVerdict.STALE:
        assert truth > own.threshold
