"""What an instance of each shipped profile asks in a day stays within the tables of docs/performance.md.

The limits stand there only. Those of usual hours are no looser than needed, so that the page says what they cost.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.support.daemonset import PROFILES
from tests.unit.monitor.cluster import Cluster
from tests.unit.monitor.profile_day import COLUMNS, STRETCHES, ProfileDay, shipped

PAGE = Path(__file__).parents[3] / "docs/performance.md"
NAMES = tuple(sorted(path.name for path in PROFILES.iterdir()))
SMALL = "node"  # its day takes seconds, that of each other profile a minute
QUIET_SECONDS = 600.0  # that are played of a quiet hour without the day
NODES = 5_000
LOOSEST = 1.5  # times what was asked
LOOSEST_COUNT = 50  # beyond that, for what is asked seldom
USUAL = ("a quiet hour", "a day")
REQUESTS = COLUMNS[:4]


@cache
def table(of: str) -> Mapping[str, Mapping[str, str]]:
    """Return the rows of the table that begins with this heading, by their first cell, then by column."""
    lines = PAGE.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {of} |"))
    head, _, *rows = [_cells(line) for line in lines[start:] if line.startswith("|")][: _length(lines[start:])]
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def _length(lines: list[str]) -> int:
    return next((number for number, line in enumerate(lines) if not line.startswith("|")), len(lines))


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def number(cell: str) -> float:
    return float(cell.replace(",", ""))


def compare(profile: str, asked: Mapping[str, Mapping[str, float]]) -> None:
    """Fail if a stretch of a profile asked more than its limits, or if a limit of usual hours is too loose."""
    rows = {f"{profile}: {stretch}": cost for stretch, cost in asked.items()}
    limits = {name: {column: number(row[column]) for column in COLUMNS} for name, row in table("at most").items()}
    cells = [(row, column) for row in rows for column in COLUMNS]
    too_many = {cell: rows[cell[0]][cell[1]] for cell in cells if rows[cell[0]][cell[1]] > limits[cell[0]][cell[1]]}
    assert not too_many
    usual = [(row, column) for row, column in cells if row.endswith(USUAL)]
    loosest = {(row, column): LOOSEST * rows[row][column] + LOOSEST_COUNT for row, column in usual}
    assert not {cell: rows[cell[0]][cell[1]] for cell in usual if limits[cell[0]][cell[1]] > loosest[cell]}


@pytest.mark.parametrize(
    "profile", [name if name == SMALL else pytest.param(name, marks=pytest.mark.long) for name in NAMES]
)
async def test_requests_of_a_day_are_within_the_limits(profile: str, cluster: Cluster) -> None:
    compare(profile, await ProfileDay(profile, cluster).play_day())


@pytest.mark.parametrize("profile", [name for name in NAMES if name != SMALL])
async def test_requests_of_a_start_and_of_quiet_minutes_are_within_the_limits(profile: str, cluster: Cluster) -> None:
    compare(profile, await ProfileDay(profile, cluster).play(QUIET_SECONDS))


def test_table_has_each_profile_and_stretch() -> None:
    assert {*table("at most")} == {f"{profile}: {stretch}" for profile in NAMES for stretch in (*STRETCHES, "a day")}


def test_no_profile_reads_the_past_of_etcd_and_nodes_list_no_objects() -> None:
    assert {row["watches from the past"] for row in table("at most").values()} == {"0"}
    assert {row["lists with objects"] for name, row in table("at most").items() if name.startswith("node")} == {"0"}


@pytest.mark.parametrize("stretch", STRETCHES)
def test_figures_of_thousands_of_nodes_are_those_of_one_multiplied(stretch: str) -> None:
    one, many = table("at most")[f"node: {stretch}"], table("5,000 nodes, a second")[stretch]
    rate = NODES / STRETCHES[stretch]
    assert {name: number(cell) for name, cell in many.items()} == {
        "requests": round(rate * sum(number(one[column]) for column in REQUESTS)),
        "ticks among them": round(rate * number(one["ticks"])),
        "TLS handshakes": round(rate * number(one["TLS handshakes"])),
        "kB": round(rate * number(one["kB"])),
    }


def test_hard_caps_are_those_of_the_configurations() -> None:
    caps = {name: shipped(name).limits for name in NAMES}
    rates = {name: (limits.requests_per_second, limits.resumes_per_second) for name, limits in caps.items()}
    rows = table("hard cap, a second")
    assert {name: tuple(map(number, [*row.values()][:2])) for name, row in rows.items()} == rates
    assert number(rows["node"]["of 5,000 nodes"]) == NODES * sum(rates["node"])
