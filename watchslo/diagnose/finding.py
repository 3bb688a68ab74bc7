"""What a rule finds."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from watchslo.diagnose.evidence import Evidence, Key
from watchslo.diagnose.own_figures import OwnEvidence
from watchslo.snapshot import Cause, Confidence


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause found in one evaluation; `explains` holds the watches whose delay it accounts for.

    `own` is what the apiservers' own metrics say of it.
    """

    cause: Cause
    apiserver: str | None
    watch: str | None
    confidence: Confidence
    evidence: str
    explains: frozenset[Key] = frozenset()
    own: OwnEvidence | None = None


CauseRule = Callable[[Evidence, Collection[Key]], Iterable[Finding]]
"""Finds a cause in the evidence; the keys are the watches that no rule has explained yet."""
