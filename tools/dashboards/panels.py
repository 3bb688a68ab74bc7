"""Dashboards as plain data: panels with their texts, queries and styles, independent of Grafana's JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from watchslo.serve.metrics import FAMILIES
from watchslo.snapshot import OverallVerdict


class Look(StrEnum):
    """The visualization of a panel."""

    NUMBER = "number"
    LINES = "lines"
    STACK = "stack"
    HEATMAP = "heatmap"
    TABLE = "table"


class Unit(StrEnum):
    """Units by their names in Grafana."""

    SECONDS = "s"
    SHARE = "percentunit"
    COUNT = "short"
    EVENTS = "eps"
    REQUESTS = "reqps"
    BYTES = "bytes"
    BYTE_RATE = "Bps"
    TIMES = "suffix:x"
    CORES = "suffix: cores"


@dataclass(frozen=True, slots=True)
class Step:
    """A threshold: values from `value` on have this colour. The first step has no value."""

    value: float | None
    colour: str


PLAIN = (Step(None, "green"),)
"""For values that are neither good nor bad, such as rates and sizes."""


def high_is_bad(warn: float, bad: float) -> tuple[Step, ...]:
    """Return thresholds for values that should be low."""
    return Step(None, "green"), Step(warn, "orange"), Step(bad, "red")


def low_is_bad(bad: float, warn: float) -> tuple[Step, ...]:
    """Return thresholds for values that should be high: bad below `bad`, good from `warn` on."""
    return Step(None, "red"), Step(bad, "orange"), Step(warn, "green")


NONE_IS_GOOD = (Step(None, "green"), Step(1, "red"))
ALL_OR_NOTHING = (Step(None, "red"), Step(1, "green"))
LATE = high_is_bad(0.5, 1)  # the default objective's threshold, in seconds, and half of it
LATE_SHARE = high_is_bad(0.005, 0.01)  # the default objective's error budget, and half of it


@dataclass(frozen=True, slots=True)
class Target:
    """A query: PromQL with Grafana's variables, and the legend of its series; in a table, its column and unit.

    Set a colour only if it has a meaning and the legend has no labels; otherwise Grafana takes the next of its palette.
    """

    expr: str
    legend: str
    unit: Unit | None = None
    colour: str | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel; `width` is in columns of 24, `height` in rows of Grafana."""

    title: str
    description: str
    look: Look
    unit: Unit
    targets: tuple[Target, ...]
    thresholds: tuple[Step, ...] = PLAIN
    width: int = 8
    height: int = 8


def number_panel(
    title: str, description: str, expr: str, thresholds: tuple[Step, ...], unit: Unit = Unit.COUNT, *, width: int = 3
) -> Panel:
    """Return a panel with one number, of which eight are a row by default."""
    return Panel(title, description, Look.NUMBER, unit, (Target(expr, title),), thresholds, width, height=4)


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its panels."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """A selection at the top of the dashboard: the values of the label `name` on the series of `metric{matchers}`.

    At first the value `selected` is selected, or all.
    """

    name: str
    label: str
    metric: str
    matchers: str = ""
    selected: str | None = None

    @property
    def query(self) -> str:
        selector = f"{self.metric}{{{self.matchers}}}" if self.matchers else self.metric
        return f"label_values({selector}, {self.name})"


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard; its uid is also its file name and must not change. `note` is a text of Markdown at its top."""

    uid: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    sections: tuple[Section, ...]
    note: str = ""


NEEDS_BASIC = (
    "Requires `metrics: basic`; panels that require `metrics: full` say so. For `mode: node`, there is "
    "the dashboard Nodes."
)

# --- shared parts of queries ------------------------------------------------------------------------------------------

CLUSTER = Variable("cluster", "Cluster", "watchslo_build_info")
APISERVER = Variable("apiserver", "Apiserver", "watchslo_watch_up", 'cluster=~"$cluster"')
WATCH = Variable("watch", "Watch", "watchslo_watch_up", 'cluster=~"$cluster", apiserver=~"$apiserver"')
INSTANCE = Variable("instance", "watchslo", "watchslo_build_info", 'cluster=~"$cluster"')
VARIABLES = (CLUSTER, APISERVER, WATCH, INSTANCE)

