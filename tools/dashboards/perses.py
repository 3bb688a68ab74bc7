"""Writes dashboards for Perses, as the objects of its operator: PersesDashboard of perses.dev/v1alpha2.

Perses draws a heatmap only of one native histogram, so a heatmap of classic buckets becomes a text that says so. The
values of a number have one unit, and axes no soft minimum.
"""

import itertools
import re
from collections.abc import Iterable
from typing import Any

from tools.dashboards.panels import NATIVE, Board, Look, Panel, Section, Step, Target, Unit, Variable
from tools.dashboards.placing import COLUMNS, NOTE_HEIGHT, placed
from watchslo.app.rules import as_yaml

HEADER = "# Written by `make dashboards` from tools/dashboards. Do not edit.\n"
DURATION, REFRESH = "1h", "30s"
LINE_WIDTH, LINE_OPACITY, STACK_OPACITY = 1, 0.1, 0.5
LOWEST = -1_000_000_000  # the schema of a range compares its end with its beginning, so there must be one
CLASSIC_HEATMAP = "Perses draws heatmaps of native histograms only, and this histogram is a classic one."
NATIVE_HEATMAP = "Perses draws it only if Prometheus stores native histograms."

UNITS = {
    Unit.SECONDS: "seconds",
    Unit.SHARE: "percent-decimal",
    Unit.COUNT: "decimal",
    Unit.EVENTS: "events/sec",
    Unit.REQUESTS: "requests/sec",
    Unit.BYTES: "bytes",
    Unit.BYTE_RATE: "bytes/sec",
    Unit.TIMES: "decimal",
    Unit.CORES: "decimal",
}
COLOURS = {
    "green": "#56a64b",
    "yellow": "#f2cc0c",
    "orange": "#ff9830",
    "light-red": "#ff7383",
    "red": "#e02f44",
    "dark-red": "#c4162a",
    "purple": "#a352cc",
    "text": "#8e8e8e",
}
"""Perses has no names of colours."""

Json = dict[str, Any]


def encode(board: Board) -> str:
    """Return the YAML file of a dashboard."""
    return HEADER + as_yaml(
        {
            "apiVersion": "perses.dev/v1alpha2",
            "kind": "PersesDashboard",
            "metadata": {"name": board.uid},
            "spec": {"config": _dashboard(board)},
        }
    )


def _dashboard(board: Board) -> Json:
    panels: Json = {}
    layouts = []
    if board.note:
        panels["note"] = _panel("About", "", "Markdown", {"text": board.note})
        layouts.append(_grid("About", [_item("note", 0, 0, COLUMNS, NOTE_HEIGHT)]))
    for number, section in enumerate(board.sections, start=1):
        grid, own = _section(section, number)
        panels |= own
        layouts.append(grid)
    return {
        "display": {"name": board.title, "description": board.description},
        "duration": DURATION,
        "refreshInterval": REFRESH,
        "variables": [_variable(variable) for variable in board.variables],
        "panels": panels,
        "layouts": layouts,
    }


def _variable(variable: Variable) -> Json:
    """Build a variable; the value of All, `.*`, also matches series without the label, such as `cluster`."""
    selector = f"{variable.metric}{{{variable.matchers}}}" if variable.matchers else variable.metric
    return {
        "kind": "ListVariable",
        "spec": {
            "name": variable.name,
            "display": {"name": variable.label, "hidden": False},
            "allowAllValue": True,
            "allowMultiple": True,
            "customAllValue": ".*",
            "defaultValue": [variable.selected or "$__all"],
            "sort": "alphabetical-asc",
            "plugin": {
                "kind": "PrometheusLabelValuesVariable",
                "spec": {"labelName": variable.name, "matchers": [selector]},
            },
        },
    }


def _section(section: Section, number: int) -> tuple[Json, Json]:
    """Return the grid of a section and its panels by their names."""
    panels, items = {}, []
    for index, (panel, place) in zip(itertools.count(1), placed(section, 0)):
        name = f"{number}-{index}"
        panels[name] = _made(panel)
        items.append(_item(name, place.left, place.top, place.width, place.height))
    return _grid(section.title, items), panels


def _grid(title: str, items: list[Json]) -> Json:
    return {"kind": "Grid", "spec": {"display": {"title": title, "collapse": {"open": True}}, "items": items}}


def _item(name: str, left: int, top: int, width: int, height: int) -> Json:
    place = {"x": left, "y": top, "width": width, "height": height}
    return {**place, "content": {"$ref": f"#/spec/panels/{name}"}}


# --- panels ----------------------------------------------------------------------------------------------------------


def _made(panel: Panel) -> Json:
    kind, spec = _LOOKS[panel.look](panel)
    description = panel.description
    if kind == "HeatMapChart":
        description = f"{description} {NATIVE_HEATMAP}"
    queries = [] if kind == "Markdown" else [_query(target, panel.look) for target in panel.targets]
    return _panel(panel.title, description, kind, spec, queries)


