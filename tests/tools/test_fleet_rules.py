"""The rules of a fleet in promtool: what a cluster sends of itself, and what the global level concludes from it."""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.support.exposed import EVENTS, Fault, Lives, World, buckets, late
from tests.support.promtool import Case, Query, Rules, alerts, complaints_of_test, described, firing, rounded, value
from tests.support.rollups import BUDGET, EVENTS_A_SECOND, Sender
from tests.support.rollups import late as late_rollup
from watchslo.config.model import Config
from watchslo.rules import names
from watchslo.rules.fleet import fleet_groups
from watchslo.rules.pack import rule_file, rule_groups
from watchslo.rules.rollup import rollup_groups, rollup_names
from watchslo.rules.settings import RuleSettings

THREE = ("a:9477", "b:9477", "c:9477")
CONFIG, SETTINGS = Config(), RuleSettings(cluster_label="cluster")
CLUSTER = rule_file([*rule_groups(CONFIG, RuleSettings()), *rollup_groups(CONFIG, RuleSettings())])
GLOBAL = rule_file(fleet_groups(CONFIG, SETTINGS))
EVERY = rule_file([group for make in (rule_groups, rollup_groups, fleet_groups) for group in make(CONFIG, SETTINGS)])
ALERTS = [rule for group in fleet_groups(CONFIG, SETTINGS) for rule in group.rules if rule.labels]
BURN, SILENT, UNTRUSTED = "KubeWatchFleetBudgetBurn", "WatchsloClusterSilent", "WatchsloClusterUntrusted"


# --- the rules of a cluster, on what its instances expose -------------------------------------------------------------


def summed(world: World, expected: Mapping[str, float | None], *more: Query) -> Case:
    """Expect sums of the series at the end, None for no series."""
    return Case(world.series(), [*rounded(world.minutes, {f"sum({name})": x for name, x in expected.items()}), *more])


