"""The verdict on all instances, their rows, and what only shows when they are compared."""

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.overview.instances import GOOD, LATE, PAUSED, report, silent, watch
from tests.unit.serve import readings
from watchslo.model import InstanceName
from watchslo.overview.merge import MOST_FINDINGS, STALE_SECONDS, Overview, merge
from watchslo.overview.report import InstanceReport
from watchslo.snapshot import StreamReading
from watchslo.timeline.verdict import Level

REFUSED = "the connection is refused"
FAST, SLOW = watch(0.0, 0.51), watch(8.0, 8.5)


def of(*reports: InstanceReport, obstacles: tuple[str, ...] = ()) -> Overview:
    return merge(reports, obstacles, 1_700_000_000.0)


def texts(overview: Overview) -> list[str]:
    return [one.text for one in overview.findings]


def gone(before: InstanceReport, why: str = REFUSED, age: float = 30.0) -> InstanceReport:
    """An instance that answered once, and does not answer now."""
    return replace(before, failure=why, age=age)


class TestVerdict:
    def test_all_good_instances_are_good(self) -> None:
        overview = of(report(0, 2, GOOD, FAST), report(1, 2, GOOD, FAST, FAST))
        assert overview.level is Level.GOOD
        assert overview.text == "No watch is late: all 2 instances say so, about 3 watches."
        assert (overview.cluster, overview.findings) == ("prod-eu", ())

    def test_single_instance_speaks_for_itself(self) -> None:
        assert (of(report()).level, of(report()).text) == (Level.GOOD, GOOD.text)
        assert of(report(0, 1, LATE)).text == "pods: late since 14:02 UTC."
        assert of(report(0, 1, PAUSED)).text == PAUSED.text

    def test_one_late_instance_is_enough(self) -> None:
        overview = of(report(0, 2), report(1, 2, LATE))
        assert (overview.level, overview.text) == (Level.BAD, "shard 2 of 2: pods: late since 14:02 UTC.")

    def test_unknown_is_worse_than_good_and_better_than_late(self) -> None:
        unsure = of(report(0, 2), report(1, 2, PAUSED))
        assert (unsure.level, unsure.text) == (Level.UNKNOWN, f"shard 2 of 2: {PAUSED.text}")
        both = of(report(0, 2, LATE), report(1, 2, PAUSED))
        assert both.level is Level.BAD
        assert both.text == f"shard 1 of 2: pods: late since 14:02 UTC. shard 2 of 2: {PAUSED.text}"

    def test_late_instance_does_not_hide_a_silent_one(self) -> None:
        overview = of(report(0, 2, LATE), silent("http://h1:9477"))
        assert overview.level is Level.BAD
        assert overview.text.endswith(f"Cannot tell for shard 2 of 2 (http://h1:9477): {REFUSED}.")

    def test_many_late_instances_are_counted(self) -> None:
        overview = of(*(report(index, 5, LATE) for index in range(5)))
        assert overview.text.startswith("shard 1 of 5: pods")
        assert overview.text.endswith("shard 3 of 5: pods: late since 14:02 UTC. And 2 more.")

    def test_no_instance_is_unknown(self) -> None:
        overview = of()
        assert (overview.level, overview.text, overview.cluster) == (
            Level.UNKNOWN,
            "Cannot tell: no instance is known.",
            None,
        )

    def test_obstacle_prevents_a_good_verdict(self) -> None:
        overview = of(report(), obstacles=("Cannot tell: watchslo.test does not resolve.",))
        assert (overview.level, overview.text) == (Level.UNKNOWN, "Cannot tell: watchslo.test does not resolve.")

    def test_instance_that_has_not_judged_yet_is_unknown(self) -> None:
        assert of(report(0, 2), report(1, 2, None)).text == "shard 2 of 2: It has not judged its watches yet."


class TestRows:
    def test_row_has_what_the_instance_says(self) -> None:
        (row,) = of(replace(report(1, 3, GOOD, FAST), age=4.0)).rows
        assert (row.name, row.address, row.part) == ("watchslo-1", "http://h1:9477", "shard 2 of 3")
        assert (row.level, row.text, row.figures) == (Level.GOOD, GOOD.text, GOOD.figures)
        assert (row.answers, row.age, row.version, row.watches) == (True, 4.0, "1.2.3", 1)

    def test_silent_instance_has_a_row(self) -> None:
        (row,) = of(silent("http://h1:9477")).rows
        assert (row.name, row.part, row.level, row.answers) == ("http://h1:9477", None, Level.UNKNOWN, False)
        assert row.text == f"It does not answer: {REFUSED}."
        assert (row.age, row.version, row.watches) == (None, None, None)

    def test_silent_instance_keeps_its_name_but_not_its_verdict(self) -> None:
        (row,) = of(gone(report(1, 3, GOOD, FAST))).rows
        assert (row.name, row.part, row.level, row.figures) == ("watchslo-1", "shard 2 of 3", Level.UNKNOWN, "")
        assert (row.text, row.age) == (f"It does not answer: {REFUSED}.", 30.0)

    def test_worst_rows_come_first_then_parts_by_their_numbers(self) -> None:
        reports = [report(index, 12) for index in reversed(range(12))]
        reports[3], reports[5] = report(8, 12, LATE), report(6, 12, PAUSED)
        shown = [row.part for row in of(*reports).rows]
        assert shown[:4] == ["shard 9 of 12", "shard 7 of 12", "shard 1 of 12", "shard 2 of 12"]
        assert shown[-3:] == ["shard 10 of 12", "shard 11 of 12", "shard 12 of 12"]


