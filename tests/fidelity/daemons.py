"""The daemon under test, as `watchslo run` runs it, and its reports while it runs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.fidelity.truth import Look, Shares, Stamps
from tests.support.daemon import Scrape
from tests.support.observed import Observed

TIMESPAN = "watchslo_apiserver_timespan_seconds"
CREATION = "watchslo_creation_to_watch_seconds"


@dataclass(frozen=True, slots=True)
class Clock:
    """A revision clock: widths of commit intervals, mean gap between ticks, and their round trip, in seconds."""

    domain: str
    widths: tuple[float, ...]
    gap: float
    round_trip: float


@dataclass(frozen=True, slots=True)
class Report:
    """All reports of a daemon on one watch, and when it received the samples.

    `timespan` is the histogram of all samples, `creation` the histogram of the samples since `begin`. `lower` and
    `upper` have the proven bounds of each sample. `clock` dated it.
    """

    looks: tuple[Look, ...]
    timespan: Shares
    creation: Shares
    received: Stamps
    lower: Stamps
    upper: Stamps
    clock: Clock


class Reported(Observed):
    """A daemon that keeps what it reported each time that it was looked at."""

    _beginning: Scrape
    _statuses: list[Any]

    def measures(self) -> bool:
        """Return True if it has samples of all its watches."""
        return all(stream["latency"]["events"] for stream in self.status()["watches"])

    def begin(self) -> None:
        """Keep the values of its counters: events before this moment waited for the daemon to start."""
        self._beginning = self.scrape()
        self._statuses = []

    def look(self) -> None:
        """Keep its current status."""
        self._statuses.append(self.status())

    def conclude(self) -> dict[str, Report]:
        """Stop the daemon; return its reports on each watch, by label."""
        self.look()
        scrape = self.scrape()
        assert self.stop() == 0, self.process.tail()
        return {label: self._report(label, scrape) for label in self.watches}

    def _report(self, label: str, scrape: Scrape) -> Report:
        samples = [sample for sample in self.notes().samples if sample.watch == label]

        def stamps(values: Iterable[float]) -> Stamps:
            return Stamps.of({"revision": [sample.revision for sample in samples], "at": [*values]})

        return Report(
            looks=self._looks(label),
            timespan=_shares(scrape, TIMESPAN, label),
            creation=_shares(scrape, CREATION, label).since(_shares(self._beginning, CREATION, label)),
            received=stamps(sample.at for sample in samples),
            lower=stamps(sample.least for sample in samples),
            upper=stamps(sample.most for sample in samples),
            clock=self._clock(label),
        )

    def _looks(self, label: str) -> tuple[Look, ...]:
        streams = (stream for status in self._statuses for stream in status["watches"] if stream["watch"] == label)
        return tuple({look.total: look for look in map(Look.at, streams)}.values())

    def _clock(self, label: str) -> Clock:
        (name,) = {
            stream["domain"] for status in self._statuses for stream in status["watches"] if stream["watch"] == label
        }
        first, *_, last = domains = [_domain(status, name) for status in self._statuses]
        began, ended = (datetime.fromisoformat(self._statuses[place]["at"]) for place in (0, -1))
        gap = (ended - began).total_seconds() / (_ticks(last) - _ticks(first))
        return Clock(name, tuple(domain["interval"] for domain in domains), gap, last["medianRoundTrip"])


def _domain(status: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return next(domain for domain in status["domains"] if domain["name"] == name)


def _ticks(domain: Mapping[str, Any]) -> int:
    """Return the number of ticks, through all apiservers and with any result."""
    return sum(sum(ticker["ticks"].values()) for ticker in domain["tickers"])


def _shares(scrape: Scrape, name: str, label: str) -> Shares:
    """Return the histogram of a watch; an empty one if the scrape has none."""
    buckets = [
        (sample.labels["le"], sample.value)
        for family in scrape.families.values()
        for sample in family.samples
        if sample.name == f"{name}_bucket" and sample.labels["watch"] == label
    ]
    finite = [(float(le), count) for le, count in buckets if le != "+Inf"]
    total = int(dict(buckets).get("+Inf", 0))
    return Shares(tuple(le for le, _ in finite), tuple(count for _, count in finite), total)