OF_WATCHES = 'cluster=~"$cluster", apiserver=~"$apiserver", watch=~"$watch", instance=~"$instance"'
OF_APISERVERS = 'cluster=~"$cluster", apiserver=~"$apiserver", instance=~"$instance"'
OF_INSTANCES = 'cluster=~"$cluster", instance=~"$instance"'
RECORDED = 'cluster=~"$cluster", apiserver=~"$apiserver", watch=~"$watch"'  # recorded series have no label `instance`

WATCH_LABELS = "cluster, apiserver, watch"
WATCH_LEGEND = "{{cluster}} {{apiserver}} {{watch}}"
APISERVER_LABELS = "cluster, apiserver"
APISERVER_LEGEND = "{{cluster}} {{apiserver}}"
INSTANCE_LEGEND = "{{cluster}} {{instance}}"


NATIVE = {family.name for family in FAMILIES if family.native}
"""The histograms that Prometheus may have in native form, in classic form, or in both; then the native one is shown."""


VERDICT_COLOURS = {
    OverallVerdict.GOOD.value: "green",
    OverallVerdict.LATE.value: "orange",
    OverallVerdict.STALLED.value: "light-red",
    OverallVerdict.DOWN.value: "red",
    OverallVerdict.UNRESPONSIVE.value: "dark-red",
    OverallVerdict.STORAGE_SILENT.value: "purple",
}


TICK_COLOURS = {"ok": "green", "slow": "orange", "failed": "red"}


def verdict_targets(matchers: str) -> tuple[Target, ...]:
    """Return queries that count instances by verdict, in colours by meaning; those that cannot judge together."""
    named = "|".join(VERDICT_COLOURS)
    return (
        *(
            Target(f'sum (watchslo_verdict{{{matchers}, verdict="{verdict}"}})', verdict, colour=colour)
            for verdict, colour in VERDICT_COLOURS.items()
        ),
        Target(f'sum (watchslo_verdict{{{matchers}, verdict!~"{named}"}})', "other", colour="text"),
    )


def tick_targets(matchers: str) -> tuple[Target, ...]:
    """Return queries for the ticks per second by result, in colours by meaning."""
    return tuple(
        Target(
            f'sum (rate(watchslo_clock_ticks_total{{{matchers}, result="{result}"}}[$__rate_interval]))',
            result,
            colour=colour,
        )
        for result, colour in TICK_COLOURS.items()
    )


def quantile(q: float, histogram: str, matchers: str, by: Sequence[str], over: str = "$__rate_interval") -> str:
    """Return a query for the quantile of a histogram over a range, in whichever form Prometheus has it."""
    buckets = f"sum by ({', '.join((*by, 'le'))}) (rate({histogram}_bucket{{{matchers}}}[{over}]))"
    classic = f"histogram_quantile({q}, {buckets})"
    if histogram not in NATIVE:
        return classic
    return f"histogram_quantile({q}, sum by ({', '.join(by)}) (rate({histogram}{{{matchers}}}[{over}]))) or {classic}"


def distribution(histogram: str, matchers: str) -> str:
    """Return a query for a heatmap of a histogram: its increase between two points of a graph."""
    classic = f"sum by (le) (increase({histogram}_bucket{{{matchers}}}[$__rate_interval]))"
    if histogram not in NATIVE:
        return classic
    return f"sum (increase({histogram}{{{matchers}}}[$__rate_interval])) or on () {classic}"


def increase(counter: str, matchers: str, by: str) -> str:
    """Return a query for the increase of a counter between two points of a graph."""
    return f"sum by ({by}) (increase({counter}{{{matchers}}}[$__rate_interval]))"


def in_range(counter: str, matchers: str) -> str:
    """Return a query for the increase of a counter in the displayed range."""
    return f"sum (increase({counter}{{{matchers}}}[$__range]))"
