"""The reactions in a log of changes, found without the code of watchslo: which revision asked, and which one acted."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import Any

Change = Mapping[str, Any]
"""A type, and an object as it was then."""

POD, SLICE = "pods", "endpointslices"
RESOURCES = {"Deployment": "deployments", "ReplicaSet": "replicasets", "EndpointSlice": SLICE, "Pod": POD}


@dataclass(frozen=True, slots=True)
class TrueReaction:
    """A step such as `pods scheduled`, and the revisions that asked for it and that showed it.

    `shown` is what the timestamps in the object say that it took, in seconds; None if they say nothing.
    """

    step: str
    asked: int
    acted: int
    shown: float | None = None


def reactions(changes: Iterable[Change]) -> Iterator[TrueReaction]:
    """Yield all reactions to what was asked for in these changes; what exists at the beginning asked earlier."""
    histories: dict[str, dict[str, list[Change]]] = defaultdict(lambda: defaultdict(list))
    for change in sorted(changes, key=_revision):
        if (kind := change["object"].get("kind", "")) in RESOURCES:
            histories[RESOURCES[kind]][change["object"]["metadata"]["uid"]].append(change)
    routes = [*_endpoints(change for history in histories[SLICE].values() for change in history)]
    for resource, found in histories.items():
        for history in found.values():
            if resource == POD:
                yield from _starts(history)
                yield from _deletions(history)
                yield from _routes(history, routes)
            elif resource != SLICE:
                yield from _observations(resource, history)


def _starts(history: Sequence[Change]) -> Iterator[TrueReaction]:
    """Yield the steps of a start up to its deletion; a step that shows together with the one before took no time."""
    if history[0]["type"] != "ADDED":
        return
    over = _first(history, lambda pod: "deletionTimestamp" in pod["metadata"] or None)
    milestones: list[tuple[str, int | None]] = [("created", _revision(history[0]))]
    milestones += [(step, _first(history, partial(_has_done, number))) for number, step in enumerate(STARTS)]
    for (_, asked), (step, acted) in pairwise(milestones):
        if asked is not None and acted is not None and asked < acted and (over is None or acted < over):
            yield TrueReaction(f"{POD} {step}", asked, acted, _shown(history, acted, step))


def _deletions(history: Sequence[Change]) -> Iterator[TrueReaction]:
    asked = _first(history, lambda pod: "deletionTimestamp" in pod["metadata"])
    is_seen = history[0]["type"] == "ADDED" or "deletionTimestamp" not in history[0]["object"]["metadata"]
    if asked is not None and is_seen and history[-1]["type"] == "DELETED" and asked < _revision(history[-1]):
        yield TrueReaction(f"{POD} deleted", asked, _revision(history[-1]))


def _routes(history: Sequence[Change], endpoints: Sequence[tuple[str, int]]) -> Iterator[TrueReaction]:
    ready, uid = _first(history, _is_ready), history[0]["object"]["metadata"]["uid"]
    if history[0]["type"] == "ADDED" and ready is not None:
        routed = next((revision for target, revision in endpoints if target == uid and revision > ready), None)
        if routed is not None:
            yield TrueReaction(f"{SLICE} routed", ready, routed)


def _endpoints(changes: Iterable[Change]) -> Iterator[tuple[str, int]]:
    """Yield the pod and the revision of each ready endpoint, in order."""
    for change in sorted(changes, key=_revision):
        if change["type"] != "DELETED":
            for endpoint in change["object"].get("endpoints") or ():
                if endpoint.get("conditions", {}).get("ready", True) and "targetRef" in endpoint:
                    yield endpoint["targetRef"]["uid"], _revision(change)


def _observations(resource: str, history: Sequence[Change]) -> Iterator[TrueReaction]:
    """Yield the reaction to each generation."""
    is_initial = history[0]["type"] != "ADDED"
    known = history[0]["object"]["metadata"]["generation"] if is_initial else 0
    for change in history:
        generation = change["object"]["metadata"]["generation"]
        if generation > known and change["type"] != "DELETED":
            known, asked = generation, _revision(change)
            acted = next(
                (_revision(after) for after in history if _revision(after) >= asked and _observed(after) >= generation),
                None,
            )
            if acted is not None and asked < acted:
                yield TrueReaction(f"{resource} observed", asked, acted)


def _observed(change: Change) -> int:
    if change["type"] == "DELETED":
        return -1
    return int(change["object"].get("status", {}).get("observedGeneration", -1))


def _first(history: Iterable[Change], test: Callable[[Any], object]) -> int | None:
    """Return the first revision of an object that passes a test."""
    found = (_revision(change) for change in history if change["type"] != "DELETED" and test(change["object"]))
    return next(found, None)


def _revision(change: Change) -> int:
    return int(change["object"]["metadata"]["resourceVersion"])


def _is_scheduled(pod: Any) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _is_started(pod: Any) -> bool:
    return "startTime" in pod.get("status", {})


def _is_prepared(pod: Any) -> bool:
    containers = pod.get("status", {}).get("containerStatuses", [])
    return bool(containers) and all("waiting" not in container.get("state", {}) for container in containers)


def _is_ready(pod: Any) -> bool:
    return bool(_condition(pod, "Ready").get("status") == "True")


STARTS: Mapping[str, Callable[[Any], bool]] = {
    "scheduled": _is_scheduled,
    "started": _is_started,
    "prepared": _is_prepared,
    "ready": _is_ready,
}


def _has_done(number: int, pod: Any) -> bool:
    """Return True if a pod has done a step: a pod that is ready has done all."""
    return any(test(pod) for test in [*STARTS.values()][number:])


def _condition(pod: Any, name: str) -> Any:
    found = (condition for condition in pod.get("status", {}).get("conditions", ()) if condition["type"] == name)
    return next(found, {})


def _shown(history: Sequence[Change], revision: int, step: str) -> float | None:
    """Return the time between the two timestamps of whole seconds that others use for a step, at its revision."""
    pod = next(change["object"] for change in history if _revision(change) == revision)
    containers: list[Any] = pod["status"].get("containerStatuses", [])
    started_at = [status["state"]["running"]["startedAt"] for status in containers if "running" in status["state"]]
    times = {
        "created": pod["metadata"]["creationTimestamp"],
        "scheduled": _condition(pod, "PodScheduled").get("lastTransitionTime"),
        "started": pod["status"].get("startTime"),
        "prepared": started_at[0] if started_at else None,
        "ready": _condition(pod, "Ready").get("lastTransitionTime"),
    }
    before, after = times[[*times][[*times].index(step) - 1]], times[step]
    if before is None or after is None:
        return None
    return (datetime.fromisoformat(after) - datetime.fromisoformat(before)).total_seconds()
