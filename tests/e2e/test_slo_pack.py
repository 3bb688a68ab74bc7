"""The SLO pack at work: a real Prometheus scrapes `watchslo demo`, daemons and an apiserver, while things go wrong.

Every panel and every rule gets an answer, and every alert fires on its fault, and no more after it. Windows are shrunk
by `watchslo rules --shrink`. All of it is one run, which takes some minutes; tests look at what came of it.
"""

import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.slo_pack.lanes import LANES, Alert, Fault, Lane
from tests.e2e.slo_pack.lookout import Lookout
from tests.e2e.slo_pack.place import Place
from tests.e2e.slo_pack.stage import DAYS_SHRINK, HOURS_SHRINK, Stage
from tests.support.assets import Assets
from tests.support.process import eventually
from tests.support.prometheus import program
from tools.dashboards.queries import queries, variables

DASHBOARDS = Path(__file__).parents[2] / "dashboards"
MEASURING_SECONDS = 180.0
QUIET_SECONDS = 240.0  # until an alert that fires before its fault is over
FIRES_SECONDS = 360.0
RESOLVES_SECONDS = 360.0
WAIT_SECONDS = 0.1
LEFT_SECONDS = 120.0  # for a query that has no answer when all lanes have ended

UNANSWERED: Mapping[str, str] = {}
"""A part of each query that gets no answer here, and what it would take."""

pytestmark = pytest.mark.timeout(2000)

