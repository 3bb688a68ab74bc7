"""The rules in promtool and Prometheus: they are valid, and each alert fires when it should, and only then.

The unit tests cover how rules are generated.
"""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.rules import evaluate
from tests.support.exposed import APISERVER, EVENTS, LES, Fault, Lives, World, promtool_test, rendered
from tests.support.process import PATIENCE_SECONDS
from tests.support.prometheus import program
from watchslo.config.model import Config
from watchslo.rules import names
from watchslo.rules.pack import plain, rule_groups
from watchslo.rules.settings import RuleSettings
from watchslo.rules.windows import LENGTHS, error_budget

Expected = Mapping[int, set[str]]
"""The names of the alerts that fire, by minute."""
CONFIG = Config()
GOLDEN = Path(__file__).parents[1] / "golden"
THREE = ("a:9477", "b:9477", "c:9477")
BUCKET = "watchslo_apiserver_timespan_seconds_bucket"
COUNT = "watchslo_apiserver_timespan_seconds_count"


def late(share: float, *, since: int = 0, until: int = 10_000) -> Fault:
    """A share of the events is later than a second, and so is the P99 of each minute."""

    def in_time(minute: int) -> float:
        return EVENTS * (1 - share * (since <= minute < until))

    return Fault({f"{BUCKET}{{le={le}}}": in_time for le in ("0.5", "1.0")})


def bad(since: int = 0) -> Fault:
    """The P99 of each minute is over the threshold, but few events are late, so the budget hardly burns."""
    return Fault(
        {
            "watchslo_slo_windows_total{verdict=bad}": lambda minute: float(minute >= since),
            "watchslo_slo_windows_total{verdict=good}": lambda minute: float(minute < since),
        }
    )


def gauge(name: str, value: float, since: int = 10) -> Fault:
    return Fault({name: lambda minute: value if minute >= since else 1.0 - value})


def counted(name: str, *minutes: int) -> Fault:
    return Fault({name: lambda minute: float(minute in minutes)})


@dataclass(frozen=True)
class Case:
    """A fault that makes one alert, and no other, fire in a minute; `value` and `worst` are shown in annotations.

    `labels` distinguish alerts of one name; `by_one` means that one instance is enough. `others` fire as well.
    """

    alert: str
    fault: Fault
    minute: int
    value: str
    worst: str = "pods"
    labels: Mapping[str, str] = field(default_factory=dict)
    by_one: bool = False
    others: frozenset[str] = frozenset()
    about: Mapping[str, str] = field(default_factory=lambda: {"apiserver": APISERVER})


TOGETHER = frozenset({"WatchClusterBadMinutes"})
# More than a hundredth of all events, but the budget burns only five times too fast. The last minute is good: promtool
# evaluates groups in any order, so the alert may not see it yet.
LITTLE = late(0.05, until=23)
UNMEASURED = {f"{BUCKET}{{le={le}}}": 0.0 for le in LES} | {COUNT: 0.0, "watchslo_unmeasured_events_total": EVENTS}
NOT_JUDGED = {"watchslo_slo_windows_total{verdict=good}": 0.0, "watchslo_slo_windows_total{verdict=no_data}": 1.0}
UNDECIDED = {"watchslo_slo_windows_total{verdict=good}": 0.0, "watchslo_slo_windows_total{verdict=undecided}": 1.0}
SLOW_TICKS = {f"watchslo_clock_tick_seconds_bucket{{le={le}}}": 0.0 for le in ("0.005", "0.5")}
MONITOR: dict[str, Any] = {"worst": "a:9477", "about": {}, "by_one": True}

