"""Makes a fault, waits for its effects, and compares them with what the row expects."""

import time
from collections.abc import Mapping
from math import inf

from tests.e2e.faults.daemon import Observed
from tests.e2e.faults.notes import judge
from tests.e2e.faults.row import LOOK_SECONDS, Outcome, Row, Scene
from tests.e2e.faults.scribe import Scribe
from tests.support.process import PATIENCE_SECONDS
from tests.support.writer import Write

EVALUATED_SECONDS = 6.0  # samples are counted every five seconds
STEADY_SECONDS = EVALUATED_SECONDS  # then everything from the start, or from the fault before, is counted
EXPLAINED_SECONDS = 4.0  # the reason of an early close is counted after the next requests
CAUGHT_UP_SECONDS = 60.0

USUAL = frozenset(
    {
        "relist start",
        "unmeasured initial",
        "unmeasured before_clock",
        "unmeasured tainted",
        "unmeasured own_queue",
        "unmeasured unsealed",
        "tick failed",
        "beyond the threshold",
    }
)
"""What a start or a busy machine may count at any time. Each sample is compared with the truth in any case."""


def play(row: Row, scene: Scene) -> Outcome:
    """Make the fault while the daemon measures, and return what was observed."""
    daemon, since = scene.daemon, _until_live(scene)
    time.sleep(STEADY_SECONDS)
    scene.begins()
    before = {} if row.from_start else scene.counted_before
    row.strike(scene)
    ended = scene.ended or time.monotonic()
    first = _until_whole(scene, ended)
    time.sleep(EXPLAINED_SECONDS)
    until = time.monotonic()
    writes = until_settled(daemon, daemon.watches[0], scene.scribe, since, until)
    _until_measured(scene, until)
    _until_counted(scene, before)
    time.sleep(EVALUATED_SECONDS)
    daemon.process.until(lambda: _all_up(daemon), "all watches are open", LOOK_SECONDS)
    return Outcome(
        row=row,
        counted=_rising(daemon, before),
        after_end=first - ended,
        after_begin=first - scene.began,
        judgement=judge(daemon.notes(), daemon.watches[0], writes, until),
    )


def _until_live(scene: Scene) -> float:
    """Wait until the daemon measures and has received an event.

    Returns the moment from which on every write must be seen.
    """
    daemon = scene.daemon
    daemon.until_measuring(*daemon.watches)
    since = time.monotonic()
    _until_seen(scene, since)
    return since


def _until_whole(scene: Scene, ended: float) -> float:
    """Wait for the first event of a write after the end of the fault, and return the time of its arrival."""
    return _until_seen(scene, ended)


def _until_seen(scene: Scene, since: float) -> float:
    """Wait for the first event of a write after `since`, and return the time of its arrival."""
    daemon, watch = scene.daemon, scene.daemon.watches[0]

    def first() -> float:
        return daemon.notes().first_seen(watch, (write for write in scene.scribe.answered() if write.before >= since))

    daemon.process.until(lambda: first() < inf, "an event", LOOK_SECONDS)
    return first()


def until_settled(daemon: Observed, watch: str, scribe: Scribe, since: float, until: float) -> list[Write]:
    """Wait until every write of this period was seen or reported as missed, and return these writes.

    Open watches do not imply this: a watch with a dead connection counts as open until an audit finds out. A write
    that is neither seen nor reported in time is found to be lost by `judge`.
    """
    writes = scribe.writes(since, until)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        notes = daemon.notes()
        if all(notes.saw(watch, write) or notes.reported(watch, write) for write in writes):
            break
        time.sleep(LOOK_SECONDS)
    return writes


def _until_measured(scene: Scene, until: float) -> None:
    """Wait until everything received before `until` is measured: samples wait for a tick, and ticks may be rare."""
    daemon = scene.daemon

    def measured() -> bool:
        return any(sample.at >= until for sample in reversed(daemon.notes().samples))

    daemon.process.until(measured, "measured", LOOK_SECONDS)


def _until_counted(scene: Scene, before: Mapping[str, float]) -> None:
    """Wait until all expected counters have risen; `verify` fails for those that have not."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _missing(scene.row, _rising(scene.daemon, before)) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)


def _rising(daemon: Observed, before: Mapping[str, float]) -> frozenset[str]:
    return frozenset(name for name, count in daemon.counted().items() if count > before.get(name, 0.0))


def _missing(row: Row, counted: frozenset[str]) -> list[str]:
    return [name for name in row.counted if not _matching(counted, name)]


def _all_up(daemon: Observed) -> bool:
    return all(stream["up"] for stream in daemon.streams().values())


def verify(outcome: Outcome) -> None:
    """Fail if the counters are not the expected ones, an event was lost, or a sample cannot be true."""
    row, judgement = outcome.row, outcome.judgement
    print(outcome.counted, outcome.after_end, outcome.after_begin, judgement)
    assert judgement.lost == (), f"lost and not reported: {judgement.lost}"
    assert judgement.wrong == (), f"samples that cannot be true: {judgement.wrong}"
    assert judgement.false_alarms == 0
    assert judgement.samples > 0
    assert row.forgets or not judgement.in_gaps, f"{judgement.in_gaps} writes are in a gap, but were available"
    missing = _missing(row, outcome.counted)
    assert not missing, f"counted {sorted(outcome.counted)}, but not {missing}"
    expected = row.counted | row.also | USUAL
    unexpected = outcome.counted.difference(*(_matching(outcome.counted, name) for name in expected))
    assert not unexpected, f"counted unexpectedly: {sorted(unexpected)}"


def _matching(counted: frozenset[str], name: str) -> set[str]:
    """The counters that a name stands for: the counter of that name, or all closes of that class."""
    return {each for each in counted if each == name or each.startswith(f"{name}/")}