ALERTS = [(lane, fault, alert) for lane in LANES for fault in lane.faults for alert in fault.alerts]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds from the beginning of a fault until its alert fired, and from its end until it did no more."""

    fired: float | None
    resolved: float | None


@dataclass(frozen=True, slots=True)
class Run:
    """What came of it: `troubles` of lanes that could not be played, `asked` the queries with where each is from."""

    outcomes: Mapping[tuple[str, str], Outcome]
    troubles: Mapping[str, str]
    asked: Mapping[str, str]
    unanswered: frozenset[str]
    wrong: Mapping[str, str]
    said: frozenset[str]
    complaints: str
    rules: Mapping[str, Any]


def wanted(request: pytest.FixtureRequest) -> list[Lane]:
    """The lanes of the alerts whose tests are to run; all of them for a test that is about no single alert."""
    items = [item for item in request.session.items if item.path == request.path]
    params = [item.callspec.params for item in items if hasattr(item, "callspec")]
    if len(params) < len(items):
        return list(LANES)
    clusters = {param["lane"].cluster for param in params}
    return [lane for lane in LANES if lane.cluster in clusters]


@pytest.fixture(scope="module")
def run(request: pytest.FixtureRequest, assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Run:
    program("prometheus")
    began, lanes = time.monotonic(), wanted(request)
    with Stage(tmp_path_factory.mktemp("slo-pack"), assets, lanes) as stage:
        rules = stage.rules(HOURS_SHRINK)
        asked = {query: f"{name}: {what}" for name, what, query in (*of_dashboards(), *of_rules(rules))}
        with Lookout(stage.hours, asked) as hours, Lookout(stage.days) as days:
            print(f"\neverything runs after {time.monotonic() - began:.0f} s", flush=True)
            outcomes, troubles = play_all(stage, lanes, hours, days)
            if lanes == list(LANES):
                until_answered(hours)
        complaints = stage.hours.process.err + stage.days.process.err
    print(f"\n{table(outcomes)}\n\nall of it took {time.monotonic() - began:.0f} s", flush=True)
    others = {cluster: ", ".join(sorted(names)) for cluster, names in sorted(hours.fired.items())}
    print("fired, by cluster:", json.dumps(others, indent=1))
    return Run(
        outcomes,
        troubles,
        asked,
        frozenset(hours.unanswered),
        hours.wrong,
        frozenset(hours.said | days.said),
        complaints,
        rules,
    )


def of_dashboards() -> Iterator[tuple[str, str, str]]:
    for path in sorted(DASHBOARDS.glob("*.json")):
        dashboard = json.loads(path.read_text())
        yield from ((path.stem, title, query) for title, query in queries(dashboard))
        yield from ((path.stem, f"${name}", query) for name, query in variables(dashboard))


def of_rules(rules: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield group["name"], rule.get("record") or rule["alert"], rule["expr"]


def play_all(
    stage: Stage, lanes: list[Lane], hours: Lookout, days: Lookout
) -> tuple[dict[tuple[str, str], Outcome], dict[str, str]]:
    """All lanes side by side."""
    outcomes: dict[tuple[str, str], Outcome] = {}
    with ThreadPoolExecutor(len(lanes)) as threads:
        played = {
            lane.cluster: threads.submit(play, lane, stage.places[lane.cluster], hours, days, outcomes)
            for lane in lanes
        }
    failed = {cluster: future.exception() for cluster, future in played.items()}
    return outcomes, {cluster: repr(error) for cluster, error in failed.items() if error}


def play(lane: Lane, place: Place, hours: Lookout, days: Lookout, outcomes: dict[tuple[str, str], Outcome]) -> None:
    """One fault after the other, each until all of its alerts fire, and then until none of them does."""
    place.daemon.until_measuring(*(str(watch["resource"]) for watch in lane.watches), timeout=MEASURING_SECONDS)
    for fault in lane.faults:
        told = {alert.id: (days if alert.slow else hours, alert.told_by(lane.cluster)) for alert in fault.alerts}
        eventually(partial(none_fires, told), QUIET_SECONDS, f"without a fault none fires of {[*told]}", WAIT_SECONDS)
        began = time.monotonic()
        with fault.strike(place):
            fired = await_all(told, began, FIRES_SECONDS, fires=True)
        resolved = await_all(told, time.monotonic(), RESOLVES_SECONDS, fires=False)
        for name in told:
            outcomes[lane.cluster, name] = Outcome(fired[name], resolved[name])


def none_fires(told: Mapping[str, tuple[Lookout, dict[str, str]]]) -> bool:
    return not any(lookout.fires(labels) for lookout, labels in told.values())


def await_all(
    told: Mapping[str, tuple[Lookout, dict[str, str]]], since: float, timeout: float, *, fires: bool
) -> dict[str, float | None]:
    """Waits for all of them, and says how long each took; None for those that were not in time."""
    took: dict[str, float | None] = dict.fromkeys(told)
    while time.monotonic() < since + timeout and None in took.values():
        for name, (lookout, labels) in told.items():
            if took[name] is None and lookout.fires(labels) is fires:
                took[name] = time.monotonic() - since
        time.sleep(WAIT_SECONDS)
    return took


def until_answered(lookout: Lookout) -> None:
    deadline = time.monotonic() + LEFT_SECONDS
    while time.monotonic() < deadline and any(not excuse(query) for query in tuple(lookout.unanswered)):
        time.sleep(1.0)


def excuse(query: str) -> str | None:
    """Why a query may stay without an answer."""
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
    """What tells an alert from its namesakes."""
    return {label: value for label, value in rule["labels"].items() if label not in {"severity", "slo"}}


@pytest.mark.parametrize(("lane", "fault", "alert"), ALERTS, ids=[alert.id for _, _, alert in ALERTS])
def test_fires_and_resolves(run: Run, lane: Lane, fault: Fault, alert: Alert) -> None:
    assert run.troubles.get(lane.cluster) is None
    outcome = run.outcomes[lane.cluster, alert.id]
    assert outcome.fired is not None, f"{alert.id} does not fire while {fault.words}"
    assert outcome.resolved is not None, f"{alert.id} goes on firing"


def test_every_alert_there_is_was_raised(run: Run) -> None:
    rules = [rule for group in run.rules["groups"] for rule in group["rules"] if "alert" in rule]
    there_are = [(rule["alert"], alert_labels(rule)) for rule in rules]
    raised = [(alert.name, dict(alert.labels)) for _, _, alert in ALERTS]
    assert sorted(map(repr, raised)) == sorted(map(repr, there_are))


def test_every_query_is_answered(run: Run) -> None:
    assert sorted(f"{run.asked[query]}: {query}" for query in run.unanswered if not excuse(query)) == []


def test_what_is_said_to_get_no_answer_gets_none(run: Run) -> None:
    answered = run.asked.keys() - run.unanswered
    assert [part for part in UNANSWERED if any(part in query for query in answered)] == []
    assert [part for part in UNANSWERED if not any(part in query for query in run.unanswered)] == []


def test_no_query_fails_or_makes_up_its_answer(run: Run) -> None:
    assert run.wrong == {}
    assert [query for query in run.asked if "vector(" in query.replace(" ", "")] == []


def test_prometheus_has_nothing_to_complain_of(run: Run) -> None:
    """Such as rules that fail, or two series where there should be one."""
    assert run.complaints == ""


def test_annotations_are_sentences(run: Run) -> None:
    wrong = [text for text in run.said if "<error" in text or "{{" in text or "<no value>" in text]
    assert wrong == []
