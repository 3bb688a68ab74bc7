"""Which cause? (placeholder until the diagnosis is there)."""

from watchslo.snapshot import CauseReading, Snapshot


class Diagnosis:
    """Names no cause yet."""

    def observe(self, snapshot: Snapshot, now: float) -> tuple[CauseReading, ...]:  # noqa: ARG002
        return ()
