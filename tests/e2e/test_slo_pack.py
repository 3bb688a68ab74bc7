"""The SLO pack in use: a real Prometheus scrapes `watchslo demo`, daemons and an apiserver while faults are made.

Every panel and every rule gets an answer, and every alert fires during its fault and resolves after it. `watchslo rules
--shrink` shortens the windows. All faults belong to one run, which takes some minutes; the tests check its results.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.slo_pack.lanes import LANES, Alert, Fault, Lane
from tests.e2e.slo_pack.place import Place
from tests.e2e.slo_pack.poller import Poller
from tests.e2e.slo_pack.stage import DAYS_SHRINK, HOURS_SHRINK, Stage
from tests.support.assets import Assets
from tests.support.process import eventually
from tests.support.prometheus import program
from tools.dashboards.queries import queries, variables

DASHBOARDS = Path(__file__).parents[2] / "dashboards"
FIRES_SECONDS = 360.0
RESOLVES_SECONDS = 360.0
WAIT_SECONDS = 0.1
LEFT_SECONDS = 120.0  # for queries without an answer when all lanes have ended

UNANSWERED: Mapping[str, str] = {
    "[48m]) * 2 >= 720": "six hours of history, as the hours of this Prometheus are long",
    "[144m]) * 2 >= 2880": "a day of history, as the hours of this Prometheus are long",
}
"""A part of each query that gets no answer here, and what an answer would need."""

ALERTS = [(lane, fault, alert) for lane in LANES for fault in lane.faults for alert in fault.alerts]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds from the beginning of a fault until its alert fired, and from its end until the alert resolved."""

    fired: float | None
    resolved: float | None


@dataclass(frozen=True, slots=True)
class Run:
    """The results: `errors` of lanes that failed, `sources` of all queries, and what Prometheus answered and logged."""

    outcomes: Mapping[tuple[str, str], Outcome]
    errors: Mapping[str, str]
    sources: Mapping[str, str]
    unanswered: frozenset[str]
    wrong: Mapping[str, str]
    annotations: frozenset[str]
    warnings: Sequence[str]
    rules: Mapping[str, Any]


def selected(request: pytest.FixtureRequest) -> list[Lane]:
    """Return the lanes of the alerts whose tests are to run, or all lanes if a test is about all alerts."""
    items = [item for item in request.session.items if item.path == request.path]
    params = [item.callspec.params for item in items if hasattr(item, "callspec")]
    if len(params) < len(items):
        return list(LANES)
    clusters = {param["lane"].cluster for param in params}
    return [lane for lane in LANES if lane.cluster in clusters]


