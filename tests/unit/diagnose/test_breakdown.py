"""The parts of a delay add up to it, and none is negative, whatever was measured."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.serve import readings
from watchslo.diagnose.breakdown import break_down
from watchslo.snapshot import (
    ApiserverFigures,
    ApiserverMetricsReading,
    DelayPart,
    DelayPartName,
    HistogramReading,
    Hop,
    HopReading,
    QuantileReading,
    ResourceFigures,
    WatchReading,
    WindowReading,
)

EDGES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)


def windows(seconds: float, *, resolved: bool = True) -> tuple[WindowReading, ...]:
    return (WindowReading("1m", 60.0, 100, (QuantileReading(0.99, 0.0, seconds, math.inf, 0.0 if resolved else 1.0),)),)


def watch(seconds: float, storage: float | None = None, *, resolved: bool = True, group: str = "") -> WatchReading:
    hops = () if storage is None else (HopReading(Hop.STORAGE_TO_CACHE, readings.NOTHING, windows(storage)),)
    track = replace(readings.TRACK, windows=windows(seconds, resolved=resolved), hops=hops)
    return replace(readings.TAIL, resource="pods", group=group, track=track)


def at_most(seconds: float) -> HistogramReading:
    """Return a histogram of observations that are all below an edge."""
    return HistogramReading(EDGES, tuple(100 * (edge >= seconds) for edge in (*EDGES, math.inf)), 100 * seconds)


def own(processes: int = 1, resource: str = "pods", **dispatch: float) -> ApiserverMetricsReading:
    of_stages = {stage: at_most(seconds) for stage, seconds in dispatch.items()}
    minute = ApiserverFigures(1_700_000_000.0, 60.0, resources={resource: ResourceFigures(dispatch=of_stages)})
    return ApiserverMetricsReading(processes=processes, minute=minute)


def parts(stream: WatchReading, metrics: ApiserverMetricsReading | None) -> list[tuple[str, float, str]]:
    found = break_down(stream, metrics)
    return [(part.contains, round(part.seconds, 4), part.source) for part in found.parts] if found else []


def test_storage_dispatch_and_rest_add_up() -> None:
    found = break_down(watch(0.31, storage=0.29), own(total=0.01))
    assert found is not None
    assert (found.q, found.seconds) == (0.99, 0.31)
    storage, dispatch, rest = found.parts
    assert storage == DelayPart(DelayPartName.STORAGE_TO_CACHE, 0.29, "etcd and cache", "watchslo")
    assert (dispatch.name, dispatch.contains, dispatch.source) == (DelayPartName.DISPATCH, "dispatch", "apiserver")
    assert dispatch.seconds == pytest.approx(0.00995)
    assert (rest.name, rest.contains) == (DelayPartName.REST, "encoding, socket and network")
    assert sum(part.seconds for part in found.parts) == pytest.approx(0.31)


def test_way_into_the_cache_counts_once_if_the_hop_has_it() -> None:
    metrics = own(total=0.5, storage_to_cache=0.1)
    assert parts(watch(1.0, storage=0.2), metrics)[1] == ("dispatch", round(0.496 - 0.0995, 4), "apiserver")
    assert parts(watch(1.0), metrics)[0] == ("dispatch", 0.496, "apiserver")
    assert parts(watch(1.0, storage=0.2), own(total=0.1, storage_to_cache=0.5))[1] == ("dispatch", 0.0, "apiserver")


def test_what_is_not_measured_is_part_of_the_rest() -> None:
    assert parts(watch(0.31, storage=0.29), own()) == [
        ("etcd and cache", 0.29, "watchslo"),
        ("dispatch, encoding, socket and network", 0.02, "remainder"),
    ]
    assert parts(watch(0.31), own(total=0.01))[1] == (
        "etcd and cache, encoding, socket and network",
        0.3,
        "remainder",
    )


def test_resource_of_a_group_is_found() -> None:
    stream = replace(watch(0.31, group="apps"), resource="deployments")
    assert parts(stream, own(resource="deployments.apps", total=0.01))[0][0] == "dispatch"


@pytest.mark.parametrize(
    ("stream", "metrics"),
    [
        (watch(0.31, storage=0.29), None),
        (watch(0.31), own()),
        (watch(0.31, storage=0.29, resolved=False), own(total=0.01)),
        (watch(0.31), own(processes=2, total=0.01)),
        (watch(0.31), replace(own(total=0.01), minute=None)),
        (watch(0.31), own(resource="nodes", total=0.01)),
        (replace(watch(0.31), track=replace(readings.TRACK, windows=())), own(total=0.01)),
    ],
    ids=["not read", "nothing known", "below the resolution", "several processes", "one page", "other", "no window"],
)
def test_nothing_is_divided_without_figures(stream: WatchReading, metrics: ApiserverMetricsReading | None) -> None:
    assert break_down(stream, metrics) is None


SECONDS = st.floats(0.0, 100.0)


@given(SECONDS, SECONDS, SECONDS, SECONDS)
def test_no_part_is_negative_and_all_add_up(seconds: float, storage: float, total: float, to_cache: float) -> None:
    found = break_down(watch(seconds, storage), own(total=total, storage_to_cache=to_cache))
    assert found is not None
    assert all(part.seconds >= 0.0 for part in found.parts)
    assert sum(part.seconds for part in found.parts) == pytest.approx(seconds)
