"""`docs/faults.md`: the fault matrix, as the tests that prove it have found it."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.e2e.faults.row import Outcome, Row

PATH = Path(__file__).parents[3] / "docs" / "faults.md"
HEAD = """\
# Faults

What can go wrong with a list+watch, and what watchslo makes of it. The table is written by the tests that prove it
(`make faults`): each row is a fault that is made while somebody writes and `watchslo run` watches. Whoever writes
notes the revision of every write and between which moments it was committed. Afterwards each of these revisions was
either seen, or is inside a gap that was reported; and each latency sample is compared with what can be true.

- *made at*: at a real kube-apiserver with a real etcd wherever it can be made there, else in the simulator.
- *counted*: the counters that must have changed; a row fails where others did that nothing here explains. `closed
  class/reason` is `watchslo_watches_closed_total`, `relist` `watchslo_relists_total`, `expired`
  `watchslo_expired_total`, `gap` `watchslo_gap_revisions_total`, `stall` `watchslo_stalls_total`, `list fallback`
  `watchslo_list_fallbacks_total`, `clock reset` `watchslo_clock_resets_total`, `unmeasured`
  `watchslo_unmeasured_events_total`, `garbage` `watchslo_watch_events_total{type="error"}`, `tick failed`
  `watchslo_clock_ticks_total{result="failed"}`, `beyond the threshold` `watchslo_slo_events_total{verdict="beyond"}`:
  events that were late indeed. Failed ticks and late events are named only where they are sure to be.
- *lost*: writes whose event was neither seen nor inside a reported gap. *In a gap*: what the server itself could no
  longer deliver, or only behind a line that is longer than we may read.
- *wrong samples*: those whose bounds exclude the truth, and those said to be over a second that were not.
- *whole again*: seconds from the end of the fault, and from its beginning, to the first live event of what was
  written after its end. The seconds, and the number of writes in gaps, are those of one run on two cores; all else
  holds in every run.

"""
COLUMNS = ("fault", "made at", "counted", "lost", "in a gap", "wrong samples", "whole again")
TAIL = """
Our wall clock is stepped within our own process, by a `time.time` that is an hour ahead: the clock of
the machine is not ours to turn. Our loop is blocked by a signal handler that sleeps. An apiserver forgets
what it cannot deliver when it starts: its watch cache begins with the revision of that moment. So does the new
cache of a CRD that was changed, if writes come between it and us. After a restore of
etcd nobody can know how far it went back; what was written before the new list is reported as a clock reset and a
relist for that reason, and counts as a gap here. What a slow list makes of a real watch cache, with 25,000 pods, is
shown by `tests/e2e/test_strategies.py`.
"""


def render(outcomes: Iterable[Outcome]) -> str:
    """The whole document."""
    lines = [_line(COLUMNS), _line("---" for _ in COLUMNS), *(_line(_cells(outcome)) for outcome in outcomes)]
    return HEAD + "\n".join(lines) + "\n" + TAIL


def promised(text: str) -> dict[str, tuple[str, ...]]:
    """What a document says for every run of each fault: its line without what was measured."""
    _, _, *lines = (line for line in text.splitlines() if line.startswith("| "))
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    return {row[0]: _lasting(row) for row in rows}


def promise(row: Row) -> tuple[str, ...]:
    """What the document has to say for every run of this fault."""
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
