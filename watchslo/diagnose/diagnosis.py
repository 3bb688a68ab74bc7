"""Causes over time: what was found again and again is a cause, and it ends when it is not found any more."""

from dataclasses import dataclass

from watchslo.diagnose.evidence import Memory
from watchslo.diagnose.rules import Finding, Row, find
from watchslo.snapshot import Cause, CauseReading, Confidence, Snapshot

BEGINS = 2  # findings in a row: ten seconds
BEGINS_LATER = {Cause.UNKNOWN: 3, Cause.RELIST_STORM: 3}  # the hops have to be measured first; a change is no scatter
ENDS = 3  # times in a row that it was not found
CERTAIN = 3  # findings in a row that were sure

_Subject = tuple[Cause, str | None, str | None]


@dataclass(slots=True)
class _Suspicion:
    """What has been found, from `since` on; `confidences` are those of the last findings."""

    since: float
    finding: Finding
    next: str
    found: int = 0
    missed: int = 0
    begun: bool = False
    confidences: tuple[Confidence, ...] = ()

    def add(self, finding: Finding, row: Row) -> None:
        self.finding, self.next = finding, row.next
        self.found, self.missed = self.found + 1, 0
        self.confidences = (*self.confidences, finding.confidence)[-CERTAIN:]
        self.begun = self.begun or self.found >= BEGINS_LATER.get(finding.cause, BEGINS)

    def miss(self) -> None:
        self.found, self.missed, self.confidences = 0, self.missed + 1, self.confidences[-1:]

    @property
    def over(self) -> bool:
        return self.missed >= (ENDS if self.begun else 1)

    @property
    def confidence(self) -> Confidence:
        """The least of the last ones; at most medium until it was found often enough."""
        most = Confidence.HIGH if len(self.confidences) == CERTAIN else Confidence.MEDIUM
        return _ORDER[min(map(_ORDER.index, (most, *self.confidences)))]

    def reading(self) -> CauseReading:
        found = self.finding
        return CauseReading(
            cause=found.cause,
            apiserver=found.apiserver,
            watch=found.watch,
            confidence=self.confidence,
            since_wall=self.since,
            evidence=found.evidence,
            next=self.next.format(
                apiserver=found.apiserver or "every apiserver", watch=found.watch or "the resources that are late"
            ),
        )


_ORDER = (Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH)


class Diagnosis:
    """Tells the causes of what successive snapshots show, about one each five seconds."""

    def __init__(self) -> None:
        self._memory = Memory()
        self._suspicions: dict[_Subject, _Suspicion] = {}

    def observe(self, snapshot: Snapshot, now: float) -> tuple[CauseReading, ...]:
        """The causes at `now`, in monotonic seconds, the surest first."""
        self._memory.add(now, snapshot)
        evidence = self._memory.evidence()
        found = find(evidence) if evidence else []
        subjects = {(one.cause, one.apiserver, one.watch): (one, row) for one, row in reversed(found)}
        for subject, (finding, row) in subjects.items():
            made = _Suspicion(snapshot.at_wall, finding, row.next)
            self._suspicions.setdefault(subject, made).add(finding, row)
        for subject in self._suspicions.keys() - subjects.keys():
            self._suspicions[subject].miss()
        names = {apiserver.name for apiserver in snapshot.apiservers}
        self._suspicions = {
            subject: one
            for subject, one in self._suspicions.items()
            if not one.over and (subject[1] is None or subject[1] in names)
        }
        readings = [one.reading() for one in self._suspicions.values() if one.begun]
        causes = [*Cause]
        return tuple(sorted(readings, key=lambda one: (-_ORDER.index(one.confidence), causes.index(one.cause))))
