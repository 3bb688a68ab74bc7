import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tools.dashboards.files import BOARDS, files
from tools.dashboards.panels import Board, Look, Panel
from tools.dashboards.queries import panels, queries, variables
from watchslo.config.model import Config
from watchslo.rules.fleet import fleet_groups
from watchslo.rules.settings import RuleSettings
from watchslo.serve.metrics import FAMILIES, Detail

FOLDER = Path(__file__).parents[3] / "dashboards"
SHIPPED = {name: json.loads(text) for name, text in files().items()}
OVERVIEW, NODE, FLEET = "watchslo-overview.json", "watchslo-node.json", "watchslo-fleet.json"
SELECTIONS = {"cluster", "apiserver", "watch", "instance"}
OURS = re.compile(r"\bwatchslo_\w+")
WINDOW = re.compile(r"\[([^]]+)\]")


def all_panels(board: Board) -> Iterator[Panel]:
    return (panel for section in board.sections for panel in section.panels)


def test_files_match_the_code() -> None:
    shipped = {path.name: path.read_text() for path in FOLDER.glob("*.json")}
    assert shipped == files(), "run `make dashboards`"


def test_files_are_named_by_uid() -> None:
    assert set(SHIPPED) == {
        f"watchslo-{name}.json" for name in ("overview", "slo", "protocol", "trust", "apiserver", "node", "fleet")
    }
    assert all(name == f"{dashboard['uid']}.json" for name, dashboard in SHIPPED.items())


def test_dashboard_of_nodes_queries_only_what_node_mode_exports() -> None:
    exported = {family.name for family in FAMILIES if family.view(Detail.NODE)}
    asked = {name for _, query in queries(SHIPPED[NODE]) for name in OURS.findall(query)}
    assert asked
    assert asked <= exported


def test_dashboard_of_nodes_says_first_what_is_proven_and_selects_the_job_of_the_profile() -> None:
    shipped = SHIPPED[NODE]
    note = shipped["panels"][0]
    assert (note["type"], note["options"]["mode"]) == ("text", "markdown")
    assert "**Proven**" in note["options"]["content"]
    assert "**Not measured**" in note["options"]["content"]
    (job,) = (variable for variable in shipped["templating"]["list"] if variable["name"] == "job")
    assert job["current"]["value"] == ["watchslo-node"]


def test_dashboard_of_a_fleet_reads_only_what_the_global_level_records() -> None:
    settings = RuleSettings(cluster_label="cluster")
    recorded = {rule.name for group in fleet_groups(Config(), settings) for rule in group.rules}
    shipped = SHIPPED[FLEET]
    asked = [query for _, query in (*queries(shipped), *variables(shipped))]
    assert {name for query in asked for name in re.findall(r"[\w:]*watchslo_[\w:]+", query)} <= recorded


