"""The indicators of objectives as counters: how many events or windows there were, and how many of them were bad.

The daemon compares each event with the threshold of its watch, so no rule names a threshold. The recording rules
compute ratios of these counters, and the formats of other tools name the same series.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from watchslo.rules.promql import by, select
from watchslo.rules.settings import RuleSettings

EVENTS = "watchslo_estimated_events_total"
THRESHOLD = "watchslo_slo_threshold_seconds"
IN_TIME, LATE = 'verdict="within"', 'verdict="beyond"'
WINDOWS = "watchslo_slo_windows_total"
GOOD, BAD = 'verdict="good"', 'verdict="bad"'
JUDGED = 'verdict=~"good|bad"'

Range = Callable[[str], str]
"""What is computed of each counter: `rate(…[1h])` of a selector, for example."""


@dataclass(frozen=True, slots=True)
class Indicator:
    """Counters, as selectors: all events or judged windows, and the good and the bad ones among them."""

    total: str
    good: str
    bad: str

    def bad_ratio(self, labels: Iterable[str], of: Range) -> str:
        """Return the share of the bad ones, summed up by labels; absent without events.

        It comes from the good ones: Prometheus extrapolates the first increase of a small counter too little.
        """
        kept = tuple(labels)
        return f"1 - {by('sum', kept, of(self.good))} / ({by('sum', kept, of(self.total))} > 0)"


def events_indicator(settings: RuleSettings, matcher: str = "") -> Indicator:
    """Return the indicator of late events; with `mode: node`, of events that are proven late."""
    return _of_verdicts(EVENTS, ("", IN_TIME, LATE), settings, matcher)


def minutes_indicator(settings: RuleSettings, matcher: str = "") -> Indicator:
    """Return the indicator of bad windows among those that were judged."""
    return _of_verdicts(WINDOWS, (JUDGED, GOOD, BAD), settings, matcher)


def _of_verdicts(counter: str, verdicts: Iterable[str], settings: RuleSettings, matcher: str) -> Indicator:
    return Indicator(*(select(counter, settings.job_selector, verdict, matcher) for verdict in verdicts))