@pytest.fixture(scope="module")
def run(request: pytest.FixtureRequest, assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Run:
    program("prometheus")
    began, lanes = time.monotonic(), selected(request)
    with Stage(tmp_path_factory.mktemp("slo-pack"), assets, lanes) as stage:
        rules = stage.rules(HOURS_SHRINK)
        sources = {
            query: f"{name}: {what}" for name, what, query in (*queries_of_dashboards(), *queries_of_rules(rules))
        }
        with Poller(stage.hours, sources) as hours, Poller(stage.days) as days:
            print(f"\neverything runs after {time.monotonic() - began:.0f} s", flush=True)
            outcomes, errors = play_all(stage, lanes, hours, days)
            if lanes == list(LANES):
                until_answered(hours)
        warnings = [*stage.hours.warnings(), *stage.days.warnings()]
    print(f"\n{table(outcomes)}\n\nall of it took {time.monotonic() - began:.0f} s", flush=True)
    others = {cluster: ", ".join(sorted(names)) for cluster, names in sorted(hours.fired.items())}
    print("fired, by cluster:", json.dumps(others, indent=1))
    return Run(
        outcomes,
        errors,
        sources,
        frozenset(hours.unanswered),
        hours.wrong,
        frozenset(hours.annotations | days.annotations),
        warnings,
        rules,
    )


def queries_of_dashboards() -> Iterator[tuple[str, str, str]]:
    for path in sorted(DASHBOARDS.glob("*.json")):
        dashboard = json.loads(path.read_text())
        yield from ((path.stem, title, query) for title, query in queries(dashboard))
        yield from ((path.stem, f"${name}", query) for name, query in variables(dashboard))


def queries_of_rules(rules: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield group["name"], rule.get("record") or rule["alert"], rule["expr"]


def play_all(
    stage: Stage, lanes: list[Lane], hours: Poller, days: Poller
) -> tuple[dict[tuple[str, str], Outcome], dict[str, str]]:
    """Play all lanes at the same time; return the outcomes by cluster and alert, and the errors by cluster."""
    outcomes: dict[tuple[str, str], Outcome] = {}
    with ThreadPoolExecutor(len(lanes)) as threads:
        played = {
            lane.cluster: threads.submit(play, lane, stage.places[lane.cluster], hours, days, outcomes)
            for lane in lanes
        }
    failed = {cluster: future.exception() for cluster, future in played.items()}
    return outcomes, {cluster: repr(error) for cluster, error in failed.items() if error}


def play(lane: Lane, place: Place, hours: Poller, days: Poller, outcomes: dict[tuple[str, str], Outcome]) -> None:
    """Make the faults of a lane, each until all of its alerts fire, and then wait until none of them does."""
    place.daemon.until_measuring(*(str(watch["resource"]) for watch in lane.watches))
    for fault in lane.faults:
        alerts = {
            alert.id: (days if alert.slow else hours, alert.firing_labels(lane.cluster)) for alert in fault.alerts
        }
        eventually(partial(none_fires, alerts), f"no fault and none fires of {[*alerts]}", WAIT_SECONDS)
        began = time.monotonic()
        with fault.strike(place):
            fired = await_all(alerts, began, FIRES_SECONDS, fires=True)
        resolved = await_all(alerts, time.monotonic(), RESOLVES_SECONDS, fires=False)
        for name in alerts:
            outcomes[lane.cluster, name] = Outcome(fired[name], resolved[name])


def none_fires(alerts: Mapping[str, tuple[Poller, dict[str, str]]]) -> bool:
    return not any(poller.fires(labels) for poller, labels in alerts.values())


def await_all(
    alerts: Mapping[str, tuple[Poller, dict[str, str]]], since: float, timeout: float, *, fires: bool
) -> dict[str, float | None]:
    """Wait until all alerts fire, or none does; return the seconds of each, or None after the timeout."""
    took: dict[str, float | None] = dict.fromkeys(alerts)
    while time.monotonic() < since + timeout and None in took.values():
        for name, (poller, labels) in alerts.items():
            if took[name] is None and poller.fires(labels) is fires:
                took[name] = time.monotonic() - since
        time.sleep(WAIT_SECONDS)
    return took


def until_answered(poller: Poller) -> None:
    deadline = time.monotonic() + LEFT_SECONDS
    while time.monotonic() < deadline and any(not excuse(query) for query in tuple(poller.unanswered)):
        time.sleep(1.0)


def excuse(query: str) -> str | None:
    """Return the reason why a query may stay without an answer, or None."""
    return next((why for part, why in UNANSWERED.items() if part in query), None)


def table(outcomes: Mapping[tuple[str, str], Outcome]) -> str:
    lines = ["| alert | fault | windows | fires after | resolves after |", "|---|---|---|---|---|"]
    for lane, fault, alert in ALERTS:
        outcome = outcomes.get((lane.cluster, alert.id))
        if outcome:
            shrink = DAYS_SHRINK if alert.slow else HOURS_SHRINK
            cells = alert.id, fault.words, f"÷ {shrink}", seconds(outcome.fired), seconds(outcome.resolved)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.0f} s"


def alert_labels(rule: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels that distinguish an alert from others of its name."""
    return {label: value for label, value in rule["labels"].items() if label not in {"severity", "slo"}}


@pytest.mark.parametrize(("lane", "fault", "alert"), ALERTS, ids=[alert.id for _, _, alert in ALERTS])
def test_alert_fires_during_its_fault_and_resolves_after_it(run: Run, lane: Lane, fault: Fault, alert: Alert) -> None:
    assert run.errors.get(lane.cluster) is None
    outcome = run.outcomes[lane.cluster, alert.id]
    assert outcome.fired is not None, f"{alert.id} does not fire while {fault.words}"
    assert outcome.resolved is not None, f"{alert.id} does not resolve"


def test_every_alert_of_the_rules_has_a_fault(run: Run) -> None:
    rules = [rule for group in run.rules["groups"] for rule in group["rules"] if "alert" in rule]
    defined = [(rule["alert"], alert_labels(rule)) for rule in rules]
    raised = [(alert.name, dict(alert.labels)) for _, _, alert in ALERTS]
    assert sorted(map(repr, raised)) == sorted(map(repr, defined))


def test_every_query_of_panels_and_rules_has_an_answer(run: Run) -> None:
    assert sorted(f"{run.sources[query]}: {query}" for query in run.unanswered if not excuse(query)) == []


def test_every_excused_query_has_no_answer(run: Run) -> None:
    answered = run.sources.keys() - run.unanswered
    assert [part for part in UNANSWERED if any(part in query for query in answered)] == []
    assert [part for part in UNANSWERED if not any(part in query for query in run.unanswered)] == []


def test_no_query_fails_or_has_a_constant_answer(run: Run) -> None:
    assert run.wrong == {}
    assert [query for query in run.sources if "vector(" in query.replace(" ", "")] == []


def test_prometheus_logs_no_warning(run: Run) -> None:
    """It warns of rules that fail, and of two series where there should be one."""
    assert run.warnings == []


def test_annotations_have_no_template_errors(run: Run) -> None:
    wrong = [text for text in run.annotations if "<error" in text or "{{" in text or "<no value>" in text]
    assert wrong == []