def test_other_dashboards_name_the_level_of_metrics_that_they_require() -> None:
    for name, shipped in SHIPPED.items():
        assert ("Requires `metrics: basic`" in shipped["description"]) is (name not in (NODE, FLEET))


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
class TestBoard:
    def test_every_panel_has_description_unit_queries_legends_and_thresholds(self, board: Board) -> None:
        for panel in all_panels(board):
            assert 30 <= len(panel.description) <= 250, panel.title
            assert panel.description.endswith("."), panel.title
            assert panel.unit, panel.title
            assert panel.targets, panel.title
            assert all(target.legend for target in panel.targets), panel.title
            assert panel.thresholds[0].value is None, panel.title
            values = [step.value for step in panel.thresholds[1:] if step.value is not None]
            assert values == sorted(set(values)), panel.title
            assert len(values) == len(panel.thresholds) - 1, panel.title

    def test_number_panels_have_one_aggregated_series(self, board: Board) -> None:
        for panel in all_panels(board):
            if panel.look is Look.NUMBER:
                assert len(panel.targets) == 1
                assert re.match(r"(?:round\()?(?:sum|max|min|count) \(", panel.targets[0].expr), panel.title

    def test_queries_do_not_replace_missing_data(self, board: Board) -> None:
        """A panel without data must not display 0. Only two forms of a histogram are alternatives."""
        for panel in all_panels(board):
            for target in panel.targets:
                one_form = re.sub(r"^histogram_quantile\(.*\) or (?=histogram_quantile)", "", target.expr)
                one_form = re.sub(r"^sum \(.*\) or on \(\) (?=sum by \(le\))", "", one_form)
                assert not re.search(r"\bor\b|absent|vector\(", one_form), panel.title

    def test_queries_of_native_histograms_also_ask_for_the_classic_form(self, board: Board) -> None:
        native = "|".join(family.name for family in FAMILIES if family.native)
        form = re.compile(rf"(?<![:\w])({native})(_bucket|_count|_sum)?\{{(.*?)\}}")
        for target in (target for panel in all_panels(board) for target in panel.targets):
            if found := form.findall(target.expr):
                name, _, matchers = found[0]
                assert found == [(name, "", matchers), (name, "_bucket", matchers)]

    def test_quantiles_are_never_averaged(self, board: Board) -> None:
        assert not any(re.search(r"\bavg", target.expr) for panel in all_panels(board) for target in panel.targets)

    def test_ranges_are_those_of_the_dashboard_or_one_hour(self, board: Board) -> None:
        """Rare events, such as lists and closes, use a range of one hour, and the description says so."""
        for panel in all_panels(board):
            ranges = {window for target in panel.targets for window in WINDOW.findall(target.expr)}
            assert ranges <= {"$__rate_interval", "$__range", "1h"}, panel.title
            assert "1h" not in ranges or "in the preceding hour" in panel.description, panel.title


@pytest.mark.parametrize("name", SHIPPED)
class TestFile:
    def test_file_imports_without_inputs(self, name: str) -> None:
        assert not any(key.startswith("__") for key in SHIPPED[name])

    def test_data_source_is_the_variable(self, name: str) -> None:
        source = {"type": "prometheus", "uid": "${datasource}"}
        for panel in panels(SHIPPED[name]):
            assert [panel["datasource"], *(target["datasource"] for target in panel["targets"])] == [
                source,
                *(source for _ in panel["targets"]),
            ]

    def test_file_has_all_variables(self, name: str) -> None:
        listed = {variable["name"]: variable for variable in SHIPPED[name]["templating"]["list"]}
        assert listed["datasource"]["query"] == "prometheus"
        selections = {name: variable for name, variable in listed.items() if variable["type"] == "query"}
        assert set(selections) >= ({"cluster"} if name in (FLEET, OVERVIEW) else SELECTIONS)
        assert all(variable["allValue"] == ".*" and variable["includeAll"] for variable in selections.values())
        assert len(variables(SHIPPED[name])) == len(selections)

    def test_every_query_selects_the_cluster(self, name: str) -> None:
        for panel in panels(SHIPPED[name]):
            for target in panel["targets"]:
                assert 'cluster=~"$cluster"' in target["expr"], panel["title"]

    def test_panels_do_not_overlap(self, name: str) -> None:
        def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
            at = panel["gridPos"]
            return {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}

        everything = SHIPPED[name]["panels"]
        assert len({panel["id"] for panel in everything}) == len(everything)
        assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in everything)
        assert not any(cells(one) & cells(other) for one, other in combinations(everything, 2))

    def test_rows_are_24_columns_wide(self, name: str) -> None:
        widths: dict[int, int] = {}
        for panel in SHIPPED[name]["panels"]:
            at = panel["gridPos"]
            widths[at["y"]] = widths.get(at["y"], 0) + at["w"]
        assert set(widths.values()) == {24}


BARE = re.compile(r"[\w:]+\{[^{}]*\}")


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_queries_of_a_table_drop_the_names_of_metrics(board: Board) -> None:
    """Rows of different queries are merged if they have the same labels, of which the name of a metric is one."""
    tables = [panel for panel in all_panels(board) if panel.look is Look.TABLE]
    bare = [panel.title for panel in tables for target in panel.targets if BARE.fullmatch(target.expr)]
    assert bare == []
