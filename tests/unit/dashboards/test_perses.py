"""The dashboards for Perses are current, show what those of Grafana show, and their plugins have the documented shape.

The shapes are those of plugins of Perses 0.54; percli, to which `tests/tools/test_formats.py` gives the files, checks
all the rest.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from tools.dashboards.files import BOARDS, perses_files
from tools.dashboards.panels import Board, Look, Panel
from tools.dashboards.perses import CLASSIC_HEATMAP

FOLDER = Path(__file__).parents[3] / "dashboards/perses"
Colour = Annotated[str, Field(pattern=r"^#(?:[0-9a-fA-F]{3}){1,2}$")]
Text = Annotated[str, Field(min_length=1)]
each_board = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)


@cache
def written() -> dict[str, Any]:
    """Return the documents by file name."""
    return {name: yaml.safe_load(text) for name, text in perses_files().items()}


class _Shape(BaseModel):
    """A closed object."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel)


class _Format(_Shape):
    unit: Literal["seconds", "percent-decimal", "decimal", "bytes", "events/sec", "requests/sec", "bytes/sec"]
    short_values: bool = False


class _Step(_Shape):
    value: float
    color: Colour


class _Thresholds(_Shape):
    mode: Literal["absolute"]
    default_color: Colour
    steps: list[_Step]


class _Stat(_Shape):
    calculation: Literal["last-number"]
    format: _Format
    thresholds: _Thresholds
    sparkline: dict[str, Any] | None = None


class _Legend(_Shape):
    position: Literal["bottom", "right"]
    mode: Literal["list", "table"]


class _Axis(_Shape):
    format: _Format


class _Visual(_Shape):
    display: Literal["line", "bar"]
    line_width: float = Field(ge=0.25, le=3)
    area_opacity: float = Field(ge=0, le=1)
    stack: Literal["all"] | None = None


class _QuerySettings(_Shape):
    query_index: int = Field(ge=0)
    color_mode: Literal["fixed"] | None = None
    color_value: Colour | None = None
    format: _Format | None = None


class _Chart(_Shape):
    legend: _Legend
    y_axis: _Axis
    visual: _Visual
    thresholds: _Thresholds | None = None
    query_settings: list[_QuerySettings] = []


class _Heatmap(_Shape):
    y_axis_format: _Format
    count_format: _Format


class _Range(_Shape):
    min: float
    max: float | None = None


class _Condition(_Shape):
    kind: Literal["Range"]
    spec: _Range


class _Cell(_Shape):
    condition: _Condition
    text_color: Colour


class _Column(_Shape):
    name: Text
    header: str = ""
    format: _Format | None = None
    enable_sorting: bool = False
    sort: Literal["asc", "desc"] | None = None
    hide: bool = False
    cell_settings: list[_Cell] = []


class _Transform(_Shape):
    kind: Literal["MergeSeries"]
    spec: dict[str, Any] = Field(max_length=0)


class _Table(_Shape):
    column_settings: list[_Column]
    transforms: list[_Transform] = []


class _Markdown(_Shape):
    text: str


class _LabelValues(_Shape):
    label_name: Text
    matchers: list[Text]


class _Query(_Shape):
    query: Text
    series_name_format: str
    instant: bool = False


PLUGINS: dict[str, type[_Shape]] = {
    "StatChart": _Stat,
    "TimeSeriesChart": _Chart,
    "HeatMapChart": _Heatmap,
    "Table": _Table,
    "Markdown": _Markdown,
    "PrometheusLabelValuesVariable": _LabelValues,
    "PrometheusTimeSeriesQuery": _Query,
}


def dashboard(board: Board) -> dict[str, Any]:
    found: dict[str, Any] = written()[f"{board.uid}.yaml"]["spec"]["config"]
    return found


def plugins(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every plugin in a dashboard."""
    if isinstance(value, dict):
        if set(value) == {"kind", "spec"} and value["kind"] in PLUGINS:
            yield value
        for inner in value.values():
            yield from plugins(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from plugins(inner)


def all_panels(board: Board) -> list[Panel]:
    return [panel for section in board.sections for panel in section.panels]


def in_order(config: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the panels in the order of the layouts, without the note at the top."""
    names = [item["content"]["$ref"] for layout in config["layouts"] for item in layout["spec"]["items"]]
    return [config["panels"][name.rpartition("/")[2]]["spec"] for name in names if not name.endswith("/note")]


def test_files_match_the_code() -> None:
    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == perses_files(), "run `make dashboards`"


@each_board
class TestDashboards:
    def test_object_is_that_of_the_operator(self, board: Board) -> None:
        document = written()[f"{board.uid}.yaml"]
        assert (document["apiVersion"], document["kind"]) == ("perses.dev/v1alpha2", "PersesDashboard")
        assert document["metadata"] == {"name": board.uid}
        assert document["spec"].keys() == {"config"}

    def test_plugins_have_the_documented_shape(self, board: Board) -> None:
        found = list(plugins(dashboard(board)))
        named = re.findall(r"kind: (\w+)\n", perses_files()[f"{board.uid}.yaml"])
        other = {"PersesDashboard", "ListVariable", "Panel", "TimeSeriesQuery", "Grid", "Range", "MergeSeries"}
        assert set(named) - other == {plugin["kind"] for plugin in found}
        for plugin in found:
            PLUGINS[plugin["kind"]].model_validate(plugin["spec"])

    def test_every_panel_is_there_in_its_order_with_its_queries(self, board: Board) -> None:
        for panel, made in zip(all_panels(board), in_order(dashboard(board)), strict=True):
            assert made["display"]["name"] == panel.title
            assert made["display"]["description"].startswith(panel.description)
            queries = [query["spec"]["plugin"]["spec"]["query"] for query in made["queries"]]
            shown = made["plugin"]["kind"] != "Markdown"
            assert queries == ([target.expr for target in panel.targets] if shown else [])

    def test_panels_do_not_overlap(self, board: Board) -> None:
        for layout in dashboard(board)["layouts"]:
            cells = [
                (item["x"] + dx, item["y"] + dy)
                for item in layout["spec"]["items"]
                for dx in range(item["width"])
                for dy in range(item["height"])
            ]
            assert len(cells) == len(set(cells))
            assert all(x < 24 for x, _ in cells)

    def test_variables_used_in_queries_are_defined(self, board: Board) -> None:
        config = dashboard(board)
        used = {name for text in _queries(config) for name in re.findall(r"\$\{?(\w+)", text)}
        defined = {variable["spec"]["name"] for variable in config["variables"]}
        assert used <= defined | {"__rate_interval", "__range", "__interval"}


def test_only_heatmaps_of_classic_histograms_are_not_shown() -> None:
    texts = [
        (panel.look, made["plugin"]["spec"]["text"])
        for board in BOARDS
        for panel, made in zip(all_panels(board), in_order(dashboard(board)), strict=True)
        if made["plugin"]["kind"] == "Markdown"
    ]
    assert texts == [(Look.HEATMAP, CLASSIC_HEATMAP)]


def _queries(config: dict[str, Any]) -> list[str]:
    return [plugin["spec"]["query"] for plugin in plugins(config) if plugin["kind"] == "PrometheusTimeSeriesQuery"]
