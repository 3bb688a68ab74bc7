"""Watches as a table for a terminal or a pipe."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from tests.support.transcripts import of_states
from tests.unit.serve import readings
from watchslo.api.part import part_of
from watchslo.api.status import ClientStatus, QuantileStatus
from watchslo.app.table import MOST_IDLE, STYLES, draw, draw_clients, plain_console
from watchslo.app.terminal import Line, view_of
from watchslo.snapshot import QuantileReading
from watchslo.timeline.condition import P50, P99, Condition, WatchVerdict


def line(*p99: float, events: int = 100) -> Line:
    """A watch whose P99 has this lower bound, estimate and upper bound, or none."""
    quantiles: tuple[QuantileReading, ...] = ()
    if p99:
        lower, estimate, upper = p99
        median = QuantileReading(P50, 0.0, 0.002, 0.4, resolution=0.005)
        quantiles = (median, QuantileReading(P99, lower, estimate, upper))
    track = readings.judged(events, *quantiles)
    (made,) = view_of(replace(readings.SNAPSHOT, watches=(replace(readings.TAIL, track=track),))).lines
    return made


def drawn(*lines: Line) -> str:
    console = plain_console()
    with console.capture() as captured:
        console.print(draw(lines))
    return captured.get()


MADE = line(0.0, 0.1, 0.9)
MEDIAN = replace(MADE, quantile=0.5, quantiles={P50: QuantileStatus(q=P50, lower=0.3, estimate=0.4, upper=0.5)})
TAIL = QuantileStatus(q=0.999, lower=0.3, estimate=0.4, upper=0.5, rough=True)
BUSY = replace(MADE, quantiles={**MADE.quantiles, 0.999: TAIL})
CLOSED = replace(MADE, up=False, state="reopening", condition=Condition.CLOSED, failure="This identity may not. " * 9)
LATE = line(0.1, 0.2, float("inf"))
LONG = replace(
    line(0.1234, 0.1234, 0.1234, events=100_000), watch="endpointslices.discovery.k8s.io", condition=Condition.CLOSED
)
UNRESOLVED = replace(
    LATE, quantiles={q: changed(one, resolution=0.304, resolved=False) for q, one in LATE.quantiles.items()}
)
IDLE = replace(line(events=0), condition=Condition.IDLE)
TABLES = {
    "within": [MADE],
    "without events": [line(events=0)],
    "estimate below the resolution": [UNRESOLVED],
    "closed, stalled, and within to 95 percent": [
        CLOSED,
        replace(MADE, stalled_for=12.0, condition=Condition.STALLED),
        replace(line(0.003, 0.012, 1.19), condition=Condition.WITHIN),
    ],
    "P99.9 is judged": [replace(MADE, quantile=0.999)],
    "different quantiles are judged": [MADE, MEDIAN],
    "one of two has P99.9": [MADE, BUSY],
    "P99.9 is judged and known": [replace(BUSY, quantile=0.999)],
    "markup": [replace(MADE, watch="[/bold] :boom:")],
    "long names and numbers": [replace(LONG, up=False, state="reopening", failure=CLOSED.failure)],
    "few idle watches": [*[IDLE] * MOST_IDLE, MADE],
    "many idle watches": [IDLE, MADE, *[IDLE] * MOST_IDLE],
    "no watches": [],
}


def test_tables_match_golden_file(golden: Callable[[str, str], None]) -> None:
    golden("tables.txt", of_states({name: drawn(*lines).splitlines() for name, lines in TABLES.items()}))


@pytest.mark.parametrize("lines", TABLES.values(), ids=TABLES)
def test_table_fits_into_110_columns_and_has_a_row_for_each_watch_but_many_idle_ones(lines: list[Line]) -> None:
    rows, idle = drawn(*lines).splitlines(), lines.count(IDLE)
    more = idle - 1 if idle > MOST_IDLE else 0
    assert len(rows) == (len(lines) - more + 1 if lines else 0)
    assert all(len(row) <= 110 for row in rows)


def test_clients_have_no_control_characters_and_what_is_stale_is_as_a_late_watch() -> None:
    client = part_of(ClientStatus, replace(readings.MANAGER, obstacle="It says \x1b[31mno."))
    table, console = draw_clients([client]), plain_console()
    with console.capture() as captured:
        console.print(table)
    assert captured.get().rstrip().endswith("It says ?[31mno.")
    assert [row.style for row in table.rows] == [*[STYLES[Condition.LATE]] * 2, STYLES[Condition.WITHIN], "yellow"]


def test_line_without_events_is_not_measured() -> None:
    assert line(events=0).verdict is WatchVerdict.NOT_MEASURED
