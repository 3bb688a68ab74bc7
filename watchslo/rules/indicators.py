"""The indicators of objectives as counters: how many events or windows there were, and how many were bad.

The recording rules compute ratios of them, and the formats of other tools name the same series.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from watchslo.config.model import Config
from watchslo.rules.promql import by, le, select
from watchslo.rules.settings import RuleSettings
from watchslo.rules.timespans import CLASSIC, METRIC, NATIVE, Histograms
from watchslo.rules.watch_groups import WatchGroup

COUNT = f"{METRIC}_count"
VERDICTS = "watchslo_slo_events_total"
WINDOWS = "watchslo_slo_windows_total"
BEYOND = 'verdict="beyond"'
BAD = 'verdict="bad"'
JUDGED = 'verdict=~"good|bad"'

Range = Callable[[str], str]
"""What is computed of each counter: `rate(…[1h])` of a selector, for example."""


@dataclass(frozen=True, slots=True)
class BucketIndicator:
    """Events of a classic histogram: `good` selects those in the bucket that ends at the threshold."""

    total: str
    good: str

    def bad_ratio(self, labels: Iterable[str], of: Range) -> str:
        kept = tuple(labels)
        return f"1 - {by('sum', kept, of(self.good))} / ({by('sum', kept, of(self.total))} > 0)"


@dataclass(frozen=True, slots=True)
class VerdictIndicator:
    """Events or windows that the daemon has judged, counted by verdict: `bad` selects a part of `total`."""

    total: str
    bad: str

    def bad_ratio(self, labels: Iterable[str], of: Range) -> str:
        kept = tuple(labels)
        return f"{by('sum', kept, of(self.bad))} / ({by('sum', kept, of(self.total))} > 0)"


@dataclass(frozen=True, slots=True)
class NativeIndicator:
    """Events of a native histogram, which is `total`; bad are those over the threshold, in seconds."""

    total: str
    threshold: float

    def bad_ratio(self, labels: Iterable[str], of: Range) -> str:
        return NATIVE.late_ratio(NATIVE.summed(labels, of(self.total)), self.threshold)


Indicator = BucketIndicator | VerdictIndicator | NativeIndicator
"""`bad_ratio` returns the share of bad events, summed up by labels; absent without events."""


def events_indicator(config: Config, settings: RuleSettings, group: WatchGroup) -> Indicator:
    """Return the indicator of late events; with `mode: node`, of events that are proven late."""
    job, matcher, threshold = settings.job_selector, group.matcher, group.objective.threshold
    if config.mode == "node":
        return VerdictIndicator(select(VERDICTS, job, matcher), select(VERDICTS, job, BEYOND, matcher))
    if settings.histograms is Histograms.NATIVE:
        return NativeIndicator(select(NATIVE.metric, job, matcher), threshold)
    return BucketIndicator(select(COUNT, job, matcher), select(CLASSIC.metric, job, le(threshold), matcher))


def minutes_indicator(settings: RuleSettings, group: WatchGroup) -> Indicator:
    """Return the indicator of bad windows among those that were judged."""
    job, matcher = settings.job_selector, group.matcher
    return VerdictIndicator(select(WINDOWS, job, JUDGED, matcher), select(WINDOWS, job, BAD, matcher))
