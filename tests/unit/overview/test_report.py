"""What is read of the status of an instance."""

import json

import pytest

from tests.unit.overview.instances import GOOD, LATE, PAUSED, body, status, watch, without
from tests.unit.serve import readings
from watchslo.overview.report import NOT_JUDGED, UnreadableReportError, read_report
from watchslo.timeline.headline import Headline
from watchslo.timeline.verdict import Level


def test_report_has_the_parts_that_are_compared() -> None:
    found = status(1, 3, LATE, watch(2.0, 3.0))
    assert (found.cluster, found.part, found.monitor.build.version) == ("prod-eu", "shard 2 of 3", "1.2.3")
    assert (found.level, found.headline.text, found.headline.figures) == (Level.BAD, LATE.text, "P99 8 s")
    (stream,) = found.streams
    assert (stream.watch, stream.apiserver, stream.latency.verdict) == ("pods", "10.0.0.1:6443", "bad")
    assert stream.latency.bounds is not None
    assert (stream.latency.bounds.q, stream.latency.bounds.lower, stream.latency.bounds.upper) == (0.99, 2.0, 3.0)


@pytest.mark.parametrize("said", [GOOD, LATE, PAUSED])
def test_level_is_that_of_the_headline(said: Headline) -> None:
    assert status(0, 1, said).level is said.level


def test_status_before_the_first_evaluation_is_unknown() -> None:
    found = status(0, 1, None)
    assert (found.level, found.headline.text) == (Level.UNKNOWN, NOT_JUDGED)


def test_level_of_a_newer_version_is_unknown() -> None:
    assert read_report(body().replace(b'"level":"good"', b'"level":"splendid"', 1)).level is Level.UNKNOWN


def test_older_daemon_has_a_cluster_and_a_part() -> None:
    older = read_report(without(body(1, 3), "monitor", "instance"))
    assert (older.cluster, older.part) == ("prod-eu", "shard 2 of 3")
    oldest = read_report(without(without(body(), "monitor", "instance"), "monitor", "shard"))
    assert oldest.part is None


def test_watch_that_is_not_judged_has_no_bounds() -> None:
    unjudged = readings.changed(watch(0.0, 0.5), track={"judged": None})
    latency = status(0, 1, GOOD, unjudged).streams[0].latency
    assert latency.bounds is None


def test_odd_watch_of_an_instance_costs_only_itself() -> None:
    document = json.loads(body(0, 1, GOOD, watch(0.0, 0.5)))
    document["streams"] += [{**document["streams"][0], "latency": None}, 7]
    assert read_report(json.dumps(document).encode()).streams == status(0, 1, GOOD, watch(0.0, 0.5)).streams


@pytest.mark.parametrize("answer", [b"", b"<html>", b"{}", b"[]", b"\xff\xfe", b'{"at": 3}'])
def test_other_answers_are_unreadable(answer: bytes) -> None:
    with pytest.raises(UnreadableReportError):
        read_report(answer)
