"""Readings of the informers of other programs: how old their caches are."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from watchslo.model import Interval


class StoreVerdict(StrEnum):
    """Whether a cache is in time."""

    CURRENT = "current"
    STALE = "stale"  # our own watch had an event, which it lacks, for longer than the threshold
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class InformerReading:
    """The caches of one resource in one client, of which the worst counts.

    `staleness` bounds for how many seconds they have lacked an event; None if nothing is known. `queued` items wait for
    a handler, as the client says; None if it does not.
    """

    group: str
    resource: str
    verdict: StoreVerdict
    staleness: Interval | None = None
    queued: int | None = None


@dataclass(frozen=True, slots=True)
class ClientReading:
    """A program whose page of metrics is read: `reads` counts its pages by verdict, the worst of all its caches.

    `informers` are those of the last page that was judged, empty if that is too old. `unknown` counts, by reason, its
    caches that are not judged, and `obstacle` is a sentence about what is wrong now.
    """

    client: str
    reads: Mapping[str, int]
    informers: tuple[InformerReading, ...] = ()
    unknown: Mapping[str, int] = field(default_factory=dict)
    obstacle: str | None = None
