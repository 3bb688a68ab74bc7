"""The rules of a fleet in promtool: what a cluster sends of itself, and what the global level concludes from it."""

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.exposed import EVENTS, LES, Fault, Lives, World, promtool_test, rendered
from tests.support.process import PATIENCE_SECONDS
from tests.support.prometheus import program
from tests.support.rollups import BUDGET, EVENTS_A_SECOND, Sender, late
from watchslo.config.model import Config
from watchslo.rules import names
from watchslo.rules.fleet import fleet_groups
from watchslo.rules.pack import rule_file, rule_groups
from watchslo.rules.rollup import rollup_groups
from watchslo.rules.settings import RuleSettings

GOLDEN = Path(__file__).parents[1] / "golden"
BUCKET = "watchslo_apiserver_timespan_seconds_bucket"
COUNT = "watchslo_apiserver_timespan_seconds_count"
THREE = ("a:9477", "b:9477", "c:9477")
CONFIG, SETTINGS = Config(), RuleSettings(cluster_label="cluster")
CLUSTER = rule_file([*rule_groups(CONFIG, RuleSettings()), *rollup_groups(CONFIG, RuleSettings())])
GLOBAL = rule_file(fleet_groups(CONFIG, SETTINGS))
ALERTS = [rule for group in fleet_groups(CONFIG, SETTINGS) for rule in group.rules if rule.labels]


def late_events(share: float, watch: str | None = "pods") -> Fault:
    """A share of the events of a watch is later than a second."""
    return Fault({f"{BUCKET}{{le={le}}}": EVENTS * (1 - share) for le in ("0.5", "1.0")}, watch=watch)


def value(minute: int, expression: str, expected: float | None, labels: str = "{}") -> dict[str, Any]:
    """Expect one series with a value, or none."""
    samples = [] if expected is None else [{"labels": labels, "value": expected}]
    return {"eval_time": f"{minute}m", "expr": expression, "exp_samples": samples}


