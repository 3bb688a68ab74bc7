"""The lines of the exposition: those of prometheus_client, replaced at each evaluation, kept for present watches."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

from tests.support.collector import SnapshotCollector
from tests.unit.serve import readings
from watchslo.serve.exposition import MetricsEncoder, negotiate
from watchslo.serve.family_lines import FamilyLines
from watchslo.serve.family_messages import FamilyMessages
from watchslo.serve.metrics import FAMILIES, WATCH, Detail, Label, MetricView
from watchslo.serve.metrics.family import gauge, histogram
from watchslo.serve.metrics.views import per_watch
from watchslo.snapshot import HistogramReading, Snapshot, WatchReading

ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "": generate_latest,
    "application/openmetrics-text;version=1.0.0;escaping=underscores": openmetrics.generate_latest,
}
MANY = readings.many(100, readings.STALLED)
numbers = st.floats() | st.integers(0, 2**62) | st.booleans()
counts = st.lists(st.integers(0, 10**9), min_size=4, max_size=4).map(tuple)
edges = st.just((0.005, 1.0, 10.0)) | st.just((1.0, 2.5, 100.0))
histograms = st.builds(HistogramReading, edges, counts, st.floats(0, 1e12))


def ours(encoder: MetricsEncoder, snapshot: Snapshot, accept: str = "") -> bytes:
    """Return the exposition without the metrics of the process."""
    body = encoder.encode(snapshot, negotiate(accept, "")).body
    end = b"# EOF\n" if body.endswith(b"# EOF\n") else b""
    return body.partition(b"# HELP process_")[0] + end


def lines(view: MetricView, *owners: object) -> str:
    """Return the lines of a view of a family of gauges."""
    family = FamilyLines(gauge("things", "Things.", basic=view), replace(view, owners=lambda _: owners))
    return b"".join(family.pieces(readings.EMPTY)).decode()


@pytest.mark.parametrize("accept", ENCODERS)
@pytest.mark.parametrize("detail", Detail)
@pytest.mark.parametrize("snapshot", [readings.EMPTY, readings.SNAPSHOT, MANY], ids=["empty", "some", "many"])
def test_exposition_is_that_of_prometheus_client(snapshot: Snapshot, detail: Detail, accept: str) -> None:
    assert ours(MetricsEncoder(detail), snapshot, accept) == ENCODERS[accept](SnapshotCollector(snapshot, detail))


@given(label=st.text(), key=st.text(), values=st.lists(numbers, min_size=1, max_size=3))
def test_values_and_labels_are_written_as_prometheus_client_writes_them(
    label: str, key: str, values: list[float]
) -> None:
    found = {f"{key}{number}": value for number, value in enumerate(values)}
    _compare(gauge, found, Label("key", "a key"), watch=label)


@given(label=st.text(), found=histograms | st.dictionaries(st.text(), histograms, min_size=1, max_size=3))
def test_histograms_are_written_as_prometheus_client_writes_them(
    label: str, found: HistogramReading | dict[str, HistogramReading]
) -> None:
    labels = (Label("key", "a key"),) if isinstance(found, dict) else ()
    _compare(histogram, found, *labels, watch=label)


def _compare(declare: Any, found: Any, *labels: Label, watch: str) -> None:
    """Compare the second encoding, which has the template of the first."""
    family = declare("things", "Things.", basic=per_watch(lambda _: found, *labels))
    snapshot = replace(readings.SNAPSHOT, watches=(replace(readings.TAIL, watch=watch),))
    written = FamilyLines(family, family.basic)
    first = b"".join(written.pieces(snapshot))
    assert first == b"".join(written.pieces(replace(snapshot, watches=(*snapshot.watches,))))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tests.support.collector.FAMILIES", (family,))
        expected = generate_latest(SnapshotCollector(snapshot, Detail.FULL))
    assert first == expected.split(b"\n", 2)[2]


class TestEvaluations:
    @pytest.mark.parametrize("detail", Detail)
    def test_values_are_replaced_at_each_evaluation(self, detail: Detail) -> None:
        encoder = MetricsEncoder(detail)
        evaluations: list[tuple[WatchReading, ...]] = [
            (readings.TAIL, readings.STALLED),
            (readings.changed(readings.TAIL, up=False, received={"bytes": 5_000_000}), readings.STALLED),
            (readings.changed(readings.TAIL, track={"hops": readings.HOPS, "windows": ()}), readings.IDLE),
            (readings.TAIL,),
            (),
        ]
        for streams in evaluations:
            snapshot = replace(readings.SNAPSHOT, watches=streams)
            assert ours(encoder, snapshot) == generate_latest(SnapshotCollector(snapshot, detail))

    def test_daemon_itself_is_read_from_each_snapshot(self) -> None:
        encoder = MetricsEncoder(Detail.BASIC)
        for tainted in (1.5, 2.5):
            snapshot = replace(readings.SNAPSHOT, monitor=replace(readings.MONITOR, tainted_seconds=tainted))
            assert f"\nwatchslo_tainted_seconds_total {tainted}\n".encode() in ours(encoder, snapshot)

    @pytest.mark.parametrize("written", [FamilyLines, FamilyMessages])
    def test_watches_are_read_once_an_evaluation(self, written: type[FamilyLines | FamilyMessages]) -> None:
        read: list[str] = []

        def note(stream: WatchReading) -> float:
            read.append(stream.watch)
            return 1.0

        view = per_watch(note)
        family = written(gauge("things", "Things.", basic=view), view)
        for number in range(3):
            snapshot = replace(readings.SNAPSHOT, monitor=replace(readings.MONITOR, tainted_seconds=float(number)))
            assert b"".join(family.pieces(snapshot))
        assert len(read) == 3
        family.pieces(replace(readings.SNAPSHOT, watches=(readings.TAIL,)))
        assert len(read) == 4

    def test_watches_share_a_template(self) -> None:
        family = next(one for one in FAMILIES if one.name == "watchslo_watch_up")
        assert family.basic
        written = FamilyLines(family, family.basic)
        (piece,) = written.pieces(MANY)
        assert piece.count(b"\n") == 100
        assert len(written._templates) == 1

    def test_former_watches_leave_nothing_behind(self) -> None:
        view = per_watch(lambda stream: {stream.watch: 1.0}, Label("key", "a key"))
        written = FamilyLines(gauge("things", "Things.", basic=view), view)
        for number in range(1000):
            streams = tuple(replace(readings.TAIL, watch=f"watch-{number + shift}") for shift in range(3))
            (piece,) = written.pieces(replace(readings.SNAPSHOT, watches=streams))
            assert piece.count(b"\n") == 3
        assert len(written._templates) == 3


class TestShape:
    def test_percent_sign_in_a_label_stays(self) -> None:
        view = MetricView((WATCH[0],), lambda _: (), lambda owner: (owner,), lambda _: 1)
        assert lines(view, "100%s%%", "%d") == 'watchslo_things{watch="100%s%%"} 1.0\nwatchslo_things{watch="%d"} 1.0\n'

    def test_owner_without_a_value_has_no_line(self) -> None:
        view = MetricView((WATCH[0],), lambda _: (), lambda owner: (owner,), {"a": 2}.get)
        assert lines(view, "a", "b") == 'watchslo_things{watch="a"} 2.0\n'
        assert lines(view, "b") == ""
