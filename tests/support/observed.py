"""The daemon under test: `watchslo run` with a record of what it receives, and the counters that show faults."""

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.control_plane import HOST, Port
from tests.support.daemon import LOOK_SECONDS, Daemon, Scrape, config_file
from tests.support.notes import Notes, NotesFile, samples_of
from tests.support.process import PATIENCE_SECONDS, Process
from tests.support.scribe import Scribe
from tests.support.writer import Write

OBSERVED = Path(__file__).with_name("observed_program.py")

FAULT_COUNTERS: Mapping[str, str] = {
    "watchslo_watches_closed_total": "closed {class}/{reason}",
    "watchslo_relists_total": "relist {reason}",
    "watchslo_expired_total": "expired {phase}",
    "watchslo_gap_revisions_total": "gap",
    "watchslo_unseen_changes_total": "unseen {kind}",
    "watchslo_list_fallbacks_total": "list fallback",
    "watchslo_stalls_total": "stall",
    "watchslo_watch_guarantee_violations_total": "violated {guarantee}",
    "watchslo_time_travel_total": "time travel",
    "watchslo_clock_resets_total": "clock reset",
    "watchslo_unmeasured_events_total": "unmeasured {reason}",
}
"""The counters that show faults, and their names in the matrix."""

USUAL = frozenset(
    {
        "relist start",
        "unmeasured initial",
        "unmeasured before_clock",
        "unmeasured tainted",
        "unmeasured own_queue",
        "unmeasured unsealed",
        "tick failed",
        "beyond the threshold",
    }
)
"""What a start or a busy machine may count at any time. Each sample is compared with the truth in any case."""


class Observed(Daemon):
    """A daemon that records what it receives, at its own port; without `watches` it watches what it does by default.

    Its wall clock is `ahead` (seconds). `keys` are further keys of its configuration.
    """

    def __init__(
        self,
        folder: Path,
        kubeconfig: Path,
        watches: Sequence[Mapping[str, Any]] = (),
        *,
        ahead: float = 0.0,
        **keys: Any,
    ) -> None:
        folder.mkdir()
        self._folder = folder
        self._keys = {"metrics": "full", **keys} | ({"watch": [dict(watch) for watch in watches]} if watches else {})
        self._port = Port()
        listen = f"{HOST}:{self._port.number}"
        super().__init__(folder, "--config", self.configure(), "--kubeconfig", kubeconfig, "--listen", listen)
        _, *arguments = self.process.command
        notes = folder / "notes.jsonl"
        self.process = Process(folder, "watchslo", [sys.executable, OBSERVED, notes, str(ahead), *arguments])
        self._notes = NotesFile(notes)
        self.watches = [str(watch.get("name", watch["resource"])) for watch in watches]

    def __exit__(self, *_: object) -> None:
        super().__exit__(*_)
        self._port.release()

    def configure(self, **keys: Any) -> Path:
        """Write the configuration, with these keys changed; a running daemon applies a valid one in seconds."""
        return config_file(self._folder, **self._keys | keys)

    def restart(self, seconds: float) -> None:
        """Stop it, and start it again after some seconds."""
        self.process.stop()
        time.sleep(seconds)
        started = len(self.log("listening"))
        self.process.start()
        self.process.until(lambda: len(self.log("listening")) > started, "listening")

    def notes(self) -> Notes:
        """Everything that was recorded so far."""
        return self._notes.notes()

    def verify(self, writes: Iterable[Write], least: int, watch: str | None = None) -> None:
        """Assert that at least so many samples are of these writes, and that none of them is impossible.

        Where several etcds count revisions, name the `watch` that sees these writes.
        """
        samples = [sample for sample in self.notes().samples if watch in (None, sample.watch)]
        pairs = [*samples_of(samples, writes)]
        assert len(pairs) >= least, watch
        wrong = [(sample, write) for sample, write in pairs if sample.contradicts(write)]
        assert not wrong, f"{len(wrong)} of {len(pairs)} samples cannot be true: {wrong[:3]}"

    def entries(self) -> list[dict[str, Any]]:
        """All entries of the log."""
        return [json.loads(line) for line in self.process.err.splitlines()]

    def counted(self) -> dict[str, float]:
        """The counters that show faults, summed over all watches."""
        return _counted(self.scrape())


def until_settled(daemon: Observed, watch: str, scribe: Scribe, since: float, until: float) -> list[Write]:
    """Wait until every write of this period was seen or reported as missed, and return these writes.

    Open watches do not imply this: a watch with a dead connection counts as open until an audit finds out. A write
    that is neither seen nor reported in time is found to be lost by `judge`.
    """
    writes = scribe.writes(since, until)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        notes = daemon.notes()
        if all(notes.saw(watch, write) or notes.reported(watch, write) for write in writes):
            break
        time.sleep(LOOK_SECONDS)
    return writes


def _counted(scrape: Scrape) -> dict[str, float]:
    counted: dict[str, float] = {}
    for family in scrape.families.values():
        for sample in family.samples:
            if pattern := FAULT_COUNTERS.get(sample.name):
                name = pattern.format_map(sample.labels)
                counted[name] = counted.get(name, 0.0) + sample.value
    counted["garbage"] = scrape.total("watchslo_watch_events_total", type="error")
    counted["tick failed"] = scrape.total("watchslo_clock_ticks_total", result="failed")
    counted["beyond the threshold"] = scrape.total("watchslo_slo_events_total", verdict="beyond")
    delays = "watchslo_representation_delay_seconds"
    counted["whole objects late"] = scrape.total(f"{delays}_count") - scrape.total(f"{delays}_bucket", le="0.5")
    return counted
