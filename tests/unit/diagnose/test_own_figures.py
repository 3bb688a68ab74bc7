"""An apiserver's own figures raise or lower the confidence of a cause, and say so; without them, nothing changes."""

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from tests.unit.diagnose import test_matrix
from tests.unit.diagnose.cluster import Cluster
from tests.unit.diagnose.test_matrix import OWN, late_before_cache
from tests.unit.serve import readings
from watchslo.snapshot import ApiserverFigures, Cause, CauseReading, Confidence, HistogramReading, ResourceFigures

EDGES = (0.005, 0.025, 0.1, 0.5, 1.0)
PRESENT = ApiserverFigures(since_wall=0.0, seconds=15.0)
STEPS = 8


def all_at(seconds: float, count: int = 20) -> HistogramReading:
    """Return observations in the bucket that ends at `seconds`."""
    return HistogramReading(EDGES, tuple(count * (edge >= seconds) for edge in (*EDGES, math.inf)), count * seconds)


def etcd(seconds: float, count: int = 20) -> ApiserverFigures:
    return replace(PRESENT, etcd=all_at(seconds, count))


def of_pods(
    received: int = 0,
    terminated: int = 0,
    parked: int = 0,
    dispatch: float | None = None,
    advanced: int | None = None,
) -> ApiserverFigures:
    stages = {} if dispatch is None else {"total": all_at(dispatch)}
    return replace(PRESENT, resources={"pods": ResourceFigures(received, terminated, parked, stages, advanced)})


def single() -> Cluster:
    return Cluster("a:1")


def etcd_slow(cluster: Cluster) -> None:
    for name in cluster.apiservers:
        late_before_cache(cluster, name, 0.5)


def link_slow(cluster: Cluster) -> None:
    late_before_cache(cluster, OWN, 0.5)


def link_slow_without_reads_of_caches(cluster: Cluster) -> None:
    """As `link_slow`, with medium confidence: nothing shows that the time is lost before the cache."""
    cluster.apiservers[OWN].ticks(0.5)
    for watch in cluster.at(OWN):
        watch.cache_trip = 0.001


def sending(cluster: Cluster) -> None:
    test_matrix.one_client_side_slow(cluster, Random(1))


def one_fanned_out(cluster: Cluster) -> None:
    for watch in cluster.of("pods"):
        watch.late, watch.storage, watch.client, watch.cache_trip = 0.5, 0.001, 0.5, 0.001


def slow_path(cluster: Cluster) -> None:
    cluster.apiservers["a:1"].ticks(0.5)
    for watch in cluster.at("a:1"):
        watch.late = watch.cache_trip = watch.client = 0.5
        watch.storage = 0.001


def one_resource(cluster: Cluster) -> None:
    test_matrix.one_resource_slow(cluster, Random(1))


def relists(cluster: Cluster) -> None:
    test_matrix.storm(cluster, Random(1))


def stalled(cluster: Cluster) -> None:
    watch = cluster[OWN, "pods"]
    watch.events, watch.stalled, watch.audit = 0, 5.0, "stalled"


def webhook(cluster: Cluster) -> None:
    for watch in cluster.of("pods"):
        watch.creation = 0.4


def causes(
    made: Callable[[], Cluster], fault: Callable[[Cluster], None], own: ApiserverFigures | None, processes: int = 1
) -> tuple[CauseReading, ...]:
    cluster = made()
    for one in cluster.apiservers.values():
        one.own, one.processes = own, processes
    for _ in range(STEPS):
        fault(cluster)
        cluster.step()
    return cluster.causes


def found(
    cause: Cause,
    made: Callable[[], Cluster],
    fault: Callable[[Cluster], None],
    own: ApiserverFigures | None,
    processes: int = 1,
) -> CauseReading:
    return next(one for one in causes(made, fault, own, processes) if one.cause is cause)


