"""The catalogue of metrics: its exposition, compared with golden files, and the rules for all families."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from prometheus_client.core import Metric, Sample
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

from tests.support.collector import SnapshotCollector, points
from tests.unit.serve import readings
from watchslo.monitor.lag import LAG_EDGES
from watchslo.serve.metrics import FAMILIES, LATE_BEAT_SECONDS, Detail, Label, Type
from watchslo.serve.reference import reference
from watchslo.snapshot import CacheReading, Cause, ExcessReading, Hop, HopReading, Snapshot, StreamReading
from watchslo.watch.failure import RULES, Phase
from watchslo.watch.messages import RelistReason

Golden = Callable[[str, str], None]
DETAILS = list(Detail)
# Prometheus, its operator and kube-state-metrics attach these; ours would become `exported_…`.
TAKEN = {"job", "instance", "pod", "namespace", "container", "service", "endpoint", "node", "cluster"}


def registry(snapshot: Snapshot, detail: Detail) -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(SnapshotCollector(snapshot, detail))
    return made


def families(snapshot: Snapshot, detail: Detail) -> dict[str, Metric]:
    return {metric.name: metric for metric in registry(snapshot, detail).collect()}


def samples(snapshot: Snapshot, detail: Detail, family: str) -> dict[tuple[str, ...], float]:
    """Return the values of a family by its label values, without the labels of the watch."""
    metric = families(snapshot, detail).get(family)
    hidden = {"watch", "group", "resource", "apiserver"}
    found = metric.samples if metric else []
    return {tuple(v for k, v in sample.labels.items() if k not in hidden): sample.value for sample in found}


def with_track(**changes: object) -> Snapshot:
    stream = replace(readings.TAIL, track=replace(readings.TRACK, **changes))  # type: ignore[arg-type]
    return replace(readings.SNAPSHOT, streams=(stream,))


def all_samples(metrics: Iterable[Metric]) -> list[Sample]:
    return [sample for metric in metrics for sample in metric.samples]


@pytest.mark.parametrize("detail", DETAILS)
class TestExposition:
    def test_exposition_matches_golden_file(self, detail: Detail, golden: Golden) -> None:
        golden(f"metrics-{detail}.txt", generate_latest(registry(readings.SNAPSHOT, detail)).decode())

    def test_exposition_is_valid_openmetrics(self, detail: Detail) -> None:
        generate_openmetrics, _ = choose_encoder("application/openmetrics-text")
        text = generate_openmetrics(registry(readings.SNAPSHOT, detail)).decode()
        parsed = {family.name for family in text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]
        assert parsed == set(families(readings.SNAPSHOT, detail))

    def test_exposition_has_no_duplicate_series(self, detail: Detail) -> None:
        found = all_samples(registry(readings.SNAPSHOT, detail).collect())
        series = Counter((sample.name, *sorted(sample.labels.items())) for sample in found)
        assert series.most_common(1)[0][1] == 1

    def test_exposition_has_no_label_that_prometheus_attaches(self, detail: Detail) -> None:
        found = all_samples(registry(readings.SNAPSHOT, detail).collect())
        assert not TAKEN & {label for sample in found for label in sample.labels}

    def test_exposition_has_no_created_series(self, detail: Detail) -> None:
        found = all_samples(registry(readings.SNAPSHOT, detail).collect())
        assert not [sample.name for sample in found if sample.name.endswith("_created")]

    def test_exposition_without_watches_has_families_of_the_monitor_only(self, detail: Detail) -> None:
        assert {name.split("_")[1] for name in families(readings.EMPTY, detail)} <= {
            "slo",
            "loop",
            "tainted",
            "config",
            "build",
            "cause",
            "witnesses",
        }


class TestTable:
    def test_full_has_every_family(self) -> None:
        assert set(families(readings.SNAPSHOT, Detail.FULL)) == {f.name.removesuffix("_total") for f in FAMILIES}

    def test_names_follow_prometheus_conventions(self) -> None:
        for family in FAMILIES:
            assert family.name.startswith("watchslo_")
            assert family.name.endswith("_total") == (family.type is Type.COUNTER)
            assert family.help.endswith(".")

    def test_reference_matches_docs(self, golden: Golden) -> None:
        golden("../../docs/metrics.md", reference())

    @pytest.mark.parametrize("detail", DETAILS)
    def test_label_values_are_listed(self, detail: Detail) -> None:
        for family in FAMILIES:
            view = family.view(detail)
            for values, _ in points(view, readings.SNAPSHOT) if view else ():
                assert view
                assert all(map(known, view.labels, values))


def known(label: Label, value: str) -> bool:
    return not label.values or value in label.values


def series(stream: StreamReading, detail: Detail) -> int:
    """Return the number of series of a watch."""
    snapshot = replace(readings.SNAPSHOT, streams=(stream,), causes=())
    found = all_samples(registry(snapshot, detail).collect())
    return len([sample for sample in found if sample.labels.get("watch") == stream.watch])


def unprobed(stream: StreamReading) -> StreamReading:
    cache = CacheReading(behind_peers=stream.cache.behind_peers)
    return replace(stream, cache=cache, headroom=None, track=readings.TRACK)


def with_hops(stream: StreamReading, hops: tuple[HopReading, ...]) -> StreamReading:
    return replace(stream, track=replace(stream.track, hops=hops))


class TestExcess:
    NAME = "watchslo_behind_fastest_seconds"

    def test_excess_of_a_resource_is_that_of_the_watch_with_most_events(self) -> None:
        few, many = ExcessReading(20, 0.5, 0.6), ExcessReading(200, 0.25, 0.375)
        named = [("some", few), ("all", many), ("others", few), ("none", None)]
        streams = tuple(replace(readings.TAIL, watch=name, behind_fastest=excess) for name, excess in named)
        shown = families(replace(readings.SNAPSHOT, streams=streams), Detail.BASIC)[self.NAME].samples
        place = {"apiserver": "service", "group": "", "resource": "pods"}
        assert [(one.labels, one.value) for one in shown] == [
            ({**place, "q": "0.5"}, 0.25),
            ({**place, "q": "0.99"}, 0.375),
        ]

    def test_excess_without_peers_is_absent(self) -> None:
        assert not samples(replace(readings.SNAPSHOT, streams=(readings.TAIL,)), Detail.FULL, self.NAME)


class TestFailedLists:
    NAME = "watchslo_lists_failed"

    @pytest.mark.parametrize("detail", [Detail.BASIC, Detail.FULL])
    def test_failed_lists_start_at_0_for_the_strategies_in_use(self, detail: Detail) -> None:
        snapshot = replace(readings.SNAPSHOT, streams=(readings.STALLED,), apiservers=(readings.SERVICE,))
        found = samples(snapshot, detail, self.NAME)
        assert found["stream", "early_eof"] == 2
        assert found["paged", "early_eof"] == 0
        assert not {("stream", "deadline"), ("stream", "superseded"), ("cache", "early_eof")} & found.keys()

    def test_tailed_watches_have_neither_fallbacks_nor_initial_events(self) -> None:
        tailed = replace(readings.SERVICE, outcomes=readings.TAIL.outcomes)
        found = families(replace(readings.SNAPSHOT, streams=(readings.TAIL,), apiservers=(tailed,)), Detail.BASIC)
        assert not {"watchslo_list_fallbacks", "watchslo_initial_events"} & found.keys()
        assert self.NAME in found


class TestCloses:
    def test_closes_have_their_reason_by_apiserver(self) -> None:
        snapshot = replace(readings.SNAPSHOT, apiservers=(readings.SERVICE,))
        found = samples(snapshot, Detail.BASIC, "watchslo_watches_closed")
        assert (found["network", "reset"], found["server", "forced"]) == (2, 0)

    def test_closes_of_an_apiserver_without_watches_are_absent(self) -> None:
        idle = replace(readings.SERVICE, outcomes=replace(readings.SERVICE.outcomes, lists={}))
        snapshot = replace(readings.SNAPSHOT, apiservers=(idle,))
        assert not samples(snapshot, Detail.BASIC, "watchslo_watches_closed")


class TestCost:
    def test_tailing_watch_has_at_most_47_series_in_basic(self) -> None:
        assert series(readings.changed(unprobed(readings.TAIL), audit={"stalled_for": 1.0}), Detail.BASIC) <= 47

    def test_watch_with_inventory_has_at_most_50_series_in_basic(self) -> None:
        worst = readings.changed(
            unprobed(readings.STALLED),
            lists={"relists": dict.fromkeys(RelistReason, 1), "expired": dict.fromkeys(Phase, 1)},
        )
        assert series(worst, Detail.BASIC) <= 50

    def test_proven_has_at_most_40_series_for_one_watch(self) -> None:
        met = readings.changed(
            readings.STALLED,
            lists={"relists": dict.fromkeys(RelistReason, 1), "expired": dict.fromkeys(Phase, 1)},
            audit={"stalled_for": 1.0},
        )
        domain = replace(readings.DOMAIN, tickers=readings.DOMAIN.tickers[:1])
        codes = {("tick", "200"): 9, ("watch", "200"): 1, ("tick", "429"): 1, ("tick", "timeout"): 1}
        apiserver = replace(readings.SERVICE, requests=codes)
        alone = replace(readings.SNAPSHOT, streams=(met,), domains=(domain,), apiservers=(apiserver,))
        assert len(all_samples(registry(alone, Detail.PROVEN).collect())) <= 40

    def test_headroom_adds_2_series(self) -> None:
        assert series(readings.TAIL, Detail.BASIC) == series(unprobed(readings.TAIL), Detail.BASIC) + 2

    def test_cache_probes_add_2_histograms_and_2_series(self) -> None:
        stalled = with_hops(readings.STALLED, readings.HOPS[:-1])
        probed = replace(stalled, headroom=None)
        histogram = len(readings.DURATION_EDGES) + 3
        more = series(probed, Detail.BASIC) - series(unprobed(readings.STALLED), Detail.BASIC)
        assert more == 2 * histogram + 2

    def test_reference_adds_a_histogram(self) -> None:
        alone = with_hops(unprobed(readings.TAIL), ())
        referenced = with_hops(alone, readings.HOPS[-1:])
        more = series(referenced, Detail.BASIC) - series(alone, Detail.BASIC)
        assert more == series(referenced, Detail.FULL) - series(alone, Detail.FULL)
        assert more == len(readings.DURATION_EDGES) + 3

    def test_100_watches_have_less_than_5000_series(self) -> None:
        tailed = replace(readings.SERVICE, outcomes=readings.TAIL.outcomes)
        snapshot = replace(readings.many(100, unprobed(readings.TAIL)), apiservers=(tailed,))
        assert len(all_samples(registry(snapshot, Detail.BASIC).collect())) < 5_000


class TestProven:
    def test_proven_does_not_change_with_estimates(self) -> None:
        estimated = replace(
            readings.TRACK,
            windows=(),
            timespan=replace(readings.TRACK.timespan, counts=(0,) * len(readings.TRACK.timespan.counts), sum=0.0),
            objective=replace(readings.TRACK.objective, windows={}),
            unresolved=7,
            creation=None,
            hops=(),
        )
        other = with_track(**{name: getattr(estimated, name) for name in estimated.__slots__})
        other = replace(other, causes=(), apiservers=tuple(replace(a, combined=None) for a in other.apiservers))
        shown = [generate_latest(registry(one, Detail.PROVEN)) for one in (with_track(), other)]
        assert shown[0] == shown[1]
        assert b"watchslo_slo_events_total" in shown[0]

    def test_proven_sums_requests_by_code(self) -> None:
        shown = families(readings.SNAPSHOT, Detail.PROVEN)["watchslo_api_requests"].samples
        counted = sum(sum(apiserver.requests.values()) for apiserver in readings.SNAPSHOT.apiservers)
        assert {key for sample in shown for key in sample.labels} == {"apiserver", "code"}
        assert sum(sample.value for sample in shown) == counted

    def test_proven_lag_has_the_tainted_bucket_only(self) -> None:
        shown = {
            (s.name, s.labels.get("le")): s.value
            for s in families(readings.SNAPSHOT, Detail.PROVEN)["watchslo_loop_lag_seconds"].samples
        }
        assert shown == {
            ("watchslo_loop_lag_seconds_bucket", "0.15"): 1001,
            ("watchslo_loop_lag_seconds_bucket", "+Inf"): 1002,
            ("watchslo_loop_lag_seconds_count", None): 1002,
            ("watchslo_loop_lag_seconds_sum", None): 0.75,
        }
        assert LATE_BEAT_SECONDS in LAG_EDGES


class TestQuantiles:
    NAME = "watchslo_apiserver_timespan_window_seconds"
    ROUGH = "watchslo_apiserver_timespan_window_rough"

    def test_basic_has_median_and_p99_of_one_minute(self) -> None:
        shown = samples(with_track(), Detail.BASIC, self.NAME)
        assert set(shown) == {
            ("0.5", "1m", "estimate"),
            ("0.99", "1m", "lower"),
            ("0.99", "1m", "estimate"),
            ("0.99", "1m", "upper"),
        }

    def test_full_has_all_quantiles_and_windows(self) -> None:
        assert len(samples(with_track(), Detail.FULL, self.NAME)) == 2 * (1 + 3 + 3)

    @pytest.mark.parametrize("detail", [Detail.BASIC, Detail.FULL])
    def test_quantiles_without_events_are_absent(self, detail: Detail) -> None:
        idle = with_track(windows=(replace(readings.window("1m", 60.0, 10), events=0),))
        assert samples(idle, detail, self.NAME) == {}
        number = samples(idle, detail, "watchslo_apiserver_timespan_window_events")
        assert number == ({("1m",): 0} if detail is Detail.FULL else {})

    @pytest.mark.parametrize("rough", [False, True])
    def test_rough_says_whether_p99_is_rough(self, *, rough: bool) -> None:
        window = readings.window("1m", 60.0, 120)
        p99 = replace(window.quantiles[-1], rough=rough)
        shown = with_track(windows=(replace(window, quantiles=(*window.quantiles[:-1], p99)),))
        assert samples(shown, Detail.FULL, self.ROUGH) == {("1m",): rough}
        unresolved = replace(window, quantiles=(replace(p99, resolved=False),))
        assert samples(with_track(windows=(unresolved,)), Detail.FULL, self.ROUGH) == {}

    def test_unresolved_estimate_is_absent_and_its_proven_bounds_are_not(self) -> None:
        window = readings.window("1m", 60.0, 9)
        unresolved = replace(window, quantiles=tuple(replace(one, resolved=False) for one in window.quantiles))
        shown = samples(with_track(windows=(unresolved,)), Detail.BASIC, self.NAME)
        p99 = window.quantiles[-1]
        assert shown == {("0.99", "1m", "lower"): p99.lower, ("0.99", "1m", "upper"): p99.upper}


class TestCounters:
    def test_counters_exist_with_zero(self) -> None:
        fresh = replace(readings.SNAPSHOT, streams=(readings.IDLE,))
        changes = dict.fromkeys([("added",), ("modified",), ("deleted",)], 0)
        assert samples(fresh, Detail.BASIC, "watchslo_watch_events") == changes
        assert samples(fresh, Detail.FULL, "watchslo_watch_events") == {**changes, ("error",): 0}
        assert samples(fresh, Detail.BASIC, "watchslo_slo_events") == dict.fromkeys(
            [("within",), ("beyond",), ("uncertain",)], 0
        )
        assert samples(fresh, Detail.BASIC, "watchslo_unmeasured_events") == {(): 0}
        assert len(samples(fresh, Detail.FULL, "watchslo_unmeasured_events")) == 8
        assert len(samples(fresh, Detail.FULL, "watchslo_watches_closed")) == len(RULES)
        for family in ("gap_seconds", "stalls"):
            assert set(samples(replace(fresh, streams=(readings.TAIL,)), Detail.BASIC, f"watchslo_{family}")) == {()}
        for family in ("checked", "violations"):
            counted = samples(fresh, Detail.BASIC, f"watchslo_watch_guarantee_{family}")
            assert counted == {(guarantee.value,): 0 for guarantee in readings.OF_ALL_WATCHES}

    def test_proven_sums_closed_watches_by_class(self) -> None:
        shown = samples(with_track(), Detail.PROVEN, "watchslo_watches_closed")
        assert shown == {
            ("deadline",): 4,
            ("server",): 0,
            ("network",): 3,
            ("credentials",): 0,
        }

    def test_full_has_reasons_of_closed_watches(self) -> None:
        shown = samples(with_track(), Detail.FULL, "watchslo_watches_closed")
        counted = {labels: count for labels, count in shown.items() if count}
        assert counted == {("deadline", "deadline"): 4, ("network", "reset"): 1, ("network", "early_eof"): 2}


class TestRelists:
    def test_basic_has_relists_after_failures_only(self) -> None:
        shown = replace(readings.SNAPSHOT, streams=(readings.STALLED,))
        failures = {("expired",): 1, ("errors",): 0}
        assert samples(shown, Detail.BASIC, "watchslo_relists") == failures
        assert samples(shown, Detail.FULL, "watchslo_relists") == {**failures, ("start",): 1, ("inventory",): 2}


class TestGuarantees:
    CHECKED, VIOLATIONS = "watchslo_watch_guarantee_checked", "watchslo_watch_guarantee_violations"

    def test_violations_are_counted_for_each_watch(self) -> None:
        shown = replace(readings.SNAPSHOT, streams=(readings.STALLED,))
        found = {
            ("ordered",): 2,
            ("unique",): 0,
            ("bookmarkable",): 0,
            ("resumable",): 0,
            ("reliable",): 1,
            ("typed",): 0,
        }
        assert samples(shown, Detail.BASIC, self.VIOLATIONS) == found
        assert samples(shown, Detail.PROVEN, self.VIOLATIONS) == {(): 3}

    def test_checks_are_added_up_for_each_apiserver(self) -> None:
        shown = replace(readings.SNAPSHOT, streams=(readings.TAIL, readings.STALLED))
        added = {**{name: 2 * count for name, count in readings.TAIL.guarantees.checked.items()}, "typed": 401}
        found = families(shown, Detail.BASIC)[self.CHECKED].samples
        assert {one.labels["guarantee"]: one.value for one in found} == added
        assert {one.labels["apiserver"] for one in found} == {"service"}
        alone = replace(readings.SNAPSHOT, streams=(readings.TAIL,))
        assert samples(alone, Detail.FULL, self.CHECKED)[("reliable",)] == 120

    def test_checks_of_ended_watches_stay_in_the_sum(self) -> None:
        left = replace(readings.SERVICE, checked={"reliable": 7, "typed": 2})
        shown = replace(readings.SNAPSHOT, apiservers=(left,), streams=(readings.TAIL,))
        found = samples(shown, Detail.BASIC, self.CHECKED)
        assert (found["reliable",], found["typed",], found["resumable",]) == (127, 2, 8)


class TestGaps:
    NAME = "watchslo_unseen_changes"

    def test_unseen_changes_need_an_inventory(self) -> None:
        shown = families(readings.SNAPSHOT, Detail.FULL)[self.NAME].samples
        assert {sample.labels["watch"] for sample in shown} == {"jobs"}

    def test_basic_has_the_sum_of_unseen_changes(self) -> None:
        assert samples(readings.SNAPSHOT, Detail.BASIC, self.NAME) == {(): 6}

    def test_full_has_kinds_of_unseen_changes_with_zero(self) -> None:
        fresh = replace(
            readings.SNAPSHOT, streams=(readings.changed(readings.TAIL, gaps={"unseen": {}, "objects": 0}),)
        )
        assert samples(fresh, Detail.FULL, self.NAME) == dict.fromkeys([("changed",), ("created",), ("deleted",)], 0)
        assert samples(fresh, Detail.FULL, "watchslo_inventory_objects") == {(): 0}


class TestStalls:
    def test_watch_stalled_is_0_or_1(self) -> None:
        shown = families(readings.SNAPSHOT, Detail.BASIC)["watchslo_watch_stalled"].samples
        assert {sample.labels["resource"]: sample.value for sample in shown} == {"pods": 0, "deployments": 0, "jobs": 1}

    def test_watch_stalled_is_absent_without_audits(self) -> None:
        unaudited = replace(readings.SNAPSHOT, monitor=replace(readings.MONITOR, stall_detection=None))
        assert samples(unaudited, Detail.BASIC, "watchslo_watch_stalled") == {}

    def test_stall_seconds_exists_only_while_stalled(self) -> None:
        shown = families(readings.SNAPSHOT, Detail.FULL)["watchslo_stall_seconds"].samples
        assert {sample.labels["resource"]: sample.value for sample in shown} == {"jobs": 33.5}

    def test_audits_exist_with_zero(self) -> None:
        shown = families(readings.SNAPSHOT, Detail.BASIC)["watchslo_audits"].samples
        assert len(shown) == 2 * 7
        assert sum(sample.value for sample in shown) == 60


class TestHops:
    NAME = "watchslo_hop_seconds"

    def test_hops_exist_only_if_measured(self) -> None:
        shown = families(readings.SNAPSHOT, Detail.FULL)[self.NAME].samples
        assert {sample.labels["watch"] for sample in shown} == {"jobs"}
        assert {sample.labels["hop"] for sample in shown} == {*Hop} - {Hop.ENCODING_TO_CLIENT}

    def test_basic_omits_creation_to_storage(self) -> None:
        shown = families(readings.SNAPSHOT, Detail.BASIC)[self.NAME].samples
        assert {sample.labels["hop"] for sample in shown} == {Hop.STORAGE_TO_CACHE, Hop.CACHE_TO_CLIENT}
        created = replace(readings.TAIL, track=replace(readings.TRACK, hops=readings.HOPS[:1]))
        assert series(created, Detail.BASIC) == series(readings.TAIL, Detail.BASIC)


class TestHistory:
    def test_infinite_end_is_absent(self) -> None:
        shown = families(readings.SNAPSHOT, Detail.FULL)["watchslo_watch_history_seconds"].samples
        assert {(s.labels["watch"], s.labels["bound"]): s.value for s in shown} == {
            ("pods", "lower"): 95.5,
            ("pods", "upper"): 96.25,
            ("jobs", "lower"): 600.0,
        }

    def test_history_fits_is_absent_if_unknown(self) -> None:
        shown = families(readings.SNAPSHOT, Detail.BASIC)["watchslo_watch_history_fits"].samples
        assert {sample.labels["watch"]: sample.value for sample in shown} == {"pods": 1, "jobs": 1}
        slow = replace(readings.TAIL, headroom=replace(readings.HEADROOM, list_seconds=100.0))
        assert samples(replace(readings.SNAPSHOT, streams=(slow,)), Detail.BASIC, "watchslo_watch_history_fits") == {
            (): 0
        }
        unknown = replace(readings.TAIL, headroom=replace(readings.HEADROOM, list_seconds=None))
        shown_unknown = replace(readings.SNAPSHOT, streams=(unknown,))
        assert samples(shown_unknown, Detail.FULL, "watchslo_watch_history_fits") == {}
        assert samples(shown_unknown, Detail.FULL, "watchslo_watch_history_list_seconds") == {}


class TestCauses:
    NAME = "watchslo_cause_active"

    def shown(self, snapshot: Snapshot) -> dict[tuple[str, str, str], float]:
        found = families(snapshot, Detail.BASIC)[self.NAME].samples
        return {(s.labels["cause"], s.labels["apiserver"], s.labels["watch"]): s.value for s in found}

    def test_each_cause_has_a_series_with_zero(self) -> None:
        assert self.shown(readings.EMPTY) == {(cause, "", ""): 0 for cause in Cause}

    def test_active_causes_add_series_with_names(self) -> None:
        everywhere = replace(readings.BEHIND, cause=Cause.STORAGE_SLOW, apiserver=None)
        shown = self.shown(replace(readings.SNAPSHOT, causes=(*readings.SNAPSHOT.causes, everywhere)))
        assert {key for key, value in shown.items() if value} == {
            ("cache_behind", "10.0.0.1:6443", ""),
            ("stalled_stream", "service", "jobs"),
            ("storage_slow", "", ""),
        }
        assert shown[("cache_behind", "", "")] == 0
        assert len(shown) == len(Cause) + 2


class TestApiservers:
    def test_timespan_by_ticks_has_all_and_own(self) -> None:
        shown = samples(readings.SNAPSHOT, Detail.BASIC, "watchslo_apiserver_timespan_by_ticks_seconds")
        assert shown == {("0.5", "all"): 0.0123, ("0.99", "all"): 0.0625, ("0.99", "own"): 0.0625}

    def test_timespan_by_ticks_without_events_is_absent(self) -> None:
        idle = replace(readings.SERVICE, combined=replace(readings.window("1m", 60.0, 10), events=0))
        shown = replace(readings.SNAPSHOT, apiservers=(idle,))
        assert ("0.5", "all") not in samples(shown, Detail.BASIC, "watchslo_apiserver_timespan_by_ticks_seconds")

    def test_peers_is_absent_if_unknown(self) -> None:
        shown = families(readings.SNAPSHOT, Detail.BASIC)["watchslo_apiserver_peers"].samples
        assert {sample.labels["apiserver"]: sample.value for sample in shown} == {"10.0.0.1:6443": 3}


class TestClock:
    def test_ticks_are_counted_by_apiserver_and_result(self) -> None:
        shown = families(readings.SNAPSHOT, Detail.BASIC)["watchslo_clock_ticks"].samples
        assert {(s.labels["apiserver"], s.labels["result"]): s.value for s in shown} == {
            ("service", "ok"): 999,
            ("service", "slow"): 0,
            ("service", "failed"): 1,
            ("10.0.0.1:6443", "ok"): 0,
            ("10.0.0.1:6443", "slow"): 0,
            ("10.0.0.1:6443", "failed"): 9,
        }

    def test_resource_version_is_absent_before_first_tick(self) -> None:
        assert samples(readings.SNAPSHOT, Detail.BASIC, "watchslo_resource_version") == {("default",): 123460}

    def test_unknown_offset_is_absent(self) -> None:
        offsets = families(readings.SNAPSHOT, Detail.BASIC)["watchslo_apiserver_clock_offset_seconds"].samples
        assert {sample.labels["apiserver"] for sample in offsets} == {"service"}


class TestObjective:
    def test_basic_has_the_common_objective(self) -> None:
        assert samples(readings.SNAPSHOT, Detail.BASIC, "watchslo_slo_threshold_seconds") == {(): 1.0}
        targets = samples(readings.SNAPSHOT, Detail.BASIC, "watchslo_slo_target_ratio")
        assert targets == {("events",): 0.99, ("minutes",): 0.999}

    def test_full_has_the_objective_of_each_watch(self) -> None:
        shown = families(readings.SNAPSHOT, Detail.FULL)["watchslo_slo_threshold_seconds"].samples
        assert {sample.labels["resource"]: sample.value for sample in shown} == {
            "pods": 1.0,
            "deployments": 2.0,
            "jobs": 1.0,
        }
