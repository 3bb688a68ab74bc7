"""Recording rules for one number of a cluster: how late all watch events are, of the cluster and of each apiserver.

Every minute, the events of all watches and instances are added up. Each is late by the threshold of its watch, and the
minute is judged by the common objective. Events are counted by estimates: no minute of a cluster is proven. A rate
needs two scrapes, and the events between the last scrape of a range and the first one of the next range would be lost.
So a range is longer than the window by one scrape: then it holds scrapes that are a window apart, and the ranges
adjoin.
"""

from collections.abc import Iterator

from watchslo.config.model import Config
from watchslo.config.values import format_duration
from watchslo.rules import names
from watchslo.rules.indicators import EVENTS, IN_TIME
from watchslo.rules.names import LabelLevels
from watchslo.rules.promql import by, joined, number, select
from watchslo.rules.rule import RuleDefinition
from watchslo.rules.settings import RuleSettings
from watchslo.rules.timespans import TimespanForm, summed_over
from watchslo.rules.windows import DAY, RECORDED_EVERY

SCRAPED_EVERY = 30.0  # seconds between two scrapes, at most: the interval of `deploy/base/pod-monitor.yaml`
SHOWN = ("apiserver", "cluster")  # the levels that users see; instances only confirm alerts


def cluster_minutes(config: Config, settings: RuleSettings, kept: LabelLevels) -> Iterator[RuleDefinition]:
    """Yield the rules of the last minute: whether it was good, histograms and P99."""
    form, minutes = settings.timespans, config.objective.minutes
    scrape = max(round(SCRAPED_EVERY / settings.shrink), 1.0)
    span = format_duration(minutes.window + scrape)
    labels = {"instance_apiserver": (*kept.instance, "apiserver"), "apiserver": kept.apiserver, "cluster": kept.cluster}
    for level, own in labels.items():
        every, in_time = (
            by("sum", own, f"rate({select(EVENTS, settings.job_selector, verdict)}[{span}])")
            for verdict in ("", IN_TIME)
        )
        enough = f"({every} * {number(minutes.window)} >= {minutes.min_events})"
        good = f"{in_time} * {number(minutes.window)}\n>= bool {number(minutes.quantile)} * {enough}"
        yield RuleDefinition(names.good_minute(level), good)
    summed = f"rate({select(form.metric, settings.job_selector)}[{span}])"
    for level in SHOWN:
        histogram = names.minute_histogram(level, form.metric)
        yield RuleDefinition(histogram, form.summed(labels[level], summed))
        p99 = determined_quantile(form, 0.99, histogram, minutes.window)
        yield RuleDefinition(names.cluster_timespan(level, 0.99, "rate1m"), p99)
        summed = histogram


def cluster_days(settings: RuleSettings) -> Iterator[RuleDefinition]:
    """Yield the rules of the last day: the share of good minutes, how many were judged, P99, P99.9, the worst P99."""
    day, every, form = settings.span(DAY), settings.interval(RECORDED_EVERY), settings.timespans
    for level in SHOWN:
        good = names.good_minute(level)
        elapsed = number(DAY / settings.shrink / every)
        yield RuleDefinition(names.good_minutes(level), f"avg_over_time({good}[{day}])")
        yield RuleDefinition(names.judged_minutes(level), f"clamp_max(count_over_time({good}[{day}]) / {elapsed}, 1)")
        for q in (0.99, 0.999):
            yield RuleDefinition(
                names.cluster_timespan(level, q, "rate1d"),
                determined_quantile(form, q, names.minute_histogram(level, form.metric), every, over=day),
            )
        minute = names.cluster_timespan(level, 0.99, "rate1m")
        yield RuleDefinition(names.cluster_timespan(level, 0.99, "max1d"), f"max_over_time({minute}[{day}])")


def determined_quantile(form: TimespanForm, q: float, histogram: str, seconds: float, *, over: str = "") -> str:
    """Return a quantile of recorded rates of a histogram; absent if fewer than one event is expected to be later.

    Each rate stands for so many seconds; with `over`, those of a longer time are added up.
    """
    events = f"{form.events(histogram, over)} * {number(seconds)}"
    quantile = f"histogram_quantile({q:g}, {summed_over(histogram, over)})"
    return joined("and", (quantile, f"{events} >= {number(1 / (1 - q))}"))