def rollup() -> Iterable[tuple[str, Case]]:
    # Of three instances that see the same events, half of those of one of two watches are late.
    half_late = World(90, THREE, dict.fromkeys(THREE, late(0.5)))
    expected = {
        names.ROLLUP_EVENTS: 2 * EVENTS / 60,
        names.ROLLUP_LATE_EVENTS: EVENTS / 120,
        names.ROLLUP_ALLOWED_EVENTS: 2 * EVENTS / 60 * BUDGET,
        **{names.rollup_burn_rate(window): 25.0 for window in ("30m", "1h", "6h", "1d", "3d")},
        names.ROLLUP_MEASURED_TIME: 1.0,
        names.ROLLUP_OVERLOADED: 0.0,
        names.ROLLUP_UNDELIVERED: 0.0,
        names.ROLLUP_VIOLATIONS: 0.0,
        names.ROLLUP_INSTANCES: 3.0,
        names.ROLLUP_GOOD_MINUTES: 0.0,
    }
    # Some evaluations find a sample at both ends of the hour.
    worst = value(90, f"round({names.ROLLUP_WORST}, 1000)", 30 * EVENTS, '{watch="pods"}')
    yield "rates are those of one instance, the worst watch has its late events", summed(half_late, expected, worst)

    minority = World(30, THREE, {"b:9477": late(0.5)})
    yield "lateness of a minority does not count", summed(minority, {names.ROLLUP_LATE_EVENTS: 0.0})
    # No instance spends its budget too fast, so none contradicts another one.
    within = World(30, THREE, dict.fromkeys(THREE, late(0.005)))
    yield "lateness within the budget counts", summed(within, {names.ROLLUP_LATE_EVENTS: EVENTS / 60 * 0.005})
    # There are two watches here, so one of the worst three is missing.
    all_late = World(90, faults={"a:9477": late(0.5, watch=None)})
    yield "at most 20 series", summed(all_late, {}, value(90, 'count({__name__=~"rollup.+"})', 19))

    idle = World(60, faults={"a:9477": Fault(buckets(0.0, 0.0), watch=None)})
    unknown = (names.rollup_burn_rate("1h"), names.rollup_burn_rate("1d"), names.ROLLUP_GOOD_MINUTES)
    nothing = {names.ROLLUP_EVENTS: 0.0, names.ROLLUP_INSTANCES: 1.0, **dict.fromkeys(unknown)}
    yield "no events burn nothing and are not judged", summed(idle, nothing)

    # Of three instances one loses a tenth of its time, and the clock of another one does not tick.
    faults = {
        "a:9477": Fault({"watchslo_tainted_seconds_total": 6.0}),
        "b:9477": Fault({"watchslo_clock_ticks_total{result=ok}": 0.0}),
    }
    shares = {
        names.ROLLUP_OVERLOADED: 1 / 3,
        names.ROLLUP_TICKING: 2 / 3,
        names.ROLLUP_MEASURED_TIME: 2.9 / 3 * 2 / 3,
    }
    yield "overload and a stopped clock shorten the measured time", summed(World(30, THREE, faults), shares)

    # Its last samples are forgotten; Prometheus knows its target still.
    down = World(40, THREE, lives={"c:9477": Lives(ends=10)}).series()
    target = {"series": 'up{job="watchslo",instance="c:9477",pod="pod-of-c:9477"}', "values": "1x9 0x30"}
    left = [one for one in down if one["series"] != target["series"]]
    measured = rounded(40, {names.ROLLUP_MEASURED_TIME: 2 / 3})
    yield "an instance that is down shortens the measured time", Case([*left, target], measured)

    for name in ("watchslo_watch_up", "watchslo_watch_stalled"):
        broken = Fault({name: float(name.endswith("stalled"))})
        most = World(20, THREE, dict.fromkeys(THREE[:2], broken))
        yield f"{name}: no delivery, as most instances see", summed(most, {names.ROLLUP_UNDELIVERED: 1.0})
    once = Fault({"watchslo_watch_guarantee_violations_total{guarantee=reliable}": lambda m: float(m == 40)})
    violated = World(60, THREE, dict.fromkeys(THREE, once)).series()
    yield (
        "three instances see one violation",
        Case(violated, [value(60, f"round({names.ROLLUP_VIOLATIONS})", 1.0)]),
    )
    newer = [
        one | ({"series": one["series"].replace("1.2.3", "1.3.0")} if "c:9477" in one["series"] else {})
        for one in World(10, THREE).series()
    ]
    version = value(10, names.ROLLUP_INSTANCES, 3.0, f'{names.ROLLUP_INSTANCES}{{version="1.2.3"}}')
    yield "instances have their most frequent version", Case(newer, [version])
    gone = (names.ROLLUP_INSTANCES, names.ROLLUP_EVENTS, names.ROLLUP_RECORDED, names.ROLLUP_MEASURED_TIME)
    ended = World(40, lives={"a:9477": Lives(ends=10)})
    yield "no instance sends nothing of the present", summed(ended, dict.fromkeys(gone))


# --- the global level, on what clusters send --------------------------------------------------------------------------


def fires(minute: int, *expected: str) -> Query:
    """Expect firing alerts, each as `NAME CLUSTER`, and no others."""
    return alerts(minute, *expected, by="alertname cluster")


def sent(minutes: int, *senders: Sender) -> list[dict[str, str]]:
    return [*chain.from_iterable(sender.series(minutes) for sender in senders)]


def of(cluster: str, name: str) -> str:
    return f'{name}{{cluster="{cluster}"}}'


def burning() -> Iterable[tuple[str, Case]]:
    for share, minute, long, short in ((0.2, 10, "1h", "5m"), (0.1, 30, "6h", "30m"), (0.03, 230, "3d", "6h")):
        (rule,) = (one for one in ALERTS if {"long": long, "short": short}.items() <= one.labels.items())
        said = described(rule, {"cluster": "eu"}, f"{share / BUDGET:g}", "pods")
        series = sent(minute, Sender("eu", values=late_rollup(share)), Sender("us"))
        queries = [firing(minute, rule.name, said), fires(minute, f"{BURN} eu")]
        yield f"a cluster that burns for {long} is named with its worst watch", Case(series, queries)
    over = {name: lambda m, at=change: at(m) * (m < 20) for name, change in late_rollup(0.5).items()}
    yield "the alert resolves", Case(sent(30, Sender("eu", values=over)), [fires(10, f"{BURN} eu"), fires(30)])
    # Nine in an hour are not a trend, though all of the events are late.
    rare = late_rollup(1.0) | {
        names.ROLLUP_EVENTS: 9 / 3600,
        names.ROLLUP_LATE_EVENTS: 9 / 3600,
        names.ROLLUP_ALLOWED_EVENTS: 9 / 3600 * BUDGET,
    }
    yield "few late events do not page", Case(sent(60, Sender("eu", values=rare)), [fires(10), fires(60)])
    new = late_rollup(0.1) | {names.ROLLUP_RECORDED: lambda minute: minute * 60.0}
    yield "long windows need history", Case(sent(90, Sender("eu", values=new)), [fires(55), fires(90, f"{BURN} eu")])
    overloaded = late_rollup(0.5) | {names.ROLLUP_OVERLOADED: 0.6}
    yield "lateness of overloaded instances", Case(sent(20, Sender("eu", values=overloaded)), [fires(20)])


