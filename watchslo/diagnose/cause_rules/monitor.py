"""Finds that watchslo itself is late."""

from collections.abc import Collection, Iterator

from watchslo.diagnose.evidence import Evidence, Key
from watchslo.diagnose.finding import Finding
from watchslo.snapshot import Cause, Confidence

OVERLOADED_SHARE = 0.12  # of the last seconds in which watchslo itself was late
CERTAIN_OVERLOADED_SHARE = 0.17  # for high confidence


def monitor_overloaded(evidence: Evidence, _: Collection[Key]) -> Iterator[Finding]:
    """Watchslo itself was late."""
    if evidence.tainted >= OVERLOADED_SHARE:
        confidence = Confidence.HIGH if evidence.tainted >= CERTAIN_OVERLOADED_SHARE else Confidence.MEDIUM
        sentence = f"watchslo itself was late for {evidence.tainted:.0%} of the last seconds and measured nothing then."
        yield Finding(Cause.MONITOR_OVERLOADED, None, None, confidence, sentence)
