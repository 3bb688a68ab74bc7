"""Readings of the revision clocks and of their ticks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from watchslo.snapshot.figures import HistogramReading


@dataclass(frozen=True, slots=True)
class TickerReading:
    """The ticks of one clock through one apiserver: `ticks` counts by result, `round_trips` in seconds.

    `answered_ago` is the seconds since the last answer, `failure` the reason in a sentence while ticks fail. It is
    `unusable` if ticks are answered, but not by a revision. `confirmed` is true once the ticks are known to read this
    clock's storage: only then they count. `gap` is the mean time between two ticks, in seconds. `polls` says that the
    apiserver finds the commits of other servers by a poll, which each tick starts at once.
    """

    apiserver: str
    ticks: Mapping[str, int]
    round_trips: HistogramReading
    median_round_trip: float | None
    answered_ago: float | None
    failure: str | None
    confirmed: bool
    gap: float = 0.5
    polls: bool = False
    unusable: bool = False


class ReadUse(StrEnum):
    """What a consistent read that is no tick was for, or that it contradicted the ticks and was dropped."""

    NUDGE = "nudge"
    PROBE = "probe"
    LIST = "list"
    CONTRADICTED = "contradicted"


class BurstReason(StrEnum):
    """Why ticks are sent more often: a watch is late without a known cause, or its bounds straddle the threshold."""

    LATE = "late"
    STRADDLES = "straddles"


@dataclass(frozen=True, slots=True)
class BurstWish:
    """For how many seconds ticks should be sent more often, and why."""

    reason: BurstReason
    seconds: float


class StorageKind(StrEnum):
    """What the revisions of a storage are: counts as in etcd, commit times, or counts of kine in an SQL database."""

    SEQUENCE = "sequence"
    TIMESTAMP = "timestamp"
    KINE = "kine"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DomainReading:
    """One revision clock: the resources it ticks on, the newest revision, the width of the newest commit interval.

    `resolution` is the median round trip of the fastest apiserver's ticks in seconds, or how precisely revisions
    that are times date events, if that is better: shorter latencies cannot be measured. It is None before the
    first tick. `hidden` is what ticks hid of a P99 of the last minute, in seconds. `reads` are consistent reads
    that are no ticks, by their use, `bursts` the bursts that began, by their reason, and `burst_ticks` the ticks
    that were sent in them.
    """

    name: str
    ticks_on: tuple[str, ...]
    revision: int | None
    kind: StorageKind
    interval: float | None
    resets: int
    resolution: float | None
    tickers: tuple[TickerReading, ...]
    hidden: float = 0.0
    reads: Mapping[str, int] = field(default_factory=dict)
    bursts: Mapping[str, int] = field(default_factory=dict)
    burst_ticks: int = 0
