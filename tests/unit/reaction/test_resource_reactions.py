"""What is a sample and what is not, its bounds, and what is remembered."""

import pytest

from tests.unit.reaction.cluster import DEPLOYMENTS, PODS, Cluster, ignore
from watchslo.latency.own_delay import OwnDelays
from watchslo.reaction import known, pending
from watchslo.reaction.dating import MOST_WAITING, WAITING_SECONDS
from watchslo.reaction.pending import HORIZON_SECONDS
from watchslo.reaction.record import WINDOW_SECONDS
from watchslo.reaction.resource_reactions import ResourceReactions
from watchslo.reaction.steps import Sighted


@pytest.fixture
def deployments() -> Cluster:
    return Cluster(DEPLOYMENTS)


def react(cluster: Cluster, seconds: float, *, uid: str = "a", **acted: bool) -> None:
    """Create an object, and let its controller observe it so many seconds later."""
    cluster.send("ADDED", uid=uid, generation=1)
    cluster.send("MODIFIED", after=seconds, uid=uid, generation=1, status={"observedGeneration": 1}, **acted)


def test_bounds_contain_the_true_time_however_late_the_watch_is(deployments: Cluster) -> None:
    deployments.spread = 0.2
    deployments.send("ADDED", generation=1)
    deployments.latency = 0.5  # what asks arrived at once
    deployments.send("MODIFIED", after=2.5, generation=1, status={"observedGeneration": 1})
    deployments.settle()
    p50, p99 = deployments.reading().quantiles
    assert p50.lower <= 2.0 <= p50.upper
    assert p50.upper - p50.lower < 1.1 * 0.8 + 0.4
    assert p50.lower <= p50.estimate <= p50.upper
    assert p99.q == 0.99


def test_estimate_lies_within_proven_bounds(deployments: Cluster) -> None:
    deployments.latency = 0.9
    deployments.send("ADDED", generation=1)
    deployments.latency = 0.0
    deployments.send("MODIFIED", after=0.5, generation=1, status={"observedGeneration": 1})
    assert deployments.took() == [1.4, 1], "the arrivals were 0.5 s apart"


def test_what_delays_both_events_alike_is_not_counted(deployments: Cluster) -> None:
    deployments.latency, deployments.spread = 0.9, 0.5
    react(deployments, 3)
    assert deployments.took() == [3, 1]


def test_reaction_that_a_late_event_shows_is_no_sample(deployments: Cluster) -> None:
    deployments.send("ADDED", generation=1)
    deployments.latency = 5.0
    deployments.send("MODIFIED", after=6, generation=1, status={"observedGeneration": 1})
    assert deployments.took() == [0, 0]
    assert deployments.unmeasured() == {"late": 1}


@pytest.mark.parametrize(("waited", "reason"), [(3.5, "late"), (4.5, "tainted"), (5.5, "tainted")])
def test_event_that_waited_for_this_process_does_not_make_the_server_late(
    deployments: Cluster, waited: float, reason: str
) -> None:
    deployments.send("ADDED", generation=1)
    deployments.latency = 5.0
    deployments.own_delays.add_late_reads(deployments.now + 5.9, deployments.now + 6.0, deployments.now + 6.0 - waited)
    deployments.send("MODIFIED", after=6, generation=1, status={"observedGeneration": 1})
    assert deployments.took() == [0, 0]
    assert deployments.unmeasured() == {reason: 1}


def test_change_is_dated_once_it_is_known_how_long_it_waited(deployments: Cluster) -> None:
    react(deployments, 1)
    deployments.own_delays.known_until = deployments.now - 0.5
    deployments.settle()
    assert deployments.reading().histogram.total == 0
    deployments.own_delays.known_until = deployments.now
    assert deployments.took() == [1, 1]


def test_reaction_that_this_process_received_late_is_no_sample(deployments: Cluster) -> None:
    react(deployments, 1, tainted=True)
    assert deployments.unmeasured() == {"tainted": 1}


def test_reaction_is_dated_once_a_tick_has_passed_it(deployments: Cluster) -> None:
    react(deployments, 1)
    deployments.reactions.settle(deployments.now, None, deployments.measure)
    deployments.reactions.settle(deployments.now, deployments.newest - 1, deployments.measure)
    assert deployments.reading().histogram.total == 0
    assert deployments.took() == [1, 1]


