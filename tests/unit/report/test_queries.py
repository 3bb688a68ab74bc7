"""The queries of a report, and the report that follows from their answers."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.unit.report.incidents import BEGIN_WALL, LATE, incident, period
from watchslo.report.answer import answer
from watchslo.report.incident import EventCounts, IncidentReport, ReportPeriod
from watchslo.report.markdown import as_markdown
from watchslo.report.prometheus import report_of
from watchslo.report.queries import Asked, MetricSeries, minute_of, queries, step_of
from watchslo.report.unknown import unknowns
from watchslo.rules.settings import RuleSettings
from watchslo.timeline.day import Minute
from watchslo.timeline.format import ABSENT

PODS = {"apiserver": "service", "group": "", "resource": "pods", "watch": "pods"}
LEASES = {"apiserver": "a:1", "group": "coordination.k8s.io", "resource": "leases", "watch": "leases"}
GOLDEN = Path(__file__).parents[2] / "golden"
MADE_WALL = BEGIN_WALL + 45 * 60
METRIC = re.compile(r"watchslo_[a-z0-9_]+")


def series(labels: Mapping[str, str], *values: tuple[float, float]) -> MetricSeries:
    return MetricSeries(dict(labels), [(at, str(value)) for at, value in values])


def once(labels: Mapping[str, str], value: float) -> MetricSeries:
    return series(labels, (MADE_WALL, value))


def in_minutes(labels: Mapping[str, str], values: Mapping[int, float]) -> MetricSeries:
    """Return what a query of minutes answers: half a minute after the end of each."""
    return series(labels, *((BEGIN_WALL + 60 * (minute + 1) + 30, value) for minute, value in values.items()))


def during(labels: Mapping[str, str], minutes: range, value: float = 1.0) -> MetricSeries:
    """Return a series that has points in these minutes only."""
    step = step_of(period())
    count = int(len(minutes) * 60 / step)
    return series(labels, *((BEGIN_WALL + 60 * minutes.start + step * number, value) for number in range(count)))


def joined(*parts: MetricSeries) -> MetricSeries:
    """Return one series with the points of all."""
    return MetricSeries(parts[0].metric, [value for part in parts for value in part.values])


def answers(**changed: Sequence[MetricSeries]) -> dict[Asked, list[MetricSeries]]:
    """Return the answers of a Prometheus about 45 minutes in which the watch of pods is late for eight."""
    late = {minute: 3.0 if minute in LATE else 1.0 for minute in range(45)}
    made: dict[Asked, list[MetricSeries]] = {asked: [] for asked in Asked}
    made |= {
        Asked.BUILDS: [once({"version": "1.2.3"}, 1.0)],
        Asked.THRESHOLD: [once({}, 1.0)],
        Asked.TARGETS: [once({"kind": "minutes"}, 0.999), once({"kind": "events"}, 0.99)],
        Asked.PRESENT: [in_minutes({}, dict.fromkeys(range(45), 1.0))],
        Asked.MINUTES: [in_minutes(PODS, late), in_minutes(LEASES, dict.fromkeys(range(45), 1.0))],
        Asked.LOWER: [joined(during(PODS, range(20), 0.02), during(PODS, LATE, 2.5)), during(LEASES, range(45), 0.01)],
        Asked.ESTIMATE: [during(PODS, range(20), 0.03)],
        Asked.UPPER: [during(PODS, range(20), math.inf)],
        Asked.EVENTS: [
            once({**PODS, "verdict": "within"}, 4440.0),
            once({**PODS, "verdict": "beyond"}, 296.2),
            once({**PODS, "verdict": "uncertain"}, 24.0),
            once({**PODS, "verdict": "new"}, 1.0),
        ],
        Asked.UNMEASURED: [once(PODS, 7.0)],
        Asked.CAUSES: [during({"cause": "cache_behind", "apiserver": "a:1", "watch": ""}, range(20, 28))],
        Asked.CHECKS: [once({"guarantee": "ordered"}, 400.0)],
        Asked.VIOLATIONS: [once({"guarantee": "ordered"}, 0.0)],
    }
    return made | {Asked(name): [*found] for name, found in changed.items()}


def report(**changed: Sequence[MetricSeries]) -> IncidentReport:
    return report_of(answers(**changed), period(), "http://p:9090", MADE_WALL, "prod")


class TestQueries:
    @pytest.mark.parametrize("label", [None, "cluster"])
    def test_everything_is_asked_with_the_selector(self, label: str | None) -> None:
        asked = queries(RuleSettings(label, 'job="a",region="b"'), period())
        assert {*asked} == {*Asked} - (set() if label else {Asked.CLUSTERS})
        for query in asked.values():
            assert query.expression.count("watchslo_") == query.expression.count('job="a",region="b"')
            assert query.expression.count("(") == query.expression.count(")")

    def test_only_metrics_with_the_default_detail_are_asked_for(self) -> None:
        asked = " ".join(query.expression for query in queries(RuleSettings(), period()).values())
        exported = {*METRIC.findall((GOLDEN / "metrics-basic.txt").read_text())}
        assert len({*METRIC.findall(asked)}) >= 15
        assert {*METRIC.findall(asked)} <= exported

    def test_points_of_a_curve_are_bounded(self) -> None:
        assert step_of(ReportPeriod(0.0, 60.0)) == 15.0
        assert step_of(ReportPeriod(0.0, 3600.0)) == 15.0
        assert step_of(ReportPeriod(0.0, 86400.0)) == 360.0

    def test_each_minute_is_asked_for_after_it_is_judged(self) -> None:
        query = queries(RuleSettings(), period())[Asked.MINUTES]
        times = [query.start + number * query.step for number in range(45)]
        assert [minute_of(at, period()) for at in times] == [*range(45)]
        assert times[-1] == query.end
        assert times[0] == BEGIN_WALL + 90


SCHEDULED = {"group": "", "resource": "pods", "step": "scheduled"}
OBSERVED = {"group": "apps", "resource": "deployments", "step": "observed"}


def window(q: str, bound: str, *values: float, step: Mapping[str, str] = SCHEDULED) -> MetricSeries:
    """Return a bound of the quantiles of reactions, one value a minute."""
    timed = ((BEGIN_WALL + 60.0 * number, value) for number, value in enumerate(values) if not math.isnan(value))
    return series({**step, "q": q, "bound": bound}, *timed)


REACTIONS = {
    "reacted": [once(SCHEDULED, 411.6)],
    "pending": [once(SCHEDULED, 0.0), once(OBSERVED, 3.0)],
    "oldest": [once(SCHEDULED, 0.0), once(OBSERVED, 54.0)],
    "reactions": [
        window("0.5", "estimate", 0.008, 0.009),
        window("0.99", "lower", 0.2, 6.5),
        window("0.99", "estimate", 0.3, 6.9),
        window("0.99", "upper", 0.4, 7.5),
    ],
}


MANAGER = {"client": "kube-controller-manager"}
CLIENTS = {
    "pages": [
        once({**MANAGER, "verdict": "current"}, 100.2),
        once({**MANAGER, "verdict": "stale"}, 3.0),
        once({**MANAGER, "verdict": "unknown"}, 0.0),
        once({"client": "a", "verdict": "unknown"}, 7.0),
        once({"client": "gone", "verdict": "current"}, 0.0),
    ],
    "stalest": [once({**MANAGER, "group": "batch", "resource": "jobs"}, 10.03)],
    "queued": [once(MANAGER, 1203.0)],
}


def with_many_events() -> IncidentReport:
    """Return a report with something of each kind that begins, ends or happens."""
    return report(
        **REACTIONS,
        **CLIENTS,
        stalled=[during(PODS, range(10, 12))],
        closed=[during(LEASES, range(43, 45))],
        silent=[during({"apiserver": "a:1"}, range(2, 4))],
        violated_at=[series({**PODS, "guarantee": "reliable"}, (BEGIN_WALL + 60, 2.0))],
        relisted_at=[series({**PODS, "reason": "expired"}, (BEGIN_WALL + 75, 3.0))],
        overloaded_at=[series({}, (BEGIN_WALL + 90, 0.1), (BEGIN_WALL + 105, 4.0))],
    )


class TestReport:
    def test_report_of_a_prometheus_matches_golden_file(self, golden: Callable[[str, str], None]) -> None:
        golden("report-prometheus.md", as_markdown(with_many_events()))

    def test_late_minutes_give_the_same_answer_as_a_daemon(self) -> None:
        assert (answer(report()).level, answer(report()).text) == (answer(incident()).level, answer(incident()).text)

    def test_watches_that_were_closed_or_stalled_received_nothing_for_so_long(self) -> None:
        leases, pods = with_many_events().watches
        assert (leases.silent, pods.silent) == (120.0, 120.0)

    def test_watches_have_counts_targets_and_curves(self) -> None:
        leases, pods = report().watches
        assert pods.events == EventCounts(4440.0, 296.2, 24.0, 7.0)
        assert (pods.minutes_target, pods.events_target, pods.curve.threshold) == (0.999, 0.99, 1.0)
        assert (pods.curve.points[0].estimate, pods.curve.points[0].lower) == (0.03, 0.02)
        assert math.isinf(pods.curve.points[0].upper)
        assert leases.curve.points[0].estimate is None

    def test_labels_of_single_watches_are_used_if_there_are_any(self) -> None:
        own = {"watch": "pods", "apiserver": "service"}
        leases, pods = report(threshold=[once(own, 2.0)], targets=[once({"kind": "events", **own}, 0.5)]).watches
        assert (pods.curve.threshold, pods.events_target, pods.minutes_target) == (2.0, 0.5, None)
        assert leases.curve.threshold is None

    def test_cause_that_goes_on_has_no_end_and_an_interrupted_one_is_two(self) -> None:
        labels = {"cause": "new", "apiserver": "", "watch": ""}
        twice = joined(during(labels, range(5, 8)), during(labels, range(40, 45)))
        both = report(causes=[twice]).causes
        assert [one.until_wall for one in both] == [BEGIN_WALL + 480, None]
        assert {one.next for one in both} == {""}

    def test_violation_is_bad(self) -> None:
        made = report(minutes=[in_minutes(PODS, {0: 1.0})], lower=[], violations=[once({"guarantee": "reliable"}, 2.0)])
        assert made.violated
        assert answer(made).text.endswith("but a guarantee was violated.")

    def test_minutes_without_a_scrape_are_absent(self) -> None:
        present = in_minutes({}, {minute: 1.0 for minute in range(10, 45) if minute not in (20, 21)})
        made = report(present=[present])
        assert made.known_wall == BEGIN_WALL + 600
        assert made.own.absent == {20, 21}

    def test_proven_metrics_give_late_minutes_only(self) -> None:
        late = in_minutes(PODS, {5: 2.0, 6: 0.0})
        made = report(
            minutes=[], late_minutes=[late], lower=[], estimate=[], upper=[], checks=[], violations=[once({}, 1.0)]
        )
        assert made.proven_only
        (pods,) = (one for one in made.watches if one.watch == "pods")
        assert (pods.minutes[5], pods.minutes[6]) == (Minute.BAD, Minute.NO_DATA)
        assert answer(made).text.startswith("pods: late from")
        assert any("mode: node" in text for text in unknowns(made))
        assert f"| any guarantee | 1 | {ABSENT} |" in as_markdown(made)

    def test_several_versions_are_noted(self) -> None:
        made = report(builds=[once({"version": "1"}, 1.0), once({"version": "2"}, 1.0)])
        assert "2 versions of watchslo were scraped in the period." in unknowns(made)


class TestReactions:
    def test_worst_moment_of_each_step_counts(self) -> None:
        observed, scheduled = report(**REACTIONS).reactions
        assert (scheduled.name, scheduled.step, scheduled.events) == ("pods", "scheduled", 412)
        assert [(each.q, each.estimate) for each in scheduled.quantiles] == [(0.5, 0.009), (0.99, 6.9)]
        assert (scheduled.quantiles[1].lower, scheduled.quantiles[1].upper) == (6.5, 7.5)
        assert (observed.name, observed.quantiles) == ("deployments.apps", ())
        assert (observed.pending, observed.oldest_pending) == (3, 54.0)

    def test_absent_upper_bound_is_infinite_and_absent_figures_are_unknown(self) -> None:
        worst = [window("0.99", "lower", 0.2, 6.5), window("0.99", "estimate", 0.3, 6.9), window("0.99", "upper", 0.4)]
        (scheduled,) = report(reacted=[once(SCHEDULED, 5.0)], reactions=worst).reactions
        assert [(each.q, each.upper) for each in scheduled.quantiles] == [(0.99, None)]
        assert (scheduled.pending, scheduled.oldest_pending) == (None, None)

    def test_step_without_events_and_pending_objects_has_no_row(self) -> None:
        made = report(reacted=[once(SCHEDULED, 0.0)], pending=[once(SCHEDULED, 0.0)])
        assert made.reactions == ()
        assert "## Controllers" not in as_markdown(made)

    def test_steps_are_in_their_order_and_one_of_a_newer_version_is_the_last(self) -> None:
        steps = [once({**SCHEDULED, "step": step}, 1.0) for step in ("bound", "deleted", "scheduled")]
        made = report(reacted=steps).reactions
        assert [each.step for each in made] == ["scheduled", "deleted", "bound"]
        assert [each.responsible for each in made] == ["the scheduler", "the kubelet", ABSENT]


def test_each_client_that_was_read_has_its_most_stale_resource_and_its_pages_by_verdict() -> None:
    made = report(**CLIENTS)
    assert [line.cells for line in made.clients] == [
        ("a", "all", ABSENT, ABSENT, "pages: 7 unknown"),
        ("kube-controller-manager", "jobs.batch", "at least 10 s", "1,203", "pages: 100 current, 3 stale"),
    ]
    assert "## Clients" not in as_markdown(report(pages=CLIENTS["pages"][-1:]))
