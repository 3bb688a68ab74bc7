"""What an observed daemon recorded, and its comparison with the log of the writers."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from tests.support.writer import Write

THRESHOLD_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Span:
    """Revisions `after` one and up to another, and the time `at` which some of them were reported as missed."""

    after: int
    until: int
    at: float


@dataclass(frozen=True, slots=True)
class Sample:
    """An event of one apiserver, received `at` (monotonic), with a proven latency of `least` to `most` seconds."""

    apiserver: str
    watch: str
    revision: int
    at: float
    least: float
    most: float

    def contradicts(self, write: Write) -> bool:
        """Return True if no commit time within the bounds of the write agrees with the reported latency."""
        return self.least > self.at - write.before or self.most < self.at - min(write.after, self.at)


@dataclass(frozen=True, slots=True)
class ReactionSample:
    """A reaction that the daemon counted: the revisions that asked for it and showed it, and the bounds of each commit.

    The bounds are monotonic seconds.
    """

    step: str
    asked: int
    acted: int
    asked_at: tuple[float, float]
    acted_at: tuple[float, float]


@dataclass(slots=True)
class Notes:
    """The record so far: arrivals of each revision, gaps and violations, all by watch; samples; counts of tasks.

    After a clock reset it is not known how far the storage went back. The reset therefore counts as a report that all
    revisions up to the next list are missed. `resets` are the watches that have not made this list yet.
    """

    seen: dict[str, dict[int, list[float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    gaps: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    violations: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    resets: set[str] = field(default_factory=set)
    samples: list[Sample] = field(default_factory=list)
    reactions: list[ReactionSample] = field(default_factory=list)
    tasks: list[tuple[float, int]] = field(default_factory=list)

    def add(self, note: dict[str, Any]) -> None:
        match note:
            case {"kind": "seen", "watch": watch, "at": at, "revisions": revisions}:
                for revision in revisions:
                    self.seen[watch][revision].append(at)
            case {"kind": "fact", "fact": "Gap", "watch": watch, "at": at, "fields": fields}:
                self.gaps[watch].append(Span(fields["after"], fields["until"], at))
            case {"kind": "fact", "fact": "Relisted", "watch": watch, "fields": {"reason": "domain_reset"}}:
                self.resets.add(watch)
            case {"kind": "fact", "fact": "ListDone", "watch": watch, "at": at, "fields": fields} if (
                watch in self.resets
            ):
                self.resets.remove(watch)
                self.gaps[watch].append(Span(0, fields["revision"], at))
            case {"kind": "violated", "watch": watch, "at": at, "oldest": oldest, "newest": newest}:
                self.violations[watch].append(Span(oldest - 1, newest, at))
            case {"kind": "samples", "apiserver": apiserver, "watch": watch, **columns}:
                rows = zip(*(columns[name] for name in ("revisions", "at", "least", "most")), strict=True)
                self.samples.extend(Sample(apiserver, watch, *row) for row in rows)
            case {"kind": "reaction", "step": step, "revisions": (asked, acted), "commits": (asked_at, acted_at)}:
                self.reactions.append(ReactionSample(step, asked, acted, tuple(asked_at), tuple(acted_at)))
            case {"kind": "tasks", "at": at, "count": count}:
                self.tasks.append((at, count))
            case _:
                pass

    def saw(self, watch: str, write: Write) -> bool:
        """Return whether the event of this write arrived; a storage that went back assigns revisions twice."""
        assert write.revision is not None
        return any(at >= write.before for at in self.seen[watch].get(write.revision, ()))

    def reported(self, watch: str, write: Write) -> bool:
        """Return whether this write is inside a gap, or a violation of a guarantee, that was reported after it."""
        return _covers(self.gaps[watch], write) or self.violated(watch, write)

    def violated(self, watch: str, write: Write) -> bool:
        """Return whether this write is among the revisions of a violation that was reported after it."""
        return _covers(self.violations[watch], write)

    def first_seen(self, watch: str, writes: Iterable[Write]) -> float:
        """Return when the first event of any of these writes arrived; infinity if none has."""
        times = (at for write in writes for at in self.seen[watch].get(write.revision or 0, ()) if at >= write.before)
        return min(times, default=inf)


def _covers(spans: Iterable[Span], write: Write) -> bool:
    assert write.revision is not None
    return any(span.after < write.revision <= span.until and span.at >= write.before for span in spans)


class NotesFile:
    """Reads the record of a daemon while the daemon writes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._notes = Notes()

    def notes(self) -> Notes:
        """Return everything up to now."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # half written
                self._read += len(line)
                self._notes.add(json.loads(line))
        return self._notes


@dataclass(frozen=True, slots=True)
class Judgement:
    """Counts of writes, the revisions that were lost, and the samples that cannot be true.

    `violated` writes were not seen, because the apiserver broke a guarantee, and the daemon reported that.
    """

    writes: int
    lost: tuple[int, ...]
    in_gaps: int
    violated: int
    samples: int
    wrong: tuple[tuple[Sample, Write], ...]
    false_alarms: int


def judge(notes: Notes, watch: str, writes: Sequence[Write], until: float) -> Judgement:
    """Compare every revision with the log of the writers, which is complete up to `until`.

    A write is lost if its event was neither seen nor inside a reported gap or violation. A sample is wrong if its
    bounds exclude every possible truth: the commit happened between the two moments in the log. A sample is a false
    alarm if its lower bound is over the threshold, and the true latency cannot be.
    """
    missed = [write for write in writes if not notes.saw(watch, write)]
    lost = tuple(write.revision or 0 for write in missed if not notes.reported(watch, write))
    pairs = [(sample, write) for sample, write in samples_of(notes.samples, writes) if sample.at < until]
    wrong = tuple((sample, write) for sample, write in pairs if sample.contradicts(write))
    false = sum(sample.least > THRESHOLD_SECONDS >= sample.at - write.before for sample, write in pairs)
    violated = sum(notes.violated(watch, write) for write in missed)
    return Judgement(len(writes), lost, len(missed) - len(lost) - violated, violated, len(pairs), wrong, false)


def samples_of(samples: Iterable[Sample], writes: Iterable[Write]) -> Iterator[tuple[Sample, Write]]:
    """Yield the samples of these writes, each with its write.

    A storage that went back, and a resource that moved to another etcd, may have a revision twice. A sample is of the
    newest of its writes that had begun when it arrived.
    """
    by_revision: dict[int | None, list[Write]] = defaultdict(list)
    for write in writes:
        by_revision[write.revision].append(write)
    for sample in samples:
        begun = [write for write in by_revision.get(sample.revision, ()) if write.before <= sample.at]
        if begun:
            yield sample, max(begun, key=lambda write: write.before)