class TestSilentInstances:
    def test_missing_shard_is_that_of_the_instance_that_never_answered(self) -> None:
        overview = of(report(0, 3), report(2, 3), silent("http://h1:9477"))
        assert overview.level is Level.UNKNOWN
        assert overview.text == f"Cannot tell for shard 2 of 3 (http://h1:9477): {REFUSED}."
        assert texts(overview) == [overview.text]

    def test_known_shard_is_named_when_it_stops_answering(self) -> None:
        overview = of(report(0, 2), gone(report(1, 2)))
        assert texts(overview) == [f"Cannot tell for shard 2 of 2 (http://h1:9477): {REFUSED}."]
        assert overview.level is Level.UNKNOWN

    def test_shard_without_a_known_instance_is_missing(self) -> None:
        overview = of(report(0, 3))
        assert overview.text == (
            "Cannot tell for shard 2 of 3 and shard 3 of 3: no instance is known that runs these watches."
        )

    def test_instances_are_grouped_by_the_reason(self) -> None:
        timed_out = [silent(f"http://n{number}:9477", "no answer within 5 s") for number in range(5)]
        overview = of(report(), silent("http://x:9477"), *timed_out)
        assert texts(overview) == [
            f"Cannot tell for http://x:9477: {REFUSED}.",
            "Cannot tell for http://n0:9477, http://n1:9477, http://n2:9477 and 2 more: no answer within 5 s.",
        ]

    def test_instance_without_part_is_named_by_its_host(self) -> None:
        assert texts(of(gone(report()))) == [f"Cannot tell for watchslo-0 (http://h0:9477): {REFUSED}."]

    def test_instance_without_any_name_is_named_by_its_address(self) -> None:
        nameless = gone(report(name=InstanceName()))
        assert texts(of(nameless)) == [f"Cannot tell for http://h0:9477: {REFUSED}."]

    def test_end_of_a_reason_is_not_doubled(self) -> None:
        assert texts(of(silent("http://x:1", "It is down."))) == ["Cannot tell for http://x:1: It is down."]


def test_old_figures_are_no_verdict() -> None:
    overview = of(report(0, 2), replace(report(1, 2), age=STALE_SECONDS + 15.0))
    assert (overview.level, overview.text) == (Level.UNKNOWN, "Cannot tell for shard 2 of 2: its figures are 75 s old.")
    assert overview.rows[0].text == f"Its figures are old. The last verdict was: {GOOD.text}"
    assert of(replace(report(), age=STALE_SECONDS)).level is Level.GOOD


class TestShards:
    def test_different_counts_are_a_doubt(self) -> None:
        overview = of(report(0, 2), report(1, 3))
        expected = "shard.count differs, so watches may run twice or nowhere: 2 for watchslo-0, 3 for watchslo-1."
        assert (overview.level, texts(overview)) == (Level.UNKNOWN, [expected])

    def test_instance_that_is_no_shard_does_not_count(self) -> None:
        whole = report(name=InstanceName("prod-eu", host="other"), address="http://other")
        assert of(report(0, 2), report(1, 2), whole).level is Level.GOOD

    def test_shard_that_runs_twice_is_noted(self) -> None:
        twin = report(1, 2, name=InstanceName("prod-eu", "shard 2 of 2", host="copy"), address="http://copy")
        overview = of(report(0, 2), report(1, 2), twin)
        expected = "2 instances run shard 2 of 2: watchslo-1 and copy; give each its own shard.index."
        assert (overview.level, texts(overview)) == (Level.GOOD, [expected])

    def test_shard_of_an_unnamed_host_is_named_by_its_address(self) -> None:
        bare = [report(0, 2, name=InstanceName(None, "shard 1 of 2"), address=f"http://{host}") for host in "ab"]
        assert "2 instances run shard 1 of 2: http://a and http://b; give each its own shard.index." in texts(of(*bare))