@pytest.mark.parametrize("level", ["cluster", "global"])
def test_promtool_finds_nothing(level: str, tmp_path: Path) -> None:
    document = yaml.safe_load((GOLDEN / f"rules-fleet-{level}.yaml").read_text())
    document.pop("namespace", None)  # that is for Mimir
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(document))
    command = [program("promtool"), "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class TestRollup:
    """The rules of a cluster, on what its instances expose."""

    def recorded(self, folder: Path, world: World, expected: Mapping[str, float | None]) -> str:
        """Return the complaints unless the sums of the series have these values; None if absent."""
        queries = [value(world.minutes, f"round(sum({name}), 1e-6)", wanted) for name, wanted in expected.items()]
        return promtool_test(folder, CLUSTER, {"input_series": world.series(), "promql_expr_test": queries})

    def test_rates_are_those_of_one_instance(self, tmp_path: Path) -> None:
        """Of three instances that see the same events, half of those of one of two watches are late."""
        world = World(90, THREE, dict.fromkeys(THREE, late_events(0.5)))
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
        assert self.recorded(tmp_path, world, expected) == ""

    def test_lateness_of_a_minority_of_the_instances_does_not_count(self, tmp_path: Path) -> None:
        world = World(30, THREE, {"b:9477": late_events(0.5)})
        assert self.recorded(tmp_path, world, {names.ROLLUP_LATE_EVENTS: 0.0}) == ""

    def test_lateness_within_the_budget_counts(self, tmp_path: Path) -> None:
        """No instance spends its budget too fast, so none contradicts another one."""
        world = World(30, THREE, dict.fromkeys(THREE, late_events(0.005)))
        assert self.recorded(tmp_path, world, {names.ROLLUP_LATE_EVENTS: EVENTS / 60 * 0.005}) == ""

    def test_worst_watch_has_its_late_events_of_an_hour(self, tmp_path: Path) -> None:
        """Some evaluations find a sample at both ends of the hour."""
        world = World(90, THREE, dict.fromkeys(THREE, late_events(0.5)))
        worst = value(90, f"round({names.ROLLUP_WORST}, 1000)", 30 * EVENTS, '{watch="pods"}')
        test = {"input_series": world.series(), "promql_expr_test": [worst]}
        assert promtool_test(tmp_path, CLUSTER, test) == ""

    def test_rollup_has_at_most_20_series(self, tmp_path: Path) -> None:
        """There are two watches here, so one of the worst three is missing."""
        world = World(90, faults={"a:9477": late_events(0.5, watch=None)})
        count = value(90, 'count({__name__=~"rollup.+"})', 19)
        assert promtool_test(tmp_path, CLUSTER, {"input_series": world.series(), "promql_expr_test": [count]}) == ""

    def test_cluster_without_events_burns_nothing_and_is_not_judged(self, tmp_path: Path) -> None:
        idle = {f"{BUCKET}{{le={le}}}": 0.0 for le in LES} | {COUNT: 0.0}
        world = World(60, faults={"a:9477": Fault(idle, watch=None)})
        unknown = (names.rollup_burn_rate("1h"), names.rollup_burn_rate("1d"), names.ROLLUP_GOOD_MINUTES)
        expected = {names.ROLLUP_EVENTS: 0.0, names.ROLLUP_INSTANCES: 1.0, **dict.fromkeys(unknown)}
        assert self.recorded(tmp_path, world, expected) == ""

    def test_overloaded_instance_and_stopped_clock_shorten_the_measured_time(self, tmp_path: Path) -> None:
        """Of three instances one loses a tenth of its time, and the clock of another one does not tick."""
        faults = {
            "a:9477": Fault({"watchslo_tainted_seconds_total": 6.0}),
            "b:9477": Fault({"watchslo_clock_ticks_total{result=ok}": 0.0}),
        }
        expected = {
            names.ROLLUP_OVERLOADED: round(1 / 3, 6),
            names.ROLLUP_TICKING: round(2 / 3, 6),
            names.ROLLUP_MEASURED_TIME: round(2.9 / 3 * 2 / 3, 6),
        }
        assert self.recorded(tmp_path, World(30, THREE, faults), expected) == ""

    def test_instance_that_is_down_shortens_the_measured_time(self, tmp_path: Path) -> None:
        """Its last samples are forgotten; Prometheus knows its target still."""
        down = World(40, THREE, lives={"c:9477": Lives(ends=10)}).series()
        target = {"series": 'up{job="watchslo",instance="c:9477",pod="pod-of-c:9477"}', "values": "1x9 0x30"}
        series = [one for one in down if one["series"] != target["series"]] + [target]
        measured = value(40, f"round({names.ROLLUP_MEASURED_TIME}, 1e-6)", round(2 / 3, 6))
        assert promtool_test(tmp_path, CLUSTER, {"input_series": series, "promql_expr_test": [measured]}) == ""

    @pytest.mark.parametrize("fault", ["watchslo_watch_up", "watchslo_watch_stalled"])
    def test_watches_that_do_not_deliver_are_counted_if_most_instances_see_it(self, fault: str, tmp_path: Path) -> None:
        broken = Fault({fault: float(fault.endswith("stalled"))})
        world = World(20, THREE, dict.fromkeys(THREE[:2], broken))
        assert self.recorded(tmp_path, world, {names.ROLLUP_UNDELIVERED: 1.0}) == ""

    def test_violated_guarantees_of_an_hour_are_counted_once(self, tmp_path: Path) -> None:
        """Three instances see the same violation."""
        once = Fault({"watchslo_watch_guarantee_violations_total{guarantee=reliable}": lambda m: float(m == 40)})
        world = World(60, THREE, dict.fromkeys(THREE, once))
        query = value(60, f"round({names.ROLLUP_VIOLATIONS})", 1.0)
        assert promtool_test(tmp_path, CLUSTER, {"input_series": world.series(), "promql_expr_test": [query]}) == ""

    def test_instances_have_their_most_frequent_version(self, tmp_path: Path) -> None:
        world = World(10, THREE).series()
        newer = [
            {**one, "series": one["series"].replace("1.2.3", "1.3.0")} if "c:9477" in one["series"] else one
            for one in world
        ]
        query = value(10, names.ROLLUP_INSTANCES, 3.0, f'{names.ROLLUP_INSTANCES}{{version="1.2.3"}}')
        assert promtool_test(tmp_path, CLUSTER, {"input_series": newer, "promql_expr_test": [query]}) == ""

    def test_prometheus_without_instances_sends_nothing_of_the_present(self, tmp_path: Path) -> None:
        world = World(40, lives={"a:9477": Lives(ends=10)})
        gone = (names.ROLLUP_INSTANCES, names.ROLLUP_EVENTS, names.ROLLUP_RECORDED, names.ROLLUP_MEASURED_TIME)
        assert self.recorded(tmp_path, world, dict.fromkeys(gone)) == ""


def alerts(minute: int, *expected: str) -> dict[str, Any]:
    """Expect firing alerts, each as `NAME CLUSTER`, and no others."""
    samples = [
        {"labels": f'{{alertname="{name}", cluster="{cluster}"}}', "value": 1}
        for name, _, cluster in (one.partition(" ") for one in expected)
    ]
    firing = 'group by (alertname, cluster) (ALERTS{alertstate="firing"})'
    return {"eval_time": f"{minute}m", "expr": firing, "exp_samples": samples}


def complaints(folder: Path, senders: Iterable[Sender], minutes: int, *queries: Mapping[str, Any]) -> str:
    series = [one for sender in senders for one in sender.series(minutes)]
    of_alerts = [query for query in queries if "alertname" in query]
    others = [query for query in queries if "alertname" not in query]
    test = {"input_series": series, "promql_expr_test": others, "alert_rule_test": of_alerts}
    return promtool_test(folder, GLOBAL, test)


def of(cluster: str, name: str, **labels: str) -> str:
    shown = "".join(f', {key}="{text}"' for key, text in labels.items())
    return f'{name}{{cluster="{cluster}"{shown}}}'


class TestBurning:
    @pytest.mark.parametrize(
        ("share", "minute", "windows"), [(0.2, 10, ("1h", "5m")), (0.1, 30, ("6h", "30m")), (0.03, 230, ("3d", "6h"))]
    )
    def test_cluster_that_burns_is_named_with_its_worst_watch(
        self, share: float, minute: int, windows: tuple[str, str], tmp_path: Path
    ) -> None:
        wanted = {"long": windows[0], "short": windows[1]}
        (rule,) = (rule for rule in ALERTS if wanted.items() <= rule.labels.items())
        said = {
            key: rendered(text, {"cluster": "eu"}, f"{share / BUDGET:g}", "pods")
            for key, text in rule.annotations.items()
        }
        firing = [{"exp_labels": {**rule.labels, "cluster": "eu"}, "exp_annotations": said}]
        expected = {"eval_time": f"{minute}m", "alertname": rule.name, "exp_alerts": firing}
        senders = Sender("eu", values=late(share)), Sender("us")
        assert complaints(tmp_path, senders, minute, expected, alerts(minute, "WatchFleetBudgetBurn eu")) == ""

    def test_alert_resolves_when_nothing_is_late_any_more(self, tmp_path: Path) -> None:
        over = {name: lambda m, at=change: at(m) * (m < 20) for name, change in late(0.5).items()}
        queries = alerts(10, "WatchFleetBudgetBurn eu"), alerts(30)
        assert complaints(tmp_path, [Sender("eu", values=over)], 30, *queries) == ""

    def test_few_late_events_do_not_page(self, tmp_path: Path) -> None:
        """Nine in an hour are not a trend, though all of the events are late."""
        rare = late(1.0) | {
            names.ROLLUP_EVENTS: 9 / 3600,
            names.ROLLUP_LATE_EVENTS: 9 / 3600,
            names.ROLLUP_ALLOWED_EVENTS: 9 / 3600 * BUDGET,
        }
        assert complaints(tmp_path, [Sender("eu", values=rare)], 60, alerts(10), alerts(60)) == ""

    def test_long_windows_need_history(self, tmp_path: Path) -> None:
        new = late(0.1) | {names.ROLLUP_RECORDED: lambda minute: minute * 60.0}
        queries = alerts(55), alerts(90, "WatchFleetBudgetBurn eu")
        assert complaints(tmp_path, [Sender("eu", values=new)], 90, *queries) == ""

    def test_lateness_of_overloaded_instances_does_not_page(self, tmp_path: Path) -> None:
        overloaded = late(0.5) | {names.ROLLUP_OVERLOADED: 0.6}
        assert complaints(tmp_path, [Sender("eu", values=overloaded)], 20, alerts(20)) == ""


class TestSilence:
    def test_silent_cluster_is_neither_good_nor_bad(self, tmp_path: Path) -> None:
        """Ten minutes after its last value is forgotten, an alert fires; the other cluster is as before."""
        senders = Sender("eu", ends=30, values=late(0.5)), Sender("us")
        left = [name for name in map(names.in_fleet, ROLLUP) if name != names.in_fleet(names.ROLLUP_WORST)]
        queries = [
            value(29, names.FLEET_REPORTING + '{cluster="eu"}', 1, of("eu", names.FLEET_REPORTING)),
            value(45, names.FLEET_REPORTING + '{cluster="eu"}', 0, of("eu", names.FLEET_REPORTING)),
            *(value(45, f'{name}{{cluster="eu"}}', None) for name in left),
            *(value(45, f'count({name}{{cluster="us"}})', 1) for name in left),
            alerts(29, "WatchFleetBudgetBurn eu"),
            alerts(40),
            alerts(50, "WatchsloClusterSilent eu"),
        ]
        assert complaints(tmp_path, senders, 50, *queries) == ""

    def test_silence_is_described(self, tmp_path: Path) -> None:
        (rule,) = (
            rule for rule in ALERTS if rule.name == "WatchsloClusterSilent" and rule.labels["scope"] == "cluster"
        )
        said = {key: rendered(text, {"cluster": "eu"}, "0", "") for key, text in rule.annotations.items()}
        firing = [{"exp_labels": {**rule.labels, "cluster": "eu"}, "exp_annotations": said}]
        expected = {"eval_time": "60m", "alertname": rule.name, "exp_alerts": firing}
        assert complaints(tmp_path, [Sender("eu", ends=30), Sender("us")], 60, expected) == ""

    def test_cluster_that_returns_is_not_silent(self, tmp_path: Path) -> None:
        senders = Sender("eu", ends=30), Sender("eu", begins=70), Sender("us")
        series = [one for sender in senders[:1] for one in sender.series(90)]
        again = {one["series"]: one["values"].split() for one in senders[1].series(90)}
        for one in series:
            values = zip(one["values"].split(), again[one["series"]], strict=True)
            one["values"] = " ".join(new if old == "_" else old for old, new in values)
        series += senders[2].series(90)
        queries = [alerts(60, "WatchsloClusterSilent eu"), alerts(90)]
        assert promtool_test(tmp_path, GLOBAL, {"input_series": series, "promql_expr_test": queries}) == ""

    def test_cluster_that_is_gone_for_a_day_is_forgotten(self, tmp_path: Path) -> None:
        senders = Sender("eu", ends=10), Sender("us")
        queries = alerts(1430, "WatchsloClusterSilent eu"), alerts(1470)
        assert complaints(tmp_path, senders, 1470, *queries) == ""

    def test_cluster_that_was_never_there_is_not_known(self, tmp_path: Path) -> None:
        assert (
            complaints(tmp_path, [Sender("us")], 60, value(60, f"count({names.FLEET_REPORTING})", 1), alerts(60)) == ""
        )

    def test_no_cluster_at_all_is_one_alert_more(self, tmp_path: Path) -> None:
        firing = 'group by (scope, cluster) (ALERTS{alertstate="firing"})'
        samples = [
            {"labels": '{scope="fleet"}', "value": 1},
            *({"labels": f'{{scope="cluster", cluster="{one}"}}', "value": 1} for one in ("eu", "us")),
        ]
        query = {"eval_time": "60m", "expr": firing, "exp_samples": samples}
        assert complaints(tmp_path, [Sender("eu", ends=20), Sender("us", ends=20)], 60, query) == ""

    def test_global_level_that_never_got_anything_says_so(self, tmp_path: Path) -> None:
        query = {
            "eval_time": "20m",
            "expr": 'group by (scope) (ALERTS{alertstate="firing"})',
            "exp_samples": [{"labels": '{scope="fleet"}', "value": 1}],
        }
        assert complaints(tmp_path, [], 20, query) == ""


class TestTrust:
    @pytest.mark.parametrize(("measured", "firing"), [(0.95, ()), (0.5, ("WatchsloClusterUntrusted eu",))])
    def test_time_that_is_not_measured_cannot_be_trusted(
        self, measured: float, firing: tuple[str, ...], tmp_path: Path
    ) -> None:
        senders = Sender("eu", values={names.ROLLUP_MEASURED_TIME: measured}), Sender("us")
        assert complaints(tmp_path, senders, 60, alerts(60, *firing)) == ""

    def test_coverage_of_a_cluster_that_is_busy_all_day_may_not_be_low(self, tmp_path: Path) -> None:
        """A quiet cluster has a low coverage without any fault, and a new one has not seen a day."""
        low: dict[str, Any] = {names.ROLLUP_JUDGED_MINUTES: 0.05}
        senders = (
            Sender("busy", values=low),
            Sender("quiet", values=low | {names.ROLLUP_EVENTS: 1.0}),
            Sender("sometimes", values=low | {names.ROLLUP_EVENTS: lambda m: EVENTS_A_SECOND * (m % 60 > 0)}),
            Sender("new", values=low | {names.ROLLUP_RECORDED: lambda minute: minute * 60.0}),
        )
        assert complaints(tmp_path, senders, 120, alerts(120, "WatchsloClusterUntrusted busy")) == ""


class TestReplicas:
    def test_two_replicas_are_one_cluster(self, tmp_path: Path) -> None:
        senders = Sender("eu", "a", late(0.5)), Sender("eu", "b", late(0.5)), Sender("us", "a")
        queries = [
            value(10, f'sum({names.in_fleet(names.ROLLUP_INSTANCES)}{{cluster="eu"}})', 3.0),
            value(10, f"count({names.FLEET_REPORTING})", 2),
            value(10, f"count({names.in_fleet(names.rollup_burn_rate('1h'))})", 2),
            value(10, 'count(ALERTS{alertname="WatchFleetBudgetBurn",alertstate="firing"})', 1),
        ]
        assert complaints(tmp_path, senders, 10, *queries) == ""

    def test_replica_that_has_recorded_for_longest_is_read(self, tmp_path: Path) -> None:
        """One that has just started knows neither the day nor the long windows."""
        new = {names.ROLLUP_RECORDED: 600.0, names.ROLLUP_GOOD_MINUTES: 0.0} | {names.ROLLUP_JUDGED_MINUTES: 0.01}
        senders = Sender("eu", "a", late(0.9) | new), Sender("eu", "b", {names.ROLLUP_GOOD_MINUTES: 0.97})
        good = names.in_fleet(names.ROLLUP_GOOD_MINUTES)
        queries = value(10, good, 0.97, of("eu", good)), alerts(10)
        assert complaints(tmp_path, senders, 10, *queries) == ""

    def test_other_replica_is_read_when_the_first_one_ends(self, tmp_path: Path) -> None:
        senders = Sender("eu", "a", ends=20), Sender("eu", "b", {names.ROLLUP_RECORDED: 7200.0})
        recorded = names.in_fleet(names.ROLLUP_RECORDED)
        queries = (
            value(19, recorded, 259_200.0, of("eu", recorded)),
            value(30, recorded, 7200.0, of("eu", recorded)),
            alerts(60),
        )
        assert complaints(tmp_path, senders, 60, *queries) == ""

    def test_replica_that_scrapes_no_instance_is_not_read(self, tmp_path: Path) -> None:
        """Its rollup has no recorded seconds then."""
        blind = {names.ROLLUP_RECORDED: None, names.ROLLUP_INSTANCES: None, names.ROLLUP_VIOLATIONS: 7.0}
        violations = names.in_fleet(names.ROLLUP_VIOLATIONS)
        queries = value(10, violations, 0.0, of("eu", violations)), alerts(30)
        assert complaints(tmp_path, (Sender("eu", "a", blind), Sender("eu", "b")), 30, *queries) == ""

    def test_other_labels_of_replicas_do_not_divide_a_cluster(self, tmp_path: Path) -> None:
        """Federation attaches the job and the instance of the Prometheus from which it reads."""
        senders = [
            Sender("eu", replica, labels={"job": "federate", "instance": f"prometheus-{replica}:9090"})
            for replica in ("a", "b")
        ]
        assert complaints(tmp_path, senders, 10, value(10, f"count({names.FLEET_REPLICA})", 1)) == ""

    def test_series_without_replicas_are_read_as_they_are(self, tmp_path: Path) -> None:
        """As Thanos and Mimir give them, which remove the label themselves."""
        query = value(10, f"count({names.FLEET_REPORTING})", 1)
        assert complaints(tmp_path, [Sender("eu", "")], 10, query) == ""


def test_one_prometheus_that_scrapes_all_clusters_may_have_all_rules(tmp_path: Path) -> None:
    """From what instances expose to the alert on their cluster, without a way between two levels."""
    make = rule_groups, rollup_groups, fleet_groups
    rules = rule_file(group for groups in make for group in groups(CONFIG, SETTINGS))
    series = [
        *World(30, THREE, dict.fromkeys(THREE, late_events(0.5)), everywhere={"cluster": "eu"}).series(),
        *World(30, everywhere={"cluster": "us"}).series(),
    ]
    firing = 'group by (cluster) (ALERTS{alertstate="firing",alertname="WatchFleetBudgetBurn"})'
    burning = value(30, firing, 1, '{cluster="eu"}')
    assert promtool_test(tmp_path, rules, {"input_series": series, "promql_expr_test": [burning]}) == ""


def test_every_alert_of_the_global_level_has_a_case() -> None:
    assert {rule.name for rule in ALERTS} == {
        "WatchFleetBudgetBurn",
        "WatchsloClusterSilent",
        "WatchsloClusterUntrusted",
    }


ROLLUP = tuple(rule.name for group in rollup_groups(CONFIG, RuleSettings()) for rule in group.rules)
