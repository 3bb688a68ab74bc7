"""Each cause by what it does to the figures, in several strengths, and what tells it from its neighbours."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.diagnose.cluster import TICK_SECONDS, Cluster
from tests.unit.serve.readings import HISTORY
from watchslo.diagnose.diagnosis import Diagnosis
from watchslo.model import Interval
from watchslo.snapshot import Cause, CauseReading, Confidence, TransportReading
from watchslo.watch.audit import Verdict

LOW, MEDIUM, HIGH = Confidence
STRENGTHS = (0.2, 0.4, 1.2)
ENOUGH = 5  # steps: a cause has to be named within 30 s
OVER = 9  # and to be cleared within 60, windows and all


def told(cluster: Cluster, steps: int = ENOUGH) -> list[tuple[Cause, str | None, str | None, Confidence]]:
    return [(one.cause, one.apiserver, one.watch, one.confidence) for one in cluster.step(steps)]


def late_to_cache(cluster: Cluster, apiserver: str, seconds: float) -> None:
    """Its link to etcd is slow: what it tells of the storage is late, ticks and events alike."""
    cluster.apiservers[apiserver].ticks(seconds)
    for watch in cluster.at(apiserver):
        watch.late = watch.behind = watch.storage = seconds
        watch.client, watch.cache_trip = 0.001, 0.001


def late_to_client(cluster: Cluster, apiserver: str, seconds: float) -> None:
    """The way from it is slow: so are all its answers, and the hops cannot be resolved."""
    cluster.apiservers[apiserver].ticks(seconds)
    for watch in cluster.at(apiserver):
        watch.late = watch.behind = watch.cache_trip = seconds
        watch.storage, watch.client, watch.hops_resolved = seconds / 3, seconds / 3, False


class TestNothing:
    def test_is_said_of_what_is_well(self) -> None:
        assert told(Cluster()) == []

    def test_is_said_of_noise(self) -> None:
        cluster = Cluster()
        for number in range(24):
            for index, watch in enumerate(cluster.watches.values()):
                watch.late = (0.002, 0.03, 0.09)[(number + index) % 3]
                watch.behind = (0.0, 0.02, 0.1)[(number * index) % 3]
            for index, apiserver in enumerate(cluster.apiservers.values()):
                apiserver.trips = (0.001, 0.004, 0.03, 0.06)[: 2 + (number + index) % 3]
            assert cluster.step() == ()

    def test_is_said_of_what_is_late_for_a_moment(self) -> None:
        cluster = Cluster()
        for _ in range(6):
            late_to_cache(cluster, "a:1", 0.4)
            assert cluster.step() == ()
            late_to_cache(cluster, "a:1", 0.002)
            assert cluster.step(4) == ()

    def test_is_said_of_an_idle_cluster(self) -> None:
        cluster = Cluster()
        for watch in cluster.watches.values():
            watch.events, watch.late, watch.behind, watch.audit = 0, 5.0, 0.0, "idle"
        assert told(cluster) == []

    def test_is_said_of_figures_that_few_events_make(self) -> None:
        cluster = Cluster()
        for watch in cluster.watches.values():
            watch.events, watch.late = 1, 2.0
        assert told(cluster) == []

    def test_is_said_of_a_minute_whose_events_are_old(self) -> None:
        cluster = Cluster()
        for watch in cluster.watches.values():
            watch.events, watch.minute, watch.late = 1, 400, 2.0
        assert told(cluster) == []

    def test_is_said_of_what_is_below_the_ticks_of_a_far_network(self) -> None:
        cluster = Cluster()
        cluster.round_trip = 0.3
        for watch in cluster.watches.values():
            watch.late, watch.resolved = 0.25, False
        assert told(cluster) == []

    def test_is_said_of_ticks_that_take_as_long_as_the_network(self) -> None:
        cluster = Cluster()
        for one in cluster.apiservers.values():
            one.ticks(0.15)
        for watch in cluster.watches.values():
            watch.transport = TransportReading(0.14, 0, 0.1)
        assert told(cluster) == []

    def test_is_said_of_a_service_that_is_not_watched(self) -> None:
        cluster = Cluster("a:1", "service")
        cluster.apiservers["service"].watched = False
        cluster.apiservers["service"].silence(99.0)
        for watch in cluster.at("service"):
            watch.behind = 9.0
        assert told(cluster) == []

    def test_is_said_of_one_that_nobody_ticks_through_yet(self) -> None:
        cluster = Cluster()
        cluster.add("d:1")
        cluster.apiservers["d:1"].ticking = False
        assert told(cluster) == []

    def test_is_said_of_the_first_snapshot_or_after_a_pause(self) -> None:
        cluster = Cluster()
        late_to_cache(cluster, "a:1", 0.4)
        cluster.step()
        cluster.now += 60.0
        assert cluster.step() == ()
        assert told(cluster, 2) != []

    def test_is_said_of_counters_that_start_anew(self) -> None:
        cluster = Cluster()
        for watch in cluster.watches.values():
            watch.received = watch.bytes = 0
        for one in cluster.apiservers.values():
            one.ticked, one.requests = [], {}
        assert told(cluster) == []

    def test_is_said_where_no_latency_is_estimated(self) -> None:
        cluster, diagnosis = Cluster(), Diagnosis()
        for watch in cluster.watches.values():
            watch.late = 5.0
        for _ in range(ENOUGH):
            cluster.step()
            snapshot = cluster.snapshot()
            streams = tuple(replace(one, track=replace(one.track, windows=())) for one in snapshot.streams)
            assert diagnosis.observe(replace(snapshot, streams=streams), cluster.now) == ()
        assert cluster.causes


class TestMonitorOverloaded:
    @pytest.mark.parametrize(("share", "sure"), [(0.13, MEDIUM), (0.2, HIGH), (0.7, HIGH)])
    def test_is_told_by_our_own_lag(self, share: float, sure: Confidence) -> None:
        cluster = Cluster()
        cluster.taints = share
        assert told(cluster) == [(Cause.MONITOR_OVERLOADED, None, None, sure)]

    def test_a_hiccup_is_none(self) -> None:
        cluster = Cluster()
        cluster.taints = 0.08
        assert told(cluster) == []

    def test_makes_everything_else_unsure(self) -> None:
        cluster = Cluster()
        cluster.taints = 0.3
        late_to_cache(cluster, "a:1", 0.4)
        assert told(cluster) == [
            (Cause.MONITOR_OVERLOADED, None, None, HIGH),
            (Cause.CACHE_BEHIND, "a:1", None, LOW),
        ]


class TestStorageSlow:
    @pytest.mark.parametrize("seconds", STRENGTHS)
    def test_is_told_by_ticks_through_all_apiservers(self, seconds: float) -> None:
        cluster = Cluster()
        for name in cluster.apiservers:
            late_to_cache(cluster, name, seconds)
        for watch in cluster.watches.values():
            watch.behind = 0.0
        assert told(cluster) == [(Cause.STORAGE_SLOW, None, None, HIGH)]

    def test_needs_no_watch_that_is_late(self) -> None:
        cluster = Cluster()
        for one in cluster.apiservers.values():
            one.ticks(0.4)
        assert told(cluster) == [(Cause.STORAGE_SLOW, None, None, MEDIUM)]
        for watch in cluster.watches.values():
            watch.cache_trip = 0.002
        assert told(cluster) == [(Cause.STORAGE_SLOW, None, None, HIGH)]

    def test_is_not_the_way_that_makes_even_caches_slow(self) -> None:
        cluster = Cluster()
        for one in cluster.apiservers.values():
            one.ticks(0.4)
        for watch in cluster.watches.values():
            watch.cache_trip = 0.4
        assert told(cluster) == []

    def test_is_told_of_an_etcd_that_is_away(self) -> None:
        cluster = Cluster()
        for one in cluster.apiservers.values():
            one.silence(20.0, ("probe_cache", "200"), ("tick", "504"))
        assert told(cluster) == [(Cause.STORAGE_SLOW, None, None, HIGH)]

    @pytest.mark.parametrize("code", ["401", "403"])
    @pytest.mark.parametrize("seconds", [20.0, -1.0])
    def test_is_not_told_where_we_may_not_tick(self, code: str, seconds: float) -> None:
        cluster = Cluster("service")
        cluster.apiservers["service"].silence(seconds, ("tick", code))
        assert told(cluster) == []

    def test_is_told_while_ticks_are_prompt(self) -> None:
        cluster = Cluster()
        for watch in cluster.watches.values():
            watch.late = watch.storage = 0.4
        assert told(cluster) == [(Cause.STORAGE_SLOW, None, None, MEDIUM)]

    @pytest.mark.parametrize(("trip", "sure"), [(None, LOW), (0.001, MEDIUM)])
    def test_with_one_apiserver_is_less_sure(self, trip: float | None, sure: Confidence) -> None:
        cluster = Cluster("service")
        cluster.apiservers["service"].ticks(0.4)
        for watch in cluster.watches.values():
            watch.cache_trip = trip
        assert told(cluster) == [(Cause.STORAGE_SLOW, None, None, sure)]

    def test_with_one_apiserver_and_prompt_ticks(self) -> None:
        cluster = Cluster("service")
        for watch in cluster.watches.values():
            watch.late = watch.storage = 0.4
        assert told(cluster) == [(Cause.STORAGE_SLOW, None, None, MEDIUM)]


class TestCacheBehind:
    @pytest.mark.parametrize("seconds", STRENGTHS)
    def test_is_told_by_its_hop_and_its_ticks(self, seconds: float) -> None:
        cluster = Cluster()
        late_to_cache(cluster, "b:1", seconds)
        assert told(cluster) == [(Cause.CACHE_BEHIND, "b:1", None, HIGH)]

    def test_is_told_by_two_probes_of_many_watches(self) -> None:
        cluster = Cluster()
        late_to_cache(cluster, "b:1", 0.4)
        for watch in cluster.at("b:1")[1:]:
            watch.storage = watch.client = watch.cache_trip = None
        assert told(cluster) == [(Cause.CACHE_BEHIND, "b:1", None, HIGH)]

    def test_has_its_figures_in_a_sentence(self) -> None:
        cluster = Cluster()
        late_to_cache(cluster, "b:1", 0.31)
        (cause,) = cluster.step(ENOUGH)
        assert cause.evidence == (
            "b:1 has pods 0.31 s late (P50) in its cache after storage; the others 4 ms; "
            "ticks take 1.8 ms (a:1), 0.38 s (b:1), 1.8 ms (c:1)."
        )
        assert cause.next.startswith("Look at the connection from b:1 to etcd")
        assert cause.since_wall == 1_700_000_000.0 + cluster.now - 5.0 * (ENOUGH - 1)

    def test_is_told_of_one_that_is_cut_off(self) -> None:
        cluster = Cluster()
        cluster.apiservers["a:1"].silence(12.0, ("probe_cache", "200"))
        for watch in cluster.at("a:1"):
            watch.events, watch.behind, watch.cache_behind = 0, 12.0, Interval(11.5, 12.5)
        assert told(cluster) == [(Cause.CACHE_BEHIND, "a:1", None, HIGH)]

    def test_is_likely_where_only_ticks_fail(self) -> None:
        cluster = Cluster()
        cluster.apiservers["a:1"].silence(12.0, ("tick", "500"))
        assert told(cluster) == [(Cause.CACHE_BEHIND, "a:1", None, MEDIUM)]

    def test_is_told_of_caches_that_stand_still(self) -> None:
        cluster = Cluster()
        for watch in cluster.at("a:1"):
            watch.events, watch.audit, watch.stalled = 0, Verdict.FROZEN, 20.0
        assert told(cluster) == [(Cause.CACHE_BEHIND, "a:1", None, MEDIUM)]

    def test_may_be_of_one_resource(self) -> None:
        cluster = Cluster()
        watch = cluster["a:1", "pods"]
        watch.late = watch.storage = 0.4
        assert told(cluster) == [(Cause.CACHE_BEHIND, "a:1", "pods", MEDIUM)]


class TestApiserverSending:
    @pytest.mark.parametrize("seconds", STRENGTHS)
    def test_is_told_by_reads_of_its_cache_that_are_as_late(self, seconds: float) -> None:
        cluster = Cluster()
        late_to_client(cluster, "b:1", seconds)
        assert told(cluster) == [(Cause.APISERVER_SENDING, "b:1", None, HIGH)]
        assert cluster.causes[0].evidence.startswith("b:1 says everything late, "), "of its cache nothing is known"

    def test_is_told_by_the_hop(self) -> None:
        cluster = Cluster()
        for watch in cluster.at("c:1"):
            watch.late = watch.client = 0.4
            watch.storage = watch.cache_trip = 0.001
        assert told(cluster) == [(Cause.APISERVER_SENDING, "c:1", None, MEDIUM)]
        assert "though its cache is fresh" in cluster.causes[0].evidence

    def test_is_told_of_one_that_stands_still(self) -> None:
        cluster = Cluster()
        cluster.apiservers["a:1"].silence(12.0)
        cluster.apiservers["a:1"].answers = {("tick", "timeout"): 1}
        for watch in cluster.at("a:1"):
            watch.events, watch.behind = 0, 12.0
        assert told(cluster) == [(Cause.APISERVER_SENDING, "a:1", None, HIGH)]

    def test_is_told_of_the_only_one(self) -> None:
        cluster = Cluster("service")
        cluster.apiservers["service"].silence(12.0)
        for watch in cluster.watches.values():
            watch.events = 0
        assert told(cluster) == [(Cause.APISERVER_SENDING, "service", None, MEDIUM)]

    def test_is_told_of_one_that_answers_and_sends_nothing(self) -> None:
        cluster = Cluster()
        for watch in cluster.at("a:1"):
            watch.events, watch.behind = 0, 12.0
        assert told(cluster) == [(Cause.APISERVER_SENDING, "a:1", None, MEDIUM)]

    def test_of_one_that_never_ticked(self) -> None:
        cluster = Cluster()
        cluster.apiservers["a:1"].silence(-1.0)
        for watch in cluster.at("a:1"):
            watch.events, watch.up = 0, False
        assert told(cluster) == [(Cause.APISERVER_SENDING, "a:1", None, MEDIUM)]

    def test_ends_with_the_apiserver(self) -> None:
        cluster = Cluster()
        cluster.apiservers["a:1"].silence(12.0)
        for watch in cluster.at("a:1"):
            watch.events = 0
        assert told(cluster) != []
        cluster.remove("a:1")
        cluster.add("d:1")
        assert told(cluster, 1) == []
        assert told(cluster) == []

    def test_with_one_apiserver(self) -> None:
        cluster = Cluster("service")
        late_to_client(cluster, "service", 0.4)
        for watch in cluster.watches.values():
            watch.behind = None
        assert told(cluster) == [(Cause.APISERVER_SENDING, "service", None, MEDIUM)]

    def test_may_be_of_one_watch(self) -> None:
        cluster = Cluster()
        watch = cluster["a:1", "pods"]
        watch.late = watch.client = 0.4
        watch.storage = 0.001
        assert told(cluster) == [(Cause.APISERVER_SENDING, "a:1", "pods", MEDIUM)]


ONE_RESOURCE: list[tuple[Cause, Callable[[float], dict[str, float]]]] = [
    (Cause.RESOURCE_DECODING, lambda seconds: {"storage": seconds, "client": 0.001}),
    (Cause.RESOURCE_FANOUT, lambda seconds: {"storage": 0.001, "client": seconds}),
]


@pytest.mark.parametrize(("cause", "hops"), ONE_RESOURCE)
class TestOneResource:
    @pytest.mark.parametrize("seconds", STRENGTHS)
    def test_is_told_by_its_hop_at_all_apiservers(
        self, cause: Cause, hops: Callable[[float], dict[str, float]], seconds: float
    ) -> None:
        cluster = Cluster()
        for watch in cluster.of("pods"):
            watch.late, watch.storage, watch.client = seconds, hops(seconds)["storage"], hops(seconds)["client"]
        assert told(cluster) == [(cause, None, "pods", HIGH)]

    def test_is_less_sure_where_nothing_else_is_watched(
        self, cause: Cause, hops: Callable[[float], dict[str, float]]
    ) -> None:
        cluster = Cluster(watches=("pods",))
        for watch in cluster.watches.values():
            watch.late, watch.storage, watch.client = 0.4, hops(0.4)["storage"], hops(0.4)["client"]
        assert told(cluster) == [(cause, None, "pods", MEDIUM)]

    def test_others_are_well_though_they_are_below_what_is_resolved(
        self, cause: Cause, hops: Callable[[float], dict[str, float]]
    ) -> None:
        cluster = Cluster()
        for watch in cluster.watches.values():
            watch.resolved = False
        for watch in cluster.of("pods"):
            watch.resolved, watch.late = True, 0.4
            watch.storage, watch.client = hops(0.4)["storage"], hops(0.4)["client"]
        assert told(cluster) == [(cause, None, "pods", HIGH)]

    def test_with_one_apiserver(self, cause: Cause, hops: Callable[[float], dict[str, float]]) -> None:
        cluster = Cluster("service")
        (watch,) = cluster.of("pods")
        watch.late, watch.storage, watch.client = 0.4, hops(0.4)["storage"], hops(0.4)["client"]
        assert told(cluster) == [(cause, "service", "pods", MEDIUM)]


def throttled(cluster: Cluster, apiserver: str, events: int = 10) -> None:
    for watch in cluster.at(apiserver):
        watch.events, watch.late, watch.behind = events, 4.0, 9.0
        watch.client, watch.cache_trip = 4.0, 0.01


class TestBandwidth:
    @pytest.mark.parametrize("events", [5, 30, 70])
    def test_is_told_by_what_does_not_get_through(self, events: int) -> None:
        cluster = Cluster()
        throttled(cluster, "c:1", events)
        sure = HIGH if 300 * events >= 1000 else MEDIUM
        assert told(cluster) == [(Cause.BANDWIDTH, "c:1", None, sure)]

    def test_what_is_only_late_gets_as_many(self) -> None:
        cluster = Cluster()
        throttled(cluster, "c:1", 95)
        assert told(cluster) == [(Cause.APISERVER_SENDING, "c:1", None, MEDIUM)]

    def test_is_not_the_step_in_which_a_delay_begins(self) -> None:
        cluster = Cluster()
        throttled(cluster, "c:1", 40)
        cluster.step()
        for watch in cluster.at("c:1"):
            watch.events = 100
        assert told(cluster) == [(Cause.APISERVER_SENDING, "c:1", None, MEDIUM)]

    def test_is_told_with_one_apiserver_by_a_delay_that_grows(self) -> None:
        cluster = Cluster("service")
        for step in range(ENOUGH + 1):
            for watch in cluster.watches.values():
                watch.late = watch.client = 1.0 + step
            cluster.step()
        assert next((one.cause, one.apiserver, one.confidence) for one in cluster.causes) == (
            Cause.BANDWIDTH,
            "service",
            MEDIUM,
        )

    def test_is_told_by_a_slow_connection(self) -> None:
        cluster = Cluster("service")
        for watch in cluster.watches.values():
            watch.late, watch.transport = 0.3, TransportReading(0.25, 9, 0.1)
        assert told(cluster) == [(Cause.BANDWIDTH, "service", None, MEDIUM)]

    def test_is_told_by_watches_that_are_closed_for_it(self) -> None:
        cluster = Cluster("service")
        cluster["service", "pods"].slow_consumer += 1
        assert told(cluster) == []
        cluster["service", "nodes"].late = 0.5
        for _ in range(ENOUGH):
            cluster["service", "pods"].slow_consumer += 1
            cluster.step()
        assert [(one.cause, one.apiserver) for one in cluster.causes] == [(Cause.BANDWIDTH, "service")]

    def test_is_what_all_apiservers_have_in_common(self) -> None:
        cluster = Cluster()
        for name in cluster.apiservers:
            late_to_client(cluster, name, 0.4)
        for watch in cluster.watches.values():
            watch.behind = 0.0
        assert told(cluster) == [(Cause.BANDWIDTH, None, None, MEDIUM)]

    def test_is_suspected_where_none_answers(self) -> None:
        cluster = Cluster()
        for one in cluster.apiservers.values():
            one.silence(12.0)
        for watch in cluster.watches.values():
            watch.events = 0
        assert told(cluster) == [(Cause.BANDWIDTH, None, None, MEDIUM)]


class TestRelistStorm:
    @pytest.mark.parametrize("names", [("a:1",), ("a:1", "b:1")])
    def test_is_suspected_where_requests_are_refused(self, names: tuple[str, ...]) -> None:
        cluster = Cluster()
        for name in names:
            cluster.apiservers[name].answers = {("tick", "200"): 3, ("list", "429"): 2}
        named = names[0] if len(names) == 1 else None
        assert told(cluster) == [(Cause.RELIST_STORM, named, None, MEDIUM)]

    @pytest.mark.parametrize("trips", [(0.002, 0.003, 0.3, 0.8), (0.3, 0.4, 0.8, 0.9)])
    def test_is_suspected_where_all_is_late_but_each_by_another_time(self, trips: tuple[float, ...]) -> None:
        cluster = Cluster()
        late_to_client(cluster, "a:1", 0.4)
        cluster.apiservers["a:1"].trips = trips
        cluster["a:1", "nodes"].cache_behind = Interval(0.3, 0.5)
        for watch in cluster.at("a:1"):
            watch.spread = 2.0
        assert told(cluster) == [(Cause.RELIST_STORM, "a:1", None, MEDIUM)]

    def test_is_suspected_where_one_is_late_and_the_others_sometimes(self) -> None:
        """As a hundred clients made it that listed secrets: these came late, and of all else every tenth event."""
        cluster = Cluster()
        cluster.apiservers["a:1"].trips = (0.05, 0.1, 0.3, 0.8)
        for watch in cluster.at("a:1"):
            watch.late, watch.spread = 0.1, 3.5
        late = cluster["a:1", "leases"]
        late.late, late.spread, late.storage = 0.5, 1.4, 0.5
        assert told(cluster) == [(Cause.RELIST_STORM, "a:1", None, MEDIUM)]

    def test_is_not_a_way_by_which_less_comes_than_there_is(self) -> None:
        cluster = Cluster()
        late_to_client(cluster, "a:1", 3.0)
        cluster.apiservers["a:1"].trips = (0.3, 0.4, 0.8, 0.9)
        for watch in cluster.at("a:1"):
            watch.spread, watch.events = 2.0, 20
        assert [cause for cause, *_ in told(cluster)] == [Cause.BANDWIDTH]

    def test_is_not_a_delay_that_is_the_same_for_all(self) -> None:
        cluster = Cluster()
        late_to_client(cluster, "a:1", 0.4)
        cluster.apiservers["a:1"].trips = (0.002, 0.003, 0.3, 0.8)
        assert told(cluster) == [(Cause.APISERVER_SENDING, "a:1", None, MEDIUM)]

    def test_is_not_a_single_refusal(self) -> None:
        cluster = Cluster()
        cluster.apiservers["a:1"].requests["list", "429"] = 1
        assert told(cluster) == []


class TestHistoryShort:
    def test_is_told_where_lists_take_longer(self) -> None:
        cluster = Cluster()
        for watch in cluster.of("pods"):
            watch.history = replace(HISTORY, seconds=Interval(9.0, 12.0), list_seconds=20.0)
        (cause,) = cluster.step(ENOUGH)
        assert (cause.cause, cause.apiserver, cause.watch, cause.confidence) == (
            Cause.HISTORY_SHORT,
            None,
            "pods",
            HIGH,
        )
        assert cause.evidence == "A client of pods gets a 410 after 12 s away, and a full list takes 20 s."

    def test_is_likely_where_that_is_reckoned(self) -> None:
        cluster = Cluster("service")
        (watch,) = cluster.of("pods")
        watch.history = replace(HISTORY, seconds=Interval(9.0, 12.0), list_seconds=20.0, list_measured=False)
        assert told(cluster) == [(Cause.HISTORY_SHORT, "service", "pods", MEDIUM)]

    def test_names_the_apiserver_where_another_remembers_longer(self) -> None:
        cluster = Cluster()
        cluster["a:1", "pods"].history = replace(HISTORY, seconds=Interval(9.0, 12.0), list_seconds=20.0)
        cluster["b:1", "pods"].history = HISTORY
        assert told(cluster) == [(Cause.HISTORY_SHORT, "a:1", "pods", HIGH)]

    def test_is_suspected_after_410s(self) -> None:
        cluster = Cluster("service")
        cluster["service", "pods"].expired = 1
        assert told(cluster) == []
        cluster["service", "pods"].expired = 2
        assert told(cluster, 2) == [(Cause.HISTORY_SHORT, "service", "pods", MEDIUM)]

    def test_is_suspected_no_more_when_none_has_come_for_a_while(self) -> None:
        cluster = Cluster("service")
        cluster.step(2)
        cluster["service", "pods"].expired = 2
        assert told(cluster, 2) == [(Cause.HISTORY_SHORT, "service", "pods", MEDIUM)]
        assert told(cluster, 6) == []

    def test_explains_no_delay(self) -> None:
        cluster = Cluster()
        late_to_cache(cluster, "b:1", 0.4)
        cluster["b:1", "pods"].history = replace(HISTORY, seconds=Interval(9.0, 12.0), list_seconds=20.0)
        assert {cause for cause, *_ in told(cluster)} == {Cause.CACHE_BEHIND, Cause.HISTORY_SHORT}


class TestWritePath:
    @pytest.mark.parametrize(("seconds", "sure"), [(0.4, MEDIUM), (0.8, HIGH), (3.0, HIGH)])
    def test_is_told_by_the_hop_before_the_commit(self, seconds: float, sure: Confidence) -> None:
        cluster = Cluster()
        for watch in cluster.of("pods"):
            watch.creation = seconds
        for watch in cluster.of("nodes"):
            watch.creation = 0.05
        assert told(cluster) == [(Cause.WRITE_PATH, None, "pods", sure)]

    def test_names_no_resource_where_all_are_slow(self) -> None:
        cluster = Cluster("service")
        for watch in cluster.watches.values():
            watch.creation = 0.8
        assert told(cluster) == [(Cause.WRITE_PATH, None, None, HIGH)]

    def test_needs_enough_creations(self) -> None:
        cluster = Cluster("service")
        for watch in cluster.watches.values():
            watch.creation, watch.creations, watch.minute = 0.8, 3, 12
        assert told(cluster) == []

    def test_is_not_the_storage_that_is_slow(self) -> None:
        cluster = Cluster()
        for name in cluster.apiservers:
            late_to_cache(cluster, name, 0.4)
        for watch in cluster.of("pods"):
            watch.creation = 0.5
        assert told(cluster) == [(Cause.STORAGE_SLOW, None, None, HIGH)]

    def test_is_less_sure_beside_another_cause(self) -> None:
        cluster = Cluster()
        late_to_cache(cluster, "a:1", 0.4)
        for watch in cluster.of("pods"):
            watch.creation = 0.8
        assert (Cause.WRITE_PATH, None, "pods", MEDIUM) in told(cluster)


class TestStalledStream:
    def test_is_told_by_what_a_peer_has(self) -> None:
        cluster = Cluster()
        watch = cluster["a:1", "pods"]
        watch.events, watch.behind = 0, 8.0
        assert told(cluster) == [(Cause.STALLED_STREAM, "a:1", "pods", HIGH)]

    @pytest.mark.parametrize("verdict", [Verdict.STALLED, Verdict.FROZEN])
    def test_is_told_by_an_audit(self, verdict: Verdict) -> None:
        cluster = Cluster("service")
        watch = cluster["service", "pods"]
        watch.events, watch.stalled, watch.audit = 0, 20.0, verdict
        (cause,) = cluster.step(ENOUGH)
        assert (cause.cause, cause.apiserver, cause.watch, cause.confidence) == (
            Cause.STALLED_STREAM,
            "service",
            "pods",
            HIGH,
        )
        assert ("frozen" in cause.evidence) == (verdict is Verdict.FROZEN)

    def test_names_no_apiserver_where_none_has_it(self) -> None:
        cluster = Cluster()
        for watch in cluster.of("pods"):
            watch.events = 0
        cluster["a:1", "pods"].stalled, cluster["a:1", "pods"].audit = 20.0, Verdict.FROZEN
        assert told(cluster) == [(Cause.STALLED_STREAM, None, "pods", HIGH)]

    def test_is_less_sure_where_nothing_else_speaks(self) -> None:
        cluster = Cluster("service", watches=("pods",))
        watch = cluster["service", "pods"]
        watch.events, watch.stalled, watch.audit = 0, 20.0, Verdict.STALLED
        assert told(cluster) == [(Cause.STALLED_STREAM, "service", "pods", MEDIUM)]

    def test_is_told_for_a_while_of_one_that_an_audit_mended(self) -> None:
        cluster = Cluster()
        watch = cluster["a:1", "pods"]
        watch.events, watch.behind = 0, 5.0
        cluster.step()
        watch.events, watch.behind, watch.stalls = 200, 0.0, 1
        assert told(cluster, 3) == [(Cause.STALLED_STREAM, "a:1", "pods", MEDIUM)]
        assert "opened it anew" in cluster.causes[0].evidence
        assert told(cluster, 8) == []

    def test_is_not_what_all_watches_of_an_apiserver_were(self) -> None:
        cluster = Cluster()
        for watch in cluster.at("a:1"):
            watch.stalls += 1
        assert told(cluster) == []

    def test_what_was_held_up_and_comes_then_is_not_late_for_another_cause(self) -> None:
        cluster = Cluster()
        watch = cluster["a:1", "pods"]
        watch.events, watch.behind = 0, 20.0
        cluster.step(4)
        watch.events, watch.behind, watch.late, watch.client = 500, 0.0, 15.0, 15.0
        assert {one.cause for one in cluster.step(2)} == {Cause.STALLED_STREAM}
        assert cluster.step(1) == ()


class TestUnknown:
    def test_is_said_of_what_is_late_without_a_reason(self) -> None:
        cluster = Cluster()
        cluster["a:1", "pods"].late = 0.5
        assert told(cluster) == [(Cause.UNKNOWN, None, None, LOW)]

    @pytest.mark.parametrize(("now", "found"), [(2.0, True), (0.004, False)])
    def test_is_not_said_of_what_only_a_longer_window_remembers(self, now: float, *, found: bool) -> None:
        cluster = Cluster("service")
        for watch in cluster.watches.values():
            watch.late, watch.earlier, watch.events, watch.minute = now, 2.0, 10, 130
            watch.spread = 1.0
        assert bool(told(cluster)) is found

    @pytest.mark.parametrize(("spread", "events", "found"), [(200.0, 100, True), (200.0, 3, False), (15.0, 400, False)])
    def test_is_said_of_a_few_that_are_very_late(self, spread: float, events: int, *, found: bool) -> None:
        cluster = Cluster("service")
        watch = cluster["service", "pods"]
        watch.spread, watch.events = spread, events
        assert bool(told(cluster)) == found

    def test_is_never_more_than_a_guess(self) -> None:
        cluster = Cluster()
        cluster["a:1", "pods"].late = 0.5
        cluster.step(ENOUGH)
        cluster["a:1", "pods"].late = 0.004
        assert told(cluster, 1) == [(Cause.UNKNOWN, None, None, LOW)]

    def test_says_where_as_soon_as_it_is_known(self) -> None:
        cluster = Cluster()
        watch = cluster["a:1", "pods"]
        watch.late, watch.storage, watch.client = 0.5, 0.25, 0.25
        assert told(cluster) == [(Cause.UNKNOWN, None, None, LOW)]
        watch.storage, watch.client = 0.45, 0.05
        assert told(cluster, 4) == [(Cause.CACHE_BEHIND, "a:1", "pods", MEDIUM)]


FAULTS: list[Callable[[Cluster], object]] = [
    lambda cluster: setattr(cluster, "taints", 0.3),
    lambda cluster: late_to_cache(cluster, "a:1", 0.4),
    lambda cluster: late_to_client(cluster, "a:1", 0.4),
    lambda cluster: throttled(cluster, "a:1"),
]


def heal(cluster: Cluster) -> None:
    cluster.taints = 0.0
    for one in cluster.apiservers.values():
        one.ticks(TICK_SECONDS)
    for watch in cluster.watches.values():
        watch.late, watch.behind, watch.storage, watch.client, watch.cache_trip = 0.004, 0.0, 0.001, 0.001, 0.001
        watch.events = 100


class TestTime:
    @pytest.mark.parametrize("strike", FAULTS)
    def test_a_cause_is_named_within_30_seconds_and_cleared_within_60(
        self, strike: Callable[[Cluster], object]
    ) -> None:
        cluster = Cluster()
        strike(cluster)
        assert cluster.step(6)
        heal(cluster)
        assert cluster.step(OVER) == ()

    def test_it_does_not_flap(self) -> None:
        cluster = Cluster()
        late_to_cache(cluster, "a:1", 0.4)
        (first,) = cluster.step(ENOUGH)
        for number in range(12):
            for watch in cluster.at("a:1"):
                watch.late = watch.storage = watch.behind = 0.4 if number % 3 else 0.05
            (again,) = cluster.step()
            assert replace(again, confidence=HIGH, evidence="") == replace(first, confidence=HIGH, evidence="")

    def test_it_is_not_sure_at_once(self) -> None:
        cluster = Cluster()
        late_to_cache(cluster, "a:1", 0.4)
        seen: list[tuple[CauseReading, ...]] = [cluster.step() for _ in range(6)]
        confidences = [causes[0].confidence for causes in seen if causes]
        assert confidences == sorted(confidences, key=list(Confidence).index)
        assert confidences[0] is MEDIUM
        assert confidences[-1] is HIGH

    def test_the_surest_comes_first(self) -> None:
        cluster = Cluster()
        cluster["a:1", "pods"].late = 0.5
        for watch in cluster.of("nodes"):
            watch.late = watch.storage = 0.4
        assert [cause for cause, *_ in told(cluster)] == [Cause.RESOURCE_DECODING, Cause.UNKNOWN]
        assert math.isfinite(cluster.causes[0].since_wall)


class TestSentences:
    def test_say_of_one_that_never_answered_no_more_than_that(self) -> None:
        cluster = Cluster()
        cluster.apiservers["a:1"].silence(-1)
        for watch in cluster.at("a:1"):
            watch.events = 0
        (cause,) = cluster.step(ENOUGH)
        assert cause.evidence == "a:1 has answered nothing at all so far; the others answer."

    def test_say_how_late_only_what_is_late(self) -> None:
        cluster = Cluster()
        for watch in cluster.at("a:1"):
            watch.events, watch.stalled = 0, 4.0
        (cause,) = cluster.step(ENOUGH)
        assert cause.evidence == "a:1 answers, but none of its watches brings anything."
