"""The daemon under test, as `watchslo run` runs it, and what it says while it runs."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.fidelity.truth import Look, Shares, Stamps
from tests.support.daemon import Daemon, Scrape, config_file
from tests.support.process import Process

OBSERVED = Path(__file__).with_name("observed.py")
TIMESPAN = "watchslo_apiserver_timespan_seconds"
CREATION = "watchslo_creation_to_watch_seconds"


@dataclass(frozen=True, slots=True)
class Said:
    """All that a daemon said of one watch, and when it received the samples.

    `timespan` is of all samples, `creation` of those since the beginning.
    """

    looks: tuple[Look, ...]
    timespan: Shares
    creation: Shares
    received: Stamps


@dataclass(frozen=True, slots=True)
class Clock:
    """A revision clock: the widths of commit intervals, the mean gap between ticks, their round trip; in seconds."""

    widths: tuple[float, ...]
    gap: float
    round_trip: float


class Observed(Daemon):
    """A daemon whose wall clock is `ahead`, and which notes what it receives."""

    def __init__(self, folder: Path, kubeconfig: Path, watches: Sequence[Mapping[str, Any]], ahead: float) -> None:
        folder.mkdir()
        config = config_file(folder, watch=[dict(watch) for watch in watches])
        super().__init__(folder, "--config", config, "--kubeconfig", kubeconfig)
        self._notes = folder / "received.json"
        _, *arguments = self.process.command
        self.process = Process(folder, "watchslo", [sys.executable, OBSERVED, str(ahead), self._notes, *arguments])
        self._statuses: list[Any] = []

    def measures(self) -> bool:
        """Whether it has samples of all its watches by now."""
        return all(stream["latency"]["events"] for stream in self.status()["streams"])

    def begin(self) -> None:
        """Remembers what its counters say now: events that came while it was starting waited for that."""
        self._beginning = self.scrape()

    def look(self) -> None:
        """Remembers what it says now."""
        self._statuses.append(self.status())

    def conclude(self) -> tuple[dict[str, Said], Clock]:
        """Ends it; returns what it said of each watch, by label, and of its clock."""
        self.look()
        scrape = self.scrape()
        assert self.stop() == 0, self.process.tail()
        notes = json.loads(self._notes.read_bytes())
        said = {
            label: Said(
                looks=self._looks(label),
                timespan=_shares(scrape, TIMESPAN, label),
                creation=_shares(scrape, CREATION, label).since(_shares(self._beginning, CREATION, label)),
                received=Stamps.of(columns),
            )
            for label, columns in notes.items()
        }
        return said, self._clock()

    def _looks(self, label: str) -> tuple[Look, ...]:
        streams = (stream for status in self._statuses for stream in status["streams"] if stream["watch"] == label)
        return tuple({look.total: look for look in map(Look.at, streams)}.values())

    def _clock(self) -> Clock:
        (*first,), (*last,) = self._statuses[0]["domains"], self._statuses[-1]["domains"]
        assert len(first) == len(last) == 1, "the resources do not share one sequence of revisions"
        widths = tuple(status["domains"][0]["interval"] for status in self._statuses)
        began, ended = (datetime.fromisoformat(self._statuses[place]["at"]) for place in (0, -1))
        ticks = _ticks(last[0]) - _ticks(first[0])
        return Clock(widths, (ended - began).total_seconds() / ticks, last[0]["medianRoundTrip"])


def _ticks(domain: Mapping[str, Any]) -> int:
    """How many there were, through all apiservers and whatever came of them."""
    return sum(sum(ticker["ticks"].values()) for ticker in domain["tickers"])


def _shares(scrape: Scrape, name: str, label: str) -> Shares:
    """A watch's histogram; an empty one where there is none."""
    buckets = [
        (sample.labels["le"], sample.value)
        for family in scrape.families.values()
        for sample in family.samples
        if sample.name == f"{name}_bucket" and sample.labels["watch"] == label
    ]
    finite = [(float(le), count) for le, count in buckets if le != "+Inf"]
    total = int(dict(buckets).get("+Inf", 0))
    return Shares(tuple(le for le, _ in finite), tuple(count for _, count in finite), total)
