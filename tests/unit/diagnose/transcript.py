"""Transcripts of the diagnosis: what changes in a fake control plane, and the causes that are found.

A transcript begins with the names of its apiservers; `watching` names other resources than three usual ones, and
`witnessed by` apiservers without watches. `a:1 ticks=0.4` changes an apiserver, `a:1/pods late=0.4` a watch,
`pods:scheduled at_least=6` a reaction, `pods@manager stale=9` a cache of a client; `*` stands for all of them, and
`cluster` for the whole. The names of values are those of `cluster.Apiserver`, `cluster.Watch`, `ReactionReading` and
`InformerReading`; `APISERVER` has more. `5 steps` of five seconds have the causes at their end as outcome.
"""

from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatch

from tests.support.transcripts import Step
from tests.unit.diagnose.cluster import Apiserver, Cluster
from tests.unit.serve.readings import HEADROOM
from watchslo.diagnose.diagnosis import Diagnosis
from watchslo.model import Interval
from watchslo.snapshot import ApiserverRole, CauseReading, HeadroomReading, StorageKind, TransportReading


def late_to_cache(cluster: Cluster, apiserver: str, seconds: float) -> None:
    """Make its link to etcd slow: ticks and events are late by the same time, reads of its caches are prompt."""
    cluster.apiservers[apiserver].ticks(seconds)
    for watch in cluster.at(apiserver):
        watch.late = watch.behind = watch.storage = seconds
        watch.client, watch.cache_trip = 0.001, 0.001


def late_to_client(cluster: Cluster, apiserver: str, seconds: float) -> None:
    """Make the path from the apiserver slow: all its answers are late, and hops cannot be resolved."""
    cluster.apiservers[apiserver].ticks(seconds)
    for watch in cluster.at(apiserver):
        watch.late = watch.behind = watch.cache_trip = seconds
        watch.storage, watch.client, watch.hops_resolved = seconds / 3, seconds / 3, False


def throttled(cluster: Cluster, apiserver: str, events: float) -> None:
    """Let only so many events of each watch through in a step."""
    for watch in cluster.at(apiserver):
        watch.events, watch.late, watch.behind = int(events), 4.0, 9.0
        watch.client, watch.cache_trip = 4.0, 0.01


FAULTS: dict[str, Callable[[Cluster, str, float], None]] = {
    "late_to_cache": late_to_cache,
    "late_to_client": late_to_client,
    "throttled": throttled,
}
APISERVER: dict[str, Callable[[Apiserver, float], None]] = {"ticks": Apiserver.ticks, "silence": Apiserver.silence}
"""Values of an apiserver, next to its fields and `FAULTS`."""


def begin(beginning: str) -> Step:
    """Return what advances a control plane by one line."""
    names, _, witnesses = beginning.partition(" witnessed by ")
    names, _, watches = names.partition(" watching ")
    resources = {"watches": tuple(watches.split())} if watches else {}
    cluster = Cluster(*names.split(), witnesses=tuple(witnesses.split()), **resources)
    return lambda text: _step(cluster, text.split())


def _step(cluster: Cluster, words: list[str]) -> str | None:
    match words:
        case [count, "step" | "steps"]:
            return "\n".join(map(_shown, cluster.step(int(count)))) or "no cause"
        case ["pause", seconds]:
            cluster.now += float(seconds)
        case ["remove", name]:
            cluster.remove(name)
        case ["add", name]:
            cluster.add(name)
        case ["restart", "at", name]:
            cluster.apiservers[name].ticked, cluster.diagnosis = [], Diagnosis()
        case [selector, *changes]:
            for change in changes:
                _change(cluster, selector, *change.split("="))
    return None


def _change(cluster: Cluster, selector: str, field: str, text: str) -> None:
    value, count = _value(field, text), 0
    for name, one in cluster.apiservers.items():
        if fnmatch(name, selector):
            count += 1
            if field in FAULTS:
                FAULTS[field](cluster, name, float(text))
            elif field in APISERVER:
                APISERVER[field](one, float(text))
            elif field == "request":
                kind, code = text.split("/")
                one.requests[kind, code] = one.requests.get((kind, code), 0) + 1
            else:
                setattr(one, field, value)
    for (name, resource), watch in cluster.watches.items():
        if fnmatch(f"{name}/{resource}", selector) and "/" in selector:
            count += 1
            setattr(watch, field, value)
    if count == 0:
        _change_other(cluster, selector, field, value)


def _change_other(cluster: Cluster, selector: str, field: str, value: object) -> None:
    """Change what is neither an apiserver nor a watch."""
    if selector == "cluster":
        setattr(cluster, field, value)
    elif "@" in selector:
        cluster.inform(selector, field, value)
    else:
        cluster.react(selector, field, value)


def _value(field: str, text: str) -> object:
    simple = {"none": None, "yes": True, "no": False}
    if text in simple:
        return simple[text]
    return PARSERS.get(field, _number)(text)


def _number(text: str) -> float:
    return int(text) if text.isdigit() else float(text)


def _interval(text: str) -> Interval:
    lower, upper = map(float, text.split(".."))
    return Interval(lower, upper)


def _transport(text: str) -> TransportReading:
    round_trip, retransmitted, since = text.split("/")
    return TransportReading(float(round_trip), int(retransmitted), float(since))


def _headroom(text: str) -> HeadroomReading:
    if text == "usual":
        return HEADROOM
    seconds, listing, *estimated = text.split("/")
    return replace(
        HEADROOM, seconds=_interval(seconds), list_seconds=float(listing), list_measured=estimated != ["estimated"]
    )


def _answers(text: str) -> dict[tuple[str, str], int]:
    counts = (one.split(":") for one in text.split(","))
    return {(answer.split("/")[0], answer.split("/")[1]): int(count) for answer, count in counts}


PARSERS: dict[str, Callable[[str], object]] = {
    "answers": _answers,
    "audit": str,
    "cache_behind": _interval,
    "headroom": _headroom,
    "kind": StorageKind,
    "request": str,
    "role": ApiserverRole,
    "transport": _transport,
    "trips": lambda text: tuple(map(float, text.split(","))) if text else (),
}


def _shown(found: CauseReading) -> str:
    place = "".join(
        f" {word} {name}" for word, name in (("of", found.watch), ("at", found.apiserver)) if name is not None
    )
    return f"{found.cause}{place}, {found.confidence}: {found.evidence}"
