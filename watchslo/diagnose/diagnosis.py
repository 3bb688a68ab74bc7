"""Causes over time."""

from watchslo.snapshot import CauseReading, Snapshot


class Diagnosis:
    """Tells the causes of what successive snapshots show."""

    def observe(self, _snapshot: Snapshot, _now: float) -> tuple[CauseReading, ...]:
        return ()
