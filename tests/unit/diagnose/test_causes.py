"""Each cause: transcripts in `tests/golden/causes` show its effect on the figures, and the causes that are similar."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.transcripts import replay
from tests.unit.diagnose.cluster import Cluster, observed
from tests.unit.diagnose.transcript import begin, late_to_cache
from watchslo.diagnose.cause_table import TABLE
from watchslo.diagnose.diagnosis import Diagnosis
from watchslo.snapshot import Confidence

TRANSCRIPTS = sorted(Path(__file__).parents[2].glob("golden/causes/*.txt"))
assert TRANSCRIPTS


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_causes_are_those_of_the_transcripts(path: Path, golden: Callable[[str, str], None]) -> None:
    golden(f"causes/{path.name}", replay(path.read_text(), begin))


def test_diagnosis_pauses_after_each_watch_and_rule() -> None:
    cluster = Cluster()
    pauses = sum(1 for _ in cluster.diagnosis.observe(cluster.snapshot(), cluster.now + 5.0))
    assert pauses >= len(cluster.snapshot().watches) + len(TABLE)


def test_noise_has_no_cause() -> None:
    cluster = Cluster()
    for number in range(24):
        for index, watch in enumerate(cluster.watches.values()):
            watch.late = (0.002, 0.03, 0.09)[(number + index) % 3]
            watch.behind = (0.0, 0.02, 0.1)[(number * index) % 3]
        for index, apiserver in enumerate(cluster.apiservers.values()):
            apiserver.trips = (0.001, 0.004, 0.03, 0.06)[: 2 + (number + index) % 3]
        assert cluster.step() == ()


def test_counter_reset_has_no_cause() -> None:
    cluster = Cluster()
    for watch in cluster.watches.values():
        watch.received = watch.bytes = 0
    for one in cluster.apiservers.values():
        one.ticked, one.requests = [], {}
    assert cluster.step(5) == ()


def test_streams_without_windows_have_no_cause() -> None:
    cluster, diagnosis = Cluster(), Diagnosis()
    for watch in cluster.watches.values():
        watch.late = 5.0
    for _ in range(5):
        cluster.step()
        snapshot = cluster.snapshot()
        streams = tuple(replace(one, track=replace(one.track, windows=())) for one in snapshot.watches)
        assert observed(diagnosis, replace(snapshot, watches=streams), cluster.now) == ()
    assert cluster.causes


def test_cause_does_not_flap() -> None:
    cluster = Cluster()
    late_to_cache(cluster, "a:1", 0.4)
    (first,) = cluster.step(5)
    for number in range(12):
        for watch in cluster.at("a:1"):
            watch.late = watch.storage = watch.behind = 0.4 if number % 3 else 0.05
        (again,) = cluster.step()
        assert replace(again, confidence=Confidence.HIGH, evidence="") == replace(
            first, confidence=Confidence.HIGH, evidence=""
        )


def test_cause_states_its_beginning_and_what_to_check_next() -> None:
    cluster = Cluster()
    late_to_cache(cluster, "b:1", 0.31)
    (cause,) = cluster.step(5)
    assert cause.next.startswith("Check the connection from b:1 to etcd")
    assert cause.since_wall == 1_700_000_000.0 + cluster.now - 20.0


def test_what_to_check_next_names_the_resource() -> None:
    cluster = Cluster("service")
    cluster["service", "pods"].whole = 0.4
    (cause,) = cluster.step(5)
    assert "of pods are" in cause.next
