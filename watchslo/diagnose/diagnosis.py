"""Causes over time: a cause begins after several findings in a row, and ends after several evaluations without one."""

import math
from collections.abc import Container, Generator, Mapping
from dataclasses import dataclass

from watchslo.diagnose.cause_table import CauseTableRow, Findings, find
from watchslo.diagnose.finding import Finding
from watchslo.diagnose.memory import Memory
from watchslo.diagnose.own_figures import OwnEvidence, Weight
from watchslo.model import apiserver_text
from watchslo.snapshot import Cause, CauseReading, Confidence, Snapshot

BEGIN_FINDINGS = 2  # in a row until a cause begins: ten seconds
LATER_BEGIN_FINDINGS = {  # of causes that need more evidence
    Cause.UNKNOWN: 3,  # the hops must be measured first
    Cause.RELIST_STORM: 3,  # the beginning of a plain delay looks like scattered delays
}
END_MISSES = 3  # evaluations in a row without the finding until the cause ends
AFTERMATH_SECONDS = 30.0  # after an incident that touches everything: what is left of it looks like other causes
CERTAIN_FINDINGS = 3  # findings in a row with high confidence until the cause has it
_CLIENT_SIDE: Mapping[Cause, float] = {
    Cause.CONTROLLER_SLOW: 300.0,  # reactions have a window of five minutes
    Cause.CLIENT_CONNECTION: AFTERMATH_SECONDS,
    Cause.CLIENT_SLOW: AFTERMATH_SECONDS,
}
"""Causes in clients, and for how many seconds a delay by the server may still show as such."""

_SPARES_CLIENTS = frozenset({*_CLIENT_SIDE, Cause.HEADROOM_SHORT, Cause.MONITOR_OVERLOADED})
"""Causes that delay no event on its way to a client."""

_Subject = tuple[Cause, str | None, str | None]
_STORAGE_SLOW: _Subject = (Cause.STORAGE_SLOW, None, None)
_AFTER_ANY = (Cause.MONITOR_OVERLOADED, Cause.STORAGE_SLOW, Cause.STALLED_STREAM)  # what they rest on is no delay


@dataclass(slots=True)
class _Suspicion:
    """A cause that was found at least once; `since` is the wall time of the first finding of the row."""

    since: float
    finding: Finding
    next: str
    found: int = 0
    missed: int = 0
    begun: bool = False
    confidences: tuple[Confidence, ...] = ()

    def add(self, finding: Finding, row: CauseTableRow) -> None:
        self.finding, self.next = finding, row.next
        self.found, self.missed = self.found + 1, 0
        self.confidences = (*self.confidences, finding.confidence)[-CERTAIN_FINDINGS:]
        self.begun = self.begun or self.found >= LATER_BEGIN_FINDINGS.get(finding.cause, BEGIN_FINDINGS)

    def miss(self) -> None:
        self.found, self.missed, self.confidences = 0, self.missed + 1, self.confidences[-1:]

    @property
    def over(self) -> bool:
        return self.missed >= (END_MISSES if self.begun else 1)

    @property
    def confidence(self) -> Confidence:
        """Return the lowest of the last confidences; at most medium until there are `CERTAIN_FINDINGS`.

        The apiservers' own figures raise or lower it by one level.
        """
        most = Confidence.HIGH if len(self.confidences) == CERTAIN_FINDINGS else Confidence.MEDIUM
        level = min(map(_ORDER.index, (most, *self.confidences)))
        match self.own:
            case OwnEvidence(weight=Weight.CONFIRM, most=limit):
                level = max(level, min(level + 1, _ORDER.index(limit)))
            case OwnEvidence(weight=Weight.CONTRADICT):
                level = max(level - 1, 0)
        return _ORDER[level]

    @property
    def own(self) -> OwnEvidence | None:
        """What the apiservers' own metrics say, if they cover a time in which the cause was already found."""
        own = self.finding.own
        return own if own is not None and own.since_wall >= self.since else None

    def reading(self) -> CauseReading:
        found = self.finding
        return CauseReading(
            cause=found.cause,
            apiserver=found.apiserver,
            watch=found.watch,
            confidence=self.confidence,
            since_wall=self.since,
            evidence=f"{found.evidence} {self.own.sentence}" if self.own else found.evidence,
            next=self.next.format(
                apiserver=apiserver_text(found.apiserver) if found.apiserver else "every apiserver",
                watch=found.watch or "the late resources",
            ),
        )