def test_reaction_that_no_clock_dates_is_counted(deployments: Cluster) -> None:
    react(deployments, 1)
    deployments.reactions.settle(deployments.now + WAITING_SECONDS + 2, None, deployments.measure)
    assert deployments.unmeasured() == {"undated": 1}


def test_change_before_the_first_tick_is_not_dated(deployments: Cluster) -> None:
    react(deployments, 1)

    def measure(*events: object) -> object:
        bounds = deployments.measure(*events)  # type: ignore[arg-type]
        bounds.measurable[:] = False
        return bounds

    deployments.reactions.settle(deployments.now, deployments.newest, measure)  # type: ignore[arg-type]
    assert deployments.reading().histogram.total == 0


def test_gap_forgets_what_is_pending_and_not_dated(deployments: Cluster) -> None:
    react(deployments, 1)
    deployments.send("ADDED", uid="b", generation=1)
    deployments.reactions.begin_again()
    deployments.send("MODIFIED", uid="b", generation=1, status={"observedGeneration": 1})
    assert deployments.took() == [0, 0]
    assert deployments.unmeasured() == {"gap": 2}


def test_reaction_beyond_the_horizon_is_counted(deployments: Cluster) -> None:
    deployments.send("ADDED", generation=1)
    deployments.send("ADDED", after=HORIZON_SECONDS, uid="b", generation=1)
    deployments.settle(after=1)
    assert deployments.reading().pending == 1
    assert deployments.unmeasured() == {"expired": 1}


def test_memory_is_bounded(deployments: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "MOST_PENDING", 3)
    monkeypatch.setattr(known, "MOST_KNOWN", 3)
    for uid in "abcde":
        deployments.send("ADDED", uid=uid, generation=1)
    assert deployments.reading().pending == 3
    assert deployments.unmeasured() == {"crowded": 2}
    deployments.send("MODIFIED", uid="a", generation=1, status={"observedGeneration": 1})
    assert deployments.took() == [0, 0]


def test_changes_that_wait_for_a_tick_are_bounded(deployments: Cluster) -> None:
    dating = deployments.reactions._dating
    for revision in range(MOST_WAITING + 1):
        dating.sight(Sighted(revision, deployments.now))
    assert len(dating._undated) == MOST_WAITING


def test_window_forgets_and_the_histogram_does_not(deployments: Cluster) -> None:
    react(deployments, 1)
    deployments.settle()
    assert deployments.reading().events == 1
    deployments.settle(after=WINDOW_SECONDS + 1)
    reading = deployments.reading()
    assert (reading.events, reading.quantiles, reading.histogram.total) == (0, (), 1)


@pytest.mark.parametrize(("seconds", "estimate"), [(0.0, 0.0005), (0.1, 0.1), (3.0, 3.0), (4000.0, 3800.0)])
def test_quantiles_are_exact_to_five_percent(deployments: Cluster, seconds: float, estimate: float) -> None:
    react(deployments, 0.0, uid="short")
    for number in range(99):
        deployments.send("ADDED", uid=str(number), generation=1)
    deployments.now += seconds
    for number in range(99):
        deployments.send("MODIFIED", uid=str(number), generation=1, status={"observedGeneration": 1})
    deployments.settle()
    p50, p99 = deployments.reading().quantiles
    assert p50.estimate == p99.estimate == pytest.approx(estimate, rel=0.051)
    assert p99.lower <= seconds <= p99.upper


def test_bookmarks_errors_and_odd_revisions_are_no_changes(deployments: Cluster) -> None:
    deployments.send_line({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "5"}}})
    deployments.send_line({"type": "ADDED", "object": {"metadata": {"uid": "a", "generation": 1}}})
    deployments.send_line({"type": "ERROR", "object": {"code": 410}})
    assert deployments.reading().pending == 0


def test_only_slices_take_ready_pods() -> None:
    reactions = ResourceReactions(PODS, 1.0, OwnDelays(), ignore)
    reactions.pod_ready("a", Sighted(1, 1.0))
    assert all(reading.events == 0 for reading in reactions.readings(2.0, lambda _: None, None))
