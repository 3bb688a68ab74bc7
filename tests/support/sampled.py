"""The daemon under test that notes the bounds of its samples, and whether what writers know agrees with them."""

import json
import sys
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
    """An event that one apiserver sent, received `at` (monotonic): its latency was said to be `least` to `most`."""

    apiserver: str
    watch: str
    revision: int
    at: float
    least: float
    most: float

    def contradicts(self, write: Write) -> bool:
        """Whether no commit between the moments that the writer noted agrees with it."""
        return self.least > self.at - write.before or self.most < self.at - min(write.after, self.at)


class Sampled(Daemon):
    """A daemon that notes its samples; `keys` are those of its configuration."""

    def __init__(self, folder: Path, kubeconfig: Path, **keys: Any) -> None:
        folder.mkdir(exist_ok=True)
        super().__init__(folder, "--config", config_file(folder, **keys), "--kubeconfig", kubeconfig)
        self._notes = folder / "samples.jsonl"
        _, *arguments = self.process.command
        self.process = Process(folder, "watchslo", [sys.executable, SAMPLING, self._notes, *arguments])

    def all_samples(self) -> Iterator[Sample]:
        """Every sample so far."""
        with self._notes.open() as file:
            for line in file:
                if line.endswith("\n"):  # the last one may be half written
                    note = json.loads(line)
                    columns = (note[name] for name in ("revisions", "at", "least", "most"))
                    yield from (Sample(note["apiserver"], note["watch"], *row) for row in zip(*columns, strict=True))

    def contradictions(self, writes: Iterable[Write]) -> tuple[int, list[tuple[Sample, Write]]]:
        """How many samples are of these writes, and those of them that cannot be true, with the write."""
        by_revision = {write.revision: write for write in writes}
        pairs = [
            (sample, by_revision[sample.revision]) for sample in self.all_samples() if sample.revision in by_revision
        ]
        return len(pairs), [(sample, write) for sample, write in pairs if sample.contradicts(write)]