CASES = (
    Case("WatchLatencyBudgetBurn", late(0.5), 8, "50", labels={"long": "1h", "short": "5m"}),
    Case("WatchLatencyBudgetBurn", late(0.1), 80, "10", labels={"long": "6h", "short": "30m"}, others=TOGETHER),
    Case("WatchLatencyBadMinutes", bad(), 20, "1"),
    Case("WatchClusterBadMinutes", LITTLE, 25, "13", labels={"scope": "apiserver"}),
    Case("WatchClusterBadMinutes", LITTLE, 25, "13", worst=APISERVER, labels={"scope": "cluster"}, about={}),
    Case("WatchStalled", gauge("watchslo_watch_stalled", 1.0), 15, "1"),
    Case("WatchStalled", counted("watchslo_stalls_total", 5, 10, 15), 20, "1"),
    Case("WatchApiserverUnresponsive", gauge("watchslo_apiserver_up", 0.0), 15, "1"),
    Case("WatchDown", gauge("watchslo_watch_up", 0.0), 25, "1"),
    Case("WatchRelistStorm", Fault({"watchslo_relists_total{reason=errors}": 0.2}), 45, "1"),
    Case("WatchExpiredLoop", Fault({"watchslo_expired_total": 0.2}), 30, "1"),
    Case(
        "WatchGuaranteeViolated",
        counted("watchslo_watch_guarantee_violations_total{guarantee=reliable}", 10),
        15,
        "1",
        by_one=True,
    ),
    Case("WatchGuaranteeViolated", counted("watchslo_time_travel_total", 10), 15, "1", worst="unknown", by_one=True),
    Case("WatchHistoryShort", gauge("watchslo_watch_history_fits", 0.0), 25, "1"),
    Case("WatchsloClockStopped", Fault({"watchslo_clock_ticks_total{result=ok}": 0.0}), 10, "1"),
    Case("WatchsloClockSlow", gauge("watchslo_clock_resolution_seconds", 0.75), 25, "750ms", **MONITOR),
    Case("WatchApiserverTicksSlow", Fault(SLOW_TICKS), 20, "1"),
    Case("WatchsloWitnessesUnreached", gauge("watchslo_witnesses{state=reached}", 0.0), 45, "1", **MONITOR),
    Case("WatchsloCoverageLow", Fault(NOT_JUDGED), 40, "1"),
    Case("WatchsloCoverageLow", Fault(UNDECIDED), 40, "1"),
    Case("WatchsloUnmeasurable", Fault(UNMEASURED), 60, "1"),
    Case(
        "WatchsloForbidden",
        Fault({"watchslo_api_requests_total{code=403,kind=watch}": 1.0}),
        20,
        "10",
        by_one=True,
    ),
    Case(
        "WatchsloOverloaded",
        Fault({"watchslo_tainted_seconds_total": 6.0}),
        30,
        "1",
        labels={"instances": "most"},
        **(MONITOR | {"by_one": False}),
    ),
    Case("WatchsloTargetDown", gauge("up", 0.0), 25, "1", **MONITOR),
    Case("WatchsloConfigReloadFailed", gauge("watchslo_config_last_reload_successful", 0.0), 20, "1", **MONITOR),
)
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join((case.alert, *case.labels.values())))


