"""What an observed daemon wrote down, held against what the writers know."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from tests.support.writer import Write

THRESHOLD_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Span:
    """Revisions after one and up to another that were reported as missed, at a time."""

    after: int
    until: int
    at: float


@dataclass(frozen=True, slots=True)
class Sample:
    """An event that was measured: its latency was said to be between `least` and `most`."""

    revision: int
    at: float
    least: float
    most: float


@dataclass(slots=True)
class Notes:
    """All that was noted so far: when each revision was seen, by watch; gaps, by watch; samples; counts of tasks.

    Of a storage that went back nobody knows to where: that a reset was reported says that all is missed up to the list
    which followed it. `resets` are the watches whose list is yet to come.
    """

    seen: dict[str, dict[int, list[float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    gaps: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    resets: set[str] = field(default_factory=set)
    samples: list[Sample] = field(default_factory=list)
    tasks: list[tuple[float, int]] = field(default_factory=list)

    def add(self, note: dict[str, Any]) -> None:
        match note:
            case {"kind": "seen", "watch": watch, "at": at, "revisions": revisions}:
                for revision in revisions:
                    self.seen[watch][revision].append(at)
            case {"kind": "fact", "fact": "Gap", "watch": watch, "at": at, "told": told}:
                self.gaps[watch].append(Span(told["after"], told["until"], at))
            case {"kind": "fact", "fact": "Relisted", "watch": watch, "told": {"reason": "domain_reset"}}:
                self.resets.add(watch)
            case {"kind": "fact", "fact": "ListDone", "watch": watch, "at": at, "told": told} if watch in self.resets:
                self.resets.remove(watch)
                self.gaps[watch].append(Span(0, told["revision"], at))
            case {"kind": "samples", "revisions": revisions, "at": at, "least": least, "most": most}:
                self.samples.extend(Sample(*row) for row in zip(revisions, at, least, most, strict=True))
            case {"kind": "tasks", "at": at, "count": count}:
                self.tasks.append((at, count))
            case _:
                pass

    def saw(self, watch: str, write: Write) -> bool:
        """Whether the event of this write came; a storage that went back gives its revisions twice."""
        assert write.revision is not None
        return any(at >= write.before for at in self.seen[watch].get(write.revision, ()))

    def reported(self, watch: str, write: Write) -> bool:
        """Whether this write is inside a gap that was reported after it."""
        assert write.revision is not None
        return any(span.after < write.revision <= span.until and span.at >= write.before for span in self.gaps[watch])

    def first_seen(self, watch: str, writes: Iterable[Write]) -> float:
        """When the first event of any of these writes came; infinite if none has."""
        times = (at for write in writes for at in self.seen[watch].get(write.revision or 0, ()) if at >= write.before)
        return min(times, default=inf)


class NotesFile:
    """Reads what a daemon notes, while it does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._notes = Notes()

    def notes(self) -> Notes:
        """Everything up to now."""
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
    """What became of the writes, and whether the samples of them are true."""

    writes: int
    lost: tuple[int, ...]
    in_gaps: int
    samples: int
    wrong: tuple[tuple[Sample, Write], ...]
    false_alarms: int


def judge(notes: Notes, watch: str, writes: Sequence[Write], until: float) -> Judgement:
    """Compares revision by revision with the writers' log, which is complete `until` then; never by subtraction.

    A write is lost if its event was neither seen nor inside a gap that was reported. A sample is wrong if what it says
    excludes all that can be true: the commit was between the moments that the writer noted. It is a false alarm if it
    says more than the threshold, and that cannot be.
    """
    missed = [write for write in writes if not notes.saw(watch, write)]
    lost = tuple(write.revision or 0 for write in missed if not notes.reported(watch, write))
    by_revision: dict[int, list[Write]] = defaultdict(list)
    for write in writes:
        by_revision[write.revision or 0].append(write)
    samples = [sample for sample in notes.samples if sample.at < until]
    pairs = [(sample, cause) for sample in samples if (cause := _cause(sample, by_revision[sample.revision]))]
    wrong = tuple((sample, write) for sample, write in pairs if _is_wrong(sample, write))
    false = sum(sample.least > THRESHOLD_SECONDS >= sample.at - write.before for sample, write in pairs)
    return Judgement(len(writes), lost, len(missed) - len(lost), len(pairs), wrong, false)


def _cause(sample: Sample, writes: Iterable[Write]) -> Write | None:
    """The newest write of a sample's revision that came before it."""
    return max((write for write in writes if write.before <= sample.at), key=lambda write: write.before, default=None)


def _is_wrong(sample: Sample, write: Write) -> bool:
    return sample.least > sample.at - write.before or sample.most < sample.at - min(write.after, sample.at)