class TestDisagreements:
    def test_opposite_verdicts_on_one_watch_are_shown_with_their_bounds(self) -> None:
        overview = of(report(0, 2, LATE, SLOW), report(1, 2, GOOD, FAST))
        assert texts(overview) == [
            (
                "pods at 10.0.0.1:6443: late for shard 1 of 2 (P99 8 s to 8.5 s), in time for shard 2 of 2 "
                "(0 ms to 510 ms); compare their ways to the apiserver."
            )
        ]

    def test_worst_and_best_instance_are_named(self) -> None:
        later, sooner = watch(9.0, math.inf), watch(0.0, 0.1)
        overview = of(report(0, 4, LATE, SLOW), report(1, 4, LATE, later), report(2, 4, GOOD, sooner), report(3, 4))
        assert "late for shard 2 of 4 (P99 9 s to ∞), in time for shard 3 of 4 (0 ms to 100 ms)" in texts(overview)[0]

    @pytest.mark.parametrize(
        "other",
        [
            watch(0.0, 0.5, watch="pods-2"),
            replace(FAST, apiserver="10.0.0.2:6443"),
            watch(7.0, 9.0),
            watch(0.5, 2.0),
            readings.changed(FAST, track={"judged": None}),
        ],
    )
    def test_other_watches_and_other_verdicts_are_no_disagreement(self, other: StreamReading) -> None:
        assert texts(of(report(0, 2, LATE, SLOW), report(1, 2, GOOD, other))) == []

    def test_nodes_watch_other_objects(self) -> None:
        nodes = [
            report(number, 1, said, one, name=InstanceName("prod-eu", f"node n{number}", f"n{number}", f"n{number}"))
            for number, (said, one) in enumerate(((LATE, SLOW), (GOOD, FAST)))
        ]
        assert texts(of(*nodes)) == []

    def test_silent_and_stale_instances_are_not_compared(self) -> None:
        old = replace(report(1, 2, GOOD, FAST), age=STALE_SECONDS + 1)
        assert len(texts(of(report(0, 2, LATE, SLOW), old))) == 1
        assert len(texts(of(report(0, 2, LATE, SLOW), gone(report(1, 2, GOOD, FAST))))) == 1

    def test_number_of_findings_is_bounded(self) -> None:
        names = [f"w{number}" for number in range(MOST_FINDINGS + 3)]
        slow, fast = ([watch(*bounds, watch=name) for name in names] for bounds in ((8.0, 9.0), (0.0, 0.1)))
        found = texts(of(report(0, 2, LATE, *slow), report(1, 2, GOOD, *fast)))
        assert len(found) == MOST_FINDINGS + 1
        assert found[-1] == "… and 3 more of this kind."


class TestApiservers:
    def ticking(self, index: int, apiserver: str = "10.0.0.1:6443", **ticker: Any) -> InstanceReport:
        tickers = (replace(readings.TICKER, apiserver=apiserver, **ticker),)
        return report(index, 2, domains=(replace(readings.DOMAIN, tickers=tickers),))

    def test_apiserver_that_answers_only_some_instances_is_noted(self) -> None:
        overview = of(self.ticking(0), self.ticking(1, failure="It cannot be reached.", answered_ago=None))
        assert texts(overview) == ["10.0.0.1:6443 answers shard 1 of 2, but not shard 2 of 2: It cannot be reached."]
        assert overview.level is Level.GOOD, "each instance has judged what that means for it"

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ({}, {}),
            ({"failure": "no"}, {"failure": "no"}),
            ({"failure": "no"}, {"answered_ago": 31.0}),
            ({"failure": "no"}, {"answered_ago": None}),
            ({"failure": "no"}, {"apiserver": "10.0.0.2:6443"}),
            ({"failure": "no", "apiserver": "service"}, {"apiserver": "service"}),
        ],
    )
    def test_other_apiservers_are_not_noted(self, one: dict[str, Any], other: dict[str, Any]) -> None:
        assert texts(of(self.ticking(0, **one), self.ticking(1, **other))) == []


def test_different_objectives_of_one_watch_are_noted() -> None:
    strict = readings.changed(FAST, track={"objective": replace(readings.TRACK.objective, threshold=0.6)})
    overview = of(report(0, 2, GOOD, FAST), report(1, 2, GOOD, strict))
    assert texts(overview) == [
        (
            "pods has different objectives: P99 of 60 s within 1 s for shard 1 of 2, "
            "P99 of 60 s within 600 ms for shard 2 of 2."
        )
    ]
    assert overview.level is Level.GOOD


def test_different_clusters_are_noted() -> None:
    other = report(1, 2, name=InstanceName("prod-us", "shard 2 of 2", host="x"))
    assert texts(of(report(0, 2), other)) == [
        (
            "The cluster has different names: prod-eu for shard 1 of 2, prod-us for shard 2 of 2; "
            "check that these instances measure the same."
        )
    ]
    assert of(report(0, 3), report(2, 3), other).cluster == "prod-eu"


def test_different_versions_are_noted() -> None:
    newer = report(1, 2, version="1.3.0")
    assert texts(of(report(0, 2), newer)) == ["The versions differ: 1.2.3 for shard 1 of 2, 1.3.0 for shard 2 of 2."]
