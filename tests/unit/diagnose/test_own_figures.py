"""An apiserver's own figures raise or lower the confidence of a cause, and say so; without them, nothing changes."""

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from tests.support.transcripts import of_states
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


Case = tuple[Cause, Callable[[], Cluster], Callable[[Cluster], None], ApiserverFigures]
CASES: dict[str, Case] = {
    "slow etcd": (Cause.CACHE_BEHIND, Cluster, link_slow_without_reads_of_caches, etcd(0.5)),
    "reads wait": (
        Cause.CACHE_BEHIND,
        Cluster,
        link_slow_without_reads_of_caches,
        replace(PRESENT, read_wait=all_at(0.5)),
    ),
    "many listed objects": (Cause.RELIST_STORM, Cluster, relists, replace(PRESENT, listed=300_000)),
    "refused requests": (Cause.RELIST_STORM, Cluster, relists, replace(PRESENT, rejected=7)),
    "slow webhooks": (Cause.WRITE_PATH, Cluster, webhook, replace(PRESENT, admission=all_at(0.5))),
    "slow etcd of writes": (Cause.WRITE_PATH, Cluster, webhook, etcd(0.5)),
    "terminated watches": (Cause.BANDWIDTH, single, slow_path, of_pods(terminated=3)),
    "parked watches": (Cause.BANDWIDTH, single, slow_path, of_pods(parked=2)),
    "fast dispatch, slow network": (Cause.BANDWIDTH, single, slow_path, of_pods(dispatch=0.005)),
    "slow dispatch, slow network": (Cause.BANDWIDTH, single, slow_path, of_pods(dispatch=0.5)),
    "fast etcd": (Cause.STORAGE_SLOW, Cluster, etcd_slow, etcd(0.005)),
    "fast etcd behind a slow link": (Cause.CACHE_BEHIND, Cluster, link_slow, etcd(0.005)),
    "few listed objects": (Cause.RELIST_STORM, Cluster, relists, replace(PRESENT, listed=15, queued=0)),
    "fast dispatch": (Cause.APISERVER_SENDING, Cluster, sending, of_pods(dispatch=0.005)),
    "fast dispatch of a resource": (Cause.RESOURCE_FANOUT, Cluster, one_fanned_out, of_pods(dispatch=0.005)),
    "slow etcd, already certain": (Cause.STORAGE_SLOW, Cluster, etcd_slow, etcd(0.5)),
    "slow dispatch, already certain": (Cause.APISERVER_SENDING, Cluster, sending, of_pods(dispatch=1.0)),
    "terminated watches, already certain": (Cause.RESOURCE_FANOUT, Cluster, one_fanned_out, of_pods(terminated=1)),
    "a cache that receives, and a stalled watch": (Cause.STALLED_STREAM, Cluster, stalled, of_pods(received=55)),
    "a cache that stands still, and a stalled watch": (Cause.STALLED_STREAM, Cluster, stalled, of_pods(advanced=0)),
    "parked watches, and a stalled watch": (Cause.STALLED_STREAM, Cluster, stalled, of_pods(received=5, parked=3)),
    "slow etcd of a single apiserver": (Cause.STORAGE_SLOW, single, etcd_slow, etcd(0.5)),
    "too few requests to etcd": (Cause.STORAGE_SLOW, Cluster, etcd_slow, etcd(0.005, count=4)),
    "neither fast nor slow etcd": (Cause.STORAGE_SLOW, Cluster, etcd_slow, etcd(0.1)),
    "slow etcd during many lists": (
        Cause.CACHE_BEHIND,
        Cluster,
        link_slow_without_reads_of_caches,
        replace(etcd(0.5), listed=300_000),
    ),
    "reads wait while requests are refused": (
        Cause.CACHE_BEHIND,
        Cluster,
        link_slow_without_reads_of_caches,
        replace(PRESENT, read_wait=all_at(0.5), rejected=9),
    ),
    "reads do not wait": (Cause.CACHE_BEHIND, Cluster, link_slow, replace(PRESENT, read_wait=all_at(0.005))),
    "some listed objects": (Cause.RELIST_STORM, Cluster, relists, replace(PRESENT, listed=30_000)),
    "few listed objects, but a queue": (Cause.RELIST_STORM, Cluster, relists, replace(PRESENT, listed=15, queued=3)),
    "no figure of lists": (Cause.RELIST_STORM, Cluster, relists, PRESENT),
    "no figure of sending": (Cause.APISERVER_SENDING, Cluster, sending, of_pods()),
    "neither fast nor slow dispatch": (Cause.RESOURCE_FANOUT, Cluster, one_fanned_out, of_pods(dispatch=0.1)),
    "no figure of the path": (Cause.BANDWIDTH, single, slow_path, of_pods()),
    "no figure of a stalled watch": (Cause.STALLED_STREAM, Cluster, stalled, of_pods()),
    "a cache that advances, and a stalled watch": (Cause.STALLED_STREAM, Cluster, stalled, of_pods(advanced=9)),
    "a cache that stands still behind a slow link": (Cause.CACHE_BEHIND, Cluster, link_slow, of_pods(advanced=0)),
    "no resource": (Cause.STALLED_STREAM, Cluster, stalled, PRESENT),
    "neither fast nor slow webhooks": (Cause.WRITE_PATH, Cluster, webhook, replace(PRESENT, admission=all_at(0.1))),
    "conversion of what has none": (
        Cause.RESOURCE_DECODING,
        Cluster,
        one_resource,
        replace(PRESENT, conversion=all_at(0.5)),
    ),
    "figures of the time before": (Cause.STORAGE_SLOW, Cluster, etcd_slow, replace(etcd(0.005), since_wall=-60.0)),
}


def test_effect_of_own_figures_matches_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("own-figures.txt", of_states({title: effect(*case) for title, case in CASES.items()}))


def effect(
    cause: Cause, made: Callable[[], Cluster], fault: Callable[[Cluster], None], own: ApiserverFigures
) -> list[str]:
    """Return the confidence of a cause without and with the figures, and what is said about them."""
    alone, judged = found(cause, made, fault, None), found(cause, made, fault, own)
    assert "own metrics" not in alone.evidence
    if judged == alone:
        return [f"{cause}: {alone.confidence}, as without figures"]
    said = judged.evidence.partition("By the apiserver's own metrics, ")[2]
    return [f"{cause}: {alone.confidence}, with figures {judged.confidence}", said]


def test_conversion_webhooks_explain_custom_resources_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "TAIL", replace(readings.TAIL, group="example.org"))
    reading = found(Cause.RESOURCE_DECODING, Cluster, one_resource, replace(PRESENT, conversion=all_at(0.5)))
    assert "own metrics, conversion webhooks take " in reading.evidence


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