class TestValidity:
    @pytest.mark.parametrize("form", ["plain", "prometheusrule", "shrunk", "proven"])
    def test_promtool_finds_nothing(self, form: str, tmp_path: Path) -> None:
        document = yaml.safe_load((GOLDEN / f"rules-{form}.yaml").read_text())
        (tmp_path / "rules.yaml").write_text(yaml.safe_dump(document.get("spec", document)))
        command = [program("promtool"), "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def test_every_alert_has_a_case(self) -> None:
        assert {case.alert for case in CASES} | {"WatchsloAbsent"} == {rule.name for rule in ALERTS}


class TestAlerts:
    @each_case
    def test_fires_with_labels_and_annotations(self, case: Case, tmp_path: Path) -> None:
        firing = [firing_alert(one) for one in CASES if (one.alert, one.fault) == (case.alert, case.fault)]
        world = World(case.minute, faults={"a:9477": case.fault})
        queries = {"eval_time": f"{case.minute}m", "alertname": case.alert, "exp_alerts": firing}
        assert complaints(tmp_path, world, {case.minute: {case.alert} | case.others}, [queries]) == ""

    @each_case
    def test_fires_if_two_of_three_instances_see_it(self, case: Case, tmp_path: Path) -> None:
        world = World(case.minute, THREE, dict.fromkeys(THREE[:2], case.fault))
        assert complaints(tmp_path, world, {case.minute: {case.alert} | case.others}) == ""

    @each_case
    def test_one_of_three_instances_pages_only_for_what_it_proves(self, case: Case, tmp_path: Path) -> None:
        world = World(case.minute, THREE, {"b:9477": case.fault})
        others = {"WatchsloOverloaded"} if case.alert == "WatchsloOverloaded" else set()  # some are
        assert complaints(tmp_path, world, {case.minute: {case.alert} if case.by_one else others}) == ""

    @pytest.mark.parametrize(
        ("announced", "watched", "firing"), [(1.0, 1.0, False), (1.0, 0.0, True), (2.0, 1.0, True)]
    )
    def test_service_is_one_of_the_announced_apiservers(
        self, tmp_path: Path, announced: float, watched: float, *, firing: bool
    ) -> None:
        fault = Fault(
            {
                "watchslo_witnesses{state=announced}": announced,
                "watchslo_witnesses{state=reached}": 0.0,
                "watchslo_apiserver_watched": watched,
            }
        )
        expected = {"WatchsloWitnessesUnreached"} if firing else set()
        assert complaints(tmp_path, World(45, faults={"a:9477": fault}), {45: expected}) == ""

    def test_some_overloaded_instances_silence_nothing(self, tmp_path: Path) -> None:
        fault = Fault({"watchslo_tainted_seconds_total": 6.0})
        firing = 'group by (instances) (ALERTS{alertstate="firing",alertname="WatchsloOverloaded"})'
        some = {"eval_time": "30m", "expr": firing, "exp_samples": [{"labels": '{instances="some"}', "value": 1}]}
        world = World(30, THREE, {"c:9477": fault})
        assert promtool_test(tmp_path, RULES, {"input_series": world.series(), "promql_expr_test": [some]}) == ""

    @pytest.mark.parametrize(("afflicted", "firing"), [(1, set()), (2, {"WatchsloOverloaded", "WatchsloTargetDown"})])
    def test_one_of_many_nodes_may_be_down_or_overloaded(
        self, tmp_path: Path, afflicted: int, firing: set[str]
    ) -> None:
        """A warning that never ends is ignored."""
        series = [
            {"series": f'{name}{{job="watchslo",instance="{number}"}}', "values": f"0+{step}x30"}
            for number in range(150)
            for name, step in (
                ("up", 0 if number < afflicted else 1),
                ("watchslo_tainted_seconds_total", 6 if number < afflicted else 0),
            )
        ]
        of_ours = '{alertstate="firing",alertname=~"WatchsloTargetDown|WatchsloOverloaded"}'
        samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(firing)]
        queries = {"eval_time": "30m", "expr": f"group by (alertname) (ALERTS{of_ours})", "exp_samples": samples}
        assert promtool_test(tmp_path, RULES, {"input_series": series, "promql_expr_test": [queries]}) == ""

    @pytest.mark.parametrize(("there", "firing"), [(3, set()), (2, {"WatchsloTargetDown"})])
    def test_shard_without_a_target_is_reported(self, tmp_path: Path, there: int, firing: set[str]) -> None:
        """A pod that cannot be scheduled has no address to scrape, and no other instance has its watches."""
        rules = plain(Config.model_validate({"shard": {"index": 0, "count": 3}}), RuleSettings())
        assert complaints(tmp_path, World(25, THREE[:there]), {25: firing}, rules=rules) == ""

    def test_shards_that_are_all_down_are_reported(self, tmp_path: Path) -> None:
        rules = plain(Config.model_validate({"shard": {"index": 0, "count": 3}}), RuleSettings())
        world = World(25, THREE, faults=dict.fromkeys(THREE, gauge("up", 0.0)))
        assert complaints(tmp_path, world, {25: {"WatchsloTargetDown"}}, rules=rules) == ""

    def test_absent_fires_without_any_instance(self, tmp_path: Path) -> None:
        world = World(40, lives={"a:9477": Lives(ends=10)})
        assert complaints(tmp_path, world, {9: set(), 40: {"WatchsloAbsent"}}) == ""

    def test_absent_fires_for_one_cluster(self, tmp_path: Path) -> None:
        rules = plain(CONFIG, RuleSettings(cluster_label="cluster"))
        series = [
            *World(40, everywhere={"cluster": "eu"}).series(),
            *World(40, lives={"a:9477": Lives(ends=10)}, everywhere={"cluster": "us"}).series(),
        ]
        firing = 'group by (alertname, cluster) (ALERTS{alertstate="firing"})'
        expected = [{"labels": '{alertname="WatchsloAbsent", cluster="us"}', "value": 1}]
        queries = {"eval_time": "40m", "expr": firing, "exp_samples": expected}
        assert promtool_test(tmp_path, rules, {"input_series": series, "promql_expr_test": [queries]}) == ""

    def test_burn_alert_resolves(self, tmp_path: Path) -> None:
        late_for_a_while = late(0.5, since=30, until=50)
        burn = {"WatchLatencyBudgetBurn"}
        expected: Expected = {29: set(), 49: burn | TOGETHER, 85: set()}
        assert complaints(tmp_path, World(85, faults={"a:9477": late_for_a_while}), expected) == ""