def silence() -> Iterable[tuple[str, Case]]:
    # Ten minutes after its last value is forgotten, an alert fires; the other cluster is as before.
    left = [name for name in map(names.in_fleet, rollup_names(CONFIG)) if name != names.in_fleet(names.ROLLUP_WORST)]
    reporting = of("eu", names.FLEET_REPORTING)
    (rule,) = (rule for rule in ALERTS if rule.name == SILENT and rule.labels["scope"] == "cluster")
    queries = [
        value(29, reporting, 1, reporting),
        value(45, reporting, 0, reporting),
        *(value(45, of("eu", name), None) for name in left),
        *(value(45, f"count({of('us', name)})", 1) for name in left),
        fires(29, f"{BURN} eu"),
        fires(40),
        fires(50, f"{SILENT} eu"),
        firing(60, SILENT, described(rule, {"cluster": "eu"}, "0", "")),
    ]
    series = sent(60, Sender("eu", ends=30, values=late_rollup(0.5)), Sender("us"))
    yield "a silent cluster is neither good nor bad", Case(series, queries)

    again = {one["series"]: one["values"].split() for one in Sender("eu", begins=70).series(90)}
    series = sent(90, Sender("us"))
    for one in sent(90, Sender("eu", ends=30)):
        pairs = zip(one["values"].split(), again[one["series"]], strict=True)
        series.append(one | {"values": " ".join(new if old == "_" else old for old, new in pairs)})
    yield "a cluster that returns is not silent", Case(series, [fires(60, f"{SILENT} eu"), fires(90)])
    series = sent(1470, Sender("eu", ends=10), Sender("us"))
    yield "a cluster gone for a day is forgotten", Case(series, [fires(1430, f"{SILENT} eu"), fires(1470)])
    queries = [value(60, f"count({names.FLEET_REPORTING})", 1), fires(60)]
    yield "a cluster that was never there is not known", Case(sent(60, Sender("us")), queries)
    series = sent(60, Sender("eu", ends=20), Sender("us", ends=20))
    scopes = alerts(60, "fleet", "cluster eu", "cluster us", by="scope cluster")
    yield "no cluster at all is one alert more", Case(series, [scopes])
    yield "nothing was ever received", Case([], [alerts(20, "fleet", by="scope cluster")])


def trust() -> Iterable[tuple[str, Case]]:
    for measured, expected in ((0.95, ()), (0.5, (f"{UNTRUSTED} eu",))):
        series = sent(60, Sender("eu", values={names.ROLLUP_MEASURED_TIME: measured}), Sender("us"))
        yield f"{measured:.0%} of the time is measured", Case(series, [fires(60, *expected)])
    # A quiet cluster has a low coverage without any fault, and a new one has not seen a day.
    low: dict[str, Any] = {names.ROLLUP_JUDGED_MINUTES: 0.05}
    series = sent(
        120,
        Sender("busy", values=low),
        Sender("quiet", values=low | {names.ROLLUP_EVENTS: 1.0}),
        Sender("sometimes", values=low | {names.ROLLUP_EVENTS: lambda m: EVENTS_A_SECOND * (m % 60 > 0)}),
        Sender("new", values=low | {names.ROLLUP_RECORDED: lambda minute: minute * 60.0}),
    )
    yield "only a cluster that is busy all day needs coverage", Case(series, [fires(120, f"{UNTRUSTED} busy")])