CONFIRMED = [
    (Cause.CACHE_BEHIND, Cluster, link_slow_without_reads_of_caches, etcd(0.5), "requests to etcd take "),
    (
        Cause.CACHE_BEHIND,
        Cluster,
        link_slow_without_reads_of_caches,
        replace(PRESENT, read_wait=all_at(0.5)),
        "reads wait ",
    ),
    (Cause.RELIST_STORM, Cluster, relists, replace(PRESENT, listed=300_000), "lists send 20,000 objects a second"),
    (Cause.RELIST_STORM, Cluster, relists, replace(PRESENT, rejected=7), "7 requests were refused"),
    (
        Cause.WRITE_PATH,
        Cluster,
        webhook,
        replace(PRESENT, admission=all_at(0.5)),
        "validating webhooks take ",
    ),
    (Cause.WRITE_PATH, Cluster, webhook, etcd(0.5), "requests to etcd take "),
    (
        Cause.BANDWIDTH,
        single,
        slow_path,
        of_pods(terminated=3),
        "clients of pods do not take events in time: 3 watches",
    ),
    (Cause.BANDWIDTH, single, slow_path, of_pods(parked=2), "clients of pods do not take events in time: 2 are parked"),
    (Cause.BANDWIDTH, single, slow_path, of_pods(dispatch=0.005), "the dispatch of events takes only "),
]
CONTRADICTED = [
    (Cause.STORAGE_SLOW, Cluster, etcd_slow, etcd(0.005), "requests to etcd take only "),
    (Cause.CACHE_BEHIND, Cluster, link_slow, etcd(0.005), "requests to etcd take only "),
    (Cause.RELIST_STORM, Cluster, relists, replace(PRESENT, listed=15, queued=0), "lists send only 1 objects a second"),
    (Cause.APISERVER_SENDING, Cluster, sending, of_pods(dispatch=0.005), "the dispatch of events takes only "),
    (Cause.RESOURCE_FANOUT, Cluster, one_fanned_out, of_pods(dispatch=0.005), "the dispatch of events takes only "),
]
LEVELS = [Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH]


def shown(case: object) -> str | None:
    return str(case) if isinstance(case, Cause) else getattr(case, "__name__", None)


@pytest.mark.parametrize(("cause", "made", "fault", "own", "sentence"), CONFIRMED, ids=shown)
def test_figures_that_confirm_raise_the_confidence(
    cause: Cause,
    made: Callable[[], Cluster],
    fault: Callable[[Cluster], None],
    own: ApiserverFigures,
    sentence: str,
) -> None:
    alone, confirmed = found(cause, made, fault, None), found(cause, made, fault, own)
    assert LEVELS.index(confirmed.confidence) == LEVELS.index(alone.confidence) + 1
    assert f" By the apiserver's own metrics, {sentence}" in confirmed.evidence
    assert "own metrics" not in alone.evidence


@pytest.mark.parametrize(("cause", "made", "fault", "own", "sentence"), CONTRADICTED, ids=shown)
def test_figures_that_contradict_lower_the_confidence(
    cause: Cause,
    made: Callable[[], Cluster],
    fault: Callable[[Cluster], None],
    own: ApiserverFigures,
    sentence: str,
) -> None:
    alone, contradicted = found(cause, made, fault, None), found(cause, made, fault, own)
    assert LEVELS.index(contradicted.confidence) == LEVELS.index(alone.confidence) - 1
    assert f" By the apiserver's own metrics, {sentence}" in contradicted.evidence


@pytest.mark.parametrize(
    ("cause", "made", "fault", "own"),
    [
        (Cause.STORAGE_SLOW, Cluster, etcd_slow, etcd(0.5)),
        (Cause.APISERVER_SENDING, Cluster, sending, of_pods(dispatch=1.0)),
        (Cause.RESOURCE_FANOUT, Cluster, one_fanned_out, of_pods(terminated=1)),
        (Cause.STALLED_STREAM, Cluster, stalled, of_pods(received=55)),
        (Cause.STALLED_STREAM, Cluster, stalled, of_pods(advanced=0)),
    ],
    ids=shown,
)
def test_certain_cause_stays_certain(
    cause: Cause, made: Callable[[], Cluster], fault: Callable[[Cluster], None], own: ApiserverFigures
) -> None:
    reading = found(cause, made, fault, own)
    assert reading.confidence is Confidence.HIGH
    assert " By the apiserver's own metrics, " in reading.evidence