class TestHistory:
    """Burn rates of long windows, from recorded series: to record those of a day takes promtool minutes.

    The `for` of an alert begins when its long window has enough history.
    """

    @pytest.mark.parametrize(
        ("late_share", "minute", "windows", "value"),
        [(0.05, 425, {"long": "1d", "short": "2h"}, "5"), (0.025, 1630, {"long": "3d", "short": "6h"}, "2.5")],
    )
    def test_fires_with_labels_and_annotations(
        self, late_share: float, minute: int, windows: Mapping[str, str], value: str, tmp_path: Path
    ) -> None:
        (rule,) = (rule for rule in ALERTS if windows.items() <= rule.labels.items())
        about = {"apiserver": APISERVER}
        said = {key: rendered(text, about, value, "pods") for key, text in rule.annotations.items()}
        expected = {
            "eval_time": f"{minute}m",
            "alertname": rule.name,
            "exp_alerts": [{"exp_labels": {**rule.labels, **about}, "exp_annotations": said}],
        }
        test = {"input_series": recorded(minute, late_share), "alert_rule_test": [expected]}
        assert promtool_test(tmp_path, BURN_ALERTS, test) == ""

    def test_long_windows_wait_for_more_history_than_the_next_shorter_one_has(self, tmp_path: Path) -> None:
        """The budget burns ten times too fast from the first minute on."""
        expected = {58: (), 62: ("6h",), 356: ("6h",), 364: ("1d", "6h"), 1436: ("1d", "6h"), 1444: ("1d", "3d", "6h")}
        queries = [active(minute, *windows) for minute, windows in expected.items()]
        test = {"input_series": recorded(1444, 0.1), "promql_expr_test": queries}
        assert promtool_test(tmp_path, BURN_ALERTS, test) == ""

    def test_gap_in_history_delays_an_alert_only_by_its_length(self, tmp_path: Path) -> None:
        test = {
            "input_series": recorded(90, 0.1, gap=(30, 20)),
            "promql_expr_test": [active(78), active(82, "6h")],
        }
        assert promtool_test(tmp_path, BURN_ALERTS, test) == ""

    def test_instance_with_a_new_name_continues_the_history(self, tmp_path: Path) -> None:
        lives = {"old:9477": Lives(ends=40), "new:9477": Lives(begins=43)}
        world = World(68, ("old:9477", "new:9477"), dict.fromkeys(lives, late(0.1)), lives)
        test = {"input_series": world.series(), "promql_expr_test": [active(58), active(68, "6h")]}
        assert promtool_test(tmp_path, RULES, test) == ""


class TestProven:
    """Alerts from verdicts alone, as instances with slow ticks expose them."""

    RULES = plain(Config.model_validate({"metrics": "proven", "clock": {"interval": "10s"}}), RuleSettings())

    def complaints(self, folder: Path, firing: set[str], **verdicts: float) -> str:
        """Return the complaints unless these alerts fire when one of three instances counts these verdicts."""
        named = {f"watchslo_slo_events_total{{verdict={one}}}": share * EVENTS for one, share in verdicts.items()}
        return complaints(folder, World(10, THREE, {"b:9477": Fault(named)}), {10: firing}, rules=self.RULES)

    def test_proof_of_one_instance_is_enough(self, tmp_path: Path) -> None:
        """Half of a third of the events: more than 14.4 times what the objective allows."""
        assert self.complaints(tmp_path, {"WatchLatencyBudgetBurn"}, within=0.5, beyond=0.5) == ""

    def test_uncertain_events_do_not_page(self, tmp_path: Path) -> None:
        assert self.complaints(tmp_path, set(), within=0.1, uncertain=0.9) == ""


