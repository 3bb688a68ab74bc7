"""Writes dashboards as Grafana's classic JSON, with the SDK of Grafana."""

import itertools
import string
from collections.abc import Iterable

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import heatmap, prometheus, stat, table, text, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models import heatmap as heatmap_models
from grafana_foundation_sdk.models import text as text_models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from tools.dashboards.panels import Board, Look, Panel, Step, Target, Variable
from tools.dashboards.placing import COLUMNS, NOTE_HEIGHT, placed

TAG = "watchslo"
SOURCE = common.DataSourceRef(type_val="prometheus", uid="${datasource}")
GRAPH_FILL = 10  # percent
STACK_FILL = 50

Graph = timeseries.Panel | stat.Panel | heatmap.Panel | table.Panel


def encode(board: Board) -> str:
    """Return the JSON file of a dashboard; the same dashboard gives the same text."""
    encoded: str = JSONEncoder(sort_keys=True, indent=2).encode(_dashboard(board))
    return encoded + "\n"


def _dashboard(board: Board) -> dashboard.Dashboard:
    made = (
        builders.Dashboard(board.title)
        .uid(board.uid)
        .description(board.description)
        .tags([TAG])
        .time("now-1h", "now")
        .refresh("30s")
        .timezone("browser")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .link(_link_to_other_dashboards())
        .with_variable(builders.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    for variable in board.variables:
        made = made.with_variable(_variable(variable))
    ids = itertools.count(1)
    row = 0
    if board.note:
        note = text.Panel().content(board.note).mode(text_models.TextMode.MARKDOWN)
        made = made.with_panel(note.id(next(ids)).grid_pos(_position(0, row, COLUMNS, NOTE_HEIGHT)))
        row += NOTE_HEIGHT
    for section in board.sections:
        made = made.with_row(builders.Row(section.title).id(next(ids)).grid_pos(_position(0, row, COLUMNS, 1)))
        row += 1
        for panel, place in placed(section, row):
            position = _position(place.left, place.top, place.width, place.height)
            made = made.with_panel(_panel(panel).id(next(ids)).grid_pos(position))
            row = max(row, place.top + place.height)
    return made.build()


def _link_to_other_dashboards() -> builders.DashboardLink:
    link = builders.DashboardLink("watchslo").type(dashboard.DashboardLinkType.DASHBOARDS).tags([TAG])
    return link.as_dropdown(False).include_vars(True).keep_time(True).placement("")  # noqa: FBT003 - the signature of the SDK


def _variable(variable: Variable) -> builders.QueryVariable:
    """Build a variable; the value of All, `.*`, also matches series without the label, such as `cluster`."""
    every = dashboard.VariableOption(text="All", value="$__all", selected=True)
    selected = variable.selected and dashboard.VariableOption(
        text=[variable.selected], value=[variable.selected], selected=True
    )
    return (
        builders.QueryVariable(variable.name)
        .label(variable.label)
        .datasource(SOURCE)
        .query({"query": variable.query, "refId": variable.name})
        .definition(variable.query)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
        .multi(True)  # noqa: FBT003 - the signature of the SDK
        .include_all(True)  # noqa: FBT003
        .all_value(".*")
        .current(selected or every)
    )


def _position(left: int, top: int, width: int, height: int) -> dashboard.GridPos:
    return dashboard.GridPos(x=left, y=top, w=width, h=height)


# --- panels ----------------------------------------------------------------------------------------------------------


def _panel(panel: Panel) -> Graph:
    made = _LOOKS[panel.look](panel)
    for target in panel.targets:
        made = made.override_by_name(target.legend, changes) if (changes := _changes(target)) else made
    for letter, target in zip(string.ascii_uppercase, panel.targets, strict=False):
        made = made.with_target(_query(target, panel.look, letter))
    return (
        made.title(panel.title)
        .description(panel.description)
        .datasource(SOURCE)
        .unit(panel.unit)
        .thresholds(_thresholds(panel.thresholds))
    )


def _changes(target: Target) -> list[dashboard.DynamicConfigValue]:
    """Return the settings in which this query differs from its panel."""
    changes = []
    if target.unit is not None:
        changes.append(dashboard.DynamicConfigValue(id_val="unit", value=target.unit))
    if target.colour is not None:
        fixed = {"mode": dashboard.FieldColorModeId.FIXED, "fixedColor": target.colour}
        changes.append(dashboard.DynamicConfigValue(id_val="color", value=fixed))
    return changes


def _query(target: Target, look: Look, letter: str) -> prometheus.Dataquery:
    query = prometheus.Dataquery().expr(target.expr).legend_format(target.legend).ref_id(letter).datasource(SOURCE)
    query = query.format(_FORMATS.get(look, PromQueryFormat.TIME_SERIES))
    once = look is Look.TABLE or (look is Look.NUMBER and "$__range" in target.expr)
    return query.instant() if once else query.range()


def _thresholds(steps: Iterable[Step]) -> builders.ThresholdsConfig:
    made = [dashboard.Threshold(value=step.value, color=step.colour) for step in steps]
    return builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(made)


def _number(_: Panel) -> Graph:
    reduce = common_builders.ReduceDataOptions().calcs(["lastNotNull"]).values(False)  # noqa: FBT003
    return (
        stat.Panel()
        .reduce_options(reduce)
        .color_mode(common.BigValueColorMode.VALUE)
        .graph_mode(common.BigValueGraphMode.AREA)
        .color_scheme(_colour(dashboard.FieldColorModeId.THRESHOLDS))
    )


def _lines(panel: Panel) -> Graph:
    return _graph(panel).fill_opacity(GRAPH_FILL)


def _stack(panel: Panel) -> Graph:
    stacked = common_builders.StackingConfig().group("A").mode(common.StackingMode.NORMAL)
    return _graph(panel).fill_opacity(STACK_FILL).stacking(stacked)


def _graph(panel: Panel) -> timeseries.Panel:
    limited = len(panel.thresholds) > 1 and panel.look is Look.LINES
    style = common.GraphThresholdsStyleMode.DASHED if limited else common.GraphThresholdsStyleMode.OFF
    return (
        timeseries.Panel()
        .line_width(1)
        .show_points(common.VisibilityMode.AUTO)
        .thresholds_style(common_builders.GraphThresholdsStyleConfig().mode(style))
        .color_scheme(_colour(dashboard.FieldColorModeId.PALETTE_CLASSIC))
        .axis_soft_min(0)
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(True)  # noqa: FBT003 - the signature of the SDK
            .calcs([])
        )
        .tooltip(
            common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
        )
    )


def _heatmap(panel: Panel) -> Graph:
    """Build a heatmap of Prometheus buckets, coloured by their number of events."""
    colours = heatmap.HeatmapColorOptions().mode(heatmap_models.HeatmapColorMode.SCHEME).scheme("Oranges").steps(64)
    return (
        heatmap.Panel()
        .calculate(False)  # noqa: FBT003 - the signature of the SDK
        .y_axis(heatmap.YAxisConfig().unit(panel.unit))
        .color(colours)
        .cell_gap(1)
    )


def _table(panel: Panel) -> Graph:
    """Build a table with one row per set of labels, merged from all queries; sorted by the first column, descending."""
    columns = {
        f"Value #{letter}": target for letter, target in zip(string.ascii_uppercase, panel.targets, strict=False)
    }
    if len(panel.targets) == 1:
        columns = {"Value": panel.targets[0]}
    names = {column: target.legend for column, target in columns.items()}
    made = table.Panel().with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
    made = made.with_transformation(
        dashboard.DataTransformerConfig(
            id_val="organize",
            options={"excludeByName": {"Time": True}, "indexByName": {}, "renameByName": names},
        )
    )
    worst = panel.targets[0].legend
    coloured = dashboard.DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-text"})
    made = made.override_by_name(worst, [coloured]).color_scheme(_colour(dashboard.FieldColorModeId.THRESHOLDS))
    return made.sort_by([common_builders.TableSortByFieldState().display_name(worst).desc(True)])  # noqa: FBT003


def _colour(mode: dashboard.FieldColorModeId) -> builders.FieldColor:
    return builders.FieldColor().mode(mode)


_FORMATS = {Look.TABLE: PromQueryFormat.TABLE, Look.HEATMAP: PromQueryFormat.HEATMAP}
_LOOKS = {
    Look.NUMBER: _number,
    Look.LINES: _lines,
    Look.STACK: _stack,
    Look.HEATMAP: _heatmap,
    Look.TABLE: _table,
}
