"""The series that instances of watchslo expose minute by minute, for `promtool test rules`."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import isnan

APISERVER, WITNESS = "10.0.0.1:6443", "10.0.0.2:6443"
WATCHES = {"pods": "", "deployments.apps": "apps"}
EVENTS = 600.0  # a minute
LES = ("0.5", "1.0", "2.5", "+Inf")
IN_TIME = ("0.5", "1.0")  # of the objective of one second
BUCKET = "watchslo_apiserver_timespan_seconds_bucket"
COUNT = "watchslo_apiserver_timespan_seconds_count"
ESTIMATED = "watchslo_estimated_events_total"
THRESHOLD = "watchslo_slo_threshold_seconds"

Change = Callable[[int], float]
"""The increase of a counter, or the value of a gauge, in a minute."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Changes of series compared with a healthy instance, by series name, with or without labels."""

    changes: Mapping[str, Change | float]
    watch: str | None = "pods"

    def of(self, name: str, labels: Mapping[str, str]) -> Change | None:
        if self.watch and labels.get("watch", self.watch) != self.watch:
            return None
        if labels.get("apiserver") == WITNESS:
            return None
        own = ",".join(f"{key}={value}" for key, value in sorted(labels.items()) if key not in STANDING)
        change = self.changes.get(f"{name}{{{own}}}", self.changes.get(name))
        return constant(change) if isinstance(change, float) else change


def constant(value: float) -> Change:
    return lambda _: value


def buckets(in_time: Change | float, every: Change | float = EVENTS) -> dict[str, Change | float]:
    """Return the changes to so many events in time, of so many: of a histogram and of what is counted by threshold."""
    good, total = (constant(change) if isinstance(change, float) else change for change in (in_time, every))
    return {
        **{f"{BUCKET}{{le={le}}}": good if le in IN_TIME else total for le in LES},
        COUNT: total,
        f"{ESTIMATED}{{verdict=within}}": good,
        f"{ESTIMATED}{{verdict=beyond}}": lambda minute: total(minute) - good(minute),
    }


def late(share: float, *, since: int = 0, until: int = 10_000, watch: str | None = "pods") -> Fault:
    """A share of the events is later than a second, and so is the P99 of each minute."""
    return Fault(buckets(lambda minute: EVENTS * (1 - share * (since <= minute < until))), watch)


def bad() -> Fault:
    """The P99 of each minute is over the threshold, but few events are late, so the budget hardly burns."""
    return Fault({"watchslo_slo_windows_total{verdict=bad}": 1.0, "watchslo_slo_windows_total{verdict=good}": 0.0})


STANDING = {"apiserver", "watch", "group", "resource", "domain", "client"}
HEALTH = Fault({})


@dataclass(frozen=True, slots=True)
class Lives:
    """The minutes in which an instance runs, and the minute in which it restarts."""

    begins: int = 0
    ends: int = 1_000_000
    restarts: int | None = None


@dataclass(frozen=True, slots=True)
class World:
    """Some minutes of several instances, which are healthy except for `faults`."""

    minutes: int
    instances: tuple[str, ...] = ("a:9477",)
    faults: Mapping[str, Fault] = field(default_factory=dict)
    lives: Mapping[str, Lives] = field(default_factory=dict)
    everywhere: Mapping[str, str] = field(default_factory=dict)

    def series(self) -> list[dict[str, str]]:
        return [series for instance in self.instances for series in self._of(instance)]

    def _of(self, instance: str) -> Iterable[dict[str, str]]:
        target = {"job": "watchslo", "instance": instance, "pod": f"pod-of-{instance}", **self.everywhere}
        for name, labels, change in _exposed():
            every = {**target, **labels}
            fault = self.faults.get(instance, HEALTH).of(name, labels) or change
            values = self._values(name, fault, self.lives.get(instance, Lives()))
            shown = ",".join(f'{key}="{value}"' for key, value in every.items())
            yield {"series": f"{name}{{{shown}}}", "values": " ".join(values)}

    def _values(self, name: str, change: Change, lives: "Lives") -> Iterable[str]:
        total, is_counter = 0.0, name.endswith(("_total", "_bucket", "_count"))
        for minute in range(self.minutes + 1):
            if minute == lives.restarts:
                total = 0.0
            value = change(minute)
            is_there = lives.begins <= minute < lives.ends and not isnan(value)
            yield f"{total if is_counter else value:.9g}" if is_there else "_"
            total += value if is_there else 0.0


def _exposed() -> Iterable[tuple[str, dict[str, str], Change]]:
    """Yield each series that rules read, and its change per minute in a healthy instance."""
    for name, labels, value in (*_of_watches(), *_of_clients(), *_of_apiservers(), *_of_instances()):
        yield name, labels, constant(value)