class TestSeveralObjectives:
    """Each watch has its own objective: an event that is late for `pods` is not late for `deployments.apps`."""

    CONFIG = Config.model_validate(
        {
            "watch": [
                {"resource": "pods", "objective": {"threshold": "500ms", "events": {"target": "0.999"}}},
                {"resource": "deployments.apps", "objective": {"threshold": "2500ms", "events": {"period": "7d"}}},
                {"resource": "*"},
            ]
        }
    )

    def test_each_watch_is_late_by_its_own_threshold(self, tmp_path: Path) -> None:
        rules = plain(self.CONFIG, RuleSettings())
        half = Fault({f"{BUCKET}{{le={le}}}": EVENTS / 2 for le in ("0.5", "1.0")}, watch=None)
        names_of_late = "group by (watch) (apiserver_resource:watchslo_late_events:ratio_rate1h > 0.4)"
        queries = [
            {
                "eval_time": "20m",
                "expr": names_of_late,
                "exp_samples": [{"labels": '{watch="pods"}', "value": 1}],
            },
            {
                "eval_time": "20m",
                "expr": "count(apiserver_resource:watchslo_late_events:ratio_rate1h)",
                "exp_samples": [{"labels": "{}", "value": 2}],
            },
            {
                "eval_time": "20m",
                "expr": 'round(apiserver_resource:watchslo_error_budget:burn_rate5m{watch="pods"})',
                "exp_samples": [
                    {"labels": f'{{apiserver="{APISERVER}", resource="pods", watch="pods"}}', "value": 500}
                ],
            },
        ]
        series = World(20, faults={"a:9477": half}).series()
        assert promtool_test(tmp_path, rules, {"input_series": series, "promql_expr_test": queries}) == ""

    def test_each_budget_has_its_own_period(self, tmp_path: Path) -> None:
        rules = plain(self.CONFIG, RuleSettings())
        remaining = "round(apiserver_resource:watchslo_error_budget:remaining_ratio, 0.01)"
        of = f'apiserver="{APISERVER}", resource="{{0}}", watch="{{1}}"'
        queries = {
            "eval_time": "60m",
            "expr": remaining,
            "exp_samples": [
                {"labels": f"{{{of.format('pods', 'pods')}}}", "value": -4.0},
                {"labels": f'{{{of.format("deployments", "deployments.apps")}, group="apps"}}', "value": 1.0},
            ],
        }
        little = Fault({f"{BUCKET}{{le={le}}}": 0.995 * EVENTS for le in ("0.5", "1.0")}, watch=None)
        series = World(60, faults={"a:9477": little}).series()
        assert promtool_test(tmp_path, rules, {"input_series": series, "promql_expr_test": [queries]}) == ""


class TestSilence:
    """Situations in which no alert may fire."""

    def test_healthy_instances_do_not_page(self, tmp_path: Path) -> None:
        assert pages(tmp_path, World(240, THREE), every=10) == ""

    def test_idle_cluster_does_not_page(self, tmp_path: Path) -> None:
        idle = Fault({**NO_EVENTS, **NOT_JUDGED}, watch=None)
        assert pages(tmp_path, World(240, faults={"a:9477": idle}), every=10) == ""

    def test_few_late_events_do_not_page(self, tmp_path: Path) -> None:
        """Each of three instances sees the same nine events in an hour: more than ten together, but no trend."""
        few = {f"{BUCKET}{{le={le}}}": 0.0 for le in ("0.5", "1.0")}
        few |= {f"{BUCKET}{{le={le}}}": 9 / 60 for le in ("2.5", "+Inf")}
        few |= {COUNT: 9 / 60, **dict.fromkeys(RECEIVED, 3 / 60), **NOT_JUDGED}
        world = World(60, THREE, dict.fromkeys(THREE, Fault(few, watch=None)))
        assert pages(tmp_path, world, every=5) == ""

    def test_counter_resets_do_not_page(self, tmp_path: Path) -> None:
        world = World(120, lives={"a:9477": Lives(restarts=60)})
        assert pages(tmp_path, world, every=2) == ""

    def test_counter_resets_with_few_late_events_do_not_page(self, tmp_path: Path) -> None:
        little = late(0.005)
        world = World(120, faults={"a:9477": little}, lives={"a:9477": Lives(restarts=60)})
        assert pages(tmp_path, world, every=2) == ""

    def test_rollout_does_not_page(self, tmp_path: Path) -> None:
        """One instance ends, and another one starts three minutes later."""
        world = World(120, ("old:9477", "new:9477"), lives={"old:9477": Lives(ends=60), "new:9477": Lives(begins=63)})
        assert pages(tmp_path, world, every=2) == ""

    def test_one_stall_that_ended_does_not_page(self, tmp_path: Path) -> None:
        world = World(60, faults={"a:9477": counted("watchslo_stalls_total", 20)})
        assert pages(tmp_path, world, every=2) == ""

    def test_relists_after_a_rolling_restart_do_not_page(self, tmp_path: Path) -> None:
        fault = counted("watchslo_relists_total{reason=expired}", 20, 25, 30)
        world = World(90, faults={"a:9477": fault})
        assert pages(tmp_path, world, every=2) == ""

    def test_bursts_of_events_do_not_page(self, tmp_path: Path) -> None:
        """Few minutes have a verdict, which is no fault."""
        burst = {name: lambda minute: 2000.0 * (minute % 5 == 0) for name in RECEIVED}
        judged = {
            "watchslo_slo_windows_total{verdict=good}": lambda minute: float(minute % 5 == 0),
            "watchslo_slo_windows_total{verdict=no_data}": lambda minute: float(minute % 5 != 0),
        }
        world = World(120, faults={"a:9477": Fault({**burst, **judged})})
        assert pages(tmp_path, world, every=5) == ""

    def test_missing_optional_rights_do_not_page(self, tmp_path: Path) -> None:
        fault = Fault({"watchslo_api_requests_total{code=403,kind=discovery}": 1.0})
        assert complaints(tmp_path, World(60, faults={"a:9477": fault}), {60: set()}) == ""