def replicas() -> Iterable[tuple[str, Case]]:
    series = sent(10, Sender("eu", "a", late_rollup(0.5)), Sender("eu", "b", late_rollup(0.5)), Sender("us", "a"))
    queries = [
        value(10, f"sum({of('eu', names.in_fleet(names.ROLLUP_INSTANCES))})", 3.0),
        value(10, f"count({names.FLEET_REPORTING})", 2),
        value(10, f"count({names.in_fleet(names.rollup_burn_rate('1h'))})", 2),
        value(10, f'count(ALERTS{{alertname="{BURN}",alertstate="firing"}})', 1),
    ]
    yield "two replicas are one cluster", Case(series, queries)
    # One that has just started knows neither the day nor the long windows.
    new = {names.ROLLUP_RECORDED: 600.0, names.ROLLUP_GOOD_MINUTES: 0.0, names.ROLLUP_JUDGED_MINUTES: 0.01}
    series = sent(10, Sender("eu", "a", late_rollup(0.9) | new), Sender("eu", "b", {names.ROLLUP_GOOD_MINUTES: 0.97}))
    good = names.in_fleet(names.ROLLUP_GOOD_MINUTES)
    queries = [value(10, good, 0.97, of("eu", good)), fires(10)]
    yield "the one that has recorded for longest is read", Case(series, queries)
    recorded = names.in_fleet(names.ROLLUP_RECORDED)
    series = sent(60, Sender("eu", "a", ends=20), Sender("eu", "b", {names.ROLLUP_RECORDED: 7200.0}))
    queries = [value(19, recorded, 259_200.0, of("eu", recorded)), value(30, recorded, 7200.0, of("eu", recorded))]
    yield "the other one is read when the first one ends", Case(series, [*queries, fires(60)])
    # Its rollup has no recorded seconds then.
    blind = {names.ROLLUP_RECORDED: None, names.ROLLUP_INSTANCES: None, names.ROLLUP_VIOLATIONS: 7.0}
    violations = names.in_fleet(names.ROLLUP_VIOLATIONS)
    series = sent(30, Sender("eu", "a", blind), Sender("eu", "b"))
    queries = [value(10, violations, 0.0, of("eu", violations)), fires(30)]
    yield "one that scrapes no instance is not read", Case(series, queries)
    # Federation attaches the job and the instance of the Prometheus from which it reads.
    federated = [
        Sender("eu", one, labels={"job": "federate", "instance": f"prometheus-{one}:9090"}) for one in ("a", "b")
    ]
    one_known = value(10, f"count({names.FLEET_REPLICA})", 1)
    yield "other labels of replicas do not divide a cluster", Case(sent(10, *federated), [one_known])
    # As Thanos and Mimir give them, which remove the label themselves.
    one_reports = value(10, f"count({names.FLEET_REPORTING})", 1)
    yield "series without replicas are read as they are", Case(sent(10, Sender("eu", "")), [one_reports])


def one_prometheus_for_all_clusters() -> Iterable[tuple[str, Case]]:
    """From what instances expose to the alert on their cluster, without a way between two levels."""
    late_cluster = World(30, THREE, dict.fromkeys(THREE, late(0.5)), everywhere={"cluster": "eu"})
    series = [*late_cluster.series(), *World(30, everywhere={"cluster": "us"}).series()]
    query = alerts(30, "eu", by="cluster", of=f'alertstate="firing",alertname="{BURN}"')
    yield "it may have all rules", Case(series, [query])


SECTIONS: Mapping[Callable[[], Iterable[tuple[str, Case]]], Rules] = {
    rollup: CLUSTER,
    **dict.fromkeys((burning, silence, trust, replicas), GLOBAL),
    one_prometheus_for_all_clusters: EVERY,
}


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_rules_conclude_from_series(section: Callable[[], Iterable[tuple[str, Case]]], tmp_path: Path) -> None:
    assert complaints_of_test(tmp_path, SECTIONS[section], section()) == ""


def test_every_alert_of_the_global_level_has_a_case() -> None:
    assert {rule.name for rule in ALERTS} == {BURN, SILENT, UNTRUSTED}