_ORDER = (Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH)


class Diagnosis:
    """Finds the causes in successive snapshots, of which there is about one every five seconds."""

    def __init__(self) -> None:
        self._memory = Memory()
        self._suspicions: dict[_Subject, _Suspicion] = {}
        self._incidents: dict[str | None, float] = {}  # when one was seen last, by apiserver; None stands for all
        self._server_late = -math.inf  # when a delay by the server was seen last

    def observe(self, snapshot: Snapshot, now: float) -> Generator[None, None, tuple[CauseReading, ...]]:
        """Return the causes at `now`, in monotonic seconds, the most certain first; pause after short steps."""
        yield from self._memory.add(now, snapshot)
        evidence = yield from self._memory.evidence(snapshot)
        found: Findings = (yield from find(evidence)) if evidence else ()
        # The processes of apiservers that refuse connections have ended: there is nothing to find.
        ended = {apiserver.name for apiserver in snapshot.apiservers if apiserver.refuses}
        running = [(finding, row) for finding, row in reversed(found) if finding.apiserver not in ended]
        subjects = {(finding.cause, finding.apiserver, finding.watch): (finding, row) for finding, row in running}
        self._note_incidents(snapshot, now, subjects)
        if any(cause not in _SPARES_CLIENTS for cause, *_ in subjects):
            self._server_late = now
        for subject, (finding, row) in subjects.items():
            if subject not in self._suspicions and self._is_aftermath(finding, now):
                continue
            made = _Suspicion(snapshot.at_wall, finding, row.next)
            self._suspicions.setdefault(subject, made).add(finding, row)
        for subject in self._suspicions.keys() - subjects.keys():
            self._suspicions[subject].miss()
        names = {apiserver.name for apiserver in snapshot.apiservers}
        self._suspicions = {
            subject: suspicion
            for subject, suspicion in self._suspicions.items()
            if not suspicion.over and (subject[1] is None or subject[1] in names)
        }
        readings = [suspicion.reading() for suspicion in self._suspicions.values() if suspicion.begun]
        causes = [*Cause]
        return tuple(
            sorted(readings, key=lambda reading: (-_ORDER.index(reading.confidence), causes.index(reading.cause)))
        )

    def _note_incidents(self, snapshot: Snapshot, now: float, found: Container[_Subject]) -> None:
        """Note when the storage was last found slow, and when each apiserver was last silent or away."""
        storage = self._suspicions.get(_STORAGE_SLOW)
        silent = [
            apiserver.name
            for apiserver in snapshot.apiservers
            if apiserver.refuses or apiserver.unresponsive_for is not None
        ]
        slow = [None] if storage is not None and storage.begun and _STORAGE_SLOW in found else []
        self._incidents |= dict.fromkeys((*slow, *silent), now)
        self._incidents = {place: at for place, at in self._incidents.items() if now - at < AFTERMATH_SECONDS}

    def _is_aftermath(self, finding: Finding, now: float) -> bool:
        """Return True if an incident has just ended at all places of a finding."""
        if finding.cause in _CLIENT_SIDE:
            return now - self._server_late < _CLIENT_SIDE[finding.cause]
        ended = {place for place, at in self._incidents.items() if at < now}
        places = {finding.apiserver} if finding.apiserver else {apiserver for apiserver, _ in finding.explains}
        is_over = None in ended or (bool(places) and places <= ended)
        return is_over and finding.cause not in _AFTER_ANY