class TestRecorded:
    def test_recorded_values_match_the_input(self, tmp_path: Path) -> None:
        world = World(120, THREE, dict.fromkeys(THREE, late(0.005)))
        of_pods = f'{{apiserver="{APISERVER}", resource="pods", watch="pods"}}'
        expected = {
            **{names.late_ratio(window): 0.005 for window in ("5m", "30m", "1h", "2h", "6h", "1d", "3d", "30d")},
            **{names.burn_rate(window): 0.5 for window in ("5m", "30m", "1h", "2h", "6h", "1d", "3d")},
            names.BUDGET_REMAINING: 0.5,
            names.GOOD_WINDOWS: 1.0,
            names.GOOD_WINDOWS_AT_WORST: 1.0,
            names.EVENTS: 3 * EVENTS / 60,
            names.LATE_EVENTS: 3 * 0.005 * EVENTS / 60,
            names.INSTANCES: 3.0,
            names.timespan(0.5): 0.5 * 0.5 / 0.995,
        }
        queries = [
            {
                "eval_time": "120m",
                "expr": f'round({name}{{watch="pods"}}, 1e-6)',
                "exp_samples": [{"labels": of_pods, "value": round(value, 6)}],
            }
            for name, value in expected.items()
        ]
        assert promtool_test(tmp_path, RULES, {"input_series": world.series(), "promql_expr_test": queries}) == ""

    def test_undecided_minutes_spend_nothing_and_lower_the_coverage(self, tmp_path: Path) -> None:
        """Of each instance, a tenth of the minutes is bad and a half undecided."""
        shares = {"good": 0.4, "bad": 0.1, "undecided": 0.5}
        fault = Fault({f"watchslo_slo_windows_total{{verdict={name}}}": share for name, share in shares.items()})
        world = World(120, THREE, dict.fromkeys(THREE, fault))
        of_pods = f'{{apiserver="{APISERVER}", resource="pods", watch="pods"}}'
        expected = {names.GOOD_WINDOWS: 0.8, names.GOOD_WINDOWS_AT_WORST: 0.4}
        queries = [
            {
                "eval_time": "120m",
                "expr": f'round({name}{{watch="pods"}}, 1e-6)',
                "exp_samples": [{"labels": of_pods, "value": value}],
            }
            for name, value in expected.items()
        ]
        coverage = f'{names.JUDGED_WINDOWS}{{watch="pods"}} / on(apiserver) {names.JUDGED_WINDOWS}{{watch!="pods"}}'
        queries.append(
            {
                "eval_time": "120m",
                "expr": f"round({coverage}, 1e-6)",
                "exp_samples": [{"labels": f'{{apiserver="{APISERVER}"}}', "value": 0.5}],
            }
        )
        assert promtool_test(tmp_path, RULES, {"input_series": world.series(), "promql_expr_test": queries}) == ""

    def test_unknown_values_are_absent(self, tmp_path: Path) -> None:
        idle = Fault({**NO_EVENTS, **NOT_JUDGED}, watch=None)
        absent = [*map(names.late_ratio, LENGTHS), *map(names.burn_rate, LENGTHS), names.BUDGET_REMAINING]
        absent += [names.GOOD_WINDOWS, names.GOOD_WINDOWS_AT_WORST, *map(names.timespan, (0.5, 0.9, 0.99, 0.999))]
        queries = [{"eval_time": "60m", "expr": name, "exp_samples": []} for name in absent]
        series = World(60, faults={"a:9477": idle}).series()
        assert promtool_test(tmp_path, RULES, {"input_series": series, "promql_expr_test": queries}) == ""


