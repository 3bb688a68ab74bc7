"""Each cause: its effect on the figures, at several strengths, and what distinguishes it from similar causes."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.diagnose.cluster import TICK_SECONDS, WELL_SECONDS, Cluster, observed
from tests.unit.serve.readings import HEADROOM
from watchslo.diagnose.diagnosis import Diagnosis
from watchslo.diagnose.rules import TABLE
from watchslo.model import Interval
from watchslo.snapshot import ApiserverRole, Cause, CauseReading, Confidence, StorageKind, TransportReading
from watchslo.watch.audit import AuditResult

LOW, MEDIUM, HIGH = Confidence
STRENGTHS = (0.2, 0.4, 1.2)
ENOUGH = 5  # steps: a cause must be named within 30 s
OVER = 9  # steps: a cause must be cleared within 60 s, including the time for which windows remember it


def diagnosed(cluster: Cluster, steps: int = ENOUGH) -> list[tuple[Cause, str | None, str | None, Confidence]]:
    return [(one.cause, one.apiserver, one.watch, one.confidence) for one in cluster.step(steps)]


def late_to_cache(cluster: Cluster, apiserver: str, seconds: float) -> None:
    """Make its link to etcd slow: ticks and events are late by the same time, reads of its caches are prompt."""
    cluster.apiservers[apiserver].ticks(seconds)
    for watch in cluster.at(apiserver):
        watch.late = watch.behind = watch.storage = seconds
        watch.client, watch.cache_trip = 0.001, 0.001


def late_to_client(cluster: Cluster, apiserver: str, seconds: float) -> None:
    """Make the path from the apiserver slow: all its answers are late, and hops cannot be resolved."""
    cluster.apiservers[apiserver].ticks(seconds)
    for watch in cluster.at(apiserver):
        watch.late = watch.behind = watch.cache_trip = seconds
        watch.storage, watch.client, watch.hops_resolved = seconds / 3, seconds / 3, False


def test_diagnosis_pauses_after_each_watch_and_rule() -> None:
    cluster = Cluster()
    pauses = sum(1 for _ in cluster.diagnosis.observe(cluster.snapshot(), cluster.now + 5.0))
    assert pauses >= len(cluster.snapshot().streams) + len(TABLE)


class TestStoragePoller:
    """kine: the events of other servers wait for a poll, which may stand still."""

    @pytest.fixture(params=[("a:1",), ("a:1", "b:1")], ids=["one", "several"])
    def kine(self, request: pytest.FixtureRequest) -> Cluster:
        cluster = Cluster(*request.param)
        cluster.kind = StorageKind.KINE
        return cluster

    def test_silent_watches_with_prompt_ticks_name_it(self, kine: Cluster) -> None:
        for watch in kine.at("a:1"):
            watch.events, watch.audit, watch.stalled = 0, AuditResult.FROZEN, 5.0
        assert diagnosed(kine) == [(Cause.STORAGE_POLLER, "a:1", None, HIGH)]
        assert kine.causes[0].evidence == (
            "a:1 delivers no event of any resource, although its consistent reads are prompt."
        )

    def test_silent_watches_without_an_audit_name_it_less_certainly(self, kine: Cluster) -> None:
        for watch in kine.at("a:1"):
            watch.events, watch.audit, watch.behind = 0, None, 9.0
        assert diagnosed(kine) == [(Cause.STORAGE_POLLER, "a:1", None, MEDIUM)]

    def test_single_silent_watch_is_another_cause(self, kine: Cluster) -> None:
        kine["a:1", "pods"].events, kine["a:1", "pods"].audit = 0, AuditResult.FROZEN
        kine["a:1", "pods"].stalled = 20.0
        assert [one.cause for one in kine.step(ENOUGH)] == [Cause.STALLED_STREAM]

    def test_slow_ticks_exclude_it(self, kine: Cluster) -> None:
        for watch in kine.at("a:1"):
            watch.events, watch.audit, watch.stalled = 0, AuditResult.FROZEN, 20.0
        kine.apiservers["a:1"].ticks(1.2)
        assert Cause.STORAGE_POLLER not in [one.cause for one in kine.step(ENOUGH)]

    def test_usual_waits_for_a_poll_are_no_cause(self, kine: Cluster) -> None:
        kine.apiservers["a:1"].polls = True
        for watch in kine.at("a:1"):
            watch.late, watch.spread, watch.behind, watch.storage = 0.25, 1.5, 0.4, 0.25
        assert diagnosed(kine) == []

    @pytest.mark.parametrize("seconds", [0.6, 1.5])
    def test_long_waits_for_a_poll_name_it(self, kine: Cluster, seconds: float) -> None:
        kine.apiservers["a:1"].polls = True
        for watch in kine.at("a:1"):
            watch.late, watch.spread, watch.storage, watch.client = seconds, 1.4, seconds, 0.001
        assert diagnosed(kine) == [(Cause.STORAGE_POLLER, "a:1", None, MEDIUM)]
        assert "finds changes of other servers by a poll" in kine.causes[0].evidence

    def test_delays_after_the_cache_are_another_cause(self, kine: Cluster) -> None:
        kine.apiservers["a:1"].polls = True
        for watch in kine.at("a:1"):
            watch.late, watch.spread, watch.storage, watch.client = 1.5, 1.2, 0.001, 1.5
        assert Cause.STORAGE_POLLER not in [one.cause for one in kine.step(ENOUGH)]


class TestNoCause:
    def test_healthy_cluster_has_no_cause(self) -> None:
        assert diagnosed(Cluster()) == []

    def test_noise_has_no_cause(self) -> None:
        cluster = Cluster()
        for number in range(24):
            for index, watch in enumerate(cluster.watches.values()):
                watch.late = (0.002, 0.03, 0.09)[(number + index) % 3]
                watch.behind = (0.0, 0.02, 0.1)[(number * index) % 3]
            for index, apiserver in enumerate(cluster.apiservers.values()):
                apiserver.trips = (0.001, 0.004, 0.03, 0.06)[: 2 + (number + index) % 3]
            assert cluster.step() == ()

    def test_delay_of_one_step_has_no_cause(self) -> None:
        cluster = Cluster()
        for _ in range(6):
            late_to_cache(cluster, "a:1", 0.4)
            assert cluster.step() == ()
            late_to_cache(cluster, "a:1", 0.002)
            assert cluster.step(4) == ()

    def test_idle_cluster_has_no_cause(self) -> None:
        cluster = Cluster()
        for watch in cluster.watches.values():
            watch.events, watch.late, watch.behind, watch.audit = 0, 5.0, 0.0, "idle"
        assert diagnosed(cluster) == []

    def test_figures_of_few_events_have_no_cause(self) -> None:
        cluster = Cluster()
        for watch in cluster.watches.values():
            watch.events, watch.late = 1, 2.0
        assert diagnosed(cluster) == []

    def test_old_events_of_the_minute_have_no_cause(self) -> None:
        cluster = Cluster()
        for watch in cluster.watches.values():
            watch.events, watch.minute, watch.late = 1, 400, 2.0
        assert diagnosed(cluster) == []

    def test_latency_below_the_tick_round_trip_has_no_cause(self) -> None:
        cluster = Cluster()
        cluster.round_trip = 0.3
        for watch in cluster.watches.values():
            watch.late, watch.resolved = 0.25, False
        assert diagnosed(cluster) == []

    def test_ticks_as_slow_as_the_network_have_no_cause(self) -> None:
        cluster = Cluster()
        for one in cluster.apiservers.values():
            one.ticks(0.15)
        for watch in cluster.watches.values():
            watch.transport = TransportReading(0.14, 0, 0.1)
        assert diagnosed(cluster) == []

    def test_apiserver_that_is_not_watched_has_no_cause(self) -> None:
        cluster = Cluster("a:1", "service")
        cluster.apiservers["service"].role = ApiserverRole.SERVICE
        cluster.apiservers["service"].silence(99.0)
        for watch in cluster.at("service"):
            watch.behind = 9.0
        assert diagnosed(cluster) == []

    def test_apiserver_without_a_ticker_has_no_cause(self) -> None:
        cluster = Cluster()
        cluster.add("d:1")
        cluster.apiservers["d:1"].ticking = False
        assert diagnosed(cluster) == []

    def test_first_snapshot_and_snapshot_after_a_pause_have_no_cause(self) -> None:
        cluster = Cluster()
        late_to_cache(cluster, "a:1", 0.4)
        cluster.step()
        cluster.now += 60.0
        assert cluster.step() == ()
        assert diagnosed(cluster, 2) != []

    def test_counter_reset_has_no_cause(self) -> None:
        cluster = Cluster()
        for watch in cluster.watches.values():
            watch.received = watch.bytes = 0
        for one in cluster.apiservers.values():
            one.ticked, one.requests = [], {}
        assert diagnosed(cluster) == []

    def test_streams_without_windows_have_no_cause(self) -> None:
        cluster, diagnosis = Cluster(), Diagnosis()
        for watch in cluster.watches.values():
            watch.late = 5.0
        for _ in range(ENOUGH):
            cluster.step()
            snapshot = cluster.snapshot()
            streams = tuple(replace(one, track=replace(one.track, windows=())) for one in snapshot.streams)
            assert observed(diagnosis, replace(snapshot, streams=streams), cluster.now) == ()
        assert cluster.causes


class TestMonitorOverloaded:
    @pytest.mark.parametrize(("share", "confidence"), [(0.13, MEDIUM), (0.2, HIGH), (0.7, HIGH)])
    def test_taint_share_names_monitor_overloaded(self, share: float, confidence: Confidence) -> None:
        cluster = Cluster()
        cluster.taints = share
        assert diagnosed(cluster) == [(Cause.MONITOR_OVERLOADED, None, None, confidence)]

    def test_short_lag_names_no_cause(self) -> None:
        cluster = Cluster()
        cluster.taints = 0.08
        assert diagnosed(cluster) == []

    def test_overload_lowers_confidence_of_other_causes(self) -> None:
        cluster = Cluster()
        cluster.taints = 0.3
        late_to_cache(cluster, "a:1", 0.4)
        assert diagnosed(cluster) == [
            (Cause.MONITOR_OVERLOADED, None, None, HIGH),
            (Cause.CACHE_BEHIND, "a:1", None, LOW),
        ]


class TestStorageSlow:
    @pytest.mark.parametrize("seconds", STRENGTHS)
    def test_slow_ticks_at_all_apiservers_name_storage_slow(self, seconds: float) -> None:
        cluster = Cluster()
        for name in cluster.apiservers:
            late_to_cache(cluster, name, seconds)
        for watch in cluster.watches.values():
            watch.behind = 0.0
        assert diagnosed(cluster) == [(Cause.STORAGE_SLOW, None, None, HIGH)]

    def test_slow_ticks_without_late_watches_name_storage_slow(self) -> None:
        cluster = Cluster()
        for one in cluster.apiservers.values():
            one.ticks(0.4)
        assert diagnosed(cluster) == [(Cause.STORAGE_SLOW, None, None, MEDIUM)]
        for watch in cluster.watches.values():
            watch.cache_trip = 0.002
        assert diagnosed(cluster) == [(Cause.STORAGE_SLOW, None, None, HIGH)]

    def test_slow_cache_reads_exclude_storage_slow(self) -> None:
        cluster = Cluster()
        for one in cluster.apiservers.values():
            one.ticks(0.4)
        for watch in cluster.watches.values():
            watch.cache_trip = 0.4
        assert diagnosed(cluster) == []

    def test_unreachable_etcd_names_storage_slow(self) -> None:
        cluster = Cluster()
        for one in cluster.apiservers.values():
            one.silence(20.0, ("probe_cache", "200"), ("tick", "504"))
        assert diagnosed(cluster) == [(Cause.STORAGE_SLOW, None, None, HIGH)]

    @pytest.mark.parametrize("code", ["401", "403"])
    @pytest.mark.parametrize("seconds", [20.0, -1.0])
    def test_denied_ticks_name_no_cause(self, code: str, seconds: float) -> None:
        cluster = Cluster("service")
        cluster.apiservers["service"].silence(seconds, ("tick", code))
        assert diagnosed(cluster) == []

    def test_ticks_that_wait_for_a_retry_after_name_no_cause(self) -> None:
        """What was not asked cannot be unanswered."""
        cluster = Cluster("service")
        cluster.apiservers["service"].silence(10.0)
        cluster.apiservers["service"].requests["tick", "429"] = 1
        assert diagnosed(cluster, 3) == []

    def test_late_storage_hop_with_prompt_ticks_names_storage_slow(self) -> None:
        cluster = Cluster()
        for watch in cluster.watches.values():
            watch.late = watch.storage = 0.4
        assert diagnosed(cluster) == [(Cause.STORAGE_SLOW, None, None, MEDIUM)]

    @pytest.mark.parametrize(("trip", "confidence"), [(None, LOW), (0.001, MEDIUM)])
    def test_single_apiserver_lowers_confidence(self, trip: float | None, confidence: Confidence) -> None:
        cluster = Cluster("service")
        cluster.apiservers["service"].ticks(0.4)
        for watch in cluster.watches.values():
            watch.cache_trip = trip
        assert diagnosed(cluster) == [(Cause.STORAGE_SLOW, None, None, confidence)]

    def test_single_apiserver_with_prompt_ticks_names_storage_slow(self) -> None:
        cluster = Cluster("service")
        for watch in cluster.watches.values():
            watch.late = watch.storage = 0.4
        assert diagnosed(cluster) == [(Cause.STORAGE_SLOW, None, None, MEDIUM)]


class TestCacheBehind:
    @pytest.mark.parametrize("seconds", STRENGTHS)
    def test_late_storage_hop_and_slow_ticks_name_cache_behind(self, seconds: float) -> None:
        cluster = Cluster()
        late_to_cache(cluster, "b:1", seconds)
        assert diagnosed(cluster) == [(Cause.CACHE_BEHIND, "b:1", None, HIGH)]

    def test_cache_probe_of_one_watch_is_enough(self) -> None:
        cluster = Cluster()
        late_to_cache(cluster, "b:1", 0.4)
        for watch in cluster.at("b:1")[1:]:
            watch.storage = watch.client = watch.cache_trip = None
        assert diagnosed(cluster) == [(Cause.CACHE_BEHIND, "b:1", None, HIGH)]

    def test_evidence_states_figures(self) -> None:
        cluster = Cluster()
        late_to_cache(cluster, "b:1", 0.31)
        (cause,) = cluster.step(ENOUGH)
        assert cause.evidence == (
            "The watch cache of b:1 is behind storage: pods 0.31 s late (P50); 4 ms at the other apiservers; "
            "ticks take 1.7 ms (a:1), 0.31 s (b:1), 1.7 ms (c:1)."
        )
        assert cause.next.startswith("Check the connection from b:1 to etcd")
        assert cause.since_wall == 1_700_000_000.0 + cluster.now - 5.0 * (ENOUGH - 1)

    def test_unanswered_ticks_and_old_caches_name_cache_behind(self) -> None:
        cluster = Cluster()
        cluster.apiservers["a:1"].silence(12.0, ("probe_cache", "200"))
        for watch in cluster.at("a:1"):
            watch.events, watch.behind, watch.cache_behind = 0, 12.0, Interval(11.5, 12.5)
        assert diagnosed(cluster) == [(Cause.CACHE_BEHIND, "a:1", None, HIGH)]

    def test_failing_ticks_alone_give_medium_confidence(self) -> None:
        cluster = Cluster()
        cluster.apiservers["a:1"].silence(12.0, ("tick", "500"))
        assert diagnosed(cluster) == [(Cause.CACHE_BEHIND, "a:1", None, MEDIUM)]

    def test_frozen_caches_of_all_watches_name_cache_behind(self) -> None:
        cluster = Cluster()
        for watch in cluster.at("a:1"):
            watch.events, watch.audit, watch.stalled = 0, AuditResult.FROZEN, 20.0
        assert diagnosed(cluster) == [(Cause.CACHE_BEHIND, "a:1", None, MEDIUM)]

    def test_late_storage_hop_of_one_watch_names_that_watch(self) -> None:
        cluster = Cluster()
        watch = cluster["a:1", "pods"]
        watch.late = watch.storage = 0.4
        assert diagnosed(cluster) == [(Cause.CACHE_BEHIND, "a:1", "pods", MEDIUM)]


class TestApiserverSending:
    @pytest.mark.parametrize("seconds", STRENGTHS)
    def test_late_cache_reads_name_apiserver_sending(self, seconds: float) -> None:
        cluster = Cluster()
        late_to_client(cluster, "b:1", seconds)
        assert diagnosed(cluster) == [(Cause.APISERVER_SENDING, "b:1", None, HIGH)]
        assert cluster.causes[0].evidence.startswith("b:1 answers everything late: "), (
            "the state of its cache is unknown"
        )

    def test_late_client_hop_names_apiserver_sending(self) -> None:
        cluster = Cluster()
        for watch in cluster.at("c:1"):
            watch.late = watch.client = 0.4
            watch.storage = watch.cache_trip = 0.001
        assert diagnosed(cluster) == [(Cause.APISERVER_SENDING, "c:1", None, MEDIUM)]
        assert "although its cache is current" in cluster.causes[0].evidence

    def test_silent_apiserver_names_apiserver_sending(self) -> None:
        cluster = Cluster()
        cluster.apiservers["a:1"].silence(12.0)
        cluster.apiservers["a:1"].answers = {("tick", "timeout"): 1}
        for watch in cluster.at("a:1"):
            watch.events, watch.behind = 0, 12.0
        assert diagnosed(cluster) == [(Cause.APISERVER_SENDING, "a:1", None, HIGH)]

    def test_silent_single_apiserver_gives_medium_confidence(self) -> None:
        cluster = Cluster("service")
        cluster.apiservers["service"].silence(12.0)
        for watch in cluster.watches.values():
            watch.events = 0
        assert diagnosed(cluster) == [(Cause.APISERVER_SENDING, "service", None, MEDIUM)]

    def test_answering_apiserver_without_events_names_apiserver_sending(self) -> None:
        cluster = Cluster()
        for watch in cluster.at("a:1"):
            watch.events, watch.behind = 0, 12.0
        assert diagnosed(cluster) == [(Cause.APISERVER_SENDING, "a:1", None, MEDIUM)]

    def test_apiserver_that_never_answered_names_apiserver_sending(self) -> None:
        cluster = Cluster()
        cluster.apiservers["a:1"].silence(-1.0)
        for watch in cluster.at("a:1"):
            watch.events, watch.up = 0, False
        assert diagnosed(cluster) == [(Cause.APISERVER_SENDING, "a:1", None, MEDIUM)]

    def test_cause_ends_when_the_apiserver_is_removed(self) -> None:
        cluster = Cluster()
        cluster.apiservers["a:1"].silence(12.0)
        for watch in cluster.at("a:1"):
            watch.events = 0
        assert diagnosed(cluster) != []
        cluster.remove("a:1")
        cluster.add("d:1")
        assert diagnosed(cluster, 1) == []
        assert diagnosed(cluster) == []

    def test_single_apiserver_gives_medium_confidence(self) -> None:
        """Its answers are prompt, which excludes the network."""
        cluster = Cluster("service")
        for watch in cluster.watches.values():
            watch.late = watch.client = 0.4
            watch.storage = watch.cache_trip = 0.001
        assert diagnosed(cluster) == [(Cause.APISERVER_SENDING, "service", None, MEDIUM)]

    def test_prompt_ticks_exclude_the_network(self) -> None:
        cluster = Cluster("service")
        late_to_client(cluster, "service", 0.4)
        cluster.apiservers["service"].ticks(TICK_SECONDS)
        assert diagnosed(cluster) == [(Cause.APISERVER_SENDING, "service", None, MEDIUM)]

    def test_erratic_ticks_exclude_the_network(self) -> None:
        cluster = Cluster("service")
        late_to_client(cluster, "service", 0.4)
        cluster.apiservers["service"].trips = (0.02, 0.25, 0.4, 0.9)
        assert diagnosed(cluster) == [(Cause.APISERVER_SENDING, "service", None, MEDIUM)]

    def test_late_client_hop_of_one_watch_names_that_watch(self) -> None:
        cluster = Cluster()
        watch = cluster["a:1", "pods"]
        watch.late = watch.client = 0.4
        watch.storage = 0.001
        assert diagnosed(cluster) == [(Cause.APISERVER_SENDING, "a:1", "pods", MEDIUM)]


class TestSlowPath:
    """All that an apiserver sends is late alike: the network does that, so the apiserver is blamed only if compared."""

    @pytest.mark.parametrize("seconds", STRENGTHS)
    @pytest.mark.parametrize("watches", [("pods",), ("pods", "leases", "nodes")])
    def test_is_named_at_a_single_apiserver(self, seconds: float, watches: tuple[str, ...]) -> None:
        """The delay is there from the start, as for `check`: no tick was ever faster."""
        cluster = Cluster("service", watches=watches)
        cluster.apiservers["service"].ticked, cluster.diagnosis = [], Diagnosis()
        late_to_client(cluster, "service", seconds)
        assert diagnosed(cluster) == [(Cause.BANDWIDTH, "service", None, LOW)]
        assert cluster.causes[0].evidence == (
            f"The network to service is slow, or service itself: all that it sends is late by about the same time; "
            f"pods {seconds:g} s late (P50); ticks take {seconds:g} s (service)."
        )

    def test_is_named_if_witnesses_are_as_slow(self) -> None:
        cluster = daemonset()
        for name in cluster.apiservers:
            late_to_client(cluster, name, 0.4)
        assert diagnosed(cluster) == [(Cause.BANDWIDTH, "a:1", None, LOW)]

    def test_is_certain_if_the_round_trip_shows_it(self) -> None:
        cluster = Cluster("service")
        late_to_client(cluster, "service", 0.4)
        for watch in cluster.watches.values():
            watch.transport = TransportReading(0.39, 0, 0.1)
        assert diagnosed(cluster) == [(Cause.BANDWIDTH, "service", None, MEDIUM)]


class TestOnlyResource:
    """Without another resource in time, nothing shows that one is special."""

    @pytest.mark.parametrize(
        ("hops", "where"), [({"storage": 0.4}, "before"), ({"storage": 0.001, "client": 0.4}, "after")]
    )
    @pytest.mark.parametrize(("names", "at"), [(("service",), "the apiserver"), (("a:1", "b:1"), "all apiservers")])
    def test_is_not_blamed(self, hops: dict[str, float], where: str, names: tuple[str, ...], at: str) -> None:
        cluster = Cluster(*names, watches=("pods",))
        for watch in cluster.watches.values():
            watch.late = 0.4
            for hop, seconds in hops.items():
                setattr(watch, hop, seconds)
        subject = names[0] if len(names) == 1 else None
        assert diagnosed(cluster) == [(Cause.UNKNOWN, subject, "pods", LOW)]
        assert cluster.causes[0].evidence.startswith(
            f"pods 0.4 s late (P50) at {at}, {where} the watch cache; no other watched resource shows whether only "
            "pods is late; ticks take "
        )

    def test_is_blamed_as_soon_as_another_one_is_in_time(self) -> None:
        cluster = Cluster("service")
        watch = cluster["service", "pods"]
        watch.late, watch.storage, watch.client = 0.4, 0.001, 0.4
        for name in ("leases", "nodes"):
            cluster["service", name].events = 0
        assert diagnosed(cluster, 8) == [(Cause.UNKNOWN, "service", "pods", LOW)]
        cluster["service", "nodes"].events = 100
        assert diagnosed(cluster, 8) == [(Cause.RESOURCE_FANOUT, "service", "pods", MEDIUM)]


class TestWholeObjects:
    """Only clients that need whole objects get them late."""

    def test_are_named_where_their_events_are_in_time(self) -> None:
        cluster = Cluster("service")
        cluster["service", "pods"].whole = 0.4
        assert diagnosed(cluster) == [(Cause.RESOURCE_FANOUT, "service", "pods", MEDIUM)]
        assert cluster.causes[0].evidence == (
            "Whole objects of pods at service arrive 0.4 s later than their events (P50)."
        )
        assert "of pods are" in cluster.causes[0].next

    def test_at_all_apiservers_are_named_without_one(self) -> None:
        cluster = Cluster()
        for watch in cluster.of("pods"):
            watch.whole = 0.4
        assert diagnosed(cluster) == [(Cause.RESOURCE_FANOUT, None, "pods", MEDIUM)]
        assert cluster.causes[0].evidence.startswith("Whole objects of pods at a:1, b:1 and c:1 arrive")

    def test_at_one_apiserver_are_named_with_it(self) -> None:
        cluster = Cluster()
        for watch in cluster.of("pods"):
            watch.whole = 0.01
        cluster["b:1", "pods"].whole = 0.4
        assert diagnosed(cluster) == [(Cause.RESOURCE_FANOUT, "b:1", "pods", MEDIUM)]

    def test_that_are_withheld_are_named(self) -> None:
        cluster = Cluster("service")
        cluster["service", "pods"].withheld = 12.0
        assert diagnosed(cluster) == [(Cause.RESOURCE_FANOUT, "service", "pods", MEDIUM)]
        assert "arrive 12 s later than their events (at least)" in cluster.causes[0].evidence

    def test_are_not_named_if_they_are_hardly_later(self) -> None:
        cluster = Cluster("service")
        cluster["service", "pods"].whole, cluster["service", "pods"].withheld = 0.1, 0.5
        assert diagnosed(cluster) == []

    def test_are_not_named_while_their_events_are_late_too(self) -> None:
        cluster = Cluster("service")
        watch = cluster["service", "pods"]
        watch.whole, watch.late, watch.storage, watch.client = 0.4, 0.4, 0.4, 0.001
        assert diagnosed(cluster) == [(Cause.RESOURCE_DECODING, "service", "pods", MEDIUM)]

    def test_of_too_few_events_are_not_named(self) -> None:
        cluster = Cluster("service")
        watch = cluster["service", "pods"]
        watch.whole, watch.events, watch.minute = 0.4, 5, 15
        assert diagnosed(cluster) == []


ONE_RESOURCE: list[tuple[Cause, Callable[[float], dict[str, float]]]] = [
    (Cause.RESOURCE_DECODING, lambda seconds: {"storage": seconds, "client": 0.001}),
    (Cause.RESOURCE_FANOUT, lambda seconds: {"storage": 0.001, "client": seconds}),
]


@pytest.mark.parametrize(("cause", "hops"), ONE_RESOURCE)
class TestOneResource:
    @pytest.mark.parametrize("seconds", STRENGTHS)
    def test_late_hop_at_all_apiservers_names_the_resource(
        self, cause: Cause, hops: Callable[[float], dict[str, float]], seconds: float
    ) -> None:
        cluster = Cluster()
        for watch in cluster.of("pods"):
            watch.late, watch.storage, watch.client = seconds, hops(seconds)["storage"], hops(seconds)["client"]
        assert diagnosed(cluster) == [(cause, None, "pods", HIGH)]

    def test_no_other_resource_at_some_apiservers_lowers_confidence(
        self, cause: Cause, hops: Callable[[float], dict[str, float]]
    ) -> None:
        cluster = Cluster()
        for watch in cluster.of("pods"):
            watch.late, watch.storage, watch.client = 0.4, hops(0.4)["storage"], hops(0.4)["client"]
        for name in ("leases", "nodes"):
            cluster["a:1", name].events = 0
        assert diagnosed(cluster, 8) == [(cause, None, "pods", MEDIUM)]

    def test_unresolved_latency_of_other_resources_counts_as_healthy(
        self, cause: Cause, hops: Callable[[float], dict[str, float]]
    ) -> None:
        cluster = Cluster()
        for watch in cluster.watches.values():
            watch.resolved = False
        for watch in cluster.of("pods"):
            watch.resolved, watch.late = True, 0.4
            watch.storage, watch.client = hops(0.4)["storage"], hops(0.4)["client"]
        assert diagnosed(cluster) == [(cause, None, "pods", HIGH)]

    def test_single_apiserver_gives_medium_confidence(
        self, cause: Cause, hops: Callable[[float], dict[str, float]]
    ) -> None:
        cluster = Cluster("service")
        (watch,) = cluster.of("pods")
        watch.late, watch.storage, watch.client = 0.4, hops(0.4)["storage"], hops(0.4)["client"]
        assert diagnosed(cluster) == [(cause, "service", "pods", MEDIUM)]


def throttled(cluster: Cluster, apiserver: str, events: int = 10) -> None:
    for watch in cluster.at(apiserver):
        watch.events, watch.late, watch.behind = events, 4.0, 9.0
        watch.client, watch.cache_trip = 4.0, 0.01


class TestBandwidth:
    @pytest.mark.parametrize("events", [5, 30, 70])
    def test_fewer_events_than_peers_name_bandwidth(self, events: int) -> None:
        cluster = Cluster()
        throttled(cluster, "c:1", events)
        confidence = HIGH if 300 * events >= 1000 else MEDIUM
        assert diagnosed(cluster) == [(Cause.BANDWIDTH, "c:1", None, confidence)]

    def test_as_many_late_events_as_peers_exclude_bandwidth(self) -> None:
        cluster = Cluster()
        throttled(cluster, "c:1", 95)
        assert diagnosed(cluster) == [(Cause.APISERVER_SENDING, "c:1", None, MEDIUM)]

    def test_fewer_events_in_first_step_of_a_delay_exclude_bandwidth(self) -> None:
        cluster = Cluster()
        throttled(cluster, "c:1", 40)
        cluster.step()
        for watch in cluster.at("c:1"):
            watch.events = 100
        assert diagnosed(cluster) == [(Cause.APISERVER_SENDING, "c:1", None, MEDIUM)]

    def test_growing_delay_at_single_apiserver_names_bandwidth(self) -> None:
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

    def test_slow_tcp_round_trip_names_bandwidth(self) -> None:
        cluster = Cluster("service")
        for watch in cluster.watches.values():
            watch.late, watch.transport = 0.3, TransportReading(0.25, 9, 0.1)
        assert diagnosed(cluster) == [(Cause.BANDWIDTH, "service", None, MEDIUM)]

    def test_slow_consumer_closes_of_late_watches_name_bandwidth(self) -> None:
        cluster = Cluster("service")
        cluster["service", "pods"].slow_consumer += 1
        assert diagnosed(cluster) == []
        cluster["service", "nodes"].late = 0.5
        for _ in range(ENOUGH):
            cluster["service", "pods"].slow_consumer += 1
            cluster.step()
        assert [(one.cause, one.apiserver) for one in cluster.causes] == [(Cause.BANDWIDTH, "service")]

    def test_late_client_hop_at_all_apiservers_names_bandwidth(self) -> None:
        cluster = Cluster()
        for name in cluster.apiservers:
            late_to_client(cluster, name, 0.4)
        for watch in cluster.watches.values():
            watch.behind = 0.0
        assert diagnosed(cluster) == [(Cause.BANDWIDTH, None, None, MEDIUM)]

    def test_no_answer_from_any_apiserver_names_bandwidth(self) -> None:
        cluster = Cluster()
        for one in cluster.apiservers.values():
            one.silence(12.0)
        for watch in cluster.watches.values():
            watch.events = 0
        assert diagnosed(cluster) == [(Cause.BANDWIDTH, None, None, MEDIUM)]


class TestRelistStorm:
    @pytest.mark.parametrize("names", [("a:1",), ("a:1", "b:1")])
    def test_refused_requests_name_relist_storm(self, names: tuple[str, ...]) -> None:
        cluster = Cluster()
        for name in names:
            cluster.apiservers[name].answers = {("tick", "200"): 3, ("list", "429"): 2}
        named = names[0] if len(names) == 1 else None
        assert diagnosed(cluster) == [(Cause.RELIST_STORM, named, None, MEDIUM)]

    @pytest.mark.parametrize("trips", [(0.002, 0.003, 0.3, 0.8), (0.3, 0.4, 0.8, 0.9)])
    def test_scattered_delays_name_relist_storm(self, trips: tuple[float, ...]) -> None:
        cluster = Cluster()
        late_to_client(cluster, "a:1", 0.4)
        cluster.apiservers["a:1"].trips = trips
        cluster["a:1", "nodes"].cache_behind = Interval(0.3, 0.5)
        for watch in cluster.at("a:1"):
            watch.spread = 2.0
        assert diagnosed(cluster) == [(Cause.RELIST_STORM, "a:1", None, MEDIUM)]

    def test_one_late_watch_among_scattered_ones_names_relist_storm(self) -> None:
        """Seen with a hundred clients listing secrets: secrets were late, and of other resources every tenth event."""
        cluster = Cluster()
        cluster.apiservers["a:1"].trips = (0.05, 0.1, 0.3, 0.8)
        for watch in cluster.at("a:1"):
            watch.late, watch.spread = 0.1, 3.5
        late = cluster["a:1", "leases"]
        late.late, late.spread, late.storage = 0.5, 1.4, 0.5
        assert diagnosed(cluster) == [(Cause.RELIST_STORM, "a:1", None, MEDIUM)]

    def test_fewer_events_than_peers_exclude_relist_storm(self) -> None:
        cluster = Cluster()
        late_to_client(cluster, "a:1", 3.0)
        cluster.apiservers["a:1"].trips = (0.3, 0.4, 0.8, 0.9)
        for watch in cluster.at("a:1"):
            watch.spread, watch.events = 2.0, 20
        assert [cause for cause, *_ in diagnosed(cluster)] == [Cause.BANDWIDTH]

    def test_equal_delay_of_all_events_excludes_relist_storm(self) -> None:
        cluster = Cluster()
        late_to_client(cluster, "a:1", 0.4)
        cluster.apiservers["a:1"].trips = (0.002, 0.003, 0.3, 0.8)
        assert diagnosed(cluster) == [(Cause.APISERVER_SENDING, "a:1", None, MEDIUM)]

    def test_single_429_names_no_cause(self) -> None:
        cluster = Cluster()
        cluster.apiservers["a:1"].requests["list", "429"] = 1
        assert diagnosed(cluster) == []


class TestHistoryShort:
    def test_list_longer_than_headroom_names_history_short(self) -> None:
        cluster = Cluster()
        for watch in cluster.of("pods"):
            watch.headroom = replace(HEADROOM, seconds=Interval(9.0, 12.0), list_seconds=20.0)
        (cause,) = cluster.step(ENOUGH)
        assert (cause.cause, cause.apiserver, cause.watch, cause.confidence) == (
            Cause.HISTORY_SHORT,
            None,
            "pods",
            HIGH,
        )
        assert cause.evidence == "A client of pods gets a 410 after 12 s without a watch, and a full list takes 20 s."

    def test_estimated_list_time_gives_medium_confidence(self) -> None:
        cluster = Cluster("service")
        (watch,) = cluster.of("pods")
        watch.headroom = replace(HEADROOM, seconds=Interval(9.0, 12.0), list_seconds=20.0, list_measured=False)
        assert diagnosed(cluster) == [(Cause.HISTORY_SHORT, "service", "pods", MEDIUM)]

    def test_longer_headroom_elsewhere_names_the_apiserver(self) -> None:
        cluster = Cluster()
        cluster["a:1", "pods"].headroom = replace(HEADROOM, seconds=Interval(9.0, 12.0), list_seconds=20.0)
        cluster["b:1", "pods"].headroom = HEADROOM
        assert diagnosed(cluster) == [(Cause.HISTORY_SHORT, "a:1", "pods", HIGH)]

    def test_two_410s_name_history_short(self) -> None:
        cluster = Cluster("service")
        cluster["service", "pods"].expired = 1
        assert diagnosed(cluster) == []
        cluster["service", "pods"].expired = 2
        assert diagnosed(cluster, 2) == [(Cause.HISTORY_SHORT, "service", "pods", MEDIUM)]

    def test_history_short_ends_without_new_410s(self) -> None:
        cluster = Cluster("service")
        cluster.step(2)
        cluster["service", "pods"].expired = 2
        assert diagnosed(cluster, 2) == [(Cause.HISTORY_SHORT, "service", "pods", MEDIUM)]
        assert diagnosed(cluster, 6) == []

    def test_history_short_explains_no_delay(self) -> None:
        cluster = Cluster()
        late_to_cache(cluster, "b:1", 0.4)
        cluster["b:1", "pods"].headroom = replace(HEADROOM, seconds=Interval(9.0, 12.0), list_seconds=20.0)
        assert {cause for cause, *_ in diagnosed(cluster)} == {Cause.CACHE_BEHIND, Cause.HISTORY_SHORT}


class TestWritePath:
    @pytest.mark.parametrize(("seconds", "confidence"), [(0.4, MEDIUM), (0.8, HIGH), (3.0, HIGH)])
    def test_late_creation_hop_names_write_path(self, seconds: float, confidence: Confidence) -> None:
        cluster = Cluster()
        for watch in cluster.of("pods"):
            watch.creation = seconds
        for watch in cluster.of("nodes"):
            watch.creation = 0.05
        assert diagnosed(cluster) == [(Cause.WRITE_PATH, None, "pods", confidence)]

    def test_slow_writes_of_all_resources_name_no_watch(self) -> None:
        cluster = Cluster("service")
        for watch in cluster.watches.values():
            watch.creation = 0.8
        assert diagnosed(cluster) == [(Cause.WRITE_PATH, None, None, HIGH)]

    def test_few_creations_name_no_cause(self) -> None:
        cluster = Cluster("service")
        for watch in cluster.watches.values():
            watch.creation, watch.creations, watch.minute = 0.8, 3, 12
        assert diagnosed(cluster) == []

    def test_slow_storage_excludes_write_path(self) -> None:
        cluster = Cluster()
        for name in cluster.apiservers:
            late_to_cache(cluster, name, 0.4)
        for watch in cluster.of("pods"):
            watch.creation = 0.5
        assert diagnosed(cluster) == [(Cause.STORAGE_SLOW, None, None, HIGH)]

    def test_another_cause_lowers_confidence_of_write_path(self) -> None:
        cluster = Cluster()
        late_to_cache(cluster, "a:1", 0.4)
        for watch in cluster.of("pods"):
            watch.creation = 0.8
        assert (Cause.WRITE_PATH, None, "pods", MEDIUM) in diagnosed(cluster)


class TestStalledStream:
    def test_silent_watch_behind_a_peer_names_stalled_stream(self) -> None:
        cluster = Cluster()
        watch = cluster["a:1", "pods"]
        watch.events, watch.behind = 0, 8.0
        assert diagnosed(cluster) == [(Cause.STALLED_STREAM, "a:1", "pods", HIGH)]

    @pytest.mark.parametrize("verdict", [AuditResult.STALLED, AuditResult.FROZEN])
    def test_audit_result_names_stalled_stream(self, verdict: AuditResult) -> None:
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
        assert ("frozen" in cause.evidence) == (verdict is AuditResult.FROZEN)

    def test_watch_silent_at_all_apiservers_names_no_apiserver(self) -> None:
        cluster = Cluster()
        for watch in cluster.of("pods"):
            watch.events = 0
        cluster["a:1", "pods"].stalled, cluster["a:1", "pods"].audit = 20.0, AuditResult.FROZEN
        assert diagnosed(cluster) == [(Cause.STALLED_STREAM, None, "pods", HIGH)]

    def test_no_other_watch_lowers_confidence(self) -> None:
        cluster = Cluster("service", watches=("pods",))
        watch = cluster["service", "pods"]
        watch.events, watch.stalled, watch.audit = 0, 20.0, AuditResult.STALLED
        assert diagnosed(cluster) == [(Cause.STALLED_STREAM, "service", "pods", MEDIUM)]

    def test_reopened_watch_names_stalled_stream_for_a_while(self) -> None:
        cluster = Cluster()
        watch = cluster["a:1", "pods"]
        watch.events, watch.behind = 0, 5.0
        cluster.step()
        watch.events, watch.behind, watch.stalls = 200, 0.0, 1
        assert diagnosed(cluster, 3) == [(Cause.STALLED_STREAM, "a:1", "pods", MEDIUM)]
        assert "reopened the watch" in cluster.causes[0].evidence
        assert diagnosed(cluster, 8) == []

    def test_stalls_of_all_watches_of_an_apiserver_exclude_stalled_stream(self) -> None:
        cluster = Cluster()
        for watch in cluster.at("a:1"):
            watch.stalls += 1
        assert diagnosed(cluster) == []

    def test_backlog_after_a_stall_names_no_other_cause(self) -> None:
        cluster = Cluster()
        watch = cluster["a:1", "pods"]
        watch.events, watch.behind = 0, 20.0
        cluster.step(4)
        watch.events, watch.behind, watch.late, watch.client = 500, 0.0, 15.0, 15.0
        assert {one.cause for one in cluster.step(2)} == {Cause.STALLED_STREAM}
        assert cluster.step(1) == ()


class TestParkedWatch:
    def test_watch_that_catches_up_again_and_again_names_parked_watch(self) -> None:
        cluster = Cluster("service")
        watch = cluster["service", "pods"]
        watch.catches_up, watch.late, watch.spread = 1, 2.0, 1.5
        assert diagnosed(cluster, 6) == [(Cause.PARKED_WATCH, "service", "pods", LOW)]
        assert "paused and caught up" in cluster.causes[0].evidence
        watch.catches_up, watch.late = 0, WELL_SECONDS
        assert diagnosed(cluster, 10) == []

    def test_watches_that_catch_up_together_exclude_parked_watch(self) -> None:
        cluster = Cluster("service")
        for watch in cluster.at("service"):
            watch.catches_up, watch.late = 1, 2.0
        assert Cause.PARKED_WATCH not in {cause for cause, *_ in diagnosed(cluster, 6)}

    def test_without_a_prompt_watch_at_the_apiserver_parked_watch_is_not_named(self) -> None:
        cluster = Cluster("service", watches=("pods",))
        watch = cluster["service", "pods"]
        watch.catches_up, watch.late = 1, 2.0
        assert Cause.PARKED_WATCH not in {cause for cause, *_ in diagnosed(cluster, 6)}

    def test_watch_whose_cache_is_late_is_not_parked(self) -> None:
        cluster = Cluster("service")
        watch = cluster["service", "pods"]
        watch.catches_up, watch.late, watch.storage, watch.client = 1, 2.0, 2.0, 0.001
        assert Cause.PARKED_WATCH not in {cause for cause, *_ in diagnosed(cluster, 6)}

    def test_slow_apiserver_excludes_parked_watch(self) -> None:
        cluster = Cluster("service")
        cluster["service", "pods"].catches_up = 1
        cluster.apiservers["service"].trips = (2.0,) * 10
        assert Cause.PARKED_WATCH not in {cause for cause, *_ in diagnosed(cluster, 6)}


class TestUnknown:
    def test_late_watch_without_evidence_names_unknown(self) -> None:
        cluster = Cluster()
        cluster["a:1", "pods"].late = 0.5
        assert diagnosed(cluster) == [(Cause.UNKNOWN, None, None, LOW)]

    @pytest.mark.parametrize(("now", "found"), [(2.0, True), (0.004, False)])
    def test_delay_only_in_longer_window_names_no_cause(self, now: float, *, found: bool) -> None:
        cluster = Cluster("service")
        for watch in cluster.watches.values():
            watch.late, watch.earlier, watch.events, watch.minute = now, 2.0, 10, 130
            watch.spread = 1.0
        assert bool(diagnosed(cluster)) is found

    @pytest.mark.parametrize(("spread", "events", "found"), [(200.0, 100, True), (200.0, 3, False), (15.0, 400, False)])
    def test_late_p99_names_unknown_with_enough_events(self, spread: float, events: int, *, found: bool) -> None:
        cluster = Cluster("service")
        watch = cluster["service", "pods"]
        watch.spread, watch.events = spread, events
        assert bool(diagnosed(cluster)) == found

    def test_unknown_keeps_low_confidence(self) -> None:
        cluster = Cluster()
        cluster["a:1", "pods"].late = 0.5
        cluster.step(ENOUGH)
        cluster["a:1", "pods"].late = 0.004
        assert diagnosed(cluster, 1) == [(Cause.UNKNOWN, None, None, LOW)]

    def test_measured_hops_replace_unknown(self) -> None:
        cluster = Cluster()
        watch = cluster["a:1", "pods"]
        watch.late, watch.storage, watch.client = 0.5, 0.25, 0.25
        assert diagnosed(cluster) == [(Cause.UNKNOWN, None, None, LOW)]
        watch.storage, watch.client = 0.45, 0.05
        assert diagnosed(cluster, 4) == [(Cause.CACHE_BEHIND, "a:1", "pods", MEDIUM)]


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


class TestSlowTicks:
    """Slow ticks against other apiservers are a finding by themselves: clients that read wait as long."""

    @pytest.mark.parametrize(
        ("cache_trip", "expected"),
        [
            (0.002, (Cause.CACHE_BEHIND, "a:1", None, MEDIUM)),
            (0.3, (Cause.APISERVER_SENDING, "a:1", None, MEDIUM)),
            (None, (Cause.UNKNOWN, "a:1", None, LOW)),
        ],
    )
    def test_reads_of_caches_decide_the_cause(
        self, cache_trip: float | None, expected: tuple[Cause, str | None, str | None, Confidence]
    ) -> None:
        cluster = Cluster()
        cluster.apiservers["a:1"].ticks(0.304)
        for watch in cluster.at("a:1"):
            watch.cache_trip = cache_trip
        assert diagnosed(cluster) == [expected]
        assert cluster.causes[0].evidence.endswith("ticks take 0.3 s (a:1), 1.7 ms (b:1), 1.7 ms (c:1).")

    def test_slow_answers_of_a_single_apiserver_are_not_blamed_on_it(self) -> None:
        """It, or the network to it: the delay is below what its ticks can resolve, so no watch seems late."""
        cluster = Cluster("a:1")
        cluster.apiservers["a:1"].ticks(0.304)
        for watch in cluster.at("a:1"):
            watch.cache_trip = 0.3
        assert diagnosed(cluster) == [(Cause.BANDWIDTH, "a:1", None, LOW)]

    def test_late_watch_hides_slow_ticks(self) -> None:
        cluster = Cluster()
        late_to_cache(cluster, "a:1", 0.3)
        assert diagnosed(cluster) == [(Cause.CACHE_BEHIND, "a:1", None, HIGH)]
        assert "late" in cluster.causes[0].evidence

    def test_apiserver_that_was_always_slower_is_slow_beyond_its_network(self) -> None:
        cluster = Cluster()
        cluster.apiservers["a:1"].ticked, cluster.diagnosis = [], Diagnosis()
        cluster.apiservers["a:1"].ticks(0.304)
        for watch in cluster.at("a:1"):
            watch.cache_trip, watch.transport = 0.002, TransportReading(0.3, 0, 0.1)
        assert diagnosed(cluster) == []
        for watch in cluster.at("a:1"):
            watch.transport = TransportReading(0.001, 0, 0.1)
        assert diagnosed(cluster) == [(Cause.CACHE_BEHIND, "a:1", None, MEDIUM)]


def daemonset() -> Cluster:
    """An instance of the profile control-plane: it watches its own apiserver and ticks on two others."""
    return Cluster("a:1", witnesses=("b:1", "c:1"))


class TestWitnesses:
    def test_prompt_witnesses_have_no_cause(self) -> None:
        assert diagnosed(daemonset()) == []

    @pytest.mark.parametrize("seconds", STRENGTHS)
    def test_late_storage_hop_and_slow_ticks_name_cache_behind(self, seconds: float) -> None:
        cluster = daemonset()
        late_to_cache(cluster, "a:1", seconds)
        for watch in cluster.watches.values():
            watch.behind = None
        assert diagnosed(cluster) == [(Cause.CACHE_BEHIND, "a:1", None, HIGH)]
        assert cluster.causes[0].evidence.endswith(" s (a:1), 1.7 ms (b:1), 1.7 ms (c:1).")

    @pytest.mark.parametrize("seconds", STRENGTHS)
    def test_slow_ticks_everywhere_name_storage_slow(self, seconds: float) -> None:
        cluster = daemonset()
        late_to_cache(cluster, "a:1", seconds)
        for name in ("b:1", "c:1"):
            cluster.apiservers[name].ticks(seconds)
        assert diagnosed(cluster) == [(Cause.STORAGE_SLOW, None, None, HIGH)]

    def test_slow_ticks_without_late_watches_name_cache_behind(self) -> None:
        cluster = daemonset()
        cluster.apiservers["a:1"].ticks(0.304)
        for watch in cluster.watches.values():
            watch.cache_trip = 0.002
        assert diagnosed(cluster) == [(Cause.CACHE_BEHIND, "a:1", None, MEDIUM)]

    @pytest.mark.parametrize(
        ("change", "value"), [("silent", 20.0), ("confirmed", False), ("ticking", False), ("trips", ())]
    )
    def test_witnesses_without_usable_ticks_are_no_evidence(self, change: str, value: object) -> None:
        """Witnesses out of reach must not turn one slow apiserver into slow storage with high confidence."""
        cluster = daemonset()
        for name in ("b:1", "c:1"):
            setattr(cluster.apiservers[name], change, value)
        late_to_cache(cluster, "a:1", 0.4)
        assert diagnosed(cluster) == [(Cause.STORAGE_SLOW, None, None, MEDIUM)]
        assert "b:1" not in cluster.causes[0].evidence

    def test_one_silent_witness_leaves_the_other_as_evidence(self) -> None:
        cluster = daemonset()
        cluster.apiservers["b:1"].silence(20.0)
        late_to_cache(cluster, "a:1", 0.4)
        assert diagnosed(cluster) == [(Cause.CACHE_BEHIND, "a:1", None, HIGH)]

    def test_trouble_of_a_witness_alone_has_no_cause(self) -> None:
        cluster = daemonset()
        cluster.apiservers["b:1"].ticks(0.4)
        cluster.apiservers["c:1"].silence(20.0)
        assert diagnosed(cluster) == []

    def test_slow_witness_lowers_confidence(self) -> None:
        cluster = daemonset()
        cluster.apiservers["b:1"].ticks(0.4)
        late_to_cache(cluster, "a:1", 0.4)
        assert diagnosed(cluster) == [(Cause.CACHE_BEHIND, "a:1", None, MEDIUM)]

    def test_witness_with_rare_ticks_is_evidence(self) -> None:
        """Seven apiservers tick each other once in 3.5 s: too seldom for a median of fifteen seconds."""
        cluster = daemonset()
        for name in ("b:1", "c:1"):
            cluster.apiservers[name].gap, cluster.apiservers[name].trips = 5.0, (TICK_SECONDS,)
        late_to_cache(cluster, "a:1", 0.4)
        assert diagnosed(cluster, 9) == [(Cause.CACHE_BEHIND, "a:1", None, HIGH)]

    def test_unanswered_ticks_and_old_caches_name_cache_behind(self) -> None:
        cluster = daemonset()
        cluster.apiservers["a:1"].silence(15.0, ("probe_cache", "200"), ("tick", "504"))
        for watch in cluster.watches.values():
            watch.events, watch.stalled, watch.audit = 0, 12.0, "frozen"
        assert diagnosed(cluster) == [(Cause.CACHE_BEHIND, "a:1", None, HIGH)]

    def test_silent_apiserver_names_apiserver_sending(self) -> None:
        cluster = daemonset()
        cluster.apiservers["a:1"].silence(12.0)
        cluster.apiservers["a:1"].answers = {("tick", "timeout"): 1}
        for watch in cluster.watches.values():
            watch.events = 0
        assert diagnosed(cluster) == [(Cause.APISERVER_SENDING, "a:1", None, HIGH)]
        assert cluster.causes[0].evidence.endswith("the other apiservers answer.")

    def test_silence_of_all_gives_medium_confidence(self) -> None:
        cluster = daemonset()
        for one in cluster.apiservers.values():
            one.silence(12.0)
        for watch in cluster.watches.values():
            watch.events = 0
        assert diagnosed(cluster) == [(Cause.APISERVER_SENDING, "a:1", None, MEDIUM)]

    def test_late_answers_give_medium_confidence(self) -> None:
        """No witness shows how many events there are, so full bandwidth is not excluded."""
        cluster = daemonset()
        late_to_client(cluster, "a:1", 0.4)
        assert diagnosed(cluster) == [(Cause.APISERVER_SENDING, "a:1", None, MEDIUM)]

    def test_late_storage_hop_with_prompt_ticks_names_cache_behind(self) -> None:
        cluster = daemonset()
        for watch in cluster.watches.values():
            watch.late = watch.storage = 0.4
        assert diagnosed(cluster) == [(Cause.CACHE_BEHIND, "a:1", None, MEDIUM)]

    @pytest.mark.parametrize(
        ("hops", "cause"),
        [({"storage": 0.4}, Cause.RESOURCE_DECODING), ({"client": 0.4}, Cause.RESOURCE_FANOUT)],
    )
    def test_one_late_resource_is_judged_as_at_a_single_apiserver(self, hops: dict[str, float], cause: Cause) -> None:
        """A witness has no watches to compare with."""
        cluster = daemonset()
        watch = cluster["a:1", "pods"]
        watch.late = 0.4
        for hop, seconds in hops.items():
            setattr(watch, hop, seconds)
        assert diagnosed(cluster) == [(cause, "a:1", "pods", MEDIUM)]

    def test_growing_delay_names_bandwidth(self) -> None:
        cluster = daemonset()
        for late in (0.5, 1.0, 1.5, 2.0, 2.5):
            for watch in cluster.watches.values():
                watch.late, watch.client, watch.storage = late, late, 0.001
            cluster.step()
        assert [cause.cause for cause in cluster.causes] == [Cause.BANDWIDTH]

    def test_silent_watch_names_its_apiserver(self) -> None:
        cluster = daemonset()
        watch = cluster["a:1", "pods"]
        watch.events, watch.stalled, watch.audit = 0, 9.0, "stalled"
        assert diagnosed(cluster) == [(Cause.STALLED_STREAM, "a:1", "pods", HIGH)]

    def test_list_longer_than_headroom_names_its_apiserver(self) -> None:
        cluster = daemonset()
        cluster["a:1", "pods"].headroom = replace(HEADROOM, seconds=Interval(4.0, 4.5))
        assert diagnosed(cluster) == [(Cause.HISTORY_SHORT, "a:1", "pods", HIGH)]

    def test_slow_writes_name_write_path(self) -> None:
        cluster = daemonset()
        for watch in cluster.watches.values():
            watch.creation = 0.8
        assert diagnosed(cluster) == [(Cause.WRITE_PATH, None, None, HIGH)]


class TestTime:
    @pytest.mark.parametrize("inject", FAULTS)
    def test_a_cause_is_named_within_30_seconds_and_cleared_within_60(
        self, inject: Callable[[Cluster], object]
    ) -> None:
        cluster = Cluster()
        inject(cluster)
        assert cluster.step(6)
        heal(cluster)
        assert cluster.step(OVER) == ()

    def test_cause_does_not_flap(self) -> None:
        cluster = Cluster()
        late_to_cache(cluster, "a:1", 0.4)
        (first,) = cluster.step(ENOUGH)
        for number in range(12):
            for watch in cluster.at("a:1"):
                watch.late = watch.storage = watch.behind = 0.4 if number % 3 else 0.05
            (again,) = cluster.step()
            assert replace(again, confidence=HIGH, evidence="") == replace(first, confidence=HIGH, evidence="")

    def test_confidence_rises_to_high(self) -> None:
        cluster = Cluster()
        late_to_cache(cluster, "a:1", 0.4)
        seen: list[tuple[CauseReading, ...]] = [cluster.step() for _ in range(6)]
        confidences = [causes[0].confidence for causes in seen if causes]
        assert confidences == sorted(confidences, key=list(Confidence).index)
        assert confidences[0] is MEDIUM
        assert confidences[-1] is HIGH

    def test_causes_are_ordered_by_confidence(self) -> None:
        cluster = Cluster()
        cluster["a:1", "pods"].late = 0.5
        for watch in cluster.of("nodes"):
            watch.late = watch.storage = 0.4
        assert [cause for cause, *_ in diagnosed(cluster)] == [Cause.RESOURCE_DECODING, Cause.UNKNOWN]
        assert math.isfinite(cluster.causes[0].since_wall)


class TestSentences:
    def test_apiserver_that_never_answered_reads_so_far(self) -> None:
        cluster = Cluster()
        cluster.apiservers["a:1"].silence(-1)
        for watch in cluster.at("a:1"):
            watch.events = 0
        (cause,) = cluster.step(ENOUGH)
        assert cause.evidence == "a:1 has answered no request at all so far; the other apiservers answer."

    def test_silent_watches_without_delay_state_no_delay(self) -> None:
        cluster = Cluster()
        for watch in cluster.at("a:1"):
            watch.events, watch.stalled = 0, 4.0
        (cause,) = cluster.step(ENOUGH)
        assert cause.evidence == "a:1 answers requests, but none of its watches delivers events."