def _of_watches() -> Iterable[tuple[str, dict[str, str], float]]:
    for watch, group in WATCHES.items():
        labels = {"apiserver": APISERVER, "watch": watch, "group": group, "resource": watch.partition(".")[0]}
        for le in LES:
            yield "watchslo_apiserver_timespan_seconds_bucket", {**labels, "le": le}, EVENTS
        yield "watchslo_apiserver_timespan_seconds_count", labels, EVENTS
        for verdict in ("within", "beyond"):
            yield ESTIMATED, {**labels, "verdict": verdict}, EVENTS * (verdict == "within")
        yield THRESHOLD, labels, 1.0
        for type_ in ("added", "modified", "deleted"):
            yield "watchslo_watch_events_total", {**labels, "type": type_}, EVENTS / 3
        for verdict in ("within", "beyond", "uncertain"):
            yield "watchslo_slo_events_total", {**labels, "verdict": verdict}, EVENTS * (verdict == "within")
        for verdict in ("good", "bad", "undecided", "no_data"):
            yield "watchslo_slo_windows_total", {**labels, "verdict": verdict}, float(verdict == "good")
        for reason in ("expired", "errors"):
            yield "watchslo_relists_total", {**labels, "reason": reason}, 0.0
        for name in ("unmeasured_events", "expired", "stalls"):
            yield f"watchslo_{name}_total", labels, 0.0
        for guarantee in ("ordered", "reliable"):
            yield "watchslo_watch_guarantee_violations_total", {**labels, "guarantee": guarantee}, 0.0
        yield "watchslo_cause_active", {"watch": watch, "cause": "controller_slow"}, 0.0
        yield "watchslo_watch_up", labels, 1.0
        yield "watchslo_watch_stalled", labels, 0.0
        yield "watchslo_watch_headroom_fits", labels, 1.0


def _of_clients() -> Iterable[tuple[str, dict[str, str], float]]:
    for verdict in ("current", "stale", "unknown"):
        labels = {"client": "kube-scheduler", "verdict": verdict}
        yield "watchslo_informer_reads_total", labels, 6.0 * (verdict == "current")


def _of_apiservers() -> Iterable[tuple[str, dict[str, str], float]]:
    labels = {"apiserver": APISERVER}
    for kind, code in (("tick", "200"), ("watch", "200"), ("list", "403"), ("watch", "403"), ("discovery", "403")):
        yield "watchslo_api_requests_total", {**labels, "kind": kind, "code": code}, float(code == "200")
    yield "watchslo_time_travel_total", labels, 0.0
    yield "watchslo_apiserver_up", labels, 1.0
    ticks = {**labels, "domain": "main"}
    for result in ("ok", "slow", "failed"):
        yield "watchslo_clock_ticks_total", {**ticks, "result": result}, 120.0 * (result == "ok")
    for apiserver, le in product((APISERVER, WITNESS), ("0.005", "0.5", "1.0", "+Inf")):
        yield "watchslo_clock_tick_seconds_bucket", {**ticks, "apiserver": apiserver, "le": le}, 120.0


def _of_instances() -> Iterable[tuple[str, dict[str, str], float]]:
    yield "watchslo_clock_resolution_seconds", {"domain": "main"}, 0.002
    yield "watchslo_witnesses_announced", {}, 2.0
    yield "watchslo_witnesses_reached", {}, 1.0
    yield "watchslo_apiserver_watched", {"apiserver": "service"}, 1.0
    yield "watchslo_tainted_seconds_total", {}, 0.0
    yield "watchslo_config_last_reload_successful", {}, 1.0
    for verdict in ("good", "storage_silent"):
        yield "watchslo_verdict", {"verdict": verdict}, float(verdict == "good")
    yield "watchslo_build_info", {"version": "1.2.3"}, 1.0
    yield "up", {}, 1.0


def rendered(template: str, labels: Mapping[str, str], value: str, worst: str, p99: str = "unknown") -> str:
    """Return an annotation with `value` filled in; queries find `worst`, its `p99` and its threshold of a second."""

    def result(match: re.Match[str]) -> str:
        if THRESHOLD in match[0]:
            return "1s"
        return worst if match[1] == "label" else p99

    text = re.sub(r"{{ with .*?{{ \. \| first \| (label|value) .*?{{ end }}", result, template)
    text = re.sub(r"{{ \$value(?: \| \w+)? }}", value, text)
    shown = r"\1" if labels.get("apiserver") == "service" else r"\2"
    text = re.sub(r'{{ if eq \$labels.apiserver "service" }}(.*?){{ else }}(.*?){{ end }}', shown, text)
    return re.sub(r"{{ \$labels\.(\w+) }}", lambda match: labels[match[1]], text)
