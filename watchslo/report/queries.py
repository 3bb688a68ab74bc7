"""The queries of a report: only metrics that watchslo exports by default, and no recorded rules. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from watchslo.report.incident import JUDGED_LATE_SECONDS, ReportPeriod
from watchslo.rules.names import RESOURCE, TARGET
from watchslo.rules.promql import by, select
from watchslo.rules.settings import RuleSettings
from watchslo.timeline.day import MINUTE_SECONDS

POINTS = 240  # of a curve
SHORTEST_STEP = 15.0  # seconds
SCRAPE_SECONDS = 30.0  # of the monitors of the profiles: a shorter range may have no sample
WINDOWS, VERDICTS = "watchslo_slo_windows_total", "watchslo_slo_events_total"
QUANTILE = "watchslo_apiserver_timespan_window_seconds"
VIOLATIONS = "watchslo_watch_guarantee_violations_total"
TAINTED = "watchslo_tainted_seconds_total"
P99_MINUTE = ('q="0.99"', 'window="1m"')
REACTION_BOUNDS = 'bound=~"lower|estimate|upper"'
NUMBERS = {3: 'verdict="bad"', 2: 'verdict="undecided"', 1: 'verdict="good"'}
"""The numbers of the verdicts on a minute, as `Minute` has them."""

MINUTE = "60s"
WATCH = ("apiserver", "watch")
STEP = ("group", "resource", "step")


class MetricSeries(msgspec.Struct, frozen=True):
    """One series of an answer: its labels, and its values with their times."""

    metric: dict[str, str]
    values: list[tuple[float, str]]

    @property
    def finite(self) -> "MetricSeries":
        """The series without values that are no finite numbers: none of the metrics has such a value."""
        return MetricSeries(self.metric, [(at, text) for at, text in self.values if _is_finite(text)])

    @property
    def numbers(self) -> list[tuple[float, float]]:
        """The times and the values as numbers."""
        return [(at, float(text)) for at, text in self.values]

    @property
    def last(self) -> float:
        return float(self.values[-1][1])


def _is_finite(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


class Asked(StrEnum):
    """What is asked."""

    BUILDS = "builds"
    CLUSTERS = "clusters"
    THRESHOLD = "threshold"
    TARGETS = "targets"
    LOWER = "lower"
    ESTIMATE = "estimate"
    UPPER = "upper"
    MINUTES = "minutes"
    LATE_MINUTES = "late_minutes"
    EVENTS = "events"
    UNMEASURED = "unmeasured"
    OVERLOADED = "overloaded"
    OVERLOADED_AT = "overloaded_at"
    PRESENT = "present"
    CAUSES = "causes"
    STALLED = "stalled"
    CLOSED = "closed"
    SILENT = "silent"
    VIOLATED_AT = "violated_at"
    RELISTED_AT = "relisted_at"
    VIOLATIONS = "violations"
    CHECKS = "checks"
    REACTED = "reacted"
    REACTIONS = "reactions"
    PENDING = "pending"
    OLDEST = "oldest"
    PAGES = "pages"
    STALEST = "stalest"
    QUEUED = "queued"


@dataclass(frozen=True, slots=True)
class ReportQuery:
    """An expression, evaluated every `step` seconds from `start` to `end`; once if these are the same."""

    expression: str
    start: float
    end: float
    step: float


def step_of(period: ReportPeriod) -> float:
    """Return the seconds between two points of a curve."""
    return max(SHORTEST_STEP, SHORTEST_STEP * math.ceil(period.seconds / POINTS / SHORTEST_STEP))


def queries(settings: RuleSettings, period: ReportPeriod) -> Mapping[Asked, ReportQuery]:
    """Return all queries for a period."""
    step = step_of(period)
    writer = _Writer(settings, period)
    late = JUDGED_LATE_SECONDS - MINUTE_SECONDS  # a minute is judged, and its verdict scraped, after it has ended
    first, last = period.begin_of(1) + late, period.begin_of(period.minutes) + late
    return {
        **_evaluated(writer.totals(), period.until_wall, period.until_wall, step),
        **_evaluated(writer.curves(), period.since_wall, period.until_wall, step),
        **_evaluated(writer.increases(), period.since_wall, period.until_wall, step),
        **_evaluated(writer.minutes(), first, last, MINUTE_SECONDS),
    }


def minute_of(at: float, period: ReportPeriod) -> int:
    """Return the index of the minute that a query of minutes is about at that time."""
    return math.floor(at / MINUTE_SECONDS) - 1 - period.first_minute


def _evaluated(expressions: Mapping[Asked, str], start: float, end: float, step: float) -> dict[Asked, ReportQuery]:
    return {asked: ReportQuery(text, start, end, step) for asked, text in expressions.items()}


class _Writer:
    """Writes the expressions. A series of several instances counts once, with the highest value of all."""

    def __init__(self, settings: RuleSettings, period: ReportPeriod) -> None:
        step = step_of(period)
        self._settings = settings
        self._step = f"{step:.0f}s"
        self._recent = f"[{max(step, 2 * SCRAPE_SECONDS):.0f}s]"
        self._whole = f"[{max(MINUTE_SECONDS, math.ceil(period.seconds)):.0f}s]"

    def totals(self) -> dict[Asked, str]:
        """Return what is asked once, of the whole period."""
        build = self._over("last", "watchslo_build_info", self._whole)
        threshold, target = (
            self._over("last", name, self._whole)
            for name in ("watchslo_slo_threshold_seconds", "watchslo_slo_target_ratio")
        )
        unmeasured = self._counted("watchslo_unmeasured_events_total", RESOURCE, 'reason!="initial"')
        checks = self._counted("watchslo_watch_guarantee_checked_total", ("apiserver", "guarantee"))
        pending, oldest = (
            by("max", STEP, self._over("max", name, self._whole))
            for name in ("watchslo_reaction_pending", "watchslo_reaction_oldest_pending_seconds")
        )
        staleness = self._over("max", "watchslo_informer_staleness_seconds", self._whole, 'bound="lower"')
        of_resource = by("max", ("client", "group", "resource"), staleness)
        found = {
            Asked.PAGES: self._counted("watchslo_informer_reads_total", ("client", "verdict")),
            Asked.STALEST: f"topk by (client) (1, {of_resource}) > 0",
            Asked.QUEUED: by("max", ("client",), self._over("max", "watchslo_informer_queued_items", self._whole)),
            Asked.REACTED: self._counted("watchslo_reaction_seconds_count", STEP),
            Asked.PENDING: pending,
            Asked.OLDEST: oldest,
            Asked.BUILDS: by("count", ("version",), build),
            Asked.THRESHOLD: by("max", WATCH, threshold),
            Asked.TARGETS: by("max", ("kind", *WATCH), target),
            Asked.EVENTS: self._counted(VERDICTS, (*RESOURCE, "verdict")),
            Asked.UNMEASURED: unmeasured,
            Asked.OVERLOADED: f"max(increase({self._series(TAINTED)}{self._whole}))",
            Asked.VIOLATIONS: by("sum", ("guarantee",), self._counted(VIOLATIONS, (*RESOURCE, "guarantee"))),
            Asked.CHECKS: by("sum", ("guarantee",), checks),
        }
        return found | ({Asked.CLUSTERS: by("count", self._settings.cluster, build)} if self._settings.cluster else {})

    def curves(self) -> dict[Asked, str]:
        """Return the quantiles, and what was wrong at each moment."""
        quantiles = {
            asked: by("max", RESOURCE, self._over("max", QUANTILE, self._recent, *P99_MINUTE, f'bound="{asked}"'))
            for asked in (Asked.LOWER, Asked.ESTIMATE, Asked.UPPER)
        }
        cause, stalled, up = (
            self._over("max", name, self._recent)
            for name in ("watchslo_cause_active", "watchslo_watch_stalled", "watchslo_watch_up")
        )
        answers = self._over("min", "watchslo_apiserver_up", self._recent)
        reactions = self._over("max", "watchslo_reaction_window_seconds", self._recent, REACTION_BOUNDS)
        return quantiles | {
            Asked.REACTIONS: by("max", (*STEP, "q", "bound"), reactions),
            Asked.CAUSES: f"{by('max', ('cause', *WATCH), cause)} > 0",
            Asked.STALLED: f"{by('max', RESOURCE, stalled)} > 0",
            Asked.CLOSED: f"{by('max', RESOURCE, up)} == 0",
            Asked.SILENT: f"{by('min', ('apiserver',), answers)} == 0",
        }

    def increases(self) -> dict[Asked, str]:
        """Return when counters grew."""
        relisted = self._grew("watchslo_relists_total", self._step, 'reason=~"expired|errors"')
        return {
            Asked.VIOLATED_AT: by("max", (*RESOURCE, "guarantee"), self._grew(VIOLATIONS, self._step)),
            Asked.RELISTED_AT: by("max", (*RESOURCE, "reason"), relisted),
            Asked.OVERLOADED_AT: f"max({self._grew(TAINTED, self._step)})",
        }

    def minutes(self) -> dict[Asked, str]:
        """Return the worst verdict on each minute, when events were proven late, and how many instances there were."""
        verdicts = " or ".join(
            f"{number} * ({self._grew(WINDOWS, MINUTE, matcher)} > bool 0)" for number, matcher in NUMBERS.items()
        )
        return {
            Asked.MINUTES: by("max", RESOURCE, verdicts),
            Asked.LATE_MINUTES: by("max", RESOURCE, self._grew(VERDICTS, MINUTE, 'verdict="beyond"')),
            Asked.PRESENT: f"count({self._series('watchslo_build_info')})",
        }

    def _series(self, metric: str, *matchers: str) -> str:
        return select(metric, self._settings.job_selector, *matchers)

    def _over(self, function: str, metric: str, span: str, *matchers: str) -> str:
        return f"{function}_over_time({self._series(metric, *matchers)}{span})"

    def _grew(self, metric: str, ago: str, *matchers: str) -> str:
        """Return by how much a counter grew since `ago`, if it did: each increase is in exactly one step."""
        series = self._series(metric, *matchers)
        return f"({series} - {series} offset {ago}) > 0"

    def _counted(self, metric: str, labels: tuple[str, ...], *matchers: str) -> str:
        """Return the increase in the whole period at the instance with the highest: each watches for itself."""
        increase = f"increase({self._series(metric, *matchers)}{self._whole})"
        return by("max", labels, by("sum", (*self._settings.cluster, *TARGET, *labels), increase))
