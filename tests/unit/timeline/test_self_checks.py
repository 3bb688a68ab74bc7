"""The self checks in many situations: `tests/golden/self-checks.txt` has a paragraph for each of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.support.transcripts import of_states
from tests.unit.serve import readings
from watchslo.snapshot import (
    Cause,
    DomainReading,
    HistogramReading,
    Snapshot,
    StorageKind,
    TickerReading,
    WitnessReading,
)
from watchslo.timeline.self_checks import MINUTE_POINTS, SelfCheck, SelfChecks, summary
from watchslo.timeline.verdict import Level

EDGES = (0.005, 0.025, 0.15)
SNAPSHOT = replace(readings.SNAPSHOT, domains=(readings.DOMAIN,), watches=(readings.TAIL,))
PENDING = replace(SNAPSHOT, watches=(replace(readings.TAIL, membership="pending"),))
STOPPED = replace(readings.TICKER, answered_ago=60.0, failure="No answer came.")
SILENT = replace(readings.SERVICE, name=STOPPED.apiserver, unresponsive_for=60.0)


def lag(on_time: int, late: int) -> HistogramReading:
    return HistogramReading(EDGES, (on_time, on_time, on_time, on_time + late), 0.0)


def monitor(**changes: Any) -> Snapshot:
    return replace(SNAPSHOT, monitor=replace(readings.MONITOR, **changes))


def witnesses(announced: int, reached: int, why: str | None) -> Sequence[Snapshot]:
    return [monitor(witnesses=WitnessReading(announced, reached, why))]


def domain(**changes: Any) -> DomainReading:
    return replace(readings.DOMAIN, **changes)


def ticking(ticker: TickerReading, **changes: Any) -> Snapshot:
    return replace(SNAPSHOT, domains=(domain(tickers=(ticker,), **changes),))


def events(measured: int, tainted: int) -> Snapshot:
    timespan = HistogramReading((1.0,), (measured, measured), 0.0)
    track = replace(readings.TRACK, timespan=timespan, unmeasured={"tainted": tainted, "initial": 10_000})
    return replace(SNAPSHOT, watches=(replace(readings.TAIL, track=track),))


POLLED = domain(name="leases", tickers=tuple(replace(one, polls=True) for one in readings.DOMAIN.tickers))

SITUATIONS: Mapping[str, tuple[str, Sequence[Snapshot]]] = {
    "It ticks": ("Clock", [ticking(readings.TICKER, resolution=None, interval=None)]),
    "Ticks fail through an apiserver": ("Clock", [SNAPSHOT]),
    "Ticks are slow": ("Clock", [ticking(readings.TICKER, resolution=0.304)]),
    "It has stopped": ("Clock", [ticking(STOPPED)]),
    "It has stopped, and an apiserver without a ticker is silent": (
        "Clock",
        [replace(ticking(STOPPED), apiservers=(replace(SILENT, name="10.0.0.9:6443"),))],
    ),
    "None of its apiservers answers: this process is not to blame": (
        "Clock",
        [replace(ticking(STOPPED), apiservers=(SILENT,))],
    ),
    "The storage answers none of its apiservers: this process is not to blame": (
        "Clock",
        [replace(ticking(STOPPED), causes=(replace(readings.SNAPSHOT.causes[0], cause=Cause.STORAGE_SLOW),))],
    ),
    "There are two clocks": ("Clock", [replace(SNAPSHOT, domains=(readings.DOMAIN, readings.BLIND))]),
    # Witnesses
    "All witnesses are reached": ("Witnesses", witnesses(2, 2, None)),
    "The only witness is reached": ("Witnesses", witnesses(1, 1, None)),
    "No witness is reached": ("Witnesses", witnesses(2, 0, "No answer came.")),
    "Some witnesses are reached": ("Witnesses", witnesses(2, 1, "No answer came.")),
    "The addresses of witnesses are unknown": ("Witnesses", witnesses(0, 0, "It is forbidden.")),
    "There are no other apiservers": ("Witnesses", witnesses(0, 0, None)),
    "Witnesses are not wanted": ("Witnesses", [monitor(witnesses=None)]),
    # Own lag
    "Nothing is known at first": ("Own lag", [SNAPSHOT]),
    "Only beats before the last minute were late": (
        "Own lag",
        [monitor(loop_lag=lag(0, 500)), monitor(loop_lag=lag(1200, 500))],
    ),
    "Some beats were late": ("Own lag", [monitor(loop_lag=lag(0, 0)), monitor(loop_lag=lag(98, 2))]),
    "Events were tainted": (
        "Own lag",
        [monitor(loop_lag=lag(0, 0)), monitor(loop_lag=lag(98, 2), tainted_seconds=3.5)],
    ),
    # Measured events
    "Most were measured; initial ones do not count": ("Measured events", [events(0, 0), events(1970, 30)]),
    "Too many were not measured": ("Measured events", [events(0, 0), events(94, 6)]),
    "A watch that started again": ("Measured events", [events(5000, 900), events(99, 1)]),
    "There was none": ("Measured events", [events(5, 5), events(5, 5)]),
    "The domain has just become known": ("Measured events", [PENDING, events(0, 900)]),
    "The domain became known some seconds ago": ("Measured events", [PENDING, events(0, 900), events(50, 900)]),
    "The domain became known a minute ago": (
        "Measured events",
        [PENDING, *[events(0, 900)] * MINUTE_POINTS, events(100, 900)],
    ),
    # Others
    "Silent watches are audited": ("Audits", [SNAPSHOT]),
    "Audits are off": ("Audits", [monitor(stall_detection=None)]),
    "The configuration is in force": ("Configuration", [SNAPSHOT]),
    "The file was refused": ("Configuration", [monitor(reload_succeeded=False)]),
    **{
        f"The storage is {kind}": ("Storage", [replace(SNAPSHOT, domains=(domain(kind=kind),))]) for kind in StorageKind
    },
    "One of three storages is polled, and one was never read": (
        "Storage",
        [replace(SNAPSHOT, domains=(readings.DOMAIN, POLLED, domain(name="pods", revision=None)))],
    ),
    "Revisions are unproven": ("Revisions", [SNAPSHOT]),
}


def found(prefix: str, snapshots: Sequence[Snapshot]) -> list[SelfCheck]:
    """Return the checks whose names have this prefix, as of the last of the snapshots."""
    trust = SelfChecks()
    *_, last = (trust.checks(snapshot) for snapshot in snapshots)
    return [check for check in last if check.name.startswith(prefix)]


def test_self_checks_are_those_of_the_golden_file(golden: Callable[[str, str], None]) -> None:
    paragraphs = {name: found(*situation) for name, situation in SITUATIONS.items()}
    good, unknown, bad = (SelfCheck(level.name.title(), level, "…") for level in (Level.GOOD, Level.UNKNOWN, Level.BAD))
    paragraphs |= {
        "All checks pass": [summary([good], measuring=True)],
        "A check is unknown": [summary([good, unknown], measuring=True)],
        "Nothing is measured": [summary([good, unknown], measuring=False)],
        "Checks failed": [summary([unknown, bad, good, bad], measuring=False)],
    }
    golden("self-checks.txt", of_states({name: _lines(checks) for name, checks in paragraphs.items()}))


def _lines(checks: Sequence[SelfCheck]) -> list[str]:
    return [f"{one.name}: {one.level.value}. {one.text}" for one in checks] or ["(no check)"]