class TestCluster:
    """All watches together: of the cluster, and of each apiserver."""

    def recorded(self, folder: Path, world: World, expected: Mapping[str, float | None], **options: Any) -> str:
        """Return the complaints unless the series of the cluster and the apiserver have these values, None if absent.

        `LEVEL` in a name stands for either.
        """
        places = {"cluster": "{}", "apiserver": f'{{apiserver="{APISERVER}"}}'}
        queries = [
            {
                "eval_time": f"{world.minutes}m",
                "expr": f"round({name.replace('LEVEL', level)}, 1e-6)",
                "exp_samples": [] if value is None else [{"labels": labels, "value": value}],
            }
            for name, value in expected.items()
            for level, labels in places.items()
        ]
        rules = plain(Config.model_validate(options), RuleSettings())
        return promtool_test(folder, rules, {"input_series": world.series(), "promql_expr_test": queries})

    def test_all_instances_and_watches_are_added_up(self, tmp_path: Path) -> None:
        """Of three instances with two watches, one watch of one instance is late with a third of its events.

        Those are 5% of all events of such a minute, and 2.5% of all events of the time.
        """
        world = World(120, THREE, {"a:9477": late(0.3, since=60)})
        expected = {
            names.good_minute("LEVEL"): 0.0,
            names.cluster_timespan("LEVEL", 0.99, "rate1m"): 2.2,  # 0.05 are late, of which 0.04 are earlier
            names.cluster_timespan("LEVEL", 0.99, "max1d"): 2.2,
        }
        assert self.recorded(tmp_path, world, expected) == ""

    def test_share_of_good_minutes_is_that_of_judged_minutes(self, tmp_path: Path) -> None:
        """In every second hour there are no events, so nothing is judged; a quarter of the other minutes is bad."""

        def of(minute: int, share: float) -> float:
            return 0.0 if minute // 60 % 2 else EVENTS * (1 - share * (minute % 4 == 0))

        changes = {f"{BUCKET}{{le={le}}}": lambda m, le=le: of(m, 0.1 * (le in {"0.5", "1.0"})) for le in LES}
        world = World(240, faults={"a:9477": Fault({**changes, COUNT: lambda minute: of(minute, 0.0)}, watch=None)})
        expected = {
            names.good_minutes("LEVEL"): 0.75,
            names.judged_minutes("LEVEL"): round(120 / 1440, 6),
            names.good_minute("LEVEL"): None,
        }
        assert self.recorded(tmp_path, world, expected) == ""

    def test_minutes_with_few_events_are_not_judged_though_all_are_late(self, tmp_path: Path) -> None:
        few = {f"{BUCKET}{{le={le}}}": 0.0 for le in ("0.5", "1.0")}
        few |= {f"{BUCKET}{{le={le}}}": 40.0 for le in ("2.5", "+Inf")} | {COUNT: 40.0}  # 80 of both watches
        world = World(60, faults={"a:9477": Fault(few, watch=None)})
        names_of_values = (names.good_minute, names.good_minutes, names.judged_minutes)
        expected = {name("LEVEL"): None for name in names_of_values}
        expected |= {names.cluster_timespan("LEVEL", 0.99, operations): None for operations in ("rate1m", "max1d")}
        assert self.recorded(tmp_path, world, expected) == ""

    def test_common_threshold_judges_watches_with_an_own_one(self, tmp_path: Path) -> None:
        """Events that take up to 2.5 s are in time for `pods`, but not for the cluster."""
        watch = [{"resource": "pods", "objective": {"threshold": "2500ms"}}, {"resource": "*"}]
        world = World(30, faults={"a:9477": late(0.5)})
        assert self.recorded(tmp_path, world, {names.good_minutes("LEVEL"): 0.0}, watch=watch) == ""

    def test_restart_of_an_instance_makes_no_minute_bad(self, tmp_path: Path) -> None:
        world = World(120, faults={"a:9477": late(0.015)}, lives={"a:9477": Lives(restarts=60)})
        assert self.recorded(tmp_path, world, {names.good_minutes("LEVEL"): 1.0}) == ""

    @pytest.mark.parametrize(("events", "p999"), [(8.0, 2.5), (7.0, None)])
    def test_p999_needs_a_thousand_events(self, events: float, p999: float | None, tmp_path: Path) -> None:
        changes = {f"{BUCKET}{{le={le}}}": 0.0 for le in ("0.5", "1.0")}
        changes |= {f"{BUCKET}{{le={le}}}": events for le in ("2.5", "+Inf")} | {COUNT: events}
        world = World(66, faults={"a:9477": Fault(changes, watch=None)})
        name = names.cluster_timespan("LEVEL", 0.999, "rate1d")
        assert self.recorded(tmp_path, world, {name: p999 and round(1 + 1.5 * 0.999, 6)}) == ""

    def test_apiserver_of_one_shard_may_be_late(self, tmp_path: Path) -> None:
        """The other instances have other watches, so they cannot confirm it."""
        rules = plain(Config.model_validate({"shard": {"index": 0, "count": 3}}), RuleSettings())
        world = World(25, THREE, {"b:9477": late(0.1)})
        assert complaints(tmp_path, world, {25: {*TOGETHER}}, rules=rules) == ""


