"""Checks which panels of the dashboards a Prometheus has data for, and why the others are empty."""

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from watchslo.app.doctor.findings import DeploymentFinding, good, unchecked, warning
from watchslo.app.prometheus_client import Prometheus
from watchslo.errors import ConfigError, ConnectError
from watchslo.serve.metrics import FAMILIES, Detail, Family, Type
from watchslo.timeline.format import counted, some_of

SUBJECT = "dashboards"
CHECKOUT = Path(__file__).parents[3] / "dashboards"
OF_FLEET = "watchslo-fleet.json"  # it reads the global level of a fleet, not the Prometheus of a cluster
QUERIES_AT_ONCE = 4
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_RANGES = {"__rate_interval": "5m", "__range": "1h"}
_METRIC = re.compile(r"(?<![\w:$])([a-zA-Z_][\w:]*)(?=[{\[])")
_SUFFIX = re.compile(r"_(bucket|count|sum)$")
_BY_NAME = {family.name: family for family in FAMILIES}


@dataclass(frozen=True, slots=True)
class PanelQuery:
    """One query of a panel; the titles are those of the dashboard and of the panel."""

    board: str
    panel: str
    expression: str

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that it selects."""
        return frozenset(_METRIC.findall(self.expression))


class Emptiness(Enum):
    """Why a panel is empty; the first reason of its metrics in this order is shown."""

    SERVER = "Prometheus refuses its queries."
    DETAIL = "This needs another `mode`, or level of `metrics`, in the configuration."
    RULES = "The recording rules are not loaded, or have no data yet."
    FOREIGN = "Prometheus does not scrape the apiservers."
    UNUSED = "watchslo exposes no such series: the feature is not used, or nothing of the kind has happened yet."
    MOMENT = "The series exist, but have no value now."


_LIMITING = {
    Emptiness.SERVER: "Run one of the queries there to see its error.",
    Emptiness.RULES: "Load the rules (`watchslo rules`), or wait if they are: budgets of a period take half an hour.",
    Emptiness.FOREIGN: "Scrape the apiservers too, or do without these panels.",
}
"""The remedies for reasons that are no intention of the configuration."""


def dashboard_queries(folder: Path) -> list[PanelQuery]:
    """Return the queries of the dashboards of a cluster in a folder, with everything selected; raises ConfigError."""
    files = sorted(path for path in folder.glob("*.json") if path.name != OF_FLEET)
    if not files:
        raise ConfigError(f"{folder} has no dashboards; name the folder `dashboards` of the repository")
    try:
        return [query for file in files for query in _queries(json.loads(file.read_text()))]
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(f"{folder} has a file that is not a dashboard of Grafana") from None


def _queries(dashboard: Mapping[str, Any]) -> Iterator[PanelQuery]:
    chosen = {
        variable["name"]: variable.get("allValue") or ".*" for variable in dashboard["templating"]["list"]
    } | _RANGES
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            expression = _VARIABLE.sub(lambda match: chosen[match[1] or match[2]], target["expr"])
            yield PanelQuery(dashboard["title"], panel["title"], expression)


def catalogue_queries(selector: str) -> list[PanelQuery]:
    """Return a query for each metric that watchslo can expose: what the panels need, for installations without them."""
    return [PanelQuery("metrics", family.name, _any_form(family, f"{{{selector}}}")) for family in FAMILIES]


def _any_form(family: Family, selector: str) -> str:
    """Return a query for a family; Prometheus may have a native histogram under its own name, or as a count."""
    if family.type is not Type.HISTOGRAM:
        return f"{family.name}{selector}"
    count = f"{family.name}_count{selector}"
    return f"{count} or {family.name}{selector}" if family.native else count


def panel_findings(
    has_data: Mapping[PanelQuery, bool | None], present: set[str], detail: Detail
) -> Iterator[DeploymentFinding]:
    """Yield which panels are empty and why; a panel is empty if none of its queries has data.

    The value of a query is None if Prometheus refuses it. `present` are the metrics with recent samples.
    """
    panels: defaultdict[tuple[str, str], list[PanelQuery]] = defaultdict(list)
    for query in has_data:
        panels[query.board, query.panel].append(query)
    empty = {key: queries for key, queries in panels.items() if not any(has_data[query] for query in queries)}
    if len(empty) == len(panels):
        yield warning(SUBJECT, "All panels are empty.", "Make Prometheus scrape watchslo; then look again.")
        return
    reasons: defaultdict[tuple[str, Emptiness], list[str]] = defaultdict(list)
    for (board, panel), queries in empty.items():
        refused = any(has_data[query] is None for query in queries)
        reasons[board, Emptiness.SERVER if refused else _reason(queries, present, detail)].append(panel)
    for (board, reason), names in reasons.items():
        titles = some_of([f'"{name}"' for name in names])
        text = f"{board}: {counted(len(names), 'panel')} without data ({titles}). {reason.value}"
        remedy = _LIMITING.get(reason)
        yield warning(SUBJECT, text, remedy) if remedy else good(SUBJECT, text)
    yield good(SUBJECT, f"{len(panels) - len(empty)} of {len(panels)} panels show data.")


def _reason(queries: Sequence[PanelQuery], present: set[str], detail: Detail) -> Emptiness:
    metrics = {metric for query in queries for metric in query.metrics}
    families = set(map(_family_of, present))  # a query may select two forms of a histogram, one of which is enough
    found = {_absence(metric, detail) for metric in metrics if _family_of(metric) not in families}
    return next((reason for reason in Emptiness if reason in found), Emptiness.MOMENT)


def _absence(metric: str, detail: Detail) -> Emptiness:
    """Return why a metric has no samples."""
    family = _BY_NAME.get(_family_of(metric))
    if family is not None:
        return Emptiness.UNUSED if family.view(detail) else Emptiness.DETAIL
    return Emptiness.RULES if ":" in metric else Emptiness.FOREIGN


def _family_of(metric: str) -> str:
    """Return the name of our family that has this metric; the metric itself if none has."""
    name = _SUFFIX.sub("", metric)
    return name if name in _BY_NAME else metric


async def check_panels(
    prometheus: Prometheus, queries: Sequence[PanelQuery], detail: Detail
) -> list[DeploymentFinding]:
    """Run all queries, a few at a time."""
    turns = asyncio.Semaphore(QUERIES_AT_ONCE)

    async def ask(query: PanelQuery) -> bool | None:
        async with turns:
            try:
                return bool(await prometheus.query(query.expression))
            except ConnectError:
                return None

    answers = await asyncio.gather(*map(ask, queries))
    if all(answer is None for answer in answers):
        return [unchecked(SUBJECT, "Prometheus answers none of the queries.")]
    present = await prometheus.present({metric for query in queries for metric in query.metrics})
    return [*panel_findings(dict(zip(queries, answers, strict=True)), present, detail)]
