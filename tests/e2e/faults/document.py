"""`docs/faults.md`: the fault matrix, written from the outcomes of its tests. The section of `make night` is kept."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.e2e.faults.row import Outcome, Row
from tests.night import section

PATH = Path(__file__).parents[3] / "docs" / "faults.md"
HEAD = """\
# Faults

This page lists the faults that a list and watch can have, and how watchslo reacts to each. The tests that prove the
table also write it (`make faults`). Each row is a fault that a test makes while `watchslo run` watches and a test
client writes. The client records the revision of every write, and the two moments between which it was committed.
Afterwards the test looks for each of these revisions: `watchslo run` received its event, or reported a gap or a
violated guarantee that contains it. The test also compares each latency sample with the recorded moments.

- *made at*: a real kube-apiserver with a real etcd where that is possible, else the simulator.
- *counted*: the counters that must rise; a row fails if a counter rises that the fault does not explain. `closed
  class/reason` is `watchslo_watches_closed_total`, `relist` `watchslo_relists_total`, `expired`
  `watchslo_expired_total`, `gap` `watchslo_gap_revisions_total`, `stall` `watchslo_stalls_total`, `list fallback`
  `watchslo_list_fallbacks_total`, `violated guarantee` `watchslo_watch_guarantee_violations_total`, `clock reset`
  `watchslo_clock_resets_total`, `unmeasured` `watchslo_unmeasured_events_total`, `garbage`
  `watchslo_watch_events_total{type="error"}`, `tick failed` `watchslo_clock_ticks_total{result="failed"}`,
  `beyond the threshold` `watchslo_slo_events_total{verdict="beyond"}`, `whole objects late` the events of
  `watchslo_representation_delay_seconds` above 0.5 s.
  Failed ticks and late events are named only where the fault always causes them.
- *lost*: writes whose event was neither received nor inside a reported gap or violation. *In a gap*: writes that the
  server itself could no longer deliver, or only after a line that is longer than the limit.
- *wrong samples*: samples whose bounds exclude the true latency, and samples that claim more than a second where the
  true latency was less.
- *whole again*: seconds to the first live event of a write after the end of the fault, counted from the end of the
  fault, and in parentheses from its beginning. These seconds and the numbers of writes in gaps are from one run of each
  row on two cores; everything else is the same in every run.

"""
COLUMNS = ("fault", "made at", "counted", "lost", "in a gap", "wrong samples", "whole again")
TAIL = """
The test steps the wall clock inside the daemon only, with a `time.time` that is an hour ahead, and blocks its event
loop by a signal handler that sleeps.

A restarted apiserver cannot deliver older events: its watch cache begins with the revision of its start. The same holds
for the new watch cache of a changed CRD, if writes come before the watch is open again. After a restore of etcd it is
not known how far the revisions went back. watchslo therefore reports a clock reset and a relist for that reason, and
everything that was written before the new list counts as a gap here.

The rows of violated guarantees read every event a second time (`guarantees: {level: full}`). The type of an event is
compared with an inventory only, which these watches do not have, so a MODIFIED event that comes as ADDED counts as what
it says.

`tests/e2e/test_expiry.py` shows the effect of a slow list on a real watch cache, with 25,000 pods.
"""


def render(outcomes: Iterable[Outcome], night: str = "") -> str:
    """Return the whole document, with the section of the night at its end."""
    lines = [_line(COLUMNS), _line("---" for _ in COLUMNS), *(_line(_cells(outcome)) for outcome in outcomes)]
    return HEAD + "\n".join(lines) + "\n" + TAIL + night


def promised(text: str) -> dict[str, tuple[str, ...]]:
    """Return the cells of each row of a document that hold in every run, by the title of the row."""
    _, _, *lines = (line for line in section.without(text).splitlines() if line.startswith("| "))
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    return {row[0]: _lasting(row) for row in rows}


def promise(row: Row) -> tuple[str, ...]:
    """Return the cells of a row that the document must have in every run."""
    return _lasting((row.title, row.where, _counted(row), "0", "1" if row.forgets else "0", "0", ""))


def _lasting(cells: tuple[str, ...]) -> tuple[str, ...]:
    title, where, counted, lost, in_gaps, wrong, _ = cells
    return title, where, counted, lost, "none" if in_gaps == "0" else "some", wrong


def _cells(outcome: Outcome) -> Iterator[str]:
    row, judgement = outcome.row, outcome.judgement
    yield row.title
    yield row.where
    yield _counted(row)
    yield str(len(judgement.lost))
    yield f"{judgement.in_gaps} of {judgement.writes}" if row.forgets else "0"
    yield str(len(judgement.wrong) + judgement.false_alarms)
    yield f"{outcome.after_end:.1f} s ({outcome.after_begin:.1f} s)"


def _counted(row: Row) -> str:
    return ", ".join(sorted(row.counted)) or "nothing"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
