"""The details of a watch as lines for a terminal."""

import json
from dataclasses import replace

from tests.unit.serve import readings
from watchslo.app.details import own_details, read_details, written
from watchslo.timeline.timeline import Timeline

EVENT = {"at": "2026-06-01T12:00:05Z", "kind": "late", "level": "bad", "text": "pods: late"}
CAUSE = {"cause": "slow", "confidence": "low", "since": EVENT["at"], "evidence": "It is slow.", "next": "Wait."}
WATCH = {
    "key": "pods@service",
    "watch": "pods",
    "apiserver": "service",
    "bad": True,
    "name": "pods",
    "condition": "late since 12:00",
    "explanation": "",
    "sections": [{"title": "Now", "facts": [{"label": "Events", "text": "3"}]}],
    "causes": [CAUSE],
    "happened": [EVENT, EVENT | {"at": "2026-06-01T12:01:05Z", "text": "pods: in time\x1b[2J again"}],
    "new": 1,
}


def lines(**changes: object) -> list[str]:
    (watch,) = read_details(json.dumps({"watches": [WATCH | changes]}).encode())
    return str(written(watch)).splitlines()


def test_details_are_lines_with_the_newest_event_first_and_without_control_characters() -> None:
    assert lines() == [
        "pods: late since 12:00",
        "Likely cause. It is slow. (slow) Wait.",
        "",
        "Now",
        f"  {'Events':24} 3",
        "",
        "Timeline, the newest first",
        "  2026-06-01 12:01:05 UTC  pods: in time?[2J again",
        "  2026-06-01 12:00:05 UTC  pods: late",
    ]


def test_explanation_follows_the_condition_and_an_empty_timeline_says_so() -> None:
    shown = lines(explanation="It is proven.", causes=[], happened=[])
    assert shown[1] == "It is proven."
    assert shown[-1] == "  nothing yet"


def test_own_details_are_those_of_the_page() -> None:
    timeline = Timeline()
    assert [*own_details(timeline, "pods")] == []
    timeline.observe(replace(readings.SNAPSHOT, watches=(readings.TAIL,)))
    (pods,) = own_details(timeline, "pods@service")
    assert (pods.name, pods.condition) == ("pods", "within (95%)")
