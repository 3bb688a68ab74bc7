"""Findings about ticks, wall clocks and the order of revisions."""

from collections.abc import Iterable, Mapping, Sequence

import pytest

from watchslo.app.doctor.clocks import ClockReport, OrderReport, clock_findings, order_findings, order_of
from watchslo.app.doctor.findings import DeploymentFinding, FindingLevel
from watchslo.model import Interval, Reading
from watchslo.watch.failure import Failure, Reason, because

PROBLEM, WARNING, UNCHECKED, GOOD = FindingLevel


def ticking(*trips: float, offset: Interval | None = None, failure: Failure | None = None) -> ClockReport:
    ticks = [Reading("events", float(n), n + trip, n, "a") for n, trip in enumerate(trips)]
    return ClockReport("a", ticks, failure, offset)


def of(subject: str, findings: Iterable[DeploymentFinding]) -> list[DeploymentFinding]:
    return [finding for finding in findings if finding.subject == subject]


class TestTicks:
    @pytest.mark.parametrize(
        ("trips", "level", "text"),
        [
            ((0.01, 0.02, 9.0), GOOD, "Ticks through 1 apiserver take up to 20 ms."),
            ((0.25,), GOOD, "take up to 250 ms"),
            ((0.26,), WARNING, "A tick through a takes 260 ms, and the threshold is 1 s"),
            ((0.999,), WARNING, "takes 999 ms"),
            ((1.0,), PROBLEM, "takes 1 s"),
        ],
    )
    def test_median_round_trip_against_the_threshold(
        self, trips: tuple[float, ...], level: FindingLevel, text: str
    ) -> None:
        (finding,) = clock_findings([ticking(*trips)], 1.0)
        assert finding.level is level
        assert text in finding.text

    def test_failing_tick_is_a_problem_although_earlier_ones_worked(self) -> None:
        found = [*clock_findings([ticking(0.01, failure=because(Reason.FORBIDDEN))], 1.0)]
        assert [finding.level for finding in found] == [PROBLEM, GOOD]
        assert found[0].text == f"Ticks through a fail. {because(Reason.FORBIDDEN).message}"
        assert "clock.namespace" in found[0].remedy

    def test_no_tick_at_all_is_not_good(self) -> None:
        (finding,) = clock_findings([ticking(failure=because(Reason.TIMEOUT))], 1.0)
        assert finding.level is PROBLEM


class TestWallClocks:
    @pytest.mark.parametrize(
        ("offset", "level", "text"),
        [
            (Interval(-0.4, 0.5), GOOD, "1 wall clock may agree with ours."),
            (Interval(0.9, 1.5), GOOD, "may agree"),
            (Interval(-9.0, 9.0), GOOD, "may agree"),
            (Interval(1.1, 1.5), WARNING, "a is at least 1.1 s ahead of ours"),
            (Interval(-3.0, -2.0), WARNING, "a is at least 2 s behind ours"),
        ],
    )
    def test_proven_offset(self, offset: Interval, level: FindingLevel, text: str) -> None:
        (finding,) = of("wall clocks", clock_findings([ticking(0.01, offset=offset)], 1.0))
        assert finding.level is level
        assert text in finding.text

    def test_unknown_offset_is_no_finding(self) -> None:
        assert of("wall clocks", clock_findings([ticking(0.01)], 1.0)) == []


class TestOrder:
    @pytest.mark.parametrize(
        ("members", "foreign", "levels"),
        [
            ({"a": ["pods", "nodes"]}, {}, [GOOD]),
            ({"a": ["pods"]}, {"a": ["metrics"]}, [WARNING, GOOD]),
            ({"a": ["pods"]}, {"b": ["pods", "nodes"]}, [PROBLEM, GOOD]),
            ({"a": ["pods"]}, {"b": ["pods"]}, [WARNING, GOOD]),
            ({}, {}, []),
        ],
    )
    def test_foreign_apiserver_is_a_problem_and_foreign_resource_a_warning(
        self, members: Mapping[str, Sequence[str]], foreign: Mapping[str, Sequence[str]], levels: list[FindingLevel]
    ) -> None:
        assert [finding.level for finding in order_findings(OrderReport(members, foreign))] == levels

    def test_resources_of_several_apiservers_count_once(self) -> None:
        (finding,) = order_findings(OrderReport({"a": ["pods", "nodes"], "b": ["pods"]}, {}))
        assert finding.text == "The revisions of 2 resources fit between the ticks."

    def test_unparsable_and_unread_resources(self) -> None:
        found = [*order_findings(OrderReport({}, {}, ["odd"], ["secrets", "pods"]))]
        assert [(finding.level, finding.text) for finding in found] == [
            (WARNING, "The revisions of odd are not numbers, so these resources cannot be measured."),
            (UNCHECKED, "The revisions of 2 resources could not be read."),
        ]


def read(revision: int, apiserver: str = "a", resource: str = "pods") -> Reading:
    return Reading(resource, 0.0, 0.1, revision, apiserver)


class TestOrderOf:
    @pytest.mark.parametrize(("revision", "fits"), [(9, False), (10, True), (11, True), (12, True), (13, False)])
    def test_revision_fits_between_two_ticks(self, revision: int, *, fits: bool) -> None:
        found = order_of(read(10), {("a", "pods"): read(revision)}, read(12))
        assert (found.members, found.foreign) == (({"a": ["pods"]}, {}) if fits else ({}, {"a": ["pods"]}))

    def test_failures_are_unparsable_or_unread(self) -> None:
        probes = {
            ("a", "odd"): because(Reason.UNPARSABLE),
            ("b", "odd"): because(Reason.UNPARSABLE),
            ("a", "secrets"): because(Reason.FORBIDDEN),
        }
        assert order_of(read(1), probes, read(1)) == OrderReport({}, {}, ["odd"], ["secrets"])

    @pytest.mark.parametrize("late", [True, False])
    def test_missing_tick_decides_nothing(self, *, late: bool) -> None:
        ticks = (read(10), because(Reason.TIMEOUT)) if late else (because(Reason.TIMEOUT), read(10))
        assert order_of(ticks[0], {("a", "pods"): read(99)}, ticks[1]) == OrderReport({}, {}, [], ["pods"])
