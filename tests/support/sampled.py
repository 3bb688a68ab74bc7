"""A daemon that records the bounds of its samples, to compare them with the times of the writes."""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.daemon import Daemon, config_file
from tests.support.process import Process
from tests.support.writer import Write

SAMPLING = Path(__file__).with_name("sampling.py")


@dataclass(frozen=True, slots=True)
class Sample:
    """An event of one apiserver, received `at` (monotonic), with a reported latency of `least` to `most`."""

    apiserver: str
    watch: str
    revision: int
    at: float
    least: float
    most: float

    def contradicts(self, write: Write) -> bool:
        """Return True if no commit time within the bounds of the write agrees with the reported latency."""
        return self.least > self.at - write.before or self.most < self.at - min(write.after, self.at)


class Sampled(Daemon):
    """A daemon that records its samples; `keys` are those of its configuration."""

    def __init__(self, folder: Path, kubeconfig: Path, **keys: Any) -> None:
        folder.mkdir(exist_ok=True)
        super().__init__(folder, "--config", config_file(folder, **keys), "--kubeconfig", kubeconfig)
        self._notes = folder / "samples.jsonl"
        _, *arguments = self.process.command
        self.process = Process(folder, "watchslo", [sys.executable, SAMPLING, self._notes, *arguments])

    def all_samples(self) -> Iterator[Sample]:
        """Return all samples so far."""
        with self._notes.open() as file:
            for line in file:
                if line.endswith("\n"):  # the last one may be half written
                    note = json.loads(line)
                    columns = (note[name] for name in ("revisions", "at", "least", "most"))
                    yield from (Sample(note["apiserver"], note["watch"], *row) for row in zip(*columns, strict=True))

    def contradictions(
        self, writes: Iterable[Write], watch: str | None = None
    ) -> tuple[int, list[tuple[Sample, Write]]]:
        """Return the number of samples of these writes, and the impossible ones with their write.

        Where several etcds count revisions, name the `watch` that sees these writes. A resource that moves to another
        etcd may have a revision twice: a sample is of the newest of its writes that had begun when it arrived.
        """
        by_revision: defaultdict[int | None, list[Write]] = defaultdict(list)
        for write in writes:
            by_revision[write.revision].append(write)
        pairs = []
        for sample in self.all_samples():
            if watch in (None, sample.watch) and (candidates := by_revision.get(sample.revision)):
                begun = [write for write in candidates if write.before <= sample.at]
                pairs.append((sample, max(begun or candidates, key=lambda write: write.before)))
        return len(pairs), [(sample, write) for sample, write in pairs if sample.contradicts(write)]
