"""The catalogue of metrics: its exposition, compared with golden files, and the rules for all families."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
from prometheus_client.core import Sample
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

from tests.support.collector import SnapshotCollector, points
from tests.support.transcripts import of_states
from tests.unit.serve import readings
from watchslo.monitor.tasks.lag import LAG_EDGES
from watchslo.serve.metrics import FAMILIES, LATE_BEAT_SECONDS, Detail, Label, Type
from watchslo.snapshot import CacheReading, Cause, ExcessReading, HopReading, Snapshot, WatchReading
from watchslo.watch.failure import Phase
from watchslo.watch.messages import RelistReason

Golden = Callable[[str, str], None]
# Prometheus, its operator and kube-state-metrics attach these; ours would become `exported_…`.
TAKEN = {"job", "instance", "pod", "namespace", "container", "service", "endpoint", "node", "cluster"}
OF_THE_MONITOR = {"slo", "loop", "tainted", "config", "build", "cause", "witnesses"}
EVERY_DETAIL = pytest.mark.parametrize("detail", list(Detail))


def registry(snapshot: Snapshot, detail: Detail) -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(SnapshotCollector(snapshot, detail))
    return made


def text_of(snapshot: Snapshot, detail: Detail) -> str:
    return generate_latest(registry(snapshot, detail)).decode()


def names(snapshot: Snapshot, detail: Detail) -> set[str]:
    return {metric.name for metric in registry(snapshot, detail).collect()}


def samples(snapshot: Snapshot, detail: Detail) -> list[Sample]:
    return [sample for metric in registry(snapshot, detail).collect() for sample in metric.samples]


def alone(stream: WatchReading, **changes: object) -> Snapshot:
    return replace(readings.SNAPSHOT, watches=(stream,), **changes)  # type: ignore[arg-type]


def with_track(**changes: object) -> Snapshot:
    return alone(readings.changed(readings.TAIL, track=changes))


@EVERY_DETAIL
def test_exposition_matches_golden_file(detail: Detail, golden: Golden) -> None:
    golden(f"metrics-{detail}.txt", text_of(readings.SNAPSHOT, detail))


@EVERY_DETAIL
def test_exposition_is_valid_openmetrics_without_duplicate_created_or_exported_series(detail: Detail) -> None:
    generate_openmetrics, _ = choose_encoder("application/openmetrics-text")
    text = generate_openmetrics(registry(readings.SNAPSHOT, detail)).decode()
    parsed = {family.name for family in text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]
    assert parsed == names(readings.SNAPSHOT, detail)
    found = samples(readings.SNAPSHOT, detail)
    series = Counter((sample.name, *sorted(sample.labels.items())) for sample in found)
    assert series.most_common(1)[0][1] == 1
    assert not TAKEN & {label for sample in found for label in sample.labels}
    assert not [sample.name for sample in found if sample.name.endswith("_created")]


@EVERY_DETAIL
def test_exposition_without_watches_has_families_of_the_monitor_only(detail: Detail) -> None:
    assert {name.split("_")[1] for name in names(readings.EMPTY, detail)} <= OF_THE_MONITOR


def test_full_has_every_family() -> None:
    assert names(readings.SNAPSHOT, Detail.FULL) == {family.name.removesuffix("_total") for family in FAMILIES}


def test_names_follow_prometheus_conventions() -> None:
    for family in FAMILIES:
        assert family.name.startswith("watchslo_")
        assert family.name.endswith("_total") == (family.type is Type.COUNTER)
        assert family.help.endswith(".")


@EVERY_DETAIL
def test_label_values_are_listed(detail: Detail) -> None:
    for family in FAMILIES:
        view = family.view(detail)
        for values, _ in points(view, readings.SNAPSHOT) if view else ():
            assert view
            assert all(map(is_listed, view.labels, values))


def is_listed(label: Label, value: str) -> bool:
    return not label.values or value in label.values


def test_late_beats_have_an_edge_of_their_own() -> None:
    assert LATE_BEAT_SECONDS in LAG_EDGES


def test_node_mode_does_not_change_with_estimates() -> None:
    estimated = with_track(
        windows=(),
        timespan=replace(readings.TRACK.timespan, counts=(0,) * len(readings.TRACK.timespan.counts), sum=0.0),
        objective=replace(readings.TRACK.objective, windows={}),
        unresolved=7,
        creation=None,
        hops=(),
    )
    other = replace(estimated, causes=(), apiservers=tuple(replace(one, combined=None) for one in estimated.apiservers))
    assert text_of(with_track(), Detail.NODE) == text_of(other, Detail.NODE)
    assert "watchslo_slo_events_total" in text_of(other, Detail.NODE)


# States that the golden files above do not have: the lines of single families


@dataclass(frozen=True)
class Case:
    """A snapshot, and the beginnings of the lines that show what it means."""

    title: str
    snapshot: Snapshot
    beginnings: tuple[str, ...]
    details: tuple[Detail, ...] = (Detail.BASIC,)

    def states(self) -> Iterator[tuple[str, list[str]]]:
        beginnings = tuple(f"watchslo_{one}" for one in self.beginnings)
        families = ", ".join(one.rstrip("{") for one in self.beginnings)
        for detail in self.details:
            found = [line for line in text_of(self.snapshot, detail).splitlines() if line.startswith(beginnings)]
            yield f"{self.title} ({detail}): {families}", found or ["(none)"]


WINDOW = readings.window("1m", 60.0, 120)
UNRESOLVED = replace(WINDOW, quantiles=tuple(replace(one, resolution=one.estimate * 2) for one in WINDOW.quantiles))
ROUGH = replace(WINDOW, quantiles=(*WINDOW.quantiles[:-1], replace(WINDOW.quantiles[-1], rough=True)))
NO_EVENT = replace(WINDOW, events=0)
EXCESSES = {"some": ExcessReading(20, 0.5, 0.6), "all": ExcessReading(200, 0.25, 0.375), "none": None}
TAILED = replace(readings.SERVICE, outcomes=readings.TAIL.outcomes)
CASES = (
    Case("P99 is rough", with_track(windows=(ROUGH,)), ("apiserver_timespan_window_rough{",), (Detail.FULL,)),
    Case(
        "quantiles are below the resolution",
        with_track(windows=(UNRESOLVED,)),
        ("apiserver_timespan_window_seconds{", "apiserver_timespan_window_rough{"),
        (Detail.BASIC, Detail.FULL),
    ),
    Case(
        "no event in the window",
        with_track(windows=(NO_EVENT,)),
        ("apiserver_timespan_window_seconds{", "apiserver_timespan_window_events{"),
        (Detail.BASIC, Detail.FULL),
    ),
    Case(
        "several watches of a resource: that with most events counts",
        replace(
            readings.SNAPSHOT,
            watches=tuple(
                replace(readings.TAIL, watch=watch, behind_fastest=excess) for watch, excess in EXCESSES.items()
            ),
        ),
        ("behind_fastest_seconds{",),
    ),
    Case(
        "no watch lists objects",
        alone(readings.TAIL, apiservers=(TAILED,)),
        ("list_fallbacks_total{", "initial_events_total{", 'lists_failed_total{apiserver="service",reason="reset"'),
    ),
    Case(
        "apiserver without watches",
        replace(
            readings.SNAPSHOT,
            apiservers=(replace(readings.SERVICE, outcomes=replace(readings.SERVICE.outcomes, lists={})),),
        ),
        ("watches_closed_total{",),
    ),
    Case(
        "checks of ended watches",
        alone(readings.TAIL, apiservers=(replace(readings.SERVICE, checked={"reliable": 7, "typed": 2}),)),
        ("watch_guarantee_checked_total{",),
    ),
    Case(
        "inventory without objects",
        alone(readings.changed(readings.TAIL, gaps={"unseen": {}, "objects": 0})),
        ("unseen_changes_total{", "inventory_objects{"),
        (Detail.FULL,),
    ),
    Case(
        "audits are off",
        replace(readings.SNAPSHOT, monitor=replace(readings.MONITOR, stall_detection=None)),
        ("watch_stalled{",),
    ),
    Case(
        "list that takes longer than the headroom",
        alone(readings.changed(readings.TAIL, headroom={"list_seconds": 100.0})),
        ("watch_headroom_fits{",),
    ),
    Case(
        "unknown time of a list",
        alone(readings.changed(readings.TAIL, headroom={"list_seconds": None})),
        ("watch_headroom_fits{", "watch_headroom_list_seconds{"),
        (Detail.FULL,),
    ),
    Case(
        "cause at all apiservers",
        replace(readings.SNAPSHOT, causes=(replace(readings.BEHIND, cause=Cause.STORAGE_SLOW, apiserver=None),)),
        ('cause_active{apiserver="",cause="storage_slow"', 'cause_active{apiserver="",cause="cache_behind"'),
    ),
    Case(
        "no event at an apiserver",
        replace(readings.SNAPSHOT, apiservers=(replace(readings.SERVICE, combined=NO_EVENT),)),
        ("apiserver_timespan_by_ticks_seconds{",),
    ),
)


def test_lines_of_other_states_match_golden_file(golden: Golden) -> None:
    golden("metrics-cases.txt", of_states(dict(state for case in CASES for state in case.states())))


@pytest.mark.parametrize("threshold", readings.TRACK.timespan.edges)
def test_estimated_events_are_those_of_the_histogram_at_the_threshold(threshold: float) -> None:
    objective = replace(readings.TRACK.objective, threshold=threshold)
    found = samples(alone(replace(readings.TAIL, track=replace(readings.TRACK, objective=objective))), Detail.BASIC)

    def value(name: str, **labels: str) -> float:
        (one,) = (one for one in found if one.name == f"watchslo_{name}" and labels.items() <= one.labels.items())
        return one.value

    within = value("estimated_events_total", verdict="within")
    assert within == value("apiserver_timespan_seconds_bucket", le=str(threshold))
    every = value("apiserver_timespan_seconds_count")
    assert value("estimated_events_total", verdict="beyond") == every - within


# The number of series


def unprobed(stream: WatchReading) -> WatchReading:
    cache = CacheReading(behind_peers=stream.cache.behind_peers)
    return replace(stream, cache=cache, headroom=None, track=readings.TRACK)


def with_hops(stream: WatchReading, hops: tuple[HopReading, ...]) -> WatchReading:
    return replace(stream, track=replace(stream.track, hops=hops))


def series(stream: WatchReading, detail: Detail) -> int:
    """Return the number of series of a watch."""
    found = samples(alone(stream, causes=()), detail)
    return len([sample for sample in found if sample.labels.get("watch") == stream.watch])


EVERY_RELIST = {"relists": dict.fromkeys(RelistReason, 1), "expired": dict.fromkeys(Phase, 1)}
HISTOGRAM = len(readings.DURATION_EDGES) + 3
UNHOPPED = with_hops(unprobed(readings.TAIL), ())


@pytest.mark.parametrize(
    ("stream", "most"),
    [
        (readings.changed(unprobed(readings.TAIL), audit={"stalled_for": 1.0}), 50),
        (readings.changed(unprobed(readings.STALLED), lists=EVERY_RELIST), 53),
    ],
    ids=["tailing", "with inventory"],
)
def test_watch_has_a_limited_number_of_series_in_basic(stream: WatchReading, most: int) -> None:
    assert series(stream, Detail.BASIC) <= most


@pytest.mark.parametrize(
    ("without", "stream", "more", "details"),
    [
        (unprobed(readings.TAIL), readings.TAIL, 2, [Detail.BASIC]),
        (
            unprobed(readings.STALLED),
            replace(with_hops(readings.STALLED, readings.HOPS[:-1]), headroom=None),
            2 * HISTOGRAM + 2,
            [Detail.BASIC],
        ),
        (UNHOPPED, with_hops(UNHOPPED, readings.HOPS[-1:]), HISTOGRAM, [Detail.BASIC, Detail.FULL]),
        (readings.TAIL, with_hops(readings.TAIL, readings.HOPS[:1]), 0, [Detail.BASIC]),
    ],
    ids=["headroom", "cache probes", "reference", "creation times"],
)
def test_watch_has_more_series_with(
    without: WatchReading, stream: WatchReading, more: int, details: list[Detail]
) -> None:
    assert [series(stream, detail) - series(without, detail) for detail in details] == [more] * len(details)


def test_node_mode_has_at_most_40_series_for_one_watch() -> None:
    met = readings.changed(readings.STALLED, lists=EVERY_RELIST, audit={"stalled_for": 1.0})
    domain = replace(readings.DOMAIN, tickers=readings.DOMAIN.tickers[:1])
    codes = {("tick", "200"): 9, ("watch", "200"): 1, ("tick", "429"): 1, ("tick", "timeout"): 1}
    apiserver = replace(readings.SERVICE, requests=codes)
    assert len(samples(alone(met, domains=(domain,), apiservers=(apiserver,)), Detail.NODE)) <= 40


def test_100_watches_have_less_than_5300_series() -> None:
    snapshot = replace(readings.many(100, unprobed(readings.TAIL)), apiservers=(TAILED,))
    assert len(samples(snapshot, Detail.BASIC)) < 5_300
