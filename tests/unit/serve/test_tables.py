"""The rows of the tables *Controllers* and *Clients*, which page, terminal and report show."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.transcripts import of_states
from tests.unit.serve import readings
from watchslo.api.part import part_of
from watchslo.api.status import ClientStatus, ReactionStatus
from watchslo.model import Interval
from watchslo.serve.tables import CLIENTS, CONTROLLERS, MOST_STALE, client_lines, reaction_cells
from watchslo.snapshot import ClientReading, InformerReading, StoreVerdict


def informers(verdict: StoreVerdict, *staleness: Interval | None) -> tuple[InformerReading, ...]:
    """Return a resource with this verdict for each staleness; the longest queue is that of the last one."""
    return tuple(
        InformerReading("", f"{verdict}{number}", verdict, bounds, number) for number, bounds in enumerate(staleness)
    )


NOTHING = Interval(0.0, 0.0)
EMPTY = ClientReading(client="my-controller", reads={})
CURRENT = informers(StoreVerdict.CURRENT, *[NOTHING] * 57)
STALE = informers(StoreVerdict.STALE, *(Interval(second, second + 0.25) for second in range(5, 8)))
CASES = {
    "two stale resources": readings.MANAGER,
    "all are current, and the upper bound of the worst counts": replace(
        EMPTY, informers=(*CURRENT, *informers(StoreVerdict.CURRENT, Interval(0.0, 0.34), Interval(0.1, 0.2)))
    ),
    "all are current and lack nothing": replace(EMPTY, informers=CURRENT, unknown={"selected": 1, "empty": 1}),
    "the worst comes first": replace(EMPTY, informers=STALE),
    "nothing is judged": replace(EMPTY, unknown={"unwatched": 59}),
    "the bounds of unknown caches do not count": replace(
        EMPTY,
        informers=(*CURRENT, *informers(StoreVerdict.UNKNOWN, Interval(0.0, 40.0), None)),
        unknown={"selected": 2},
    ),
    "a queue is known, and no revision": replace(EMPTY, informers=informers(StoreVerdict.UNKNOWN, None)),
    "the page cannot be read": readings.SCHEDULER,
    "a part of the page cannot be read": replace(EMPTY, informers=CURRENT, obstacle="2 lines cannot be read."),
    "no page was judged yet": EMPTY,
    "more stale resources than rows": replace(
        EMPTY,
        informers=(*informers(StoreVerdict.STALE, *[Interval(9.0, 11.0)] * 57, Interval(8.0, 12.0)), *CURRENT[:1]),
    ),
}


def shown(client: ClientReading) -> list[tuple[str, ...]]:
    return [(line.level, *line.cells) for line in client_lines([part_of(ClientStatus, client)])]


def test_rows_of_clients_match_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("clients.txt", of_states({name: map(" | ".join, shown(client)) for name, client in CASES.items()}))


@pytest.mark.parametrize("client", CASES.values(), ids=CASES)
def test_each_row_has_its_own_key_and_a_cell_for_each_column(client: ClientReading) -> None:
    lines = [*client_lines([part_of(ClientStatus, client), part_of(ClientStatus, replace(client, client="other"))])]
    assert len({line.key for line in lines}) == len(lines) > 1
    assert {len(line.cells) for line in lines} == {len(CLIENTS)}


@pytest.mark.parametrize("client", CASES.values(), ids=CASES)
def test_every_judged_resource_is_in_a_row_or_counted(client: ClientReading) -> None:
    rows, judged = shown(client), [informer.verdict for informer in client.informers]
    named = [row for row in rows if row[-1] == StoreVerdict.STALE]
    counted = {verdict: int(count) for row in rows for count, verdict in _counts(row[-1])}
    assert len(named) == min(MOST_STALE, judged.count(StoreVerdict.STALE))
    assert len(named) + counted.get("stale", 0) == judged.count(StoreVerdict.STALE)
    assert counted.get("current", 0) == judged.count(StoreVerdict.CURRENT)
    assert counted.get("unknown", 0) == sum(client.unknown.values())


def _counts(condition: str) -> list[list[str]]:
    """Return the counts of a row of others, each with its verdict."""
    parts = [part.split()[:2] for part in condition.partition(" (")[0].split(", ")]
    return [part for part in parts if len(part) == 2 and part[1] in [*StoreVerdict]]


def test_row_of_a_step_has_a_cell_for_each_column() -> None:
    cells = reaction_cells(part_of(ReactionStatus, readings.SCHEDULED))
    assert len(cells) == len(CONTROLLERS)
