"""The rules in promtool: they are valid, and each alert fires when it should, and only then.

The unit tests cover how rules are generated.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.exposed import APISERVER, EVENTS, THRESHOLD, Fault, Lives, World, bad, buckets, late
from tests.support.promtool import (
    Case,
    Query,
    Rules,
    alerts,
    complaints_of_check,
    complaints_of_test,
    described,
    firing,
    rounded,
    value,
)
from watchslo.config.model import Config
from watchslo.rules import names
from watchslo.rules.pack import plain, rule_groups
from watchslo.rules.settings import RuleSettings
from watchslo.rules.windows import LENGTHS, error_budget

GOLDEN = Path(__file__).parents[1] / "golden"
THREE = ("a:9477", "b:9477", "c:9477")
AT_APISERVER = {"apiserver": APISERVER}
PODS = f'{{apiserver="{APISERVER}", resource="pods", watch="pods"}}'
DEPLOYMENTS = f'{{apiserver="{APISERVER}", group="apps", resource="deployments", watch="deployments.apps"}}'


def configured(label: str = "", **configuration: Any) -> Rules:
    return plain(Config.model_validate(configuration), RuleSettings(cluster_label=label) if label else RuleSettings())


RULES = configured()
BY_CLUSTER = configured("cluster")
SHARDED = configured(shard={"index": 0, "count": 3})
NODES = configured(mode="node", clock={"interval": "10s"})
BURN_ALERTS = {
    "groups": [one for one in RULES["groups"] if one["name"] in {"watchslo-latency", "watchslo-latency-days"}]
}
SEVERAL_OBJECTIVES = configured(
    watch=[
        {"resource": "pods", "objective": {"events": {"target": "0.999"}}},
        {"resource": "deployments.apps", "objective": {"events": {"period": "7d"}}},
        {"resource": "*"},
    ]
)
ALERTS = [rule for group in rule_groups(Config(), RuleSettings()) for rule in group.rules if rule.labels]


def gauge(name: str, given: float, since: int = 10) -> Fault:
    return Fault({name: lambda minute: given if minute >= since else 1.0 - given})


def counted(name: str, *minutes: int) -> Fault:
    return Fault({name: lambda minute: float(minute in minutes)})


def windows(**shares: float) -> dict[str, float]:
    """Return the shares of the minutes that have these verdicts."""
    return {f"watchslo_slo_windows_total{{verdict={name}}}": share for name, share in ({"good": 0.0} | shares).items()}


# --- each alert -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reason:
    """A fault that makes one alert, and no other, fire in a minute; `value` and `worst` are shown in annotations.

    `labels` distinguish alerts of one name; `by_one` means that one instance is enough. `others` fire as well.
    """

    alert: str
    fault: Fault
    minute: int
    value: str
    worst: str = "pods"
    p99: str = "unknown"
    labels: Mapping[str, str] = field(default_factory=dict)
    by_one: bool = False
    others: frozenset[str] = frozenset()
    about: Mapping[str, str] = field(default_factory=lambda: AT_APISERVER)

    @property
    def described(self) -> Mapping[str, Any]:
        (rule,) = (one for one in ALERTS if one.name == self.alert and self.labels.items() <= one.labels.items())
        return described(rule, self.about, self.value, self.worst, self.p99)


TOGETHER = frozenset({"KubeWatchClusterBadMinutes"})
# More than a hundredth of all events, but the budget burns only five times too fast. The last minute is good: promtool
# evaluates groups in any order, so the alert may not see it yet.
LITTLE = late(0.05, until=23)
RECEIVED = tuple(f"watchslo_watch_events_total{{type={type_}}}" for type_ in ("added", "modified", "deleted"))
NOT_JUDGED = windows(no_data=1.0)
IDLE = Fault({**buckets(0.0, 0.0), **dict.fromkeys(RECEIVED, 0.0), **NOT_JUDGED}, watch=None)
UNMEASURED = Fault({**buckets(0.0, 0.0), "watchslo_unmeasured_events_total": EVENTS})
SLOW_TICKS = Fault({f"watchslo_clock_tick_seconds_bucket{{le={le}}}": 0.0 for le in ("0.005", "0.5")})
TAINTED = Fault({"watchslo_tainted_seconds_total": 6.0})
STORAGE_SILENT = Fault(
    {
        "watchslo_verdict{verdict=storage_silent}": lambda minute: float(minute >= 10),
        "watchslo_verdict{verdict=good}": lambda minute: float(minute < 10),
    }
)
STORES = ("current", "stale")
VIOLATED = counted("watchslo_watch_guarantee_violations_total{guarantee=reliable}", 10)
MONITOR: dict[str, Any] = {"worst": "a:9477", "about": {}, "by_one": True}

REASONS = (
    Reason("KubeWatchLatencyBudgetBurn", late(0.5), 8, "50", p99="2.47s", labels={"long": "1h", "short": "5m"}),
    Reason(
        "KubeWatchLatencyBudgetBurn",
        late(0.1),
        80,
        "10",
        p99="2.35s",
        labels={"long": "6h", "short": "30m"},
        others=TOGETHER,
    ),
    Reason("KubeWatchLatencyBadMinutes", bad(), 20, "1"),
    Reason("KubeWatchClusterBadMinutes", LITTLE, 25, "13", labels={"scope": "apiserver"}),
    Reason("KubeWatchClusterBadMinutes", LITTLE, 25, "13", worst=APISERVER, labels={"scope": "cluster"}, about={}),
    Reason("KubeWatchStalled", gauge("watchslo_watch_stalled", 1.0), 15, "1"),
    Reason("KubeWatchStalled", counted("watchslo_stalls_total", 5, 10, 15), 20, "1"),
    Reason("KubeWatchApiserverUnresponsive", gauge("watchslo_apiserver_up", 0.0), 15, "1"),
    Reason("KubeWatchDown", gauge("watchslo_watch_up", 0.0), 25, "1"),
    Reason("KubeWatchRelistStorm", Fault({"watchslo_relists_total{reason=errors}": 0.2}), 45, "1"),
    Reason("KubeWatchExpiredLoop", Fault({"watchslo_expired_total": 0.2}), 30, "1"),
    Reason("KubeWatchGuaranteeViolated", VIOLATED, 15, "1", by_one=True),
    Reason(
        "KubeWatchGuaranteeViolated", counted("watchslo_time_travel_total", 10), 15, "1", worst="unknown", by_one=True
    ),
    Reason("KubeWatchHeadroomShort", gauge("watchslo_watch_headroom_fits", 0.0), 25, "1"),
    Reason(
        "KubeReactionSlow",
        gauge("watchslo_cause_active{cause=controller_slow}", 1.0),
        25,
        "1",
        about={"watch": "pods"},
        by_one=True,
    ),
    Reason(
        "KubeInformerStale",
        Fault({f"watchslo_informer_reads_total{{verdict={name}}}": 2.0 + 2.0 * (name == "stale") for name in STORES}),
        25,
        "66.67%",
        about={"client": "kube-scheduler"},
        by_one=True,
    ),
    Reason("KubeWatchStorageSilent", STORAGE_SILENT, 15, "1", about={}),
    Reason("WatchsloClockSlow", gauge("watchslo_clock_resolution_seconds", 0.75), 25, "750ms", **MONITOR),
    Reason("KubeWatchApiserverTicksSlow", SLOW_TICKS, 20, "1"),
    Reason("WatchsloWitnessesUnreached", gauge("watchslo_witnesses_reached", 0.0), 45, "1", **MONITOR),
    Reason("WatchsloCoverageLow", Fault(NOT_JUDGED), 40, "1"),
    Reason("WatchsloCoverageLow", Fault(windows(undecided=1.0)), 40, "1"),
    Reason("WatchsloUnmeasurable", UNMEASURED, 60, "1"),
    Reason(
        "WatchsloForbidden", Fault({"watchslo_api_requests_total{code=403,kind=watch}": 1.0}), 20, "10", by_one=True
    ),
    Reason("WatchsloOverloaded", TAINTED, 30, "1", labels={"instances": "most"}, **(MONITOR | {"by_one": False})),
    Reason("WatchsloTargetDown", gauge("up", 0.0), 25, "1", **MONITOR),
    Reason("WatchsloConfigReloadFailed", gauge("watchslo_config_last_reload_successful", 0.0), 20, "1", **MONITOR),
)


def seen_by_the_only_instance() -> Iterable[tuple[str, Case]]:
    """The alert fires, with its labels and annotations."""
    for reason in REASONS:
        every = [one.described for one in REASONS if (one.alert, one.fault) == (reason.alert, reason.fault)]
        fires = alerts(reason.minute, reason.alert, *reason.others)
        series = World(reason.minute, faults={"a:9477": reason.fault}).series()
        yield reason.alert, Case(series, [fires, firing(reason.minute, reason.alert, *every)])


def seen_by_two_of_three_instances() -> Iterable[tuple[str, Case]]:
    for reason in REASONS:
        series = World(reason.minute, THREE, dict.fromkeys(THREE[:2], reason.fault)).series()
        yield reason.alert, Case(series, [alerts(reason.minute, reason.alert, *reason.others)])


def seen_by_one_of_three_instances() -> Iterable[tuple[str, Case]]:
    """An alert fires only if one instance proves the fault."""
    for reason in REASONS:
        some = {"WatchsloOverloaded"} & {reason.alert}  # some instances are
        fires = {reason.alert} if reason.by_one else some
        series = World(reason.minute, THREE, {"b:9477": reason.fault}).series()
        yield reason.alert, Case(series, [alerts(reason.minute, *fires)])


def test_every_alert_has_a_reason() -> None:
    assert {reason.alert for reason in REASONS} | {"WatchsloAbsent"} == {rule.name for rule in ALERTS}


# --- alerts in other situations ---------------------------------------------------------------------------------------


def announced(apiservers: float, watched: float) -> list[dict[str, str]]:
    """Return the series of an instance that reaches no witness, of so many announced apiservers."""
    changes = {"announced": apiservers, "reached": 0.0}
    of_witnesses: dict[str, float] = {f"watchslo_witnesses_{state}": one for state, one in changes.items()}
    return World(45, faults={"a:9477": Fault({**of_witnesses, "watchslo_apiserver_watched": watched})}).series()


def nodes(afflicted: int) -> list[dict[str, str]]:
    """Return the series of many nodes, some of which are both down and overloaded."""
    return [
        {"series": f'{name}{{job="watchslo",instance="{number}"}}', "values": f"0+{step}x30"}
        for number in range(150)
        for name, step in (
            ("up", 0 if number < afflicted else 1),
            ("watchslo_tainted_seconds_total", 6 if number < afflicted else 0),
        )
    ]


UNREACHED = "WatchsloWitnessesUnreached"
OF_NODES = 'alertstate="firing",alertname=~"WatchsloTargetDown|WatchsloOverloaded"'
OF_OVERLOAD = 'alertstate="firing",alertname="WatchsloOverloaded"'
OF_BURN = 'alertstate="firing",alertname="KubeWatchLatencyBudgetBurn"'
ENDED = {"a:9477": Lives(ends=10)}


def special_situations() -> Iterable[tuple[str, Case]]:
    yield "the service is the only announced apiserver", Case(announced(1.0, 1.0), [alerts(45)])
    yield "the only announced apiserver is not watched", Case(announced(1.0, 0.0), [alerts(45, UNREACHED)])
    yield "one of two announced apiservers is the service", Case(announced(2.0, 1.0), [alerts(45, UNREACHED)])
    yield (
        "some overloaded instances silence nothing",
        Case(World(30, THREE, {"c:9477": TAINTED}).series(), [alerts(30, "some", by="instances", of=OF_OVERLOAD)]),
    )
    # A warning that never ends is ignored.
    yield "one of many nodes may be down and overloaded", Case(nodes(1), [alerts(30, of=OF_NODES)])
    yield (
        "two of many nodes may not",
        Case(nodes(2), [alerts(30, "WatchsloOverloaded", "WatchsloTargetDown", of=OF_NODES)]),
    )
    yield "no instance is left", Case(World(40, lives=ENDED).series(), [alerts(9), alerts(40, "WatchsloAbsent")])
    burn = "KubeWatchLatencyBudgetBurn"
    yield (
        "the budget burns for a while",
        Case(
            World(85, faults={"a:9477": late(0.5, since=30, until=50)}).series(),
            [alerts(29), alerts(49, burn, *TOGETHER), alerts(85)],
        ),
    )


def young() -> Iterable[tuple[str, Case]]:
    """In a cluster that is minutes old, a fault of two minutes spends a fifth of the events that are known."""
    burn = "KubeWatchLatencyBudgetBurn"
    short, lasting = ({"a:9477": late(1.0, since=12, until=until)} for until in (16, 10_000))
    over, lasts = (World(60, faults=faults).series() for faults in (short, lasting))  # two values a minute
    silent = [alerts(minute, of=OF_BURN) for minute in range(31)]
    yield "a fault of two minutes fires nothing", Case(over, silent, "30s")
    yield "one that lasts pages", Case(lasts, [alerts(12, burn, of=OF_BURN)], "30s")


def shards() -> Iterable[tuple[str, Case]]:
    """A pod that cannot be scheduled has no address to scrape, and no other instance has its watches."""
    down = dict.fromkeys(THREE, gauge("up", 0.0))
    yield "all shards are there", Case(World(25, THREE).series(), [alerts(25)])
    yield "a shard has no target", Case(World(25, THREE[:2]).series(), [alerts(25, "WatchsloTargetDown")])
    yield "all shards are down", Case(World(25, THREE, down).series(), [alerts(25, "WatchsloTargetDown")])
    # The other instances have other watches, so they cannot confirm it.
    yield "one shard is late", Case(World(25, THREE, {"b:9477": late(0.1)}).series(), [alerts(25, *TOGETHER)])


def clusters() -> Iterable[tuple[str, Case]]:
    eu, us = World(40, everywhere={"cluster": "eu"}), World(40, lives=ENDED, everywhere={"cluster": "us"})
    fires = alerts(40, "WatchsloAbsent us", by="alertname cluster")
    yield "one cluster has no instance", Case([*eu.series(), *us.series()], [fires])


def proven_verdicts() -> Iterable[tuple[str, Case]]:
    """With `mode: node`, what is late is proven: one instance of three suffices."""
    # Half of a third of the events: more than 14.4 times what the objective allows.
    half = World(10, THREE, {"b:9477": late(0.5)}).series()
    yield "half are late", Case(half, [alerts(10, "KubeWatchLatencyBudgetBurn")])


# --- no alert ---------------------------------------------------------------------------------------------------------


def silence() -> Iterable[tuple[str, Case]]:
    """No alert fires at any time."""

    def silent(every: int, world: World) -> Case:
        return Case(world.series(), [alerts(minute) for minute in range(0, world.minutes + 1, every)])

    few = {**buckets(0.0, 9 / 60), **dict.fromkeys(RECEIVED, 3 / 60), **NOT_JUDGED}
    changes = {"old:9477": Lives(ends=60), "new:9477": Lives(begins=63)}
    burst: dict[str, Callable[[int], float]] = {
        **dict.fromkeys(RECEIVED, lambda minute: 2000.0 * (minute % 5 == 0)),
        "watchslo_slo_windows_total{verdict=good}": lambda minute: float(minute % 5 == 0),
        "watchslo_slo_windows_total{verdict=no_data}": lambda minute: float(minute % 5 != 0),
    }
    one: Mapping[str, Fault] = {
        "one stall that ended": counted("watchslo_stalls_total", 20),
        "relists after a rolling restart": counted("watchslo_relists_total{reason=expired}", 20, 25, 30),
        "optional rights are missing": Fault({"watchslo_api_requests_total{code=403,kind=discovery}": 1.0}),
    }
    yield "healthy instances", silent(10, World(120, THREE))
    yield "an idle cluster", silent(10, World(120, faults={"a:9477": IDLE}))
    # Each of three instances sees the same nine events in an hour: more than ten together, but no trend.
    yield "few late events", silent(5, World(60, THREE, dict.fromkeys(THREE, Fault(few, watch=None))))
    restarts = {"a:9477": Lives(restarts=60)}
    yield "resets of counters", silent(2, World(90, faults={"a:9477": late(0.005)}, lives=restarts))
    # One instance ends, and another one starts three minutes later.
    yield "a rollout", silent(2, World(120, tuple(changes), lives=changes))
    # Few minutes have a verdict, which is no fault.
    yield "bursts of events", silent(5, World(120, faults={"a:9477": Fault(burst)}))
    for name, fault in one.items():
        yield name, silent(2, World(60, faults={"a:9477": fault}))


# --- history ----------------------------------------------------------------------------------------------------------


def recorded(minutes: int, late_share: float, gap: tuple[int, int] = (0, 0)) -> list[dict[str, str]]:
    """Return the recorded rates of one late instance since minute 0; they are missing in `gap` (begin, length).

    To record those of a day takes promtool minutes.
    """
    labels = f'{{apiserver="{APISERVER}",group="",resource="pods",watch="pods"}}'
    rates = {
        names.EVENTS: EVENTS / 60,
        names.LATE_EVENTS: late_share * EVENTS / 60,
        names.INSTANCES: 1.0,
        names.LATE_INSTANCES: 1.0,
        **{names.burn_rate(window): late_share / error_budget(Config().objective) for window in LENGTHS},
    }
    begin, length = gap
    missing = f"{{0}}x{begin - 1} _x{length} " if length else ""
    shape = f"{missing}{{0}}x{minutes - begin - length}"
    series = {name: shape.format(rate) for name, rate in rates.items()} | {THRESHOLD: f"1x{minutes}"}
    return [{"series": f"{name}{labels}", "values": values} for name, values in series.items()]


def burning(minute: int, *long: str) -> Query:
    """Expect burn alerts of these long windows, pending or firing, and no others."""
    return alerts(minute, *long, by="long", of='alertname="KubeWatchLatencyBudgetBurn"')


def long_windows() -> Iterable[tuple[str, Case]]:
    """The `for` of an alert begins when its long window has enough history."""
    for share, minute, long, short, shown in ((0.05, 425, "1d", "2h", "5"), (0.025, 1630, "3d", "6h", "2.5")):
        (rule,) = (one for one in ALERTS if {"long": long, "short": short}.items() <= one.labels.items())
        fires = firing(minute, rule.name, described(rule, AT_APISERVER, shown, "pods"))
        yield f"the burn rate of {long}", Case(recorded(minute, share), [fires])
    # The budget burns ten times too fast from the first minute on.
    since = {58: (), 62: ("6h",), 356: ("6h",), 364: ("1d", "6h"), 1436: ("1d", "6h"), 1444: ("1d", "3d", "6h")}
    yield (
        "each window waits for more history than the next shorter one has",
        Case(recorded(1444, 0.1), [burning(minute, *long) for minute, long in since.items()]),
    )
    yield (
        "a gap delays an alert only by its length",
        Case(recorded(90, 0.1, gap=(30, 20)), [burning(78), burning(82, "6h")]),
    )


def renamed_instance() -> Iterable[tuple[str, Case]]:
    lives = {"old:9477": Lives(ends=40), "new:9477": Lives(begins=43)}
    world = World(68, tuple(lives), dict.fromkeys(lives, late(0.1)), lives)
    yield "its successor continues the history", Case(world.series(), [burning(58), burning(68, "6h")])


# --- recorded values --------------------------------------------------------------------------------------------------


def several_objectives() -> Iterable[tuple[str, Case]]:
    burn = names.burn_rate("5m")
    queries = [
        value(20, f'round({burn}{{watch="{watch}"}})', rate, labels)
        for watch, rate, labels in (("pods", 500, PODS), ("deployments.apps", 50, DEPLOYMENTS))
    ]
    half = Fault(buckets(EVENTS / 2), watch=None)
    yield "each watch has its target", Case(World(20, faults={"a:9477": half}).series(), queries)
    left = {"pods": (-4.0, PODS), "deployments.apps": (0.5, DEPLOYMENTS)}
    periods = [
        value(60, f'round({names.BUDGET_REMAINING}{{watch="{watch}"}}, 0.01)', *expected)
        for watch, expected in left.items()
    ]
    little = Fault(buckets(0.995 * EVENTS), watch=None)
    yield "each budget has its period", Case(World(60, faults={"a:9477": little}).series(), periods)


def of_pods(name: str) -> str:
    return f'{name}{{watch="pods"}}'


def recorded_values() -> Iterable[tuple[str, Case]]:
    world = World(120, THREE, dict.fromkeys(THREE, late(0.005)))
    expected: dict[str, float | None] = {
        **{names.late_ratio(window): 0.005 for window in (*LENGTHS, "30d")},
        **{names.burn_rate(window): 0.5 for window in LENGTHS},
        names.BUDGET_REMAINING: 0.5,
        names.GOOD_WINDOWS: 1.0,
        names.GOOD_WINDOWS_AT_WORST: 1.0,
        names.EVENTS: 3 * EVENTS / 60,
        names.LATE_EVENTS: 3 * 0.005 * EVENTS / 60,
        names.INSTANCES: 3.0,
        names.timespan(0.5): 0.5 * 0.5 / 0.995,
    }
    queries = rounded(120, {of_pods(name): one for name, one in expected.items()}, PODS)
    yield "values follow from the input", Case(world.series(), queries)

    # Of each instance, a tenth of the minutes is bad and a half undecided: those spend nothing.
    fault = Fault(windows(good=0.4, bad=0.1, undecided=0.5))
    shares = {of_pods(names.GOOD_WINDOWS): 0.8, of_pods(names.GOOD_WINDOWS_AT_WORST): 0.4}
    coverage = f'{of_pods(names.JUDGED_WINDOWS)} / on(apiserver) {names.JUDGED_WINDOWS}{{watch!="pods"}}'
    queries = [*rounded(120, shares, PODS), *rounded(120, {coverage: 0.5}, f'{{apiserver="{APISERVER}"}}')]
    yield "undecided minutes", Case(World(120, THREE, dict.fromkeys(THREE, fault)).series(), queries)

    absent = [*map(names.late_ratio, LENGTHS), *map(names.burn_rate, LENGTHS), names.BUDGET_REMAINING]
    absent += [names.GOOD_WINDOWS, names.GOOD_WINDOWS_AT_WORST, *map(names.timespan, (0.5, 0.9, 0.99, 0.999))]
    idle = World(60, faults={"a:9477": IDLE}).series()
    yield "unknown values are absent", Case(idle, [value(60, name, None) for name in absent])


def together(world: World, **expected: float | None) -> Case:
    """Expect values of the series of the cluster and of the apiserver."""
    named: Mapping[str, Callable[[str], str]] = {
        "good_minute": names.good_minute,
        "good_minutes": names.good_minutes,
        "judged_minutes": names.judged_minutes,
        "p99": lambda level: names.cluster_timespan(level, 0.99, "rate1m"),
        "worst_p99": lambda level: names.cluster_timespan(level, 0.99, "max1d"),
        "p999": lambda level: names.cluster_timespan(level, 0.999, "rate1d"),
    }
    levels = {"cluster": "{}", "apiserver": f'{{apiserver="{APISERVER}"}}'}
    queries = [
        query
        for level, labels in levels.items()
        for query in rounded(world.minutes, {named[name](level): one for name, one in expected.items()}, labels)
    ]
    return Case(world.series(), queries)


def all_watches() -> Iterable[tuple[str, Case]]:
    """All watches together: of the cluster, and of each apiserver."""
    # Of three instances with two watches, one watch of one instance is late with a third of its events. Those are 5% of
    # all events of such a minute, and 2.5% of all events of the time. The P99 is above 0.04 earlier late ones.
    one_late = World(120, THREE, {"a:9477": late(0.3, since=60)})
    yield "instances and watches are added up", together(one_late, good_minute=0.0, p99=2.2, worst_p99=2.2)

    # In every second hour there are no events, so nothing is judged; a quarter of the other minutes is bad.
    def of(minute: int, share: float = 0.0) -> float:
        return 0.0 if minute // 60 % 2 else EVENTS * (1 - share * (minute % 4 == 0))

    half = World(120, faults={"a:9477": Fault(buckets(lambda minute: of(minute, 0.1), of), watch=None)})
    yield "share of judged minutes", together(half, good_minutes=0.75, judged_minutes=60 / 1440, good_minute=None)

    few = World(60, faults={"a:9477": Fault(buckets(0.0, 40.0), watch=None)})
    unknown = dict.fromkeys(("good_minute", "good_minutes", "judged_minutes", "p99", "worst_p99"))
    yield "few events, all late, are not judged", together(few, **unknown)

    restarted = World(120, faults={"a:9477": late(0.015)}, lives={"a:9477": Lives(restarts=60)})
    yield "a restart makes no minute bad", together(restarted, good_minutes=1.0)
    for events, p999 in ((8.0, 1 + 1.5 * 0.999), (7.0, None)):
        of_day = World(66, faults={"a:9477": Fault(buckets(0.0, events), watch=None)})
        yield f"a P999 of {events:g} events a minute needs a thousand", together(of_day, p999=p999)


# --- promtool ---------------------------------------------------------------------------------------------------------


SECTIONS: Mapping[Callable[[], Iterable[tuple[str, Case]]], Rules] = {
    **dict.fromkeys((seen_by_the_only_instance, seen_by_two_of_three_instances, seen_by_one_of_three_instances), RULES),
    **dict.fromkeys((special_situations, young, silence, recorded_values, all_watches, renamed_instance), RULES),
    shards: SHARDED,
    clusters: BY_CLUSTER,
    proven_verdicts: NODES,
    long_windows: BURN_ALERTS,
    several_objectives: SEVERAL_OBJECTIVES,
}


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_rules_conclude_from_series(section: Callable[[], Iterable[tuple[str, Case]]], tmp_path: Path) -> None:
    assert complaints_of_test(tmp_path, SECTIONS[section], section()) == ""


@pytest.mark.parametrize("form", ["plain", "prometheusrule", "shrunk", "node", "fleet-cluster", "fleet-global"])
def test_promtool_finds_nothing_in_rules(form: str, tmp_path: Path) -> None:
    document = yaml.safe_load((GOLDEN / f"rules-{form}.yaml").read_text())
    document.pop("namespace", None)  # that is for Mimir
    assert complaints_of_check(tmp_path, document.get("spec", document), "--lint=all", "--lint-fatal") == ""