def test_rules_can_be_evaluated_for_a_large_installation(tmp_path: Path) -> None:
    """The durations are only printed (with -s), because a machine may be slow."""
    assert evaluate(tmp_path) > 0


RECEIVED = tuple(f"watchslo_watch_events_total{{type={type_}}}" for type_ in ("added", "modified", "deleted"))
NO_EVENTS = {f"{BUCKET}{{le={le}}}": 0.0 for le in LES} | {COUNT: 0.0, **dict.fromkeys(RECEIVED, 0.0)}
RULES = plain(CONFIG, RuleSettings())
BURN_ALERTS = {
    "groups": [one for one in RULES["groups"] if one["name"] in {"watchslo-latency", "watchslo-latency-days"}]
}
ALERTS = [rule for group in rule_groups(CONFIG, RuleSettings()) for rule in group.rules if rule.labels]


def firing_alert(case: Case) -> dict[str, Any]:
    """Return the alert of a case as promtool expects it."""
    (rule,) = (rule for rule in ALERTS if rule.name == case.alert and case.labels.items() <= rule.labels.items())
    said = {key: rendered(text, case.about, case.value, case.worst) for key, text in rule.annotations.items()}
    return {"exp_labels": {**rule.labels, **case.about}, "exp_annotations": said}


def complaints(
    folder: Path,
    world: World,
    firing: Expected,
    queries: Sequence[Mapping[str, Any]] = (),
    rules: Mapping[str, Any] | None = None,
) -> str:
    """Return the complaints of promtool unless exactly these alerts fire in these minutes."""
    expression = 'group by (alertname) (ALERTS{alertstate="firing"})'
    fires = [
        {
            "eval_time": f"{minute}m",
            "expr": expression,
            "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(alerts)],
        }
        for minute, alerts in firing.items()
    ]
    test = {"input_series": world.series(), "promql_expr_test": fires, "alert_rule_test": list(queries)}
    return promtool_test(folder, rules or RULES, test)


def pages(folder: Path, world: World, every: int) -> str:
    """Return the complaints of promtool unless no alert fires; check every `every` minutes."""
    return complaints(folder, world, {minute: set() for minute in range(0, world.minutes + 1, every)})


def recorded(minutes: int, late_share: float, gap: tuple[int, int] = (0, 0)) -> list[dict[str, str]]:
    """Return the recorded rates of one late instance since minute 0; they are missing in `gap` (begin, length)."""
    labels = f'{{apiserver="{APISERVER}",group="",resource="pods",watch="pods"}}'
    rates = {
        names.EVENTS: EVENTS / 60,
        names.LATE_EVENTS: late_share * EVENTS / 60,
        names.INSTANCES: 1.0,
        names.LATE_INSTANCES: 1.0,
        **{names.burn_rate(window): late_share / error_budget(CONFIG.objective) for window in LENGTHS},
    }
    begin, length = gap
    missing = f"{{0}}x{begin - 1} _x{length} " if length else ""
    shape = f"{missing}{{0}}x{minutes - begin - length}"
    return [{"series": f"{name}{labels}", "values": shape.format(rate)} for name, rate in rates.items()]


def active(minute: int, *windows: str) -> dict[str, Any]:
    """Expect burn alerts of these long windows, pending or firing, and no others."""
    return {
        "eval_time": f"{minute}m",
        "expr": 'group by (long) (ALERTS{alertname="WatchLatencyBudgetBurn"})',
        "exp_samples": [{"labels": f'{{long="{window}"}}', "value": 1} for window in windows],
    }