@pytest.mark.parametrize(
    ("cause", "made", "fault", "own"),
    [
        (Cause.STORAGE_SLOW, Cluster, etcd_slow, etcd(0.005, count=4)),
        (Cause.STORAGE_SLOW, Cluster, etcd_slow, etcd(0.1)),
        (Cause.CACHE_BEHIND, Cluster, link_slow_without_reads_of_caches, replace(etcd(0.5), listed=300_000)),
        (
            Cause.CACHE_BEHIND,
            Cluster,
            link_slow_without_reads_of_caches,
            replace(PRESENT, read_wait=all_at(0.5), rejected=9),
        ),
        (Cause.CACHE_BEHIND, Cluster, link_slow, replace(PRESENT, read_wait=all_at(0.005))),
        (Cause.RELIST_STORM, Cluster, relists, replace(PRESENT, listed=30_000)),
        (Cause.RELIST_STORM, Cluster, relists, replace(PRESENT, listed=15, queued=3)),
        (Cause.RELIST_STORM, Cluster, relists, PRESENT),
        (Cause.APISERVER_SENDING, Cluster, sending, of_pods()),
        (Cause.RESOURCE_FANOUT, Cluster, one_fanned_out, of_pods(dispatch=0.1)),
        (Cause.BANDWIDTH, single, slow_path, of_pods()),
        (Cause.STALLED_STREAM, Cluster, stalled, of_pods()),
        (Cause.STALLED_STREAM, Cluster, stalled, of_pods(advanced=9)),
        (Cause.CACHE_BEHIND, Cluster, link_slow, of_pods(advanced=0)),
        (Cause.STALLED_STREAM, Cluster, stalled, PRESENT),
        (Cause.WRITE_PATH, Cluster, webhook, replace(PRESENT, admission=all_at(0.1))),
        (Cause.RESOURCE_DECODING, Cluster, one_resource, replace(PRESENT, conversion=all_at(0.5))),
    ],
    ids=shown,
)
def test_figures_that_do_not_decide_say_nothing(
    cause: Cause, made: Callable[[], Cluster], fault: Callable[[Cluster], None], own: ApiserverFigures
) -> None:
    assert found(cause, made, fault, own) == found(cause, made, fault, None)


def test_parked_watches_are_named_if_a_watch_is_stalled() -> None:
    reading = found(Cause.STALLED_STREAM, Cluster, stalled, of_pods(received=5, parked=3))
    assert reading.evidence.endswith(" By the apiserver's own metrics, 3 watches of pods are parked.")


def test_cache_that_stands_still_is_named_if_a_watch_is_stuck() -> None:
    reading = found(Cause.STALLED_STREAM, Cluster, stalled, of_pods(advanced=0))
    assert reading.evidence.endswith(" By the apiserver's own metrics, the watch cache of pods stands still.")


def test_conversion_webhooks_explain_custom_resources_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "TAIL", replace(readings.TAIL, group="example.org"))
    reading = found(Cause.RESOURCE_DECODING, Cluster, one_resource, replace(PRESENT, conversion=all_at(0.5)))
    assert "own metrics, conversion webhooks take " in reading.evidence


def test_single_apiserver_is_not_certain_that_it_is_etcd() -> None:
    alone, confirmed = (found(Cause.STORAGE_SLOW, single, etcd_slow, own) for own in (None, etcd(0.5)))
    assert alone.confidence is confirmed.confidence is Confidence.MEDIUM
    assert "own metrics" in confirmed.evidence


def test_slow_dispatch_contradicts_a_slow_network() -> None:
    reading = found(Cause.BANDWIDTH, single, slow_path, of_pods(dispatch=0.5))
    assert reading.confidence is Confidence.LOW
    assert "own metrics, the dispatch of events takes " in reading.evidence


def test_figures_of_the_time_before_say_nothing() -> None:
    before = replace(etcd(0.005), since_wall=-60.0)
    assert found(Cause.STORAGE_SLOW, Cluster, etcd_slow, before) == found(Cause.STORAGE_SLOW, Cluster, etcd_slow, None)


def test_figures_of_one_of_several_processes_say_nothing() -> None:
    several = found(Cause.STORAGE_SLOW, Cluster, etcd_slow, etcd(0.005), processes=2)
    assert several == found(Cause.STORAGE_SLOW, Cluster, etcd_slow, None)


def test_own_delay_makes_figures_worthless() -> None:
    def fault(cluster: Cluster) -> None:
        cluster.taints = 0.5
        relists(cluster)

    reading = found(Cause.RELIST_STORM, Cluster, fault, replace(PRESENT, rejected=7))
    assert reading.confidence is Confidence.LOW
    assert "own metrics" not in reading.evidence


def one_late(cluster: Cluster) -> None:
    cluster[OWN, "pods"].late = 0.4


@pytest.mark.parametrize(
    ("own", "cause"),
    [
        (replace(PRESENT, listed=300_000), Cause.RELIST_STORM),
        (replace(PRESENT, rejected=1), Cause.RELIST_STORM),
        (replace(PRESENT, listed=30_000), Cause.UNKNOWN),
        (None, Cause.UNKNOWN),
    ],
    ids=["many objects", "refused", "some objects", "not read"],
)
def test_lists_are_named_if_no_other_cause_fits(own: ApiserverFigures | None, cause: Cause) -> None:
    reading = causes(Cluster, one_late, own)[0]
    assert reading.cause is cause
    assert reading.confidence is (Confidence.MEDIUM if cause is Cause.RELIST_STORM else Confidence.LOW)
