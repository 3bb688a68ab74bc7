"""`docs/faults.md`, whose last section is that of `make night`, and the table of `make confusion`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from tests.lab.expected import Counts
from tests.lab.faults import FAULTS
from tests.lab.judges.cause import CLEARED_SECONDS, NAMED_SECONDS, NONE, CauseOutcome
from tests.lab.judges.counts import CountsOutcome
from tests.lab.scene import Fault

BEGIN, END = "<!-- night -->", "<!-- night ends -->"
"""The markers around the section that `make night` writes."""
PATH = Path(__file__).parents[2] / "docs" / "faults.md"
REAL, SIMULATED = "real", "simulator"
RIGHT_SHARE = 0.9  # the goal of `make confusion`
HEAD = """\
# Faults

These are the faults that a list and watch can have. The tests that prove the table also write it (`make faults`). In
each row `watchslo run` watches, a test client writes, and the test makes the fault. A row fails if a write is lost: its
event was neither received nor inside a reported gap or violation. A row also fails if a sample is wrong: its bounds
exclude the true latency, or it claims more than a second where the true latency was less.

- *made at*: a *real* kube-apiserver 1.36 with a real etcd where that is possible, else the *simulator*.
- *counted*: the counters that must rise; a row fails if a counter rises that the fault does not explain. `closed
  class/reason` is `watchslo_watches_closed_total`, `relist` `watchslo_relists_total`, `expired`
  `watchslo_expired_total`, `gap` `watchslo_gap_revisions_total`, `stall` `watchslo_stalls_total`, `list fallback`
  `watchslo_list_fallbacks_total`, `violated guarantee` `watchslo_watch_guarantee_violations_total`, `clock reset`
  `watchslo_clock_resets_total`, `unmeasured` `watchslo_unmeasured_events_total`, `garbage`
  `watchslo_watch_events_total{type="error"}`, `tick failed` `watchslo_clock_ticks_total{result="failed"}`,
  `beyond the threshold` `watchslo_slo_events_total{verdict="beyond"}`, `whole objects late` the events of
  `watchslo_representation_delay_seconds` above 0.5 s.
  Failed ticks and late events are named only where the fault always causes them.
- *in a gap*: writes that the server itself could no longer deliver, or only after a line that is longer than the limit.
- *whole again*: seconds from the end of the fault, and in parentheses from its beginning, to the first live event of a
  write after that end. These and the writes in gaps are from one run on two cores; the rest is the same in every run.

"""
COLUMNS = ("fault", "made at", "counted", "in a gap", "whole again")
TAIL = """
A restarted apiserver cannot deliver older events: its watch cache begins with the revision of its start. So does the
new watch cache of a changed CRD. After a restore of etcd it is not known how far the revisions went back: everything
that was written before the new list counts as a gap here.

The rows of violated guarantees read every event a second time (`guarantees: {level: full}`). These watches have no
inventory, so a MODIFIED event that comes as ADDED counts as what it says.
"""


def night_of(text: str) -> str:
    """Return the section in a page, with its markers; empty if it has none."""
    _, begin, rest = text.partition(BEGIN)
    return f"\n{BEGIN}{rest.partition(END)[0]}{END}\n" if begin else ""


def without_night(text: str) -> str:
    """Return a page without its section."""
    return text.replace(night_of(text), "") if BEGIN in text else text


def with_night(text: str, section: str) -> str:
    """Return a page that ends with this section instead of an earlier one."""
    return f"{without_night(text)}\n{BEGIN}\n{section.strip()}\n{END}\n"


def table(columns: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def counted_faults() -> list[tuple[Fault, Counts]]:
    """Return the faults of the first table, with what must be counted."""
    return [(fault, fault.counts) for fault in FAULTS if fault.counts]


def render(outcomes: Mapping[str, CountsOutcome], night: str = "") -> str:
    """Return the page from the outcomes by the name of the fault, with the section of the night at its end."""
    rows = (_cells(fault, counts, outcomes[fault.name]) for fault, counts in counted_faults())
    return HEAD + table(COLUMNS, rows) + TAIL + night


def promised(text: str) -> dict[str, tuple[str, ...]]:
    """Return the cells of each row of a page that hold in every run, by the words of the fault."""
    _, _, *lines = (line for line in without_night(text).splitlines() if line.startswith("| "))
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    return {row[0]: _lasting(row) for row in rows}


def promise(fault: Fault, counts: Counts) -> tuple[str, ...]:
    """Return the cells of a fault that the page must have in every run."""
    return _lasting((*_first_cells(fault, counts), "1" if counts.forgets else "0", ""))


def confusion(outcomes: Sequence[CauseOutcome]) -> str:
    """Return a table: a row for each fault, a column for each named cause, and how long it took."""
    answers = [*sorted({outcome.column for outcome in outcomes} - {NONE}), NONE]
    rows = []
    for fault in dict.fromkeys(outcome.fault for outcome in outcomes):
        those = [outcome for outcome in outcomes if outcome.fault == fault]
        named = Counter(outcome.column for outcome in those)
        right = f"{sum(_in_time(outcome) for outcome in those)} of {len(those)}"
        times = _times(one.named_after for one in those), _times(one.cleared_after for one in those)
        rows.append((fault, *(str(named[answer] or "") for answer in answers), right, *times))
    last = ("right", "named after (median, worst)", "cleared after (median, worst)")
    return table(("fault", *answers, *last), rows)


def missed(outcomes: Sequence[CauseOutcome]) -> Iterator[str]:
    """Yield a sentence for each missed goal of `make confusion`."""
    right = sum(_in_time(outcome) for outcome in outcomes)
    if right < RIGHT_SHARE * len(outcomes):
        yield f"only {right} of {len(outcomes)} answers are right"
    for outcome in outcomes:
        if outcome.wrong:
            yield f"wrong at high confidence: {outcome}"
        if outcome.cleared_after is None or outcome.cleared_after > CLEARED_SECONDS:
            yield f"still named a minute after its end: {outcome}"


def _in_time(outcome: CauseOutcome) -> bool:
    return outcome.right and (outcome.named_after is None or outcome.named_after <= NAMED_SECONDS)


def _times(seconds: Iterable[float | None]) -> str:
    known = [value for value in seconds if value is not None]
    return f"{median(known):.0f} s, {max(known):.0f} s" if known else ""


def _lasting(cells: tuple[str, ...]) -> tuple[str, ...]:
    words, where, counted, in_gaps, _ = cells
    return words, where, counted, "none" if in_gaps == "0" else "some"


def _cells(fault: Fault, counts: Counts, outcome: CountsOutcome) -> Iterator[str]:
    judgement = outcome.judgement
    yield from _first_cells(fault, counts)
    yield f"{judgement.in_gaps} of {judgement.writes}" if counts.forgets else "0"
    yield f"{outcome.after_end:.1f} s ({outcome.after_begin:.1f} s)"


def _first_cells(fault: Fault, counts: Counts) -> tuple[str, str, str]:
    where = SIMULATED if fault.setup.ground == "simulated" else REAL
    return fault.words, where, ", ".join(sorted(counts.counted)) or "nothing"
