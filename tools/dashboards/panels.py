"""Dashboards as plain data: what a panel tells, asks and looks like. Nothing here knows Grafana's JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Look(StrEnum):
    """How a panel shows what its queries return."""

    NUMBER = "number"
    LINES = "lines"
    STACK = "stack"
    HEATMAP = "heatmap"
    TABLE = "table"


class Unit(StrEnum):
    """Units by the names that Grafana has for them."""

    SECONDS = "s"
    SHARE = "percentunit"
    COUNT = "short"
    EVENTS = "eps"
    REQUESTS = "reqps"
    BYTES = "bytes"
    BYTE_RATE = "Bps"
    TIMES = "suffix:x"


@dataclass(frozen=True, slots=True)
class Step:
    """From this value on, a value has this colour; the first step has none."""

    value: float | None
    colour: str


PLAIN = (Step(None, "green"),)
"""For what is neither good nor bad: a rate, a size."""


def high_is_bad(warn: float, bad: float) -> tuple[Step, ...]:
    """For what is better the lower it is."""
    return Step(None, "green"), Step(warn, "orange"), Step(bad, "red")


def low_is_bad(bad: float, warn: float) -> tuple[Step, ...]:
    """For what is better the higher it is: bad below `bad`, good from `warn` on."""
    return Step(None, "red"), Step(bad, "orange"), Step(warn, "green")


NONE_IS_GOOD = (Step(None, "green"), Step(1, "red"))
ALL_OR_NOTHING = (Step(None, "red"), Step(1, "green"))
LATE = high_is_bad(0.5, 1)  # the default objective's threshold, in seconds, and half of it
LATE_SHARE = high_is_bad(0.005, 0.01)  # the default objective's error budget, and half of it


@dataclass(frozen=True, slots=True)
class Target:
    """One query: PromQL with Grafana's variables, and what its series are called; in a table, its column and unit.

    A colour is for a legend without labels, and for a meaning: without one the series takes the next of the palette.
    """

    expr: str
    legend: str
    unit: Unit | None = None
    colour: str | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel; `width` is in columns of 24, `height` in Grafana's rows."""

    title: str
    description: str
    look: Look
    unit: Unit
    targets: tuple[Target, ...]
    thresholds: tuple[Step, ...] = PLAIN
    width: int = 8
    height: int = 8


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, and the panels under it."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """What a reader chooses by: the values that `label` has on `metric`, among what `matchers` select."""

    name: str
    label: str
    metric: str
    matchers: str = ""

    @property
    def query(self) -> str:
        selector = f"{self.metric}{{{self.matchers}}}" if self.matchers else self.metric
        return f"label_values({selector}, {self.name})"


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard; its uid is also the name of its file, and never changes."""

    uid: str
    title: str
    description: str
    variables: tuple[Variable, ...]
    sections: tuple[Section, ...]


# --- what the queries share ------------------------------------------------------------------------------------------

CLUSTER = Variable("cluster", "Cluster", "watchslo_build_info")
APISERVER = Variable("apiserver", "Apiserver", "watchslo_watch_up", 'cluster=~"$cluster"')
WATCH = Variable("watch", "Watch", "watchslo_watch_up", 'cluster=~"$cluster", apiserver=~"$apiserver"')
INSTANCE = Variable("instance", "watchslo", "watchslo_build_info", 'cluster=~"$cluster"')
VARIABLES = (CLUSTER, APISERVER, WATCH, INSTANCE)

OF_WATCHES = 'cluster=~"$cluster", apiserver=~"$apiserver", watch=~"$watch", instance=~"$instance"'
OF_APISERVERS = 'cluster=~"$cluster", apiserver=~"$apiserver", instance=~"$instance"'
OF_INSTANCES = 'cluster=~"$cluster", instance=~"$instance"'
RECORDED = 'cluster=~"$cluster", apiserver=~"$apiserver", watch=~"$watch"'  # rules have summed over the instances

WATCH_LABELS = "cluster, apiserver, watch"
WATCH_LEGEND = "{{cluster}} {{apiserver}} {{watch}}"
APISERVER_LABELS = "cluster, apiserver"
APISERVER_LEGEND = "{{cluster}} {{apiserver}}"
INSTANCE_LEGEND = "{{cluster}} {{instance}}"


def quantile(q: float, histogram: str, matchers: str, by: Sequence[str], over: str = "$__rate_interval") -> str:
    """The quantile of a histogram's events within `over`."""
    labels = ", ".join((*by, "le"))
    return f"histogram_quantile({q}, sum by ({labels}) (rate({histogram}_bucket{{{matchers}}}[{over}])))"


def increase(counter: str, matchers: str, by: str) -> str:
    """How much a counter grew from one point of a graph to the next."""
    return f"sum by ({by}) (increase({counter}{{{matchers}}}[$__rate_interval]))"


def in_range(counter: str, matchers: str) -> str:
    """How much a counter grew in the time that the dashboard shows."""
    return f"sum (increase({counter}{{{matchers}}}[$__range]))"
