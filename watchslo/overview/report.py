"""What one instance reports: the parts of its `/api/v1/status` that are compared with those of other instances. Pure.

The classes are decoded from JSON; fields that are not named here are ignored, and what older daemons do not send has a
default.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import msgspec

from watchslo.documents import decode_document
from watchslo.errors import UNDECODABLE
from watchslo.model import shard_name
from watchslo.timeline.verdict import Level

NOT_JUDGED = "It has not judged its watches yet."


class UnreadableReportError(Exception):
    """The answer is not the status of a daemon, or of an unknown version of the API."""


class _Reported(msgspec.Struct, rename="camel", frozen=True):
    """Decoded from camelCase."""


class ReportedQuantile(_Reported, frozen=True):
    """Proven bounds of a quantile in seconds; an infinite upper bound is None."""

    q: float
    lower: float
    upper: float | None


class ReportedWindow(_Reported, frozen=True):
    """The quantiles of the window that is judged."""

    quantiles: tuple[ReportedQuantile, ...]


class ReportedObjective(_Reported, frozen=True):
    """What the quantile of the last `window` seconds is compared with."""

    threshold: float
    quantile: float = 0.99
    window: float = 60.0


class ReportedLatency(_Reported, frozen=True):
    """How late the events of a watch are, and the verdict on that."""

    objective: ReportedObjective
    judged: ReportedWindow | None = None
    verdict: str | None = None

    @property
    def bounds(self) -> ReportedQuantile | None:
        """The quantile that the objective names."""
        quantiles = self.judged.quantiles if self.judged else ()
        return next((one for one in quantiles if one.q == self.objective.quantile), None)


class ReportedStream(_Reported, frozen=True):
    """One watch."""

    watch: str
    group: str
    resource: str
    apiserver: str
    latency: ReportedLatency


class ReportedTicker(_Reported, frozen=True):
    """Whether an apiserver answers ticks: `answered_ago` is None before the first answer."""

    apiserver: str
    answered_ago: float | None = None
    failure: str | None = None


class ReportedDomain(_Reported, frozen=True):
    """The ticks of one clock."""

    tickers: tuple[ReportedTicker, ...] = ()


class ReportedVerdict(_Reported, frozen=True):
    """The headline of the instance."""

    level: str
    text: str
    figures: str = ""


class ReportedBuild(_Reported, frozen=True):
    """The running code."""

    version: str


class ReportedShard(_Reported, frozen=True):
    """The share of the watches that the instance runs."""

    index: int = 0
    count: int = 1


class ReportedName(_Reported, frozen=True):
    """Which instance it is."""

    cluster: str | None = None
    part: str | None = None
    node: str | None = None
    host: str = ""


class ReportedMonitor(_Reported, frozen=True):
    """The daemon itself."""

    build: ReportedBuild
    cluster: str | None = None
    shard: ReportedShard = ReportedShard()
    instance: ReportedName = ReportedName()


class ReportedStatus(_Reported, frozen=True, dict=True):
    """The status of one instance; `at` is when it last judged its watches, by its own clock."""

    at: datetime
    monitor: ReportedMonitor
    domains: tuple[ReportedDomain, ...]
    streams: tuple[ReportedStream, ...]
    verdict: ReportedVerdict | None = None

    @property
    def headline(self) -> ReportedVerdict:
        return self.verdict or ReportedVerdict(Level.UNKNOWN, NOT_JUDGED)

    @cached_property
    def level(self) -> Level:
        """The level of its verdict; unknown for a level that this version does not know."""
        return Level(self.headline.level) if self.headline.level in [*Level] else Level.UNKNOWN

    @property
    def cluster(self) -> str | None:
        return self.monitor.instance.cluster or self.monitor.cluster

    @property
    def part(self) -> str | None:
        """What the instance measures; older daemons only send the numbers of their shard."""
        shard = self.monitor.shard
        return self.monitor.instance.part or (shard_name(shard.index, shard.count) if shard.count > 1 else None)


@dataclass(frozen=True, slots=True)
class InstanceReport:
    """The newest status that an instance has sent, None if it never did, and for how many seconds that has been so.

    `failure` says why it does not answer now; None if it does. `address` is its URL.
    """

    address: str
    status: ReportedStatus | None = None
    age: float = 0.0
    failure: str | None = None


def read_report(body: bytes) -> ReportedStatus:
    """Return the status in the answer of an instance; raises UnreadableReportError."""
    try:
        return decode_document(body, ReportedStatus)
    except UNDECODABLE:
        raise UnreadableReportError from None