def _panel(title: str, description: str, kind: str, spec: Json, queries: Iterable[Json] = ()) -> Json:
    display = {"name": title, **({"description": description} if description else {})}
    made = {"display": display, "plugin": {"kind": kind, "spec": spec}, "queries": list(queries)}
    return {"kind": "Panel", "spec": made}


def _query(target: Target, look: Look) -> Json:
    once = look is Look.TABLE or (look is Look.NUMBER and "$__range" in target.expr)
    spec = {"query": target.expr, "seriesNameFormat": target.legend, **({"instant": True} if once else {})}
    return {"kind": "TimeSeriesQuery", "spec": {"plugin": {"kind": "PrometheusTimeSeriesQuery", "spec": spec}}}


def _number(panel: Panel) -> tuple[str, Json]:
    ranged = not any("$__range" in target.expr for target in panel.targets)
    spec = {
        "calculation": "last-number",
        "format": _format(panel.unit),
        "thresholds": _thresholds(panel.thresholds),
        **({"sparkline": {}} if ranged else {}),
    }
    return "StatChart", spec


def _lines(panel: Panel) -> tuple[str, Json]:
    limits = {"thresholds": _thresholds(panel.thresholds)} if len(panel.thresholds) > 1 else {}
    return _graph(panel, {"areaOpacity": LINE_OPACITY}, limits)


def _stack(panel: Panel) -> tuple[str, Json]:
    return _graph(panel, {"areaOpacity": STACK_OPACITY, "stack": "all"}, {})


def _graph(panel: Panel, visual: Json, limits: Json) -> tuple[str, Json]:
    settings = [changes for index, target in enumerate(panel.targets) if (changes := _changes(index, target))]
    spec = {
        "legend": {"position": "bottom", "mode": "list"},
        "yAxis": {"format": _format(panel.unit)},
        "visual": {"display": "line", "lineWidth": LINE_WIDTH, **visual},
        **limits,
        **({"querySettings": settings} if settings else {}),
    }
    return "TimeSeriesChart", spec


def _changes(index: int, target: Target) -> Json:
    """Return the settings in which this query differs from its panel."""
    changes: Json = {}
    if target.unit is not None:
        changes["format"] = _format(target.unit)
    if target.colour is not None:
        changes |= {"colorMode": "fixed", "colorValue": COLOURS[target.colour]}
    return {"queryIndex": index, **changes} if changes else {}


def _heatmap(panel: Panel) -> tuple[str, Json]:
    (target,) = panel.targets
    if not any(re.search(rf"\b{name}{{", target.expr) for name in NATIVE):
        return "Markdown", {"text": CLASSIC_HEATMAP}
    return "HeatMapChart", {"yAxisFormat": _format(panel.unit), "countFormat": _format(Unit.COUNT)}


def _table(panel: Panel) -> tuple[str, Json]:
    """Build a table with one row per set of labels, merged from all queries; sorted by the first column, descending."""
    several = len(panel.targets) > 1
    columns = [
        {
            "name": f"value #{index}" if several else "value",
            "header": target.legend,
            "format": _format(target.unit or panel.unit),
            "enableSorting": True,
            **({"sort": "desc", "cellSettings": _cells(panel.thresholds)} if index == 1 else {}),
        }
        for index, target in enumerate(panel.targets, start=1)
    ]
    hidden = {"name": "timestamp", "hide": True}
    return "Table", {
        "columnSettings": [*columns, hidden],
        **({"transforms": [{"kind": "MergeSeries", "spec": {}}]} if several else {}),
    }


def _format(unit: Unit) -> Json:
    return {"unit": UNITS[unit], **({"shortValues": True} if unit in (Unit.COUNT, Unit.BYTES) else {})}


def _thresholds(steps: Iterable[Step]) -> Json:
    default, *further = steps
    coloured = [{"value": step.value, "color": COLOURS[step.colour]} for step in further]
    return {"mode": "absolute", "defaultColor": COLOURS[default.colour], "steps": coloured}


def _cells(steps: Iterable[Step]) -> list[Json]:
    """Return the colour of a cell for each range of values."""
    found = tuple(steps)
    return [
        {
            "condition": {
                "kind": "Range",
                "spec": {
                    "min": LOWEST if step.value is None else step.value,
                    **({} if above is None else {"max": above.value}),
                },
            },
            "textColor": COLOURS[step.colour],
        }
        for step, above in zip(found, (*found[1:], None), strict=True)
        if len(found) > 1
    ]


_LOOKS = {
    Look.NUMBER: _number,
    Look.LINES: _lines,
    Look.STACK: _stack,
    Look.HEATMAP: _heatmap,
    Look.TABLE: _table,
}
